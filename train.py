# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Trains a translation model on your own parallel text.

  python train.py demo --output_dir runs/demo                        a recipe that comes with tinyseq
  python train.py --train a.en a.de --output_dir runs/mine           two files, line by line
  python train.py my.yaml --learning_rate 1e-3                       a recipe of your own, an option on top
  python train.py my.yaml --resume                                   on from the newest checkpoint, if there is one
  torchrun --nproc_per_node 2 train.py my.yaml                       two processes, on GPUs or on the CPU
  accelerate launch -m tinyseq.train my.yaml                         the same file from the installed package

The run's folder then holds best/ and last/, each a model that from_pretrained takes, checkpoints/, log.jsonl,
curve.png, options.yaml, data_report.json and, if a test set was given, test.json.

Exit code: 0 when the run came to its end; 143, 130 or 138 when SIGTERM, SIGINT (Ctrl-C) or SIGUSR1 ended it, with a
checkpoint from which --resume goes on; 1 after an error, which is the last line on stderr; 2 for a wrong command line.
"""

import errno
import sys
import traceback
from dataclasses import asdict
from typing import Any

from transformers.utils import logging as transformers_logging

from tinyseq.training.distributed import end_process, lost_process
from tinyseq.training.interruption import Interruption, Stopped
from tinyseq.training.options import RENAMED, RunOptions
from tinyseq.training.recipe import model_options, parse_options
from tinyseq.training.run import Run
from tinyseq.training.runtime import keep_freed_memory


def main(arguments: list[str] | None = None) -> None:
    """Reads the options, trains, and turns what ended it into an exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    option_classes = [RunOptions, model_options()]
    options, architecture = parse_options(option_classes, arguments, description=__doc__ or "", renamed=RENAMED)
    try:
        with Interruption() as interruption:
            train(options, asdict(architecture), interruption)
    except Stopped as stop:
        say(str(stop))
        end_process(stop.exit_code)
    except (ValueError, OSError) as error:
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        hint = f". Make room for {options.output_dir}; the same command with --resume goes on" if full else ""
        say(f"error: {error}{hint}")
        end_process(1)
    except Exception as error:
        traceback.print_exc()
        if lost := lost_process(error):
            say(f"error: {lost}")
        end_process(1)


def say(message: str) -> None:
    """Writes a line on stderr, at once, so that those of several processes do not run into each other."""
    sys.stderr.write(f"train.py: {message}\n")


def train(options: RunOptions, architecture: dict[str, Any], interruption: Interruption) -> None:
    """Trains one model; see the module's docstring for what it leaves behind.

    Args:
        options: Of the run.
        architecture: Of the model: options of `TinySeqConfig`.
        interruption: Says when a signal has come.
    """
    keep_freed_memory()
    transformers_logging.disable_progress_bar()
    run = Run.prepare(options, architecture, interruption)
    while run.goes_on:
        # Before the next update and not after the last one, as it may be what the run was interrupted in
        if run.evaluate_if_due():
            continue
        update = run.update()
        run.note(update)
        run.save_if_due(update)
    run.finish()


if __name__ == "__main__":
    main()
