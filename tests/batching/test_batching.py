"""Batches: the budget holds, nothing is lost, processes share one stream, and what was encoded is never stale."""

import copy
import functools
import itertools
import json
import logging
import multiprocessing

import numpy as np
import pytest
import torch
from datasets import Dataset
from torch.utils.data import DataLoader
from training_runs import Run
from transformers import AutoTokenizer, ByT5Tokenizer

from tinyseq import TinySeqTokenizer
from tinyseq.batching import encoding
from tinyseq.batching.encoding import EncodedPairs, Ragged, encode_pairs, fingerprint_of
from tinyseq.batching.stream import BatchStream, WholeCorpus, tensors_of, token_budget_batches


def as_indices(pairs, budget=64, seed=5, block=0):
    return [batch.tolist() for batch in token_budget_batches(pairs, budget, seed, block)]


def pairs_of_lengths(lengths, fingerprint=""):
    """Pairs whose ids say which pair they belong to; every second row of their corpus was left out."""
    return EncodedPairs(
        Ragged.of([[index] * source for index, (source, _) in enumerate(lengths)]),
        Ragged.of([[index] * target for index, (_, target) in enumerate(lengths)]),
        rows=2 * np.arange(len(lengths)),
        too_long=len(lengths),
        fingerprint=fingerprint,
    )


@pytest.fixture
def pairs():
    random = np.random.default_rng(7)
    return pairs_of_lengths(random.integers(1, 30, size=(203, 2)).tolist(), fingerprint="these")


# --- ids --------------------------------------------------------------------------------------------------


def test_a_ragged_array_is_the_sequence_of_its_rows():
    rows = [[5, 6, 7], [8], [], [9, 10]]
    ragged = Ragged.of(rows)
    assert [row.tolist() for row in ragged] == rows
    assert [row.tolist() for row in ragged[1:3]] == rows[1:3]
    assert ragged[-1].tolist() == [9, 10]
    assert ragged.lengths.tolist() == [3, 1, 0, 2]
    assert len(ragged) == 4
    for beyond in (4, -5):
        with pytest.raises(IndexError):
            ragged[beyond]


def test_a_row_of_a_ragged_array_is_no_copy():
    ragged = Ragged.of([[1], [2, 3]])
    assert np.shares_memory(ragged[1], ragged.flat)


def test_ragged_arrays_are_concatenated_in_order():
    parts = [Ragged.of([[1, 2], [3]]), Ragged.of([]), Ragged.of([[4, 5, 6]])]
    assert [row.tolist() for row in Ragged.concatenated(parts)] == [[1, 2], [3], [4, 5, 6]]
    assert len(Ragged.concatenated([])) == 0


