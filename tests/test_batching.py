"""Batches: the budget holds, nothing is lost, and processes share one stream."""

import itertools

import numpy as np
import pytest
import torch
from datasets import Dataset

from tinyseq import TinySeqTokenizer
from tinyseq.batching import Collator, EncodedPairs, TokenBudgetBatches, encode_pairs


def pairs_of_lengths(lengths):
    """Pairs whose ids say which pair they belong to."""
    return EncodedPairs(
        [np.full(source, index) for index, (source, _) in enumerate(lengths)],
        [np.full(target, index) for index, (_, target) in enumerate(lengths)],
    )


@pytest.fixture
def pairs():
    random = np.random.default_rng(7)
    return pairs_of_lengths(random.integers(1, 30, size=(203, 2)).tolist())


def test_no_batch_exceeds_the_budget_on_either_side(pairs):
    for batch in TokenBudgetBatches(pairs, 64, seed=1).epoch(0):
        assert len(batch) * max(len(pairs.sources[row]) for row in batch) <= 64
        assert len(batch) * max(len(pairs.targets[row]) for row in batch) <= 64


def test_every_pair_comes_once_in_each_epoch(pairs):
    batches = TokenBudgetBatches(pairs, 64, seed=1)
    for epoch in (0, 1):
        assert sorted(itertools.chain(*batches.epoch(epoch))) == list(range(203))


def test_the_order_depends_on_seed_and_epoch_alone(pairs):
    first, again = TokenBudgetBatches(pairs, 64, seed=1), TokenBudgetBatches(pairs, 64, seed=1)
    assert first.epoch(0) == again.epoch(0)
    assert first.epoch(0) != first.epoch(1)
    assert first.epoch(0) != TokenBudgetBatches(pairs, 64, seed=2).epoch(0)


def test_pairs_of_equal_length_meet_other_pairs_in_the_next_epoch():
    batches = TokenBudgetBatches(pairs_of_lengths([(3, 3)] * 40), 12, seed=0)
    companions = [{frozenset(batch) for batch in batches.epoch(epoch)} for epoch in (0, 1)]
    assert companions[0] != companions[1]


def test_three_processes_together_walk_the_stream_of_one_across_the_end_of_an_epoch(pairs):
    alone = TokenBudgetBatches(pairs, 64, seed=5)
    count = 2 * len(alone.epoch(0)) + 3
    whole = list(itertools.islice(alone, count))
    shares = [iter(TokenBudgetBatches(pairs, 64, seed=5, process_index=rank, processes=3)) for rank in range(3)]
    assert [next(shares[number % 3]) for number in range(count)] == whole


def test_few_positions_are_padding_when_lengths_vary():
    random = np.random.default_rng(0)
    lengths = [
        (max(target + int(random.integers(-3, 4)), 1), target) for target in random.integers(5, 40, 5000).tolist()
    ]
    pairs = pairs_of_lengths(lengths)
    batches = TokenBudgetBatches(pairs, 2048, seed=0).epoch(0)
    for side, least in ((pairs.targets, 0.97), (pairs.sources, 0.85)):
        positions = sum(len(batch) * max(len(side[row]) for row in batch) for batch in batches)
        assert sum(map(len, side)) / positions > least


def test_a_sentence_longer_than_the_budget_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"batch_size_tokens=16 .* 17 pieces"):
        TokenBudgetBatches(pairs_of_lengths([(17, 2)]), 16, seed=0)


def test_tensors_are_padded_on_the_right_and_labels_with_minus_100():
    batch = Collator(pad_token_id=9)(
        [(np.array([1, 2, 0]), np.array([3, 0])), (np.array([4, 0]), np.array([5, 6, 7, 0]))]
    )
    assert batch["input_ids"].tolist() == [[1, 2, 0], [4, 0, 9]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["labels"].tolist() == [[3, 0, -100, -100], [5, 6, 7, 0]]
    assert all(tensor.dtype == torch.int64 for tensor in batch.values())


def test_too_long_pairs_are_left_out_whole_and_counted():
    data = {"source": [" a b ", "a b a b a b a b", "b"], "target": ["b a", "a", "a b a b a b a b a"]}
    tokenizer = TinySeqTokenizer.train(["a b"] * 3, vocab_size=270)
    encoded = encode_pairs(Dataset.from_dict(data), tokenizer, max_length=6)
    assert (len(encoded), encoded.too_long) == (1, 2)
    assert encoded.sources[0].tolist() == tokenizer("a b")["input_ids"]
    assert encoded.sources[0][-1] == encoded.targets[0][-1] == tokenizer.eos_token_id
    assert encoded.target_tokens == len(tokenizer("b a")["input_ids"])
