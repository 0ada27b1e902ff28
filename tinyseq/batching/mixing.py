# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Text without end, and blocks of encoded pairs from it: corpora that do not fit in memory, or are mixed by weights.

A *text stream* gives the pairs of one corpus, pass after pass; a `Mixture` is several of them, each going through its
own passes. `reader_of` returns a reader of either, which knows where it is, so that another can go on from there. A
`StreamedCorpus` cuts what a reader gives into blocks: memory holds one, and the one being read.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import compress, islice
from operator import not_
from typing import Any, Protocol

import numpy as np
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from ..corpus.checks import Report
from .encoding import ROWS_PER_CHUNK, EncodedPairs, encode_texts
from .stream import Block


class TextStream(Protocol):
    """The pairs of one corpus, read as they are needed.

    Attributes:
        name: What messages call it.
        report: What it refused; a reader puts a report here for the stream to go on with.
    """

    name: str
    report: Report

    def pairs(self, epoch: int, skip: int) -> Iterator[tuple[int, str, str]]:
        """Yields the number of rows read so far in this pass, the source and the target of each pair.

        Args:
            epoch: The number of the pass, which may decide the order.
            skip: How many rows of the pass to leave out at its beginning.
        """


class DatasetStream:
    """Pairs in memory as a text stream, in another order in each pass.

    Args:
        pairs: A data set with the text columns `source` and `target`.
        name: What messages call it.
        seed: Decides the order, together with the number of the pass.
    """

    def __init__(self, pairs: Dataset, name: str, seed: int):
        self.dataset = pairs
        self.name = name
        self.seed = seed
        self.report = Report()

    def pairs(self, epoch: int, skip: int) -> Iterator[tuple[int, str, str]]:
        """Yields the number of pairs so far in this pass, the source and the target."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.dataset))
        for start in range(skip, len(order), ROWS_PER_CHUNK):
            rows = self.dataset[order[start : start + ROWS_PER_CHUNK]]
            for row, pair in enumerate(zip(rows["source"], rows["target"], strict=True), start=start + 1):
                self.report.rows += 1
                yield row, *pair


class Mixture:
    """Several text streams that are read in turn, by weights.

    After n pairs, a stream of weight w has given less than one pair more or fewer than n * w / (sum of the weights).

    Args:
        streams: Text streams, or mixtures of them.
        weights: How many pairs of each, in proportion.

    Raises:
        ValueError: There is not one weight above 0 for each stream.
    """

    def __init__(self, streams: "Sequence[TextStream | Mixture]", weights: Sequence[float]):
        names = ", ".join(stream.name for stream in streams)
        if not streams or len(weights) != len(streams):
            raise ValueError(f"{len(weights)} weights for {len(streams)} corpora ({names}); give one for each")
        if not all(math.isfinite(weight) and weight > 0 for weight in weights):
            raise ValueError(f"weights {list(weights)} must be numbers above 0; leave out a corpus that is not wanted")
        self.streams = list(streams)
        self.weights = list(weights)
        self.name: str = " + ".join(stream.name for stream in streams)


class PassReader:
    """Yields (row, source, target) of one text stream without end, pass after pass, and knows where it is.

    Attributes:
        state: Where it is: after the last pair it gave; JSON.
        passes: How many whole passes it has made; of a mixture, over each of its streams at least.
        report: What was refused so far, also before the state from which it went on.
    """

    def __init__(self, stream: TextStream, state: dict[str, Any] | None = None):
        self.stream = stream
        self.passes = state["epoch"] if state else 0
        self.row = state["row"] if state else 0
        stream.report = Report.from_dict(state["report"]) if state else Report()

    @property
    def state(self) -> dict[str, Any]:
        return {"epoch": self.passes, "row": self.row, "report": self.report.to_dict()}

    @property
    def report(self) -> Report:
        return self.stream.report

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        """Yields the pairs.

        Raises:
            ValueError: A whole pass had none.
        """
        while True:
            has_pairs = self.row > 0
            for row, source, target in self.stream.pairs(self.passes, self.row):
                self.row, has_pairs = row, True
                yield row, source, target
            if not has_pairs:
                raise ValueError(f"{self.stream.name}: there are no pairs in it.\n{self.report}".rstrip())
            self.passes, self.row = self.passes + 1, 0


class MixtureReader:
    """The same of the streams of a mixture, in turn."""

    def __init__(self, mixture: Mixture, state: dict[str, Any] | None = None):
        states = state["streams"] if state else [None] * len(mixture.streams)
        if len(states) != len(mixture.streams):
            raise ValueError(
                f"{mixture.name}: {len(mixture.streams)} corpora are mixed, and {len(states)} were when this run was "
                f"interrupted; go on with the same, or begin a new run"
            )
        self.mixture = mixture
        self.readers = [reader_of(stream, part) for stream, part in zip(mixture.streams, states, strict=True)]
        self.taken = list(state["taken"]) if state else [0] * len(mixture.streams)

    @property
    def state(self) -> dict[str, Any]:
        return {"taken": list(self.taken), "streams": [reader.state for reader in self.readers]}

    @property
    def passes(self) -> int:
        return min(reader.passes for reader in self.readers)

    @property
    def report(self) -> Report:
        report = Report()
        for reader in self.readers:
            report.merge(reader.report)
        return report

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        """Yields the pairs.

        The k-th pair of a stream (from 0) has its place in the mixture, and must come after k and by k + 1 periods of
        the stream; of those that may come, the one that must come soonest does. So each comes in time ("earliest
        deadline first"; Baruah et al. 1996, doi:10.1007/BF01940883). Fractions, as rounding would add up.
        """
        weights = [Fraction(str(weight)) for weight in self.mixture.weights]
        periods = [sum(weights) / weight for weight in weights]
        pairs = [iter(reader) for reader in self.readers]
        earliest = [math.floor(taken * period) for taken, period in zip(self.taken, periods, strict=True)]
        latest = [math.ceil((taken + 1) * period) for taken, period in zip(self.taken, periods, strict=True)]
        place = sum(self.taken)
        while True:
            _, turn = min((latest[index], index) for index in range(len(pairs)) if earliest[index] <= place)
            pair = next(pairs[turn])
            place += 1
            self.taken[turn] += 1
            earliest[turn] = math.floor(self.taken[turn] * periods[turn])
            latest[turn] = math.ceil((self.taken[turn] + 1) * periods[turn])
            yield pair


Reader = PassReader | MixtureReader


def reader_of(stream: TextStream | Mixture, state: dict[str, Any] | None = None) -> Reader:
    """Returns a reader of `stream` that begins at the beginning, or where one with this state was."""
    return MixtureReader(stream, state) if isinstance(stream, Mixture) else PassReader(stream, state)


class StreamedCorpus:
    """A text stream, or a mixture, as blocks of encoded pairs.

    Args:
        stream: The pairs of text.
        tokenizer: Appends `</s>` by itself.
        max_length: Most pieces that either side may have, `</s>` included; other pairs are left out, and counted.
        block_pairs: Pairs of text in a block. Batches hold pairs of one block, so it is also how far they are
            shuffled. A block may go on into the next pass.
    """

    longest_words = "that a sentence may have"

    def __init__(
        self, stream: TextStream | Mixture, tokenizer: PreTrainedTokenizerBase, max_length: int, block_pairs: int
    ):
        if block_pairs < 1:
            raise ValueError(f"block_pairs={block_pairs} must be 1 or more")
        self.stream = stream
        self.tokenizer = tokenizer
        self.longest = max_length
        self.block_pairs = block_pairs

    def blocks(self, source: dict[str, Any] | None = None) -> Iterator[Block]:
        """Yields the blocks that have pairs, from the one whose `source` this is, or from the first.

        Raises:
            ValueError: A whole pass has no pair, or none that is short enough.
        """
        reader = reader_of(self.stream, source["stream"] if source else None)
        too_long = Report.from_dict(source["too_long"]) if source else Report()
        texts = iter(reader)
        passes_with_pairs = reader.passes
        while True:
            source = {"stream": reader.state, "too_long": too_long.to_dict()}
            chunks = []
            for start in range(0, self.block_pairs, ROWS_PER_CHUNK):
                pairs = islice(texts, min(ROWS_PER_CHUNK, self.block_pairs - start))
                rows, sources, targets = zip(*pairs, strict=True)
                chunk, fits = encode_texts(sources, targets, rows, self.tokenizer, self.longest)
                for text in compress(sources, map(not_, fits)):
                    # The file and line are known to the stream alone; these words can be searched for
                    too_long.add(f"a side has over {self.longest} pieces", repr(text[:40]))
                chunks.append(chunk)
            block = EncodedPairs.concatenated(chunks)
            report = Report()
            report.merge(reader.report)
            report.merge(too_long)
            if len(block):
                passes_with_pairs = reader.passes
                yield Block(source, block, report.to_dict())
            elif reader.passes > passes_with_pairs + 1:  # so there was a whole pass in between
                raise ValueError(
                    f"{self.stream.name}: no pair is short enough; raise max_position_embeddings ({self.longest})."
                    f"\n{report}"
                )
