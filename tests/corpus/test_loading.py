"""Parallel text in every form that `load_corpus` takes, clean and damaged. No network, no shared data.

Oracles: the pairs that the test wrote, and `bytes.count(b"\\n")`, which is what `wc -l` counts.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import sys
import threading
import types
from pathlib import Path
from types import SimpleNamespace

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tinyseq.corpus.loading import Corpus, CorpusError, load_corpus, read_lines, split_off, stream_corpus

PAIRS = [("a dog", "ein Hund"), ("a cat", "eine Katze"), ("two birds", "zwei Vögel")]
TSV = "".join(f"{source}\t{target}\n" for source, target in PAIRS)
JSONL = "".join(json.dumps({"en": source, "de": target}) + "\n" for source, target in PAIRS)
NESTED = "".join(json.dumps({"id": 7, "translation": {"en": source, "de": target}}) + "\n" for source, target in PAIRS)
# Characters at which str.splitlines(), but not `wc -l`, ends a line
INNER_SEPARATORS = ["\r", "\u2028", "\u2029", "\x85", "\v", "\f", "\x1c"]


@pytest.fixture
def put(tmp_path):
    """Writes bytes, or text as UTF-8, to a file and returns its path as a string."""

    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def pairs_of(corpus):
    return list(zip(corpus.pairs["source"], corpus.pairs["target"], strict=True))


# ------------------------------------------------- what is returned --------------------------------------------------


def test_pairs_are_a_dataset_with_two_string_columns_named_source_and_target(put):
    corpus = load_corpus(put("c.tsv", TSV))
    text = datasets.Value("string")
    assert isinstance(corpus.pairs, datasets.Dataset)
    assert corpus.pairs.features == {"source": text, "target": text}
    assert pairs_of(corpus) == PAIRS


def test_the_report_is_empty_text_when_nothing_was_dropped(put):
    corpus = load_corpus(put("c.tsv", TSV))
    assert (str(corpus.report), corpus.report.dropped) == ("", 0)


def test_pairs_keep_their_order_across_the_chunks_in_which_they_are_built(put, monkeypatch):
    monkeypatch.setattr("tinyseq.corpus.loading.ROWS_PER_CHUNK", 3)
    expected = [(f"s{i}", f"t{i}") for i in range(8)]
    assert pairs_of(load_corpus(put("c.tsv", "".join(f"{s}\t{t}\n" for s, t in expected)))) == expected


def test_outer_spaces_and_control_characters_are_kept(put):
    source, target = "  a\x00b\x07 ", "\u3000c\u200b "
    corpus = load_corpus([put("a", source + "\n"), put("b", target + "\n")])
    assert pairs_of(corpus) == [(source, target)]


@pytest.mark.parametrize(
    ("seconds", "is_terminal", "is_shown"), [(0, True, True), (0, False, False), (999, True, False)]
)
def test_a_progress_bar_is_shown_on_a_terminal_when_reading_takes_long(
    put, monkeypatch, seconds, is_terminal, is_shown
):
    stderr = io.StringIO()
    stderr.isatty = lambda: is_terminal
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr("tinyseq.corpus.loading.SECONDS_UNSHOWN", seconds)
    load_corpus(put("c.tsv", TSV))
    assert ("Reading pairs" in stderr.getvalue()) == is_shown


# ------------------------------------------------------- lines -------------------------------------------------------


def test_lines_are_as_many_as_wc_counts_whatever_separators_are_inside(put):
    content = "".join(f"left{c}right\n" for c in INNER_SEPARATORS).encode()
    lines = list(read_lines(put("a", content)))
    assert len(lines) == content.count(b"\n") == 7
    assert lines == [f"left{c}right" for c in INNER_SEPARATORS]


def test_a_last_line_without_line_feed_counts(put):
    assert list(read_lines(put("a", "one\ntwo"))) == ["one", "two"]


def test_an_empty_line_is_a_line_and_the_end_of_the_last_one_is_not(put):
    assert list(read_lines(put("a", "\n\none\n\n"))) == ["", "", "one", ""]


def test_only_the_carriage_return_before_a_line_feed_is_removed(put):
    assert list(read_lines(put("a", "one\r\ntwo\r\r\nthree\r"))) == ["one", "two\r", "three\r"]


def test_a_byte_order_mark_is_removed_at_the_start_of_a_file_only(put):
    assert list(read_lines(put("a", "\ufeffone\n\ufefftwo\n"))) == ["one", "\ufefftwo"]


def test_gzip_is_recognised_by_content_not_by_name(put):
    assert list(read_lines(put("packed.txt", gzip.compress(b"one\ntwo\n")))) == ["one", "two"]
    assert list(read_lines(put("plain.gz", b"one\ntwo\n"))) == ["one", "two"]


def test_gzip_members_written_one_after_the_other_are_read_as_one_file(put):
    assert list(read_lines(put("a.gz", gzip.compress(b"one\ntw") + gzip.compress(b"o\n")))) == ["one", "two"]


@pytest.mark.parametrize(
    ("content", "packer", "unpacker"),
    [
        (bz2.compress(b"one\ttwo\n"), "bzip2", "bunzip2"),
        (lzma.compress(b"one\ttwo\n"), "xz", "unxz"),
        (pa.compress(b"one\ttwo\n", codec="zstd", asbytes=True), "zstd", "unzstd"),
        (b"PK\x03\x04\x14\x00rest", "zip", "unzip"),
        (gzip.compress(bz2.compress(b"one\ttwo\n")), "bzip2", "bunzip2"),
    ],
    ids=["bzip2", "xz", "zstd", "zip", "bzip2 in gzip"],
)
@pytest.mark.parametrize("on_bad_row", ["stop", "skip"])
def test_a_file_that_is_packed_otherwise_is_refused_with_what_unpacks_it(put, content, packer, unpacker, on_bad_row):
    path = put("a.tsv", content)
    with pytest.raises(CorpusError, match=rf"a\.tsv: is packed by {packer}; .*gzip. Unpack it first: {unpacker} "):
        load_corpus(path, on_bad_row=on_bad_row)
    assert list(read_lines(put("b", "BZh is no mark\n"))) == ["BZh is no mark"]


def test_a_gzip_file_that_was_cut_short_is_named(put):
    with pytest.raises(CorpusError, match=r"cut\.gz: damaged gzip file"):
        list(read_lines(put("cut.gz", gzip.compress(bytes(range(33, 127)) * 9)[:-12])))


@pytest.mark.parametrize(  # with names, as gzip writes the time, and pytest would make a name of it
    "content", ["one\r\nzwö\n".encode(), gzip.compress("one\r\nzwö\n".encode())], ids=["plain", "gzip"]
)
def test_a_dash_reads_standard_input(content, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))
    assert list(read_lines("-")) == ["one", "zwö"]


def test_a_missing_file_is_refused_before_the_first_line_is_asked_for(tmp_path):
    with pytest.raises(CorpusError, match=r"nowhere\.txt: there is no such file"):
        read_lines(tmp_path / "nowhere.txt")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("eins\nzwei Vögel\n".encode("latin-1"), r"a:2: byte 7 of this line \(0xf6\)"),
        ("\ufeffVögel\n".encode()[:5], r"a:1: byte 5 of this line \(0xc3\)"),
    ],
    ids=["latin-1", "cut inside a character"],
)
def test_invalid_utf8_is_an_error_with_file_line_and_byte(put, content, place):
    with pytest.raises(CorpusError, match=place):
        list(read_lines(put("a", content)))


@pytest.mark.parametrize("load", [load_corpus, lambda *files, **options: load_streamed(*files, **options)])
def test_rows_that_are_not_utf_8_are_left_out_with_the_other_bad_rows_and_counted(put, load):
    latin = put("a.de", "Vögel\nMäuse\nHund\n".encode("latin-1"))
    corpus = load([put("a.en", "birds\nmice\ndog\n"), latin], on_bad_row="skip")
    assert list(zip(corpus.pairs["source"], corpus.pairs["target"], strict=True)) == [("dog", "Hund")]
    assert corpus.report.counts == {"invalid UTF-8": 2}
    assert corpus.report.places["invalid UTF-8"] == [f"{latin}:1", f"{latin}:2"]
    quoted = put("b.csv", b'birds,"V\xf6gel\nund mehr"\ndog,Hund\n')
    assert list(load(quoted, on_bad_row="skip").pairs["target"]) == ["Hund"]
    lines = put("c.jsonl", b'{"en": "birds", "de": "V\xf6gel"}\n{"en": "dog", "de": "Hund"}\n')
    corpus = load(lines, on_bad_row="skip")
    assert list(corpus.pairs["target"]) == ["Hund"]
    assert corpus.report.dropped == 1


def load_streamed(files, **options):
    """What `load_corpus` gives, by way of a stream."""
    stream = stream_corpus(files, **options)
    pairs = [(source, target) for _, source, target in stream.pairs()]
    return Corpus(
        datasets.Dataset.from_dict(dict(zip(("source", "target"), zip(*pairs, strict=True), strict=True))),
        stream.report,
    )


def test_invalid_utf8_can_be_replaced_and_is_counted_by_line(put):
    latin = put("a.de", "Vögel\nMäuse, Bären\nHund\n".encode("latin-1"))
    corpus = load_corpus([put("a.en", "birds\nmice, bears\ndog\n"), latin], on_bad_bytes="replace")
    assert corpus.pairs["target"][:2] == ["V\ufffdgel", "M\ufffduse, B\ufffdren"]
    assert f"{latin}:1, {latin}:2" in str(corpus.report)
    assert list(corpus.report.counts.values()) == [2]
    assert corpus.report.dropped == 0


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["a dog\tein Hund\na cat\teine Katze\n", "это собака\tein Hund\n"])
def test_utf16_is_refused_with_a_hint_to_convert(put, encoding, text):
    with pytest.raises(CorpusError, match="looks like UTF-16.*iconv -f utf-16 -t utf-8"):
        load_corpus(put("a.tsv", text.encode(encoding)))


def test_nul_characters_do_not_make_utf8_look_like_utf16(put):
    assert list(read_lines(put("a", b"a\0b\n" * 5))) == ["a\0b"] * 5


# -------------------------------------------------- two aligned files ------------------------------------------------


def test_aligned_files_are_paired_line_by_line_plain_or_gzipped(put):
    sources, targets = ("".join(line + "\n" for line in side) for side in zip(*PAIRS, strict=True))
    assert pairs_of(load_corpus([put("a.en", sources), put("a.de.gz", gzip.compress(targets.encode()))])) == PAIRS


def test_pairs_stay_aligned_when_one_side_holds_line_separators(put):
    source = "".join(f"left{c}right {i}\n" for i, c in enumerate(INNER_SEPARATORS))
    target = "".join(f"Zeile {i}\r\n" for i in range(len(INNER_SEPARATORS)))
    expected = [(f"left{c}right {i}", f"Zeile {i}") for i, c in enumerate(INNER_SEPARATORS)]
    assert pairs_of(load_corpus([put("a.en", source), put("a.de", target)])) == expected


@pytest.mark.parametrize("counts", [(100, 97), (97, 100), (0, 3)])
def test_unequal_line_counts_are_refused_with_both_numbers_and_names(put, counts):
    paths = [put(f"train.{side}", "x\n" * count) for side, count in zip(("src", "tgt"), counts, strict=True)]
    with pytest.raises(CorpusError, match=rf"train\.src has {counts[0]} lines and .*train\.tgt has {counts[1]};"):
        load_corpus(paths)


def test_a_blank_side_drops_the_pair_and_shifts_no_other(put):
    source = put("a.en", "one\n\nthree\nfour\n \nsix\n")
    target = put("a.de", "eins\nzwei\n\u3000\t\nvier\n\nsechs")
    corpus = load_corpus([source, target])
    assert pairs_of(corpus) == [("one", "eins"), ("four", "vier"), ("six", "sechs")]
    assert corpus.report.counts == {"source side blank": 1, "target side blank": 1, "both sides blank": 1}
    assert corpus.report.places["source side blank"] == [f"{source}:2"]
    assert corpus.report.places["target side blank"] == [f"{target}:3"]


def test_the_report_is_a_table_with_counts_and_the_first_places(put):
    source = put("a.en", "one\n" * 8)
    target = put("a.de", "eins\n" + "\n" * 7)
    header, row = str(load_corpus([source, target]).report).splitlines()
    assert header.split() == ["rows", "were", "what", "first", "places"]
    assert row.split() == ["7", "dropped", "target", "side", "blank"] + [f"{target}:{n}," for n in range(2, 7)] + [
        "..."
    ]


# -------------------------------------------------------- TSV --------------------------------------------------------


def test_quotes_in_a_tsv_are_text(put):
    rows = [("a", "1"), ('"b', "2"), ("c", '3"'), ("d", "4"), ('"e"', '""')]
    assert pairs_of(load_corpus(put("a.tsv", "".join(f"{s}\t{t}\n" for s, t in rows)))) == rows


@pytest.mark.parametrize("bad_line", [1, 2, 4])
def test_a_row_with_an_extra_tab_is_named_by_line_number(put, bad_line):
    lines = TSV.splitlines(keepends=True)
    lines.insert(bad_line - 1, "one\ttwo\tthree\n")
    with pytest.raises(CorpusError, match=rf"a\.tsv:{bad_line}: wrong number of columns: 3 where the table has 2"):
        load_corpus(put("a.tsv", "".join(lines)))


def test_bad_rows_can_be_skipped_and_are_counted_with_their_places(put):
    path = put("a.tsv", "one\n" + TSV + "x\ty\tz\n")
    corpus = load_corpus(path, on_bad_row="skip")
    assert pairs_of(corpus) == PAIRS
    assert f"        2  dropped  wrong number of columns  {path}:1 (1 where the table has 2), {path}:5 (3 " in str(
        corpus.report
    )
    assert corpus.report.dropped == 2


def test_a_tsv_with_more_columns_gives_its_first_two(put):
    rows = "".join(f"{source}\t{target}\thans\n" for source, target in PAIRS)
    assert pairs_of(load_corpus(put("a.tsv.gz", gzip.compress(rows.encode())))) == PAIRS


def test_a_blank_line_in_a_table_is_counted_and_never_an_error(put):
    corpus = load_corpus(put("a.tsv", "\n" + TSV + "\n"))
    assert pairs_of(corpus) == PAIRS
    assert corpus.report.counts == {"both sides blank": 2}


def test_columns_of_a_tsv_are_chosen_by_name_after_a_byte_order_mark_too(put):
    table = "\ufeffde\tid\ten\n" + "".join(f"{target}\t7\t{source}\n" for source, target in PAIRS)
    assert pairs_of(load_corpus(put("a.tsv", table), source="en", target="de")) == PAIRS
    assert pairs_of(load_corpus(put("a.tsv", table), source="de", target="en")) == [(t, s) for s, t in PAIRS]


def test_columns_of_a_tsv_without_header_are_chosen_by_number(put):
    table = "".join(f"{target}\t7\t{source}\n" for source, target in PAIRS)
    assert pairs_of(load_corpus(put("a.tsv", table), source="3", target="1")) == PAIRS


def test_a_header_that_says_source_and_target_is_not_a_pair(put):
    assert pairs_of(load_corpus(put("a.tsv", "source\ttarget\n" + TSV))) == PAIRS


def test_a_row_that_may_be_a_header_is_a_pair_and_told(put):
    path = put("a.tsv", "en\tde\n" + TSV)
    corpus = load_corpus(path)
    assert pairs_of(corpus) == [("en", "de"), *PAIRS]
    assert corpus.report.places == {"header": [f"{path}:1"]}


@pytest.mark.parametrize("wrong", ["en_XX", "4", "0"])
def test_a_wrong_column_lists_the_columns_found(put, wrong):
    with pytest.raises(
        CorpusError, match=rf"numbers from 1 to 3.*source='{wrong}' is not there; found 'en', 'de', 'id'"
    ):
        load_corpus(put("a.tsv", "en\tde\tid\na\tb\tc\n"), source=wrong, target="de")


def test_a_single_file_of_plain_lines_is_refused(put):
    with pytest.raises(CorpusError, match=r"a\.txt.* 1 column.*expected two columns separated by a tab"):
        load_corpus(put("a.txt", "a dog, they say\na cat\n"))


# -------------------------------------------------------- CSV --------------------------------------------------------


def test_csv_follows_the_quoting_of_rfc_4180_with_line_ends_inside_quotes(put):
    content = 'source,target\r\n"a ""dog"", they say",Hund\r\n"two\nlines","zwei\r\nZeilen"\r\n'
    expected = [('a "dog", they say', "Hund"), ("two\nlines", "zwei\nZeilen")]
    assert pairs_of(load_corpus(put("a.csv", content))) == expected


def test_csv_keeps_a_lone_carriage_return_and_unicode_separators(put):
    rows = [(f"left{c}right", f'"q{c}r"') for c in INNER_SEPARATORS]
    assert pairs_of(load_corpus(put("a.csv", "".join(f"{s},{t}\n" for s, t in rows)))) == [
        (s, t.strip('"')) for s, t in rows
    ]


@pytest.mark.parametrize("on_bad_row", ["stop", "skip"])
@pytest.mark.parametrize("rest", ["c,d\n", 'c,"d"\ne,f\n'], ids=["open to the end", "closed by a later quote"])
def test_an_unbalanced_csv_quote_is_an_error_at_the_line_where_its_row_began(put, rest, on_bad_row):
    with pytest.raises(CorpusError, match=r"a\.csv:4: the quotes of the CSV row that begins here are not balanced"):
        load_corpus(put("a.csv", 'en,de\n"two\nlines",x\na,"b\n' + rest), on_bad_row=on_bad_row)


def test_csv_rows_after_a_quoted_line_end_are_named_by_their_line_in_the_file(put):
    with pytest.raises(CorpusError, match=r"a\.csv:4: wrong number of columns"):
        load_corpus(put("a.csv", 'en,de\n"two\nlines",x\na,b,c\n'), source="en", target="de")


def test_a_csv_with_more_than_two_columns_needs_to_be_told_which(put):
    path = put("a.csv", "id,en,de\n" + "".join(f"7,{source},{target}\n" for source, target in PAIRS))
    with pytest.raises(CorpusError, match=r"has 3 column.*'id', 'en', 'de'.*source= and target="):
        load_corpus(path)
    assert pairs_of(load_corpus(path, source="en", target="de")) == PAIRS


# -------------------------------------------------------- JSON -------------------------------------------------------

ARRAY = json.dumps([json.loads(line) for line in JSONL.splitlines()], indent=2)
ONE_LINE_ARRAY = json.dumps(json.loads(ARRAY))
OPEN_ARRAY = "[" + ",\n".join(JSONL.splitlines()) + "]"


@pytest.mark.parametrize("name", ["c.jsonl", "c.json", "c.json.gz", "c.tsv", "c"])
@pytest.mark.parametrize("content", [JSONL, NESTED, "\ufeff" + JSONL, ARRAY, ONE_LINE_ARRAY, OPEN_ARRAY])
def test_json_is_recognised_by_content_whatever_the_name(put, name, content):
    packed = gzip.compress(content.encode()) if name.endswith(".gz") else content.encode()
    assert pairs_of(load_corpus(put(name, packed), source="en", target="de")) == PAIRS


def test_two_json_keys_are_taken_in_their_order_when_none_are_named(put):
    assert pairs_of(load_corpus(put("c.jsonl", NESTED))) == PAIRS


def test_json_keys_source_and_target_are_found_among_others(put):
    row = json.dumps({"target": "ein Hund", "id": 7, "source": "a dog"})
    assert pairs_of(load_corpus(put("c.jsonl", row))) == [("a dog", "ein Hund")]


def test_a_json_key_translation_that_holds_text_is_a_key_like_any_other(put):
    row = json.dumps({"text": "a dog", "translation": "ein Hund"})
    assert pairs_of(load_corpus(put("c.jsonl", row))) == [("a dog", "ein Hund")]


def test_a_wrong_language_code_lists_the_keys_found_and_suggests_the_nearest(put):
    with pytest.raises(CorpusError, match=r"source='en_XX' is not there; found 'en', 'de'\. Did you mean 'en'\?"):
        load_corpus(put("c.jsonl", NESTED), source="en_XX", target="de")


def test_three_json_keys_and_no_names_is_an_error_that_lists_the_keys(put):
    with pytest.raises(CorpusError, match=r"cannot tell the source from the target among 'id', 'en', 'de'"):
        load_corpus(put("c.jsonl", '{"id": "7", "en": "a", "de": "b"}\n'))


BAD_JSON = {
    '{"en": "x", "de" "y"}': "malformed JSON.*column 18",
    '{"en": "x", "de": "y': "malformed JSON.*Unterminated string",
    '["x", "y"]': "not a JSON object: found a list",
    '{"en": "x"}': "key missing: no 'de' among 'en'",
    '{"en": "x", "de": 5}': "not a string: 'de' holds a int",
    '{"en": "x", "de": "\\ud83d"}': "not a character: 'de' holds one half",
}


@pytest.mark.parametrize("line", [1, 2, 4])
@pytest.mark.parametrize(("row", "reason"), BAD_JSON.items())
def test_a_bad_json_line_stops_with_file_line_and_reason(put, row, reason, line):
    lines = JSONL.splitlines()
    lines.insert(line - 1, row)
    with pytest.raises(CorpusError, match=rf"c\.jsonl:{line}: {reason}"):
        load_corpus(put("c.jsonl", "\n".join(lines)))


def test_bad_json_lines_can_be_skipped_and_the_rest_loads(put):
    first, second, third = JSONL.splitlines()
    path = put("c.jsonl", "\n".join([first, '{"en": "x"', second, "", "[1]", third, '{"en": "cut']))
    corpus = load_corpus(path, on_bad_row="skip")
    assert pairs_of(corpus) == PAIRS
    assert corpus.report.counts == {"malformed JSON": 2, "both sides blank": 1, "not a JSON object": 1}
    assert f"{path}:2 (" in str(corpus.report)
    assert f"{path}:7 (" in str(corpus.report)


def test_json_null_is_a_blank_side(put):
    corpus = load_corpus(put("c.jsonl", JSONL + '{"en": "x", "de": null}\n'))
    assert pairs_of(corpus) == PAIRS
    assert corpus.report.counts == {"target side blank": 1}


def test_a_malformed_json_array_stops_at_its_line_even_when_bad_rows_are_skipped(put):
    with pytest.raises(CorpusError, match=r"c\.json:3: malformed JSON"):
        load_corpus(put("c.json", '[\n{"en": "a", "de": "b"},\n{"en": "a" "de": "b"}\n]'), on_bad_row="skip")


def test_a_bad_item_of_a_json_array_is_named_by_its_number(put):
    path = put("c.json", '[\n{"en": "a",\n "de": "b"},\n\n{"en": "c"}\n]')
    with pytest.raises(CorpusError, match=r"c\.json item 2: key missing"):
        load_corpus(path)


# ---------------------------------------------- Parquet and data sets ------------------------------------------------


def flat_data_set():
    sources, targets = zip(*PAIRS, strict=True)
    return datasets.Dataset.from_dict({"en": list(sources), "de": list(targets), "id": [7, 8, 9]})


def nested_data_set(sides=PAIRS):
    features = datasets.Features(translation=datasets.Translation(languages=["en", "de"]))  # Arrow sorts: de, en
    return datasets.Dataset.from_dict({"translation": [{"en": s, "de": t} for s, t in sides]}, features=features)


def test_parquet_is_read_by_column_name_and_by_translation_feature(tmp_path):
    flat_data_set().to_parquet(tmp_path / "flat.parquet")
    nested_data_set().to_parquet(tmp_path / "nested")
    assert pairs_of(load_corpus(tmp_path / "flat.parquet", source="en", target="de")) == PAIRS
    assert pairs_of(load_corpus(tmp_path / "nested")) == PAIRS


def test_invalid_utf8_in_parquet_is_an_error_with_its_row(tmp_path):
    latin = pa.array([b"Hund", b"V\xf6gel"]).view(pa.string())
    pq.write_table(pa.table({"source": ["dog", "birds"], "target": latin}), tmp_path / "c.parquet")
    with pytest.raises(CorpusError, match=r"c\.parquet row 2: byte 2 of this line \(0xf6\)"):
        load_corpus(tmp_path / "c.parquet")


def test_a_damaged_parquet_file_is_named(put):
    with pytest.raises(CorpusError, match=r"c\.parquet: not a readable Parquet file"):
        load_corpus(put("c.parquet", b"PAR1 and no more"))


def test_a_column_that_is_not_text_is_refused(tmp_path):
    flat_data_set().to_parquet(tmp_path / "flat.parquet")
    with pytest.raises(CorpusError, match=r"'id' holds Value\('int64'\), not text"):
        load_corpus(tmp_path / "flat.parquet", source="en", target="id")


def test_null_in_a_data_set_is_a_blank_side_named_by_its_row(tmp_path):
    nested_data_set([("a", "b"), ("c", None), ("d", "e")]).save_to_disk(tmp_path / "saved")
    corpus = load_corpus(tmp_path / "saved")
    assert pairs_of(corpus) == [("a", "b"), ("d", "e")]
    assert corpus.report.places == {"target side blank": [f"{tmp_path}/saved row 2"]}


@pytest.mark.parametrize(("asked", "expected"), [("train", 2), ("validation", 1), ("dev", 1)])
def test_a_folder_from_save_to_disk_gives_the_split_asked_for_or_its_alias(tmp_path, asked, expected):
    splits = {"train": nested_data_set(PAIRS[:2]), "valid": nested_data_set(PAIRS[2:])}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "saved")
    assert len(load_corpus(tmp_path / "saved", split=asked).pairs) == expected


def test_rows_selected_before_save_to_disk_are_the_only_ones_read(tmp_path):
    nested_data_set().select([2, 0]).save_to_disk(tmp_path / "saved")
    assert pairs_of(load_corpus(tmp_path / "saved")) == [PAIRS[2], PAIRS[0]]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "tsv", "csv", "arrow"])
def test_a_folder_of_data_files_gives_the_split_asked_for(tmp_path, put, kind):
    if kind == "parquet":
        nested_data_set().to_parquet(tmp_path / "data" / "validation.parquet")
        nested_data_set(PAIRS[:1]).to_parquet(tmp_path / "data" / "train.parquet")
    elif kind == "arrow":
        for split, pairs in (("validation", PAIRS), ("train", PAIRS[:1])):
            nested_data_set(pairs).save_to_disk(tmp_path / split)
            next((tmp_path / split).glob("*.arrow")).rename(put(f"data/{split}.arrow", ""))
    else:
        content = {"jsonl": NESTED, "tsv": TSV, "csv": TSV.replace("\t", ",")}[kind]
        put(f"data/validation.{kind}", content)
        put(f"data/train.{kind}", content.splitlines(keepends=True)[0])
    assert pairs_of(load_corpus(tmp_path / "data", split="validation")) == PAIRS


def test_a_folder_called_like_a_reader_of_datasets_is_still_a_folder(put, tmp_path, monkeypatch):
    put("json/train.jsonl", NESTED)
    put("train.jsonl", "the reader called json would find this file too")
    monkeypatch.chdir(tmp_path)
    assert pairs_of(load_corpus("json")) == PAIRS


def test_a_bad_line_in_a_folder_of_json_lines_is_named_by_file_and_line(tmp_path, put):
    put("data/train.jsonl", NESTED + "{\n")
    with pytest.raises(CorpusError, match=r"data/train\.jsonl:4: malformed JSON"):
        load_corpus(tmp_path / "data")


def test_reading_a_folder_leaves_no_cache_behind(tmp_path, put, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    nested_data_set().save_to_disk(tmp_path / "saved")
    next((tmp_path / "saved").glob("*.arrow")).rename(put("data/train.arrow", ""))
    assert pairs_of(load_corpus(tmp_path / "data")) == PAIRS
    assert not (tmp_path / "cache").exists()
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["train.arrow"]


def test_a_missing_split_lists_the_splits_found(tmp_path):
    datasets.DatasetDict({"train": nested_data_set(), "dev": nested_data_set()}).save_to_disk(tmp_path / "saved")
    with pytest.raises(CorpusError, match=r"saved: split='test' is not there; found 'train', 'dev'"):
        load_corpus(tmp_path / "saved", split="test")


def test_a_wrong_language_of_a_data_set_lists_its_languages(tmp_path):
    nested_data_set().save_to_disk(tmp_path / "saved")
    with pytest.raises(CorpusError, match=r"languages: target='de_DE' is not there; found 'en', 'de'.*mean 'de'"):
        load_corpus(tmp_path / "saved", source="en", target="de_DE")


def test_a_hub_data_set_is_loaded_with_its_name_and_revision(monkeypatch):
    asked = {}

    def load_dataset(path, name=None, **options):
        asked.update(path=path, name=name, **options)
        return datasets.DatasetDict({"train": nested_data_set()})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert pairs_of(load_corpus("owner/books", name="de-en", revision="v1")) == PAIRS
    assert asked == {"path": "owner/books", "name": "de-en", "revision": "v1", "streaming": False}


def test_a_hub_data_set_that_cannot_be_loaded_says_that_no_local_file_has_that_name(monkeypatch):
    def load_dataset(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(CorpusError, match=r"owner/books .*no such local file.*ConnectionError: no route"):
        load_corpus("owner/books")


# ------------------------------------------------- the built-in corpus -----------------------------------------------


@pytest.fixture
def grammar(monkeypatch):
    """Stands for `tinyseq.grammar`: one pair, which names the split it was asked for."""
    import tinyseq

    module = types.ModuleType("tinyseq.grammar")
    module.generate = lambda split: [SimpleNamespace(source=f"the {split}", target=f"el {split}")]
    monkeypatch.setitem(sys.modules, "tinyseq.grammar", module)
    monkeypatch.setattr(tinyseq, "grammar", module, raising=False)


@pytest.mark.parametrize(("asked", "given"), [("test_longer", "test_longer"), ("valid", "validation")])
def test_grammar_is_the_built_in_corpus_in_any_of_its_splits(grammar, asked, given):
    assert pairs_of(load_corpus("grammar", split=asked)) == [(f"the {given}", f"el {given}")]


def test_the_built_in_corpus_can_be_turned_round_by_language(grammar):
    assert pairs_of(load_corpus("grammar", source="es", target="en")) == [("el train", "the train")]


def test_a_file_named_grammar_is_read_when_a_separator_or_a_path_object_says_so(grammar, put, tmp_path, monkeypatch):
    put("grammar", TSV)
    monkeypatch.chdir(tmp_path)
    assert pairs_of(load_corpus("./grammar")) == pairs_of(load_corpus(Path("grammar"))) == PAIRS


# -------------------------------------------------- what looks wrong ------------------------------------------------

# Three test sources, one in another case and spacing, and ten duplicates, among lines 1 to 23
TEST_SOURCES = ["The first test.", "A second one?", "And the third."]
TRAIN = [
    *[(f"Sentence {n}", f"Satz {n}") for n in range(9)],
    ("The first test.", "Der erste Test."),
    *[(f"sentence  {n}", f"satz {n} ") for n in range(5)],
    ("a SECOND\u00a0 one?", "Ein zweiter?"),
    *[(f"Sentence {n}", f"Satz {n}") for n in range(3, 8)],
    ("And the third.", "Und der dritte."),
    ("The last", "Der letzte"),
]


@pytest.fixture
def train_file(put):
    return put("train.tsv", "".join(f"{source}\t{target}\n" for source, target in TRAIN))


def test_test_pairs_and_duplicates_are_counted_with_their_places_and_kept(train_file):
    corpus = load_corpus(train_file, held_out=TEST_SOURCES)
    assert pairs_of(corpus) == TRAIN
    assert corpus.report.counts == {"test_pair": 3, "duplicate": 10}
    assert corpus.report.places["test_pair"] == [f"{train_file}:{line}" for line in (10, 16, 22)]
    assert corpus.report.places["duplicate"] == [f"{train_file}:{line}" for line in range(11, 16)]
    assert (corpus.report.dropped, corpus.report.rows) == (0, 23)


@pytest.mark.parametrize(
    ("drop", "left"),
    [
        (["test_pair"], [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 22]),
        (["duplicate"], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 21, 22]),
        (["script", "length_ratio"], list(range(23))),
        ("all", [0, 1, 2, 3, 4, 5, 6, 7, 8, 22]),
    ],
)
def test_only_the_kinds_named_are_left_out(train_file, drop, left):
    corpus = load_corpus(train_file, held_out=TEST_SOURCES, drop=drop)
    assert pairs_of(corpus) == [TRAIN[row] for row in left]
    assert corpus.report.dropped == 23 - len(left)


def test_a_corpus_whose_pairs_were_all_left_out_is_refused_with_the_report(put):
    with pytest.raises(CorpusError, match=r"there are no pairs in it(.|\n)*2  dropped  identical: both sides are"):
        load_corpus(put("c.tsv", "a b\ta B\nc\tc\n"), drop="all")


def test_the_script_of_a_side_is_told_by_the_first_thousand_rows_whatever_is_wrong_with_them(put):
    # In these 5% are Latin; in all of them it would be a fifth, and in the first ones all
    first = [f"fox {n}\tFuchs {n}" for n in range(50)]
    good = [f"wolf {n}\tволк {n}" for n in range(948)]
    rest = [f"bear {n}\tBär {n}" for n in range(200)]
    path = put("c.tsv", "\n".join([*first, "only one", "\tволк", *good, *rest]))
    report = load_corpus(path, on_bad_row="skip").report
    assert report.counts == {"script": 250, "wrong number of columns": 1, "source side blank": 1}
    assert report.places["script"] == [f"{path}:{line}" for line in range(1, 6)]


def test_an_unknown_kind_is_refused_with_those_there_are(put):
    with pytest.raises(
        CorpusError, match=r"drop='dupes' is not allowed; choose one of 'test_pair', .*'script', 'all'"
    ):
        load_corpus(put("c.tsv", TSV), drop=["all", "dupes"])


# ------------------------------------------------------- shards ------------------------------------------------------


def test_a_pattern_stands_for_its_files_in_the_order_of_their_names(put, tmp_path):
    for number in (2, 0, 1):
        put(f"part-{number}.tsv", f"source\ttarget\nen {number}\tde {number}\n")
    put("part-1.txt", "not a table\n")
    (tmp_path / "part-3.tsv").mkdir()
    corpus = load_corpus(tmp_path / "part-?.tsv")
    assert pairs_of(corpus) == [(f"en {number}", f"de {number}") for number in range(3)]


def test_the_files_of_a_pattern_are_named_in_the_report_and_in_errors(put, tmp_path):
    first, second = put("part-1.tsv", "a\tb\n\n"), put("part-2.tsv", "\nc\td\n\n")
    assert load_corpus(f"{tmp_path}/part-*").report.places == {
        "both sides blank": [f"{first}:2", f"{second}:1", f"{second}:3"]
    }
    put("part-3.jsonl", '{"en": "e", "de": 5}\n')
    with pytest.raises(CorpusError, match=r"part-3\.jsonl:1: not a string"):
        load_corpus(f"{tmp_path}/part-*")


def test_two_patterns_are_paired_in_the_order_of_the_names(put, tmp_path):
    for number in (3, 1, 2):
        put(f"{number}.en", f"en {number}\n" * number)
        put(f"{number}.de", f"de {number}\n" * number)
    pairs = pairs_of(load_corpus([f"{tmp_path}/*.en", f"{tmp_path}/[1-3].de"]))
    assert pairs == [(f"en {number}", f"de {number}") for number in (1, 2, 2, 3, 3, 3)]


def test_patterns_for_unequal_numbers_of_files_are_refused_with_both(put, tmp_path):
    for name in ("1.en", "2.en", "3.en", "1.de", "3.de"):
        put(name, "x\n")
    with pytest.raises(CorpusError, match=r"\*\.en stands for 3 files and .*\*\.de for 2;"):
        load_corpus([f"{tmp_path}/*.en", f"{tmp_path}/*.de"])


def test_shards_of_unequal_length_are_refused_by_their_own_names(put, tmp_path):
    for name, lines in (("1.en", 4), ("1.de", 4), ("2.en", 2), ("2.de", 3)):
        put(name, "x\n" * lines)
    with pytest.raises(CorpusError, match=r"2\.en has 2 lines and .*2\.de has 3;"):
        load_corpus([f"{tmp_path}/*.en", f"{tmp_path}/*.de"])


def test_a_pattern_without_a_match_is_refused(tmp_path):
    with pytest.raises(CorpusError, match=r"part-\*\.tsv: no file matches this pattern"):
        load_corpus(f"{tmp_path}/part-*.tsv")


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(put):
    put("a1.tsv", "another\tfile\n")
    assert pairs_of(load_corpus(put("a[1].tsv", TSV))) == PAIRS


def test_more_than_two_files_are_refused_with_the_way_to_name_shards(put):
    with pytest.raises(CorpusError, match=r'got 3 paths.*shards.*pattern: "part-\*\.tsv"'):
        load_corpus([put(name, TSV) for name in ("1.tsv", "2.tsv", "3.tsv")])


def test_two_tables_are_not_taken_for_aligned_files(put):
    with pytest.raises(CorpusError, match=r"hold pairs, each of them.*pattern, in quotes"):
        load_corpus([put("part-1.tsv", TSV), put("part-2.tsv.gz", gzip.compress(TSV.encode()))])


def test_aligned_pipes_are_read_once(put, tmp_path):
    paths = [str(tmp_path / "en"), str(tmp_path / "de")]
    for path, side in zip(paths, zip(*PAIRS, strict=True), strict=True):
        os.mkfifo(path)
        text = "".join(line + "\n" for line in side)
        threading.Thread(target=Path(path).write_text, args=[text], daemon=True).start()
    assert pairs_of(load_corpus(paths)) == PAIRS


# ------------------------------------------------------ refusals -----------------------------------------------------


@pytest.mark.parametrize("missing", [["train.en", "train.de"], "data/train.tsv", "nothing"])
def test_a_missing_file_is_refused_by_name_before_any_work(missing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.en").write_bytes(b"\xff not UTF-8, so reading it would be another error\n")
    with pytest.raises(CorpusError, match=r"(train\.de|data/train\.tsv|nothing): there is no such file"):
        load_corpus(missing)


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", " \t \n"])
def test_a_corpus_without_a_single_pair_is_refused(put, content):
    with pytest.raises(CorpusError, match=r"a\.tsv: there are no pairs in it"):
        load_corpus(put("a.tsv", content))


def test_when_every_row_was_dropped_the_error_shows_the_report(put):
    with pytest.raises(CorpusError, match=r"there are no pairs in it(.|\n)*2  dropped  target side blank"):
        load_corpus(put("a.tsv", "a\t\nb\t\n"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_bad_row": "ignore"}, "on_bad_row='ignore' is not allowed; choose one of 'stop', 'skip'"),
        ({"on_bad_bytes": "drop"}, "on_bad_bytes='drop' is not allowed; choose one of 'stop', 'skip', 'replace'"),
        ({"source": "en"}, "source='en' and target=None: give two different names, or neither"),
        ({"source": "en", "target": "en"}, "source='en' and target='en': give two different"),
        ({"revision": "v1"}, "revision='v1' has no meaning"),
        ({"name": "de-en"}, "name='de-en' has no meaning"),
    ],
)
def test_an_argument_out_of_place_is_named_with_its_value(put, options, message):
    with pytest.raises(CorpusError, match=message):
        load_corpus(put("a.tsv", TSV), **options)


@pytest.mark.parametrize("files", [[], ["a", "b", "c"]])
def test_a_wrong_number_of_files_is_refused(files):
    with pytest.raises(CorpusError, match=f"got {len(files)} paths"):
        load_corpus(files)


def test_a_folder_among_two_aligned_files_is_refused(put, tmp_path):
    with pytest.raises(CorpusError, match="is a folder where a file is needed"):
        load_corpus([put("a.en", "x\n"), tmp_path])


def test_errors_are_value_errors():
    assert issubclass(CorpusError, ValueError)


def numbered_pairs(count):
    """Pairs of which every third repeats the source before it, in another case, with another target."""
    sources = [f"Source {row - (row % 3 == 2)}".upper() if row % 3 == 2 else f"Source {row}" for row in range(count)]
    return datasets.Dataset.from_dict({"source": sources, "target": [f"target {row}" for row in range(count)]})


def test_a_split_never_puts_one_source_on_both_sides_whatever_its_case():
    rest, held_out = split_off(numbered_pairs(300), 20, seed=1)
    assert {text.casefold() for text in rest["source"]}.isdisjoint(text.casefold() for text in held_out["source"])
    assert sorted([*rest["target"], *held_out["target"]]) == sorted(numbered_pairs(300)["target"])


def test_a_split_holds_out_what_was_asked_for_and_never_over_a_tenth_or_so():
    assert 20 <= len(split_off(numbered_pairs(300), 20)[1]) <= 21
    assert 30 <= len(split_off(numbered_pairs(300), 1000)[1]) <= 31


def test_a_split_depends_on_texts_and_seed_but_not_on_the_order_of_the_pairs():
    pairs = numbered_pairs(300)
    held_out = set(split_off(pairs, 20, seed=1)[1]["target"])
    assert held_out == set(split_off(pairs.select(range(299, -1, -1)), 20, seed=1)[1]["target"])
    assert held_out != set(split_off(pairs, 20, seed=2)[1]["target"])


def test_a_split_never_puts_one_source_on_both_sides_whatever_its_spacing_or_accents():
    forms = ["Café {}", "café  {}", " CAFÉ\t{}", "cafe\u0301 {}"]
    sources = [forms[row % 4].format(row // 4) for row in range(400)]
    pairs = datasets.Dataset.from_dict({"source": sources, "target": list(map(str, range(400)))})
    rest, held_out = split_off(pairs, 40)
    numbers = [{text.split()[-1] for text in side["source"]} for side in (rest, held_out)]
    assert numbers[0].isdisjoint(numbers[1])
    assert (len(numbers[1]), len(held_out)) == (10, 40)


def test_too_few_pairs_to_split_are_refused_with_their_number():
    with pytest.raises(CorpusError, match="9 pairs"):
        split_off(numbered_pairs(9), 5)
