# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""From a run's options to what it learns from: pairs that are checked and reported, a tokenizer, encoded pairs.

Corpora of ``--train`` are separated by ``+``. Without weights they are read into memory, and each pair comes once per
epoch. Streams, and corpora that are mixed by weights, have no epochs.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from glob import glob
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import datasets
from accelerate import Accelerator
from datasets import Dataset, concatenate_datasets
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from ..batching.encoding import EncodedPairs, encode_pairs, fingerprint_of
from ..batching.mixing import DatasetStream, Mixture, StreamedCorpus, TextStream, reader_of
from ..batching.stream import WholeCorpus
from ..configuration_tinyseq import TinySeqConfig
from ..corpus.loading import CorpusStream, corpora_of, is_on_hub, load_corpus, split_off, stream_corpus
from ..files import save_whole
from ..text import clean
from ..tokenization_tinyseq import TinySeqTokenizer
from .distributed import main_process_result
from .options import RunOptions

TEXTS_FOR_TOKENIZER = 1_000_000  # pairs of a stream that a tokenizer is learned from
PAIRS_FOR_FINGERPRINT = 1_000  # pairs of a stream that it is known by


@dataclass
class TrainingData:
    """What a run learns from, is chosen by and is scored on."""

    train: Dataset | CorpusStream | Mixture  # pairs in memory, or a stream of pairs
    valid: Dataset  # pairs in memory
    test: Dataset | None  # pairs in memory, if a test set was named
    reports: dict[str, Any] = field(default_factory=dict)  # what was refused, or noticed, by set and corpus


def load_data(options: RunOptions, show: Callable[[str], None]) -> TrainingData:
    """Reads what `--train`, `--valid` and `--test` name, and shows what was refused."""
    reports: dict[str, Any] = {}

    def arguments(files: list[str], split: str) -> dict[str, Any]:
        on_hub = is_on_hub(files)
        return {
            "source": options.source,
            "target": options.target,
            "split": split,
            "on_bad_row": options.on_bad_row,
            "name": options.dataset_config_name if on_hub else None,
            "revision": options.dataset_revision if on_hub else None,
        }

    def load(files: list[str], split: str, **checks: Any) -> Dataset:
        streaming = options.streaming and is_on_hub(files)  # leaves no copy on the disk
        corpus = load_corpus(files, **arguments(files, split), **checks, streaming=streaming)
        reports.setdefault(split, {})[" ".join(files)] = corpus.report.to_dict()
        if str(corpus.report):
            show(f"{split} data ({' '.join(files)}):\n{corpus.report}")
        return corpus.pairs

    test = load(options.test, "test") if options.test else None
    valid = load(options.valid, "validation") if options.valid else None
    held_out = [text for pairs in (test, valid) if pairs is not None for text in pairs["source"]]
    checks: dict[str, Any] = {"drop": options.drop or (), "held_out": held_out}
    corpora = corpora_of(options.train or ())
    train: Any
    if options.streaming:
        train = [stream_corpus(files, **arguments(files, "train"), **checks, seed=options.seed) for files in corpora]
    else:
        train = [load(files, "train", **checks) for files in corpora]
    if valid is None:
        together, valid = split_off(concatenate_datasets(train), options.valid_pairs, seed=options.seed)
        train = [together]
    if options.weights:
        streams = [
            pairs if options.streaming else DatasetStream(pairs, " ".join(files), seed=options.seed)
            for pairs, files in zip(train, corpora, strict=True)
        ]
        return TrainingData(Mixture(streams, options.weights), valid, test, reports)
    return TrainingData(train[0] if options.streaming else concatenate_datasets(train), valid, test, reports)


