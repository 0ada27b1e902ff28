# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Reads a corpus of millions of pairs as training does, and shows that memory stays flat and that resuming is exact.

The corpus is generated, so that it costs no disk: a vocabulary of made-up words, in sentences of 3 to 13. With
--shards it is first written to TSV files, and these are read. All of it goes through `BatchStream`: text, shuffle
buffer, tokenizer, batches by length, tensors; only the model is missing.

  python benchmarks/streaming_memory.py                              10 million pairs, made as they are needed
  python benchmarks/streaming_memory.py --shards /tmp/pairs          the same pairs, from files (about 1.1 GB)

Ends with status 1 if the batches after a resume are others, or if memory grew.
"""

import argparse
import hashlib
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader

from tinyseq import TinySeqTokenizer
from tinyseq.batching.mixing import StreamedCorpus, TextStream, reader_of
from tinyseq.batching.stream import Batch, BatchStream
from tinyseq.corpus.checks import Report
from tinyseq.corpus.loading import stream_corpus
from tinyseq.training.runtime import keep_freed_memory, versions

WORDS = 30_000
ROWS_PER_DRAW = 5_000
SHARDS = 20
BATCHES_COMPARED = 50
MILLION = 1_000_000
GROWTH_ALLOWED = 0.05  # of the memory after the first tenth of the pairs


class GeneratedStream:
    """Pairs of made-up sentences; the text of a row depends on its number alone, so that any can be gone on from."""

    def __init__(self, pairs: int):
        self.name = f"{pairs:,} generated pairs"
        self.report = Report()
        self.rows = pairs
        random = np.random.default_rng(0)
        letters = np.array(list("aeinorstlmdu"))
        words = ["".join(random.choice(letters, length)) for length in random.integers(2, 9, WORDS)]
        self.words = np.array(words, dtype=object)

    def pairs(self, epoch: int, skip: int) -> Iterator[tuple[int, str, str]]:
        """Yields the row's number, the source and the target."""
        for draw in range(skip // ROWS_PER_DRAW, -(-self.rows // ROWS_PER_DRAW)):
            random = np.random.default_rng([epoch, draw])
            lengths = random.integers(3, 14, ROWS_PER_DRAW).tolist()
            # Some words are frequent, as in a language: a quarter of all are among the first 120
            numbers = (WORDS * random.random(2 * sum(lengths)) ** 4).astype(np.int64)
            words, place = self.words[numbers].tolist(), 0
            for row, length in enumerate(lengths, start=draw * ROWS_PER_DRAW + 1):
                middle, end = place + length, place + 2 * length
                if skip < row <= self.rows:
                    yield row, " ".join(words[place:middle]), " ".join(words[middle:end])
                place = end


def main() -> None:
    """Reads once, resumes at some points, prints a table and writes what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10 * MILLION, metavar="N", help="pairs to read (10 million)")
    parser.add_argument("--shuffle-buffer", type=int, default=100_000, metavar="N", help="pairs of a block (100,000)")
    parser.add_argument("--batch-size-tokens", type=int, default=2048, metavar="N", help="of a batch, a side (2,048)")
    parser.add_argument(
        "--workers", type=int, default=0, metavar="N", help="loader workers (0: memory is one process's)"
    )
    parser.add_argument("--resumes", type=int, default=4, metavar="N", help="points at which to resume (4)")
    parser.add_argument("--shards", type=Path, metavar="DIR", help="write the pairs to files in this new folder first")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the figures as JSON")
    options = parser.parse_args()
    if options.shards and options.shards.exists():
        parser.error(f"--shards {options.shards} is there already; name a new folder")
    for name in ("pairs", "shuffle_buffer", "resumes"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(options, name)} must be 1 or more")

    keep_freed_memory()  # as train.py does: it must not make memory grow either
    torch.set_num_threads(1)
    generated = GeneratedStream(options.pairs)
    text = itertools.islice(reader_of(generated), 20_000)
    tokenizer = TinySeqTokenizer.train((side for _, *pair in text for side in pair), vocab_size=8000, algorithm="bpe")
    if options.shards:
        start = time.perf_counter()
        write_shards(generated, options.shards)
        print(f"written to {options.shards} in {time.perf_counter() - start:.0f} s", flush=True)

    def batches(state: dict | None = None) -> tuple[BatchStream, Iterator[Batch]]:
        text: TextStream = GeneratedStream(options.pairs)
        if options.shards:
            text = stream_corpus(str(options.shards / "*.tsv"), source="1", target="2")
        corpus = StreamedCorpus(text, tokenizer, max_length=256, block_pairs=options.shuffle_buffer)
        stream = BatchStream(corpus, options.batch_size_tokens, 0, tokenizer.pad_token_id, state=state)
        return stream, iter(DataLoader(stream, batch_size=None, num_workers=options.workers))

    rows, states, expected, tokens = read_all(*batches(), options)
    are_exact = True
    for pairs, state in states.items():
        start = time.perf_counter()
        found = digest(itertools.islice(batches(json.loads(state))[1], BATCHES_COMPARED))
        is_same = found == expected[pairs]
        are_exact &= is_same
        print(
            f"resumed after {pairs:,} pairs: the next {BATCHES_COMPARED} batches are "
            f"{'the same' if is_same else 'OTHERS'} ({time.perf_counter() - start:.1f} s)"
        )
    early = next(row for row in rows if row["pairs"] >= options.pairs / 10)["memory_mib"]
    growth = rows[-1]["memory_mib"] / early - 1
    overall = options.pairs / rows[-1]["seconds"]
    per_cpu = options.pairs / rows[-1]["cpu_seconds"]
    print(f"{overall:,.0f} pairs/s, {per_cpu:,.0f} a CPU second; {tokens / options.pairs:.1f} pieces a pair")
    print(f"memory at the end: {growth:+.1%} against that after a tenth of the pairs")
    if options.output:
        figures = {
            "pairs": options.pairs,
            "shuffle_buffer": options.shuffle_buffer,
            "from_files": options.shards is not None,
            "workers": options.workers,
            "pairs_per_second": overall,
            "pairs_per_cpu_second": per_cpu,
            "pieces_per_pair": tokens / options.pairs,
            "memory": rows,
            "growth": growth,
            "resumes_are_exact": are_exact,
            "versions": versions(),
        }
        options.output.write_text(json.dumps(figures, indent=2) + "\n")
    sys.exit(int(not are_exact or growth > GROWTH_ALLOWED))


def write_shards(stream: GeneratedStream, folder: Path) -> None:
    """Writes the pairs to TSV files, of which each has its share."""
    folder.mkdir(parents=True)
    pairs = stream.pairs(epoch=0, skip=0)
    for shard in range(SHARDS):
        count = (shard + 1) * stream.rows // SHARDS - shard * stream.rows // SHARDS
        with (folder / f"part-{shard:02}.tsv").open("w") as file:
            file.writelines(f"{source}\t{target}\n" for _, source, target in itertools.islice(pairs, count))


def read_all(
    stream: BatchStream, batches: Iterator[Batch], options: argparse.Namespace
) -> tuple[list[dict[str, float]], dict[int, str], dict[int, str], int]:
    """Reads as many pairs as were asked for.

    Returns:
        Seconds and memory at each tenth, and each million; where to resume, after how many pairs; what the batches
        are that follow there; and how many pieces there were in all.
    """
    process = psutil.Process()
    rows: list[dict[str, float]] = []
    states: dict[int, str] = {}
    expected: dict[int, str] = {}
    following: list[Batch] = []
    pairs = tokens = 0
    step = min(MILLION, max(options.pairs // 10, 1))
    # At odd places: in a block, not at its border
    points = [int((point + 0.37) * options.pairs / options.resumes) for point in range(options.resumes)]
    print(f"{'pairs':>12} {'pairs/s':>9} {'pairs/CPU s':>12} {'memory, MiB':>12}", flush=True)
    start = before = time.perf_counter()
    cpu_start = cpu_before = time.process_time()  # of all threads
    for number, batch in enumerate(batches, start=1):
        pairs += len(batch.rows)
        tokens += int(batch.tensors["attention_mask"].sum()) + int((batch.tensors["labels"] >= 0).sum())
        if len(expected) < len(states):
            following.append(batch)
            if len(following) == BATCHES_COMPARED:
                expected[list(states)[-1]] = digest(following)
                following = []
        elif len(states) < len(points) and pairs >= points[len(states)]:
            states[pairs] = json.dumps(stream.state_after(batch, number))
        if pairs >= (len(rows) + 1) * step:
            now, cpu_now = time.perf_counter(), time.process_time()
            memory = process.memory_info().rss / 2**20
            speeds = f"{step / (now - before):9,.0f} {step / (cpu_now - cpu_before):12,.0f}"
            print(f"{pairs:12,} {speeds} {memory:12,.1f}", flush=True)
            times = {"seconds": now - start, "cpu_seconds": cpu_now - cpu_start}
            rows.append({"pairs": pairs, **times, "memory_mib": memory})
            before, cpu_before = now, cpu_now
        if pairs >= options.pairs and len(expected) == len(states):
            return rows, states, expected, tokens
    raise AssertionError("a stream has no end")


def digest(batches: Iterator[Batch] | list[Batch]) -> str:
    """Returns a hash of the rows and tensors of batches."""
    found = hashlib.blake2b()
    for batch in batches:
        found.update(json.dumps(batch.rows).encode())
        for name in sorted(batch.tensors):
            found.update(f"{name} {tuple(batch.tensors[name].shape)}".encode())
            found.update(batch.tensors[name].numpy().tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    main()
