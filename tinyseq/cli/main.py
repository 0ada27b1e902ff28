# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The command line: `tinyseq translate | evaluate | attend | trace | heads | prune | corpus | average | card | push`.

Standard output carries the result and nothing else, as UTF-8 whatever the locale; progress, warnings and errors go to
standard error. What the user can put right is one line and exit code 2, never a traceback.

What only a command needs is imported inside it: `--help` waits for what `import tinyseq` needs, and for no more.
"""

import argparse
import gzip
import json
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO

from ..files import is_device, whole_file

if TYPE_CHECKING:
    from ..translation import Translator

FIELD_ENDS = re.compile(r"[\t\n\r]")
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
EXIT_ERROR, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 2, 130, 141  # the last two as a shell counts SIGINT and SIGPIPE

TRANSLATE_EXAMPLES = """\
examples:
  tinyseq translate runs/en-de/best < news.en > news.de
  tinyseq translate runs/en-de/best news.en.gz --output news.de --num_beams 5
  echo "A dog runs." | tinyseq translate your-name/tinyseq-en-de
"""
EVALUATE_EXAMPLES = """\
examples:
  tinyseq evaluate runs/en-de/best --source test.en --reference test.de
  tinyseq evaluate runs/en-zh/best --source test.en --reference test.zh --tokenize zh --json
  tinyseq evaluate runs/en-de/best --source test.en --reference a.de --reference b.de --output test.hyp
"""
AVERAGE_EXAMPLES = """\
examples:
  tinyseq average runs/en-de/checkpoints/step-* --output runs/en-de/average
  tinyseq average runs/en-de/last runs/en-de/best --output averaged
  tinyseq evaluate runs/en-de/average --source valid.en --reference valid.de
The weights of the last updates wander around a good place; their mean lies nearer to it, and often scores better than
any of them. Compare it with best/ on the validation set: after a rate that went down to 0 there is little to gain.
"""
CORPUS_EXAMPLES = """\
examples:
  tinyseq corpus train.en train.de --test test.en test.de
  tinyseq corpus "part-*.tsv" --on_bad_row skip --json
  tinyseq corpus pairs.jsonl --source en --target de --drop duplicate test_pair --output clean.tsv

kinds of pairs, for --drop; a pair is counted once, as the first that it is:
"""
PUSH_EXAMPLES = """\
examples:
  tinyseq push runs/en-de/best your-name/tinyseq-en-de
  tinyseq push runs/en-de/best your-name/tinyseq-en-de --private --revision v2
