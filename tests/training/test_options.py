"""The options of a run: what each declares of itself, and what is refused for it."""

import json
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from tinyseq.evaluation import METRICS, Metric
from tinyseq.training.options import NOT_DECIDING, RENAMED, RunOptions, check_options, check_ranges, without
from tinyseq.training.recipe import model_options, parse_options
from tinyseq.training.state import check_identity
from tinyseq.training.validation import merit

OPTIONS = {one.name: one for one in fields(RunOptions)}
NUMBERS = [
    name
    for name, one in OPTIONS.items()
    if {"int", "float"}
    & set(str(one.type).replace("[", " ").replace("]", " ").replace("'", " ").replace(">", " ").split())
]


def options(**given):
    return RunOptions(train=["grammar"], output_dir="run", **given)


def test_every_number_has_a_range_and_its_default_is_in_it():
    assert {"max_grad_norm", "warmup_steps", "adam_beta2", "weight_decay", "loader_workers", "seed", "weights"} <= {
        *NUMBERS
    }
    assert [name for name in NUMBERS if OPTIONS[name].metadata["facts"].allowed is None] == []
    check_ranges(RunOptions())


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("max_grad_norm", -1.0, "0 or more"),
        ("warmup_steps", -1, "0 or more"),
        ("adam_beta2", 1.0, "at least 0 and below 1"),
        ("weight_decay", float("inf"), "0 or more"),
        ("weight_decay", -0.1, "0 or more"),
        ("loader_workers", -2, "0 or more"),
        ("seed", -1, "from 0 to 2"),
        ("seed", 2**32, "from 0 to 2"),
        ("learning_rate", float("nan"), "greater than 0"),
        ("learning_rate", 0.0, "greater than 0"),
        ("length_penalty", float("nan"), "a finite number"),
        ("time_budget_minutes", 0.0, "greater than 0"),
        ("vocab_size", 0, "1 or more"),
        ("eval_pairs", 0, "1 or more"),
    ],
)
def test_a_number_out_of_its_range_is_refused_by_name_with_what_is_allowed(name, value, allowed):
    with pytest.raises(ValueError, match=rf"--{name} {value} must be {allowed}"):
        check_options(options(**{name: value}))


def test_each_of_several_weights_has_the_range():
    with pytest.raises(ValueError, match=r"--weights -0\.5 must be greater than 0"):
        check_options(options(weights=[1.0, -0.5]))


def test_a_run_goes_on_with_other_values_of_what_decides_nothing_and_of_nothing_else(tmp_path):
    saved = {"options": {name: 1 for name in OPTIONS}}
    for name, one in OPTIONS.items():
        now = {"options": {**saved["options"], name: 2}}
        if one.metadata["facts"].decides_weights:
            with pytest.raises(ValueError, match=f"--resume: {name} is 2 and was 1"):
                check_identity(saved, now, tmp_path)
        else:
            check_identity(saved, now, tmp_path)


def test_a_checkpoint_with_the_old_name_of_an_option_goes_on(tmp_path):
    assert RENAMED.keys() <= NOT_DECIDING
    check_identity(
        {"options": {"time_budget": 3, "seed": 1}}, {"options": {"time_budget_minutes": 3, "seed": 1}}, tmp_path
    )


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_works_on_the_command_line_and_in_a_recipe_and_tells_the_new_one(old, new, tmp_path, capsys):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"{old}: 7", encoding="utf-8")
    for arguments in ([f"--{old}", "7"], [f"--{old}=7"], [str(recipe)]):
        run, _ = parse_options([RunOptions, model_options()], arguments, "", prog="train.py", renamed=RENAMED)
        assert getattr(run, new) == 7
        assert f"train.py: {old} is called {new} now" in capsys.readouterr().err


def test_what_is_private_or_of_a_machine_is_left_out_by_that_fact():
    values = {**dict.fromkeys(OPTIONS, 1), "d_model": 1}
    public, same = without("is_private", values), without("of_machine", values)
    assert {"learning_rate", "num_beams", "d_model"} <= public.keys()
    assert public.keys() & {"output_dir", "train", "hub_model_id", "report_to", "tokenizer"} == set()
    assert values.keys() - same.keys() == {"output_dir", "train", "valid", "test", "tokenizer", "loader_workers"}


def test_a_new_option_or_another_default_is_a_decision():
    """All options of a run and of a model with their defaults: who changes one says so in options.json, and why."""
    now = {}
    for kind in (RunOptions, model_options()):
        for one in fields(kind):
            assert one.default is not MISSING
            now[one.name] = one.default
    known = json.loads((Path(__file__).parent / "options.json").read_text(encoding="utf-8"))
    assert now == known


def test_every_metric_can_choose_the_best_model_and_one_where_less_is_better_turned_round(monkeypatch):
    assert OPTIONS["best_metric"].metadata["choices"] == (*METRICS, "loss")
    monkeypatch.setitem(METRICS, "ter", Metric("TER", "TER", lambda tokenize: None, sign=-1))
    figures = {"valid_bleu": 3.0, "valid_ter": 70.0, "valid_loss": float("nan")}
    assert [merit(figures, name) for name in ("bleu", "ter", "loss")] == [3.0, -70.0, float("-inf")]
