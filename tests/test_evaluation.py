"""`tinyseq.evaluation`: the numbers are those of sacreBLEU's own command line, on raw text."""

import json
import random
import subprocess
import sys
from types import SimpleNamespace

import pytest
from accelerate import Accelerator
from datasets import Dataset
from sacrebleu.metrics import TER
from taught import save_taught_model

from tinyseq.attention import pictures
from tinyseq.batching.encoding import encode_pairs
from tinyseq.cli import main as cli
from tinyseq.evaluation import METRICS, Metric, bleu_tokenizer_for, score
from tinyseq.hub.push import make_card
from tinyseq.training.interruption import Interruption
from tinyseq.training.validation import evaluate
from tinyseq.translation import Translator

# Rare characters, double spaces, a detached full stop, something that looks like an entity or like a special token
REFERENCES = [
    "Ein Hund läuft  durch den Schnee .",
    "„Grüße“ – 3,5 % der Ærø-Fähren; Ωμέγα &quot;x&quot;",
    "Zwei Männer stehen am Herd und bereiten Essen zu.",
    "a_b <unk> </s> 🐕 co-op 1,000.50",
    "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
]
HYPOTHESES = [
    "Ein Hund läuft durch den Schnee.",
    "„Grüße“ - 3,5 % der Ærø-Fähren; Omega &quot;x&quot;",
    "Zwei Männer stehen am Ofen und bereiten Essen zu.",
    "",
    "Ein kleines Mädchen klettert in ein Haus aus Holz.",
]
OTHER_REFERENCES = [
    "Durch den Schnee läuft ein Hund.",
    "Grüße",
    "Zwei Männer kochen am Herd.",
    "🐕",
    "Ein Mädchen klettert.",
]


def sacrebleu_command_line(tmp_path, hypotheses, reference_lists, tokenize):
    """What `python -m sacrebleu` prints for these texts as files: scores by name, then signatures by name."""
    paths = []
    for number, lines in enumerate([hypotheses, *reference_lists]):
        path = tmp_path / f"{number}.txt"
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        paths.append(str(path))
    command = [sys.executable, "-m", "sacrebleu", *paths[1:], "-i", paths[0], "-m", "bleu", "chrf", "-w", "6"]
    output = subprocess.run([*command, "--tokenize", tokenize], capture_output=True, check=True).stdout
    metrics = json.loads(output)
    return {m["name"]: m["score"] for m in metrics}, {m["name"]: m["signature"] for m in metrics}


@pytest.mark.parametrize("tokenize", ["13a", "char"])
@pytest.mark.parametrize("reference_lists", [[REFERENCES], [REFERENCES, OTHER_REFERENCES]])
def test_scores_and_signatures_are_those_of_the_sacrebleu_command_line(tmp_path, reference_lists, tokenize):
    expected, signatures = sacrebleu_command_line(tmp_path, HYPOTHESES, reference_lists, tokenize)

    scores = score(HYPOTHESES, reference_lists, tokenize=tokenize)

    assert scores.bleu == pytest.approx(expected["BLEU"], abs=0.0001)
    assert scores.chrf == pytest.approx(expected["chrF2"], abs=0.0001)
    assert scores.bleu_signature == signatures["BLEU"]
    assert scores.chrf_signature == signatures["chrF2"]


def test_bleu_of_one_wrong_last_word_is_the_hand_worked_number():
    # of six words: 5/6 unigrams, 4/5 bigrams, 3/4 trigrams and 2/3 four-grams match; their product is 1/3
    scores = score(["a b c d e f"], ["a b c d e g"])

    assert scores.bleu == pytest.approx(100 * (1 / 3) ** (1 / 4))


def test_one_list_of_references_equals_a_list_with_that_list():
    assert score(HYPOTHESES, REFERENCES) == score(HYPOTHESES, [REFERENCES])


def test_the_order_of_the_sentences_does_not_change_the_scores():
    order = list(range(len(HYPOTHESES)))
    random.shuffle(order)
    assert order != sorted(order)

    shuffled = score([HYPOTHESES[i] for i in order], [REFERENCES[i] for i in order])

    assert shuffled.bleu == pytest.approx(score(HYPOTHESES, REFERENCES).bleu)
    assert shuffled.chrf == pytest.approx(score(HYPOTHESES, REFERENCES).chrf)


