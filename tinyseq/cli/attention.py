# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The commands that look inside a model: `tinyseq attend | trace | heads | prune`."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from ..files import whole_file
from .common import (
    add_command,
    add_corpus_options,
    add_model_options,
    check_output,
    generate_options,
    load_translator,
    positive,
    typed,
    write_lines,
)

ATTENTIONS = ("encoder", "decoder", "cross")  # as in configuration_tinyseq.py, which waits for Transformers


class Measured(NamedTuple):
    """Pairs that a model takes, to measure it on."""

    sources: list[str]
    targets: list[str]
    links: list[Any] | None  # which words are translations of each other, if that is known
    name: str


def add_commands(commands: Any) -> None:
    """Adds the commands of this file."""
    attend, trace = add_command(commands, run_attend), add_command(commands, run_trace)
    add_model_options(attend)
    add_model_options(trace, searches=False, batches=False)
    for command in (attend, trace):
        command.add_argument("sentence", type=typed, metavar="SENTENCE", help="one sentence, in quotes")
        command.add_argument("--translation", type=typed, metavar="T", help="this one, in place of the model's own")
    attend.add_argument("--nbest", type=positive, default=1, metavar="N", help="the N best of the beam search")
    attend.add_argument("--pieces", action="store_true", help="of pieces of words, as the model has them")
    chosen = attend.add_argument_group("which map, in the table and the PNG (the page has them all)")
    chosen.add_argument("--attention", choices=ATTENTIONS, default="cross", help="default: cross")
    chosen.add_argument("--layer", type=int, default=-1, metavar="L", help="from 0 (default: the last)")
    chosen.add_argument("--head", type=int, metavar="H", help="from 0 (default: the mean of all heads)")
    output = attend.add_argument_group("pictures")
    output.add_argument("--png", metavar="FILE.png", help="that map; with --nbest FILE-1.png, FILE-2.png ...")
    output.add_argument("--html", metavar="FILE.html", help="a page with all maps; one file, no network")
    add_pairs_options(attend, "for the page: measure on it what each head does (default: on this sentence alone)")

    trace.add_argument("--values", type=positive, metavar="N", help="shown of each vector (default 6, on a page 8)")
    trace.add_argument("--layers", choices=("first", "all"), default="first", help="in the text (default: first)")
    trace.add_argument("--html", metavar="FILE.html", help="not the text but a page to click through, with no network")

    heads, prune = add_command(commands, run_heads), add_command(commands, run_prune)
    add_model_options(heads, searches=False)
    add_model_options(prune)
    for command in (heads, prune):
        command.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_pairs_options(heads, "pairs to measure on", required=True)
    add_pairs_options(prune, "pairs to measure the importance of heads on", required=True)
    prune.add_argument("--test", nargs="+", metavar="FILES", help="for BLEU before and after (default: --corpus)")
    what = prune.add_mutually_exclusive_group()
    what.add_argument("--share", type=fraction, default=0.5, metavar="X", help="of all heads to remove (default 0.5)")
    what.add_argument("--heads", nargs="+", metavar="HEAD", help="these, as encoder.0.2: attention, layer, head")
    rounds = "they go in N portions, and importance is measured anew before each (default 6)"
    prune.add_argument("--rounds", type=positive, default=6, metavar="N", help=rounds)
    prune.add_argument("--output", required=True, metavar="FOLDER", help="where to write it; must be new or empty")


def add_pairs_options(command: argparse.ArgumentParser, what: str, required: bool = False) -> None:
    """Adds the options that say which pairs a model is measured on."""
    corpus = command.add_argument_group("corpus")
    corpus.add_argument(
        "--corpus",
        nargs="+",
        required=required,
        metavar="FILES",
        help=f"{what}: two aligned text files, a TSV, CSV, JSON or Parquet file, a data set, or 'grammar', the "
        "built-in corpus",
    )
    add_corpus_options(corpus, split="validation")
    corpus.add_argument("--pairs", type=positive, default=500, metavar="N", help="take the first N (default 500)")


