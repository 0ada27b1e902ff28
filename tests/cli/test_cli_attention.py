"""`tinyseq attend`, `heads` and `prune`: what a shell sees of them; and the table, the PNG and the page's data.

The fixture's model has learned two sentences.
"""

import base64
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from by_hand import random_model
from taught import save_taught_model
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, T5Config, T5ForConditionalGeneration

from tinyseq import TinySeqTokenizer, attention, grammar
from tinyseq.attention import pictures
from tinyseq.attention.heads import Totals, removed_heads, without_each_head

LEARNED = {"Two dogs play.": "Zwei Hunde spielen.", "A man rides.": "Ein Mann reitet."}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a model."""
    folder = tmp_path_factory.mktemp("model")
    options = {"encoder_layers": 1, "decoder_layers": 2, "max_position_embeddings": 30, "encoder_attention_heads": 2}
    save_taught_model(folder, LEARNED, seed=3, vocab_size=320, **options)
    return str(folder)


@pytest.fixture
def run(run):
    """Runs a command in this process: returns exit code, standard output and standard error, as text."""

    def run_command(*arguments):
        code, out, err = run(*arguments)
        return code, out.decode(), err.decode()

    return run_command


@pytest.fixture
def corpus(tmp_path):
    """Two aligned files: the sentences learned, and one that the model does not take."""
    pairs = {**LEARNED, "long " * 40: "lang"}
    (tmp_path / "c.en").write_text("".join(f"{source.strip()}\n" for source in pairs), encoding="utf-8")
    (tmp_path / "c.de").write_text("".join(f"{target}\n" for target in pairs.values()), encoding="utf-8")
    return ["c.en", "c.de"]


def maps_of(model, source="Two dogs play.", **options):
    loaded = AutoModelForSeq2SeqLM.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    return attention.maps(*loaded, source, **options)


def data_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def unpacked(packed):
    shape = [packed[name] for name in ("layers", "heads", "rows", "columns")]
    return np.frombuffer(base64.b64decode(packed["weights"]), dtype="<u2").reshape(shape) / 65535


# attend --------------------------------------------------------------------------------------------------------------


def test_attend_shows_the_translation_and_a_table_of_its_words_in_percent(run, model):
    code, out, err = run("attend", model, "Two dogs play.")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("cross, layer 1 of 0 to 1, mean of all heads")
    assert lines[2].startswith("Two dogs play.  ->  Zwei Hunde spielen.  (-0.")
    assert lines[4].split() == ["Two", "dogs", "play", ".", "</s>"]
    assert [line.split()[0] for line in lines[5:]] == ["Zwei", "Hunde", "spielen", ".", "</s>"]
    expected = maps_of(model).of_words().cross[1].mean(0)
    for line, row in zip(lines[5:], expected, strict=True):
        shown = [int(number) for number in re.findall(r"\d+", line)]
        assert shown == [round(100 * weight) for weight in row if weight >= 0.005]


def test_attend_shows_the_map_that_is_asked_for(run, model):
    code, out, _ = run("attend", model, "Two dogs play.", "--attention", "encoder", "--head", 1, "--pieces")
    assert code == 0
    assert out.startswith("encoder, layer 0 of 0 to 0, head 1")
    found = maps_of(model)
    rows = out.splitlines()[5:]
    assert [row.split()[0] for row in rows] == found.source_pieces
    shown = [int(number) for number in re.findall(r"\d+", rows[0])]
    assert shown == [round(100 * weight) for weight in found.encoder[0, 1, 0] if weight >= 0.005]


def test_attend_shows_a_translation_that_is_given(run, model):
    code, out, _ = run("attend", model, "Two dogs play.", "--translation", "Ein Mann.")
    assert code == 0
    assert "->  Ein Mann." in out


def test_each_of_the_n_best_has_its_table_and_its_picture(run, model, tmp_path):
    pytest.importorskip("matplotlib", reason="Matplotlib is an extra: pip install tinyseq[viz]")
    code, out, _ = run("attend", model, "Two dogs play.", "--nbest", 3, "--png", "map.png", "--max_new_tokens", 12)
    assert code == 0
    assert out.count("Two dogs play.  ->") == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map-1.png", "map-2.png", "map-3.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())


def test_the_page_holds_the_maps_of_the_words_and_what_becomes_of_the_translation_without_each_head(
    run, model, tmp_path
):
    code, _, err = run("attend", model, "Two dogs play.", "--html", "page.html")
    assert (code, err) == (0, "")
    data = data_of(tmp_path / "page.html")
    words = maps_of(model).of_words()
    assert data["source"] == {"text": "Two dogs play.", "tokens": words.source_pieces}
    (hypothesis,) = data["hypotheses"]
    assert hypothesis["text"] == "Zwei Hunde spielen."
    assert hypothesis["read"] == ["BEGIN", *words.target_pieces[:-1]]
    assert hypothesis["written"] == words.target_pieces
    np.testing.assert_allclose(unpacked(data["encoder"]), words.encoder, atol=1e-5)
    np.testing.assert_allclose(unpacked(hypothesis["decoder"]), words.decoder, atol=1e-5)
    np.testing.assert_allclose(unpacked(hypothesis["cross"]), words.cross, atol=1e-5)
    assert data["heads"]["measured"] == "this sentence alone"
    assert [len(layer) for layer in data["without"]["encoder"]] == [2]
    assert all(isinstance(head["text"], str) for head in data["without"]["encoder"][0])


def test_without_a_head_the_translation_is_made_as_the_first_of_the_n_best_was(run, model, tmp_path):
    code, _, _ = run("attend", model, "dogs", "--nbest", 3, "--max_new_tokens", 9, "--html", "page.html")
    assert code == 0
    data = data_of(tmp_path / "page.html")
    loaded = AutoModelForSeq2SeqLM.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    first = attention.maps(*loaded, "dogs", num_beams=3, max_new_tokens=9)
    assert data["hypotheses"][0]["text"] == first.translation
    expected = without_each_head(*loaded, first, num_beams=3, max_new_tokens=9)
    for name, layers in expected.items():
        assert [[head["text"] for head in layer] for layer in data["without"][name]] == [
            [head["text"] for head in layer] for layer in layers
        ]


def test_a_translation_that_is_given_is_not_made_once_more(run, model, tmp_path):
    code, _, _ = run("attend", model, "Two dogs play.", "--translation", "Ein Mann.", "--html", "page.html")
    assert code == 0
    assert data_of(tmp_path / "page.html")["without"] is None


def test_a_model_of_another_family_has_its_page_too_but_no_switches(run, model, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(model)
    config = T5Config(
        vocab_size=len(tokenizer), d_model=12, d_kv=4, d_ff=16, num_layers=2, num_decoder_layers=1, num_heads=3,
        decoder_start_token_id=tokenizer.pad_token_id, pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    tokenizer.save_pretrained(tmp_path / "t5")
    code, _, err = run("attend", "t5", "Two dogs.", "--html", "page.html", "--max_new_tokens", 5)
    assert code == 0, err
    data = data_of(tmp_path / "page.html")
    assert data["without"] is None
    assert [len(layer) for layer in data["heads"]["encoder"]] == [3, 3]
    code, out, err = run("heads", "t5", "--corpus", "grammar", "--pairs", 3)
    assert (code, out) == (2, "")
    assert "heads of a 't5' model can't be reached" in err


def test_a_sentence_is_utf8_whatever_the_locale(model):
    command = [sys.executable, "-m", "tinyseq.cli", "attend", model, "Zwei Hündchen."]
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    assert "Zwei Hündchen." in done.stdout.decode("utf-8")
    command[-1] = b"caf\xe9"
    done = subprocess.run(command, capture_output=True, env=environment)
    assert done.returncode == 2
    assert b"is not UTF-8" in done.stderr


def test_the_page_says_what_heads_do_over_a_corpus(run, model, corpus, tmp_path):
    code, _, err = run("attend", model, "Two dogs play.", "--html", "page.html", "--corpus", *corpus)
    assert code == 0
    assert data_of(tmp_path / "page.html")["heads"]["measured"] == "2 pairs of c.en c.de"
    assert "1 of 3 pairs of c.en c.de are left out: blank, or longer than the 30 pieces" in err


def test_a_sentence_can_not_end_the_script_that_it_stands_in(run, model, tmp_path):
    code, _, _ = run("attend", model, "</script><b>", "--html", "page.html", "--max_new_tokens", 5)
    assert code == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "</script><b>" not in text
    assert "&lt;/script&gt;&lt;b&gt;</title>" in text
    assert data_of(tmp_path / "page.html")["source"]["text"] == "</script><b>"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((" ",), "the source is ' ': there is nothing in it to look at"),
        (("dogs", "--layer", "2"), "layer=2: the layers of this attention are 0 to 1"),
        (("dogs", "--head", "9"), "head=9: the heads of this attention are 0 to 3"),
        (("dogs", "--nbest", "3", "--num_beams", "2"), "n=3 is more than num_beams=2"),
        (("dogs", "--corpus", "grammar"), "--corpus is for the page: give --html, too"),
        (("dogs", "--html", "a.png", "--png", "./a.png"), "--png and --html are one file"),
        (("dogs", "--translation", "x", "--num_beams", "2"), "--translation is looked at as it is"),
        (("dogs", "--html", "no/page.html"), "--html no/page.html: the folder"),
        (("dogs", "--png", "."), "--png .: is a folder"),
        (("dogs", "--html", "page.html", "--corpus", "no.tsv"), "no.tsv"),
        (("dogs " * 40,), "and the model takes 30; look at a part of it"),
    ],
)
def test_attend_refuses_in_one_line_and_writes_nothing(run, model, tmp_path, arguments, message):
    code, out, err = run("attend", model, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("tinyseq: error: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_picture_without_matplotlib_is_refused_with_what_to_install(run, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err = run("attend", model, "dogs", "--png", "map.png")
    assert code == 2
    assert "pictures need Matplotlib: pip install tinyseq[viz]" in err


# heads and prune -----------------------------------------------------------------------------------------------------


def test_heads_prints_a_line_for_each_head(run, model, corpus):
    code, out, _ = run("heads", model, "--corpus", *corpus)
    assert code == 0
    assert out.startswith("measured on 2 pairs of c.en c.de\n")
    assert len(re.findall(r"^layer ", out, re.MULTILINE)) == 1 * 2 + 2 * 4 + 2 * 4
    data = json.loads(run("heads", model, "--corpus", *corpus, "--json")[1])
    assert [len(layer) for layer in data["cross"]] == [4, 4]
    assert data["cross"][1][2]["importance"] > 0


@pytest.mark.parametrize(
    ("split", "direction"),
    [
        ("validation", ()),
        ("dev", ("--source", "es", "--target", "en")),
        pytest.param("test", (), marks=pytest.mark.slow),  # makes 2,000 pairs
    ],
)
def test_heads_of_the_built_in_corpus_are_measured_with_its_links(run, model, split, direction):
    code, out, _ = run("heads", model, "--corpus", "grammar", "--split", split, *direction, "--pairs", 25, "--json")
    assert code == 0
    data = json.loads(out)
    name = "validation" if split == "dev" else split
    tokenizer = AutoTokenizer.from_pretrained(model)
    pairs = [
        pair
        for pair in grammar.generate(name)[:25]
        if max(len(ids) for ids in tokenizer([pair.source, pair.target])["input_ids"]) <= 30
    ]
    assert len(pairs) > 3
    found, loaded = [], AutoModelForSeq2SeqLM.from_pretrained(model).eval()
    for pair in pairs:
        sides = (pair.source, pair.target) if not direction else (pair.target, pair.source)
        links = pair.alignment if not direction else [(j, i) for i, j in pair.alignment]
        maps = attention.maps(loaded, tokenizer, sides[0], sides[1]).of_words()
        for row in sorted({j for _, j in links}):
            found.append(sum(maps.cross[1, 2, row, i] for i, j in links if j == row))
    assert data["cross"][1][2]["weights"]["alignment"] == pytest.approx(np.mean(found), abs=1e-4)


def test_prune_writes_a_smaller_model_and_says_what_it_cost(run, model, corpus, tmp_path):
    code, out, _ = run("prune", model, "--corpus", *corpus, "--output", "small", "--share", 0.25)
    assert code == 0
    small = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "small")
    before = AutoModelForSeq2SeqLM.from_pretrained(model)
    figures = dict(re.findall(r"^(\w+) +([\d,]+(?: +[\d,]+)+)$", out, re.MULTILINE))
    assert figures["heads"].split() == ["18", "14"]  # a quarter of 18 is 4 or 5, and Python rounds halves to even
    counts = [sum(parameter.numel() for parameter in one.parameters()) for one in (before, small)]
    assert figures["parameters"].split() == [f"{count:,}" for count in counts]
    assert counts[1] < counts[0]
    assert re.search(r"^bleu +100\.00 +\d+\.\d\d$", out, re.MULTILINE)
    assert AutoTokenizer.from_pretrained(tmp_path / "small")("dogs") == AutoTokenizer.from_pretrained(model)("dogs")


def test_prune_removes_the_heads_that_are_named(run, model, corpus, tmp_path):
    arguments = ("--corpus", *corpus, "--output", "small", "--heads", "cross.1.3", "encoder.0.0", "--json")
    code, out, _ = run("prune", model, *arguments)
    assert code == 0
    figures = json.loads(out)
    assert figures["removed"] == ["encoder.0.0", "cross.1.3"]
    assert (figures["before"]["heads"], figures["after"]["heads"]) == (18, 16)
    kept = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "small").config.kept_heads
    assert (kept["encoder"], kept["cross"][1]) == ([[1]], [0, 1, 2])
    assert run("attend", tmp_path / "small", "Two dogs play.", "--head", 3)[2].endswith(
        "was removed from layer 1 of this model\n"
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--heads", "encoder.0"), "'encoder.0' is no head; write ATTENTION.LAYER.HEAD"),
        (("--heads", "encoder.1.0"), "encoder.1.0: there is no such layer"),
        (("--share", "0.01"), "--share 0.01 of the heads of this model is less than half a head"),
        (("--output", "no/such/folder"), "--output no/such/folder: the folder"),
        (("--share", "0.9"), "16 heads can't be removed: from 0 to 13 can, as one of each layer must stay"),
        (("--test", "no.tsv"), "no.tsv"),
    ],
)
def test_prune_refuses_in_one_line_and_writes_nothing(run, model, corpus, tmp_path, arguments, message):
    before = sorted(tmp_path.iterdir())
    code, out, err = run("prune", model, "--corpus", *corpus, "--output", "small", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert sorted(tmp_path.iterdir()) == before


def test_prune_does_not_write_over_what_is_there(run, model, corpus, tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "mine.txt").write_text("mine")
    code, _, err = run("prune", model, "--corpus", *corpus, "--output", "small")
    assert code == 2
    assert "small: is there already, and not empty; choose another folder" in err


# tables and pictures -------------------------------------------------------------------------------------------------


def test_a_table_has_a_shade_for_each_strength_and_columns_under_their_words():
    weights = np.array([[0.004, 0.056, 0.94], [0.2, 0.3, 0.5]])
    found = pictures.table(weights, ["un", "deux"], ["a", "猫", "extraordinarily"])
    assert found == (
        "          a     猫  extraordinari…\nun           ·   6           █  94\ndeux  ░  20  ▒  30           ▓  50"
    )


def test_a_label_can_not_move_about_on_the_screen():
    assert pictures.cut("a\x1b[2Jb\n") == "a�[2Jb�"


def test_the_mean_of_all_heads_is_that_of_the_heads_that_are_there():
    tokenizer = TinySeqTokenizer.train(["the black cat", "el gato negro"] * 3, 320)
    kept = {"encoder": [[1, 3], [0], [2]], "decoder": [[1], [0, 1]], "cross": [[0, 1], [0]]}
    model = random_model(tokenizer, kept_heads=kept)
    found = attention.maps(model, tokenizer, "the cat", target="gato")
    mean, rows, columns = pictures.choose(found, "encoder", 0)
    np.testing.assert_allclose(mean, found.encoder[0, [1, 3]].mean(0), atol=1e-7)
    np.testing.assert_allclose(mean.sum(-1), 1, atol=1e-5)
    assert rows == columns == found.source_pieces
    totals = Totals()
    totals.add(found.of_words())
    data = json.loads(
        re.search(
            r'id="data">(.*?)</script>',
            pictures.attention_page([found], totals.statistics("", removed_heads(model)), model="m"),
            re.DOTALL,
        )[1]
    )
    assert [head["removed"] for head in data["heads"]["encoder"][0]] == [True, False, True, False]


def test_characters_without_a_glyph_are_told_in_one_line(tmp_path, monkeypatch, caplog, recwarn):
    pytest.importorskip("matplotlib", reason="Matplotlib is an extra: pip install tinyseq[viz]")
    monkeypatch.setattr(pictures, "FONTS", ())
    pictures.draw_map(np.eye(2), ["猫", "</s>"], ["狗", "</s>"], tmp_path / "map.png")
    assert re.search(r"[24] characters have no glyph in the fonts of this machine", caplog.text)
    assert len(recwarn) == 0


def test_the_pictures_are_drawn_and_wrong_labels_refused(tmp_path):
    pytest.importorskip("matplotlib", reason="Matplotlib is an extra: pip install tinyseq[viz]")
    pictures.draw_map(np.eye(3), ["a", "$b$", "</s>"], ["x", "y_$", "</s>"], tmp_path / "map.png", title="$ $")
    lines = [{"step": 1, "loss_per_target_token": 5.0}, {"step": 1, "valid_loss": 4.0, "valid_bleu": 12.0}]
    pictures.draw_curve(lines, tmp_path / "curve.png")
    for name in ("map.png", "curve.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    for draw in (pictures.table, lambda *map_: pictures.draw_map(*map_, tmp_path / "no.png")):
        with pytest.raises(ValueError, match=r"shape \(3, 3\)"):
            draw(np.eye(3), ["a"], ["x", "y", "z"])


# trace ---------------------------------------------------------------------------------------------------------------


def test_trace_tells_every_step_from_the_pieces_to_the_text(run, model):
    code, out, err = run("trace", model, "Two dogs play.")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "Two dogs play. -> Zwei Hunde spielen."
    titles = [line for line in lines if re.search(r"\w\.\w.* \(", line)]
    for name in ("encoder.embedding", "encoder.0.self_attn.weights", "decoder.0.cross_attn.scaled", "decoding.0"):
        assert any(name in title for title in titles), name
    assert "decoder.1.self_attn.q (" not in out
    every = run("trace", model, "Two dogs play.", "--layers", "all", "--values", 3)[1]
    assert "decoder.1.self_attn.q (" in every


def test_trace_writes_a_page(run, model, tmp_path):
    code, out, err = run("trace", model, "Two dogs play.", "--html", "trace.html", "--translation", "Ein Mann.")
    assert (code, out, err) == (0, "", "")
    data = data_of(tmp_path / "trace.html")
    assert (data["source"], data["translation"]) == ("Two dogs play.", "Ein Mann.")
    assert data["steps"][0]["name"] == "source.pieces"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((" ",), "the source is ' ': there is nothing in it to look at"),
        (("dogs " * 40,), "and the model takes 30"),
        (("dogs", "--html", "no/trace.html"), "--html no/trace.html: the folder"),
    ],
)
def test_trace_refuses_in_one_line(run, model, arguments, message):
    code, out, err = run("trace", model, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
