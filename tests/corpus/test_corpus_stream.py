"""A corpus as a stream: the same pairs in every pass, from any row on, in any process, without memory of them.

Every reader gets the same ten rows, written by hand in its own form, four of which are pairs. A reader's form may have
no way to be damaged as another can; a blank side stands for the fault there.
"""

import copy
import gzip
import json
import os
import pickle
import tracemalloc
import types
from collections import Counter
from itertools import islice
from types import SimpleNamespace

import datasets
import pytest
import torch

from tinyseq.corpus import loading as corpus
from tinyseq.corpus.loading import CorpusError, load_corpus, stream_corpus

# None: a blank side; ...: a row that can't be read
ROWS = [None, ..., ("one", "eins"), None, ("two", "zwei"), ("three", "drei"), ..., ..., ("four", "vier"), None]
PAIRS = [(3, "one", "eins"), (5, "two", "zwei"), (6, "three", "drei"), (9, "four", "vier")]


def lines(good, blank, bad, rows=ROWS):
    """Rows as lines of text: `good` is a format of a pair."""
    return "".join((blank if row is None else bad if row is ... else good.format(*row)) + "\n" for row in rows)


def columns(rows=ROWS):
    """Rows as two columns, in which null is all that can be wrong."""
    texts = [(None, "x") if row in (None, ...) else row for row in rows]
    return {"en": [source for source, _ in texts], "de": [target for _, target in texts]}


def objects():
    for row in ROWS:
        yield 7 if row is ... else {"en": "", "de": "x"} if row is None else dict(zip(("en", "de"), row, strict=True))


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def aligned(folder):
    sides = [[("" if row in (None, ...) else row[side]) + "\n" for row in ROWS] for side in (0, 1)]
    return [put(folder / name, "".join(side)) for name, side in zip(("a.en", "a.de"), sides, strict=True)]


def saved(folder):
    datasets.Dataset.from_dict(columns()).save_to_disk(folder / "saved")
    return str(folder / "saved")


def parquet(folder):
    datasets.Dataset.from_dict(columns()).to_parquet(folder / "a.parquet")
    return str(folder / "a.parquet")


def arrow(folder):
    """A folder that `datasets` streams itself."""
    datasets.Dataset.from_dict(columns()).save_to_disk(folder / "saved")
    (folder / "data").mkdir()
    next((folder / "saved").glob("*.arrow")).rename(folder / "data" / "train.arrow")
    return str(folder / "data")


MAKERS = {
    "aligned": aligned,
    "tsv": lambda folder: put(folder / "a.tsv", lines("{}\t{}", "\t", "a\tb\tc")),
    "tsv with header": lambda folder: put(folder / "a.tsv", "source\ttarget\n" + lines("{}\t{}", "", "a")),
    "gzip": lambda folder: put(folder / "a.gz", gzip.compress(lines("{}\t{}", "\tx", "a").encode())),
    "csv": lambda folder: put(folder / "a.csv", lines('{},"{}"', "x,", '"a\n\n",b,c')),
    "json lines": lambda folder: put(folder / "a.jsonl", lines('{{"en": "{}", "de": "{}"}}', "", "{")),
    "json array": lambda folder: put(folder / "a.json", json.dumps(list(objects()), indent=2)),
    "parquet": parquet,
    "saved": saved,
    "folder": lambda folder: os.path.dirname(put(folder / "data" / "train.tsv", lines("{}\t{}", "\t", "a\tb\tc"))),
    "arrow": arrow,
}


@pytest.fixture(params=MAKERS)
def files(request, tmp_path):
    """The ten rows in one of the forms."""
    return MAKERS[request.param](tmp_path)


def shards_in(folder, number=7, kind="tsv"):
    """A corpus of shards; shard `n` has n + 1 pairs after a blank row. Returns what stands for them."""
    for shard in range(number):
        rows = [None] + [(f"{shard} {row}", f"t {shard} {row}") for row in range(shard + 1)]
        if kind == "tsv":
            put(folder / f"{shard}.tsv", lines("{}\t{}", "\t", "", rows))
        else:
            datasets.Dataset.from_dict(columns(rows)).save_to_disk(folder / "saved")
            (folder / "data").mkdir(exist_ok=True)
            next((folder / "saved").glob("*.arrow")).rename(folder / "data" / f"train-{shard}.arrow")
    return str(folder / ("data" if kind == "arrow" else "*.tsv"))


# Passes --------------------------------------------------------------------------------------------------------------


