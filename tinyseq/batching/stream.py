# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""From text pairs to batches: ids, token-budget batches, tensors, and the stream of them that training reads.

A batch holds as many pairs as fit a budget of tokens, and pairs of like length, so that few positions are padding.

Batches come in blocks of encoded pairs: a corpus in memory is one block, again and again; a corpus that is streamed
(`streams.py`) is cut into blocks. The order within a block depends on the seed and the block's number alone, so every
process knows the whole stream of batches and takes its share, and a few numbers say where to go on after a stop.
"""

import contextlib
import gc
import hashlib
import json
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, compress, pairwise, repeat
from pathlib import Path
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
import torch
from datasets import Dataset
from filelock import FileLock
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from ..files import save_whole
from ..losses_tinyseq import IGNORE_INDEX
from ..text import clean

logger = logging.getLogger(__name__)

ROWS_PER_CHUNK = 2_000  # pairs that are tokenised at a time; more at a time is no faster
BIG_CORPUS = 100_000  # from this many pairs on a terminal is shown a progress bar
CACHE_FORMAT = 1  # one more whenever encoding or the files of a cache change, so that no old cache is read


# --- ids --------------------------------------------------------------------------------------------------


class Ragged(Sequence[np.ndarray]):
    """Arrays of ids of unequal length, end to end in one array: no object for each, so they are cheap by the million.

    Attributes:
        flat: All ids, (sum of lengths), int32.
        offsets: Where in `flat` each array begins, and the end of the last, (number of arrays + 1), int64.
    """

    def __init__(self, flat: np.ndarray, offsets: np.ndarray):
        self.flat = flat
        self.offsets = offsets

    @classmethod
    def of(cls, rows: Sequence[Sequence[int] | np.ndarray]) -> "Ragged":
        """Returns the same ids, copied."""
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        return cls(np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=offsets[-1]), offsets)

    @classmethod
    def joined(cls, parts: "Sequence[Ragged]") -> "Ragged":
        """Returns the arrays of all parts, in order."""
        offsets = np.zeros(sum(map(len, parts)) + 1, dtype=np.int64)
        if parts:
            np.cumsum(np.concatenate([part.lengths for part in parts]), out=offsets[1:])
        flat = np.concatenate([np.empty(0, dtype=np.int32), *(part.flat for part in parts)])
        return cls(flat, offsets)

    @property
    def lengths(self) -> np.ndarray:
        """How many ids each array has, (number of arrays), int64."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> "Ragged": ...
    def __getitem__(self, index):
        """One array, as a view; of a slice, the arrays."""
        if isinstance(index, slice):
            return Ragged.of([self[row] for row in range(*index.indices(len(self)))])
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        row = index % len(self)
        return self.flat[self.offsets[row] : self.offsets[row + 1]]


@dataclass
class EncodedPairs(torch.utils.data.Dataset):
    """Ids of both sides of a corpus; pair `i` is `(source ids, target ids)`, each ending with `</s>`.

    Attributes:
        sources: One array of ids per pair.
        targets: One array of ids per pair.
        rows: The number of each pair in its corpus, before any were left out.
        too_long: How many pairs of the corpus were left out because a side has more pieces than the model takes.
        fingerprint: Stands for the texts, the tokenizer and the greatest length that these ids come from.
    """

    sources: Ragged
    targets: Ragged
    rows: np.ndarray
    too_long: int = 0
    fingerprint: str = ""

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return self.sources[index], self.targets[index]

    @property
    def target_tokens(self) -> int:
        """Pieces of all targets, `</s>` included."""
        return len(self.targets.flat)

    @property
    def longest(self) -> int:
        """Pieces of the longest side of any pair."""
        return int(max(self.sources.lengths.max(initial=0), self.targets.lengths.max(initial=0)))


