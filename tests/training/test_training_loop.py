"""The training loop in this process: bad numbers, going on, ending early, averages, checkpoints that are not whole."""

import errno
import itertools
import json
import math
import pickle
import shutil
import signal
from hashlib import sha256
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from training_runs import SIZES, write_pairs

import train as script
from tinyseq import TinySeqForConditionalGeneration, TinySeqTokenizer, Translator
from tinyseq.batching.encoding import encode_pairs
from tinyseq.corpus import load_corpus
from tinyseq.training import distributed
from tinyseq.training import run as running
from tinyseq.training.interruption import Interruption, Stopped
from tinyseq.training.log import BatchLog, RunLog
from tinyseq.training.optimization import MovingAverage, make_optimizer, seed_dropout
from tinyseq.training.options import RunOptions
from tinyseq.training.validation import evaluate

OPTIONS = {**SIZES, "eval_pairs": 2, "valid_pairs": 20, "max_steps": 10, "eval_steps": 5, "log_steps": 1}


@pytest.fixture(scope="module", autouse=True)
def no_curve():
    """Spares each evaluation its picture, which takes as long as all the rest; test_train.py looks at one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunLog, "draw", lambda log: None)
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A TSV of 400 pairs."""
    return write_pairs(tmp_path_factory.mktemp("corpus") / "train.tsv", 400)


def run(corpus, folder, *flags, **options):
    """Runs train.py's `main` here."""
    arguments = ["--train", corpus, "--output_dir", folder, *flags]
    arguments += [part for name, value in {**OPTIONS, **options}.items() for part in (f"--{name}", value)]
    script.main([str(argument) for argument in arguments])


def failed(corpus, folder, *flags, capsys, **options):
    """Runs it, and returns the exit code and what was written on stderr."""
    with pytest.raises(SystemExit) as stop:
        run(corpus, folder, *flags, **options)
    return stop.value.code, capsys.readouterr().err


def updates(folder):
    """The lines of the log that are about training."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if "learning_rate" in line]


def steps(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def weights(folder):
    return load_file(folder / "model.safetensors")


def assert_same_files(folder, other, *names):
    """Compares files of two runs, bit for bit."""
    for name in names:
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name


@pytest.fixture(scope="module")
def finished(corpus, tmp_path_factory):
    """The run that the others are compared with."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    run(corpus, folder)
    return folder


def spoil(monkeypatch, is_spoilt):
    """Makes the loss NaN in those of the training's forward passes (from 1) that `is_spoilt` says."""
    original = TinySeqForConditionalGeneration.forward
    calls = [0]

    def forward(model, *arguments, **keywords):
        output = original(model, *arguments, **keywords)
        if model.training:
            calls[0] += 1
            if is_spoilt(calls[0]):
                output.loss = output.loss * math.nan
        return output

    monkeypatch.setattr(TinySeqForConditionalGeneration, "forward", forward)


# --- bad numbers ------------------------------------------------------------------------------------------


def test_an_update_of_nan_is_left_out_and_counted_and_moves_neither_schedule_nor_weights(
    corpus, finished, tmp_path, monkeypatch
):
    spoil(monkeypatch, lambda call: call in (4, 7))
    run(corpus, tmp_path / "run", "--log_batches", gradient_accumulation_steps=1)
    lines, clean = updates(tmp_path / "run"), updates(finished)
    assert [line["step"] for line in lines] == list(range(1, 11))
    assert [line["skipped_updates"] for line in lines] == [0, 0, 0, 1, 1, 2, 2, 2, 2, 2]
    assert [line["learning_rate"] for line in lines] == [line["learning_rate"] for line in clean]
    assert [line["loss_per_target_token"] for line in lines[:3]] == [
        line["loss_per_target_token"] for line in clean[:3]
    ]
    assert lines[3]["loss_per_target_token"] != clean[3]["loss_per_target_token"]  # the next batch took its place
    assert all(tensor.isfinite().all() for tensor in weights(tmp_path / "run" / "last").values())
    batches = [json.loads(line) for line in (tmp_path / "run" / "batches-0.jsonl").read_text().splitlines()]
    assert [line["batches"] for line in batches] == list(range(1, 13))
    assert [line["step"] for line in batches] == [1, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9, 10]


