# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Measures training speed: tinyseq's train.py against Transformers' MarianMT with Seq2SeqTrainer, side by side.

  python benchmarks/training_speed.py --data dataset/data/task1
  python benchmarks/training_speed.py --data dataset/data/task1 --size tiny --with-malloc --output speed.json
  python benchmarks/training_speed.py --data dataset/data/task1 --size miniature --pairs 400 --rounds 1 --seconds 3

What is counted are target tokens, padding left out, per second. Both sides train models of the same sizes on the same
Multi30k pairs, with one tokenizer and the same dropout and label smoothing, each in processes of its own, by turns.
Every run is cut into windows of 10 updates, of which the first is left out. The figures are only valid for the machine
that they were measured on, and nothing else should run on it.
"""

import argparse
import itertools
import math
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

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
    sgemm_flops,
    write_json,
)
from marian_peer import RunToMatch, sentences_for

from tinyseq import TinySeqConfig
from tinyseq.batching.encoding import EncodedPairs
from tinyseq.batching.stream import token_budget_batches

BATCH_SIZE_TOKENS = 2048
SIZES: dict[str, dict[str, int]] = {
    "small": {"d_model": 256, "ffn": 1024, "layers": 3, "heads": 4, "vocab_size": 8000},
    "tiny": {"d_model": 128, "ffn": 256, "layers": 4, "heads": 4, "vocab_size": 9000},
    "miniature": {"d_model": 32, "ffn": 64, "layers": 1, "heads": 4, "vocab_size": 400},  # to try the script
}


@dataclass
class Side:
    """One line of the table, and all its windows so far: target tokens per second, and seconds."""

    name: str
    is_peer: bool
    environment: dict[str, str] = field(default_factory=dict)
    steps: int = 0
    windows: list[tuple[float, float]] = field(default_factory=list)


def main() -> None:
    """Measures each size, prints a table each, and writes all of it as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_common_options(parser)
    parser.add_argument(
        "--size",
        choices=[*SIZES, "both"],
        default="both",
        help="small (d_model 256, 3+3 layers), tiny (d_model 128, 4+4 layers), both of these, or miniature, which "
        "only tries the script [default: %(default)s]",
    )
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side, by turns [default: %(default)s]")
    parser.add_argument(
        "--seconds", type=float, default=45, help="least seconds that a run is timed for [default: %(default)s]"
    )
    parser.add_argument(
        "--with-malloc",
        action="store_true",
        help="also measure the peer with glibc's malloc told by environment variables to keep freed memory, which "
        "train.py does by itself",
    )
    parser.add_argument("--output", type=Path, help="write the figures, every window among them, to this JSON file")
    options = parser.parse_args()
    check_common_options(parser, options)
    if options.rounds < 1 or options.seconds <= 0:
        parser.error(f"--rounds {options.rounds} must be 1 or more and --seconds {options.seconds} greater than 0")

    results: dict = {"machine": machine(), "batch_size_tokens": BATCH_SIZE_TOKENS, "sizes": {}}
    for size in ["small", "tiny"] if options.size == "both" else [options.size]:
        with tempfile.TemporaryDirectory(prefix="training_speed_") as work:
            results["sizes"][size] = measure(size, options, Path(work))
    if options.output:
        write_json(options.output, results)


def measure(size: str, options: argparse.Namespace, work: Path) -> dict:
    """Measures all sides at one size, prints their table and returns their figures."""
    sides = [Side("tinyseq", is_peer=False), Side("MarianMT + Seq2SeqTrainer", is_peer=True)]
    if options.with_malloc:
        sides.append(Side("the same, malloc kept", is_peer=True, environment=KEEP_FREED_MEMORY))
    train_files = corpus_files(options.data, "train", options.pairs, work)
    valid_files = corpus_files(options.data, "val", 8, work)  # train.py evaluates at the end; let that be short
    calibration = work / "calibration"

    def train(side: Side, steps: int, folder: Path) -> None:
        """Trains one model for `steps` updates; the first run of all makes the tokenizer."""
        if side.is_peer:
            arguments = [
                "--like",
                calibration,
                "--output-dir",
                folder,
                "--max-steps",
                steps,
                "--log-steps",
                WINDOW_STEPS,
            ]
            run(PEER_SCRIPT, arguments, side.environment)
            return
        arguments = [
            *("--train", *train_files, "--valid", *valid_files, "--output_dir", folder),
            *("--max_steps", steps, "--log_steps", WINDOW_STEPS, "--eval_steps", steps, "--eval_pairs", 1),
            *("--batch_size_tokens", BATCH_SIZE_TOKENS, *model_arguments(SIZES[size])),
        ]
        if folder != calibration:
            arguments += ["--tokenizer", calibration / "tokenizer"]
        run(TRAIN_SCRIPT, arguments)

    print(f"{size}: {', '.join(f'{name} {value}' for name, value in SIZES[size].items())}", flush=True)
    for number, side in enumerate(sides):
        folder = work / f"calibration{number or ''}"
        train(side, 3 * WINDOW_STEPS, folder)
        cycles = math.ceil(options.seconds / seconds_per_step(folder) / CYCLE_STEPS)
        side.steps = WINDOW_STEPS + cycles * CYCLE_STEPS
    peak = 0.0
    for round_number in range(1, options.rounds + 1):
        for side in sides:
            peak = max(peak, sgemm_flops())
            folder = work / f"{round_number}-{sides.index(side)}"
            train(side, side.steps, folder)
            windows = timed_windows(folder)
            side.windows += windows
            median = statistics.median(speed for speed, _ in windows)
            print(f"  round {round_number}, {side.name}: {median:,.0f} target tokens/s", flush=True)

    like = RunToMatch(calibration)
    pairs = like.encoded_pairs()
    flops_per_token = training_flops(like.config, pairs) / pairs.target_tokens
    updates = token_budget_batches(pairs, BATCH_SIZE_TOKENS, seed=0, block=0)
    figures = [figures_of(side, flops_per_token, peak) for side in sides]
    print_table(figures, peak, flops_per_token)
    return {
        **SIZES[size],
        "pieces": len(like.tokenizer),
        "pairs": len(pairs),
        "target_tokens_per_update_tinyseq": pairs.target_tokens / len(updates),
        "target_tokens_per_update_peer": sentences_for(BATCH_SIZE_TOKENS, pairs) * pairs.target_tokens / len(pairs),
        "training_flops_per_target_token": flops_per_token,
        "sgemm_flops_per_second": peak,
        "sides": figures,
    }