def encode_pairs(
    pairs: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int, cache_dir: Path | None = None
) -> EncodedPairs:
    """Returns the ids of `pairs` (columns `source` and `target`), without the pairs that are too long.

    A sentence is never cut: half a source with a whole target teaches the model to invent.

    Args:
        pairs: A data set with the text columns `source` and `target`.
        tokenizer: Appends `</s>` by itself.
        max_length: Most pieces that either side may have, `</s>` included.
        cache_dir: A folder where the ids are kept, for the next run and for other processes. Other texts, another
            tokenizer or another greatest length have another place in it, so what is found is never stale.
    """
    fingerprint = fingerprint_of(pairs, tokenizer, max_length)
    if cache_dir is None:
        return encode_all(pairs, tokenizer, max_length, fingerprint)
    folder, encoded = cache_dir / fingerprint, None
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):  # one process encodes; the others wait, and find what it has written
            encoded = read_cache(folder, fingerprint, len(pairs))
            if encoded is None:
                encoded = encode_all(pairs, tokenizer, max_length, fingerprint)
                save_whole(folder, partial(write_cache, pairs=encoded))
    except (OSError, NotImplementedError) as error:  # the latter where files cannot be locked
        logger.warning(f"{folder}: the ids cannot be kept for the next run: {error}")
    if encoded is None:
        encoded = read_cache(folder, fingerprint, len(pairs))
    return encode_all(pairs, tokenizer, max_length, fingerprint) if encoded is None else encoded


def encode_all(pairs: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int, fingerprint: str) -> EncodedPairs:
    """Returns the ids of `pairs`, as `encode_pairs` does, whatever is in a cache."""
    chunks = []
    disable = None if len(pairs) >= BIG_CORPUS else True  # None: shown on a terminal only
    with tqdm(total=len(pairs), desc="Encoding", unit=" pairs", disable=disable) as bar:
        for start in range(0, len(pairs), ROWS_PER_CHUNK):
            texts = pairs[start : start + ROWS_PER_CHUNK]
            rows = range(start, start + len(texts["source"]))
            chunks.append(encode_texts(texts["source"], texts["target"], rows, tokenizer, max_length)[0])
            bar.update(len(rows))
    return joined(chunks, fingerprint)


def encode_texts(
    sources: Sequence[str],
    targets: Sequence[str],
    rows: Sequence[int] | np.ndarray,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
) -> tuple[EncodedPairs, list[bool]]:
    """Returns the ids of some pairs of texts without the pairs that are too long, and (pairs) which fit."""
    with no_garbage_collection():
        # `verbose=False`: the tokenizer would warn of a text longer than the model; we count those ourselves
        source_ids = tokenizer([clean(text) for text in sources], verbose=False)["input_ids"]
        target_ids = tokenizer(text_target=[clean(text) for text in targets], verbose=False)["input_ids"]
        fits = [max(len(s), len(t)) <= max_length for s, t in zip(source_ids, target_ids, strict=True)]
        encoded = EncodedPairs(
            Ragged.of(list(compress(source_ids, fits))),
            Ragged.of(list(compress(target_ids, fits))),
            np.asarray(rows, dtype=np.int64)[fits],
            too_long=fits.count(False),
        )
    return encoded, fits


def joined(chunks: Sequence[EncodedPairs], fingerprint: str = "") -> EncodedPairs:
    """Returns the pairs of all chunks, in order."""
    return EncodedPairs(
        Ragged.joined([chunk.sources for chunk in chunks]),
        Ragged.joined([chunk.targets for chunk in chunks]),
        np.concatenate([np.empty(0, dtype=np.int64), *(chunk.rows for chunk in chunks)]),
        sum(chunk.too_long for chunk in chunks),
        fingerprint,
    )


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keeps Python from looking for cycles, time and again, among the thousands of lists that a tokenizer returns."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def fingerprint_of(pairs: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int) -> str:
    """Returns a hash, the same in every process, of all that `encode_pairs` depends on."""
    digest = hashlib.blake2b(json.dumps([CACHE_FORMAT, max_length, len(pairs)]).encode(), digest_size=16)
    for rows in pairs.iter(batch_size=ROWS_PER_CHUNK):
        for side in (rows["source"], rows["target"]):
            # The lengths say where a text ends: "ab", "c" is not "a", "bc"
            digest.update(np.fromiter(map(len, side), dtype=np.int64, count=len(side)).tobytes())
            digest.update("".join(side).encode(errors="surrogatepass"))
    for part in tokenizer_parts(tokenizer):
        digest.update(hashlib.blake2b(part).digest())
    return digest.hexdigest()


def tokenizer_parts(tokenizer: PreTrainedTokenizerBase) -> Iterator[bytes]:
    """What decides the ids that a tokenizer gives, without what its last call left behind (truncation, padding)."""
    if getattr(tokenizer, "is_fast", False):
        content = json.loads(tokenizer.backend_tokenizer.to_str())
        yield json.dumps({**content, "truncation": None, "padding": None}, sort_keys=True).encode()
    else:
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save_pretrained(folder)
            for path in sorted(Path(folder).iterdir()):
                yield path.read_bytes()
    # What is set outside its files (languages, special tokens in a text) shows in the ids of a text that has them all
    probe = " ".join(["A text, 1.", *tokenizer.all_special_tokens])
    yield json.dumps([tokenizer(probe)["input_ids"], tokenizer(text_target=probe)["input_ids"]]).encode()


