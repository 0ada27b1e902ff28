"""Training on two machines that share nothing: each has its own folders, its own copy of the data, its own cache.

The first machine alone writes models and checkpoints. Two launchers on one machine play them; where the system lets a
test make network namespaces (on Linux, as root), they also get a network of their own.
"""

import os
import shutil
import signal
import subprocess
import sys

import pytest
from training_runs import (
    ACCELERATE,
    SECONDS,
    TINY,
    TORCHRUN,
    TRAIN,
    Run,
    free_port,
    has_reached,
    outcome,
    write_pairs,
)

OPTIONS = [
    "--valid_pairs", 20, *TINY, "--max_steps", 24, "--log_steps", 1, "--save_steps", 4, "--eval_steps", 9, "--resume",
]  # fmt: skip


@pytest.fixture
def machines(tmp_path):
    """Two folders, each with the same 200 pairs at another place."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder, place in zip(folders, ("data", "elsewhere"), strict=True):
        (folder / place).mkdir(parents=True)
        write_pairs(folder / place / "pairs.tsv", 200)
    return folders


def options_of(number):
    """What the command of each machine ends with: paths of its own, relative to its working folder."""
    return ["--train", ("data", "elsewhere")[number] + "/pairs.tsv", "--output_dir", ("run", "my_run")[number]]


@pytest.fixture
def alone(machines, tmp_path):
    """What one process makes of it, with the same number of pairs in an update."""
    folder = tmp_path / "alone"
    arguments = ["--train", machines[0] / "data" / "pairs.tsv", *OPTIONS, "--gradient_accumulation_steps", 2]
    run = Run.forked([*arguments, "--output_dir", folder], tmp_path / "alone.out")
    assert run.end() == [0], run.text
    return folder


def assert_same_weights(folder, other, text):
    """Compares the models of two runs, bit for bit; sums over processes may make the log differ in its last digit."""
    for name in ("best/model.safetensors", "last/model.safetensors"):
        assert outcome(folder)[name] == outcome(other)[name], text


def end_all(runs):
    return [code for run in runs for code in run.end()]


def test_machines_with_folders_of_their_own_stop_resume_and_end_as_one_process_does(machines, alone, tmp_path):
    each = {number: (options_of(number), folder, None) for number, folder in enumerate(machines)}
    run = Run.forked(OPTIONS, tmp_path / "out", 2, each)
    run.wait_until(has_reached(machines[0] / "run", 10))
    os.kill(run.processes[1].pid, signal.SIGTERM)
    assert run.end() == [143, 143], run.text
    run = Run.forked(OPTIONS, tmp_path / "out", 2, each)
    assert run.end() == [0, 0], run.text
    assert "on 2 processes" in run.text
    assert run.text.count("goes on from run/checkpoints/step-") == 1  # said by the first alone
    assert_same_weights(machines[0] / "run", alone, run.text)
    assert not (machines[1] / "my_run").exists()


def test_a_run_whose_checkpoints_lie_on_the_second_machine_does_not_begin_anew(machines, tmp_path):
    """The machines have changed places, as a rendezvous without fixed ranks may have them do."""
    for places in ((0, 1), (1, 0)):
        each = {rank: (options_of(number), machines[number], None) for rank, number in enumerate(places)}
        run = Run.forked(OPTIONS, tmp_path / "out", 2, each)
        codes = run.end()
        if places == (0, 1):
            assert codes == [0, 0], run.text
    assert codes == [1, 1], run.text
    assert (
        "process 1 has the checkpoint of update 24 in its folder, and process 0, which reads and writes them, has "
        in (run.text)
    )
    assert not (machines[1] / "my_run" / "checkpoints").exists()


def launch(machines, command_of, before=lambda number: [], **environment):
    """Begins a launcher on each machine."""
    return [
        Run.launched(
            [*before(number), *command_of(number), TRAIN, *OPTIONS, *options_of(number)], folder / "out", cwd=folder,
            HF_HOME=str(folder / "cache"), **{name: value(number) for name, value in environment.items()},
        )
        for number, folder in enumerate(machines)
    ]  # fmt: skip


def torchrun_of(address, port):
    return lambda number: [
        *TORCHRUN, "--nnodes", 2, "--node_rank", number, "--nproc_per_node", 1,
        "--master_addr", address, "--master_port", port,
    ]  # fmt: skip


def accelerate_of(address, port):
    return lambda number: [
        *ACCELERATE, "--multi_gpu", "--num_machines", 2, "--machine_rank", number, "--num_processes", 2,
        "--main_process_ip", address, "--main_process_port", port,
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command_of", [torchrun_of, accelerate_of])
def test_two_launchers_train_stop_and_resume(machines, alone, command_of):
    runs = launch(machines, command_of("127.0.0.1", free_port()))
    runs[0].wait_until(has_reached(machines[0] / "run", 10))
    runs[1].processes[0].send_signal(signal.SIGTERM)
    assert 0 not in end_all(runs)
    assert "stopped by SIGTERM at update" in runs[0].text
    runs = launch(machines, command_of("127.0.0.1", free_port()))
    assert end_all(runs) == [0, 0], runs[0].text + runs[1].text
    assert "on 2 processes" in runs[0].text
    assert "goes on from run/checkpoints/step-" in runs[0].text
    assert_same_weights(machines[0] / "run", alone, runs[0].text)


@pytest.fixture
def network():
    """Two network namespaces with a cable between them."""
    names, addresses = ["tinyseq0", "tinyseq1"], ["10.201.7.1", "10.201.7.2"]

    def ip(*arguments):
        return subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=SECONDS)

    if not sys.platform.startswith("linux") or not shutil.which("ip"):
        pytest.skip("needs the ip command of Linux")
    made = [ip("netns", "add", name) for name in names]
    try:
        made.append(ip("link", "add", "tinyseq-0", "type", "veth", "peer", "name", "tinyseq-1"))
        for number, name in enumerate(names):
            made.append(ip("link", "set", f"tinyseq-{number}", "netns", name))
            made.append(ip("-n", name, "addr", "add", f"{addresses[number]}/24", "dev", f"tinyseq-{number}"))
            made.extend(ip("-n", name, "link", "set", device, "up") for device in (f"tinyseq-{number}", "lo"))
        for result in made:
            if result.returncode:
                pytest.skip(f"no network namespaces can be made here: {result.stderr.strip()}")
        yield names, addresses
    finally:
        for name in names:
            ip("netns", "del", name)  # and with it its end of the cable


@pytest.mark.slow
def test_machines_in_networks_of_their_own_train_together(machines, alone, network):
    names, addresses = network
    runs = launch(
        machines, torchrun_of(addresses[0], 29500), before=lambda number: ["ip", "netns", "exec", names[number]],
        GLOO_SOCKET_IFNAME=lambda number: f"tinyseq-{number}",
    )  # fmt: skip
    assert end_all(runs) == [0, 0], runs[0].text + runs[1].text
    assert "on 2 processes" in runs[0].text
    assert_same_weights(machines[0] / "run", alone, runs[0].text)