def test_several_bad_updates_in_a_row_end_the_run_and_name_pairs_and_checkpoint(corpus, tmp_path, monkeypatch, capsys):
    spoil(monkeypatch, lambda call: call > 6)
    code, stderr = failed(corpus, tmp_path / "run", "--log_batches", capsys=capsys, max_bad_updates=3)
    assert code == 1
    last = json.loads((tmp_path / "run" / "batches-0.jsonl").read_text().splitlines()[-1])
    pairs = sorted(row for batch in last["rows"] for row in batch)
    assert "3 updates in a row had a NaN or infinite loss or gradient, after update 6" in stderr
    assert f"pairs {', '.join(map(str, pairs[:20]))}" in stderr
    assert "step-00000005" in stderr
    assert last["batches"] == 9
    assert steps(tmp_path / "run") == ["step-00000005"]


class WithScaler(Accelerator):
    """What float16 does on a GPU, on a CPU: a loss scaler, here on float32 numbers."""

    first_scale = 2.0**10

    def __init__(self, **keywords):
        super().__init__(**keywords)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=self.first_scale, growth_interval=1000)

    def unscale_gradients(self, optimizer=None):
        for optimizer in self._optimizers:
            self.scaler.unscale_(optimizer.optimizer)


def test_the_scaler_of_float16_changes_neither_norm_nor_weights_and_an_overflow_is_left_out(
    corpus, finished, tmp_path, monkeypatch
):
    monkeypatch.setattr(distributed, "Accelerator", WithScaler)
    run(corpus, tmp_path / "scaled")
    for line, clean in zip(updates(tmp_path / "scaled"), updates(finished), strict=True):
        assert line["gradient_norm"] == pytest.approx(clean["gradient_norm"], rel=1e-5)
    for name, tensor in weights(tmp_path / "scaled" / "last").items():
        torch.testing.assert_close(tensor, weights(finished / "last")[name], rtol=0, atol=1e-5)

    spoil(monkeypatch, lambda call: call in (5, 6))  # one update of two micro-batches
    run(corpus, tmp_path / "spoilt", gradient_accumulation_steps=2)
    lines = updates(tmp_path / "spoilt")
    assert [line["skipped_updates"] for line in lines] == [0, 0, 1, 1, 1, 1, 1, 1, 1, 1]
    assert [line["learning_rate"] for line in lines] == [line["learning_rate"] for line in updates(finished)]
    state = json.loads((tmp_path / "spoilt" / "checkpoints" / "step-00000010" / "state.json").read_text())
    assert state["scaler"]["scale"] == WithScaler.first_scale / 2


