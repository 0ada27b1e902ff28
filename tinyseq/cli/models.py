# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The commands that make one model of several and share it: `tinyseq average | card | push`."""

import argparse
import sys
from pathlib import Path
from typing import Any

from .common import add_command, write_lines


def add_commands(commands: Any) -> None:
    """Adds the commands of this file."""
    average = add_command(commands, run_average)
    average.add_argument(
        "models", nargs="+", metavar="CHECKPOINT", help="folders of two models or more, of one shape and tokenizer"
    )
    average.add_argument("--output", required=True, metavar="FOLDER", help="where to write it; must be new or empty")

    card = add_command(commands, run_card)
    push = add_command(commands, run_push)
    for command in (card, push):
        command.add_argument("model", metavar="MODEL", help="folder of a model, as train.py leaves it in best/")
    card.add_argument("name", metavar="NAME", help="owner/name of its repository")
    push.add_argument("name", metavar="NAME", help="owner/name; without an owner it is your own")
    push.add_argument(
        "--private", action="store_true", help="make a new repository private; refuse one that is there and public"
    )
    push.add_argument("--revision", metavar="R", help="branch to push to; made if it is not there")
    push.add_argument("--message", metavar="M", default="Upload tinyseq model", help="of the commit")


def run_average(options: argparse.Namespace) -> None:
    """Make one model of several checkpoints of a run: the mean of their weights.

    Configuration and tokenizer are those of the last one named; what holds of one of them alone, such as its scores,
    is left out.

    Examples:
      tinyseq average runs/en-de/checkpoints/step-* --output runs/en-de/average
      tinyseq average runs/en-de/last runs/en-de/best --output averaged
      tinyseq evaluate runs/en-de/average --source valid.en --reference valid.de

    The weights of the last updates wander around a good place; their mean lies nearer to it, and often scores better
    than any of them. Compare it with best/ on the validation set: after a rate that went down to 0 there is little to
    gain.
    """
    from ..training.checkpoint import average_checkpoints

    average_checkpoints([Path(model) for model in options.models], Path(options.output))


def run_card(options: argparse.Namespace) -> None:
    """Show the model card that a push to a new repository would write.

    In one that has a card, what an author wrote there stays. Nothing is sent.
    """
    from ..hub.push import files_of_a_model, make_card

    folder = Path(options.model)
    own = {path.name: path for path in files_of_a_model(folder)}.get("README.md")
    before = own.read_text(encoding="utf-8-sig") if own else None
    write_lines(sys.stdout.buffer, [make_card(folder, options.name, before).rstrip("\n")])


def run_push(options: argparse.Namespace) -> None:
    """Put a model on the Hugging Face Hub, with its card.

    Weights, tokenizer, code and model card go in one commit, or nothing does. What an author wrote into the README.md
    there is kept.

    Examples:
      tinyseq push runs/en-de/best your-name/tinyseq-en-de
      tinyseq push runs/en-de/best your-name/tinyseq-en-de --private --revision v2

    The token is that of `hf auth login`, or of the variable HF_TOKEN.
    """
    from ..hub.push import push

    how = {"private": options.private or None, "revision": options.revision, "message": options.message}
    write_lines(sys.stdout.buffer, [push(options.model, options.name, **how)])
