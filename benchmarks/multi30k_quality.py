# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Measures translation quality at equal training time: tinyseq's recipe against MarianMT with Seq2SeqTrainer.

  python benchmarks/multi30k_quality.py --data dataset/data/task1
  python benchmarks/multi30k_quality.py --data dataset/data/task1 --skip-ours --search-minutes 4
  python benchmarks/multi30k_quality.py --data dataset/data/task1 --pairs 400 --minutes 0.1 --recipe my_miniature.yaml

First tinyseq is trained with its recipe. Then MarianMT of the same sizes is trained on the same pairs, with tinyseq's
tokenizer, for the same number of seconds of training, once with each learning rate; the one with the best BLEU on the
validation set (greedy search) counts. Both translate test_2016_flickr with the same beam search, and are scored by
sacreBLEU, cased, on raw text. Seconds of training leave out evaluation, saving and start; train on a quiet machine.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from harness import (
    CYCLE_STEPS,
    KEEP_FREED_MEMORY,
    PEER_SCRIPT,
    TRAIN_SCRIPT,
    WINDOW_STEPS,
    add_common_options,
    check_common_options,
    corpus_files,
    machine,
    read_windows,
    run,
    seconds_per_step,
    write_json,
)
from marian_peer import RunToMatch, marian_like
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from tinyseq.batching.stream import token_budget_batches
from tinyseq.corpus.loading import load_corpus
from tinyseq.evaluation import METRICS, score
from tinyseq.translation import Translator

RECIPE = TRAIN_SCRIPT.parent / "recipes" / "multi30k_en_de.yaml"
NUM_BEAMS = 5
TIMING_STEPS = WINDOW_STEPS + CYCLE_STEPS  # of the runs that only find out how long an update takes


def main() -> None:
    """Trains both sides, scores them, prints a table and writes the figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_common_options(parser)
    parser.add_argument("--recipe", type=Path, default=RECIPE, help="tinyseq's recipe [default: %(default)s]")
    parser.add_argument(
        "--minutes",
        type=float,
        help="training time of both sides; the recipe's number of updates is replaced by as many as fit. By default "
        "the recipe's updates, and for the peer the time that they took",
    )
    parser.add_argument(
        "--learning-rates",
        "--learning_rates",
        type=float,
        nargs="+",
        default=[5e-4, 1e-3, 2e-3],
        metavar="RATE",
        help="highest learning rates that the peer is trained with, the best to count [default: %(default)s]",
    )
    parser.add_argument(
        "--search-minutes",
        type=float,
        help="choose the peer's learning rate by shorter runs of this length; then only the chosen one is "
        "trained with for the whole time",
    )
    parser.add_argument(
        "--with-malloc",
        action="store_true",
        help="give the peer what train.py has by itself: glibc's malloc told to keep freed memory",
    )
    parser.add_argument("--skip-ours", action="store_true", help="take tinyseq's run from --work, of an earlier call")
    parser.add_argument("--skip-peer", action="store_true", help="train and score tinyseq only")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("runs/multi30k_quality"),
        help="folder of all runs; those of an earlier call are replaced [default: %(default)s]",
    )
    parser.add_argument("--output", type=Path, help="JSON file for the figures; by default results.json in --work")
    options = parser.parse_args()
    check_common_options(parser, options)
    for name in ("minutes", "search_minutes"):
        value = getattr(options, name)
        if value is not None and value <= 0:
            parser.error(f"--{name.replace('_', '-')} {value} must be greater than 0")
    if not options.recipe.is_file():
        parser.error(f"--recipe {options.recipe}: there is no such file")
    ours = options.work / "tinyseq"
    if options.skip_ours and not (ours / "test.json").is_file():
        parser.error(f"--skip-ours: there is no finished run in {ours}; leave it out, or name another --work")

    transformers_logging.disable_progress_bar()
    results: dict[str, Any] = {
        "machine": machine(),
        "pairs": options.pairs,
        "num_beams": NUM_BEAMS,
        "options": {name: str(value) for name, value in vars(options).items()},
    }
    if not options.skip_ours:
        train_ours(options, ours)
    results["tinyseq"] = ours_figures(ours)
    show("tinyseq", results["tinyseq"])
    if not options.skip_peer:
        seconds = 60 * options.minutes if options.minutes else results["tinyseq"]["training_seconds"]
        results["peer"] = train_peer(options, ours, seconds)
        show("MarianMT + Seq2SeqTrainer", results["peer"])
    write_json(options.output or options.work / "results.json", results)


def train_ours(options: argparse.Namespace, folder: Path) -> None:
    """Trains tinyseq with the recipe, for the time asked for or as many updates as the recipe says."""
    data = options.work / "data"
    train_files = corpus_files(options.data, "train", options.pairs, data)
    arguments: list[object] = [options.recipe, "--train", *train_files, "--overwrite", "--log_steps", WINDOW_STEPS]
    whole: list[object] = [
        *("--valid", *corpus_files(options.data, "val", options.pairs, data)),
        *("--test", *corpus_files(options.data, "test_2016_flickr", options.pairs, data)),
        *("--num_beams", NUM_BEAMS, "--bleu_tokenize", "13a", "--output_dir", folder),
    ]
    if options.minutes:
        timing = options.work / "tinyseq_timing"
        few = corpus_files(options.data, "val", 8, data)  # it evaluates at its end; let that be short
        steps = ["--max_steps", TIMING_STEPS, "--eval_steps", TIMING_STEPS]
        run(TRAIN_SCRIPT, [*arguments, "--valid", *few, *steps, "--output_dir", timing])
        whole += ["--max_steps", max(round(60 * options.minutes / seconds_per_step(timing)), 1)]
    run(TRAIN_SCRIPT, [*arguments, *whole], quiet=False)


def ours_figures(folder: Path) -> dict[str, Any]:
    """Returns what is reported of tinyseq's run."""
    like = RunToMatch(folder)
    last = read_windows(folder)[-1]
    model = AutoModelForSeq2SeqLM.from_pretrained(folder / "best")
    return {
        "parameters": model.num_parameters(only_trainable=True),
        "training_seconds": last["training_seconds"],
        "steps": last["step"],
        "epochs": last["epoch"],
        "learning_rate": like.options["learning_rate"],
        # not train.py's own figure, which may be of the first pairs only
        "valid": translate_and_score(folder / "best", like.options["valid"], num_beams=1)["bleu"],
        "test": json.loads((folder / "test.json").read_text(encoding="utf-8")),
        "options": like.options,
    }


