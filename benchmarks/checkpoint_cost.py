# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Measures what a checkpoint costs: seconds to save and to verify it, per 100 MB.

  python benchmarks/checkpoint_cost.py --folder runs

Weights and optimiser of a model after one update are saved as train.py saves them: written aside, checked by SHA-256,
synced to the disk, renamed; then verified and read again as by --resume.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from harness import machine, write_json
from transformers.utils import logging

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration
from tinyseq.training.checkpoint import Checkpoints, verify
from tinyseq.training.optimization import make_optimizer
from tinyseq.training.state_files import gather_state, load_tensors, load_weights, save_tensors


def main() -> None:
    """Saves and reads several times, and prints the medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--folder", type=Path, default=Path(), help="on the disk to measure [default: here]")
    parser.add_argument("--rounds", type=int, default=7, help="checkpoints [default: %(default)s]")
    parser.add_argument("--d_model", type=int, default=256, help="width of the model [default: %(default)s]")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    logging.disable_progress_bar()
    model = TinySeqForConditionalGeneration(TinySeqConfig(vocab_size=8000, d_model=options.d_model))
    optimizer = make_optimizer(model, 1e-3, 0.98, 0.01)
    ids = torch.arange(1, 20)[None]
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    saving, checking = [], []
    with tempfile.TemporaryDirectory(prefix="checkpoint_cost_", dir=options.folder) as folder:
        checkpoints = Checkpoints(Path(folder) / "checkpoints", keep_newest=2, keep_best=0)
        for step in range(options.rounds):
            start = time.perf_counter()
            weights, optimizer_state = gather_state(model, optimizer)

            def write(aside: Path, weights=weights, optimizer_state=optimizer_state) -> None:
                model.save_pretrained(aside, state_dict=weights)
                save_tensors(aside / "optimizer", optimizer_state)

            saved = checkpoints.save(step, write)
            saving.append(time.perf_counter() - start)
            start = time.perf_counter()
            verify(saved)
            load_weights(saved)
            load_tensors(saved / "optimizer")
            checking.append(time.perf_counter() - start)
        megabytes = sum(path.stat().st_size for path in saved.iterdir()) / 1e6
    figures = {
        "megabytes": megabytes,
        "seconds_to_save": statistics.median(saving),
        "seconds_to_save_per_100_mb": statistics.median(saving) * 100 / megabytes,
        "seconds_to_verify_and_read_per_100_mb": statistics.median(checking) * 100 / megabytes,
        "every_save": saving,
    }
    print(
        f"{megabytes:.0f} MB; per 100 MB: {figures['seconds_to_save_per_100_mb']:.2f} s to save "
        f"({min(saving) * 100 / megabytes:.2f} to {max(saving) * 100 / megabytes:.2f} in {len(saving)} saves), "
        f"{figures['seconds_to_verify_and_read_per_100_mb']:.2f} s to verify and read"
    )
    if options.output:
        write_json(options.output, {"machine": machine(), **figures})


if __name__ == "__main__":
    main()