The token is that of `hf auth login`, or of the variable HF_TOKEN.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    options = make_parser().parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
        return 0
    except BrokenPipeError:  # whoever read our output has had enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the flush at exit does not fail too
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        print("tinyseq: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (ValueError, OSError, ImportError) as error:
        print(f"tinyseq: error: {one_line(error)}", file=sys.stderr)
        return EXIT_ERROR


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser; each command leaves its function in `run`."""
    parser = argparse.ArgumentParser(
        prog="tinyseq",
        description="Translate with small encoder-decoder models, score them, and look inside them. `train.py` trains "
        "them.",
        epilog="`tinyseq COMMAND --help` shows the options of a command, with examples.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    translate = add_command(
        commands,
        "translate",
        "Translate a file, or standard input, line for line.",
        "There are as many lines in the output as in the input, in the same order; a blank line stays blank.",
        TRANSLATE_EXAMPLES,
    )
    translate.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="UTF-8 text or its gzip (default: stdin)"
    )
    translate.add_argument("--output", metavar="FILE", help="written whole or not at all (default: stdout)")
    translate.set_defaults(run=run_translate)

    evaluate = add_command(
        commands,
        "evaluate",
        "Translate a source file and score the result with BLEU and chrF.",
        "The scores are those of sacreBLEU, with its signatures. References are compared as they are in the file.",
        EVALUATE_EXAMPLES,
    )
    evaluate.add_argument("--source", required=True, metavar="FILE", help="UTF-8 text, a sentence a line")
    evaluate.add_argument(
        "--reference",
        required=True,
        action="append",
        metavar="FILE",
        help="its translation; can be given more than once",
    )
    evaluate.add_argument("--output", metavar="FILE", help="where to write the translations")
    evaluate.add_argument(
        "--tokenize", default="13a", metavar="T", help="sacreBLEU's tokenizer: 13a (default), zh, ja-mecab, char ..."
    )
    evaluate.add_argument("--json", action="store_true", help="print the scores as JSON")
    evaluate.set_defaults(run=run_evaluate)

    from .attention import add_attention_commands  # which stands on what is here

    add_attention_commands(commands)

    average = commands.add_parser(
        "average",
        help="Make one model of several checkpoints of a run: the mean of their weights.",
        description="Make one model of several checkpoints of a run: the mean of their weights. Configuration and "
        "tokenizer are those of the last one named; what holds of one of them alone, such as its scores, is left out.",
        epilog=AVERAGE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    average.add_argument(
        "models", nargs="+", metavar="CHECKPOINT", help="folders of two models or more, of one shape and tokenizer"
    )
    average.add_argument("--output", required=True, metavar="FOLDER", help="where to write it; must be new or empty")
    average.set_defaults(run=run_average)

    add_corpus_command(commands)

    card = commands.add_parser(
        "card",
        help="Show the model card that a push to a new repository would write.",
        description="Print the model card that `tinyseq push` would write into a new repository; in one that has a "
        "card, what an author wrote there stays. Nothing is sent.",
        allow_abbrev=False,
    )
    card.add_argument("model", metavar="MODEL", help="folder of a model, as train.py leaves it in best/")
    card.add_argument("name", metavar="NAME", help="owner/name of its repository")
    card.set_defaults(run=run_card)

    push_command = commands.add_parser(
        "push",
        help="Put a model on the Hugging Face Hub, with its card.",
        description="Put a model on the Hugging Face Hub: weights, tokenizer, code and model card in one commit, or "
        "nothing. What an author wrote into the README.md there is kept.",
        epilog=PUSH_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    push_command.add_argument("model", metavar="MODEL", help="folder of a model, as train.py leaves it in best/")
    push_command.add_argument("name", metavar="NAME", help="owner/name; without an owner it is your own")
    push_command.add_argument(
        "--private", action="store_true", help="make a new repository private; refuse one that is there and public"
    )
    push_command.add_argument("--revision", metavar="R", help="branch to push to; made if it is not there")
    push_command.add_argument("--message", metavar="M", default="Upload tinyseq model", help="of the commit")
    push_command.set_defaults(run=run_push)
    return parser


def add_command(
    commands: Any, name: str, title: str, description: str, examples: str, searches: bool = True
) -> argparse.ArgumentParser:
    """Adds a command that loads a model, with the options that all of these have; `searches`: and that translates."""
    command = commands.add_parser(
        name,
        help=title,
        description=f"{title} {description}",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("model", metavar="MODEL", help="folder of a model, or its name on the Hugging Face Hub")
    if searches:
        search = command.add_argument_group("search (default: what the model's generation_config.json says)")
        search.add_argument(
            "--num_beams", type=positive, metavar="N", help="hypotheses kept at each step; 1 is greedy"
        )
        search.add_argument("--length_penalty", type=float, metavar="X", help="above 0 favours long ones, with beams")
        search.add_argument("--max_new_tokens", type=positive, metavar="N", help="longest translation, in pieces")
    machine = command.add_argument_group("machine")
    machine.add_argument("--batch_size", type=positive, default=64, metavar="N", help="sentences at once (default 64)")
    machine.add_argument("--device", metavar="D", help="cpu, cuda, cuda:1 ... (default: cuda if there is one)")
    machine.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help="weights (default: as saved)")
    hub = command.add_argument_group("Hub")
    hub.add_argument("--revision", metavar="R", help="branch, tag or commit of the model's repository")
    hub.add_argument("--trust_remote_code", action="store_true", help="let Python code from the repository run here")
    return command


def add_corpus_command(commands: Any) -> None:
    """Adds `tinyseq corpus`."""
    from ..corpus.checks import KINDS

    command = commands.add_parser(
        "corpus",
        help="Read parallel text as training does, and report what is wrong with it.",
        description="Read parallel text as train.py does, without training: how many pairs there are and how long, "
        "and what was refused or looks wrong, why, and where. Pairs that can't be read or have a blank side are never "
        "pairs; others that look wrong are counted and, unless --drop names their kind, kept.",
        epilog=CORPUS_EXAMPLES + "".join(f"  {kind:<14}{meaning}\n" for kind, meaning in KINDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument(
        "files",
        nargs="+",
        metavar="FILES",
        help="two aligned text files; or one TSV, CSV, JSON lines or Parquet file, plain or .gz; a pattern in quotes, "
        "for shards; a folder or a name on the Hub, of a data set; or 'grammar', the built-in corpus",
    )
    command.add_argument(
        "--test", nargs="+", metavar="FILES", help="test pairs, likewise: who else has their sources?"
    )
    command.add_argument("--source", metavar="S", help="language code or column of the source side")
    command.add_argument("--target", metavar="T", help="language code or column of the target side")
    command.add_argument("--split", default="train", metavar="S", help="split of a data set (default: train)")
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
    command.set_defaults(run=run_corpus)


def positive(text: str) -> int:
    """Reads an argument that counts something."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} must be 1 or more")
    return number


def run_translate(options: argparse.Namespace) -> None:
    """`tinyseq translate`."""
    from ..corpus.loading import read_lines

    check_output(options.output)
    lines = list(read_lines(options.file))  # all of them, so that a bad byte is found before anything is written
    translator = load_translator(options)
    translations = translator.stream(lines, progress=sys.stderr.isatty(), **generate_options(options))
    with whole_file(options.output) if options.output else nullcontext(sys.stdout.buffer) as output:
        for translation in translations:
            write_lines(output, [translation])


def run_evaluate(options: argparse.Namespace) -> None:
    """`tinyseq evaluate`."""
    from ..corpus.loading import read_lines
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


def run_average(options: argparse.Namespace) -> None:
    """`tinyseq average`."""
    from pathlib import Path

    from ..training.checkpoint import average_checkpoints

    average_checkpoints([Path(model) for model in options.models], Path(options.output))


def run_corpus(options: argparse.Namespace) -> None:
    """`tinyseq corpus`."""
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
    lines = [
        f"pairs: {len(corpus.pairs):,}",
        "        " + "".join(f"{column.replace('_', ' '):>20}" for column in columns),
    ]
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


def run_card(options: argparse.Namespace) -> None:
    """`tinyseq card`."""
    from pathlib import Path

    from ..hub.push import files_of_a_model, make_card

    folder = Path(options.model)
    own = {path.name: path for path in files_of_a_model(folder)}.get("README.md")
    before = own.read_text(encoding="utf-8-sig") if own else None
    write_lines(sys.stdout.buffer, [make_card(folder, options.name, before).rstrip("\n")])


def run_push(options: argparse.Namespace) -> None:
    """`tinyseq push`."""
    from ..hub.push import push

    url = push(
        options.model,
        options.name,
        private=options.private or None,
        revision=options.revision,
        message=options.message,
    )
    write_lines(sys.stdout.buffer, [url])


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


def one_line(error: BaseException) -> str:
    """Returns an error's message, which for some of Transformers' is a page, as one line."""
    return textwrap.shorten(str(error), 500, placeholder=" ...") or type(error).__name__


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