def test_tensors_are_padded_on_the_right_and_labels_with_minus_100():
    pairs = EncodedPairs(
        Ragged.of([[8, 0], [1, 2, 0], [4, 0]]), Ragged.of([[8, 0], [3, 0], [5, 6, 7, 0]]), np.arange(3)
    )
    batch = tensors_of(pairs, np.array([1, 2]), pad_token_id=9)
    assert batch["input_ids"].tolist() == [[1, 2, 0], [4, 0, 9]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["labels"].tolist() == [[3, 0, -100, -100], [5, 6, 7, 0]]
    assert all(tensor.dtype == torch.int64 for tensor in batch.values())


@pytest.fixture(scope="module")
def tokenizer():
    return TinySeqTokenizer.train(["a b"] * 3, vocab_size=270)


@pytest.fixture
def corpus():
    return Dataset.from_dict(
        {"source": [" a b ", "a b a b a b a b", "b"], "target": ["b a", "a", "a b a b a b a b a"]}
    )


def test_too_long_pairs_are_left_out_whole_and_counted(corpus, tokenizer):
    encoded = encode_pairs(corpus, tokenizer, max_length=6)
    assert (len(encoded), encoded.too_long) == (1, 2)
    assert encoded.sources[0].tolist() == tokenizer("a b")["input_ids"]
    assert encoded.sources[0][-1] == encoded.targets[0][-1] == tokenizer.eos_token_id
    assert encoded.target_tokens == len(tokenizer("b a")["input_ids"])


def test_each_encoded_pair_has_the_number_of_its_row_also_beyond_a_chunk(tokenizer, monkeypatch):
    monkeypatch.setattr(encoding, "ROWS_PER_CHUNK", 3)
    texts = ["a", "a b a b a b", "b", "a b", "a b a b a b", "b b", "a a"]
    encoded = encode_pairs(Dataset.from_dict({"source": texts, "target": texts[::-1]}), tokenizer, max_length=6)
    assert encoded.rows.tolist() == [0, 3, 6]
    assert [tokenizer.decode(ids, skip_special_tokens=True) for ids in encoded.sources] == ["a", "a b", "a a"]
    assert [tokenizer.decode(ids, skip_special_tokens=True) for ids in encoded.targets] == ["a a", "a b", "a"]


def test_a_corpus_of_which_nothing_is_short_enough_is_encoded_as_nothing(corpus, tokenizer):
    encoded = encode_pairs(corpus, tokenizer, max_length=1)
    assert (len(encoded), encoded.too_long, encoded.target_tokens, encoded.longest) == (0, 3, 0, 0)
    assert token_budget_batches(encoded, 64, seed=0, block=0) == []


# --- what was encoded before ------------------------------------------------------------------------------


def as_lists(encoded):
    return [
        [ids.tolist() for ids in encoded.sources],
        [ids.tolist() for ids in encoded.targets],
        encoded.rows.tolist(),
        encoded.too_long,
        encoded.fingerprint,
    ]


@pytest.fixture
def encodings(monkeypatch):
    """The calls in which text was encoded."""
    calls = []
    encode_texts = encoding.encode_texts
    monkeypatch.setattr(encoding, "encode_texts", lambda *given: calls.append(given) or encode_texts(*given))
    return calls


def test_what_was_encoded_once_is_not_encoded_again(corpus, tokenizer, tmp_path, encodings):
    without_cache = encode_pairs(corpus, tokenizer, 6)
    assert len(encodings) == 1
    first = encode_pairs(corpus, tokenizer, 6, tmp_path / "cache")
    assert len(encodings) == 2
    again = encode_pairs(corpus, tokenizer, 6, tmp_path / "cache")
    assert len(encodings) == 2
    assert as_lists(first) == as_lists(again) == as_lists(without_cache)


def test_the_last_call_of_a_tokenizer_does_not_matter(corpus, tokenizer, tmp_path, encodings):
    encode_pairs(corpus, tokenizer, 6, tmp_path)
    used = copy.deepcopy(tokenizer)
    used(["a b a b", "a"], truncation=True, max_length=2, padding="max_length")
    found = encode_pairs(corpus, used, 6, tmp_path)
    used(["a b a b", "a"], truncation=True, max_length=3, padding=True)
    assert as_lists(encode_pairs(corpus, used, 6)) == as_lists(found)
    assert len(encodings) == 2


def find_what_was_encoded(folder):
    """Encodes nothing, and prints how many pairs it finds."""
    del encoding.encode_texts
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").open()]
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    print(len(encode_pairs(Dataset.from_list(rows), tokenizer, 6, folder / "cache")), flush=True)


def test_another_process_finds_what_was_encoded(corpus, tokenizer, tmp_path):
    """One with hashes of its own, which Python draws at its start."""
    encode_pairs(corpus, tokenizer, 6, tmp_path / "cache")
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    corpus.to_json(tmp_path / "corpus.jsonl")
    run = Run.of(functools.partial(find_what_was_encoded, tmp_path), tmp_path / "out")
    assert (run.end(), run.text) == ([0], "1\n")


def test_of_several_processes_at_once_one_encodes_and_the_others_find_it(corpus, tokenizer, tmp_path, monkeypatch):
    """A process that begins while another encodes."""
    encode_texts, ours = encoding.encode_texts, []

    def encode_slowly(*given):
        ours.append(multiprocessing.get_context("fork").Process(target=find))
        ours[0].start()
        ours[0].join(timeout=1)
        assert ours[0].is_alive(), "it did not wait"
        return encode_texts(*given)

    def find():
        monkeypatch.delattr(encoding, "encode_texts")
        encode_pairs(corpus, tokenizer, 6, tmp_path)

    monkeypatch.setattr(encoding, "encode_texts", encode_slowly)
    encode_pairs(corpus, tokenizer, 6, tmp_path)
    ours[0].join(timeout=60)
    assert ours[0].exitcode == 0


def changed(tokenizer, how):
    """Another tokenizer that differs in one respect."""
    if how == "vocabulary":
        return TinySeqTokenizer.train(["ab"] * 3, vocab_size=270)
    tokenizer = copy.deepcopy(tokenizer)
    if how == "special tokens in a text":
        tokenizer.split_special_tokens = False
    elif how == "added token":
        tokenizer.add_tokens(["a b"])
    elif how == "normaliser":
        content = json.loads(tokenizer.backend_tokenizer.to_str())
        content["normalizer"]["normalizers"].append({"type": "Lowercase"})
        backend = type(tokenizer.backend_tokenizer).from_str(json.dumps(content))
        tokenizer = TinySeqTokenizer.wrap(backend, "</s>", "<pad>", 512)
    return tokenizer


@pytest.mark.parametrize("how", ["vocabulary", "special tokens in a text", "added token", "normaliser"])
def test_a_changed_tokenizer_is_never_served_from_an_old_cache(corpus, tokenizer, tmp_path, encodings, how):
    encode_pairs(corpus, tokenizer, 6, tmp_path)
    other = changed(tokenizer, how)
    encoded = encode_pairs(corpus, other, 6, tmp_path)
    assert len(encodings) == 2
    assert as_lists(encoded) == as_lists(encode_pairs(corpus, other, 6))


def test_each_change_of_texts_or_limit_has_another_fingerprint(tokenizer):
    texts = [
        (["ab", "c"], ["d", "e"]),
        (["a", "bc"], ["d", "e"]),  # the same letters, divided otherwise
        (["ab", "cd"], ["", "e"]),
        (["c", "ab"], ["d", "e"]),
        (["d", "e"], ["ab", "c"]),
        (["ab", "c", ""], ["d", "e", ""]),
        (["ab", "C"], ["d", "e"]),
        (["ab", "\ud800"], ["d", "e"]),
    ]
    corpora = [Dataset.from_dict({"source": source, "target": target}) for source, target in texts[:-1]]
    found = [fingerprint_of(corpus, tokenizer, 6) for corpus in corpora]
    found += [fingerprint_of(corpora[0], tokenizer, 7), fingerprint_of(corpora[0], ByT5Tokenizer(), 6)]
    assert len(set(found)) == len(found)


def test_the_columns_order_and_the_rows_left_out_of_a_selection_do_not_matter(tokenizer):
    corpus = Dataset.from_dict({"source": ["a", "b", "c"], "target": ["d", "e", "f"]})
    selected = Dataset.from_dict({"target": ["f", "x", "d"], "source": ["c", "x", "a"]}).select([2, 0])
    assert fingerprint_of(selected, tokenizer, 6) == fingerprint_of(corpus.select([0, 2]), tokenizer, 6)


def damage(path, how):
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "emptied":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(content[:-5])
    elif how == "one bit":
        path.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])


