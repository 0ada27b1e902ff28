# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What a training run refuses before it does anything: options that cannot work, a folder in use, a full disk."""

import shutil
import sys
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import gather_object

from ..corpus.loading import corpora_of, is_on_hub
from ..files import check_space, recover
from .checkpoint import Checkpoints

BESIDE_WEIGHTS = 500_000  # bytes of a model's tokenizer, code and card


def check_options(options: Any) -> Path:
    """Refuses what can't work before anything is done; returns the run's folder."""
    if not options.train:
        raise ValueError("--train is missing: name the training pairs (--train corpus.en corpus.de) or a recipe")
    if not options.output_dir:
        raise ValueError("--output_dir is missing: name the run's folder")
    for name in (
        "batch_size_tokens", "gradient_accumulation_steps", "epochs", "learning_rate", "log_steps", "num_beams",
        "eval_pairs", "valid_pairs", "shuffle_buffer", "max_bad_updates", "process_timeout", "keep_checkpoints",
        "time_budget",
    ):  # fmt: skip
        if getattr(options, name) is not None and not getattr(options, name) > 0:
            raise ValueError(f"--{name} {getattr(options, name)} must be greater than 0")
    for name in ("max_steps", "eval_steps", "save_steps", "patience"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise ValueError(f"--{name} {getattr(options, name)} must be 1 or more")
    for name in ("label_smoothing", "ema_decay"):
        if not 0 <= getattr(options, name) < 1:
            raise ValueError(f"--{name} {getattr(options, name)} must be at least 0 and below 1")
    for name in ("card_examples", "keep_best_checkpoints", "average_checkpoints"):
        if getattr(options, name) < 0:
            raise ValueError(f"--{name} {getattr(options, name)} must be 0 or more")
    if options.average_checkpoints > options.keep_checkpoints or options.average_checkpoints == 1:
        raise ValueError(
            f"--average_checkpoints {options.average_checkpoints} needs at least 2, and as many of them to be kept; "
            f"--keep_checkpoints is {options.keep_checkpoints}"
        )
    if options.average_checkpoints and options.ema_decay:
        raise ValueError("--average_checkpoints and --ema_decay are two ways to the same; give one of them")
    for name in ("hub_model_id", "hub_private_repo", "hub_strategy"):
        if getattr(options, name) not in (None, False, "end") and not options.push_to_hub:
            raise ValueError(f"--{name} says where to push, and nothing is pushed without --push_to_hub")
    corpora = corpora_of(options.train)
    if [] in corpora:
        raise ValueError(f"--train {' '.join(options.train)}: a + stands between two corpora")
    for name in ("dataset_config_name", "dataset_revision"):
        if getattr(options, name) and not any(map(is_on_hub, (*corpora, options.valid, options.test))):
            raise ValueError(f"--{name} is for a data set on the Hub; --train, --valid and --test name none")
    if options.weights and (len(options.weights) != len(corpora) or not all(w > 0 for w in options.weights)):
        raise ValueError(
            f"--weights {' '.join(map(str, options.weights))}: give a number above 0 for each of the "
            f"{len(corpora)} corpora of --train, which are separated by +"
        )
    if options.streaming and len(corpora) > 1 and not options.weights:
        raise ValueError(f"--streaming of {len(corpora)} corpora needs --weights: how long they are is not known")
    if options.streaming or options.weights:
        which = "--streaming" if options.streaming else "--weights"
        if not options.valid:
            raise ValueError(f"{which} needs --valid: no pairs can be taken out of what is not read as a whole")
        if not (options.max_steps or options.time_budget):
            raise ValueError(f"{which} needs --max_steps or --time_budget: there are no epochs to count")
    folder = Path(options.output_dir)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output_dir {folder} is a file")
    if options.resume and options.overwrite:
        raise ValueError("--resume goes on with a run and --overwrite throws it away; give one of them")
    if folder.exists() and any(folder.iterdir()) and not (options.overwrite or options.resume):
        raise ValueError(
            f"--output_dir {folder} is not empty; choose another, or pass --resume to go on with the run in it, or "
            f"--overwrite to replace it"
        )
    return folder


def find_earlier(checkpoints: Checkpoints, parameters: int, options: Any) -> Path | None:
    """Returns the checkpoint to go on from, if there is one, after a look at whether there is room for more."""
    for name in ("best", "last"):
        recover(checkpoints.folder.parent / name)
    found = None
    if options.resume:
        found = checkpoints.newest_whole(lambda message: print(message, file=sys.stderr))
    else:
        shutil.rmtree(checkpoints.folder, ignore_errors=True)  # of the run that --overwrite gives up
    weights = 4 * parameters  # bytes; AdamW has two more numbers for each
    one = weights * (4 if options.ema_decay else 3) + BESIDE_WEIGHTS
    kept = options.keep_checkpoints + options.keep_best_checkpoints + 1  # one more while it is written
    there = sum(path.stat().st_size for path in checkpoints.folder.parent.rglob("*.safetensors"))
    models = 3 * (weights + BESIDE_WEIGHTS)  # best/ and last/, and one while it is written
    check_space(checkpoints.folder.parent, max(kept * one + models - there, one), "checkpoints and models")
    return found


def check_first_machine(accelerator: Accelerator, checkpoints: Checkpoints) -> None:
    """Refuses to begin anew on one machine while the checkpoints lie on another, which was the first one before.

    Raises:
        ValueError: On every process alike.
    """
    newest = gather_object([max(checkpoints.steps(), default=0)])
    if max(newest) > newest[0]:
        there = f"that of {newest[0]:,} only" if newest[0] else "none"
        raise ValueError(
            f"--resume: process {newest.index(max(newest))} has the checkpoint of update {max(newest):,} in its "
            f"folder, and process 0, which reads and writes them, has {there}; give the machines the ranks that they "
            f"had before (--node_rank, --machine_rank), or copy the run's folder"
        )
