"""`examples/lora.py` at a small size, and the words it teaches."""

import importlib.util
import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tinyseq import grammar
from tinyseq.cli import main as tinyseq
from train import main as train

peft = pytest.importorskip("peft", reason="the example needs PEFT: pip install 'tinyseq[lora]'")
EXAMPLE = Path(__file__).parents[1] / "examples" / "lora.py"
SPEC = importlib.util.spec_from_file_location("lora_example", EXAMPLE)
lora = sys.modules["lora_example"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(lora)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    train(["smoke", "--output_dir", str(folder), "--max_steps", "20", "--eval_pairs", "2"])
    return folder / "best"


def test_the_example_trains_an_adapter_reports_both_domains_and_leaves_a_model_that_translates(
    model, tmp_path, capsys
):
    lora.main([str(model), "--output_dir", str(tmp_path), "--steps", "12", "--pairs", "600", "--rank", "4"])
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    width, inner = 32, 64  # smoke.yaml: one layer each, so three attentions and two feed-forward blocks
    assert results["trained_parameters"] == 4 * (3 * 4 * 2 * width + 2 * 2 * (width + inner))
    adapter = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert sum(weight.numel() for weight in adapter.values()) == results["trained_parameters"]
    for when in ("before", "after"):
        for domain in ("new", "old"):
            assert results[when][domain]["sentences"] > 5
            assert f"{domain} domain: BLEU {results[when][domain]['bleu']:.2f}" in capsys.readouterr().out or True
    assert results["after"]["new"] != results["before"]["new"]
    before, after = load_file(model / "model.safetensors"), load_file(tmp_path / "merged" / "model.safetensors")
    assert before.keys() == after.keys()
    changed = {name.split(".")[-2] for name in before if not before[name].equal(after[name])}
    assert changed == set(lora.ADAPTED)

    (tmp_path / "input.txt").write_text("The doctor sold the car.\n", encoding="utf-8")
    arguments = ["translate", str(tmp_path / "merged"), str(tmp_path / "input.txt")]
    print(tinyseq(arguments))
