"""Stands in for a file that Transformers' sdist leaves out: processes of one group, on the CPU and with gloo."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def _get_distributed_device_type() -> str:
    return "cpu"


def _get_distributed_backend() -> str:
    return "gloo"


def _get_rank_device(rank: int) -> torch.device:
    return torch.device("cpu")


def _set_rank_device(rank: int) -> None:
    pass


def _start_rank_processes(function, args: tuple, nprocs: int) -> None:
    """Runs `function(rank, *args)` in `nprocs` processes and waits for them; raises what one of them raises."""
    # Forks of a server that has imported, once for all tests, what takes seconds to import
    mp.set_forkserver_preload(["transformers.testing_utils", "tinyseq"])
    mp.start_processes(function, args=args, nprocs=nprocs, start_method="forkserver")


def _run_in_group(rank: int, function, args: tuple, world_size: int, port: int) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore("localhost", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    function(rank, *args)
    dist.barrier()
    dist.destroy_process_group()


def run_distributed(world_size: int):
    """Returns a decorator: calling the function runs `function(rank, *args)` in a group of `world_size` processes."""

    def decorate(function):
        def run(*args) -> None:
            # This process holds the port: nobody else can take it while the others start
            store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
            _start_rank_processes(_run_in_group, (function, args, world_size, store.port), world_size)

        return run

    return decorate
