# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The commands that translate: `tinyseq translate | evaluate`."""

import argparse
import json
import sys
from contextlib import nullcontext
from typing import Any

from ..files import whole_file
from .common import add_command, add_model_options, check_output, generate_options, load_translator, write_lines


def add_commands(commands: Any) -> None:
    """Adds the commands of this file."""
    translate = add_command(commands, run_translate)
    add_model_options(translate)
    text = "UTF-8 text or its gzip (default: stdin)"
    translate.add_argument("file", nargs="?", default="-", metavar="FILE", help=text)
    translate.add_argument("--output", metavar="FILE", help="written whole or not at all (default: stdout)")

    evaluate = add_command(commands, run_evaluate)
    add_model_options(evaluate)
    evaluate.add_argument("--source", required=True, metavar="FILE", help="UTF-8 text, a sentence a line")
    evaluate.add_argument(
        "--reference", required=True, action="append", metavar="FILE", help="its translation; may be given repeatedly"
    )
    evaluate.add_argument("--output", metavar="FILE", help="where to write the translations")
    evaluate.add_argument(
        "--tokenize", default="13a", metavar="T", help="sacreBLEU's tokenizer: 13a (default), zh, ja-mecab, char ..."
    )
    evaluate.add_argument("--json", action="store_true", help="print the scores as JSON")


def run_translate(options: argparse.Namespace) -> None:
    """Translate a file, or standard input, line for line.

    There are as many lines in the output as in the input, in the same order; a blank line stays blank.

    Examples:
      tinyseq translate runs/en-de/best < news.en > news.de
      tinyseq translate runs/en-de/best news.en.gz --output news.de --num_beams 5
      echo "A dog runs." | tinyseq translate your-name/tinyseq-en-de
    """
    from ..corpus.readers import read_lines

    check_output(options.output)
    lines = list(read_lines(options.file))  # all of them, so that a bad byte is found before anything is written
    translator = load_translator(options)
    translations = translator.stream(lines, progress=sys.stderr.isatty(), **generate_options(options))
    with whole_file(options.output) if options.output else nullcontext(sys.stdout.buffer) as output:
        for translation in translations:
            write_lines(output, [translation])


def run_evaluate(options: argparse.Namespace) -> None:
    """Translate a source file and score the result with BLEU and chrF.

    The scores are those of sacreBLEU, with its signatures. References are compared as they are in the file.

    Examples:
      tinyseq evaluate runs/en-de/best --source test.en --reference test.de
      tinyseq evaluate runs/en-zh/best --source test.en --reference test.zh --tokenize zh --json
      tinyseq evaluate runs/en-de/best --source test.en --reference a.de --reference b.de --output test.hyp
    """
    from ..corpus.readers import read_lines
    from ..evaluation import bleu_metric, score

    check_output(options.output)
    sources = list(read_lines(options.source))
    references = [list(read_lines(path)) for path in options.reference]
    for path, lines in zip(options.reference, references, strict=True):
        if len(lines) != len(sources) or not lines:
            raise ValueError(
                f"{options.source} has {len(sources):,} lines and {path} has {len(lines):,}: each line needs its "
                f"translation on the line of the same number"
            )
    bleu_metric(options.tokenize)  # refuses what it does not know before the work, too
    translator = load_translator(options)
    hypotheses = translator.translate(sources, progress=sys.stderr.isatty(), **generate_options(options)).texts
    if options.output:
        with whole_file(options.output) as output:
            write_lines(output, hypotheses)
    scores = score(hypotheses, references, tokenize=options.tokenize)
    text = json.dumps(scores.to_dict(), indent=2) if options.json else str(scores)
    write_lines(sys.stdout.buffer, [text])
