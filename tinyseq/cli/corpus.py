# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The command that looks at parallel text: `tinyseq corpus`."""

import argparse
import gzip
import json
import re
import sys
from contextlib import nullcontext
from typing import Any

from ..corpus.checks import KINDS
from ..files import whole_file
from .common import add_command, add_corpus_options, check_output, write_lines

FIELD_ENDS = re.compile(r"[\t\n\r]")


def add_commands(commands: Any) -> None:
    """Adds the command of this file."""
    command = add_command(commands, run_corpus, "".join(f"\n  {kind:<14}{said}" for kind, said in KINDS.items()))
    command.add_argument(
        "files",
        nargs="+",
        metavar="FILES",
        help="two aligned text files; or one TSV, CSV, JSON lines or Parquet file, plain or .gz; a pattern in quotes, "
        "for shards; a folder or a name on the Hub, of a data set; or 'grammar', the built-in corpus",
    )
    command.add_argument("--test", nargs="+", metavar="FILES", help="test pairs: who else has their sources?")
    add_corpus_options(command, split="train")
    command.add_argument("--dataset_config_name", metavar="C", help="configuration of a data set on the Hub")
    command.add_argument("--dataset_revision", metavar="R", help="branch, tag or commit of a data set on the Hub")
    command.add_argument(
        "--on_bad_row", choices=("stop", "skip"), default="stop", help="at a row that can't be read (default: stop)"
    )
    command.add_argument(
        "--on_bad_bytes",
        choices=("stop", "skip", "replace"),
        help="at bytes that are not UTF-8: as --on_bad_row says (default), or put U+FFFD there",
    )
    command.add_argument(
        "--drop", nargs="+", choices=(*KINDS, "all"), default=(), metavar="KIND", help="pairs to leave out; see below"
    )
    command.add_argument("--json", action="store_true", help="print the report as JSON")
    command.add_argument(
        "--output",
        metavar="FILE.tsv",
        help="where to write the pairs: a TSV with a header, whole or not at all, packed if the name ends in .gz",
    )


def run_corpus(options: argparse.Namespace) -> None:
    """Read parallel text as training does, and report what is wrong with it.

    How many pairs there are and how long, and what was refused or looks wrong, why, and where. Pairs that can't be
    read or have a blank side are never pairs; others that look wrong are counted and, unless --drop names their kind,
    kept. Nothing is trained.

    Examples:
      tinyseq corpus train.en train.de --test test.en test.de
      tinyseq corpus "part-*.tsv" --on_bad_row skip --json
      tinyseq corpus pairs.jsonl --source en --target de --drop duplicate test_pair --output clean.tsv

    Kinds of pairs, for --drop; a pair is counted once, as the first that it is:
    """
    from ..corpus.checks import lengths
    from ..corpus.loading import Corpus, is_on_hub, load_corpus

    check_output(options.output)
    for name in ("dataset_config_name", "dataset_revision"):
        if getattr(options, name) is not None and not is_on_hub(options.files):
            raise ValueError(f"--{name} is for a data set on the Hub, and {' '.join(options.files)} is none")

    def load(files: list[str], split: str, **checks: Any) -> Corpus:
        hub = {"name": options.dataset_config_name, "revision": options.dataset_revision} if is_on_hub(files) else {}
        names = ("source", "target", "on_bad_row", "on_bad_bytes")
        return load_corpus(files, split=split, **{name: getattr(options, name) for name in names}, **hub, **checks)

    test = load(options.test, "test").pairs if options.test else None
    corpus = load(options.files, options.split, drop=options.drop, held_out=test["source"] if test else ())
    if options.output:
        write_pairs(options.output, corpus.pairs)
    overlap = corpus.report.counts["test_pair"]
    sides = {side: lengths(corpus.pairs[side]) for side in ("source", "target")}
    if options.json:
        found = {"pairs": len(corpus.pairs), **sides, "report": corpus.report.to_dict()}
        if test is not None:
            found["test"] = {"pairs": len(test), "overlap": overlap}
        write_lines(sys.stdout.buffer, [json.dumps(found, indent=2, ensure_ascii=False)])
        return
    columns = list(sides["source"])
    lines = [f"pairs: {len(corpus.pairs):,}", " " * 8 + "".join(f"{name.replace('_', ' '):>20}" for name in columns)]
    lines += [f"{side:<8}" + "".join(f"{found[column]:>20,}" for column in columns) for side, found in sides.items()]
    if test is not None:
        lines.append(f"rows with the source of one of the {len(test):,} test pairs: {overlap:,}")
    if str(corpus.report):
        lines += ["", str(corpus.report)]
    write_lines(sys.stdout.buffer, lines)


def write_pairs(path: str, pairs: Any) -> None:
    """Writes a TSV that `load_corpus` reads as the same pairs; what would end a field or a line becomes a space."""
    sides, changed = ("source", "target"), 0
    with whole_file(path) as file:
        packed: Any = nullcontext(file)
        if path.endswith(".gz"):
            packed = gzip.GzipFile("", "wb", fileobj=file, mtime=0)  # the same bytes whenever it is written
        with packed as output:
            write_lines(output, ["\t".join(sides)])  # a header, so that no first pair is taken for one
            for rows in pairs.iter(batch_size=10_000):
                texts = [rows[side] for side in sides]
                changed += sum(FIELD_ENDS.search(text) is not None for side in texts for text in side)
                fields = [[FIELD_ENDS.sub(" ", text) for text in side] for side in texts]
                write_lines(output, ["\t".join(pair) for pair in zip(*fields, strict=True)])
    if changed:
        print(f"tinyseq: {changed:,} texts hold a tab or a line end; {path} has a space in its place", file=sys.stderr)