def test_an_exact_match_is_a_match_to_the_letter_with_any_of_the_references():
    hypotheses = ["one", "Two", "three ", "four"]

    scores = score(hypotheses, [["one", "two", "three", "x"], ["x", "x", "x", "four"]])

    assert scores.exact_match == 50.0
    assert scores.sentences == 4


def test_scores_print_with_two_decimals_and_their_signatures_and_turn_into_a_dictionary():
    scores = score(["a b c d e f"], ["a b c d e g"])

    assert "75.98   nrefs:1|case:mixed|eff:no|tok:13a" in str(scores)
    assert f"{scores.chrf:.2f}   nrefs:1|case:mixed|eff:yes|nc:6|nw:0" in str(scores)
    assert json.loads(json.dumps(scores.to_dict()))["bleu_signature"] == scores.bleu_signature


@pytest.mark.parametrize(
    "hypotheses, references, message",
    [
        (["a", "b"], ["a"], "2 hypotheses, but there are 1 references"),
        (["a", "b"], [["a", "b"], ["a", "b", "c"]], "2 hypotheses, but reference list 2 has 3 references"),
        ([], [], "nothing to score: 0 hypotheses"),
        (["a"], [], "1 hypotheses, but there are 0 references"),
    ],
)
def test_unequal_or_empty_lists_are_refused_with_both_numbers(hypotheses, references, message):
    with pytest.raises(ValueError, match=message):
        score(hypotheses, references)


@pytest.mark.parametrize(
    "hypotheses, references, message",
    [(["a", None], ["a", "b"], r"hypotheses\[1\] is of type NoneType"), (["a"], [[7]], r"references\[0\] is .* int")],
)
def test_what_is_not_text_is_refused_by_its_place(hypotheses, references, message):
    with pytest.raises(TypeError, match=message):
        score(hypotheses, references)


def test_an_unknown_tokenizer_is_refused_and_the_known_ones_are_listed():
    with pytest.raises(ValueError, match="tokenize='13b' is not known; choose one of .*13a"):
        score(["a"], ["a"], tokenize="13b")


def test_references_that_are_not_in_nfc_are_counted_in_a_warning(caplog):
    score(["é", "b"], ["e\u0301", "b"])

    assert "1 of 2 references are not in NFC" in caplog.text


def test_nothing_is_said_of_references_in_nfc(caplog):
    score(["é"], ["é"])

    assert caplog.text == ""


def test_the_target_language_chooses_the_tokenizer_that_is_installed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert [bleu_tokenizer_for(code) for code in (None, "de", "zh", "zh-CN", "zh_TW", "ja", "ko", "KO")] == [
        "13a", "13a", "zh", "zh", "zh", "char", "char", "char"
    ]  # fmt: skip
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert [bleu_tokenizer_for(code) for code in ("ja", "ko-KR")] == ["ja-mecab", "ko-mecab"]


def test_chinese_is_scored_by_character_when_the_language_is_given():
    scores = score(["我喜欢狗"], ["我喜欢猫"], language="zh")

    assert "tok:zh" in scores.bleu_signature
    assert scores.bleu == pytest.approx(score(["我 喜 欢 狗"], ["我 喜 欢 猫"], tokenize="none").bleu)


# a metric more ------------------------------------------------------------------------------------------------------

LEARNED = {"two dogs": "zwei Hunde", "a man rides": "ein Mann reitet"}