def train_peer(options: argparse.Namespace, ours: Path, seconds: float) -> dict[str, Any]:
    """Trains the peer with each learning rate, and returns what is reported of the best.

    Args:
        options: The command line.
        ours: tinyseq's run, whose sizes, tokenizer and pairs the peer takes.
        seconds: Of training.
    """
    like = RunToMatch(ours)
    batch_sentences = sentences_per_update(like)

    def train(folder: Path, steps: int, learning_rate: float) -> None:
        arguments: list[object] = ["--like", ours, "--output-dir", folder, "--max-steps", steps]
        arguments += ["--batch-sentences", batch_sentences, "--learning-rate", learning_rate]
        run(PEER_SCRIPT, arguments, KEEP_FREED_MEMORY if options.with_malloc else None)

    timing = options.work / "peer_timing"
    train(timing, TIMING_STEPS, options.learning_rates[0])
    step_seconds = seconds_per_step(timing)

    def search(name: str, search_seconds: float) -> dict[float, tuple[float, Path]]:
        """Returns the BLEU on the validation set and the folder of a run with each learning rate."""
        found = {}
        for learning_rate in options.learning_rates:
            folder = options.work / f"peer_{name}{learning_rate:g}"
            train(folder, max(round(search_seconds / step_seconds), 1), learning_rate)
            bleu = translate_and_score(folder / "model", like.options["valid"], num_beams=1)["bleu"]
            last = read_windows(folder)[-1]
            print(
                f"peer, learning rate {learning_rate:g}: {last['step']} updates in {last['training_seconds']:.0f} s, "
                f"validation BLEU {bleu:.2f} (greedy)",
                flush=True,
            )
            found[learning_rate] = bleu, folder
        return found

    found = search("search_" if options.search_minutes else "", 60 * (options.search_minutes or seconds / 60))
    best = max(found, key=lambda learning_rate: found[learning_rate][0])
    valid, folder = found[best]
    if options.search_minutes:
        folder = options.work / f"peer_{best:g}"
        train(folder, max(round(seconds / step_seconds), 1), best)
        valid = translate_and_score(folder / "model", like.options["valid"], num_beams=1)["bleu"]
    last = read_windows(folder)[-1]
    return {
        "parameters": marian_like(like.config).num_parameters(only_trainable=True),  # positions are fixed
        "training_seconds": last["training_seconds"],
        "steps": last["step"],
        "epochs": last["epoch"],
        "learning_rate": best,
        "valid": valid,
        "test": translate_and_score(
            folder / "model",
            like.options["test"],
            num_beams=NUM_BEAMS,
            length_penalty=like.options["length_penalty"],
        ),
        "batch_sentences": batch_sentences,
        "search_minutes": options.search_minutes or seconds / 60,
        "valid_of_learning_rates": {f"{rate:g}": bleu for rate, (bleu, _) in found.items()},
        "malloc_kept": options.with_malloc,
    }


def sentences_per_update(like: RunToMatch) -> int:
    """Returns how many pairs an update of tinyseq's run has on average."""
    pairs = like.encoded_pairs()
    batches = token_budget_batches(pairs, like.options["batch_size_tokens"], like.options["seed"], block=0)
    return max(round(len(pairs) / len(batches) * like.options["gradient_accumulation_steps"]), 1)


def translate_and_score(model_folder: Path, files: list[str], **generate_options: Any) -> dict[str, Any]:
    """Returns the scores of a model's translations of two aligned files."""
    pairs = load_corpus(files).pairs
    model = AutoModelForSeq2SeqLM.from_pretrained(model_folder)
    translator = Translator(model, AutoTokenizer.from_pretrained(model_folder))
    hypotheses = translator(list(pairs["source"]), **generate_options)
    return score(hypotheses, list(pairs["target"]), tokenize="13a").to_dict()


def show(name: str, figures: dict[str, Any]) -> None:
    """Prints what a side reached."""
    test = figures["test"]
    lines = [
        f"\n{name}: {figures['parameters'] / 1e6:.2f} M parameters, learning rate {figures['learning_rate']:g}",
        f"  trained             {figures['training_seconds']:.0f} s, {figures['steps']} updates, "
        f"{figures['epochs']:.1f} epochs",
        f"  val, greedy         BLEU  {figures['valid']:5.2f}",
        *(
            f"  test_2016_flickr    {metric.title:<5} {test[key]:5.2f}  beam {NUM_BEAMS}, {test[f'{key}_signature']}"
            for key, metric in METRICS.items()
        ),
    ]
    print("\n".join(lines), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
