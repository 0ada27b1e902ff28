"""A checkpoint is there whole or not at all, gives back what it was given to the bit, and runs nothing of itself."""

import contextlib
import errno
import functools
import hashlib
import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from training_runs import Run

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, files
from tinyseq.cli import main as cli
from tinyseq.files import check_space, recover, save_whole
from tinyseq.training.checkpoint import Checkpoints, average, average_checkpoints, verify
from tinyseq.training.state_files import (
    CheckpointError,
    gather_state,
    load_tensors,
    load_weights,
    restore_state,
    save_tensors,
)

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def names(folder):
    """What lies in a folder, hidden or not."""
    return sorted(path.name for path in folder.iterdir())


def writes(**contents):
    """A function that fills a folder with small files: weights="abc" is the file named weights."""
    return lambda folder: [(folder / name).write_text(text) for name, text in contents.items()]


def best_of(checkpoints):
    """The whole checkpoint of the highest score, the earliest such."""
    scores = {}
    for path in checkpoints.newest(len(checkpoints.steps())):
        with contextlib.suppress(CheckpointError):
            scores[path] = verify(path)["score"]
    return max((path for path in scores if scores[path] is not None), key=scores.get)


# --- a folder whole or not at all -------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_folder_before_it_and_nothing_else(tmp_path):
    save_whole(tmp_path / "best", writes(weights="old"))

    def fail(folder):
        (folder / "weights").write_text("half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="best: could not be written.*no space"):
        save_whole(tmp_path / "best", fail)
    assert (tmp_path / "best" / "weights").read_text() == "old"
    assert names(tmp_path) == ["best"]


def test_a_second_save_replaces_every_file_of_the_first(tmp_path):
    save_whole(tmp_path / "run" / "best", writes(old="1"))
    save_whole(tmp_path / "run" / "best", writes(new="2"))
    assert names(tmp_path / "run") == ["best"]
    assert names(tmp_path / "run" / "best") == ["new"]


@pytest.mark.parametrize("system_can", [True, False])
def test_remains_of_a_killed_write_are_cleared_away(tmp_path, monkeypatch, system_can):
    if not system_can:
        monkeypatch.setattr(files, "exchange", lambda one, other: False)
    for name in (".best.writing", ".best.before", "best"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old").write_text("old")
    save_whole(tmp_path / "best", writes(weights="whole"))
    assert names(tmp_path / "best") == ["weights"]
    assert names(tmp_path) == ["best"]


def test_what_a_kill_between_two_renamings_took_away_is_put_back(tmp_path):
    (tmp_path / ".best.before").mkdir()
    (tmp_path / ".best.before" / "weights").write_text("old")
    (tmp_path / ".best.writing").mkdir()

    recover(tmp_path / "best")

    assert (tmp_path / "best" / "weights").read_text() == "old"
    assert names(tmp_path) == ["best"]


def test_a_failed_write_after_a_kill_between_two_renamings_loses_nothing(tmp_path):
    (tmp_path / ".best.before").mkdir()
    (tmp_path / ".best.before" / "weights").write_text("old")

    def fail(folder):
        raise ValueError("no model")

    with pytest.raises(ValueError, match="no model"):
        save_whole(tmp_path / "best", fail)
    assert (tmp_path / "best" / "weights").read_text() == "old"


def test_a_failure_between_two_renamings_puts_the_old_folder_back(tmp_path, monkeypatch):
    save_whole(tmp_path / "best", writes(weights="old"))
    monkeypatch.setattr(files, "exchange", lambda one, other: False)
    rename = Path.rename

    def rename_unless_new(self, target):
        if self.name == ".best.writing":
            raise OSError(errno.EIO, "the disk is gone")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", rename_unless_new)
    with pytest.raises(OSError, match="the disk is gone"):
        save_whole(tmp_path / "best", writes(weights="new"))
    assert (tmp_path / "best" / "weights").read_text() == "old"
    assert names(tmp_path) == ["best"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux swaps two names at one instant")
def test_a_folder_is_never_missing_while_it_is_replaced(tmp_path):
    save_whole(tmp_path / "best", writes(weights="0"))
    watcher = """
        import sys
        print("ready", flush=True)
        looks = missing = 0
        while True:
            looks += 1
            try:
                open(sys.argv[1]).close()
            except FileNotFoundError:
                missing += 1
            if looks % 1000 == 0:
                import os
                if os.path.exists(sys.argv[2]):
                    break
        print(looks, missing)
    """
    arguments = [str(tmp_path / "best" / "weights"), str(tmp_path / "stop")]
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(watcher), *arguments], stdout=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    for number in range(300):
        save_whole(tmp_path / "best", writes(weights=str(number)))
    (tmp_path / "stop").touch()
    looks, missing = map(int, process.communicate(timeout=30)[0].split())
    assert looks > 300
    assert missing == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which file a descriptor is of")
def test_files_and_folders_are_on_the_disk_before_the_name_is_and_the_name_after(tmp_path, monkeypatch):
    done = []
    fsync, rename = os.fsync, Path.rename
    monkeypatch.setattr(os, "fsync", lambda file: (done.append(os.readlink(f"/proc/self/fd/{file}")), fsync(file)))
    monkeypatch.setattr(Path, "rename", lambda self, target: (done.append("rename"), rename(self, target)))

    def write(folder):
        (folder / "tokenizer").mkdir()
        writes(config="1")(folder)
        writes(pieces="2")(folder / "tokenizer")

    save_whole(tmp_path / "new" / "run" / "last", write)
    aside = str(tmp_path / "new" / "run" / ".last.writing")
    assert sorted(done[:4]) == [aside, f"{aside}/config", f"{aside}/tokenizer", f"{aside}/tokenizer/pieces"]
    assert done[4] == "rename"
    assert done[5:] == [str(tmp_path / "new" / "run"), str(tmp_path / "new"), str(tmp_path)]


# --- a full disk ------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 5 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no `mount` here")
    if mounted.returncode:
        pytest.skip(f"a small disk can't be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def big_file(folder):
    save_file({"weight": torch.zeros(600_000)}, folder / "model.safetensors")  # 2.4 MB


def many_small_files(folder):
    for number in range(1200):
        (folder / str(number)).write_bytes(bytes(4096))


def a_tokenizer(folder):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    Tokenizer(WordLevel({"w" * 100 + str(number): number for number in range(30_000)})).save(str(folder / "t.json"))


@pytest.mark.parametrize("write", [big_file, many_small_files, a_tokenizer])
def test_a_full_disk_leaves_the_checkpoints_before_it_and_says_how_much_is_free(small_disk, write):
    checkpoints = Checkpoints(small_disk / "checkpoints")
    checkpoints.save(7, big_file, score=1.0)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_500_000))

    with pytest.raises(
        OSError, match=r"step-00000009: could not be written .(0 bytes|[0-9.]+ [kM]B) free.*No space left"
    ) as caught:
        checkpoints.save(9, write)

    assert caught.value.errno == errno.ENOSPC
    assert names(small_disk / "checkpoints") == ["step-00000007"]
    assert checkpoints.newest_whole() == small_disk / "checkpoints" / "step-00000007"
    ballast.unlink()
    checkpoints.save(9, big_file if write is a_tokenizer else writes(a="1"))
    assert checkpoints.newest_whole() == small_disk / "checkpoints" / "step-00000009"


def test_a_file_that_outgrows_the_limit_leaves_the_checkpoints_before_it(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(7, big_file)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
    try:
        with pytest.raises(OSError, match="step-00000009: could not be written.* free") as caught:
            checkpoints.save(9, big_file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert caught.value.errno == errno.EFBIG
    assert names(tmp_path) == ["step-00000007"]
    assert checkpoints.newest_whole() == tmp_path / "step-00000007"


def test_a_bug_while_writing_keeps_its_own_kind_of_error(tmp_path):
    with pytest.raises(KeyError):
        Checkpoints(tmp_path).save(3, lambda folder: {}["missing"])
    assert names(tmp_path) == []


def test_too_little_space_is_told_before_the_work(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    check_space(tmp_path / "not" / "there" / "yet", 1000, "3 checkpoints")
    with pytest.raises(OSError, match=r"run: 3 checkpoints need .* TB, and its disk has .* free; make room"):
        check_space(tmp_path / "run", free + 10**12, "3 checkpoints")


# --- checkpoints of a run ---------------------------------------------------------------------------------------


def test_the_seal_lists_every_file_with_its_size_and_sha256(tmp_path):
    def write(folder):
        (folder / "code").mkdir()
        writes(config="{}", empty="")(folder)
        writes(a="abc")(folder / "code")

    folder = Checkpoints(tmp_path / "run" / "checkpoints").save(1200, write, score=31.5)

    assert folder == tmp_path / "run" / "checkpoints" / "step-00001200"
    expected = {
        name: {"bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
        for name, text in {"config": "{}", "empty": "", "code/a": "abc"}.items()
    }
    assert json.loads((folder / "checksums.json").read_text()) == {"step": 1200, "score": 31.5, "files": expected}
    assert verify(folder) == {"step": 1200, "score": 31.5, "files": expected}


@pytest.mark.parametrize(
    "keep_newest, keep_best, scores, left",
    [
        (2, 1, [None, None, None, None], [3, 4]),
        (1, 1, [5.0, 9.0, 7.0, 6.0], [2, 4]),
        (2, 1, [5.0, 9.0, 7.0, 6.0], [2, 3, 4]),
        (2, 1, [5.0, 6.0, 7.0, 9.0], [3, 4]),
        (1, 2, [5.0, 9.0, 9.0, 6.0], [2, 3, 4]),
        (1, 1, [9.0, 9.0, 9.0, 8.0], [1, 4]),  # of equal ones the earlier
        (1, 1, [float("nan"), -3.0, -2.5, None], [3, 4]),
        (3, 0, [9.0, 8.0, 7.0, 6.0], [2, 3, 4]),
    ],
)
def test_the_newest_and_the_best_stay(tmp_path, keep_newest, keep_best, scores, left):
    checkpoints = Checkpoints(tmp_path, keep_newest, keep_best)
    for step, score in enumerate(scores, start=1):
        checkpoints.save(step, writes(step=str(step)), score)
    assert checkpoints.steps() == left
    assert names(tmp_path) == [f"step-{step:08d}" for step in left]
    known = [score for score in scores if score is not None and score == score]
    if known and keep_best:
        assert best_of(checkpoints) == checkpoints.path(scores.index(max(known)) + 1)
    else:
        assert checkpoints.newest_whole() == checkpoints.path(4)


def test_a_run_that_went_back_gives_up_what_it_had_saved_later(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep_newest=2)
    for step in (100, 200, 300):
        checkpoints.save(step, writes(a="before"), score=step)
    checkpoints.save(250, writes(a="after"), score=1)
    assert checkpoints.steps() == [200, 250]
    assert checkpoints.newest_whole() == tmp_path / "step-00000250"


def test_the_newest_are_in_order_and_as_many_as_there_are(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep_newest=3)
    for step in (90, 100, 1000):
        checkpoints.save(step, writes(a="x"))
    assert [path.name for path in checkpoints.newest(2)] == ["step-00000100", "step-00001000"]
    assert [path.name for path in checkpoints.newest(9)] == ["step-00000090", "step-00000100", "step-00001000"]


def test_an_empty_run_has_no_checkpoint(tmp_path):
    checkpoints = Checkpoints(tmp_path / "none")
    assert (checkpoints.newest_whole(), checkpoints.steps()) == (None, [])


@pytest.mark.parametrize("limits", [{"keep_newest": 0}, {"keep_best": -1}])
def test_limits_that_would_leave_nothing_to_resume_from_are_refused(tmp_path, limits):
    with pytest.raises(ValueError, match=r"keep_(newest=0|best=-1) must be"):
        Checkpoints(tmp_path, **limits)


def cut(path):
    path.write_bytes(path.read_bytes()[:-2])


def lengthen(path):
    path.write_bytes(path.read_bytes() + b"x")


def empty(path):
    path.write_bytes(b"")


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def swap_with_another_checkpoints(path):
    shutil.copyfile(path.parent.with_name("step-00000100") / path.name, path)


def make_a_folder_of_it(path):
    path.unlink()
    path.mkdir()


FAULTS = [cut, lengthen, empty, flip_a_bit, swap_with_another_checkpoints, make_a_folder_of_it, Path.unlink]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("name", ["model.safetensors", "state.json", "checksums.json"])
def test_a_damaged_checkpoint_is_passed_over_with_the_name_of_the_file(tmp_path, fault, name):
    checkpoints = Checkpoints(tmp_path)
    for step in (100, 200):
        write = writes(**{"model.safetensors": f"weights {step}", "state.json": f"[{step}]"})
        checkpoints.save(step, write, score=step / 10)
    damaged = tmp_path / "step-00000200" / name
    fault(damaged)
    if (fault, name) == (flip_a_bit, "checksums.json"):
        damaged = damaged.parent  # the middle of the list is a file's SHA-256, so it is that file which differs
    messages = []

    assert checkpoints.newest_whole(messages.append) == tmp_path / "step-00000100"

    assert len(messages) == 1
    assert str(damaged) in messages[0]
    assert best_of(checkpoints) == tmp_path / "step-00000100"
    # The next save is of an earlier step than the damaged one, is the newest all the same, and clears the damage away
    checkpoints.save(150, writes(a="1"), score=1.0)
    assert checkpoints.steps() == [100, 150]
    assert checkpoints.newest_whole(messages.append) == tmp_path / "step-00000150"
    assert len(messages) == 1


@pytest.mark.parametrize(
    "content",
    [
        "null",
        "[]",
        '"checksums"',
        "{",
        "{}",
        "\xff",
        "[" * 100_000,
        '{"step": 200, "score": 1.0}',
        '{"step": "200", "score": 1.0, "files": {}}',
        '{"step": true, "score": 1.0, "files": {}}',
        '{"step": 200, "score": "high", "files": {}}',
        '{"step": 200, "score": 1.0, "files": []}',
        '{"step": 200, "score": 1.0, "files": {"a": 5}}',
        '{"step": 200, "score": 1.0, "files": {"a": {"bytes": 1}}}',
        '{"step": 200, "score": 1.0, "files": {"a": {"bytes": "1", "sha256": ""}}}',
        '{"step": 200, "score": 1.0, "files": {"a": {"bytes": 1, "sha256": null}}}',
        '{"step": 200, "score": 1.0, "files": {"../step-00000100/a": {"bytes": 1, "sha256": ""}}}',
        '{"step": 200, "score": 1.0, "files": {}}',
    ],
)
def test_garbage_in_the_seal_is_a_damaged_checkpoint(tmp_path, content):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(100, writes(a="x"), score=0.5)
    checkpoints.save(200, writes(a="y"), score=0.7)
    (tmp_path / "step-00000200" / "checksums.json").write_text(content, encoding="latin-1")
    messages = []
    assert checkpoints.newest_whole(messages.append) == tmp_path / "step-00000100"
    assert "step-00000200" in messages[0]
    assert len(messages) == 1


def test_a_file_that_was_not_saved_with_the_checkpoint_is_damage(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    folder = checkpoints.save(100, writes(a="x"))
    (folder / "pytorch_model.bin").write_text("of someone else")
    with pytest.raises(CheckpointError, match=r"pytorch_model.bin: was not saved with the checkpoint"):
        verify(folder)


def test_a_checkpoint_under_another_steps_name_is_damage(tmp_path):
    folder = Checkpoints(tmp_path).save(100, writes(a="x"))
    folder.rename(tmp_path / "step-00000300")
    with pytest.raises(CheckpointError, match=r"checksums.json: is of step 100, and lies in step-00000300"):
        verify(tmp_path / "step-00000300")


def test_hidden_files_that_a_file_system_adds_are_no_damage(tmp_path):
    folder = Checkpoints(tmp_path).save(100, writes(a="x"))
    (folder / ".nfs0001").write_text("a file that is open and was removed")
    assert list(verify(folder)["files"]) == ["a"]


def test_no_whole_checkpoint_among_some_is_an_error_and_not_a_new_beginning(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in (100, 200):
        empty(checkpoints.save(step, writes(a="x")) / "a")
    with pytest.raises(CheckpointError, match=r"none of its 2 checkpoints is whole.*step-00000200/a: has 0 bytes"):
        checkpoints.newest_whole()
    assert checkpoints.steps() == [100, 200]


def test_a_damaged_best_checkpoint_does_not_crowd_out_the_next_best(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep_newest=1, keep_best=2)
    for step, score in ((100, 9.0), (200, 8.0), (300, 7.0)):
        checkpoints.save(step, writes(a=str(step)), score)
    cut(tmp_path / "step-00000100" / "a")
    resumed = Checkpoints(tmp_path, keep_newest=1, keep_best=1)
    messages = []
    assert resumed.newest_whole(messages.append) == tmp_path / "step-00000300"
    assert "step-00000100" in messages[0]  # though it is not the one to resume from
    resumed.save(400, writes(a="400"), 6.0)
    assert resumed.steps() == [200, 400]


def test_leftovers_of_killed_processes_are_cleared_away_and_others_stay(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(100, writes(a="x"))
    shutil.copytree(tmp_path / "step-00000100", tmp_path / ".step-00000300.writing")
    shutil.copytree(tmp_path / "step-00000100", tmp_path / ".step-00000050.removing")
    (tmp_path / "step-00000100").rename(tmp_path / ".step-00000100.before")
    (tmp_path / "notes.txt").write_text("mine")
    assert checkpoints.newest_whole() == tmp_path / "step-00000100"
    assert names(tmp_path) == ["notes.txt", "step-00000100"]


# --- kill -9 ----------------------------------------------------------------------------------------------------


def save_for_ever(folder, pause):
    """Saves and saves, and tells of each step that is saved."""
    checkpoints = Checkpoints(folder, keep_newest=2, keep_best=1)
    newest = checkpoints.newest_whole()
    step = int(newest.name[5:]) if newest else 0
    while True:
        step += 1

        def write(aside, step=step):
            for name in "abc":
                (aside / name).write_bytes(f"{step}{name}".encode() * 20_000)
                time.sleep(pause)

        checkpoints.save(step, write, score=step % 7)
        os.write(1, b"%d\n" % step)  # at one instant, which `print` is not


@pytest.fixture
def saves_until_killed(tmp_path, tmp_path_factory):
    """A function that starts a process which saves and saves, kills it when told to, and returns the steps it told."""

    def run(pause, wait):
        saving = Run.of(functools.partial(save_for_ever, tmp_path, pause), tmp_path_factory.mktemp("saves") / "out")
        saving.wait_until(lambda: saving.text)  # a first one: it is at work
        wait()
        saving.kill()
        return [int(line) for line in saving.text.splitlines()]

    return run


def check_after_kill(checkpoints, reported):
    messages = []
    newest = checkpoints.newest_whole(messages.append)
    step = int(newest.name[5:])
    assert messages == []
    assert step >= reported
    for name in "abc":
        assert (newest / name).read_bytes() == f"{step}{name}".encode() * 20_000
    assert not [name for name in names(checkpoints.folder) if name.startswith(".")]
    # The one of the highest score, the earliest such, is there too: it was never rotated away
    best = min(range(1, step + 1), key=lambda number: (-(number % 7), number))
    assert best_of(checkpoints) == checkpoints.path(best)


def test_a_kill_in_the_middle_of_writing_leaves_the_checkpoint_before(tmp_path, saves_until_killed):
    def wait():
        deadline = time.monotonic() + 60
        while not (tmp_path / ".step-00000002.writing" / "b").exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    assert saves_until_killed(pause=0.2, wait=wait) == [1]
    assert names(tmp_path) == [".step-00000002.writing", "step-00000001"]  # it was in the middle
    check_after_kill(Checkpoints(tmp_path), reported=1)


@pytest.mark.slow
def test_kills_at_random_instants_lose_nothing_that_was_reported_as_saved(tmp_path, saves_until_killed, seed):
    instants = random.Random(seed)
    reported, middles = 0, Counter()
    for _ in range(100):
        steps = saves_until_killed(pause=0, wait=lambda: time.sleep(instants.uniform(0, 0.1)))
        assert steps == list(range(steps[0], steps[0] + len(steps)))
        assert steps[0] > reported
        reported = steps[-1]
        middles.update(name.rpartition(".")[2] for name in names(tmp_path) if name.startswith("."))
        check_after_kill(Checkpoints(tmp_path), reported)
    assert middles["writing"] >= 20, f"the kills did not fall into the middle of saves, and tested nothing: {middles}"


# --- tensors and JSON -------------------------------------------------------------------------------------------

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64,
    torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool,
    torch.complex64,
]  # fmt: skip


@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (0, 4)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_dtype_come_back_to_the_bit(tmp_path, dtype, shape):
    size = torch.empty((), dtype=dtype).element_size()
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (*shape, size), dtype=torch.uint8)
    tensor = raw.view(dtype).reshape(shape)  # any bits: NaN, infinity, denormal, minus zero
    save_tensors(tmp_path / "optimizer", {"x": tensor})
    loaded = load_tensors(tmp_path / "optimizer")["x"]
    assert (loaded.dtype, loaded.shape) == (dtype, torch.Size(shape))
    assert torch.equal(loaded.reshape(*shape, 1).view(torch.uint8), raw)


def test_values_that_are_no_tensors_come_back_beside_the_tensors(tmp_path):
    flat = {
        "group.0.lr": 1e-3 / 3, "group.0.betas": [0.9, 0.98], "group.0.foreach": None, "group.0.fused": True,
        "group.0.params": ["w", "ü"], "count": 2**70, "least": 5e-324, "inf": float("inf"), "nested": {"a": {"b": []}},
    }  # fmt: skip
    save_tensors(tmp_path / "optimizer", {**flat, "x": torch.tensor(1.5)})
    loaded = load_tensors(tmp_path / "optimizer")
    assert loaded.pop("x").item() == 1.5
    assert loaded == flat
    assert names(tmp_path) == ["optimizer.json", "optimizer.safetensors"]


def test_views_of_one_memory_are_written_each_for_itself(tmp_path):
    square = torch.arange(12.0).reshape(3, 4)
    flat = {"all": square, "turned": square.T, "again": square, "row": square[1], "column": square[:, 2]}
    save_tensors(tmp_path / "x", flat)
    loaded = load_tensors(tmp_path / "x")
    assert loaded.keys() == flat.keys()
    for name, tensor in flat.items():
        assert torch.equal(loaded[name], tensor)


def test_a_value_that_is_neither_a_tensor_nor_json_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="state.w.history: a set is neither"):
        save_tensors(tmp_path / "x", {"a": 1, "state.w.history": {1, 2}})
    assert names(tmp_path) == []


@pytest.mark.parametrize("fault", [cut, empty, make_a_folder_of_it, Path.unlink], ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_a_damaged_file_of_tensors_is_refused_by_name(tmp_path, suffix, fault):
    save_tensors(tmp_path / "optimizer", {"a": 1, "x": torch.ones(3)})
    fault(tmp_path / f"optimizer{suffix}")
    with pytest.raises(CheckpointError, match=f"optimizer{suffix}: (is not|cannot be read)"):
        load_tensors(tmp_path / "optimizer")


@pytest.mark.parametrize("content", ["[1]", "3", "null", '"a"'])
def test_json_of_another_shape_is_refused_by_name(tmp_path, content):
    save_tensors(tmp_path / "optimizer", {"a": 1})
    (tmp_path / "optimizer.json").write_text(content)
    with pytest.raises(CheckpointError, match="optimizer.json: must hold a JSON object"):
        load_tensors(tmp_path / "optimizer")


def test_a_name_in_both_files_is_refused(tmp_path):
    save_tensors(tmp_path / "optimizer", {"x": torch.ones(3)})
    (tmp_path / "optimizer.json").write_text('{"x": 5}')
    with pytest.raises(CheckpointError, match="optimizer.json: holds x, which"):
        load_tensors(tmp_path / "optimizer")


# --- the state of a training ------------------------------------------------------------------------------------


def small_model(seed=1, **options):
    torch.manual_seed(seed)
    sizes = {
        "vocab_size": 37, "d_model": 12, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 3,
        "decoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_ffn_dim": 28, "max_position_embeddings": 30,
        "dropout": 0.0, "pad_token_id": 36, "eos_token_id": 0, "decoder_start_token_id": 36,
    }  # fmt: skip
    return TinySeqForConditionalGeneration(TinySeqConfig(**(sizes | options)))


def adamw(model):
    """AdamW with two groups, as a training has it.

    A greater eps: the gradient of a key's bias is zero but for rounding, and would be made into whole steps.
    """
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.98), eps=1e-4, fused=True)


def train(model, optimizer, steps, rank=0):
    for step in steps:
        generator = torch.Generator().manual_seed(10 * step + rank)
        source = torch.randint(1, 36, (2, 5), generator=generator)
        labels = torch.randint(1, 36, (2, 7), generator=generator)
        model(input_ids=source, attention_mask=torch.ones_like(source), labels=labels).loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 / (step + 1)
        optimizer.step()
        optimizer.zero_grad()


def write_model(model, optimizer):
    """What a training writes into a checkpoint."""
    weights, state = gather_state(model, optimizer)

    def write(folder):
        model.save_pretrained(folder, state_dict=weights)
        save_tensors(folder / "optimizer", state)

    return write


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]) if isinstance(value, torch.Tensor) else value == other[name], name


def test_a_training_goes_on_from_its_checkpoint_to_the_bit(tmp_path):
    model = small_model()
    optimizer = adamw(model)
    train(model, optimizer, range(3))
    folder = Checkpoints(tmp_path).save(3, write_model(model, optimizer))
    train(model, optimizer, range(3, 8))

    other = small_model(seed=5)
    other_optimizer = adamw(other)
    restore_state(other, other_optimizer, load_weights(folder), load_tensors(folder / "optimizer"))
    assert [group["weight_decay"] for group in other_optimizer.param_groups] == [0.1, 0.0]
    assert other_optimizer.param_groups[0]["betas"] == (0.9, 0.98)
    train(other, other_optimizer, range(3, 8))

    assert_same(model.state_dict(), other.state_dict())
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert_same(optimizer.state[mine], other_optimizer.state[theirs])
    verify(folder)  # training on from what was read has not written into it


def test_the_model_of_a_checkpoint_is_what_from_pretrained_takes_with_tied_weights_once(tmp_path):
    model = small_model()
    optimizer = adamw(model)
    train(model, optimizer, range(2))
    weights, _ = gather_state(model, optimizer)
    assert "lm_head.weight" not in weights
    write_model(model, optimizer)(tmp_path)
    model.save_pretrained(tmp_path / "plain")
    assert_same(load_file(tmp_path / "model.safetensors"), load_file(tmp_path / "plain" / "model.safetensors"))
    loaded = TinySeqForConditionalGeneration.from_pretrained(tmp_path)
    assert loaded.lm_head.weight is loaded.model.shared.weight
    assert_same(loaded.state_dict(), model.state_dict())


def test_gathering_before_the_first_update_makes_none():
    model = small_model()
    optimizer = adamw(model)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    weights, state = gather_state(model, optimizer)
    assert not optimizer.state
    assert_same(model.state_dict(), before)
    other = small_model(seed=5)
    other_optimizer = adamw(other)
    train(other, other_optimizer, range(4))
    restore_state(other, other_optimizer, weights, state)
    assert not other_optimizer.state
    train(model, optimizer, range(3))
    train(other, other_optimizer, range(3))
    assert_same(model.state_dict(), other.state_dict())


class Partly(nn.Module):
    """A model with a frozen parameter, one that is used later than others, one outside the optimizer, and a buffer."""

    def __init__(self):
        super().__init__()
        self.used, self.later, self.frozen, self.outside = (nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(4, 3),
                                                            nn.Linear(4, 3))  # fmt: skip
        self.frozen.requires_grad_(False)
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x, later):
        self.calls += 1
        y = self.used(x) + self.frozen(x) + self.outside(x)
        return (y + self.later(x) if later else y).pow(2).sum()


def test_parameters_without_gradient_and_outside_the_optimizer_go_on_to_the_bit(tmp_path):
    def make():
        model = Partly()
        layers = (model.later, model.frozen, model.used)  # in another order than the model's
        return model, torch.optim.AdamW([p for layer in layers for p in layer.parameters()], lr=0.1, fused=True)

    def step(model, optimizer, later):
        model(torch.arange(8.0).reshape(2, 4), later).backward()
        optimizer.step()
        optimizer.zero_grad()

    model, optimizer = make()
    for _ in range(2):
        step(model, optimizer, later=False)
    weights, state = gather_state(model, optimizer)
    save_tensors(tmp_path / "weights", weights)
    save_tensors(tmp_path / "optimizer", state)
    other, other_optimizer = make()
    restore_state(other, other_optimizer, load_tensors(tmp_path / "weights"), load_tensors(tmp_path / "optimizer"))
    for one, its_optimizer in ((model, optimizer), (other, other_optimizer)):
        step(one, its_optimizer, later=True)
        step(one, its_optimizer, later=True)
    assert_same(model.state_dict(), other.state_dict())
    assert other.calls == 4
    assert other_optimizer.state[other.later.weight]["step"] == 2  # it had none when the checkpoint was made
    assert other_optimizer.state[other.used.weight]["step"] == 4


def test_the_state_of_a_compiled_model_is_that_of_the_model():
    model = small_model()
    optimizer = adamw(model)
    train(model, optimizer, range(2))
    weights, state = gather_state(model, optimizer)
    inner = small_model(seed=5)
    compiled, its_optimizer = torch.compile(inner, backend="eager"), adamw(inner)
    restore_state(compiled, its_optimizer, weights, state)
    assert_same(inner.state_dict(), model.state_dict())
    for one, other in zip(gather_state(compiled, its_optimizer), (weights, state), strict=True):
        assert_same(one, other)


def test_fsdp_1_is_refused_with_what_to_use():
    class Wrapped(FullyShardedDataParallel):  # which can't be made without a GPU
        def __init__(self, module):
            nn.Module.__init__(self)
            self.inner = module

    model = small_model()
    with pytest.raises(ValueError, match="FSDP 1 is not supported.*use FSDP 2"):
        gather_state(nn.Sequential(Wrapped(model)), adamw(model))


def test_training_on_does_not_change_what_was_loaded():
    model = small_model()
    optimizer = adamw(model)
    train(model, optimizer, range(2))
    weights, state = ({name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in part.items()}
                      for part in gather_state(model, optimizer))  # fmt: skip
    kept = {name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in {**weights, **state}.items()}
    other = small_model(seed=5)
    other_optimizer = adamw(other)
    restore_state(other, other_optimizer, weights, state)
    train(other, other_optimizer, range(2, 4))
    assert_same({**weights, **state}, kept)


def without(flat, key):
    return {name: value for name, value in flat.items() if name != key}


FC1 = "model.encoder.layers.1.fc1.weight"


@pytest.mark.parametrize(
    "spoil_weights, spoil_state, message",
    [
        (lambda w: without(w, FC1), None, f"the checkpoint does not fit the model: only the model has {FC1}$"),
        (lambda w: {**w, "extra": torch.ones(2)}, None, "only the checkpoint has extra$"),
        (lambda w: {**w, FC1: w[FC1].T}, None, rf"{FC1} is float32 of shape \(12, 20\), and must be float32 of shape"),
        (lambda w: {**w, FC1: w[FC1].double()}, None, f"{FC1} is float64 of shape .*, and must be float32"),
        (None, lambda s: {**s, "other": 5}, "holds 'other', which is neither"),
        (None, lambda s: {**s, "group.7.lr": 5.0}, "has groups 0, 1, 7; they count from 0"),
        (None, lambda s: {k: v for k, v in s.items() if "group.1" not in k}, "has 1 groups .* this one has 2"),
        (None, lambda s: without(s, "group.0.params"), "group.0.params of .* must be a list of names"),
        (None, lambda s: {**s, "group.0.params": [3]}, "group.0.params of .* must be a list of names"),
        (None, lambda s: {**s, "group.1.params": ["w"]}, "only group 1 of the optimizer has .* and 3. more; .* w$"),
        (None, lambda s: {**s, "group.0.betas": "x"}, "group.0.betas of the checkpoint's optimizer is 'x'"),
        (None, lambda s: {**s, "group.0.betas": [0.9]}, r"group.0.betas .* is \(0.9,\)"),
        (None, lambda s: {**s, "group.0.lr": True}, "group.0.lr of the checkpoint's optimizer is True"),
        (None, lambda s: {**s, "group.0.fused": 1}, "group.0.fused of the checkpoint's optimizer is 1"),
        (None, lambda s: {**s, "state.w.step": torch.tensor(1.0)}, "knows of w, which is not in the model"),
        (None, lambda s: {**s, f"state.{FC1}.exp_avg": torch.ones(12, 20)},
         rf"exp_avg of {FC1} has shape \(12, 20\) .* has \(20, 12\)"),
    ],
)  # fmt: skip
def test_a_state_that_does_not_fit_is_refused_by_name_and_changes_nothing(spoil_weights, spoil_state, message):
    source = small_model()
    source_optimizer = adamw(source)
    train(source, source_optimizer, range(2))
    weights, state = gather_state(source, source_optimizer)
    model = small_model(seed=5)
    optimizer = adamw(model)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(CheckpointError, match=message):
        restore_state(
            model,
            optimizer,
            spoil_weights(weights) if spoil_weights else weights,
            spoil_state(state) if spoil_state else state,
        )
    assert_same(model.state_dict(), before)
    assert not optimizer.state


def test_an_optimizer_of_another_model_is_refused():
    with pytest.raises(ValueError, match=r"a parameter of shape \(37, 12\) that is not in the model"):
        gather_state(small_model(), adamw(small_model()))


# --- a checkpoint that wants to run code ------------------------------------------------------------------------


class Creates:
    """A pickle of it, when read, creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("form", ["pickle", "torch.save"])
def test_no_file_of_a_checkpoint_is_ever_unpickled(tmp_path, form):
    model = small_model()
    optimizer = adamw(model)
    train(model, optimizer, range(2))
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    whole = checkpoints.save(2, write_model(model, optimizer))
    marker = tmp_path / "marker"
    hostile = tmp_path / "hostile"
    if form == "pickle":
        hostile.write_bytes(pickle.dumps(Creates(marker)))
    else:
        torch.save({"state": Creates(marker)}, hostile)
    tried = []
    for name in [*json.loads((whole / "checksums.json").read_text())["files"], "checksums.json"]:

        def write(folder, name=name):
            shutil.copytree(whole, folder, dirs_exist_ok=True)
            shutil.copyfile(hostile, folder / name)

        folder = checkpoints.save(3, write)  # with a valid seal
        if name == "checksums.json":
            shutil.copyfile(hostile, folder / name)
            with pytest.raises(CheckpointError, match=rf"step-00000003/{name}: is not JSON"):
                verify(folder)
        elif name.startswith("optimizer."):
            with pytest.raises(CheckpointError, match=rf"step-00000003/{name}: is not"):
                load_tensors(folder / "optimizer")
        elif name == "model.safetensors":
            with pytest.raises(CheckpointError, match=rf"step-00000003/{name}: is not"):
                load_weights(folder)
            with pytest.raises(CheckpointError, match=rf"step-00000003/{name}: is not"):
                average([whole, folder])
        elif name == "config.json":
            with pytest.raises(OSError, match=name):
                TinySeqForConditionalGeneration.from_pretrained(folder)
        else:  # Transformers can do without the one, and nobody asked for the model's code
            assert name == "generation_config.json" or name.endswith(".py")
            TinySeqForConditionalGeneration.from_pretrained(folder)
        with contextlib.suppress(ValueError):
            average_checkpoints([whole, folder], tmp_path / "average")
        shutil.rmtree(tmp_path / "average", ignore_errors=True)
        assert not marker.exists()
        tried.append(name)
    assert {"model.safetensors", "optimizer.safetensors", "optimizer.json", "config.json"} < set(tried)
    pickle.loads(pickle.dumps(Creates(marker)))
    assert marker.exists()  # the trap is a trap


# --- several processes ------------------------------------------------------------------------------------------

TWO_PROCESSES = """
    import sys, time
    from pathlib import Path
    import torch, torch.distributed as dist
    from accelerate import Accelerator
    from torch.distributed.fsdp import fully_shard
    from test_checkpoint import adamw, assert_same, small_model, train
    from tinyseq.training.checkpoint import Checkpoints
    from tinyseq.training.state_files import (gather_state, load_tensors, load_weights, restore_state, save_tensors)

    kind, folder = sys.argv[1], Path(sys.argv[2])
    if kind == "ddp":
        accelerator = Accelerator(cpu=True)
    else:
        dist.init_process_group("gloo")
    rank = dist.get_rank()
    assert dist.get_world_size() == 2

    def wrap(model):
        if kind == "ddp":
            model, optimizer = accelerator.prepare(model, adamw(model))
            assert type(model) is torch.nn.parallel.DistributedDataParallel
            return model, optimizer
        for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
            fully_shard(layer)
        fully_shard(model)
        return model, adamw(model)

    def look(model):  # a forward pass alone leaves FSDP's parameters gathered
        with torch.no_grad():
            ids = torch.ones(2, 3, dtype=torch.long)
            model(input_ids=ids, attention_mask=ids, labels=ids)

    def save(step):
        look(model)
        weights, state = gather_state(model, optimizer)
        assert bool(weights) == bool(state) == (rank == 0)
        if rank == 0:
            def write(aside):
                inner.save_pretrained(aside, state_dict=weights)
                save_tensors(aside / "optimizer", state)
            Checkpoints(folder, keep_newest=40).save(step, write)

    inner = small_model()
    model, optimizer = wrap(inner)
    save(0)
    train(model, optimizer, range(3), rank)
    save(3)
    dist.barrier()
    for step in range(4, 34):  # into the same folder, the writer now and then late
        time.sleep(0.2 * (rank == 0 and step % 7 == 0))
        save(step)
    train(model, optimizer, range(3, 6), rank)
    expected = gather_state(model, optimizer)

    for step in (0, 3):
        other, other_optimizer = wrap(small_model(seed=5))
        path = Checkpoints(folder).path(step)
        look(other)
        restore_state(other, other_optimizer, load_weights(path), load_tensors(path / "optimizer"))
        train(other, other_optimizer, range(step, 6), rank)
        for mine, theirs in zip(expected, gather_state(other, other_optimizer)):
            assert_same(mine, theirs)
    dist.barrier()
    (folder.parent / f"finished {rank}").touch()
    dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_two_processes_save_and_go_on_to_the_bit_and_one_process_loads_the_same(tmp_path, kind):
    script = tmp_path / "two_processes.py"
    script.write_text(textwrap.dedent(TWO_PROCESSES))
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{ENVIRONMENT['PYTHONPATH']}"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*launch, str(script), kind, str(tmp_path / "checkpoints")],
        capture_output=True, text=True, env=environment, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert [name for name in names(tmp_path) if name.startswith("finished")] == ["finished 0", "finished 1"]

    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert checkpoints.steps() == [0, 3, *range(4, 34)]
    newest = checkpoints.newest_whole(pytest.fail)
    assert names(tmp_path / "checkpoints") == [checkpoints.path(step).name for step in checkpoints.steps()]

    # An oracle without the package: the two processes' training by hand, in one
    model = small_model()
    optimizer = adamw(model)
    for step in range(3):
        parts = []
        for rank in range(2):
            generator = torch.Generator().manual_seed(10 * step + rank)
            source, labels = (torch.randint(1, 36, (2, length), generator=generator) for length in (5, 7))
            loss = model(input_ids=source, attention_mask=torch.ones_like(source), labels=labels).loss
            parts.append(torch.autograd.grad(loss, list(model.parameters())))
        for parameter, one, other in zip(model.parameters(), *parts, strict=True):
            parameter.grad = (one + other) / 2
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 / (step + 1)
        optimizer.step()
    one = small_model(seed=5)
    one_optimizer = adamw(one)
    restore_state(one, one_optimizer, load_weights(newest), load_tensors(newest / "optimizer"))
    loaded = TinySeqForConditionalGeneration.from_pretrained(newest)
    assert one.lm_head.weight is one.model.shared.weight
    assert one_optimizer.state[one.model.shared.weight]["step"] == 3
    assert_same(one.state_dict(), loaded.state_dict())
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(one.state_dict()[name], tensor, rtol=0, atol=1e-6)


# --- the average of several -------------------------------------------------------------------------------------


@pytest.fixture
def models(tmp_path):
    """Three checkpoints of a run, with all that may lie in one."""
    folders = []
    model = small_model()
    optimizer = adamw(model)
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep_newest=9)
    for step in (2, 5, 9):
        train(model, optimizer, range(step, step + 2))

        def write(folder, step=step):
            write_model(model, optimizer)(folder)
            writes(**{"log.jsonl": "1", "training.json": "{}", "README.md": "b", "state.json": "{}"})(folder)
            save_tensors(folder / "average", {"x": torch.ones(2), "updates": 3})
            writes(**{"tokenizer.json": "{}", "tokenizer_config.json": str(step), "state.bin": "x"})(folder)

        folders.append(checkpoints.save(step, write))
    return folders


