"""Signals to any process of a run, at any moment: it ends in order, says so, and goes on as if nothing had been.

The signals of a scheduler (SIGTERM, SIGUSR1), of Ctrl-C (SIGINT) and of a closed terminal (SIGHUP); a launcher that is
killed, which can tell its workers nothing.
"""

import functools
import os
import re
import signal
import sys
import time

import pytest
from training_runs import (
    ACCELERATE,
    TINY,
    TORCHRUN,
    TRAIN,
    Run,
    assert_same_outcome,
    free_port,
    has_reached,
    log_of,
    write_pairs,
)

from tinyseq.training.checkpoint import Checkpoints

SOON = 20  # seconds from a signal to the end of all processes, on a busy machine; a quiet one takes about one
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGUSR1: 138}
LAST_STEP = 24
slow = functools.partial(pytest.param, marks=pytest.mark.slow)  # what another parameter shows as well


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Pairs to learn from; those for validation and test are so many that a signal finds the run at them."""
    folder = tmp_path_factory.mktemp("corpus")
    write_pairs(folder / "train.tsv", 400)
    write_pairs(folder / "valid.tsv", 120, "validation")
    write_pairs(folder / "test.tsv", 120, "test")
    return folder


def options(corpus, folder, *more):
    """A run of 24 updates in 3 evaluations, with a warm-up of 2 and a checkpoint at each even update."""
    return [
        "--train", corpus / "train.tsv", "--valid", corpus / "valid.tsv", "--test", corpus / "test.tsv", *TINY,
        "--eval_pairs", 120, "--max_steps", LAST_STEP, "--eval_steps", 8, "--save_steps", 2, "--log_steps", 1,
        "--log_batches", "--resume", "--output_dir", folder, *more,
    ]  # fmt: skip


MOMENTS = {
    "before the loop": lambda run, folder: (folder / "tokenizer").exists(),  # then pairs are encoded
    "warm-up": lambda run, folder: has_reached(folder, 1)(),
    "evaluation": lambda run, folder: has_reached(folder, 8)(),  # its figures come behind it
    "saving": lambda run, folder: any((folder / "checkpoints").glob(".step-*.writing")),
    "test set": lambda run, folder: "trained 24 updates" in run.text,
}


def said(text):
    """Returns the lines in which processes say why they stopped."""
    return re.findall(r"^train\.py: stopped by .*", text, re.MULTILINE)


def assert_whole_checkpoint(folder, text):
    """A run that was stopped in its loop has said at which update, the same on all ranks, and left a checkpoint."""
    lines = said(text)
    assert lines, text
    assert len(set(lines)) == 1, text
    step = int(re.search(r"at update (\d+) of 24;", lines[0])[1])
    newest = Checkpoints(folder / "checkpoints").newest_whole(lambda message: pytest.fail(message))
    assert newest == folder / "checkpoints" / f"step-{step:08d}"
    assert str(newest) in lines[0]
    assert "--resume" in lines[0]
    return step


@pytest.mark.parametrize("ranks", [slow(1), 2])
def test_a_run_that_is_stopped_at_every_kind_of_moment_ends_as_if_it_had_not_been(corpus, tmp_path, ranks):
    """Each time the last rank alone gets the signal."""
    arguments = ["--gradient_accumulation_steps", 2 // ranks]
    unbroken = Run.forked(options(corpus, tmp_path / "unbroken", *arguments), tmp_path / "unbroken.out", ranks)
    assert unbroken.end() == [0] * ranks, unbroken.text
    assert f"on {ranks} process" in unbroken.text

    folder = tmp_path / "stopped"
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGTERM, signal.SIGINT]
    for (moment, is_now), number in zip(MOMENTS.items(), numbers, strict=True):
        run = Run.forked(options(corpus, folder, *arguments), tmp_path / "stopped.out", ranks)
        run.wait_until(lambda: is_now(run, folder), every=0.002)  # noqa: B023
        os.kill(run.processes[-1].pid, number)
        if moment == "before the loop":
            # The rank that was asked to ends at once, the others when they miss it
            codes = run.end(60)
            assert codes[-1] == CODES[number], run.text
            assert all(codes), run.text
            assert "nothing is lost" in run.text
            continue
        assert run.end(SOON) == [CODES[number]] * ranks, f"{moment}: {run.text}"
        assert "Traceback" not in run.text
        step = assert_whole_checkpoint(folder, run.text)
        assert number.name in said(run.text)[0]
        if moment == "evaluation":
            assert step == 8
            assert not [line for line in log_of(folder) if "valid_bleu" in line]
        if moment == "test set":
            assert step == LAST_STEP
            assert not (folder / "test.json").exists()
    run = Run.forked(options(corpus, folder, *arguments), tmp_path / "stopped.out", ranks)
    assert run.end() == [0] * ranks, run.text
    assert "goes on from" in run.text
    assert_same_outcome(folder, tmp_path / "unbroken", run.text)
    assert (folder / "test.json").exists()


LAUNCHERS = {
    "python": lambda: [sys.executable],
    "torchrun": lambda: [*TORCHRUN, "--standalone", "--nproc_per_node", 2],
    "accelerate": lambda: [*ACCELERATE, "--cpu", "--num_processes", 1],
    "accelerate with two": lambda: [*ACCELERATE, "--multi_gpu", "--num_processes", 2, "--num_machines", 1,
                                    "--main_process_port", free_port()],
}  # fmt: skip


def long_run(corpus, folder, *more):
    """A run that would take minutes, so that a signal is sure to find it at work."""
    return [
        "--train", corpus / "train.tsv", "--valid_pairs", 20, *TINY, "--max_steps", 5000, "--log_steps", 1,
        "--save_steps", 500, "--warmup_steps", 3, "--resume", "--output_dir", folder, *more,
    ]  # fmt: skip


def launched(corpus, tmp_path, launcher, *more, steps=3, before=(), **environment):
    """Begins a long run by a launcher, and comes back when it has made 3 updates."""
    arguments, output = long_run(corpus, tmp_path / "run", *more), tmp_path / "out"
    if launcher == "forked":  # as by python, but sooner
        run = Run.forked(arguments, output)
    else:
        run = Run.launched([*before, *LAUNCHERS[launcher](), TRAIN, *arguments], output, **environment)
    run.wait_until(has_reached(tmp_path / "run", steps))
    processes = 2 if launcher in ("torchrun", "accelerate with two") else 1
    assert f"on {processes} process" in run.text
    return run


def assert_stopped(run, tmp_path, name):
    lines = said(run.text)
    assert lines, run.text
    assert all(f"stopped by {name} at update" in line for line in lines), run.text
    newest = Checkpoints(tmp_path / "run" / "checkpoints").newest_whole(lambda message: pytest.fail(message))
    assert str(newest) in lines[0]
    assert len(set(lines)) == 1, run.text


@pytest.mark.parametrize(
    "launcher, number", [("forked", signal.SIGUSR1), *(slow("python", number) for number in CODES)]
)
def test_the_exit_code_of_python_says_which_signal_it_was(corpus, tmp_path, launcher, number):
    run = launched(corpus, tmp_path, launcher, "--loader_workers", 2 * (number == signal.SIGUSR1))
    os.kill(run.processes[0].pid, number)
    assert run.end(SOON) == [CODES[number]], run.text
    assert_stopped(run, tmp_path, number.name)
    assert len(run.text[run.text.index("train.py: stopped") :].splitlines()) == 1


@pytest.mark.parametrize(
    "launcher, number, said_name",
    [
        ("torchrun", signal.SIGTERM, "SIGTERM"),
        slow("torchrun", signal.SIGINT, "SIGINT"),
        slow("torchrun", signal.SIGUSR1, "SIGTERM"),  # it dies of that, and is missed
        slow("torchrun", signal.SIGKILL, "SIGTERM"),
        ("accelerate", signal.SIGTERM, "SIGTERM"),  # dies of it without a word to its worker, which misses it
        slow("accelerate", signal.SIGKILL, "SIGTERM"),
        slow("accelerate with two", signal.SIGTERM, "SIGTERM"),
        slow("accelerate with two", signal.SIGINT, "SIGINT"),
    ],
)
def test_a_launcher_that_is_stopped_or_killed_leaves_a_checkpoint_and_no_process(
    corpus, tmp_path, launcher, number, said_name
):
    run = launched(corpus, tmp_path, launcher)
    run.processes[0].send_signal(number)
    codes = run.end(SOON)
    assert codes != [0]
    assert_stopped(run, tmp_path, said_name)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_one_rank_stops_all_at_the_same_update(corpus, tmp_path, number):
    run = launched(corpus, tmp_path, "torchrun")
    run.rank(1).send_signal(number)
    assert run.end(SOON) == [1], run.text  # torchrun's own exit code
    assert_stopped(run, tmp_path, number.name)


@pytest.mark.parametrize("launcher", ["forked", slow("python"), slow("torchrun")])
def test_ctrl_c_in_a_terminal_reaches_every_process_and_none_of_them_complains(corpus, tmp_path, launcher):
    run = launched(corpus, tmp_path, launcher, "--loader_workers", 2)
    for process in run.alive():
        process.send_signal(signal.SIGINT)
    codes = run.end(SOON)
    assert codes != [0] if launcher == "torchrun" else codes == [130]
    assert_stopped(run, tmp_path, "SIGINT")
    if launcher != "torchrun":  # which prints a traceback of its own
        assert "Traceback" not in run.text
        assert run.text.rstrip().endswith("--resume goes on from there")


@pytest.mark.slow
def test_a_closed_terminal_stops_a_run_unless_nohup_says_otherwise(corpus, tmp_path):
    for before, is_stopped in ((["nohup"], False), ([], True)):
        run = launched(corpus, tmp_path / str(is_stopped), "python", before=before)
        run.processes[0].send_signal(signal.SIGHUP)
        if is_stopped:
            assert run.end(SOON) == [129], run.text
            assert_stopped(run, tmp_path / str(is_stopped), "SIGHUP")
        else:
            time.sleep(1)
            assert not run.is_over, run.text
            run.kill()