@pytest.fixture
def ter(monkeypatch):
    """Translation edit rate: words to change, in percent of the reference's; one line in the table is all it takes."""
    metric = Metric("TER", "TER", lambda tokenize: TER(), sign=-1, in_curve=True)
    monkeypatch.setitem(METRICS, "ter", metric)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a model that knows two sentences by heart."""
    folder = tmp_path_factory.mktemp("model")
    sizes = {"encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 4}
    save_taught_model(folder, LEARNED, seed=3, vocab_size=300, **sizes)
    return folder


@pytest.fixture
def validated(ter, model):
    """The figures of an evaluation while training; of four words in the references one is not what the model says."""
    pairs = Dataset.from_dict({"source": ["two dogs", "two dogs"], "target": ["zwei Hunde", "zwei Katzen"]})
    translator = Translator.from_pretrained(model)
    options = SimpleNamespace(batch_size_tokens=64, eval_pairs=2, bleu_tokenizer="13a")
    encoded = encode_pairs(pairs, translator.tokenizer, 30)
    return evaluate(Accelerator(cpu=True), translator, encoded, pairs, options, Interruption())


def test_a_new_metric_is_computed_and_printed_beside_the_others(ter):
    scores = score(["a b c d e f"], ["a b c d e g"])

    assert scores.ter == scores.to_dict()["ter"] == pytest.approx(100 / 6)
    assert list(scores.to_dict()) == [
        "bleu", "chrf", "ter", "exact_match", "sentences", "bleu_signature", "chrf_signature", "ter_signature"
    ]  # fmt: skip
    assert str(scores).splitlines()[2] == f"TER           16.67   {scores.ter_signature}"


def test_a_new_metric_is_a_figure_of_each_evaluation_while_training(validated):
    assert validated["valid_ter"] == 25.0
    assert validated["ter_signature"].startswith("nrefs:1|case:lc|tok:tercom")


def test_a_new_metric_is_in_the_line_that_tells_of_an_evaluation(capsys, validated):
    line = capsys.readouterr().out.splitlines()[-1]

    assert line.endswith(f"BLEU {validated['valid_bleu']:.2f}, chrF {validated['valid_chrf']:.2f}, TER 25.00")


def test_a_new_metric_is_drawn(validated, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib", reason="Matplotlib is an extra: pip install tinyseq[viz]")
    drawn = []
    monkeypatch.setattr(pictures, "save", lambda figure, path: drawn.append(figure))

    pictures.draw_curve([{"step": 7, **validated}], tmp_path / "curve.png")

    lines = {line.get_label(): line.get_xydata().tolist() for axes in drawn[0].axes for line in axes.get_lines()}
    assert lines["validation TER"] == [[7.0, 25.0]]
    assert list(lines) == ["training loss", "validation loss", "validation BLEU", "validation TER"]
    assert drawn[0].axes[1].get_ylabel() == "BLEU, TER"


def test_a_new_metric_is_on_the_card(validated, model, tmp_path):
    (tmp_path / "config.json").write_bytes((model / "config.json").read_bytes())
    (tmp_path / "training.json").write_text(json.dumps(validated), encoding="utf-8")

    card = make_card(tmp_path, "alice/en-de")

    assert "| set | sentences | search | BLEU | chrF2 | TER |\n|---|---|---|---|---|---|\n" in card
    assert f"| {validated['valid_chrf']:.2f} | 25.00 |" in card
    assert f", TER `{validated['ter_signature']}`." in card
    assert f"type: ter\n      value: 25.0\n      name: TER {validated['ter_signature']}" in card
    assert "metrics:\n- bleu\n- chrf\n- ter\n" in card


def test_a_card_has_the_metrics_that_an_older_version_computed(ter, model, tmp_path):
    scores = {key: value for key, value in score(["a b"], ["a c"]).to_dict().items() if "ter" not in key}
    (tmp_path / "config.json").write_bytes((model / "config.json").read_bytes())
    (tmp_path / "training.json").write_text(json.dumps({"test": scores}), encoding="utf-8")

    card = make_card(tmp_path, "alice/en-de")

    assert "| set | sentences | search | BLEU | chrF2 |\n" in card
    assert "TER" not in card


def test_a_new_metric_is_measured_before_and_after_pruning(ter, model, tmp_path, capsysbinary):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in LEARNED.items()), encoding="utf-8")
    arguments = ["prune", str(model), "--corpus", str(pairs), "--heads", "decoder.1.2"]

    assert cli.main([*arguments, "--output", str(tmp_path / "smaller")]) == 0

    rows = [line.split() for line in capsysbinary.readouterr().out.decode().splitlines()]
    assert ["ter", "0.00"] in [row[:2] for row in rows]
