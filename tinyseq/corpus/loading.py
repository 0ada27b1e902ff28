# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Parallel text from anywhere, as checked pairs: all of them in memory, or a stream that is read as it is needed.

In the order in which the data flow:

1. parts: what the caller gave, told apart: files, shards, the built-in corpus, data sets (`data_sets.py`);
2. rows: `readers.py` opens a part and yields its rows;
3. the gate, `_admits`: the one place that stops at, drops or keeps what is not right (see `checks.py`) and counts it;
4. `load_corpus` gives a `datasets.Dataset` with two string columns, `source` and `target`; `stream_corpus` gives a
   `CorpusStream`, whose pairs come again in every pass, from any row on.
"""

import glob
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
from tqdm.auto import tqdm

from .checks import KINDS, SAMPLE_PAIRS, Checks, Report, normalised
from .data_sets import SPLIT_ALIASES, folder_parts, hub_parts
from .readers import (
    JSON_NAMES,
    NO_UTF8,
    CorpusError,
    Decoder,
    Fault,
    Part,
    Section,
    Sides,
    aligned_section,
    check_choice,
    check_file,
    file_section,
    is_white,
    listed,
    read_lines,
)

__all__ = [
    "Corpus", "CorpusError", "CorpusStream", "Report", "is_hub_name", "is_on_hub", "load_corpus", "read_lines",
    "split_off", "stream_corpus",
]  # fmt: skip

BUILT_IN = "grammar"
TABLE_NAMES = (".tsv", ".csv", ".parquet", *JSON_NAMES)
ROWS_PER_CHUNK = 100_000  # rows held as Python strings before they become Arrow arrays
SECONDS_UNSHOWN = 2.0  # of reading, before a terminal is shown a progress bar

SOURCE_BLANK, TARGET_BLANK, BOTH_BLANK = "source side blank", "target side blank", "both sides blank"
SEPARATOR = "+"  # between corpora, where there are several
REPAIRED, INVALID = "invalid UTF-8 replaced by U+FFFD", "invalid UTF-8"

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass
class Corpus:
    """Checked pairs (columns `source` and `target`), and what was not right with what was read to get them."""

    pairs: datasets.Dataset
    report: Report


class CorpusStream:
    """The pairs of a corpus, read as they are needed, pass after pass; memory does not grow with the corpus.

    No file stays open in it between two passes, so that it can go to another process.

    Attributes:
        name: What was given, for messages.
        report: What was not right with the rows that this object has read so far in this process, in all passes; put
            another there to go on counting where another run was interrupted.
    """

    def __init__(
        self, name: str, parts: Sequence[Part], checks: Checks, on_bad_row: str, on_bad_bytes: str, seed: int
    ) -> None:
        self.name = name
        self.report = Report()
        self._parts = parts
        self._checks = checks
        self._on_bad_row = on_bad_row
        self._on_bad_bytes = on_bad_bytes
        self._seed = seed

    def pairs(self, epoch: int = 0, skip: int = 0) -> Iterator[tuple[int, str, str]]:
        """Reads the corpus once, its shards in an order that depends on the seed and the epoch.

        Args:
            epoch: Number of the pass, from 0.
            skip: Number of rows to pass over: the pairs that follow are those that follow in a pass without `skip`.
                These rows are neither checked nor counted in the report.

        Yields:
            Rows read in this pass, up to and with this one and whatever became of them; source; target.

        Raises:
            CorpusError: As `load_corpus` does, but when the reading gets there. Also if the pass has no pair at all.
        """
        if not self._checks.is_settled:
            self._settled(self._rows(self._parts))
        order = np.random.default_rng([self._seed, epoch]).permutation(len(self._parts))
        is_skipping = skip > 0

        def repaired(place: str) -> None:
            if not is_skipping:
                self.report.add(REPAIRED, place, kept=True)

        rows = self._rows([self._parts[part] for part in order], repaired)
        for _ in islice(rows, skip):
            pass
        is_skipping = False
        yield from self._passed(rows, skip)

    def once(self) -> Iterator[tuple[str, str]]:
        """The pairs in the order in which they were given, in one reading: what is given may be a pipe."""
        rows = self._settled(self._rows(self._parts, lambda place: self.report.add(REPAIRED, place, kept=True)))
        return ((source, target) for _, source, target in self._passed(rows, 0))

    def _passed(self, rows: Iterator[tuple[Section, int, Any]], skipped: int) -> Iterator[tuple[int, str, str]]:
        """The rows that the gate lets pass, each with its number."""
        is_empty = skipped == 0
        for row, (section, number, texts) in enumerate(rows, start=skipped + 1):
            if self._admits(section, number, texts):
                is_empty = False
                yield row, texts[0], texts[1]
        if is_empty:
            raise CorpusError(f"{self.name}: there are no pairs in it.\n{self.report}".rstrip())

    def _admits(self, section: Section, number: int, texts: tuple[str, str] | Fault) -> bool:
        """Whether a row is one of the pairs; counts it if it is not as it should be, stops if it must."""
        self.report.rows += 1
        if isinstance(texts, Fault):
            place = section.place(number)
            if self._on_bad_row == "stop":
                raise CorpusError(
                    f"{place}: {texts.reason}: {texts.detail}. Correct it, or pass "
                    'on_bad_row="skip" to leave such rows out.'
                )
            self.report.add(texts.reason, f"{place} ({texts.detail})")
            return False
        source, target = texts
        if self._on_bad_bytes == "skip" and (NO_UTF8.search(source) or NO_UTF8.search(target)):
            self.report.add(INVALID, section.place(number, in_target=not NO_UTF8.search(source)))
            return False
        if is_white(source):  # drops both sides: else all later pairs would shift
            self.report.add(BOTH_BLANK if is_white(target) else SOURCE_BLANK, section.place(number))
            return False
        if is_white(target):
            self.report.add(TARGET_BLANK, section.place(number, in_target=True))
            return False
        kind = self._checks.fault(source, target)
        if kind is None:
            return True
        is_kept = kind not in self._checks.drop
        self.report.add(kind, section.place(number), is_kept)
        return is_kept

    def _rows(
        self, parts: Iterable[Part], repaired: Callable[[str], None] = lambda place: None
    ) -> Iterator[tuple[Section, int, Any]]:
        decoder = Decoder(self._on_bad_bytes, repaired)
        for part in parts:
            section = part(decoder)
            for number, texts in section.rows:
                yield section, number, texts

    def _settled(self, rows: Iterator[tuple[Section, int, Any]]) -> Iterator[tuple[Section, int, Any]]:
        """The same rows, after the checks have seen the first of them."""
        sample = list(islice(rows, SAMPLE_PAIRS))
        self._checks.settle([texts for _, _, texts in sample if not isinstance(texts, Fault)])
        return chain(sample, rows)


# From what the caller gave to parts ----------------------------------------------------------------------------------


def _built_in_section(split: str, sides: Sides, decoder: Decoder) -> Section:
    """The generated English-Spanish corpus; its columns may also be named by language."""
    from .. import grammar

    source, _ = sides.among(("source", "target", "en", "es"), BUILT_IN)
    pairs = _generated(grammar.generate, "validation" if split in SPLIT_ALIASES else split)
    if source in ("target", "es"):
        pairs = [(second, first) for first, second in pairs]
    prefix = f"{BUILT_IN} {split} row "
    return Section(prefix, iter(enumerate(pairs, start=1)))


@cache
def _generated(generate: Callable[..., list[Any]], split: str) -> list[tuple[str, str]]:
    """The texts of the built-in corpus, which take seconds to make and are read in every pass of a stream."""
    return [(pair.source, pair.target) for pair in generate(split=split)]


def corpora_of(files: Sequence[str]) -> list[list[str]]:
    """Returns the files of each corpus: those between the ``+`` signs."""
    corpora: list[list[str]] = [[]]
    for file in files:
        if file == SEPARATOR:
            corpora.append([])
        else:
            corpora[-1].append(file)
    return corpora


def is_on_hub(files: Sequence[str] | None) -> bool:
    """Whether `files`, as they are given to `load_corpus`, are one name, that of a data set on the Hub."""
    return files is not None and len(files) == 1 and is_hub_name(files[0])


def is_hub_name(path: str) -> bool:
    """Whether `path`, which is no local file or folder, can be the name of a data set on the Hub."""
    is_file_name = path.lower().endswith((".gz", ".txt", *TABLE_NAMES))
    is_local = os.path.exists(path) or os.path.isdir(os.path.dirname(path))
    return re.fullmatch(r"\w[\w.-]*/[\w.-]+", path) is not None and not is_file_name and not is_local


def _is_pattern(path: str) -> bool:
    return any(character in path for character in "*?[") and not os.path.exists(path)


def _matches(pattern: str) -> list[str]:
    """The files that a pattern stands for, in the order of their names."""
    found = sorted(filter(os.path.isfile, glob.glob(pattern, recursive=True)))
    if not found:
        raise CorpusError(f"{pattern}: no file matches this pattern (looked from {os.getcwd()}).")
    return found


def _find_parts(
    given: Sequence[str | os.PathLike[str]],
    sides: Sides,
    split: str,
    revision: str | None,
    name: str | None,
    streaming: bool,
    on_disk: bool,
) -> list[Part]:
    """Finds out what was given. What is missing is refused here, before anything is read."""
    paths = [os.fspath(path) for path in given]
    if len(paths) not in (1, 2):
        raise CorpusError(
            f"files: got {len(paths)} paths ({listed(paths)}); give one, or two aligned text files. Files that are "
            'shards of one corpus are given as a pattern: "part-*.tsv".'
        )
    path = paths[0]
    is_built_in = list(given) == [BUILT_IN]  # a Path of that name is not equal to it
    is_folder = len(paths) == 1 and not is_built_in and os.path.isdir(path)
    is_hub_id = is_on_hub(paths) and not is_built_in
    for argument, value, is_usable in (
        ("revision", revision, is_hub_id),
        ("name", name, is_hub_id or is_folder),
        ("streaming", streaming or None, is_hub_id),
    ):
        if value is not None and not is_usable:
            raise CorpusError(f"{argument}={value!r} has no meaning for {listed(paths)}; leave it out.")

    if is_built_in:
        return [partial(_built_in_section, split, sides)]
    if is_folder:
        return folder_parts(path, sides, split, name, not on_disk)
    if is_hub_id:
        return hub_parts(path, sides, split, name, revision, streaming or not on_disk)
    files = [_matches(path) if _is_pattern(path) else [path] for path in paths]
    for file in chain.from_iterable(files):
        check_file(file)
        if not on_disk and not os.path.isfile(file):
            raise CorpusError(
                f"{file}: is a pipe or a device, and a stream is read more than once; save it to a file."
            )
    if len(files) == 1:
        return [partial(file_section, file, sides) for file in files[0]]
    if all(path.lower().removesuffix(".gz").endswith(TABLE_NAMES) for path in paths):  # a pattern without its quotes
        raise CorpusError(
            f"{listed(paths)}: by their names these hold pairs, each of them, and are not two aligned text files. "
            'Shards of one corpus are given as a pattern, in quotes: "part-*.tsv".'
        )
    if len(files[0]) != len(files[1]):
        raise CorpusError(
            f"{paths[0]} stands for {len(files[0])} files and {paths[1]} for {len(files[1])}; each file needs the one "
            "with its translations."
        )
    return [partial(aligned_section, *pair) for pair in zip(*files, strict=True)]


def _open(
    files: Files, *, source: str | None, target: str | None, split: str, on_bad_row: str, on_bad_bytes: str | None,
    revision: str | None, name: str | None, streaming: bool, on_disk: bool, seed: int, drop: Sequence[str],
    held_out: Iterable[str],
) -> CorpusStream:  # fmt: skip
    """The corpus, about to be read. Not `on_disk`: a data set of the Hub, or of a folder, is never copied."""
    if (source is None) != (target is None) or (source is not None and source == target):
        raise CorpusError(f"source={source!r} and target={target!r}: give two different names, or neither.")
    drop = [drop] if isinstance(drop, str) else list(drop)
    for kind in drop:
        check_choice("drop", kind, (*KINDS, "all"))
    kinds = set(KINDS if "all" in drop else drop)
    if not on_disk:
        if "duplicate" in drop:
            raise CorpusError(
                "drop='duplicate' is not for a stream: to know a pair again, all pairs before it must be kept in "
                "memory. Leave duplicates out beforehand (`tinyseq corpus FILES --drop duplicate --output FILE`)."
            )
        kinds.discard("duplicate")
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    check_choice("on_bad_row", on_bad_row, ("stop", "skip"))
    parts = _find_parts(given, Sides(source, target), split, revision, name, streaming, on_disk)
    on_bad_bytes = on_bad_bytes or on_bad_row
    Decoder(on_bad_bytes)  # refuses another value now
    checks = Checks(kinds, held_out, remember=on_disk)
    return CorpusStream(", ".join(os.fspath(path) for path in given), parts, checks, on_bad_row, on_bad_bytes, seed)


def load_corpus(
    files: Files, *, source: str | None = None, target: str | None = None, split: str = "train",
    on_bad_row: str = "stop", on_bad_bytes: str | None = None, revision: str | None = None, name: str | None = None,
    streaming: bool = False, drop: Sequence[str] = (), held_out: Iterable[str] = (),
) -> Corpus:  # fmt: skip
    """Reads parallel text into checked pairs. Text is kept as it is, outer spaces and control characters too.

    A pair with a blank side (empty, only white space, or null) is always dropped, as a pair, and counted in the
    report. Other pairs that are not as they should be are counted, and kept unless `drop` names their kind.

    Args:
        files: Two paths: aligned text files, line n of one being the translation of line n of the other. One path: a
            TSV (its quotes are text), CSV, JSON lines, JSON array or Parquet file; a local data set folder; or a Hub
            id "owner/name". Text may be gzipped. A path with `*`, `?` or `[` that is no file is a pattern, for the
            shards of a corpus; the files of two patterns are paired in the order of their names. "grammar" is the
            built-in corpus (a file of that name: "./grammar").
        source: Column or language key of the source side; also the number of a column (from 1) of a table without
            header. Not needed if there are just two columns, or columns `source` and `target`, or for the first two
            of a TSV. Two aligned files have no such names, so that it is not used.
        target: The same for the target side.
        split: Split of a data set; `validation`, `valid`, `val` and `dev` stand in for each other. A file, or a
            single `Dataset` saved to disk, has no splits, and is read whole.
        on_bad_row: "stop" raises at the first row that is no pair (malformed JSON, wrong number of columns, not
            text); "skip" leaves such rows out and counts them.
        on_bad_bytes: What to do about bytes that are not UTF-8, if not what `on_bad_row` says: "stop"; "skip", which
            leaves the row out; or "replace", which puts U+FFFD there and counts the lines.
        revision: Branch, tag or commit of a Hub data set.
        name: Configuration of a data set that has several.
        streaming: Read a Hub data set over the network as it is needed, without a copy on the disk.
        drop: Kinds of pairs to leave out, of `checks.KINDS`; "all" is all of them.
        held_out: Source texts of test and validation pairs, for the kind "test_pair".

    Raises:
        CorpusError: A `ValueError` naming the argument, or file and line, and what to do.
    """
    corpus = _open(
        files, source=source, target=target, split=split, on_bad_row=on_bad_row, on_bad_bytes=on_bad_bytes,
        revision=revision, name=name, streaming=streaming, on_disk=True, seed=0, drop=drop, held_out=held_out,
    )  # fmt: skip
    pairs = _to_dataset(
        # disable=None: shown on a terminal only
        tqdm(corpus.once(), desc="Reading pairs", unit=" pairs", disable=None, delay=SECONDS_UNSHOWN)
    )
    return Corpus(pairs, corpus.report)


def stream_corpus(
    files: Files, *, source: str | None = None, target: str | None = None, split: str = "train",
    on_bad_row: str = "stop", on_bad_bytes: str | None = None, revision: str | None = None, name: str | None = None,
    seed: int = 0, drop: Sequence[str] = (), held_out: Iterable[str] = (),
) -> CorpusStream:  # fmt: skip
    """Opens parallel text that is read as it is needed, in every pass again; the arguments are those of `load_corpus`.

    The shards of a corpus (the files of a pattern or of a folder, the files of a data set on the Hub) are read in an
    order that depends on the seed and the pass; inside a shard, and in a single file, rows come in their order. JSON
    lines are read line by line, but a JSON array as a whole.

    Args:
        seed: Decides the order of the shards.
        drop: As for `load_corpus`, without "duplicate": a stream does not remember its pairs. Nor does it count them.

    Raises:
        CorpusError: At once for what is missing or an argument out of place; else when the reading gets there.
    """
    return _open(
        files, source=source, target=target, split=split, on_bad_row=on_bad_row, on_bad_bytes=on_bad_bytes,
        revision=revision, name=name, streaming=False, on_disk=False, seed=seed, drop=drop, held_out=held_out,
    )  # fmt: skip


def _to_dataset(pairs: Iterable[tuple[str, str]]) -> datasets.Dataset:
    """An in-memory `Dataset`, built in chunks: Python strings take several times the room of Arrow's."""
    schema = pa.schema({"source": pa.string(), "target": pa.string()})
    rest, tables = iter(pairs), [schema.empty_table()]
    while chunk := list(islice(rest, ROWS_PER_CHUNK)):
        tables.append(pa.table(list(zip(*chunk, strict=True)), schema=schema))
    table = pa.concat_tables(tables)
    return datasets.Dataset.from_dict({column: table[column] for column in table.column_names})


def split_off(pairs: datasets.Dataset, most: int, seed: int = 0) -> tuple[datasets.Dataset, datasets.Dataset]:
    """Returns `pairs` without a part, and that part: about `most` pairs, but never over a tenth.

    All pairs with one source (whatever its case and spacing: `normalised`) are on one side, so that no held-out
    source was seen in training. Which sources are held out depends on their text and the seed, not on the order of the
    pairs.

    Raises:
        CorpusError: There are too few pairs to hold any out.
    """
    most = min(most, len(pairs) // 10)
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(pairs["source"]):
        groups.setdefault(normalised(text), []).append(row)
    if most < 1 or len(groups) < 2:
        raise CorpusError(
            f"{len(pairs)} pairs with {len(groups)} different sources are too few to hold some out for validation; "
            f"give validation pairs of their own"
        )
    by_hash = sorted(
        groups, key=lambda text: hashlib.blake2b(f"{seed}\n{text}".encode(errors="surrogatepass")).digest()
    )
    held_out: set[int] = set()
    for text in by_hash[:-1]:
        if len(held_out) >= most:
            break
        held_out.update(groups[text])
    kept = [row for row in range(len(pairs)) if row not in held_out]
    return pairs.select(kept), pairs.select(sorted(held_out))
