# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Options from a recipe (YAML) with the command line on top; a misspelt one is refused with the nearest known name."""

import dataclasses
import difflib
import re
import sys
import types
import typing
from argparse import RawDescriptionHelpFormatter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from transformers import HfArgumentParser

from ..configuration_tinyseq import TinySeqConfig, option_names

# Decided by the tokenizer, not by whoever trains
NOT_FOR_TRAINING = (
    "kept_heads",
    "vocab_size",
    "pad_token_id",
    "eos_token_id",
    "bos_token_id",
    "decoder_start_token_id",
    "use_cache",
)


def model_options() -> type:
    """Returns a dataclass of the architecture's options, with `TinySeqConfig`'s defaults and explanations."""
    hints = TinySeqConfig.__annotations__
    explained = dict(re.findall(r"^ {8}(\w+): (.+?)(?=^ {8}\w+: |^ *$)", TinySeqConfig.__doc__ or "", re.M | re.S))
    fields = []
    for name in option_names():
        if name in NOT_FOR_TRAINING:
            continue
        kinds = typing.get_args(hints[name]) or (hints[name],)
        kind: Any = float if float in kinds else kinds[0]
        if types.NoneType in kinds:
            kind = kind | None
        help_text = " ".join(explained[name].split()).replace("``", "").replace("%", "%%")
        default = getattr(TinySeqConfig, name)
        fields.append((name, kind, dataclasses.field(default=default, metadata={"help": help_text})))
    return dataclasses.make_dataclass("ModelOptions", fields)


def parse_options(
    option_classes: list[type],
    arguments: list[str],
    description: str,
    prog: str | None = None,
    renamed: Mapping[str, str] = types.MappingProxyType({}),
) -> tuple:
    """Returns one instance of each option class, from the defaults, the recipe and the command line, in that order.

    Args:
        option_classes: Dataclasses whose fields have a `help` in their metadata.
        arguments: The command line. If the first is not an option it names the recipe: a YAML file, or one of those
            that come with tinyseq.
        description: What `--help` begins with.
        prog: The program's name in `--help`.
        renamed: New names of options by their old ones, which go on working, with a word.

    Raises:
        SystemExit: As argparse does, after a message that names the option and the nearest known one.
    """
    parser = Parser(
        option_classes,
        description=description,
        prog=prog,
        allow_abbrev=False,
        formatter_class=HelpFormatter,
        usage="%(prog)s [recipe.yaml] [--option value ...]",
    )
    known = [field.name for options in option_classes for field in dataclasses.fields(options)]
    from_recipe: list[str] = []

    def new_name(name: str) -> str:
        if name not in renamed:
            return name
        print(f"{parser.prog}: {name} is called {renamed[name]} now; its old name will go", file=sys.stderr)
        return renamed[name]

    if arguments and not arguments[0].startswith("-"):
        recipe, arguments = arguments[0], arguments[1:]
        try:
            values = read_recipe(recipe)
        except ValueError as error:
            parser.error(str(error))
        for name, value in ((new_name(name), value) for name, value in values.items()):
            if name not in known:
                parser.error(f"{recipe}: there is no option {name!r}{nearest(str(name), known)}")
            if value is not None:
                from_recipe += [f"--{name}", *(map(str, value) if isinstance(value, list) else [str(value)])]
    arguments = [re.sub(r"(?<=^--)\w+", lambda found: new_name(found[0]), argument) for argument in arguments]
    *options, unknown = parser.parse_args_into_dataclasses(
        [*from_recipe, *arguments], return_remaining_strings=True, look_for_args_file=False
    )
    if unknown:
        name = unknown[0].split("=")[0]
        parser.error(f"there is no option {name!r}{nearest(name.lstrip('-').replace('-', '_'), known, '--')}")
    return tuple(options)


def read_recipe(name: str) -> dict[str, Any]:
    """Returns the options in a YAML file, or in the recipe of that name that comes with tinyseq.

    Raises:
        ValueError: There is no such file, or it is not a mapping of option names to values.
    """
    path = Path(name)
    if not path.is_file():
        here = Path(__file__).parents[1]  # the package
        shipped = {p.stem: p for folder in (here / "recipes", here.parent / "recipes") for p in folder.glob("*.yaml")}
        if path.name.removesuffix(".yaml") not in shipped or len(path.parts) > 2:
            raise ValueError(
                f"there is no recipe {name!r}: give a YAML file or one of {', '.join(sorted(shipped)) or '(none)'}"
            )
        path = shipped[path.name.removesuffix(".yaml")]
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold lines 'option: value', and holds a {type(values).__name__}")
    return values


def nearest(name: str, known: list[str], prefix: str = "") -> str:
    """Returns "; did you mean ...?" if a known name is near, else where to look."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '{prefix}{near[0]}'?" if near else "; --help lists the options"


class Parser(HfArgumentParser):
    """Transformers' parser, for fields whose metadata hold more than argparse knows."""

    def add_argument(self, *names: str, **keywords: Any) -> Any:
        """Adds an option, of what its field says to argparse."""
        keywords.pop("facts", None)
        return super().add_argument(*names, **keywords)


class HelpFormatter(RawDescriptionHelpFormatter):
    """Shows defaults, and each option under its one documented spelling."""

    def _get_help_string(self, action):
        unset = action.default is None or "%(default)" in (action.help or "") or not action.option_strings
        return action.help if unset or action.dest == "help" else f"{action.help} [default: %(default)s]"

    def _format_action_invocation(self, action):
        if not action.option_strings:
            return super()._format_action_invocation(action)
        name = action.option_strings[0] if action.dest != "help" else "-h, --help"
        if action.nargs == 0:
            return name
        return f"{name} {self._format_args(action, self._get_default_metavar_for_optional(action))}"