def test_the_average_is_that_of_numpy_and_all_else_is_the_last_ones(models, tmp_path):
    average_checkpoints(models, tmp_path / "average")
    averaged = load_file(tmp_path / "average" / "model.safetensors")
    each = [load_file(folder / "model.safetensors") for folder in models]
    assert averaged.keys() == each[0].keys()
    for name, tensor in averaged.items():
        expected = sum(weights[name].numpy().astype("float64") for weights in each) / 3
        assert (tensor.numpy() == expected.astype("float32")).all()
    assert [name for name in names(tmp_path / "average") if not name.endswith(".py")] == [
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip
    assert (tmp_path / "average" / "tokenizer_config.json").read_text() == "9"
    loaded = TinySeqForConditionalGeneration.from_pretrained(tmp_path / "average")
    assert loaded.lm_head.weight is loaded.model.shared.weight


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_average_is_rounded_once_and_keeps_the_dtype(tmp_path, dtype):
    each = [torch.randn(3, 5).to(dtype) for _ in range(7)]
    for number, tensor in enumerate(each):
        (tmp_path / str(number)).mkdir()
        save_file({"w": tensor, "count": torch.tensor([3, 4])}, tmp_path / str(number) / "model.safetensors")
    averaged = average([tmp_path / str(number) for number in range(7)])
    assert averaged["w"].dtype == dtype
    assert torch.equal(averaged["w"], (torch.stack(each).double().sum(0) / 7).to(dtype))
    assert torch.equal(averaged["count"], torch.tensor([3, 4]))
    same = average([tmp_path / "3"] * 3)
    assert torch.equal(same["w"], each[3])


@pytest.mark.parametrize(
    "other, message",
    [
        ({"v": torch.ones(2)}, "only .*one has w; only .*two has v"),
        ({"w": torch.ones(3)}, r"two does not fit .*one: w is float32 of shape \(3,\), and must be .* \(2,\)"),
        ({"w": torch.ones(2).double()}, "w is float64 of shape .*, and must be float32"),
        ({"w": torch.ones(2), "n": torch.tensor(4)}, "only .*two has n"),
    ],
)
def test_models_that_are_not_alike_are_refused_by_name(tmp_path, other, message):
    for name, tensors in (("one", {"w": torch.ones(2)}), ("two", other)):
        (tmp_path / name).mkdir()
        save_file(tensors, tmp_path / name / "model.safetensors")
    with pytest.raises(ValueError, match=message):
        average([tmp_path / "one", tmp_path / "two"])


def test_whole_numbers_that_differ_have_no_average(tmp_path):
    for name, number in (("one", 4), ("two", 5)):
        (tmp_path / name).mkdir()
        save_file({"n": torch.tensor([1, number])}, tmp_path / name / "model.safetensors")
    with pytest.raises(ValueError, match=r"two and .*one differ in n: whole numbers"):
        average([tmp_path / "one", tmp_path / "two"])


def edit_config(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"encoder_attention_heads": 4}))