def timed_windows(run_folder: Path) -> list[tuple[float, float]]:
    """Returns target tokens per second and seconds of each window of a run but the first."""
    lines = read_windows(run_folder)
    return [
        (line["target_tokens_per_second"], line["training_seconds"] - before["training_seconds"])
        for before, line in itertools.pairwise(lines)
    ]


def model_arguments(size: dict[str, int]) -> list[object]:
    """Returns the options of train.py that make a model of these sizes."""
    return [
        *("--vocab_size", size["vocab_size"], "--d_model", size["d_model"]),
        *("--encoder_layers", size["layers"], "--decoder_layers", size["layers"]),
        *("--encoder_attention_heads", size["heads"], "--decoder_attention_heads", size["heads"]),
        *("--encoder_ffn_dim", size["ffn"], "--decoder_ffn_dim", size["ffn"]),
    ]


def training_flops(config: TinySeqConfig, pairs: EncodedPairs) -> int:
    """Returns the floating-point operations that the matrix products of one pass over `pairs` need, in training.

    A product of (n, k) and (k, m) takes 2 n k m; its backward pass is two products of that size. Padding, which need
    not be computed, is not counted. What causal self-attention hides is: most implementations compute it.
    """
    d_model, vocab = config.d_model, config.vocab_size
    forward = 0
    for source, target in zip(map(len, pairs.sources), map(len, pairs.targets), strict=True):
        # Self-attention: Q, K, V and output projections, then scores and weighted sum
        encoder_layer = 8 * source * d_model**2 + 4 * source**2 * d_model
        encoder_layer += 4 * source * d_model * config.encoder_ffn_dim
        decoder_layer = 8 * target * d_model**2 + 4 * target**2 * d_model
        # Cross-attention: Q and output of the target, K and V of the source
        decoder_layer += 4 * target * d_model**2 + 4 * source * d_model**2 + 4 * target * source * d_model
        decoder_layer += 4 * target * d_model * config.decoder_ffn_dim
        forward += config.encoder_layers * encoder_layer + config.decoder_layers * decoder_layer
        forward += 2 * target * d_model * vocab  # output projection
    return 3 * forward


def figures_of(side: Side, flops_per_token: float, peak: float) -> dict:
    """Returns what is reported of one side."""
    speeds = [speed for speed, _ in side.windows]
    seconds = sum(seconds for _, seconds in side.windows)
    median = statistics.median(speeds)
    return {
        "name": side.name,
        "steps_per_run": side.steps,
        "median": median,
        "least": min(speeds),
        "most": max(speeds),
        "overall": sum(speed * window_seconds for speed, window_seconds in side.windows) / seconds,
        "timed_seconds": seconds,
        "share_of_sgemm_peak": median * flops_per_token / peak,
        "windows": speeds,
    }


def print_table(figures: list[dict], peak: float, flops_per_token: float) -> None:
    """Prints one line for each side; the ratio is tinyseq's median over that side's."""
    titles = ("median", "least", "most", "overall", "windows", "of peak", "ratio")
    print(f"\n  {'target tokens/s':26}" + "".join(f"{title:>9}" for title in titles))
    for side in figures:
        speeds = "".join(f"{side[name]:9,.0f}" for name in ("median", "least", "most", "overall"))
        ratio = figures[0]["median"] / side["median"]
        print(f"  {side['name']:26}{speeds}{len(side['windows']):9}{side['share_of_sgemm_peak']:9.1%}{ratio:9.2f}")
    print(
        f"  of peak: {flops_per_token / 1e6:.1f} MFLOP of matrix products per target token, over the {peak / 1e9:.0f} "
        f"GFLOP/s of a 2048 x 2048 float32 product\n",
        flush=True,
    )


if __name__ == "__main__":
    main()