def fraction(text: str) -> float:
    """Reads a part of the whole."""
    number = float(text)
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"{number} must be greater than 0 and less than 1")
    return number


def run_attend(options: argparse.Namespace) -> None:
    """Show where a model looks while it translates a sentence.

    The attention is that of the translation that is returned, beams or not, by words: the columns of a word's pieces
    are added, its rows are averaged. A table goes to standard output; --png and --html make pictures.

    Examples:
      tinyseq attend runs/en-de/best "Two dogs play."
      tinyseq attend runs/en-de/best "Two dogs play." --html dogs.html --corpus test.en test.de
      tinyseq attend runs/en-de/best "Two dogs play." --attention encoder --layer 0 --head 1 --png dogs.png
      tinyseq attend runs/en-de/best "Two dogs play." --num_beams 5 --nbest 3 --html dogs.html
      tinyseq attend runs/en-de/best "Two dogs play." --translation "Zwei Hunde spielen."
    """
    from ..attention import maps, pictures
    from ..attention.heads import Totals, attention_blocks, importance, measure, removed_heads, without_each_head
    from ..attention.maps import beams_for, maps_of_nbest

    search = generate_options(options)
    if options.translation is not None and (search or options.nbest > 1):
        raise ValueError("--translation is looked at as it is: --nbest and the options of the search have no use then")
    if options.corpus and not options.html:
        raise ValueError("--corpus is for the page: give --html, too, or see `tinyseq heads`")
    if options.png and options.html and os.path.realpath(options.png) == os.path.realpath(options.html):
        raise ValueError(f"--png and --html are one file, {options.png}; give each its own")
    check_output(options.png, "--png")
    check_output(options.html, "--html")
    translator = load_translator(options)
    model, tokenizer = translator.model, translator.tokenizer
    corpus = read_pairs(options, options.corpus, options.split, translator) if options.corpus else None
    if options.nbest > 1:
        search.setdefault("num_beams", beams_for(model, options.nbest))
        hypotheses = maps_of_nbest(model, tokenizer, options.sentence, options.nbest, **search)
    else:
        hypotheses = [maps(model, tokenizer, options.sentence, options.translation, **search)]
    shown = hypotheses if options.pieces else [found.of_words() for found in hypotheses]
    where = (options.attention, options.layer, options.head)
    chosen = [pictures.choose(found, *where) for found in shown]

    layers = getattr(shown[0], options.attention).shape[0]
    heads = "mean of all heads" if options.head is None else f"head {options.head}"
    title = f"{options.attention}, layer {options.layer % layers} of 0 to {layers - 1}, {heads}"
    lines = [f"{title}: {pictures.WHAT[options.attention]}, in percent"]
    for found, (weights, rows, columns) in zip(shown, chosen, strict=True):
        lines += ["", f"{found.source}  ->  {found.translation}  ({found.score:.3f} a piece)"]
        lines += ["", pictures.table(weights, rows, columns)]
    write_lines(sys.stdout.buffer, lines)

    if options.png:
        stem, ending = os.path.splitext(options.png)
        for number, (found, (weights, rows, columns)) in enumerate(zip(shown, chosen, strict=True), start=1):
            path = f"{stem}-{number}{ending}" if len(shown) > 1 else options.png
            with whole_file(path) as file:
                pictures.draw_map(weights, columns, rows, file, title=f"{title}\n{found.translation}")
    if options.html:
        try:
            attention_blocks(model)
            can_switch = True
        except ValueError:  # of another family: the page then says that its heads can't be switched off
            can_switch = False
        if corpus is not None:
            how = {"batch_size": options.batch_size, "progress": sys.stderr.isatty()}
            statistics = measure(model, tokenizer, *corpus, **how)
            if can_switch:
                statistics.importance = importance(model, tokenizer, *corpus[:2], **how)
        else:
            totals = Totals()
            totals.add(shown[0])
            statistics = totals.statistics("this sentence alone", removed_heads(model))
        without = None  # of a translation that is given, nothing is translated once more
        if can_switch and options.translation is None:
            without = without_each_head(model, tokenizer, hypotheses[0], **search)
        unit = "pieces" if options.pieces else "words"
        page = pictures.attention_page(shown, statistics, model=options.model, unit=unit, without=without)
        with whole_file(options.html) as file:
            file.write(page.encode())


