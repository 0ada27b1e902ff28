# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What the benchmarks share: the data, runs in processes of their own, their logs, and the machine's description."""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import torch

from tinyseq.corpus.loading import read_lines
from tinyseq.training.runtime import versions

HERE = Path(__file__).resolve().parent
TRAIN_SCRIPT = HERE.parent / "train.py"
PEER_SCRIPT = HERE / "marian_peer.py"

# A process started with this keeps freed memory, as tinyseq's train.py does by itself (see tinyseq/runtime.py)
KEEP_FREED_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592"}

# Updates after which the Trainer's group_by_length has gone once from long to short sentences. Timings cover whole
# cycles, or they would hold more long sentences than the corpus does.
CYCLE_STEPS = 50
WINDOW_STEPS = 10  # updates per line of the logs; the first window, which warms up, is never counted

DATA_HELP = (
    "folder of Multi30k's task 1, which holds raw/train.en.gz, raw/train.de.gz, raw/val.* and raw/test_2016_flickr.*: "
    "data/task1 in a clone of https://github.com/multi30k/dataset"
)


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that every benchmark has."""
    parser.add_argument("--data", type=Path, metavar="DIR", help=DATA_HELP)
    parser.add_argument(
        "--pairs",
        type=int,
        metavar="N",
        help="use the first N pairs of each file only: tries the script itself, the figures mean nothing",
    )


def check_common_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuses a missing data folder, saying what it is and where it comes from."""
    if options.data is None:
        parser.error(f"--data is missing: give the {DATA_HELP}")
    for name in ("train", "val", "test_2016_flickr"):
        for language in ("en", "de"):
            path = options.data / "raw" / f"{name}.{language}.gz"
            if not path.is_file():
                parser.error(f"--data {options.data}: there is no {path}; give the {DATA_HELP}")
    if options.pairs is not None and options.pairs < 1:
        parser.error(f"--pairs {options.pairs} must be 1 or more")


def corpus_files(data: Path, split: str, pairs: int | None, folder: Path) -> list[str]:
    """Returns the English and the German file of a split, or of its first `pairs` pairs, then written to `folder`."""
    paths = [(data / "raw" / f"{split}.{language}.gz").resolve() for language in ("en", "de")]
    if pairs is None:
        return [str(path) for path in paths]
    folder.mkdir(parents=True, exist_ok=True)
    short = [folder / f"{split}.{pairs}{path.suffixes[-2]}" for path in paths]
    for path, cut in zip(paths, short, strict=True):
        cut.write_text(
            "".join(f"{line}\n" for line in islice(read_lines(path), pairs)), encoding="utf-8", newline="\n"
        )
    return [str(cut) for cut in short]


def run(
    script: Path, arguments: Iterable[object], environment: dict[str, str] | None = None, quiet: bool = True
) -> None:
    """Runs a Python script in a process of its own and ends the benchmark if that fails.

    Args:
        script: The script.
        arguments: Its command line.
        environment: Variables on top of this process's, without those that set glibc's malloc.
        quiet: Show what it prints only if it fails.
    """
    command = [sys.executable, str(script), *map(str, arguments)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        command,
        env={**inherited, **(environment or {})},
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{done.stdout or ''}\nfailed with code {done.returncode}: {' '.join(command)}")


def read_windows(run_folder: Path) -> list[dict]:
    """Returns the timed windows in a run's log.jsonl: `step`, `target_tokens_per_second`, `training_seconds`."""
    lines = map(json.loads, (run_folder / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return [line for line in lines if "target_tokens_per_second" in line]


def seconds_per_step(run_folder: Path) -> float:
    """Returns how long an update takes after the first window."""
    first, *_, last = read_windows(run_folder)
    return (last["training_seconds"] - first["training_seconds"]) / (last["step"] - first["step"])


def sgemm_flops(size: int = 2048, repetitions: int = 10) -> float:
    """Returns the most FLOP/s that float32 `torch.mm` of two square matrices reached on the CPU."""
    left, right, product = (torch.rand(size, size) for _ in range(3))
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        torch.mm(left, right, out=product)
        seconds.append(time.perf_counter() - start)
    return 2 * size**3 / min(seconds)


def machine() -> dict[str, object]:
    """Returns what a figure is valid for: processor, threads, versions."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        models = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        name = models[0] if models else name
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {
        "processor": name,
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "gpu": device,
        "system": platform.platform(),
        **versions(),
    }


def write_json(path: Path, results: dict) -> None:
    """Writes the results where the user wanted them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written: {path}")
