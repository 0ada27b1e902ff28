# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""From encoded pairs to batches: token-budget batches, tensors, and the stream of them that training reads.

A batch holds as many pairs as fit a budget of tokens, and pairs of like length, so that few positions are padding.

Batches come in blocks of encoded pairs: a corpus in memory is one block, again and again; a corpus that is streamed
(`mixing.py`) is cut into blocks. The order within a block depends on the seed and the block's number alone, so every
process knows the whole stream of batches and takes its share, and a few numbers say where to go on after a stop.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise, repeat
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from ..losses_tinyseq import IGNORE_INDEX
from .encoding import EncodedPairs, Ragged


def token_budget_batches(pairs: EncodedPairs, batch_size_tokens: int, seed: int, block: int) -> list[np.ndarray]:
    """Returns the batches of one block of pairs, each as indices into `pairs`, (pairs of the batch).

    Args:
        batch_size_tokens: Most positions, padding included, that a batch may have on either side.
        seed: Decides the order, together with the block's number.
        block: The number of the block: of a corpus in memory, the epoch.

    Raises:
        ValueError: The longest sentence alone exceeds the budget.
    """
    check_budget(batch_size_tokens, pairs.longest)
    random = np.random.default_rng([seed, block])
    sources, targets = pairs.sources.lengths, pairs.targets.lengths
    # Sorted by target, then source length; pairs of equal lengths are in another order, and so in other batches, in
    # each epoch
    order = np.lexsort((random.random(len(pairs)), sources, targets))
    starts, widest = [0], 0
    for place, width in enumerate(np.maximum(sources, targets)[order].tolist()):
        widest = max(widest, width)
        if (place + 1 - starts[-1]) * widest > batch_size_tokens:
            starts.append(place)
            widest = width
    batches = [order[start:end] for start, end in pairwise([*starts, len(order)]) if start < end]
    return [batches[position] for position in random.permutation(len(batches))]


def check_budget(batch_size_tokens: int, longest: int, what: str = "of the longest sentence") -> None:
    """Refuses a budget that one sentence exceeds."""
    if longest > batch_size_tokens:
        raise ValueError(
            f"batch_size_tokens={batch_size_tokens} is less than the {longest} pieces {what}; "
            f"raise it, or lower max_position_embeddings to leave such sentences out"
        )


class Block(NamedTuple):
    """Pairs that are put in batches together."""

    source: dict[str, Any]  # what its corpus needs to read this block again; JSON
    pairs: EncodedPairs  # the encoded pairs
    report: dict[str, Any]  # what was refused up to the end of this block; JSON


class BlockCorpus(Protocol):
    """Blocks of pairs without end.

    Attributes:
        longest: Most pieces that a side of a pair may have.
        longest_words: How an error message goes on after that number.
    """

    longest: int
    longest_words: str

    def blocks(self, source: dict[str, Any] | None = None) -> Iterator[Block]:
        """Yields the blocks, from the one whose `source` this is, or from the first."""


class WholeCorpus:
    """An encoded corpus in memory as one block, again and again."""

    longest_words = "of the longest sentence"

    def __init__(self, pairs: EncodedPairs):
        self.pairs = pairs
        self.longest = pairs.longest

    def blocks(self, source: dict[str, Any] | None = None) -> Iterator[Block]:
        """Returns the corpus without end.

        Raises:
            ValueError: The block to go on from is of another corpus, or was encoded otherwise.
        """
        own = {"fingerprint": self.pairs.fingerprint}
        if source is not None and source != own:
            raise ValueError(
                "the training pairs, or the tokenizer, or max_position_embeddings, are not those that this run began "
                f"with (fingerprint {self.pairs.fingerprint}, before {source.get('fingerprint')}); go on with the "
                "same, or begin a new run"
            )
        return repeat(Block(own, self.pairs, {}))


class Batch(NamedTuple):
    """One batch and where it comes from."""

    tensors: dict[str, torch.Tensor]  # `input_ids`, `attention_mask` and `labels`, as `tensors_of` makes them
    rows: list[int]  # the number of each pair in its corpus, or in this pass over its stream
    # its block, as JSON: `number`; `first_batch`, the number of its first batch in the whole stream; `source`, what it
    # takes to read it again; `report`, what was refused up to its end
    block: dict[str, Any]


