# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""From text pairs to ids, which are kept on the disk for the next run and for other processes.

`Dataset.map` could keep them too, but with this file's fingerprint, lock and digests all the same, and at more cost
(docs/log.md has what was tried): so this is the whole of the cache, in NumPy's own files.
"""

import contextlib
import gc
import hashlib
import json
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import overload

import numpy as np
import torch
from datasets import Dataset
from filelock import FileLock
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from ..files import save_whole
from ..text import clean

logger = logging.getLogger(__name__)

ROWS_PER_CHUNK = 2_000  # pairs that are tokenised at a time; more at a time is no faster
BIG_CORPUS = 100_000  # from this many pairs on a terminal is shown a progress bar
CACHE_FORMAT = 1  # one more whenever encoding or the files of a cache change, so that no old cache is read


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
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls(np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=offsets[-1]), offsets)

    @classmethod
    def concatenated(cls, parts: "Sequence[Ragged]") -> "Ragged":
        """Returns the arrays of all parts, in order."""
        offsets = np.cumsum(np.concatenate([np.zeros(1, dtype=np.int64), *(part.lengths for part in parts)]))
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
        sources, targets: One array of ids per pair.
        rows: The number of each pair in its corpus, before any were left out.
        too_long: How many pairs of the corpus were left out because a side has more pieces than the model takes.
        fingerprint: Stands for the texts, the tokenizer and the greatest length that these ids come from.
    """

    sources: Ragged
    targets: Ragged
    rows: np.ndarray
    too_long: int = 0
    fingerprint: str = ""

    @classmethod
    def concatenated(cls, parts: "Sequence[EncodedPairs]", fingerprint: str = "") -> "EncodedPairs":
        """Returns the pairs of all parts, in order."""
        return cls(
            Ragged.concatenated([part.sources for part in parts]),
            Ragged.concatenated([part.targets for part in parts]),
            np.concatenate([np.empty(0, dtype=np.int64), *(part.rows for part in parts)]),
            sum(part.too_long for part in parts),
            fingerprint,
        )

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
    return EncodedPairs.concatenated(chunks, fingerprint)


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
    sources, targets = Ragged(source_ids, source_offsets), Ragged(target_ids, target_offsets)
    return EncodedPairs(sources, targets, rows, too_long=pairs - len(rows), fingerprint=fingerprint)


def file_digest(path: Path) -> str:
    """Returns a hash of the content of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