# The arrays of an EncodedPairs, by the name of their file in a cache
ARRAYS = ("source_ids", "source_offsets", "target_ids", "target_offsets", "rows")
DIGESTS = "digests.json"


def write_cache(folder: Path, pairs: EncodedPairs) -> None:
    """Writes the arrays of `pairs`, and the digest of each file, into an empty folder."""
    arrays = (pairs.sources.flat, pairs.sources.offsets, pairs.targets.flat, pairs.targets.offsets, pairs.rows)
    for name, array in zip(ARRAYS, arrays, strict=True):
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    (folder / DIGESTS).write_text(json.dumps({name: file_digest(folder / f"{name}.npy") for name in ARRAYS}))


def read_cache(folder: Path, fingerprint: str, pairs: int) -> EncodedPairs | None:
    """Returns what `write_cache` wrote, left on the disk until it is used; None if it is not there, or not as written.

    Args:
        folder: Where it lies.
        fingerprint: What it is the encoding of.
        pairs: How many pairs there were before some were left out.
    """
    if not folder.exists():
        return None
    try:
        digests = json.loads((folder / DIGESTS).read_text())
        arrays = []
        for name in ARRAYS:
            path = folder / f"{name}.npy"
            if file_digest(path) != digests[name]:
                raise ValueError(f"{path.name} is not as it was written")
            arrays.append(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        logger.warning(f"{folder}: the ids kept there cannot be used, and are made anew: {error}")
        return None
    source_ids, source_offsets, target_ids, target_offsets, rows = arrays
    return EncodedPairs(
        Ragged(source_ids, source_offsets),
        Ragged(target_ids, target_offsets),
        rows,
        too_long=pairs - len(rows),
        fingerprint=fingerprint,
    )


def file_digest(path: Path) -> str:
    """Returns a hash of the content of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


# --- batches ----------------------------------------------------------------------------------------------


def token_budget_batches(pairs: EncodedPairs, batch_size_tokens: int, seed: int, block: int) -> list[np.ndarray]:
    """Returns the batches of one block of pairs, each as indices into `pairs`, (pairs of the batch).

    Args:
        pairs: The encoded pairs.
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
    """Pairs that are put in batches together.

    Attributes:
        source: What its corpus needs to read this block again; JSON.
        pairs: The encoded pairs.
        report: What was refused up to the end of this block; JSON.
    """

    source: dict[str, Any]
    pairs: EncodedPairs
    report: dict[str, Any]


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
    """An encoded corpus in memory as one block, again and again.

    Args:
        pairs: The corpus.
    """

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
    """One batch and where it comes from.

    Attributes:
        tensors: `input_ids`, `attention_mask` and `labels`, as `tensors_of` makes them.
        rows: The number of each pair in its corpus, or in this pass over its stream.
        block: Its block, as JSON: `number`; `first_batch`, the number of its first batch in the whole stream;
            `source`, what it takes to read it again; `report`, what was refused up to its end.
    """

    tensors: dict[str, torch.Tensor]
    rows: list[int]
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
        pairs: The encoded pairs.
        indices: Which of them, (batch).
        pad_token_id: What `input_ids` are padded with; labels are padded with -100.
    """
    input_ids, is_real = padded(pairs.sources, indices, pad_token_id)
    labels, _ = padded(pairs.targets, indices, IGNORE_INDEX)
    return {"input_ids": input_ids, "attention_mask": is_real.long(), "labels": labels}


def padded(rows: Ragged, indices: np.ndarray, value: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns some rows as one (batch, longest) tensor of int64, filled up with `value`; and where ids are."""
    starts = rows.offsets[indices]
    lengths = rows.offsets[indices + 1] - starts
    columns = np.arange(lengths.max())
    is_real = columns < lengths[:, None]
    filled = np.full(is_real.shape, value, dtype=np.int64)
    filled[is_real] = rows.flat[(starts[:, None] + columns)[is_real]]
    return torch.from_numpy(filled), torch.from_numpy(is_real)