class BatchStream(torch.utils.data.IterableDataset):
    """An endless stream of batches, the same on every process, of which each takes its share.

    It is for `DataLoader(stream, batch_size=None, num_workers=...)`; the order does not depend on the workers. Each
    worker reads and encodes the whole stream and makes tensors of its share.

    Args:
        corpus: Where the blocks of pairs come from.
        batch_size_tokens: Most positions, padding included, that a batch may have on either side.
        seed: Decides the order, together with the number of the block.
        pad_token_id: What `input_ids` are padded with.
        process_index: Which of `processes` this is: it takes every `processes`-th batch of the stream.
        processes: How many processes share the stream.
        state: Where to go on: what `state_after` returned, perhaps with another number of processes.

    Raises:
        ValueError: The longest sentence alone exceeds the budget, or `state` is of another corpus.
    """

    def __init__(
        self,
        corpus: BlockCorpus,
        batch_size_tokens: int,
        seed: int,
        pad_token_id: int,
        process_index: int = 0,
        processes: int = 1,
        state: dict[str, Any] | None = None,
    ):
        check_budget(batch_size_tokens, corpus.longest, corpus.longest_words)
        self.corpus = corpus
        self.batch_size_tokens = batch_size_tokens
        self.seed = seed
        self.pad_token_id = pad_token_id
        self.process_index = process_index
        self.processes = processes
        self.state = state or {"number": 0, "first_batch": 0, "source": None, "next_batch": 0}
        corpus.blocks(self.state["source"])  # refuses another corpus now, not in the loop

    @cached_property
    def batches_per_epoch(self) -> int | None:
        """The batches of one pass over a corpus in memory, all processes' together; None for a stream."""
        if not isinstance(self.corpus, WholeCorpus):
            return None
        return len(token_budget_batches(self.corpus.pairs, self.batch_size_tokens, self.seed, block=0))

    def __iter__(self) -> Iterator[Batch]:
        worker = torch.utils.data.get_worker_info()
        worker_index, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        batch_number, turn = self.state["first_batch"], 0
        for block_number, block in enumerate(self.corpus.blocks(self.state["source"]), start=self.state["number"]):
            place = {
                "number": block_number,
                "first_batch": batch_number,
                "source": block.source,
                "report": block.report,
            }
            for indices in token_budget_batches(block.pairs, self.batch_size_tokens, self.seed, block_number):
                is_ours = batch_number % self.processes == self.process_index
                if is_ours and batch_number >= self.state["next_batch"]:
                    # The loader takes a batch from each of its workers in turn
                    if turn % workers == worker_index:
                        tensors = tensors_of(block.pairs, indices, self.pad_token_id)
                        yield Batch(tensors, block.pairs.rows[indices].tolist(), place)
                    turn += 1
                batch_number += 1

    def state_after(self, batch: Batch, batches: int) -> dict[str, Any]:
        """Returns, as JSON, where to go on.

        Args:
            batch: The last batch that this process has used.
            batches: How many batches all processes together have used since the stream began.
        """
        return {**batch.block, "next_batch": batches}


def tensors_of(pairs: EncodedPairs, indices: np.ndarray, pad_token_id: int) -> dict[str, torch.Tensor]:
    """Returns a batch: `input_ids`, `attention_mask`, `labels`, (batch, longest), int64, padded on the right.

    Args:
        indices: Which of the pairs, (batch).
        pad_token_id: What `input_ids` are padded with; labels are padded with -100.
    """
    input_ids, is_real = pad_rows(pairs.sources, indices, pad_token_id)
    labels, _ = pad_rows(pairs.targets, indices, IGNORE_INDEX)
    return {"input_ids": input_ids, "attention_mask": is_real.long(), "labels": labels}


def pad_rows(rows: Ragged, indices: np.ndarray, value: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns some rows as one (batch, longest) tensor of int64, filled up with `value`; and where ids are."""
    starts = rows.offsets[indices]
    lengths = rows.offsets[indices + 1] - starts
    columns = np.arange(lengths.max())
    is_real = columns < lengths[:, None]
    filled = np.full(is_real.shape, value, dtype=np.int64)
    filled[is_real] = rows.flat[(starts[:, None] + columns)[is_real]]
    return torch.from_numpy(filled), torch.from_numpy(is_real)