@pytest.mark.parametrize("how", ["missing", "emptied", "cut", "one bit"])
@pytest.mark.parametrize("name", ["source_ids.npy", "target_offsets.npy", "rows.npy", "digests.json"])
def test_a_damaged_cache_is_made_anew(corpus, tokenizer, tmp_path, encodings, caplog, name, how):
    whole = as_lists(encode_pairs(corpus, tokenizer, 6, tmp_path))
    damage(next(tmp_path.glob(f"*/{name}")), how)
    assert as_lists(encode_pairs(corpus, tokenizer, 6, tmp_path)) == whole
    assert len(encodings) == 2
    assert "made anew" in caplog.text
    assert as_lists(encode_pairs(corpus, tokenizer, 6, tmp_path)) == whole
    assert len(encodings) == 2


def test_nothing_in_a_cache_is_unpickled(corpus, tokenizer, tmp_path, caplog):
    whole = as_lists(encode_pairs(corpus, tokenizer, 6, tmp_path))
    path = next(tmp_path.glob("*/rows.npy"))
    np.save(path, np.array([{"an": "object"}]), allow_pickle=True)
    digests = path.with_name("digests.json")
    digests.write_text(json.dumps({**json.loads(digests.read_text()), "rows": encoding.file_digest(path)}))
    assert as_lists(encode_pairs(corpus, tokenizer, 6, tmp_path)) == whole
    assert "made anew" in caplog.text


