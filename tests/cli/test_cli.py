"""`tinyseq translate`, `tinyseq evaluate` and `tinyseq corpus`: bytes in, bytes out, and what the shell is told.

The fixture's model has learned to write its four words in capitals, so that each line of output can be told apart.
"""

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import partialmethod

import pytest
from taught import save_taught_model

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, TinySeqTokenizer, Translator
from tinyseq.cli import main as cli
from tinyseq.cli import translate
from tinyseq.corpus.checks import KINDS
from tinyseq.corpus.loading import load_corpus
from tinyseq.evaluation import score

LEARNED = {"ant": "ANT", "bee": "BEE", "cow": "COW", "owl": "ŌWL"}
ENVIRONMENT = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a model."""
    folder = tmp_path_factory.mktemp("model")
    options = {"encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 30}
    save_taught_model(folder, LEARNED, seed=3, vocab_size=280, **options)
    return str(folder)


@pytest.fixture
def write(tmp_path):
    """Writes a file and returns its path."""

    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write_file


# translate -----------------------------------------------------------------------------------------------------------


def test_a_pipe_gets_a_line_for_each_line_and_nothing_on_stderr_whatever_the_locale(model):
    odd = "ant\n\nbee\r\n \u200b \ncow\rcow\nbee\u2028bee\nant\x85\n\x0c\né 狗\nowl"  # the last one lacks its LF
    command = [sys.executable, "-m", "tinyseq.cli", "translate", model]

    done = subprocess.run(command, input=odd.encode(), capture_output=True, env=ENVIRONMENT)

    assert (done.returncode, done.stderr.decode()) == (0, "")
    lines = done.stdout.decode("utf-8").split("\n")
    assert len(lines) == 10 + 1
    assert lines[10] == ""
    assert lines[:4] == ["ANT", "", "BEE", ""]
    assert (lines[6], lines[7], lines[9]) == ("ANT", "", "ŌWL")


def test_a_file_gives_a_file_of_as_many_lines(run, model, write, tmp_path):
    source = write("in.txt.gz", gzip.compress(b"cow\n\nant\n"))

    code, out, err = run("translate", model, source, "--output", "out.txt", "--num_beams", 2, "--max_new_tokens", 9)

    assert (code, out, err) == (0, b"", b"")
    assert (tmp_path / "out.txt").read_bytes() == b"COW\n\nANT\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt.gz", "out.txt"]


def test_an_empty_file_gives_an_empty_file(run, model, write):
    assert run("translate", model, write("in.txt", b"")) == (0, b"", b"")


def test_a_long_file_is_written_in_portions_and_keeps_its_line_numbers(run, model, write, monkeypatch, caplog):
    monkeypatch.setattr(Translator, "stream", partialmethod(Translator.stream, portion=2))
    events = []
    translate_, write_lines = Translator.translate, translate.write_lines
    monkeypatch.setattr(
        Translator, "translate", lambda self, texts, **o: events.append(len(texts)) or translate_(self, texts, **o)
    )
    monkeypatch.setattr(translate, "write_lines", lambda *a: events.append("written") or write_lines(*a))
    source = write("in.txt", b"ant\nbee\ncow\nbee\n" + b"x" * 90 + b"\n")

    code, out, err = run("translate", model, source)

    assert code == 0
    assert out.split(b"\n")[:4] == [b"ANT", b"BEE", b"COW", b"BEE"]
    assert events == [2, "written", "written", 2, "written", "written", 1, "written"]
    assert "longer than the 30 pieces the model takes" in caplog.text  # on stderr, where pytest does not catch it
    assert "line 5 (91 pieces)" in caplog.text


def test_options_reach_the_search(run, model, write, caplog):
    code, out, err = run("translate", model, write("in.txt", b"ant\n"), "--max_new_tokens", 1)

    assert (code, len(out.decode())) == (0, 2)
    assert "1 of 1 translations hit the length limit" in caplog.text
    assert "line 1." in caplog.text


def test_an_output_is_written_whole_or_not_at_all(run, model, write, tmp_path, monkeypatch):
    source = write("in.txt", b"ant\nbee\n")
    old = write("out.txt", b"as it was\n")
    write_lines = translate.write_lines

    def fail_at_bee(output, lines):
        if lines == ["BEE"]:
            raise OSError("the disk is full")
        write_lines(output, lines)

    monkeypatch.setattr(translate, "write_lines", fail_at_bee)

    code, out, err = run("translate", model, source, "--output", old)

    assert (code, out, err) == (2, b"", b"tinyseq: error: the disk is full\n")
    assert old.read_bytes() == b"as it was\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


def test_the_folder_of_an_adapter_is_a_model_too(run, model, write, tmp_path):
    peft = pytest.importorskip("peft", reason="adapters need it: pip install peft")
    network = TinySeqForConditionalGeneration.from_pretrained(model)
    adapted = peft.get_peft_model(network, peft.LoraConfig(target_modules=["q_proj"]))  # it changes nothing yet
    adapted.save_pretrained(tmp_path / "adapter")
    TinySeqTokenizer.from_pretrained(model).save_pretrained(tmp_path / "adapter")

    code, out, _ = run("translate", tmp_path / "adapter", write("in.txt", b"ant\n"))

    assert (code, out) == (0, b"ANT\n")


def test_a_file_can_be_translated_onto_itself(run, model, write):
    path = write("text.txt", b"ant\nbee\n")

    assert run("translate", model, path, "--output", path) == (0, b"", b"")
    assert path.read_bytes() == b"ANT\nBEE\n"


def test_the_output_may_be_a_named_pipe(run, model, write, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    assert run("translate", model, write("in.txt", b"ant\n"), "--output", pipe) == (0, b"", b"")

    assert os.read(reader, 99) == b"ANT\n"
    os.close(reader)
    assert pipe.is_fifo()


# What the shell is told ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["MODEL", "bad.txt"], "bad.txt:2: byte 3 of this line (0xff) is not valid UTF-8"),
        (["MODEL", "nothing.txt"], "nothing.txt: there is no such file"),
        (["./nowhere/model", "good.txt"], "./nowhere/model: there is no such folder"),
        (["nobody/nothing", "good.txt"], "nobody/nothing: there is no such folder"),
        ([".", "good.txt"], ".: holds no config.json"),
        (["MODEL", "good.txt", "--device", "gpu0"], "device='gpu0' is not known"),
        (["MODEL", "good.txt", "--output", "no/where.txt"], "--output no/where.txt: the folder"),
        (["MODEL", "good.txt", "--output", "."], "--output .: is a folder"),
        (["MODEL", "good.txt", "--max_new_tokens", "1000"], "30"),
    ],
)
def test_what_the_user_can_put_right_is_one_line_and_exit_code_2(run, model, write, arguments, message):
    write("good.txt", b"ant\n")
    write("bad.txt", b"ant\nbe\xff\n")
    arguments = [model if argument == "MODEL" else argument for argument in arguments]

    code, out, err = run("translate", *arguments)

    assert (code, out) == (2, b"")
    assert err.startswith(b"tinyseq: error: ")
    assert err.count(b"\n") == 1
    assert message in err.decode()


@pytest.mark.skipif(shutil.which("iconv") is None, reason="needs iconv")
def test_the_way_out_that_is_named_for_a_bad_byte_leads_out(run, model, write):
    bad = b"ant\nbe\xffe\n"
    _, _, err = run("translate", model, write("bad.txt", bad))
    command = re.search(r"iconv -c [^)]*", err.decode()).group()

    repaired = subprocess.run(shlex.split(command), input=bad, capture_output=True).stdout

    assert run("translate", model, write("good.txt", repaired)) == (0, b"ANT\nBEE\n", b"")


@pytest.mark.parametrize(
    "arguments", [["--num_beam", "2"], ["--num_beams", "0"], ["--batch_size", "x"], ["--dtype", "int8"]]
)
def test_wrong_options_are_refused_with_exit_code_2(run, model, arguments):
    code, out, err = run("translate", model, *arguments)

    assert (code, out) == (2, b"")
    assert arguments[0].encode() in err


def test_damaged_weights_are_one_line(run, model, write, tmp_path):
    for name in os.listdir(model):
        with open(os.path.join(model, name), "rb") as file:
            write(name, file.read())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])

    code, _, err = run("translate", tmp_path, write("in.txt", b"ant\n"))

    assert code == 2
    assert b"its weights are damaged" in err
    assert b"Traceback" not in err


def test_an_interrupt_is_code_130_without_a_traceback(run, model, write, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(translate, "load_translator", interrupt)

    assert run("translate", model, write("in.txt", b"ant\n")) == (130, b"", b"tinyseq: interrupted\n")


def test_a_reader_that_goes_away_is_no_error_message(model, write):
    source = write("in.txt", b"ant\n" * 5)
    command = [sys.executable, "-m", "tinyseq.cli", "translate", model, str(source)]
    read_end, write_end = os.pipe()
    os.close(read_end)  # nobody reads

    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, env=ENVIRONMENT)
    os.close(write_end)

    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("command, teaches", [([], "translate"), (["translate"], "news.de"), (["evaluate"], "--json")])
def test_help_goes_to_stdout_with_examples(run, command, teaches):
    code, out, err = run(*command, "--help")

    assert (code, err) == (0, b"")
    assert teaches in out.decode()


# evaluate ------------------------------------------------------------------------------------------------------------


def test_evaluate_prints_the_scores_of_the_raw_files_with_signatures(run, model, write, tmp_path):
    source = write("s.txt", b"ant\n\nbee\ncow\n")
    reference = write("r.txt", "ANT\n\nBEE  .\né\n".encode())
    expected = score(["ANT", "", "BEE", "COW"], ["ANT", "", "BEE  .", "é"])

    code, out, err = run("evaluate", model, "--source", source, "--reference", reference, "--output", "hyp.txt")

    assert (code, err) == (0, b"")
    assert out.decode() == f"{expected}\n"
    assert (tmp_path / "hyp.txt").read_bytes() == b"ANT\n\nBEE\nCOW\n"


def test_evaluate_takes_several_references_and_a_tokenizer_and_prints_json(run, model, write):
    source, first, second = write("s.txt", b"ant\nbee\n"), write("a.txt", b"AND\nBEE\n"), write("b.txt", b"ANT\nBE\n")
    references = ("--reference", first, "--reference", second)

    code, out, err = run("evaluate", model, "--source", source, *references, "--tokenize", "char", "--json")

    assert (code, err) == (0, b"")
    scores = json.loads(out)
    assert (scores["exact_match"], scores["sentences"]) == (100.0, 2)
    assert scores["bleu_signature"].startswith("nrefs:2|case:mixed|eff:no|tok:char|")


@pytest.mark.parametrize(
    "source, reference, options, message",
    [
        (b"ant\nbee\n", b"ANT\n", [], "s.txt has 2 lines and r.txt has 1"),
        (b"", b"", [], "s.txt has 0 lines and r.txt has 0"),
        (b"ant\n", b"ANT\n", ["--tokenize", "13b"], "tokenize='13b' is not known"),
    ],
)
def test_evaluate_refuses_files_that_do_not_match_before_it_loads_a_model(
    run, write, source, reference, options, message
):
    write("s.txt", source)
    write("r.txt", reference)

    code, out, err = run("evaluate", "/no/model/here", "--source", "s.txt", "--reference", "r.txt", *options)

    assert (code, out) == (2, b"")
    assert message in err.decode()


# corpus --------------------------------------------------------------------------------------------------------------

TRAIN = "a dog\tein Hund\nA  dog \tein hund\n\nThe test.\tDer Test.\n42 b\t42 B\nan old owl\teine alte Eule\n"


def test_corpus_reports_what_training_would_read_and_nothing_on_stderr(run, write):
    write("train.tsv", TRAIN.encode())
    write("test.tsv", b"the TEST.\tegal\nnever seen\tnie gesehen\n")

    code, out, err = run("corpus", "train.tsv", "--test", "test.tsv")

    assert (code, err) == (0, b"")
    assert [" ".join(line.split()) for line in out.decode().splitlines()] == [
        "pairs: 5",
        "median characters longest characters median words longest words all words",
        "source 7 10 2 3 11",
        "target 8 14 2 3 11",
        "rows with the source of one of the 2 test pairs: 1",
        "",
        "rows were what first places",
        "1 kept duplicate: the same pair was there before train.tsv:2",
        "1 dropped both sides blank train.tsv:3",
        "1 kept test_pair: its source is also among the test or validation pairs train.tsv:4",
        "1 kept identical: both sides are the same text train.tsv:5",
    ]


def test_corpus_prints_json_of_what_is_left_after_dropping(run, write):
    write("train.tsv", TRAIN.encode())
    write("test.tsv", b"the TEST.\tegal\nnever seen\tnie gesehen\n")

    code, out, err = run("corpus", "train.tsv", "--test", "test.tsv", "--drop", "test_pair", "identical", "--json")

    assert (code, err) == (0, b"")
    found = json.loads(out)
    assert (found["pairs"], found["test"]) == (3, {"pairs": 2, "overlap": 1})
    assert found["source"]["longest_characters"] == 10
    report = found["report"]
    assert (report["rows"], report["dropped"]) == (6, 3)
    assert {reason: (row["kept"], row["dropped"]) for reason, row in report["reasons"].items()} == {
        "both sides blank": (0, 1),
        "duplicate": (1, 0),
        "test_pair": (0, 1),
        "identical": (0, 1),
    }


@pytest.mark.parametrize("name", ["kept.tsv", "kept.tsv.gz"])
def test_corpus_writes_pairs_that_are_read_back_as_they_were_but_for_tabs_and_line_ends(run, write, name):
    pairs = [
        ("source", "target"),
        ("\ufeff[1, 2", '{"a": "b'),
        ('"quoted', ' spaces  and"quotes" '),
        ("a\ttab", "two\nlines"),
        ("left\u2028right\x85\x0b", "carriage\rreturn\r"),
        ("last", "letzte"),
    ]
    write("in.jsonl", "".join(json.dumps({"en": source, "de": target}) + "\n" for source, target in pairs).encode())

    code, out, err = run("corpus", "in.jsonl", "--output", name)

    assert code == 0
    assert err.decode() == f"tinyseq: 3 texts hold a tab or a line end; {name} has a space in its place\n"
    with open(name, "rb") as file:
        assert (file.read(2) == b"\x1f\x8b") == name.endswith(".gz")
    back = load_corpus(name).pairs
    kept = [[text.replace("\t", " ").replace("\n", " ").replace("\r", " ") for text in pair] for pair in pairs]
    assert [list(row.values()) for row in back] == kept
    code, again, err = run("corpus", name, "--output", name)
    assert (code, err) == (0, b"")
    assert again.splitlines()[0] == b"pairs: 6"
    assert load_corpus(name).pairs[:] == back[:]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["bad.tsv"], "bad.tsv:2: wrong number of columns: 3 where the table has 2"),
        (["latin.tsv", "--drop", "all"], "latin.tsv:2: byte 2 of this line (0xf6) is not valid UTF-8"),
        (["good.tsv", "--test", "bad.tsv"], "bad.tsv:2: wrong number of columns"),
        (["none.tsv"], "none.tsv: there is no such file"),
        (["blank.tsv"], "blank.tsv: there are no pairs in it"),
        (["good.tsv", "--source", "en"], "source='en' and target=None"),
        (["good.tsv", "--dataset_revision", "v1"], "--dataset_revision is for a data set on the Hub, and good.tsv is"),
        (["1.tsv", "2.tsv", "3.tsv"], 'shards of one corpus are given as a pattern: "part-*.tsv"'),
    ],
)
def test_corpus_stops_at_what_cannot_be_read_with_one_line_and_writes_no_file(
    run, write, tmp_path, arguments, message
):
    write("good.tsv", b"a\tb\n")
    write("bad.tsv", b"a\tb\nc\td\te\nf\tg\n")
    write("latin.tsv", "a\tb\nzw\u00f6lf\ttwelve\n".encode("latin-1").replace(b"w", b"", 1))
    write("blank.tsv", b"\n \t \n")
    before = sorted(tmp_path.iterdir())

    code, out, err = run("corpus", *arguments, "--output", "kept.tsv")

    assert (code, out) == (2, b"")
    assert err.count(b"\n") == 1
    assert message in err.decode()
    assert sorted(tmp_path.iterdir()) == before


def test_corpus_counts_on_request_what_it_would_have_stopped_at(run, write):
    write("bad.tsv", "a\tb\nc\td\te\nzw\u00f6lf\ttwelve\n".encode("latin-1"))

    code, out, err = run("corpus", "bad.tsv", "--on_bad_row", "skip", "--on_bad_bytes", "replace")

    assert (code, err) == (0, b"")
    report = [" ".join(line.split()) for line in out.decode().splitlines()]
    assert report[0] == "pairs: 2"
    assert "1 dropped wrong number of columns bad.tsv:2 (3 where the table has 2)" in report
    assert "1 kept invalid UTF-8 replaced by U+FFFD bad.tsv:3" in report


def test_corpus_refuses_a_place_that_cannot_be_written_before_it_reads(run, write):
    code, out, err = run("corpus", "not/there.tsv", "--output", "nowhere/kept.tsv")
    assert (code, out) == (2, b"")
    assert "--output nowhere/kept.tsv: the folder" in err.decode()


def test_corpus_refuses_an_unknown_kind_with_those_there_are(run, write):
    write("good.tsv", b"a\tb\n")
    code, out, err = run("corpus", "good.tsv", "--drop", "dupes")
    assert (code, out) == (2, b"")
    assert all(kind in err.decode() for kind in ("dupes", "'test_pair'", "'script'", "'all'"))


def test_the_help_of_corpus_shows_examples_and_says_what_each_kind_is(run):
    code, out, err = run("corpus", "--help")
    assert (code, err) == (0, b"")
    assert 'tinyseq corpus "part-*.tsv"' in out.decode()
    for kind, meaning in KINDS.items():
        assert re.search(rf"^  {kind} +{re.escape(meaning)}$", out.decode(), re.MULTILINE)


def test_the_card_is_shown_as_a_push_would_write_it(tmp_path, capfd):
    TinySeqConfig(vocab_size=600, d_model=132).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\nMine, é.\n", encoding="utf-8")
    assert cli.main(["card", str(tmp_path), "alice/en-es"]) == 0
    out, err = capfd.readouterr()
    assert out == (
        "---\nlicense: mit\nlibrary_name: transformers\npipeline_tag: translation\n"
        "tags:\n- tinyseq\n- translation\n---\nMine, é.\n"
    )
    assert err == ""
    assert cli.main(["card", str(tmp_path / "none"), "alice/en-es"]) == 2
    assert "holds no config.json" in capfd.readouterr().err
