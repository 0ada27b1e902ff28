"""Streams: blocks hold the next pairs of the text, a mixture keeps its weights, and a resumed stream is the tail."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from torch.utils.data import DataLoader

from tinyseq import TinySeqTokenizer
from tinyseq.batching.mixing import DatasetStream, Mixture, StreamedCorpus, read
from tinyseq.batching.stream import BatchStream
from tinyseq.corpus.checks import Report
from tinyseq.corpus.loading import stream_corpus


class Numbered:
    """A text stream of `rows` rows whose texts say where they are from: the name, the pass and the row.

    The rows that `refused` names are refused, and counted; those that `long` names have a long target.
    """

    def __init__(self, name="x", rows=10, refused=(), long=()):
        self.name = name
        self.rows = rows
        self.refused = refused
        self.long = long
        self.report = Report()

    def pairs(self, epoch, skip):
        for row in range(skip + 1, self.rows + 1):
            if row in self.refused:
                self.report.add("refused", f"{self.name}:{row}")
            else:
                yield row, f"{self.name}{epoch}.{row}", "b" * (50 if row in self.long else 1 + row * 7 % 11)


def name_pass_row(text, name="x"):
    epoch, row = text.removeprefix(name).split(".")
    return int(epoch), int(row)


@pytest.fixture(scope="module")
def tokenizer():
    return TinySeqTokenizer.train(["a b"] * 3, vocab_size=270)


def sources(batch, tokenizer):
    return tokenizer.batch_decode(batch.tensors["input_ids"], skip_special_tokens=True)


# --- text -------------------------------------------------------------------------------------------------


def test_a_reader_goes_through_pass_after_pass():
    reader = read(Numbered(rows=3, refused=[2]))
    pairs = list(itertools.islice(reader, 5))
    assert [(row, source) for row, source, _ in pairs] == [
        (1, "x0.1"), (3, "x0.3"), (1, "x1.1"), (3, "x1.3"), (1, "x2.1"),
    ]  # fmt: skip
    assert reader.passes == 2
    assert reader.report.counts == {"refused": 2}


STREAMS = {
    "one": lambda: Numbered(rows=7, refused=[1, 4, 7]),
    "in memory": lambda: DatasetStream(Dataset.from_dict({"source": [*"abcdefg"], "target": [*"tuvwxyz"]}), "m", 3),
    "mixture": lambda: Mixture([Numbered("x", 7, refused=[7]), Numbered("y", 3, [1]), Numbered("z", 5)], [3, 0.5, 2]),
    "mixture in a mixture": lambda: Mixture(
        [Numbered("x", 7), Mixture([Numbered("y", 3), Numbered("z", 5, [2])], [2, 1])], [1, 1]
    ),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_a_reader_with_the_state_of_another_goes_on_where_that_one_was(kind):
    pairs = list(itertools.islice(read(STREAMS[kind]()), 40))
    for used in range(30):
        before = read(STREAMS[kind]())
        assert list(itertools.islice(before, used)) == pairs[:used]
        after = read(STREAMS[kind](), json.loads(json.dumps(before.state)))
        assert after.state == before.state
        assert list(itertools.islice(after, 10)) == pairs[used : used + 10]
        # What is refused between two pairs is counted by the one that reads on, and once
        list(itertools.islice(before, 10))
        assert after.report == before.report


def test_pairs_in_memory_come_once_in_each_pass_in_an_order_of_its_own():
    texts = [f"{number}" for number in range(57)]
    stream = DatasetStream(Dataset.from_dict({"source": texts, "target": texts[::-1]}), "memory", seed=3)
    passes = [list(stream.pairs(epoch, skip=0)) for epoch in (0, 1, 0)]
    for pairs in passes:
        assert [row for row, _, _ in pairs] == list(range(1, 58))
        assert sorted((source, target) for _, source, target in pairs) == sorted(zip(texts, texts[::-1], strict=True))
    assert passes[0] == passes[2] != passes[1]
    assert passes[0] != list(DatasetStream(stream.dataset, "memory", seed=4).pairs(0, skip=0))


def test_a_pass_without_pairs_is_an_error_that_shows_what_was_refused():
    with pytest.raises(ValueError, match=r"(?s)nothing: there are no pairs in it.*refused +nothing:1, nothing:2"):
        next(iter(read(Numbered("nothing", 2, refused=[1, 2]))))
    with pytest.raises(ValueError, match="y: there are no pairs in it"):
        list(itertools.islice(read(Mixture([Numbered("x"), Numbered("y", rows=0)], [5, 1])), 6))


def test_a_pass_that_ends_with_refused_rows_is_not_taken_for_an_empty_one_on_resuming():
    stream = Numbered(rows=3, refused=[2, 3])
    reader = read(stream, {"epoch": 4, "row": 1, "report": Report().to_dict()})
    assert next(iter(reader)) == (1, "x5.1", "b" * 8)


# --- mixtures ---------------------------------------------------------------------------------------------


def test_a_mixture_keeps_its_weights_at_every_pair():
    random = np.random.default_rng(11)
    for _trial in range(30):
        count = int(random.integers(1, 9))
        weights = random.choice([0.1, 0.3, 1, 1.5, 2, 7, 40, 1000], count).tolist()
        streams = [Numbered(f"{index}:", rows=int(random.integers(1, 40))) for index in range(count)]
        given = np.zeros(count, dtype=int)
        tenths = np.array([round(10 * weight) for weight in weights])
        for number, (_, source, _) in enumerate(itertools.islice(read(Mixture(streams, weights)), 600), start=1):
            given[int(source.split(":")[0])] += 1
            assert (np.abs(given * tenths.sum() - number * tenths) < tenths.sum()).all(), (weights, number, given)


def test_a_mixture_is_the_same_each_time_and_each_corpus_goes_through_its_own_passes():
    def mixture():
        return Mixture([Numbered("x", rows=4), Numbered("y", rows=50)], [2, 1])

    pairs = list(itertools.islice(read(mixture()), 60))
    assert pairs == list(itertools.islice(read(mixture()), 60))
    for name, rows, count in (("x", 4, 40), ("y", 50, 20)):
        numbers = [name_pass_row(source, name) for _, source, _ in pairs if source.startswith(name)]
        assert numbers == [(number // rows, number % rows + 1) for number in range(count)]


@pytest.mark.parametrize("weights", [[1], [1, 0], [1, -2], [1, float("nan")], [1, float("inf")], [1, 2, 3]])
def test_weights_that_are_not_one_number_above_0_for_each_corpus_are_refused(weights):
    with pytest.raises(ValueError, match="weights"):
        Mixture([Numbered("x"), Numbered("y")], weights)


def test_another_number_of_corpora_than_before_is_refused_on_resuming():
    state = read(Mixture([Numbered("x"), Numbered("y")], [1, 1])).state
    with pytest.raises(ValueError, match="x: 1 corpora are mixed, and 2 were"):
        read(Mixture([Numbered("x")], [1]), state)


# --- blocks -----------------------------------------------------------------------------------------------


def corpus_of(stream, tokenizer, block_pairs=23, max_length=20):
    return StreamedCorpus(stream, tokenizer, max_length, block_pairs)


def batches_of(corpus, **where):
    return BatchStream(corpus, 64, seed=5, pad_token_id=corpus.tokenizer.pad_token_id, **where)


def taken(stream, count, workers=0):
    """The first batches, as a training process gets them."""
    return list(itertools.islice(DataLoader(stream, batch_size=None, num_workers=workers), count))


def test_each_block_holds_the_next_pairs_of_the_text_once_also_across_passes(tokenizer):
    corpus = corpus_of(Numbered(rows=60, refused=range(10, 15)), tokenizer)
    batches = taken(batches_of(corpus), 80)
    blocks = [
        list(itertools.chain(*(sources(batch, tokenizer) for batch in group)))
        for _, group in itertools.groupby(batches, key=lambda batch: batch.block["number"])
    ][:-1]
    rows = [(epoch, row) for epoch in range(9) for row in range(1, 61) if not 10 <= row < 15]
    assert len(blocks) > 55 * 2 / 23
    for number, block in enumerate(blocks):
        found = sorted(map(name_pass_row, block))
        assert found == rows[23 * number : 23 * (number + 1)]
        assert found != list(map(name_pass_row, block)), "batches are made by length, not in the text's order"


def test_a_batch_of_a_stream_says_which_rows_it_has(tokenizer):
    for batch in taken(batches_of(corpus_of(Numbered(rows=31, refused=[2], long=[5]), tokenizer)), 20):
        assert batch.rows == [name_pass_row(source)[1] for source in sources(batch, tokenizer)]


def test_no_batch_of_a_stream_exceeds_the_budget(tokenizer):
    for batch in taken(batches_of(corpus_of(Numbered(rows=31), tokenizer)), 20):
        assert max(batch.tensors["input_ids"].numel(), batch.tensors["labels"].numel()) <= 64


def test_pairs_that_are_too_long_are_left_out_and_counted_with_their_first_words(tokenizer):
    batches = taken(batches_of(corpus_of(Numbered(rows=23, refused=[4], long=[2, 9]), tokenizer, block_pairs=22)), 12)
    first, second = (next(batch for batch in batches if batch.block["number"] == number) for number in (0, 1))
    assert {row for batch in batches for row in batch.rows} == set(range(1, 24)) - {2, 4, 9}
    report = Report.from_dict(first.block["report"])
    assert report.counts == {"refused": 1, "a side has over 20 pieces": 2}
    assert report.places["a side has over 20 pieces"] == ["'x0.2'", "'x0.9'"]
    assert Report.from_dict(second.block["report"]).counts == {"refused": 2, "a side has over 20 pieces": 4}


@pytest.mark.parametrize("short", [[1, 2, 3, 10, 11, 12], [4, 5, 6]])
def test_a_block_of_which_nothing_is_short_enough_is_passed_over(tokenizer, short):
    """In the middle of a pass, and from the end of one to the beginning of the next."""
    corpus = corpus_of(Numbered(rows=12, long={*range(1, 13)} - {*short}), tokenizer, block_pairs=3)
    found = [row for block in itertools.islice(corpus.blocks(), len(short)) for row in block.pairs.rows]
    assert found == short * 3


@pytest.mark.parametrize("block_pairs", [2, 5, 23])
def test_a_corpus_of_which_nothing_is_short_enough_is_an_error(tokenizer, block_pairs):
    corpus = corpus_of(Numbered("much", rows=5, long=range(1, 6)), tokenizer, block_pairs)
    with pytest.raises(ValueError, match=r"much: no pair is short enough; raise max_position_embeddings \(20\)"):
        next(corpus.blocks())


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_wrong_with_a_corpus_is_said_from_a_loader_worker_too(tokenizer, workers):
    with pytest.raises(ValueError, match="nothing: there are no pairs in it"):
        taken(batches_of(corpus_of(Numbered("nothing", rows=0), tokenizer)), 1, workers)


def test_a_limit_above_the_budget_is_refused_before_anything_is_read(tokenizer):
    with pytest.raises(ValueError, match="batch_size_tokens=64 is less than the 65 pieces that a sentence may have"):
        batches_of(corpus_of(Numbered(rows=0), tokenizer, max_length=65))


def test_a_block_without_pairs_is_refused(tokenizer):
    with pytest.raises(ValueError, match="block_pairs=0"):
        corpus_of(Numbered(), tokenizer, block_pairs=0)


def test_a_stream_has_no_number_of_batches_per_epoch(tokenizer):
    assert batches_of(corpus_of(Numbered(), tokenizer)).batches_per_epoch is None


def test_another_block_comes_in_another_order(tokenizer):
    """The same pairs in each block, since a block is a pass; `x0.` and `x1.` are of one length."""
    batches = taken(batches_of(corpus_of(Numbered(rows=23), tokenizer)), 12)
    orders = [
        [batch.rows for batch in group] for _, group in itertools.groupby(batches, lambda batch: batch.block["number"])
    ]
    assert orders[0] != orders[1]


# --- resuming ---------------------------------------------------------------------------------------------

CORPORA = {
    "refused and too long rows": lambda: Numbered(rows=60, refused=[*range(20, 26), 60], long=[1, 30, 31, 59]),
    "blocks of several passes": lambda: Numbered(rows=9, refused=[9]),
    "mixture": lambda: Mixture(
        [Numbered("x", 60, refused=[60]), Numbered("y", 9, long=[4]), Numbered("z", 31)], [3, 1, 1.5]
    ),
    "in memory": lambda: DatasetStream(
        Dataset.from_dict({"source": [f"{n}" for n in range(60)], "target": ["b" * (n % 13 + 1) for n in range(60)]}),
        "memory",
        seed=1,
    ),
}


@pytest.fixture
def shards(tmp_path):
    """Three files of unequal length, with rows at their ends and in the middle that are refused."""
    for shard, count in enumerate([41, 17, 26]):
        lines = [f"{shard}{number}\t{'b' * (number % 13 + 1)}" for number in range(count)]
        lines[3], lines[9], lines[-1] = "no tab", "\tno source", "no target\t"
        (tmp_path / f"part-{shard}.tsv").write_text("\n".join(lines) + "\n")
    return str(tmp_path / "part-*.tsv")


@pytest.mark.parametrize("workers", [0, 2])
def test_files_are_resumed_exactly_and_what_was_refused_in_them_is_counted_on(tokenizer, shards, workers):
    def stream(**where):
        text = stream_corpus(shards, source="1", target="2", on_bad_row="skip", seed=3)
        return batches_of(corpus_of(text, tokenizer), **where)

    alone = taken(stream(), 60)
    refused = Report.from_dict(alone[-1].block["report"])
    passes = alone[-1].block["source"]["stream"]["epoch"]
    assert passes > 2
    assert 9 * passes <= refused.dropped <= 9 * (passes + 1)
    for used in (7, 24, 51) if workers == 0 else (24,):
        state = json.loads(json.dumps(stream().state_after(alone[used - 1], used)))
        share = taken(stream(state=state), 9, workers)
        assert list(map(content, share)) == list(map(content, alone[used : used + 9]))


def test_a_corpus_read_for_its_tokenizer_first_is_not_counted_twice(tokenizer, shards):
    text = stream_corpus(shards, source="1", target="2", on_bad_row="skip")
    assert len(list(itertools.islice(read(text), 300))) == 300
    block = next(corpus_of(text, tokenizer, block_pairs=75).blocks())
    assert (block.report["rows"], block.report["dropped"]) == (41 + 17 + 26 - 1, 8)  # but for the last row


def content(batch):
    return batch.rows, {name: tensor.tolist() for name, tensor in batch.tensors.items()}, batch.block


@pytest.mark.parametrize("workers, processes", [(0, 1), (2, 1), (1, 2), pytest.param(2, 3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", CORPORA)
def test_a_resumed_stream_is_the_tail_of_the_unbroken_one(tokenizer, kind, workers, processes):
    """Stopped in the middle of a block, before and after its first and its last batch, in several blocks."""

    def stream(**where):
        return batches_of(corpus_of(CORPORA[kind](), tokenizer), **where)

    alone = taken(stream(), 60)
    firsts = sorted({batch.block["first_batch"] for batch in alone})
    stops = [1, firsts[1] - 1, firsts[1], firsts[1] + 1, firsts[3] - 2, firsts[4], firsts[4] + 2]
    for used in stops if workers == 0 else stops[2:5]:
        # As if stopped with two processes; what the first of them says is what is saved
        last = alone[used - 1 if used % 2 else used - 2]
        state = json.loads(json.dumps(stream().state_after(last, used)))
        for rank in range(processes):
            share = taken(stream(process_index=rank, processes=processes, state=state), 8, workers)
            expected = [batch for number, batch in enumerate(alone) if number >= used and number % processes == rank]
            assert list(map(content, share)) == list(map(content, expected[:8]))


def test_a_stream_that_is_read_twice_counts_what_it_refused_once(tokenizer):
    stream = batches_of(corpus_of(Numbered(rows=23, refused=[3]), tokenizer, block_pairs=22))
    first, again = (taken(stream, 1)[0] for _ in range(2))
    assert first.block == again.block
    assert Report.from_dict(first.block["report"]).counts == {"refused": 1}


@pytest.mark.slow
@pytest.mark.parametrize("files", [False, True])
def test_memory_does_not_grow_with_a_stream_and_resuming_in_it_is_exact(tmp_path, files):
    script = Path(__file__).parents[2] / "benchmarks" / "streaming_memory.py"
    command = [sys.executable, script, "--pairs", "120000", "--shuffle-buffer", "6000", "--resumes", "2"]
    command += ["--output", tmp_path / "figures.json", *(("--shards", tmp_path / "shards") if files else ())]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [round(row["pairs"], -3) for row in figures["memory"]] == list(range(12_000, 121_000, 12_000))
    assert figures["growth"] < 0.05