def test_a_cache_that_cannot_be_written_is_done_without(corpus, tokenizer, tmp_path, caplog):
    (tmp_path / "file").write_text("not a folder")
    with caplog.at_level(logging.WARNING):
        encoded = encode_pairs(corpus, tokenizer, 6, tmp_path / "file")
    assert as_lists(encoded) == as_lists(encode_pairs(corpus, tokenizer, 6))
    assert "cannot be kept" in caplog.text


def test_a_cache_that_can_only_be_read_is_read(corpus, tokenizer, tmp_path, encodings, monkeypatch):
    encode_pairs(corpus, tokenizer, 6, tmp_path)

    def refuse(path):
        raise PermissionError(13, "read-only", path)

    monkeypatch.setattr(encoding, "FileLock", refuse)
    assert len(encode_pairs(corpus, tokenizer, 6, tmp_path)) == 1
    assert len(encodings) == 1


def test_a_tokenizer_written_in_python_is_encoded_with_and_cached_too(tmp_path, encodings):
    corpus = Dataset.from_dict({"source": ["ab"], "target": ["c"]})
    for _ in range(2):
        encoded = encode_pairs(corpus, ByT5Tokenizer(), 6, tmp_path)
        assert [encoded.sources[0].tolist(), encoded.targets[0].tolist()] == [[100, 101, 1], [102, 1]]
    assert len(encodings) == 1


