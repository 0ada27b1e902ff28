# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What the commands share: their parsers, the options of those that load a model, and what is read and written.

Every command is parsed before PyTorch and Transformers are there. So the files of this folder import at their top only
what takes no time, and each command imports what it needs inside its function.
"""

import argparse
import inspect
import os
import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from ..files import is_device

if TYPE_CHECKING:
    from ..translation import Translator

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def add_command(commands: Any, run: Callable[[argparse.Namespace], None], more: str = "") -> argparse.ArgumentParser:
    """Adds the command that `run_NAME` runs; its docstring is the help: a title, what it does, examples and `more`."""
    title, _, rest = (inspect.getdoc(run) or "").partition("\n\n")
    description, _, examples = rest.partition("\n\n")
    command = commands.add_parser(
        run.__name__.removeprefix("run_"),
        help=title,
        description=textwrap.fill(f"{title} {description}", shutil.get_terminal_size().columns - 2),
        epilog=examples + more,
        formatter_class=argparse.RawDescriptionHelpFormatter,  # examples keep their lines
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    return command


def add_model_options(command: argparse.ArgumentParser, searches: bool = True, batches: bool = True) -> None:
    """Adds what `load_translator` asks for; `searches`: and `generate_options`, too."""
    command.add_argument("model", metavar="MODEL", help="folder of a model, or its name on the Hugging Face Hub")
    if searches:
        search = command.add_argument_group("search (default: what the model's generation_config.json says)")
        search.add_argument(
            "--num_beams", type=positive, metavar="N", help="hypotheses kept at each step; 1 is greedy"
        )
        search.add_argument("--length_penalty", type=float, metavar="X", help="above 0 favours long ones, with beams")
        search.add_argument("--max_new_tokens", type=positive, metavar="N", help="longest translation, in pieces")
    machine = command.add_argument_group("machine")
    if batches:
        machine.add_argument(
            "--batch_size", type=positive, default=64, metavar="N", help="sentences at once (default 64)"
        )
    else:
        command.set_defaults(batch_size=1)
    machine.add_argument("--device", metavar="D", help="cpu, cuda, cuda:1 ... (default: cuda if there is one)")
    machine.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help="weights (default: as saved)")
    hub = command.add_argument_group("Hub")
    hub.add_argument("--revision", metavar="R", help="branch, tag or commit of the model's repository")
    hub.add_argument("--trust_remote_code", action="store_true", help="let Python code from the repository run here")


def add_corpus_options(group: Any, split: str) -> None:
    """Adds which sides and which split of a corpus are read; `split` is the default."""
    group.add_argument("--source", metavar="S", help="language code or column of the source side")
    group.add_argument("--target", metavar="T", help="language code or column of the target side")
    group.add_argument("--split", default=split, metavar="S", help=f"split of a data set (default: {split})")


def positive(text: str) -> int:
    """Reads an argument that counts something."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} must be 1 or more")
    return number


def typed(text: str) -> str:
    """Reads a text of the command line, which is UTF-8 whatever the locale."""
    try:
        return os.fsencode(text).decode("utf-8")
    except UnicodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not UTF-8") from error


def load_translator(options: argparse.Namespace) -> "Translator":
    """Returns the model as the options want it; a model that is not there is one line."""
    from safetensors import SafetensorError
    from transformers.utils import logging

    from ..translation import Translator

    is_folder = os.path.isdir(options.model)
    if not is_folder and not HUB_NAME.fullmatch(options.model):
        raise ValueError(f"{options.model}: there is no such folder (looked from {os.getcwd()})")
    configs = ("config.json", "adapter_config.json")
    if is_folder and not any(os.path.isfile(os.path.join(options.model, name)) for name in configs):
        raise ValueError(f"{options.model}: holds no config.json, so it is not the folder of a model")
    logging.disable_progress_bar()
    names = ("device", "dtype", "revision", "trust_remote_code", "batch_size")
    try:
        return Translator.from_pretrained(options.model, **{name: getattr(options, name) for name in names})
    except SafetensorError as error:
        raise ValueError(f"{options.model}: its weights are damaged ({one_line(error)}); get it again") from error
    except OSError as error:
        if is_folder:
            raise
        raise ValueError(
            f"{options.model}: there is no such folder (looked from {os.getcwd()}), and the Hugging Face Hub gave no "
            f"such model: {one_line(error)}"
        ) from error


def generate_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the search options that were given; the model's own hold for the rest."""
    names = ("num_beams", "length_penalty", "max_new_tokens")
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def check_output(path: str | None, option: str = "--output") -> None:
    """Refuses a place that can't be written, before the work; `option` is the one that named it."""
    if path is None or is_device(path):
        return
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise ValueError(f"{option} {path}: is a folder; give the name of a file")
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ValueError(f"{option} {path}: the folder {folder} is not there, or may not be written")


def write_lines(output: BinaryIO, lines: Sequence[str]) -> None:
    """Writes UTF-8 lines, each with its LF, and sends them off."""
    output.write("".join(f"{line}\n" for line in lines).encode())
    output.flush()


def one_line(error: BaseException) -> str:
    """Returns an error's message, which for some of Transformers' is a page, as one line."""
    return textwrap.shorten(str(error), 500, placeholder=" ...") or type(error).__name__
