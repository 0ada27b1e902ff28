# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Data sets of the library `datasets` -> parts: from a folder, saved to disk, or from the Hub, whole or streamed."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import datasets
import pyarrow as pa

from .readers import ROWS_AT_ONCE, CorpusError, Decoder, Part, Row, Section, Sides, arrow_rows, file_section, listed

SPLIT_ALIASES = ("validation", "valid", "val", "dev")

T = TypeVar("T")


def folder_parts(path: str, sides: Sides, split: str, name: str | None, streaming: bool) -> list[Part]:
    """A local data set: as `save_to_disk` leaves one, or in any form that `load_dataset` finds files in.

    For JSON, tables and Parquet, `datasets` says which files are in the split, and our readers read them.
    """
    saved = (datasets.config.DATASET_STATE_JSON_FILENAME, datasets.config.DATASETDICT_JSON_FILENAME)
    if any(os.path.isfile(os.path.join(path, file)) for file in saved):
        if name is not None:
            raise CorpusError(f"{path}: name={name!r} has no meaning for a data set saved to disk; leave it out.")
        return _data_set_parts(_loaded(path, lambda: datasets.load_from_disk(path)), path, sides, split)

    full = os.path.abspath(path)  # else a folder called "json" would be taken for the reader of that name
    with tempfile.TemporaryDirectory() as cache_dir:
        builder = _loaded(path, lambda: datasets.load_dataset_builder(full, name, cache_dir=cache_dir))
        files_of = {str(key): list(files) for key, files in (builder.config.data_files or {}).items()}
        if builder.name in ("json", "csv", "text", "parquet") and files_of:
            files = files_of[_find_split(files_of, split, path)]
            if all(map(os.path.isfile, files)):  # not addresses
                shown = [os.path.join(path, os.path.relpath(file, full)) for file in files]
                return [partial(file_section, file, sides) for file in shown]
        # Into memory, so that no cache needs to stay.
        how = {"streaming": True} if streaming else {"keep_in_memory": True}
        loaded = _loaded(path, lambda: datasets.load_dataset(full, name, cache_dir=cache_dir, **how))
    return _data_set_parts(loaded, path, sides, split)


def hub_parts(
    path: str, sides: Sides, split: str, name: str | None, revision: str | None, streaming: bool
) -> list[Part]:
    """A data set on the Hub; one that is not streamed is copied to the disk."""
    where = f"{path} (no such local file, so taken for a Hub data set)"
    loaded = _loaded(where, lambda: datasets.load_dataset(path, name, revision=revision, streaming=streaming))
    return _data_set_parts(loaded, path, sides, split)


def _data_set_parts(loaded: Any, path: str, sides: Sides, split: str) -> list[Part]:
    """A data set of `datasets`; one that is streamed has a part for each of its shards."""
    if isinstance(loaded, dict):
        split = _find_split(loaded, split, path)
        loaded, path = loaded[split], f"{path} {split}"
    if isinstance(loaded, datasets.Dataset) or loaded.num_shards == 1:
        return [partial(_data_set_section, loaded, path, sides)]
    shards = range(loaded.num_shards)
    return [partial(_shard_section, loaded, shard, f"{path} shard {shard + 1}", sides) for shard in shards]


def _shard_section(loaded: datasets.IterableDataset, shard: int, path: str, sides: Sides, decoder: Decoder) -> Section:
    return _data_set_section(loaded.shard(loaded.num_shards, shard), path, sides, decoder)


def _data_set_section(
    loaded: datasets.Dataset | datasets.IterableDataset, path: str, sides: Sides, decoder: Decoder
) -> Section:
    return Section(f"{path} row ", _data_set_rows(loaded, path, sides, decoder))


def _data_set_rows(
    loaded: datasets.Dataset | datasets.IterableDataset, path: str, sides: Sides, decoder: Decoder
) -> Iterator[Row]:
    batches, features = _batches(loaded, path), loaded.features
    if features is None and (first := next(batches, None)) is not None:  # known only when the first rows have come
        batches, features = chain([first], batches), datasets.Features.from_arrow_schema(first.schema)
    if features is not None:
        yield from arrow_rows(batches, features, f"{path} row ", sides, decoder)


def _batches(loaded: datasets.Dataset | datasets.IterableDataset, path: str) -> Iterator[pa.Table]:
    """Some rows at a time; unlike `iter(loaded)` not split among the workers of a DataLoader."""
    try:
        yield from loaded.with_format("arrow").iter(batch_size=ROWS_AT_ONCE)
    except Exception as error:
        raise CorpusError(f"{path}: `datasets` cannot read it: {type(error).__name__}: {error}") from error


def _find_split(splits: Iterable[str], wanted: str, path: str) -> str:
    found = [str(split) for split in splits]
    for split in (wanted, *SPLIT_ALIASES) if wanted in SPLIT_ALIASES else (wanted,):
        if split in found:
            return split
    raise CorpusError(f"{path}: split={wanted!r} is not there; found {listed(found)}.")


def _loaded(path: str, load: Callable[[], T]) -> T:
    """What a function of `datasets` returns, without progress bars where nobody watches; errors name the data set."""
    is_quiet = not sys.stderr.isatty() and not datasets.utils.are_progress_bars_disabled()
    try:
        if is_quiet:
            datasets.disable_progress_bars()
        return load()
    except Exception as error:
        raise CorpusError(f"{path}: `datasets` cannot load it: {type(error).__name__}: {error}") from error
    finally:
        if is_quiet:
            datasets.enable_progress_bars()
