"""train.py as its users run it: files in, a model out."""

import itertools
import json
import math
import os
import subprocess
import sys

import pytest
import torch
import yaml
from fresh_process import WITHOUT_TINYSEQ
from safetensors.torch import load_file
from training_runs import ROOT, TINY, Run

import train as script
from tinyseq import grammar
from tinyseq.cli.main import main as tinyseq
from tinyseq.hub.push import split_card
from tinyseq.training.options import RunOptions
from tinyseq.training.schedule import learning_rate


def run(*command):
    """Runs a command from the repository's root, one thread per process, and returns what became of it."""
    return subprocess.run(
        [str(part) for part in command], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def train(*arguments, output, ranks=1):
    """Runs train.py in forked processes, and returns what they wrote."""
    forked = Run.forked(arguments, output, ranks)
    assert forked.end() == [0] * ranks, forked.text
    assert f"on {ranks} process{'es' * (ranks > 1)} (" in forked.text
    return forked.text


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Two aligned text files and a TSV of the same 400 pairs."""
    folder = tmp_path_factory.mktemp("corpus")
    pairs = grammar.generate("train", 400)
    (folder / "train.en").write_text("".join(f"{pair.source}\n" for pair in pairs), encoding="utf-8")
    (folder / "train.es").write_text("".join(f"{pair.target}\n" for pair in pairs), encoding="utf-8")
    (folder / "train.tsv").write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def finished_run(corpus, tmp_path_factory):
    """The folder of a run of 30 updates on two text files, with test set and tracker, begun by its real command."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    result = run(
        sys.executable, "train.py", *options(corpus), "--test", corpus / "train.en", corpus / "train.es",
        "--report_to", "tensorboard", "--card_examples", 3, "--output_dir", folder,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return folder


def options(corpus):
    return [
        "--train", corpus / "train.en", corpus / "train.es", *TINY,
        "--valid_pairs", 20, "--max_steps", 30, "--log_steps", 10,
    ]  # fmt: skip


def log_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_two_text_files_give_a_folder_with_models_checkpoints_a_log_a_report_a_curve_and_the_options(
    finished_run, corpus
):
    folder = finished_run
    for model in ("best", "last"):
        names = {path.name for path in (folder / model).iterdir()}
        assert json.loads((folder / model / "training.json").read_text())["options"]["max_steps"] == 30
        assert {"model.safetensors", "config.json", "generation_config.json", "tokenizer.json"} <= names
        assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl"))]
    newest = folder / "checkpoints" / "step-00000030"
    assert {"optimizer.safetensors", "state.json", "checksums.json", "model.safetensors"} <= set(os.listdir(newest))
    report = json.loads((folder / "data_report.json").read_text())
    assert report["train"][f"{corpus / 'train.en'} {corpus / 'train.es'}"]["reasons"]["test_pair"]["kept"] == 400
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert list((folder / "trackers").rglob("events.out.tfevents.*"))
    written = (folder / "options.yaml").read_text()
    assert "# torch: " + torch.__version__.split("+")[0] in written
    assert yaml.safe_load(written)["max_steps"] == 30


def test_the_log_has_loss_speed_rate_and_scores_with_their_signatures(finished_run):
    folder = finished_run
    lines = log_of(folder)
    updates = [line for line in lines if "loss_per_target_token" in line]
    assert updates[-1]["step"] == 30
    assert updates[0]["loss_per_target_token"] == pytest.approx(math.log(400), rel=0.35)
    assert updates[-1]["loss_per_target_token"] < updates[0]["loss_per_target_token"]
    assert all(line["target_tokens_per_second"] > 0 for line in updates)
    scores = [line for line in lines if "valid_bleu" in line]
    assert [line["step"] for line in scores] == [6, 12, 18, 24, 30]
    assert "tok:13a" in scores[-1]["bleu_signature"]


def test_the_test_set_is_scored_on_its_raw_text(finished_run, corpus):
    folder = finished_run
    hypotheses = folder / "test.hypotheses.txt"
    theirs = run(sys.executable, "-m", "sacrebleu", corpus / "train.es", "-i", hypotheses, "-b", "-w", 4)
    assert json.loads((folder / "test.json").read_text())["bleu"] == pytest.approx(float(theirs.stdout), abs=0.01)


def test_a_process_that_knows_only_transformers_and_tinyseq_gives_the_text_of_tinyseq_translate(
    finished_run, tmp_path, capsys
):
    folder = finished_run
    script = tmp_path / "use.py"
    script.write_text(
        "import sys, torch, tinyseq\n"
        "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer\n"
        "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])\n"
        "model = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1])\n"
        "torch.manual_seed(0)\n"
        "for text in ['The black cat drank the milk.', 'You are welcome.']:\n"
        "    inputs = tokenizer(text, return_tensors='pt')\n"
        "    for options in ({}, {'num_beams': 1}, {'num_beams': 1, 'do_sample': True}):\n"
        "        ids = model.generate(**inputs, **options)[0]\n"
        "        print(repr(tokenizer.decode(ids, skip_special_tokens=True)))\n"
    )
    used = run(sys.executable, script, folder / "best")
    assert used.returncode == 0, used.stderr
    texts = [eval(line) for line in used.stdout.splitlines()]
    source = tmp_path / "in.txt"
    source.write_text("The black cat drank the milk.\nYou are welcome.\n")
    for options, expected in (([], texts[0::3]), (["--num_beams", "1"], texts[1::3])):
        assert tinyseq(["translate", str(folder / "best"), str(source), *options]) == 0
        assert capsys.readouterr().out.splitlines() == expected


def test_the_card_of_the_best_model_has_the_scores_of_the_test_set_and_a_snippet_that_prints_what_it_says(
    finished_run, tmp_path
):
    folder = finished_run
    scores = json.loads((folder / "test.json").read_text())
    card = (folder / "best" / "README.md").read_text(encoding="utf-8")
    metadata, body = split_card(card)
    assert metadata["language"] == ["en", "es"]
    assert metadata["model-index"][0]["results"][0]["metrics"][0]["value"] == round(scores["bleu"], 2)
    assert f"| test | 400 | beam 2 | {scores['bleu']:.2f} | {scores['chrf']:.2f} |" in body
    assert scores["bleu_signature"] in body
    assert "380 sentence pairs" in body
    snippet = body.split("```python\n")[1].split("```")[0]
    expected = snippet.rstrip().splitlines()[-1].partition("  # ")[2]
    script = tmp_path / "snippet.py"
    script.write_text(WITHOUT_TINYSEQ + snippet, encoding="utf-8")
    used = run(sys.executable, script)
    assert used.stdout == f"{expected}\n", used.stderr
    assert expected


def test_two_processes_give_the_weights_of_one_with_the_same_global_batch(corpus, tmp_path):
    common = [*TINY, "--train", corpus / "train.tsv", "--max_steps", 20, "--log_steps", 5, "--dropout", 0.1]
    train(*common, "--gradient_accumulation_steps", 2, "--output_dir", tmp_path / "one", output=tmp_path / "one.out")
    text = train(*common, "--output_dir", tmp_path / "two", output=tmp_path / "two.out", ranks=2)
    assert "Warning" not in text
    one, two = (load_file(tmp_path / name / "last" / "model.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=0, atol=1e-5)
    for ours, theirs in zip(log_of(tmp_path / "one"), log_of(tmp_path / "two"), strict=True):
        assert ours.keys() == theirs.keys()
        for figure in {"loss_per_target_token", "learning_rate", "valid_loss", "valid_bleu"} & ours.keys():
            assert ours[figure] == pytest.approx(theirs[figure], rel=1e-4)


def test_the_same_seed_gives_the_same_weights_and_another_gives_others(finished_run, corpus, tmp_path):
    """In another process, with hashes of its own."""
    weights = [(finished_run / "last" / "model.safetensors").read_bytes()]
    for seed in (0, 4):
        folder = tmp_path / str(seed)
        train(*options(corpus), "--seed", seed, "--output_dir", folder, output=tmp_path / "out")
        weights.append((folder / "last" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


def test_bfloat16_training_gives_finite_float32_weights(corpus, tmp_path):
    options = ["--train", corpus / "train.tsv", *TINY, "--max_steps", 6, "--log_steps", 2, "--mixed_precision", "bf16"]
    train(*options, "--output_dir", tmp_path / "run", output=tmp_path / "out")
    weights = load_file(tmp_path / "run" / "last" / "model.safetensors")
    assert all(tensor.dtype == torch.float32 and tensor.isfinite().all() for tensor in weights.values())
    losses = [line["loss_per_target_token"] for line in log_of(tmp_path / "run") if "loss_per_target_token" in line]
    assert losses[-1] < losses[0]


def refused(capsys, *arguments):
    """Returns what train.py, here, says of arguments that it refuses."""
    with pytest.raises(SystemExit) as stop:
        script.main([str(argument) for argument in arguments])
    assert stop.value.code not in (0, None)
    return capsys.readouterr().err


def test_a_folder_that_holds_another_run_is_not_touched(finished_run, corpus, capsys):
    before = {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")}
    message = refused(capsys, "--train", corpus / "train.tsv", "--output_dir", finished_run)
    assert "not empty" in message
    assert "--overwrite" in message
    assert before == {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")}


def test_the_command_ends_with_one_line_and_an_exit_code_after_bad_input(tmp_path):
    result = run(sys.executable, "train.py", "--train", "nowhere.tsv", "--output_dir", tmp_path / "out")
    assert result.returncode == 1
    assert result.stderr.startswith("train.py: error: ")
    assert "nowhere.tsv" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output_dir", "OUT"], "--train is missing"),
        (["--train", "grammar"], "--output_dir is missing"),
        (["--train", "nowhere.tsv", "--output_dir", "OUT"], "nowhere.tsv"),
        (["--train", "grammar", "--output_dir", "OUT", "--max_steps", "0"], "--max_steps 0 must be 1 or more"),
        (["--train", "grammar", "--output_dir", "OUT", "--d_model", "130"], "d_model=130 is not divisible"),
        (["--train", "grammar", "--output_dir", "OUT", "--label_smoothing", "1"], "--label_smoothing 1.0"),
        (["--train", "grammar", "--output_dir", "OUT", "--card_examples", "-1"], "--card_examples -1"),
        (["--train", "grammar", "--output_dir", "OUT", "--hub_private_repo"], "without --push_to_hub"),
        (["--train", "grammar", "--output_dir", "OUT", "--push_to_hub"], "there is no Hub token"),
        (["--train", "grammar", "--output_dir", "OUT", "--streaming"], "--streaming needs --valid"),
        (
            ["--train", "a.tsv", "--valid", "b.tsv", "--output_dir", "OUT", "--streaming"],
            "--streaming needs --max_steps or --time_budget_minutes",
        ),
        (["--train", "a.tsv", "+", "b.tsv", "--output_dir", "OUT", "--weights", "1"], "for each of the 2 corpora"),
        (["--train", "a.tsv", "+", "--output_dir", "OUT"], "a + stands between two corpora"),
        (["--train", "grammar", "--output_dir", "OUT", "--resume", "--overwrite"], "give one of them"),
        (["--train", "grammar", "--output_dir", "OUT", "--average_checkpoints", "3"], "--keep_checkpoints is 2"),
        (["--train", "grammar", "--output_dir", "OUT", "--ema_decay", "1"], "--ema_decay 1.0"),
        (["--train", "grammar", "--output_dir", "OUT", "--drop", "dupes"], "dupes"),
        (["--train", "a.en", "a.es", "--output_dir", "OUT", "--dataset_revision", "x"], "--dataset_revision is for"),
    ],
)
def test_bad_input_ends_with_one_line_before_anything_is_written(tmp_path, capsys, arguments, message):
    out = tmp_path / "out"
    stderr = refused(capsys, *[out if argument == "OUT" else argument for argument in arguments])
    assert message in stderr
    assert "Traceback" not in stderr
    assert not out.exists()


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_rate_rises_in_the_warm_up_and_is_near_zero_at_the_last_update_only(schedule):
    options = RunOptions(learning_rate=2.0, warmup_steps=10, schedule=schedule)
    rates = [learning_rate(step, 100, options) for step in range(100)]
    assert rates[:10] == pytest.approx([0.2 * step for step in range(1, 11)])
    assert rates[10] == pytest.approx(2.0)
    assert all(later < earlier for earlier, later in itertools.pairwise(rates[10:]))
    assert 0 < rates[-1] < 0.03
    assert rates[-2] > rates[-1]


def test_linear_falls_by_equal_steps_and_inverse_sqrt_halves_when_the_update_number_is_four_times_as_large():
    linear = [learning_rate(step, 100, RunOptions(learning_rate=2.0, warmup_steps=10)) for step in (10, 40, 70)]
    assert linear[0] - linear[1] == pytest.approx(linear[1] - linear[2])
    options = RunOptions(learning_rate=2.0, warmup_steps=10, schedule="inverse_sqrt")
    assert learning_rate(79, 1000, options) == pytest.approx(learning_rate(19, 1000, options) / 2)
