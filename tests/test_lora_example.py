"""`examples/lora.py` at a small size, what it says, and the words that it teaches."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file
from training_runs import write_pairs

from tinyseq import grammar
from tinyseq.cli.main import main as tinyseq
from tinyseq.grammar.lexicon import ADJECTIVES, NOUNS
from train import main as train

EXAMPLE = Path(__file__).parents[1] / "examples" / "lora.py"
SPEC = importlib.util.spec_from_file_location("lora_example", EXAMPLE)
lora = sys.modules["lora_example"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(lora)
needs_peft = pytest.mark.skipif(
    importlib.util.find_spec("peft") is None, reason="the example needs PEFT: pip install 'tinyseq[lora]'"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    corpus = write_pairs(folder.with_name("train.tsv"), 600)
    train(["smoke", "--train", str(corpus), "--output_dir", str(folder), "--max_steps", "20", "--eval_pairs", "2"])
    return folder / "best"


@needs_peft
def test_it_trains_an_adapter_scores_both_domains_and_leaves_a_model_that_translates(model, tmp_path, capsys):
    output = tmp_path / "mexico"
    lora.main([str(model), "--output_dir", str(output), "--steps", "12", "--pairs", "600", "--rank", "4"])
    printed = capsys.readouterr().out
    results = json.loads((output / "results.json").read_text(encoding="utf-8"))
    width, inner = 32, 64  # of smoke.yaml, with one layer on each side: three attentions and two feed-forward blocks
    assert results["trained_parameters"] == 4 * (3 * 4 * (width + width) + 2 * 2 * (width + inner))
    adapter = load_file(output / "adapter" / "adapter_model.safetensors")
    assert sum(weight.numel() for weight in adapter.values()) == results["trained_parameters"]
    for when in ("before", "after"):
        for domain in ("new", "old"):
            scores = results[when][domain]
            assert scores["sentences"] > 5
            assert f"{domain} domain: BLEU {scores['bleu']:.2f}" in printed
    assert results["after"] != results["before"]

    before, after = (load_file(folder / "model.safetensors") for folder in (model, output / "merged"))
    assert before.keys() == after.keys()
    changed = {name.removesuffix(".weight") for name in before if not before[name].equal(after[name])}
    assert {name.split(".")[-1] for name in changed} == set(lora.ADAPTED)
    assert len(changed) == 3 * 4 + 2 * 2

    text = tmp_path / "input.txt"
    text.write_text("The doctor sold the car.\nThe cat sleeps.\n", encoding="utf-8")
    translations = []
    for folder in ("merged", "adapter"):
        assert tinyseq(["translate", str(output / folder), str(text)]) == 0
        translations.append(capsys.readouterr().out)
    assert translations[0] == translations[1]
    assert len(translations[0].splitlines()) == 2


@pytest.mark.parametrize(
    "spain, mexico",
    [
        ("El coche está detrás del carro.", "El carro está detrás del carretón."),  # one word takes the other's place
        ("¿Ve la camarera los autobuses?", "¿Ve la mesera los camiones?"),
        ("La valla está cerca de la calle estrecha.", "La cerca está cerca de la calle angosta."),
        ("Los médicos estaban delante del museo.", "Los doctores estaban enfrente del museo."),
        ("El gato negro bebió la leche.", "El gato negro bebió la leche."),
    ],
)
def test_mexican_is_the_sentence_with_mexicos_words(spain, mexico):
    assert lora.mexican(spain) == mexico


def test_each_word_occurs_in_the_corpus_and_keeps_its_gender():
    corpus = {word for pair in grammar.generate("train", 5000) for word in re.findall(r"\w+", pair.target)}
    assert set(lora.MEXICO) <= corpus
    nouns = {"m": set(), "f": set()}
    for noun in NOUNS:
        if noun.spanish in lora.MEXICO:
            nouns[noun.gender].add(lora.MEXICO[noun.spanish])
    assert nouns["m"] == {"carro", "carretón", "camión", "doctor", "maestro", "ranchero"}
    assert nouns["f"] == {"papa", "pelota", "cerca", "mesera"}
    for adjective in ADJECTIVES:
        if adjective.spanish in lora.MEXICO:
            for ending, form in (("o", ("m", False)), ("a", ("f", False)), ("os", ("m", True)), ("as", ("f", True))):
                assert lora.MEXICO[adjective.form(*form)].endswith(ending)


def test_new_sentences_have_a_word_of_mexico_old_ones_have_none_and_no_test_sentence_is_trained_on():
    domain = lora.load_domain(600)
    words = re.compile(r"\b(" + "|".join(lora.MEXICO.values()) + r")\b")
    spain = {pair.source: pair.target for split in ("train", "test") for pair in grammar.generate(split, 600)}
    for source, target in domain.new + domain.new_test:
        assert target != spain[source]
        assert words.search(target)
    for source, target in domain.old + domain.old_test:
        assert target == spain[source]
    assert len(domain.old) == len(domain.new) > 50
    trained, tested = (dict(pairs).keys() for pairs in (domain.new + domain.old, domain.new_test + domain.old_test))
    assert not trained & tested


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nowhere", "--output_dir", "new"], "nowhere: there is no model in this folder.*make demo"),
        (["MODEL", "--output_dir", "full"], "--output_dir full is not empty; choose another"),
        (["MODEL", "--output_dir", "new", "--steps", "0"], "--steps 0 must be 1 or more"),
        (["MODEL", "--output_dir", "new", "--learning_rate", "-1"], "--learning_rate -1.0 must be greater than 0"),
        (["MODEL"], "required: --output_dir"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_that_says_what_to_do_before_any_work(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for folder, file in (("MODEL", "config.json"), ("full", "something")):
        Path(folder).mkdir()
        Path(folder, file).write_text("{}")
    with pytest.raises(SystemExit) as stopped:
        lora.main(arguments)
    assert stopped.value.code == 2
    assert re.search(message, capsys.readouterr().err.splitlines()[-1])
    assert not Path("new").exists()


def test_the_help_shows_how_to_run_it_and_every_default(capsys):
    with pytest.raises(SystemExit):
        lora.main(["--help"])
    printed = capsys.readouterr().out
    assert "python examples/lora.py demo_output/run/best --output_dir" in printed
    assert printed.count("[default:") == 6