def refused(reports: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Returns how many rows of each set were left out for each reason, without the names of files."""
    counts: dict[str, Counter[str]] = {split: Counter() for split in reports}
    for split, by_files in reports.items():
        for report in by_files.values():
            counts[split].update({reason: found["dropped"] for reason, found in report["reasons"].items()})
    return {split: dict(+count) for split, count in counts.items()}


def sizes_of(files: list[str]) -> list[int]:
    """Returns the sizes in bytes of the local files of a stream, which is not read before it is trained on."""
    paths = [Path(path) for file in files for path in (sorted(glob(file)) or [file])]
    below = [path for path in paths for path in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return [path.stat().st_size for path in below if path.is_file()]


def write_reports(path: Path, reports: dict[str, Any]) -> None:
    """Writes what was refused beside the run's other figures."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(reports, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def make_tokenizer(
    accelerator: Accelerator,
    options: RunOptions,
    max_length: int,
    train: Dataset | CorpusStream | Mixture,
    folder: Path,
) -> PreTrainedTokenizerBase:
    """Returns the tokenizer that was named, that of an interrupted run, or one learned from the training pairs.

    The first process makes it for all.
    """

    def make() -> PreTrainedTokenizerBase:
        if options.tokenizer:
            return AutoTokenizer.from_pretrained(options.tokenizer)
        goes_on = options.resume and any((folder.parent / "checkpoints").glob("step-*"))
        if not (goes_on and (folder / "tokenizer.json").is_file()):
            tokenizer = TinySeqTokenizer.train(
                texts_of(train), options.vocab_size, options.tokenizer_algorithm, model_max_length=max_length
            )
            save_whole(folder, tokenizer.save_pretrained)
        return AutoTokenizer.from_pretrained(folder)

    return main_process_result(accelerator, make)


def texts_of(pairs: Dataset | CorpusStream | Mixture, most: int = TEXTS_FOR_TOKENIZER) -> Iterator[str]:
    """Yields the texts of both sides as the model gets them; of a stream those of its first pairs."""
    if isinstance(pairs, Dataset):
        return (clean(text) for rows in pairs.iter(batch_size=10_000) for side in rows.values() for text in side)
    return (clean(text) for _, *pair in first_pairs(pairs, most) for text in pair)


def first_pairs(stream: TextStream | Mixture, most: int) -> Iterator[tuple[int, str, str]]:
    """Yields the first pairs of a stream: no more than one pass over it."""
    reader = reader_of(stream)
    return takewhile(lambda _: reader.passes == 0, islice(reader, most))


def encode(
    accelerator: Accelerator,
    pairs: Dataset,
    what: str,
    tokenizer: PreTrainedTokenizerBase,
    config: TinySeqConfig,
    show: Callable[[str], None],
) -> EncodedPairs:
    """Returns the ids of the pairs, and shows how many were too long. What was encoded once is found again."""
    cache = Path(datasets.config.HF_DATASETS_CACHE) / "tinyseq"
    with accelerator.local_main_process_first():  # the others of this machine find what it has written
        encoded = encode_pairs(pairs, tokenizer, config.max_position_embeddings, cache)
    if encoded.too_long:
        show(f"{encoded.too_long} {what} pairs left out: a side has over {config.max_position_embeddings} pieces")
    if not len(encoded):
        raise ValueError(f"no {what} pairs left; raise --max_position_embeddings ({config.max_position_embeddings})")
    return encoded


def corpus_to_batch(
    accelerator: Accelerator,
    options: RunOptions,
    train: Dataset | CorpusStream | Mixture,
    tokenizer: PreTrainedTokenizerBase,
    config: TinySeqConfig,
    show: Callable[[str], None],
) -> tuple[WholeCorpus | StreamedCorpus, dict[str, Any]]:
    """Returns the training pairs as what batches are made from, and what is known of them.

    That is `fingerprint`, which stands for what the model sees of them, `size` in pairs and `longest_source` in pieces
    (of a stream `None`), and `words`: a few for the screen.
    """
    if isinstance(train, Dataset):
        pairs = encode(accelerator, train, "training", tokenizer, config, show)
        words = f"{len(pairs):,} pairs ({pairs.target_tokens / len(pairs):.1f} target pieces each)"
        longest = int(pairs.sources.lengths.max())
        known = {"fingerprint": pairs.fingerprint, "size": len(pairs), "longest_source": longest, "words": words}
        return WholeCorpus(pairs), known
    corpus = StreamedCorpus(train, tokenizer, config.max_position_embeddings, options.shuffle_buffer)
    parts = []
    for stream in train.streams if isinstance(train, Mixture) else [train]:
        if isinstance(stream, DatasetStream):
            pairs_known = stream.dataset
        else:
            first = [(source, target) for _, source, target in first_pairs(stream, PAIRS_FOR_FINGERPRINT)]
            pairs_known = Dataset.from_dict(dict(zip(("source", "target"), zip(*first, strict=True), strict=True)))
        parts.append(fingerprint_of(pairs_known, tokenizer, config.max_position_embeddings))
    fingerprint = " ".join([*parts, *map(str, sizes_of(options.train or []) if options.streaming else ())])
    return corpus, {"fingerprint": fingerprint, "size": None, "longest_source": None, "words": "a stream of pairs"}
