"""`tinyseq.evaluation`: the numbers are those of sacreBLEU's own command line, on raw text."""

import json
import random
import subprocess
import sys

import pytest

from tinyseq.evaluation import bleu_tokenizer_for, score

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