def test_a_pass_gives_the_pairs_with_the_number_of_rows_read_so_far(files):
    stream = stream_corpus(files, on_bad_row="skip")
    assert list(stream.pairs()) == PAIRS
    assert stream.report.rows == len(ROWS)
    assert stream.report.counts.total() == stream.report.dropped == 6


def test_a_pass_gives_what_load_corpus_gives(files):
    loaded = load_corpus(files, on_bad_row="skip")
    stream = stream_corpus(files, on_bad_row="skip")
    assert [pair for _, *pair in stream.pairs()] == [list(row.values()) for row in loaded.pairs]
    assert stream.report == loaded.report


@pytest.mark.parametrize("skip", range(12))
def test_a_pass_from_a_row_on_gives_the_rest_of_the_pass_and_its_report(files, skip):
    whole, rest = stream_corpus(files, on_bad_row="skip"), stream_corpus(files, on_bad_row="skip")
    list(whole.pairs(4))
    assert list(rest.pairs(4, skip=skip)) == [pair for pair in PAIRS if pair[0] > skip]
    refused = [row in (None, ...) for row in ROWS][skip:]
    assert rest.report.rows == len(refused)
    assert rest.report.dropped == sum(refused)
    assert rest.report.places.items() <= whole.report.places.items() or skip > 0


def test_the_report_counts_all_passes(files):
    stream = stream_corpus(files, on_bad_row="skip")
    once = copy.deepcopy(load_corpus(files, on_bad_row="skip").report)
    for epoch in range(3):
        list(stream.pairs(epoch))
    assert stream.report.counts == {reason: 3 * count for reason, count in once.counts.items()}


@pytest.mark.parametrize("skip", [0, 1, 2, 3, 4, 5])
def test_repaired_bytes_are_counted_once_between_a_pass_cut_off_at_a_row_and_its_rest(tmp_path, skip):
    path = put(
        tmp_path / "a.tsv", "M\xe4use\tmice\none\teins\nB\xe4r\tbear\ntwo\tzwei\nV\xf6gel\tbirds\n".encode("latin-1")
    )
    begin, rest = (stream_corpus(path, on_bad_bytes="replace") for _ in range(2))
    list(islice(begin.pairs(), skip))
    sources = [source for _, source, _ in rest.pairs(skip=skip)]
    assert sources == ["M\ufffduse", "one", "B\ufffdr", "two", "V\ufffdgel"][skip:]
    assert begin.report.counts.total() + rest.report.counts.total() == 3


@pytest.mark.parametrize(("skip", "repaired"), [(0, [1, 2, 4]), (1, [2, 4]), (2, [4]), (3, [4]), (4, [])])
def test_repaired_bytes_are_counted_after_the_rows_passed_over_alone(tmp_path, skip, repaired):
    source = put(tmp_path / "a.en", b"m\xfcce\none\nbear\ntwo\nthree\n")
    target = put(tmp_path / "a.de", "Mause\nMäuse\nBar\nBär\ndrei\n".encode("latin-1"))
    stream = stream_corpus([source, target], on_bad_bytes="replace")
    list(stream.pairs(skip=skip))
    assert stream.report.places.get("invalid UTF-8 replaced by U+FFFD", []) == [
        f"{source if line == 1 else target}:{line}" for line in repaired
    ]


def test_rows_passed_over_are_not_checked(tmp_path):
    path = put(tmp_path / "a.tsv", lines("{}\t{}", "\t", "only one"))
    with pytest.raises(CorpusError, match=r"a\.tsv:2: wrong number of columns"):
        list(stream_corpus(path).pairs())
    assert list(islice(stream_corpus(path).pairs(skip=2), 3)) == PAIRS[:3]
    with pytest.raises(CorpusError, match=r"a\.tsv:7: wrong number of columns"):
        list(stream_corpus(path).pairs(skip=2))


def test_what_looks_wrong_is_kept_or_left_out_alike_wherever_a_pass_begins(tmp_path):
    # In rows 5 and 6 a script, and in row 1, that only the beginning of the corpus makes foreign
    rows = [("слово", "Wort"), *[(f"word {n}", f"Wort {n}") for n in range(30)]]
    rows[4:6] = [("слово", "Wort"), ("слова", "Wörter")]
    path = put(tmp_path / "a.tsv", lines("{}\t{}", "", "", rows))
    whole = list(stream_corpus(path, drop=["script"]).pairs())
    assert [row for row, *_ in whole] == [2, 3, 4, *range(7, 32)]
    for skip in range(32):
        assert list(stream_corpus(path, drop="all").pairs(skip=skip)) == [pair for pair in whole if pair[0] > skip]


