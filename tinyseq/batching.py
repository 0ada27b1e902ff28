# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""From text pairs to batches: ids, token-budget batches, tensors.

A batch holds as many pairs as fit a budget of tokens, and pairs of like length, so that few positions are padding. The
order depends on the seed and the epoch alone: every process knows the whole stream of batches and takes its share.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from datasets import Dataset
from torch.utils.data import Sampler
from transformers import PreTrainedTokenizerBase

from .modeling_tinyseq import IGNORE_INDEX
from .translation import clean


@dataclass
class EncodedPairs(torch.utils.data.Dataset):
    """Ids of both sides of a corpus; pair `i` is `(source ids, target ids)`, each ending with `</s>`.

    Attributes:
        sources: One array of ids per pair.
        targets: One array of ids per pair.
        too_long: How many pairs of the corpus were left out because a side has more pieces than the model takes.
    """

    sources: list[np.ndarray]
    targets: list[np.ndarray]
    too_long: int = 0

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return self.sources[index], self.targets[index]

    @property
    def target_tokens(self) -> int:
        """Pieces of all targets, `</s>` included."""
        return sum(map(len, self.targets))


def encode_pairs(pairs: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int) -> EncodedPairs:
    """Returns the ids of `pairs` (columns `source` and `target`), without the pairs that are too long.

    A sentence is never cut: half a source with a whole target teaches the model to invent.

    Args:
        pairs: A data set with the text columns `source` and `target`.
        tokenizer: Appends `</s>` by itself.
        max_length: Most pieces that either side may have, `</s>` included.
    """
    encoded = EncodedPairs([], [])
    for rows in pairs.iter(batch_size=10_000):
        # `verbose=False`: the tokenizer would warn of a text longer than the model; we count those ourselves
        sources = tokenizer([clean(text) for text in rows["source"]], verbose=False)["input_ids"]
        targets = tokenizer(text_target=[clean(text) for text in rows["target"]], verbose=False)["input_ids"]
        for source, target in zip(sources, targets, strict=True):
            if max(len(source), len(target)) > max_length:
                encoded.too_long += 1
            else:
                encoded.sources.append(np.array(source, dtype=np.int32))
                encoded.targets.append(np.array(target, dtype=np.int32))
    return encoded


class TokenBudgetBatches(Sampler[list[int]]):
    """An endless stream of batches of pair numbers, the same on every process, of which each takes its share.

    Args:
        pairs: The encoded corpus.
        batch_size_tokens: Most positions, padding included, that a batch may have on either side.
        seed: Decides the order, together with the epoch.
        process_index: Which of `processes` this is: it takes every `processes`-th batch of the stream.
        processes: How many processes share the stream.

    Raises:
        ValueError: The longest sentence alone exceeds the budget.
    """

    def __init__(
        self, pairs: EncodedPairs, batch_size_tokens: int, seed: int, process_index: int = 0, processes: int = 1
    ):
        self.source_lengths = np.array([len(ids) for ids in pairs.sources])
        self.target_lengths = np.array([len(ids) for ids in pairs.targets])
        longest = int(max(self.source_lengths.max(), self.target_lengths.max()))
        if longest > batch_size_tokens:
            raise ValueError(
                f"batch_size_tokens={batch_size_tokens} is less than the {longest} pieces of the longest sentence; "
                f"raise it, or lower max_position_embeddings to leave such sentences out"
            )
        self.batch_size_tokens = batch_size_tokens
        self.seed = seed
        self.process_index = process_index
        self.processes = processes

    def epoch(self, epoch: int) -> list[list[int]]:
        """Returns the batches of one pass over the corpus, all processes' together."""
        random = np.random.default_rng([self.seed, epoch])
        # Sorted by target, then source length; pairs of equal lengths are in another order, and so in other batches,
        # in each epoch
        order = np.lexsort((random.random(len(self.source_lengths)), self.source_lengths, self.target_lengths))
        batches: list[list[int]] = [[]]
        widest = 0
        for index in order:
            widest = max(widest, self.source_lengths[index], self.target_lengths[index])
            if (len(batches[-1]) + 1) * widest > self.batch_size_tokens:
                batches.append([])
                widest = max(self.source_lengths[index], self.target_lengths[index])
            batches[-1].append(int(index))
        return [batches[position] for position in random.permutation(len(batches))]

    def __iter__(self) -> Iterator[list[int]]:
        number = epoch = 0
        while True:
            for batch in self.epoch(epoch):
                if number % self.processes == self.process_index:
                    yield batch
                number += 1
            epoch += 1


class Collator:
    """Makes the tensors of a batch: `input_ids`, `attention_mask`, `labels`, padded on the right to its longest.

    Args:
        pad_token_id: What `input_ids` are padded with; labels are padded with -100.
    """

    def __init__(self, pad_token_id: int):
        self.pad_token_id = pad_token_id

    def __call__(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, torch.Tensor]:
        sources, targets = zip(*pairs, strict=True)
        input_ids = pad(sources, self.pad_token_id)
        lengths = torch.tensor([len(ids) for ids in sources])
        attention_mask = (torch.arange(input_ids.shape[1]) < lengths[:, None]).long()
        return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": pad(targets, IGNORE_INDEX)}


def pad(rows: Sequence[np.ndarray], value: int) -> torch.Tensor:
    """Returns the rows as one (len(rows), longest) tensor of int64, filled up with `value`."""
    padded = np.full((len(rows), max(map(len, rows))), value, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)
