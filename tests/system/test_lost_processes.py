"""One process of several fails, is killed, hangs, or was given something else: the others do not wait for it for ever.

The run ends within a minute with a reason on stderr, and no process is left.
"""

import functools
import os
import re
import signal
import time

import pytest
from training_runs import TINY, TORCHRUN, TRAIN, Run, has_reached, log_of, write_pairs

from tinyseq.training import run as running

MINUTE = 60
LOST = "another process of this run has failed"
slow = functools.partial(pytest.param, marks=pytest.mark.slow)  # what another parameter shows as well


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A file that one machine has, and others that another has instead."""
    folder = tmp_path_factory.mktemp("corpus")
    for name in ("here", "there", "long", "bad", "empty"):
        (folder / name).mkdir()
    good = write_pairs(folder / "here" / "pairs.tsv", 100).read_text(encoding="utf-8")
    (folder / "there" / "pairs.tsv").write_text(good.replace("\n", "!\n", 1), encoding="utf-8")
    (folder / "long" / "pairs.tsv").write_text("word " * 80 + "\t" + "palabra " * 80 + "\n", encoding="utf-8")
    (folder / "bad" / "pairs.tsv").write_text(good + "no tab in this row\n", encoding="utf-8")
    (folder / "valid.tsv").write_text(good, encoding="utf-8")
    return folder


def options(corpus, folder, *more):
    return [
        "--train", "pairs.tsv", "--valid", corpus / "valid.tsv", *TINY, "--max_steps", 2000, "--log_steps", 1,
        "--save_steps", 500, "--output_dir", folder, *more,
    ]  # fmt: skip


def lines_of(text):
    """Returns the lines that processes of the run have ended with."""
    return re.findall(r"^train\.py: .*", text, re.MULTILINE)


@pytest.mark.parametrize(
    "there, reason",
    [
        slow("empty", r"pairs\.tsv"),  # a relative path, and nothing there in this process's folder
        ("bad", r"pairs\.tsv:101: wrong number of columns"),
        ("long", "no training pairs left"),
        ("there", r"were not given the same training data: process 0 has '\w+', process 1 '\w+'"),
    ],
)
def test_a_process_with_missing_bad_or_other_data_ends_the_run_with_the_reason(corpus, tmp_path, there, reason):
    each = {0: ([], corpus / "here", None), 1: ([], corpus / there, None)}
    run = Run.forked(options(corpus, tmp_path / "run"), tmp_path / "out", 2, each)
    assert run.end(MINUTE) == [1, 1], run.text
    assert any(re.search(reason, line) for line in lines_of(run.text)), run.text
    assert len(lines_of(run.text)) == 2  # each says something
    if there != "there":
        assert any(LOST in line for line in lines_of(run.text)), run.text


@pytest.mark.parametrize(
    "more, reason",
    [
        (["--seed", 5], "seed: process 0 has 0, process 1 5"),
        slow(["--max_steps", 3], "max_steps: process 0 has 2000, process 1 3"),
        slow(["--streaming"], "streaming: process 0 has False, process 1 True"),
        slow(["--push_to_hub"], "push_to_hub: process 0 has False, process 1 True"),
        (["--d_model", 32], "d_model: process 0 has 16, process 1 32"),
        slow(["--ema_decay", 0.5], "ema_decay: process 0 has 0.0, process 1 0.5"),
    ],
)
def test_a_process_with_other_options_is_refused_by_all_with_what_differs(corpus, tmp_path, more, reason):
    each = {1: (more, None, None)}
    train = corpus / "here" / "pairs.tsv"
    run = Run.forked(options(corpus, tmp_path / "run", "--train", train), tmp_path / "out", 2, each)
    assert run.end(MINUTE) == [1, 1], run.text
    lines = lines_of(run.text)
    assert [reason in line for line in lines] == [True, True], run.text
    assert not (tmp_path / "run").exists()


def fail_at_update(step):
    """Makes a process fail in the middle of training."""
    rate = running.learning_rate

    def fail(at, *rest):
        if at == step:
            raise MemoryError("this process has no memory left")
        return rate(at, *rest)

    running.learning_rate = fail


def fail_in_evaluation():
    """Makes a process fail while the others translate."""

    def fail(*arguments, **keywords):
        raise MemoryError("this process has no memory left")

    running.Translator.translate = fail


def fail_in_saving():
    """Makes the disk of the process that writes full."""

    def fail(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    running.Checkpoints.save = fail


@pytest.mark.parametrize(
    "rank, fail",
    [
        (0, fail_in_evaluation),
        (1, functools.partial(fail_at_update, step=5)),
        slow(0, functools.partial(fail_at_update, step=5)),
        slow(1, fail_in_evaluation),
    ],
)
def test_a_process_that_fails_ends_the_others(corpus, tmp_path, rank, fail):
    train = corpus / "here" / "pairs.tsv"
    arguments = options(corpus, tmp_path / "run", "--train", train, "--eval_steps", 8)
    run = Run.forked(arguments, tmp_path / "out", 2, {rank: ([], None, fail)})
    assert run.end(MINUTE) == [1, 1], run.text
    assert "MemoryError: this process has no memory left" in run.text
    assert any(LOST in line for line in lines_of(run.text)), run.text


def test_a_full_disk_of_the_writing_process_is_told_by_all(corpus, tmp_path):
    arguments = options(corpus, tmp_path / "run", "--train", corpus / "here" / "pairs.tsv", "--save_steps", 3)
    run = Run.forked(arguments, tmp_path / "out", 2, {0: ([], None, fail_in_saving)})
    assert run.end(MINUTE) == [1, 1], run.text
    lines = lines_of(run.text)
    assert ["No space left on device" in line for line in lines] == [True, True], run.text


@pytest.mark.parametrize("rank", [0, slow(1)])
def test_a_process_that_is_killed_ends_the_others(corpus, tmp_path, rank):
    arguments = options(corpus, tmp_path / "run", "--train", corpus / "here" / "pairs.tsv")
    run = Run.forked(arguments, tmp_path / "out", 2)
    run.wait_until(has_reached(tmp_path / "run", 3))
    run.processes[rank].kill()
    codes = run.end(MINUTE)
    assert codes[rank] == -signal.SIGKILL
    assert codes[1 - rank] == 1
    assert [LOST in line for line in lines_of(run.text)] == [True], run.text


@pytest.mark.parametrize("rank", [slow(0), 1])
def test_a_process_that_hangs_is_waited_for_as_long_as_process_timeout_says(corpus, tmp_path, rank):
    arguments = options(corpus, tmp_path / "run", "--train", corpus / "here" / "pairs.tsv")
    arguments += ["--process_timeout_seconds", 5]
    run = Run.forked(arguments, tmp_path / "out", 2)
    run.wait_until(has_reached(tmp_path / "run", 3))
    os.kill(run.processes[rank].pid, signal.SIGSTOP)
    begin = time.monotonic()
    other = run.processes[1 - rank]
    other.join(MINUTE)
    assert other.exitcode == 1, run.text
    assert time.monotonic() - begin > 3
    assert [LOST in line for line in lines_of(run.text)] == [True], run.text
    run.kill()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_torchrun_clears_up_after_a_rank_that_is_lost(corpus, tmp_path, number):
    arguments = options(corpus, tmp_path / "run", "--train", corpus / "here" / "pairs.tsv")
    arguments += ["--process_timeout_seconds", 5]
    run = Run.launched([*TORCHRUN, "--standalone", "--nproc_per_node", 2, TRAIN, *arguments], tmp_path / "out")
    run.wait_until(has_reached(tmp_path / "run", 3))
    assert "on 2 processes" in run.text
    run.rank(1).send_signal(number)
    assert run.end(MINUTE) == [1], run.text
    assert [line for line in lines_of(run.text) if LOST in line], run.text


def slow_down():
    """Makes each checkpoint take longer than the other processes need for an update."""
    save = running.Checkpoints.save

    def slowly(*arguments, **keywords):
        time.sleep(0.1)
        return save(*arguments, **keywords)

    running.Checkpoints.save = slowly


@pytest.mark.parametrize("ranks", [2, slow(4)])
def test_thirty_saves_of_a_slow_first_process_disturb_nobody(corpus, tmp_path, ranks):
    folder = tmp_path / "run"
    arguments = options(
        corpus, folder, "--train", corpus / "here" / "pairs.tsv", "--max_steps", 30, "--save_steps", 1,
        "--eval_steps", 15, "--log_batches",
    )  # fmt: skip
    run = Run.forked(arguments, tmp_path / "out", ranks, {0: ([], None, slow_down)})
    assert run.end() == [0] * ranks, run.text
    assert f"on {ranks} processes" in run.text
    assert [line["step"] for line in log_of(folder) if "gradient_norm" in line] == list(range(1, 31))
    assert {path.name for path in folder.glob("batches-*")} == {f"batches-{rank}.jsonl" for rank in range(ranks)}
    for rank in range(ranks):
        assert len((folder / f"batches-{rank}.jsonl").read_text().splitlines()) == 30
    assert not lines_of(run.text)