def test_held_out_sources_can_be_left_out_of_a_stream(tmp_path):
    path = put(tmp_path / "a.tsv", lines("{}\t{}", "\t", "a"))
    options = {"on_bad_row": "skip", "held_out": ["THREE ", "nine"]}
    assert list(stream_corpus(path, **options, drop=["test_pair"]).pairs()) == [PAIRS[0], PAIRS[1], PAIRS[3]]
    kept = stream_corpus(path, **options)
    assert list(kept.pairs()) == PAIRS
    assert kept.report.places["test_pair"] == [f"{path}:6"]


def test_duplicates_cannot_be_left_out_of_a_stream_and_all_does_not_mean_them(tmp_path):
    path = put(tmp_path / "a.tsv", "a\tb\na\tb\n")
    with pytest.raises(
        CorpusError, match="drop='duplicate' is not for a stream.*tinyseq corpus FILES --drop duplicate"
    ):
        stream_corpus(path, drop=["script", "duplicate"])
    stream = stream_corpus(path, drop=["all"])
    assert list(stream.pairs()) == [(1, "a", "b"), (2, "a", "b")]
    assert stream.report.counts == {}  # a stream does not remember its pairs


INNER_SEPARATORS = "\r\u2028\u2029\x85\x0b\x0c\x1c"
ODD = {
    "quotes in a TSV": ("a.tsv", '"a\tb\nc"\t"d\ne\tf\tg\n""\th\n'),
    "separators": ("a.tsv", "".join(f"{n}{c}right\t{n}{c}y\r\n" for n, c in enumerate(INNER_SEPARATORS))),
    "no last line feed": ("a.tsv", "a\tb\nc\td"),
    "byte-order mark": ("a", "\ufeffsource\ttarget\na\tb\n"),
    "byte-order mark before JSON": ("a.txt", '\ufeff{"s": "a", "t": "b"}\n'),
    "UTF-16": ("a.tsv", "a dog\tein Hund\na cat\teine Katze\n".encode("utf-16")),
    "Latin-1": ("a.tsv", "a\tb\nzw\xf6lf\ttwelve\nc\td\n".encode("latin-1")),
    "cut in a character": ("a.tsv", "a\tb\nc\tzwö".encode()[:-1]),
    "malformed JSON": ("a.jsonl", '{"s": "a", "t": "b"}\n{"s": "c" "t"}\n\n[1]\n{"s": "e", "t": "f"}\n{"s": "g'),
    "wrong key": ("a.json.gz", gzip.compress(b'{"en": "a", "de": "b", "id": "7"}\n')),
    "open CSV quote": ("a.csv", 'a,b\nc,"d\ne,f\n'),
    "cut gzip": ("a.tsv", gzip.compress(bytes(range(33, 127)) * 9)[:-12]),
    "damaged Parquet": ("a.parquet", b"PAR1 and no more"),
    "blank": ("a.tsv", "\n \t\u3000\n"),
    "empty": ("a.tsv", ""),
    "one column": ("a.txt", "a dog\na cat\n"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("on_bad", [{}, {"on_bad_row": "skip", "on_bad_bytes": "replace"}], ids=["stop", "go on"])
def test_of_an_odd_file_a_stream_gives_the_pairs_the_report_or_the_error_that_load_corpus_gives(tmp_path, odd, on_bad):
    name, content = ODD[odd]
    path = put(tmp_path / name, content)
    options = {**on_bad, "source": "en_XX", "target": "de"} if odd == "wrong key" else on_bad

    def outcome(read):
        try:
            return read()
        except CorpusError as error:
            return str(error)

    def load():
        loaded = load_corpus(path, **options)
        return [tuple(row.values()) for row in loaded.pairs], loaded.report

    def stream():
        opened = stream_corpus(path, **options)
        return [(source, target) for _, source, target in opened.pairs()], opened.report

    assert outcome(stream) == outcome(load)


def test_aligned_files_of_unequal_length_end_a_pass_with_both_numbers(tmp_path):
    files = [put(tmp_path / "train.src", "x\n" * 100), put(tmp_path / "train.tgt", "y z\n" * 99)]
    for skip in (0, 50, 99):
        with pytest.raises(CorpusError, match=r"train\.src has 100 lines and .*train\.tgt has 99;"):
            list(stream_corpus(files).pairs(skip=skip))


# Shards --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tsv", "arrow"])
def test_shards_come_whole_in_an_order_that_depends_on_seed_and_pass_alone(tmp_path, kind):
    files = shards_in(tmp_path, kind=kind)

    def order(seed, epoch):
        pairs = [source.split() for _, source, _ in stream_corpus(files, seed=seed).pairs(epoch)]
        shards = list(dict.fromkeys(shard for shard, _ in pairs))
        assert pairs == [[shard, str(row)] for shard in shards for row in range(int(shard) + 1)]
        assert sorted(shards) == list("0123456")
        return shards

    orders = {(seed, epoch): order(seed, epoch) for seed in (3, 8) for epoch in (0, 1, 2)}
    assert len(set(map(tuple, orders.values()))) == 6  # 1 of 5,040 orders, each time
    stream = stream_corpus(files, seed=3)
    for epoch in (2, 0, 1):  # whatever this object has read before
        assert list(dict.fromkeys(source[0] for _, source, _ in stream.pairs(epoch))) == orders[3, epoch]


@pytest.mark.parametrize("kind", ["tsv", "arrow"])
def test_a_pass_from_a_row_on_goes_on_over_the_shards_that_are_left(tmp_path, kind):
    stream = stream_corpus(shards_in(tmp_path, kind=kind), seed=1)
    whole = list(stream.pairs(5))
    assert whole[-1][0] <= 7 + 28
    for skip in range(36):
        assert list(stream.pairs(5, skip)) == [pair for pair in whole if pair[0] > skip]


def test_aligned_shards_stay_aligned(tmp_path):
    for number in range(5):
        put(tmp_path / f"{number}.en", "".join(f"{number} {row}\n" for row in range(number + 1)))
        put(tmp_path / f"{number}.de", "".join(f"t {number} {row}\n" for row in range(number + 1)))
    pairs = list(stream_corpus([tmp_path / "*.en", tmp_path / "*.de"], seed=2).pairs())
    assert len(pairs) == 15
    assert all(target == f"t {source}" for _, source, target in pairs)


def test_rows_are_named_by_their_shard(tmp_path):
    stream = stream_corpus(shards_in(tmp_path, number=3))
    list(stream.pairs())
    assert sorted(stream.report.places["both sides blank"]) == [f"{tmp_path}/{shard}.tsv:1" for shard in range(3)]
    folder = shards_in(tmp_path, number=3, kind="arrow")
    stream = stream_corpus(folder)
    list(stream.pairs())
    assert sorted(stream.report.places["source side blank"]) == [
        f"{folder} train shard {shard} row 1" for shard in (1, 2, 3)
    ]


def test_the_built_in_corpus_streams_and_is_generated_once(monkeypatch):
    import tinyseq

    calls = []

    def generate(split):
        calls.append(split)
        return [SimpleNamespace(source=f"the {split} {n}", target=f"el {split} {n}") for n in range(3)]

    module = types.ModuleType("tinyseq.grammar")
    module.generate = generate
    monkeypatch.setitem(__import__("sys").modules, "tinyseq.grammar", module)
    monkeypatch.setattr(tinyseq, "grammar", module, raising=False)
    stream = stream_corpus("grammar", source="es", target="en", split="dev")
    expected = [(n + 1, f"el validation {n}", f"the validation {n}") for n in range(3)]
    assert [list(stream.pairs(epoch)) for epoch in (0, 1)] == [expected, expected]
    assert list(stream.pairs(0, skip=2)) == expected[2:]
    assert calls == ["validation"]


# Processes and memory ------------------------------------------------------------------------------------------------


class Rows(torch.utils.data.IterableDataset):
    def __init__(self, stream):
        self.stream = stream

    def __iter__(self):
        return self.stream.pairs(2, skip=3)


@pytest.mark.parametrize("kind", ["tsv", "arrow"])
@pytest.mark.parametrize("is_read_before", [False, True])
def test_each_worker_of_a_loader_gets_the_whole_stream(tmp_path, kind, is_read_before):
    stream = stream_corpus(shards_in(tmp_path, kind=kind), seed=4)
    expected = list(stream_corpus(shards_in(tmp_path / "again", kind=kind), seed=4).pairs(2, skip=3))
    if is_read_before:
        next(stream.pairs())
    loader = torch.utils.data.DataLoader(
        Rows(stream), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60
    )
    assert Counter(map(tuple, loader)) == Counter(expected * 2)


def test_a_stream_can_be_sent_to_a_process_before_and_after_it_was_read(files):
    stream = stream_corpus(files, on_bad_row="skip", held_out=["five"])
    assert list(pickle.loads(pickle.dumps(stream)).pairs()) == PAIRS
    next(stream.pairs())
    assert list(pickle.loads(pickle.dumps(stream)).pairs()) == PAIRS


def open_files():
    return [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="Linux tells which files are open")
@pytest.mark.parametrize("form", sorted(set(MAKERS) - {"saved", "arrow"}))  # these are mapped, as Arrow does it
def test_no_file_stays_open_after_a_pass_whole_or_not(tmp_path, form):
    stream = stream_corpus(MAKERS[form](tmp_path), on_bad_row="skip")
    list(stream.pairs())
    cut = stream.pairs()
    next(cut)
    cut.close()
    assert [path for path in open_files() if path.startswith(str(tmp_path))] == []


@pytest.mark.parametrize("form", ["tsv", "jsonl", "parquet"])
def test_memory_does_not_grow_with_the_corpus(tmp_path, form):
    def peak(number):
        pairs = [(f"the source of pair {n}", f"the target of pair {n}") for n in range(number)]
        path = tmp_path / f"{number}.{form}"
        if form == "parquet":
            table = datasets.Dataset.from_dict(columns(pairs))
            table.to_parquet(path)
        else:
            pattern = {"tsv": "{}\t{}", "jsonl": '{{"s": "{}", "t": "{}"}}'}[form]
            put(path, lines(pattern, "", "", pairs))
        stream = stream_corpus(path, drop="all", held_out=["none"])
        next(stream.pairs())
        tracemalloc.start()
        try:
            assert sum(1 for _ in stream.pairs()) == number
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    small, large = peak(2_000), peak(30_000)
    assert large < 1.5 * small + 200_000


# Refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ("no.tsv", {}, r"no\.tsv: there is no such file"),
        (["a.tsv", "no.de"], {}, r"no\.de: there is no such file"),
        ("*.parquet", {}, r"\*\.parquet: no file matches"),
        ("a.tsv", {"on_bad_row": "drop"}, "on_bad_row='drop' is not allowed"),
        ("a.tsv", {"on_bad_bytes": "drop"}, "on_bad_bytes='drop' is not allowed"),
        ("a.tsv", {"drop": ["script", "short"]}, "drop='short' is not allowed"),
        ("a.tsv", {"source": "en"}, "source='en' and target=None"),
        ("a.tsv", {"revision": "v1"}, "revision='v1' has no meaning"),
        ("folder", {"split": "nowhere"}, "split='nowhere' is not there; found 'train'"),
    ],
)
def test_what_is_missing_or_out_of_place_is_refused_before_the_first_pass(
    tmp_path, monkeypatch, files, options, message
):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "a.tsv", "a\tb\n")
    put(tmp_path / "folder" / "train.tsv", "a\tb\n")
    with pytest.raises(CorpusError, match=message):
        stream_corpus(files, **options)


