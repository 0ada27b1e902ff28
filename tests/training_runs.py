"""Runs of train.py that a test can hurt while they go on.

A run is begun by its real command, or forked from a server that has all modules loaded, which spares the seconds that
each start takes. Then one process plays each rank, as torchrun would start it.
"""

import functools
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import torch

from tinyseq import grammar

ROOT = Path(__file__).parents[1]
TRAIN = ROOT / "train.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
ACCELERATE = [sys.executable, "-m", "accelerate.commands.launch"]
SIZES = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 1,
    "encoder_attention_heads": 2, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 20, "vocab_size": 400, "max_position_embeddings": 64, "num_beams": 2,
    "batch_size_tokens": 256, "eval_pairs": 6,
}  # fmt: skip
TINY = [part for name, value in SIZES.items() for part in (f"--{name}", str(value))]
# What a run imports, and the tests that break something in it; FSDP's parts of torch come at the first use of them
PRELOADED = ["train", "pytest", "sacrebleu.metrics", "torch.distributed.fsdp", "torch.distributed.tensor"]
SECONDS = 120  # for whatever should take one or a few, on a machine that is busy with other things


class Run:
    """A run that goes on in the background.

    Attributes:
        output: What its processes have written, on either stream.
        processes: Those that were started here: the ranks of a forked run, or the launcher.
    """

    begun: list["Run"] = []  # by the test that goes on now

    def __init__(self, output: Path):
        self.output = output
        self.processes: list = []
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(b"")
        Run.begun.append(self)

    @classmethod
    def launched(cls, command, output: Path, cwd: Path = ROOT, **environment: str) -> "Run":
        """Begins a run by a command of its own, in a session of its own, one thread per process."""
        run = cls(output)
        with output.open("ab") as stream:
            run.processes = [
                subprocess.Popen(
                    [str(part) for part in command], cwd=cwd, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL,
                    env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, start_new_session=True,
                )
            ]  # fmt: skip
        return run

    @classmethod
    def forked(cls, arguments, output: Path, ranks: int = 1, each=None) -> "Run":
        """Begins a run of so many ranks, in processes that are forked from one which has loaded all modules.

        `each` gives a rank further arguments, its working folder or what to break in it, by the rank's number:
        `{1: (["--seed", 2], folder, function)}`.
        """
        run = cls(output)
        parts = []
        for rank in range(ranks):
            more, cwd, sabotage = (each or {}).get(rank, ([], None, None))
            command = [str(part) for part in (*arguments, *more)]
            parts.append((functools.partial(train, command, sabotage), cwd or ROOT))
        run.fork(parts)
        return run

    @classmethod
    def of(cls, action, output: Path, ranks: int = 1) -> "Run":
        """Begins so many processes, forked likewise, that call `action()` instead of training."""
        run = cls(output)
        run.fork([(action, ROOT)] * ranks)
        return run

    def fork(self, parts) -> None:
        """Forks a process for each rank, which does its part: calls a function in a folder."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        port = free_port()
        for rank, (action, cwd) in enumerate(parts):
            variables = {
                "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": len(parts), "LOCAL_WORLD_SIZE": len(parts),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
            } if len(parts) > 1 else {}  # fmt: skip
            process = context.Process(target=play_rank, args=(action, self.output, variables, cwd))
            process.start()
            self.processes.append(process)

    @property
    def text(self) -> str:
        return self.output.read_text(encoding="utf-8")

    @property
    def is_over(self) -> bool:
        return not any(exit_code(process) is None for process in self.processes)

    def alive(self) -> list[psutil.Process]:
        """Returns all processes that belong to it: launchers, ranks and those that load data, orphans too."""
        found = []
        for process in psutil.process_iter():
            try:
                is_ours = os.getsid(process.pid) in {started.pid for started in self.processes} or (
                    str(self.output.parent) in " ".join(process.cmdline())
                )
                if is_ours and process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                    found.append(process)
            except (psutil.Error, OSError):  # it has ended in the meantime
                continue
        return found

    def rank(self, number: int) -> psutil.Process:
        """Returns one of the processes that train, of a run that was begun by torchrun."""
        started = psutil.Process(self.processes[0].pid).children(recursive=True)
        return next(process for process in started if process.environ().get("RANK") == str(number))

    def wait_until(self, condition, seconds: float = SECONDS, every: float = 0.01) -> None:
        """Waits until `condition()` holds."""
        end = time.monotonic() + seconds
        while not condition():
            assert not self.is_over, f"it ended too early\n{self.text}"
            assert time.monotonic() < end, f"waited {seconds} s in vain\n{self.text}"
            time.sleep(every)

    def end(self, seconds: float = SECONDS) -> list[int]:
        """Waits for its end, and that of all its processes, and returns the exit codes of those started here."""
        end = time.monotonic() + seconds
        while not self.is_over or self.alive():
            if time.monotonic() > end:
                left = [" ".join(process.cmdline()) for process in self.alive()]
                self.kill()
                raise AssertionError(f"{len(left)} processes are still there after {seconds} s: {left}\n{self.text}")
            time.sleep(0.02)
        return [exit_code(process) for process in self.processes]

    def kill(self) -> None:
        """Ends all its processes by SIGKILL, as a machine that goes down does."""
        for process in self.alive():
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        for process in self.processes:
            process.join(SECONDS) if hasattr(process, "join") else process.wait(SECONDS)


def exit_code(process) -> int | None:
    """Returns the exit code of a process of either kind, or `None` while it runs."""
    return process.exitcode if hasattr(process, "exitcode") else process.poll()


def play_rank(action, output: Path, variables: dict, cwd: Path) -> None:
    """What a forked process does: it becomes one that a command has begun, in a session of its own."""
    os.setsid()
    descriptor = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.environ.update({name: str(value) for name, value in variables.items()}, OMP_NUM_THREADS="1")
    torch.set_num_threads(1)  # which that variable no longer decides: torch is loaded
    os.chdir(cwd)
    multiprocessing.set_start_method("fork", force=True)  # processes that load data shall have all modules too
    action()


def train(arguments: list[str], sabotage=None) -> None:
    """What `python train.py ARGUMENTS` does, but for the curve: Matplotlib takes longer than the rest of the run."""
    import train as script
    from tinyseq.training.log import RunLog

    RunLog.draw = lambda log: None
    if sabotage is not None:
        sabotage()
    script.main(arguments)


def free_port() -> int:
    """Returns a port of this machine that nobody uses now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def write_pairs(path: Path, count: int, split: str = "train") -> Path:
    """Writes so many pairs of the built-in corpus as a TSV."""
    pairs = grammar.generate(split, count)
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), encoding="utf-8")
    return path


def log_of(folder: Path) -> list[dict]:
    """Returns the lines of a run's log that are there now, without what a clock says."""
    path = folder / "log.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [{name: value for name, value in line.items() if "seconds" not in name and "_per_second" not in name}
            for line in lines]  # fmt: skip


def has_reached(folder: Path, step: int):
    """Returns a condition: the log tells of update `step`."""
    return lambda: any(line["step"] >= step for line in log_of(folder))


def outcome(folder: Path) -> dict[str, bytes | list]:
    """Returns all that a run has learned and says of it, but for seconds."""
    found: dict[str, bytes | list] = {
        f"{name}/model.safetensors": (folder / name / "model.safetensors").read_bytes() for name in ("best", "last")
    }
    found |= {path.name: path.read_bytes() for path in folder.glob("batches-*.jsonl")}
    return {**found, "log.jsonl": log_of(folder)}


def assert_same_outcome(folder: Path, unbroken: Path, text: str) -> None:
    """Compares two runs, bit for bit."""
    ours, theirs = outcome(folder), outcome(unbroken)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name] == theirs[name], f"{name} of {folder} is not that of the unbroken run\n{text}"