def run_trace(options: argparse.Namespace) -> None:
    """Show step by step, with the real numbers, how a model translates a sentence.

    Each thing has its shape: embedding, positions, queries, keys and values, heads, masks, softmax, feed-forward, and
    the loop that takes the likeliest piece from BEGIN to END.

    Examples:
      tinyseq trace runs/en-de/best "Two dogs play." | less
      tinyseq trace runs/en-de/best "Two dogs play." --html dogs.html
      tinyseq trace runs/en-de/best "Two dogs play." --translation "Zwei Hunde spielen." --layers all --values 12
    """
    from ..attention.pages import render
    from ..attention.trace import trace

    check_output(options.html, "--html")
    translator = load_translator(options)
    found = trace(translator.model, translator.tokenizer, options.sentence, options.translation)
    values = {} if options.values is None else {"values": options.values}
    if options.html:
        page = render("trace", f"{found.source}: step by step", found.to_data(**values))
        with whole_file(options.html) as file:
            file.write(page.encode())
    else:
        write_lines(sys.stdout.buffer, [found.to_text(layers=options.layers, **values)])


def run_heads(options: argparse.Namespace) -> None:
    """Measure what each attention head does over a corpus.

    Where it looks, how sharply, and how much depends on it.

    Examples:
      tinyseq heads runs/en-de/best --corpus test.en test.de
      tinyseq heads demo_output/run/best --corpus grammar --split test --json

    A head has the role to which more than half of its attention goes, on average over all words. Entropy is in bits: 0
    for a head that looks at one word, 3 for one that looks at eight alike. Importance: by how much the loss of a piece
    changes without the head, in nats, to first order.
    """
    from ..attention.heads import attention_blocks, importance, measure

    translator = load_translator(options)
    model, tokenizer = translator.model, translator.tokenizer
    attention_blocks(model)  # refuses other families before the work
    corpus = read_pairs(options, options.corpus, options.split, translator)
    how = {"batch_size": options.batch_size, "progress": sys.stderr.isatty()}
    statistics = measure(model, tokenizer, *corpus, **how)
    statistics.importance = importance(model, tokenizer, *corpus[:2], **how)
    text = json.dumps(statistics.to_data(), indent=2, ensure_ascii=False) if options.json else str(statistics)
    write_lines(sys.stdout.buffer, [text])