def test_a_saved_tokenizer_has_the_fingerprint_of_the_one_that_was_saved(corpus, tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert fingerprint_of(corpus, loaded, 6) == fingerprint_of(corpus, tokenizer, 6)


# --- batches ----------------------------------------------------------------------------------------------


def test_no_batch_exceeds_the_budget_on_either_side(pairs):
    for batch in as_indices(pairs):
        assert len(batch) * max(len(pairs.sources[row]) for row in batch) <= 64
        assert len(batch) * max(len(pairs.targets[row]) for row in batch) <= 64


def test_every_pair_comes_once_in_each_epoch(pairs):
    for epoch in (0, 1):
        assert sorted(itertools.chain(*as_indices(pairs, block=epoch))) == list(range(203))


def test_the_order_depends_on_seed_and_epoch_alone(pairs):
    first = as_indices(pairs, seed=1, block=0)
    assert first == as_indices(copy.deepcopy(pairs), seed=1, block=0)
    assert first != as_indices(pairs, seed=1, block=1)
    assert first != as_indices(pairs, seed=2, block=0)


def test_the_order_is_the_one_that_runs_were_begun_with(pairs):
    """Sorted by target, then source length, then chance; filled one by one; then in an order by chance."""
    random = np.random.default_rng([3, 2])
    chance = random.random(203)
    batches = [[]]
    for row in sorted(range(203), key=lambda row: (len(pairs.targets[row]), len(pairs.sources[row]), chance[row])):
        longer = [*batches[-1], row]
        if len(longer) * max(max(len(side) for side in pairs[other]) for other in longer) <= 64:
            batches[-1].append(row)
        else:
            batches.append([row])
    assert as_indices(pairs, seed=3, block=2) == [batches[n] for n in random.permutation(len(batches))]


def test_pairs_of_equal_length_meet_other_pairs_in_the_next_epoch():
    pairs = pairs_of_lengths([(3, 3)] * 40)
    companions = [set(map(frozenset, as_indices(pairs, budget=12, block=epoch))) for epoch in (0, 1)]
    assert companions[0] != companions[1]


def test_few_positions_are_padding_when_lengths_vary():
    random = np.random.default_rng(0)
    lengths = [
        (max(target + int(random.integers(-3, 4)), 1), target) for target in random.integers(5, 40, 5000).tolist()
    ]
    pairs = pairs_of_lengths(lengths)
    batches = as_indices(pairs, budget=2048)
    for side, least in ((pairs.targets, 0.97), (pairs.sources, 0.85)):
        positions = sum(len(batch) * max(len(side[row]) for row in batch) for batch in batches)
        assert len(side.flat) / positions > least


def test_a_sentence_longer_than_the_budget_is_refused_with_both_numbers():
    pairs = pairs_of_lengths([(17, 2)])
    with pytest.raises(ValueError, match=r"batch_size_tokens=16 .* 17 pieces of the longest"):
        token_budget_batches(pairs, 16, seed=0, block=0)
    with pytest.raises(ValueError, match=r"batch_size_tokens=16 .* 17 pieces of the longest"):
        BatchStream(WholeCorpus(pairs), 16, seed=0, pad_token_id=9)


# --- the stream -------------------------------------------------------------------------------------------


def stream_of(pairs, **where):
    return BatchStream(WholeCorpus(pairs), 64, seed=5, pad_token_id=999, **where)


def content(batch):
    return batch.rows, {name: tensor.tolist() for name, tensor in batch.tensors.items()}


def taken(stream, count, workers=0):
    """The first batches, as a training process gets them."""
    loader = DataLoader(stream, batch_size=None, num_workers=workers)
    return list(itertools.islice(loader, count))


def test_a_batch_has_the_tensors_and_the_corpus_rows_of_its_pairs(pairs):
    batches = taken(stream_of(pairs), 30)
    expected = as_indices(pairs)
    for batch, indices in zip(batches, expected[:30], strict=True):
        assert batch.rows == [2 * index for index in indices]
        assert batch.tensors["input_ids"][:, 0].tolist() == indices
        assert batch.tensors["labels"][:, 0].tolist() == indices


def test_one_epoch_follows_another_without_end(pairs):
    stream = stream_of(pairs)
    one, two = (as_indices(pairs, block=epoch) for epoch in (0, 1))
    assert stream.batches_per_epoch == len(one)
    batches = taken(stream, len(one) + len(two) + 1)
    indices = [batch.tensors["input_ids"][:, 0].tolist() for batch in batches]
    assert indices[:-1] == one + two
    assert [batches[n].block["number"] for n in (0, len(one) - 1, len(one), -1)] == [0, 0, 1, 2]
    assert [batches[n].block["first_batch"] for n in (0, len(one) - 1, len(one))] == [0, 0, len(one)]


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow), 2])
def test_three_processes_together_walk_the_stream_of_one_across_the_end_of_an_epoch(pairs, workers):
    count = 2 * stream_of(pairs).batches_per_epoch + 3
    alone = list(map(content, taken(stream_of(pairs), count)))
    shares = [
        taken(stream_of(pairs, process_index=rank, processes=3), -(-count // 3), workers=workers) for rank in range(3)
    ]
    assert [content(shares[number % 3][number // 3]) for number in range(count)] == alone


@pytest.mark.parametrize("workers, processes", [(0, 1), (2, 1), (0, 2), (1, 3)])
def test_a_resumed_stream_is_the_tail_of_the_unbroken_one(pairs, workers, processes):
    """Stopped in the middle of an epoch, before its last batch, between two epochs, and after the first batch."""
    length = stream_of(pairs).batches_per_epoch
    alone = list(map(content, taken(stream_of(pairs), 3 * length)))
    for used in (1, length // 2, length - 1, length, length + 1, 2 * length):
        # Stopped with one process, that has used all so far; resumed by several
        before = stream_of(pairs)
        state = json.loads(json.dumps(before.state_after(taken(before, used)[-1], used)))
        for rank in range(processes):
            share = taken(stream_of(pairs, process_index=rank, processes=processes, state=state), 9, workers=workers)
            expected = [batch for number, batch in enumerate(alone) if number >= used and number % processes == rank]
            assert list(map(content, share)) == expected[:9]


def test_any_of_several_processes_can_say_where_to_go_on(pairs):
    """At the end of an epoch their last batches are of different epochs."""
    length = stream_of(pairs).batches_per_epoch
    used = 3 * (length // 3) + 3
    expected = [content(batch) for batch in taken(stream_of(pairs), used + 5)[used:]]
    blocks = []
    for rank in range(3):
        share = stream_of(pairs, process_index=rank, processes=3)
        last = taken(share, used // 3)[-1]
        blocks.append(last.block["number"])
        resumed = stream_of(pairs, state=share.state_after(last, used))
        assert list(map(content, taken(resumed, 5))) == expected
    assert set(blocks) == {0, 1}, f"an epoch of {length} batches ends where all processes' last batches end"


def test_a_stream_is_not_resumed_with_other_pairs(pairs):
    stream = stream_of(pairs)
    state = stream.state_after(taken(stream, 3)[-1], 3)
    pairs.fingerprint = "others"
    with pytest.raises(ValueError, match="others, before these"):
        stream_of(pairs, state=state)