@pytest.mark.parametrize("aligned", [False, True])
def test_a_pipe_is_refused_because_a_stream_is_read_again(tmp_path, aligned):
    os.mkfifo(tmp_path / "pipe")
    other = put(tmp_path / "a.de", "b\n")
    with pytest.raises(CorpusError, match="pipe: is a pipe or a device, and a stream is read more than once"):
        stream_corpus([tmp_path / "pipe", other] if aligned else tmp_path / "pipe")


def test_a_pass_without_a_pair_is_refused_with_the_report(tmp_path):
    stream = stream_corpus(put(tmp_path / "a.tsv", "same\tSame\n\nno\tno\n"), drop=["identical"])
    with pytest.raises(CorpusError, match=r"a\.tsv: there are no pairs in it(.|\n)*2  dropped  identical"):
        list(stream.pairs())
    assert list(stream.pairs(1, skip=3)) == []


def test_a_hub_data_set_is_streamed_and_its_split_is_known_at_once(monkeypatch):
    asked = {}

    def load_dataset(path, name=None, **options):
        asked.update(path=path, name=name, **options)
        return datasets.IterableDatasetDict(
            {"train": datasets.Dataset.from_dict(columns()).to_iterable_dataset(num_shards=4)}
        )

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    stream = stream_corpus("owner/books", name="de-en", revision="v1", seed=6)
    assert asked == {"path": "owner/books", "name": "de-en", "revision": "v1", "streaming": True}
    passes = [[pair for _, *pair in stream.pairs(epoch)] for epoch in range(5)]
    assert all(sorted(pairs) == sorted([source, target] for _, source, target in PAIRS) for pairs in passes)
    assert len({str(pairs) for pairs in passes}) > 1
    with pytest.raises(CorpusError, match="owner/books: split='test' is not there; found 'train'"):
        stream_corpus("owner/books", split="test")


def test_the_sample_that_tells_the_scripts_is_not_in_the_report(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "SAMPLE_PAIRS", 5)
    path = put(tmp_path / "a.tsv", lines("{}\t{}", "\t", "a\tb\tc"))
    stream = stream_corpus(path, on_bad_row="skip")
    list(stream.pairs(skip=9))
    assert stream.report.rows == 1