def test_overflows_that_only_lower_a_high_scale_do_not_end_the_run(corpus, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(distributed, "Accelerator", WithScaler)
    spoil(monkeypatch, lambda call: call <= 6)  # 2^10 -> 2^4
    run(corpus, tmp_path / "run", max_bad_updates=2)
    assert updates(tmp_path / "run")[-1]["skipped_updates"] == 6
    spoil(monkeypatch, lambda call: True)
    code, stderr = failed(corpus, tmp_path / "bad", capsys=capsys, max_bad_updates=2)
    assert code == 1
    assert "2 updates in a row" in stderr


# --- going on ---------------------------------------------------------------------------------------------


def interrupt(monkeypatch, at, action, number=signal.SIGTERM):
    """Trains by `action()` until a signal comes in the `at`-th forward pass, and returns the exit code."""
    original = TinySeqForConditionalGeneration.forward
    calls = [0]

    def forward(model, *arguments, **keywords):
        calls[0] += model.training
        if calls[0] == at and model.training:
            signal.raise_signal(number)
        return original(model, *arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(TinySeqForConditionalGeneration, "forward", forward)
        with pytest.raises(SystemExit) as stop:
            action()
    return stop.value.code


@pytest.fixture(scope="module")
def interrupted(corpus, tmp_path_factory):
    """A function that gives a folder the run that a signal has ended in the forward pass `at` of its training."""
    made = {}

    def copy(at, folder):
        if at not in made:
            made[at] = tmp_path_factory.mktemp("runs") / f"interrupted-{at}"
            with pytest.MonkeyPatch.context() as patch:
                assert interrupt(patch, at, lambda: run(corpus, made[at])) == 143
        shutil.copytree(made[at], folder)

    return copy


@pytest.mark.parametrize("at", [pytest.param(1, marks=pytest.mark.slow), 5, 8])
def test_a_run_goes_on_as_if_nothing_had_happened(corpus, finished, interrupted, tmp_path, at):
    folder = tmp_path / "run"
    interrupted(at, folder)
    assert steps(folder)[-1] == f"step-{at:08d}"
    run(corpus, folder, "--resume")
    models = [f"{name}/model.safetensors" for name in ("last", "best", "checkpoints/step-00000010")]
    assert_same_files(folder, finished, *models)
    timeless = ("step", "loss_per_target_token", "learning_rate", "gradient_norm", "epoch")
    for line, expected in zip(updates(folder), updates(finished), strict=True):
        assert {name: line[name] for name in timeless} == {name: expected[name] for name in timeless}


def test_a_moving_average_and_a_stream_of_weighted_corpora_go_on_as_well(corpus, tmp_path, monkeypatch):
    halves = [tmp_path / "a.tsv", tmp_path / "b.tsv"]
    lines = corpus.read_text().splitlines(keepends=True)
    for path, part in zip(halves, (lines[:250], lines[250:]), strict=True):
        path.write_text("".join(part))
    valid = tmp_path / "valid.tsv"
    valid.write_text("".join(lines[:9]))
    flags = ["+", halves[1], "--weights", "2", "1", "--streaming", "--shuffle_buffer", 60, "--valid", valid]
    flags = [flags[0], flags[1], "--log_batches", *flags[2:]]

    def go(folder, *more):
        arguments = ["--train", halves[0], *flags, "--ema_decay", 0.9, "--output_dir", folder, *more]
        arguments += [part for name, value in OPTIONS.items() for part in (f"--{name}", value)]
        script.main([str(argument) for argument in arguments])

    go(tmp_path / "whole")
    assert interrupt(monkeypatch, 7, lambda: go(tmp_path / "broken"), signal.SIGUSR1) == 128 + signal.SIGUSR1
    go(tmp_path / "broken", "--resume")
    names = ("last/model.safetensors", "batches-0.jsonl", "checkpoints/step-00000010/average.safetensors")
    assert_same_files(tmp_path / "broken", tmp_path / "whole", *names)


def test_a_finished_run_that_is_resumed_stays_as_it_is(corpus, finished, tmp_path):
    before = (finished / "last" / "model.safetensors").read_bytes(), len(updates(finished))
    run(corpus, finished, "--resume")
    assert before == ((finished / "last" / "model.safetensors").read_bytes(), len(updates(finished)))


def test_resume_in_a_folder_without_a_checkpoint_begins(corpus, finished, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.jsonl").write_text("of a run that was killed at its start\n")
    run(corpus, tmp_path / "run", "--resume")
    assert_same_files(tmp_path / "run", finished, "last/model.safetensors")


def test_resume_refuses_to_make_another_run_of_it(corpus, interrupted, tmp_path, capsys):
    folder = tmp_path / "run"
    interrupted(3, folder)
    capsys.readouterr()
    code, stderr = failed(corpus, folder, "--resume", capsys=capsys, learning_rate=2e-3)
    assert code == 1
    assert "learning_rate is 0.002 and was 0.0015" in stderr
    other = tmp_path / "train.tsv"
    other.write_text(corpus.read_text().replace("the", "a", 1))
    for data, options, named in (
        (other, {}, "--resume: training data is"),
        (corpus, {"gradient_accumulation_steps": 2}, "batches per update is 2 and was 1"),
        (corpus, {"seed": 1}, "seed is 1 and was 0"),
    ):
        code, stderr = failed(data, folder, "--resume", capsys=capsys, **options)
        assert code == 1
        assert named in stderr
    assert len(updates(folder)) == 3  # the log of the run is as it was
    moved = tmp_path / "elsewhere.tsv"
    moved.write_text(corpus.read_text())
    run(moved, folder, "--resume", "--on_bad_row", "skip")
    assert len(updates(folder)) == 10


def test_another_vocabulary_before_the_first_checkpoint_is_learned_anew(corpus, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(running, "encode", lambda *arguments: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(SystemExit):
            run(corpus, tmp_path / "run", vocab_size=300)
    assert (tmp_path / "run" / "tokenizer").is_dir()
    run(corpus, tmp_path / "run", "--resume", vocab_size=350)
    assert len(weights(tmp_path / "run" / "last")["model.shared.weight"]) == 350


def test_a_damaged_checkpoint_is_passed_over_with_a_message(corpus, finished, interrupted, tmp_path, capsys):
    folder = tmp_path / "run"
    interrupted(8, folder)
    assert steps(folder) == ["step-00000005", "step-00000008"]
    damaged = folder / "checkpoints" / "step-00000008" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    capsys.readouterr()
    run(corpus, folder, "--resume")
    output = capsys.readouterr()
    assert str(damaged) in output.err
    assert "goes on from" in output.out
    assert "step-00000005" in output.out
    assert_same_files(folder, finished, "last/model.safetensors")


def test_a_disk_that_fills_up_ends_the_run_and_once_there_is_room_it_goes_on(
    corpus, finished, tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "run"
    original = running.TrainingState.save

    def save(state, checkpoints, score=None):
        if state.progress.step == 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(state, checkpoints, score)

    with monkeypatch.context() as patch:
        patch.setattr(running.TrainingState, "save", save)
        code, stderr = failed(corpus, folder, capsys=capsys)
    assert code == 1
    assert f"Make room for {folder}" in stderr
    assert steps(folder) == ["step-00000005"]
    run(corpus, folder, "--resume")
    assert_same_files(folder, finished, "last/model.safetensors")


def test_a_disk_without_room_for_the_checkpoints_is_refused_before_the_work(corpus, tmp_path, monkeypatch, capsys):
    free = SimpleNamespace(total=10**9, used=10**9 - 10**5, free=10**5)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: free)
    code, stderr = failed(corpus, tmp_path / "run", capsys=capsys)
    assert code == 1
    assert "checkpoints and models" in stderr
    assert not (tmp_path / "run" / "checkpoints").exists()


class Bomb:
    """What runs code when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


@pytest.mark.parametrize("name", ["optimizer.safetensors", "optimizer.json", "model.safetensors", "state.json"])
def test_a_pickle_in_a_checkpoint_runs_nothing_and_is_named(corpus, interrupted, tmp_path, capsys, name):
    folder, marker = tmp_path / "run", tmp_path / "marker"
    interrupted(3, folder)
    checkpoint = folder / "checkpoints" / "step-00000003"
    content = pickle.dumps(Bomb(marker))
    (checkpoint / name).write_bytes(content)
    seal = json.loads((checkpoint / "checksums.json").read_text())
    seal["files"][name] = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    (checkpoint / "checksums.json").write_text(json.dumps(seal))
    capsys.readouterr()
    code, stderr = failed(corpus, folder, "--resume", capsys=capsys)
    assert code == 1
    assert str(checkpoint / name) in stderr
    assert not marker.exists()


# --- ending early, averages -------------------------------------------------------------------------------


def test_a_signal_before_the_loop_ends_the_run_at_once(corpus, tmp_path, monkeypatch, capsys):
    def load_data(options, show):
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the signal was not heard")

    monkeypatch.setattr(running, "load_data", load_data)
    before = signal.getsignal(signal.SIGINT)  # ignored, where a shell began these tests in the background
    code, stderr = failed(corpus, tmp_path / "run", capsys=capsys)
    assert code == 130
    assert "before the first update" in stderr
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_in_an_evaluation_ends_it_and_it_is_made_when_the_run_goes_on(
    corpus, finished, tmp_path, monkeypatch
):
    original = TinySeqForConditionalGeneration.generate

    def generate(model, *arguments, **keywords):
        signal.raise_signal(signal.SIGTERM)
        return original(model, *arguments, **keywords)

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(TinySeqForConditionalGeneration, "generate", generate)
        with pytest.raises(SystemExit) as stop:
            run(corpus, folder)
    assert stop.value.code == 143
    assert steps(folder) == ["step-00000005"]
    assert not (folder / "best").exists()
    run(corpus, folder, "--resume")
    scores = [line["valid_loss"] for line in map(json.loads, (folder / "log.jsonl").open()) if "valid_loss" in line]
    expected = [
        line["valid_loss"] for line in map(json.loads, (finished / "log.jsonl").open()) if "valid_loss" in line
    ]
    assert scores == expected
    assert_same_files(folder, finished, "last/model.safetensors")


def test_patience_ends_a_run_that_does_not_get_better(corpus, tmp_path):
    run(corpus, tmp_path / "run", eval_steps=2, patience=3, max_steps=60)  # BLEU is 0 nearly always
    lines = map(json.loads, (tmp_path / "run" / "log.jsonl").read_text().splitlines())
    scores = [line["valid_bleu"] for line in lines if "valid_bleu" in line]
    assert len(scores) == scores.index(max(scores)) + 1 + 3 < 30
    assert updates(tmp_path / "run")[-1]["step"] == 2 * len(scores)
    assert (tmp_path / "run" / "last").is_dir()


def test_a_time_budget_ends_in_time_with_the_rate_near_zero(corpus, tmp_path):
    folder, minutes = tmp_path / "run", 0.15
    arguments = ["--train", corpus, "--output_dir", folder, "--time_budget_minutes", minutes, "--warmup_steps", 10]
    skipped = ("max_steps", "eval_steps")
    arguments += [p for name, value in OPTIONS.items() if name not in skipped for p in (f"--{name}", value)]
    script.main([str(argument) for argument in arguments])
    lines = updates(folder)
    progress = json.loads((max((folder / "checkpoints").iterdir()) / "state.json").read_text())["progress"]
    assert progress["finished"]
    assert 0.5 * 60 * minutes < progress["seconds"] < 1.5 * 60 * minutes
    assert lines[-1]["step"] > 20
    assert lines[-1]["learning_rate"] < 0.1 * max(line["learning_rate"] for line in lines)


def test_a_time_budget_brings_the_rate_down_also_where_a_recipe_has_many_updates(corpus, tmp_path, monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(running, "time", SimpleNamespace(perf_counter=lambda: 0.04 * next(ticks)))
    run(corpus, tmp_path / "run", max_steps=100_000, eval_steps=1000, warmup_steps=10, time_budget_minutes=0.1)
    lines = updates(tmp_path / "run")
    assert lines[-1]["learning_rate"] < 0.1 * max(line["learning_rate"] for line in lines)
    assert 20 < lines[-1]["step"] < 100_000


def test_a_bad_row_of_a_stream_is_one_line_and_what_was_learned_is_kept(corpus, tmp_path, capsys):
    lines = corpus.read_text().splitlines(keepends=True)
    (tmp_path / "train.tsv").write_text("".join(lines * 3) + "no pair\n" + "".join(lines))
    (tmp_path / "valid.tsv").write_text("".join(lines[:9]))
    flags = ["--streaming", "--shuffle_buffer", 50, "--valid", tmp_path / "valid.tsv", "--loader_workers", 1]
    flags += ["--tokenizer", tmp_path / "tokenizer"]
    TinySeqTokenizer.train([line.strip() for line in lines], 400).save_pretrained(tmp_path / "tokenizer")
    options = {"max_steps": 75, "eval_steps": 75, "batch_size_tokens": 1024}
    code, stderr = failed(tmp_path / "train.tsv", tmp_path / "run", *flags, capsys=capsys, **options)
    assert code == 1
    assert stderr.count("\n") == 1
    assert f"train.py: error: {tmp_path / 'train.tsv'}:1201: wrong number of columns" in stderr
    assert steps(tmp_path / "run") != []
    run(tmp_path / "train.tsv", tmp_path / "run", *flags, "--resume", "--on_bad_row", "skip", **options)
    report = json.loads((tmp_path / "run" / "data_report.json").read_text())["train"]["read so far"]
    assert report["reasons"]["wrong number of columns"]["dropped"] >= 1


def test_stopped_is_no_error_and_travels_to_other_processes():
    stopped = pickle.loads(pickle.dumps(Stopped(signal.SIGTERM, "stopped")))
    assert (stopped.exit_code, str(stopped)) == (143, "stopped")
    assert not isinstance(stopped, Exception)


def test_a_second_ctrl_c_ends_at_once_but_not_the_one_that_a_launcher_passes_on(monkeypatch):
    seconds = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: seconds[0])
    with Interruption() as interruption:
        interruption.at_once = None
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert interruption.noted == signal.SIGINT
        seconds[0] += 5
        with pytest.raises(Stopped, match="second SIGINT"):
            signal.raise_signal(signal.SIGINT)


def test_the_mean_of_the_last_checkpoints_becomes_best_if_it_scores_better(corpus, tmp_path):
    options = {"max_steps": 20, "save_steps": 1, "learning_rate": 0.5, "schedule": "inverse_sqrt"}
    flags = ["--average_checkpoints", 4, "--keep_checkpoints", 4, "--best_metric", "loss"]
    run(corpus, tmp_path / "run", *flags, **options)
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    averaged = [line for line in lines if "averaged_checkpoints" in line]
    assert averaged, "with these options the mean is better"
    assert averaged[0]["valid_loss"] < min(
        line["valid_loss"] for line in lines if line not in averaged and "valid_loss" in line
    )
    folders = [tmp_path / "run" / "checkpoints" / f"step-{step:08d}" for step in range(17, 21)]
    for name, tensor in weights(tmp_path / "run" / "best").items():
        mean = torch.stack([weights(folder)[name].double() for folder in folders]).mean(0)
        torch.testing.assert_close(tensor, mean.float())


def test_a_moving_average_is_what_is_evaluated_and_saved(corpus, finished, tmp_path):
    run(corpus, tmp_path / "run", ema_decay=0.9)
    raw, saved = (weights(tmp_path / "run" / name) for name in ("checkpoints/step-00000010", "last"))
    plain = weights(finished / "last")
    name = "model.encoder.layers.1.fc1.weight"
    assert torch.equal(raw[name], plain[name])  # training itself is as without
    assert not torch.equal(saved[name], raw[name])


def test_the_moving_average_counts_new_weights_by_one_minus_the_decay_once_it_has_begun():
    model = torch.nn.Linear(3, 2, bias=False)
    average = MovingAverage(model, decay=0.75)
    expected = None
    for update in range(40):
        value = torch.full((2, 3), float(update**2))
        model.weight.data.copy_(value)
        average.update_parameters(model)
        share = max(0.25, 9 / (10 + update))
        expected = value if expected is None else expected + share * (value - expected)
    torch.testing.assert_close(average.module.weight.data, expected)


# --- dropout, optimiser -----------------------------------------------------------------------------------


def test_dropout_depends_on_the_seed_and_the_number_of_the_micro_batch_alone():
    def draw(seed, number):
        seed_dropout(seed, number)
        return torch.rand(5).tolist()

    draws = [draw(seed, number) for seed in (0, 1) for number in (0, 1, 2**40)]
    assert draws == [draw(seed, number) for seed in (0, 1) for number in (0, 1, 2**40)]
    assert len({tuple(numbers) for numbers in draws}) == 6


@pytest.mark.parametrize(("positions", "is_trained"), [("sinusoidal", False), ("rotary", True)])
def test_key_biases_are_trained_only_where_they_change_something(positions, is_trained):
    from tinyseq import TinySeqConfig

    config = TinySeqConfig(
        vocab_size=9, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=12, decoder_ffn_dim=12, position_embedding_type=positions,
        pad_token_id=8, decoder_start_token_id=8, eos_token_id=0,
    )  # fmt: skip
    model = TinySeqForConditionalGeneration(config)
    optimizer = make_optimizer(model, 0.1, 0.98, 0.01)
    bias = model.model.encoder.layers[0].self_attn.k_proj.bias
    assert any(bias is parameter for group in optimizer.param_groups for parameter in group["params"]) == is_trained
    model.eval()
    ids = torch.tensor([[3, 4, 5, 0]])
    before = model(input_ids=ids, labels=ids).logits
    bias.data += torch.arange(8.0)
    assert torch.allclose(before, model(input_ids=ids, labels=ids).logits, atol=1e-5) != is_trained


def test_what_has_one_dimension_does_not_decay(finished):
    model = TinySeqForConditionalGeneration.from_pretrained(finished / "last")
    decays = {
        id(parameter): group["weight_decay"]
        for group in make_optimizer(model, 0.1, 0.98, 0.01).param_groups
        for parameter in group["params"]
    }
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert {parameter.dim() > 1 for parameter in trained} == {True, False}
    assert all(decays[id(parameter)] == (0.01 if parameter.dim() > 1 else 0.0) for parameter in trained)


def test_an_update_with_a_finite_loss_and_a_gradient_that_is_none_is_left_out(corpus, tmp_path, monkeypatch, capsys):
    original = TinySeqForConditionalGeneration.forward

    def forward(model, *arguments, **keywords):
        output = original(model, *arguments, **keywords)
        if model.training:
            output.loss = output.loss + (0 * output.loss).abs().sqrt()  # 0, with a gradient of 0 * infinity
        return output

    monkeypatch.setattr(TinySeqForConditionalGeneration, "forward", forward)
    code, stderr = failed(corpus, tmp_path / "run", capsys=capsys, max_bad_updates=2)
    assert code == 1
    assert "2 updates in a row had a NaN or infinite loss or gradient, after update 0;" in stderr


def test_a_log_of_batches_goes_on_behind_the_batches_of_the_checkpoint(tmp_path):
    path = tmp_path / "batches-0.jsonl"
    path.write_text('{"batches": 2}\n{"batches": 4}\n{"batches": 6}\n{"batc', encoding="utf-8")
    BatchLog(path, 4).write(batches=6, again=True)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines == [{"batches": 2}, {"batches": 4}, {"batches": 6, "again": True}]


def test_the_validation_loss_is_that_of_a_target_token_over_batches_of_unequal_sizes(corpus, finished, tmp_path):
    translator = Translator.from_pretrained(finished / "last")
    model, tokenizer = translator.model, translator.tokenizer
    pairs = load_corpus([corpus]).pairs.select(range(7))
    options = RunOptions(batch_size_tokens=40, eval_pairs=1)
    encoded = encode_pairs(pairs, tokenizer, 64)
    loss = tokens = 0.0
    for source, target in zip(encoded.sources, encoded.targets, strict=True):
        labels = torch.tensor([target.tolist()])
        with torch.no_grad():
            logits = model.eval()(input_ids=torch.tensor([source.tolist()]), labels=labels).logits
        loss -= logits.log_softmax(-1).gather(-1, labels[..., None]).sum().item()
        tokens += labels.numel()
    figures = evaluate(Accelerator(cpu=True), translator, encoded, pairs, options, Interruption())
    assert figures["valid_loss"] == pytest.approx(loss / tokens, rel=1e-5)