@pytest.mark.parametrize(
    "arguments, spoil, message",
    [
        (["a"], None, "made of 2 models or more, and 1 was given"),
        (["a", "b"], lambda a: (a / "config.json").unlink(), "a: holds no config.json"),
        (["a", "b"], lambda a: (a / "model.safetensors").unlink(), "a: holds no model.safetensors"),
        (["a", "nowhere"], None, "nowhere: holds no config.json"),
        (["a", "b"], lambda a: cut(a / "model.safetensors"), "model.safetensors: is not a whole safetensors file"),
        (["a", "b"], edit_config, "config.json has encoder_attention_heads 4, the other's 3"),
        (["a", "b"], lambda a: (a / "tokenizer.json").write_text("{ }"), "their tokenizer.json differ"),
        (["a", "step"], lambda a: None, "step-00000005/state.json: has 0 bytes"),
    ],
)
def test_the_command_refuses_what_can_not_be_averaged(models, tmp_path, capsys, arguments, spoil, message):
    for name in "ab":
        shutil.copytree(models[0], tmp_path / name)
        (tmp_path / name / "checksums.json").unlink()
    empty(models[1] / "state.json")
    if spoil:
        spoil(tmp_path / "a")
    folders = [str(models[1] if name == "step" else tmp_path / name) for name in arguments]
    assert cli.main(["average", *folders, "--output", str(tmp_path / "average")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "average").exists()


def test_the_command_averages_and_does_not_write_over_anything(models, tmp_path, capsys):
    output = tmp_path / "average"
    output.mkdir()
    arguments = ["average", *map(str, models), "--output", str(output)]
    assert cli.main(arguments) == 0
    written = {path.name: path.read_bytes() for path in output.iterdir()}
    assert "model.safetensors" in written
    assert cli.main(arguments) == 2
    assert f"{output}: is there already, and not empty" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in output.iterdir()} == written


def test_the_help_of_the_command_teaches_it(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["average", "--help"])
    assert stopped.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "tinyseq average runs/en-de/checkpoints/step-* --output" in text
    assert "mean of their weights" in text


def test_a_checkpoint_that_is_saved_again_keeps_the_score_of_its_evaluation(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep_newest=1, keep_best=1)
    checkpoints.save(1, lambda aside: (aside / "a").write_text("1"), score=3.0)
    checkpoints.save(1, lambda aside: (aside / "a").write_text("again"))  # by a signal, say
    checkpoints.save(2, lambda aside: (aside / "a").write_text("2"), score=2.0)
    checkpoints.save(3, lambda aside: (aside / "a").write_text("3"))
    assert checkpoints.steps() == [1, 3]
    assert (best_of(checkpoints) / "a").read_text() == "again"
