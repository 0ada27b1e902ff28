"""kill -9 at random instants of a run: what it ends with is, to the bit, what an unbroken run ends with.

All processes of the run die at once, as when a machine goes down, and the same command begins it again, until it comes
to its end: weights, log and the order of the pairs are compared. A run may be killed several times on its way.

  make test                 a few kills for each kind of run
  make test-reliability     20 kills for each kind, and 6 of runs that are begun by their real command
  TINYSEQ_KILLS=100 TINYSEQ_KILL_SEED=7 python -m pytest tests/system/test_kill.py -m "" -s       more, and elsewhere
"""

import os
import random
import shutil
import sys
import time

import pytest
from training_runs import TINY, TORCHRUN, TRAIN, Run, assert_same_outcome, write_pairs

KILLS = int(os.environ.get("TINYSEQ_KILLS", 20))
SEED = int(os.environ.get("TINYSEQ_KILL_SEED", 0))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """400 pairs in one file; and two corpora to be mixed, one of them in three shards."""
    folder = tmp_path_factory.mktemp("corpus")
    write_pairs(folder / "train.tsv", 400)
    write_pairs(folder / "valid.tsv", 20, "validation")
    lines = write_pairs(folder / "b.tsv", 150).read_text(encoding="utf-8").splitlines(keepends=True)
    for number, (begin, end) in enumerate(((0, 30), (30, 37), (37, 90))):
        (folder / f"a-{number}.tsv").write_text("".join(lines[begin:end]), encoding="utf-8")
    (folder / "b.tsv").write_text("".join(lines[90:]), encoding="utf-8")
    return folder


def options(corpus, kind, ranks):
    """A run of 44 updates (about 2 epochs, or several passes) with accumulation, dropout and 3 evaluations."""
    data = {
        "memory": ["--train", corpus / "train.tsv", "--valid_pairs", 20],
        "workers": ["--train", corpus / "train.tsv", "--valid_pairs", 20, "--loader_workers", 2],
        "stream": [
            "--train", corpus / "a-*.tsv", "+", corpus / "b.tsv", "--weights", 2, 1, "--streaming",
            "--shuffle_buffer", 70, "--valid", corpus / "valid.tsv",
        ],
    }[kind]  # fmt: skip
    return [
        *data, *TINY, "--dropout", 0.2, "--max_steps", 44, "--save_steps", 4, "--eval_steps", 15, "--log_steps", 7,
        "--gradient_accumulation_steps", 4 // ranks, "--log_batches", "--resume",
    ]  # fmt: skip


def kill_at_random(begin, folder, ranks, kills):
    """Kills runs that `begin(output_dir, output)` begins until so many kills have met one, and compares each outcome.

    Where a run comes to its end before that, it is compared and another one is begun.
    """
    unbroken = folder / "unbroken"
    run = begin(unbroken, folder / "unbroken.out")
    start = time.monotonic()
    assert not any(run.end()), run.text
    seconds = time.monotonic() - start
    assert f"on {ranks} process" in run.text
    random_numbers = random.Random(SEED)
    killed = folder / "killed"
    instants, resumed = [], 0
    while len(instants) < kills or (not resumed and len(instants) < kills + 9):
        run = begin(killed, folder / "killed.out")
        instant = random_numbers.uniform(0, seconds)
        end = time.monotonic() + instant
        while time.monotonic() < end and not run.is_over:
            time.sleep(0.001)
        if not run.is_over:
            run.kill()
            assert "Error" not in run.text, run.text
            instants.append(round(instant, 2))
        else:
            assert not any(run.end()), run.text
            assert_same_outcome(killed, unbroken, f"killed after {instants} s (seed {SEED})\n{run.text}")
            shutil.rmtree(killed)
        resumed += "goes on from" in run.text
    run = begin(killed, folder / "killed.out")
    assert not any(run.end()), run.text
    resumed += "goes on from" in run.text
    said = f"killed after {instants} s of {seconds:.1f} (TINYSEQ_KILL_SEED={SEED}), went on {resumed} times"
    assert_same_outcome(killed, unbroken, f"{said}\n{run.text}")
    print(said)
    assert resumed, said  # else nothing was tried
    assert not list(killed.rglob(".*.writing")), "what a killed writer left is still there"


KINDS = [("memory", 1), ("workers", 1), ("memory", 2), ("stream", 1), ("stream", 2)]


@pytest.mark.parametrize(
    "kind, ranks, kills",
    [("workers", 1, 1), ("memory", 2, 1), ("stream", 1, 2)]  # a few; `make test-reliability` does the rest
    + [pytest.param(kind, ranks, KILLS, marks=pytest.mark.slow) for kind, ranks in KINDS],
)
def test_killed_and_resumed_runs_end_as_the_unbroken_one(corpus, tmp_path, kind, ranks, kills):
    def begin(output_dir, output):
        return Run.forked([*options(corpus, kind, ranks), "--output_dir", output_dir], output, ranks)

    kill_at_random(begin, tmp_path, ranks, kills)


@pytest.mark.slow
@pytest.mark.parametrize("kind, ranks", [("workers", 1), ("memory", 2), ("stream", 2)])
def test_so_do_runs_that_are_begun_by_their_real_command(corpus, tmp_path, kind, ranks):
    launcher = [sys.executable] if ranks == 1 else [*TORCHRUN, "--standalone", "--nproc_per_node", ranks]

    def begin(output_dir, output):
        return Run.launched([*launcher, TRAIN, *options(corpus, kind, ranks), "--output_dir", output_dir], output)

    kill_at_random(begin, tmp_path, ranks, min(KILLS, 6))