def run_prune(options: argparse.Namespace) -> None:
    """Remove the attention heads on which least depends, and say what that costs.

    The new model is smaller and is used as before. It is written whole or not at all; the old one stays.

    Examples:
      tinyseq prune runs/en-de/best --corpus valid.en valid.de --test test.en test.de --output runs/en-de/pruned
      tinyseq prune demo_output/run/best --corpus grammar --share 0.25 --output pruned
      tinyseq prune runs/en-de/best --heads encoder.0.2 cross.1.0 --corpus valid.en valid.de --output pruned
    """
    from ..attention.heads import Head, heads_kept, number_of_heads
    from ..attention.pruning import prune, prune_least_important
    from ..evaluation import METRICS, score
    from ..files import check_is_free, save_whole
    from ..translation import Translator

    output = Path(options.output)
    check_is_free(output)
    if not output.exists():
        check_output(options.output)
    named = [Head.parse(text) for text in options.heads or ()]
    translator = load_translator(options)
    model, tokenizer = translator.model, translator.tokenizer
    corpus = read_pairs(options, options.corpus, options.split, translator)
    test = read_pairs(options, options.test, "test", translator) if options.test else corpus
    progress = sys.stderr.isatty()
    if named:
        pruned = prune(model, named)
    else:
        count = round(options.share * number_of_heads(model))
        if count == 0:
            raise ValueError(f"--share {options.share} of the heads of this model is less than half a head")
        how = {"rounds": options.rounds, "batch_size": options.batch_size, "progress": progress}
        pruned = prune_least_important(model, tokenizer, *corpus[:2], count, **how)

    def write(aside: Path) -> None:
        pruned.save_pretrained(aside)
        tokenizer.save_pretrained(aside)

    save_whole(output, write)
    figures: dict[str, Any] = {"measured": test.name, "removed": [], "before": {}, "after": {}}
    after = heads_kept(pruned)
    for name, layers in heads_kept(model).items():
        for layer, heads in enumerate(layers):
            figures["removed"] += [str(Head(name, layer, head)) for head in heads if head not in after[name][layer]]
    for when, which in (("before", model), ("after", pruned)):
        found = Translator(which, tokenizer, options.batch_size).translate(
            test.sources, progress=progress, **generate_options(options)
        )
        scores = score(found.texts, test.targets)
        figures[when] = {
            "heads": number_of_heads(which),
            "parameters": sum(parameter.numel() for parameter in which.parameters()),
            **{key: getattr(scores, key) for key in METRICS},
            "bleu_signature": scores.bleu_signature,
        }
    if options.json:
        write_lines(sys.stdout.buffer, [json.dumps(figures, indent=2)])
        return
    lines = [f"removed: {', '.join(figures['removed'])}", f"{'':<12}{'before':>12}{'after':>12}"]
    for name, form in {"heads": ",", "parameters": ",", **dict.fromkeys(METRICS, ".2f")}.items():
        lines.append(
            f"{name:<12}" + "".join(f"{format(figures[when][name], form):>12}" for when in ("before", "after"))
        )
    lines.append(f"measured on {test.name}; BLEU {figures['after']['bleu_signature']}; written to {output}")
    write_lines(sys.stdout.buffer, lines)


def read_pairs(options: argparse.Namespace, files: list[str], split: str, translator: Any) -> Measured:
    """Returns the first pairs of a corpus that the model takes; says how many were passed over."""
    from ..attention.maps import tokenized
    from ..corpus.loading import load_corpus
    from ..text import is_blank

    pairs = load_corpus(files, source=options.source, target=options.target, split=split).pairs
    first = pairs.select(range(min(options.pairs, len(pairs))))
    sources, targets = list(first["source"]), list(first["target"])
    links = links_of_grammar(sources, targets, split) if files == ["grammar"] else None
    limit = translator.source_limit()
    sides = {"source": sources, "target": targets}
    lengths = [[len(ids) for ids in tokenized(translator.tokenizer, texts, side)] for side, texts in sides.items()]
    takes = [
        max(both) <= limit and not is_blank(source) and not is_blank(target)
        for *both, source, target in zip(*lengths, sources, targets, strict=True)
    ]
    places = [i for i, it_takes in enumerate(takes) if it_takes]
    if not places:
        raise ValueError(f"{' '.join(files)}: has no pair of 1 to {limit:,} pieces a side, which the model takes")
    if len(places) < len(takes):
        print(
            f"tinyseq: {len(takes) - len(places):,} of {len(takes):,} pairs of {' '.join(files)} are left out: blank, "
            f"or longer than the {limit:,} pieces the model takes",
            file=sys.stderr,
        )
    return Measured(
        [sources[i] for i in places],
        [targets[i] for i in places],
        [links[i] for i in places] if links is not None else None,
        f"{len(places):,} pairs of {' '.join(files)}" + (f" ({split})" if files == ["grammar"] else ""),
    )


def links_of_grammar(sources: list[str], targets: list[str], split: str) -> list[Any]:
    """Returns which words are translations of each other, for pairs of the built-in corpus in either direction."""
    from .. import grammar

    known = {}
    # A split that `load_corpus` took and the grammar does not know by this name is another word for "validation"
    for pair in grammar.generate(split if split in grammar.SPLITS else "validation"):
        known[pair.source, pair.target] = pair.alignment
        known[pair.target, pair.source] = tuple((j, i) for i, j in pair.alignment)
    return [known[both] for both in zip(sources, targets, strict=True)]
