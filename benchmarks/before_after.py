# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Measures training speed before and after a change: the train.py of two checkouts, by turns, on the same data.

  git worktree add ../before COMMIT
  python benchmarks/before_after.py --data dataset/data/task1 --before ../before

What is counted are target tokens, padding left out, per second, in windows of 10 updates of which the first is left
out; the figure is the ratio of the medians. Nothing else should run on the machine. Checkpoints and evaluations are
not timed: `checkpoint_cost.py` measures the first.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from harness import (
    TRAIN_SCRIPT,
    WINDOW_STEPS,
    add_common_options,
    check_common_options,
    corpus_files,
    machine,
    read_windows,
    run,
    write_json,
)
from training_speed import BATCH_SIZE_TOKENS, SIZES, model_arguments


def main() -> None:
    """Runs both sides by turns, prints the medians and their ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_common_options(parser)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of tinyseq as it was before")
    parser.add_argument("--size", choices=SIZES, default="tiny", help="of the model [default: %(default)s]")
    parser.add_argument("--rounds", type=int, default=4, help="runs of each side, by turns [default: %(default)s]")
    parser.add_argument("--steps", type=int, default=110, help="updates of each run [default: %(default)s]")
    parser.add_argument("--output", type=Path, help="write the figures, every window among them, to this JSON file")
    options = parser.parse_args()
    check_common_options(parser, options)
    if not (options.before / "train.py").is_file():
        parser.error(f"--before {options.before}: there is no train.py in it")
    if options.rounds < 1 or options.steps < 3 * WINDOW_STEPS:
        parser.error(f"--rounds must be 1 or more and --steps at least {3 * WINDOW_STEPS}")
    sides = {"before": options.before.resolve(), "after": TRAIN_SCRIPT.parent}
    windows: dict[str, list[float]] = {name: [] for name in sides}
    with tempfile.TemporaryDirectory(prefix="before_after_") as folder:
        work = Path(folder)
        files = corpus_files(options.data, "train", options.pairs, work)
        valid = corpus_files(options.data, "val", 8, work)
        for round_number in range(options.rounds + 1):  # the first makes the tokenizer and warms the disk up
            order = list(sides.items())
            for name, checkout in order if round_number % 2 else reversed(order):
                output = work / f"{name}-{round_number}"
                arguments: list[object] = [
                    *("--train", *files, "--valid", *valid, "--output_dir", output, "--eval_pairs", 1),
                    *("--max_steps", options.steps if round_number else 20, "--eval_steps", options.steps),
                    *("--log_steps", WINDOW_STEPS, "--batch_size_tokens", BATCH_SIZE_TOKENS),
                    *model_arguments(SIZES[options.size]),
                ]
                if (work / "after-0" / "tokenizer").is_dir():
                    arguments += ["--tokenizer", work / "after-0" / "tokenizer"]
                # The checkout that a script lies in comes first on its path, so that each runs its own package
                run(checkout / "train.py", arguments)
                if round_number:
                    speeds = [line["target_tokens_per_second"] for line in read_windows(output)[1:]]
                    windows[name] += speeds
                    median = statistics.median(speeds)
                    print(f"round {round_number}, {name}: {median:,.0f} target tokens/s", flush=True)
    medians = {name: statistics.median(speeds) for name, speeds in windows.items()}
    ratio = medians["after"] / medians["before"]
    print(f"{options.size}: before {medians['before']:,.0f}, after {medians['after']:,.0f}, ratio {ratio:.3f}")
    if options.output:
        write_json(options.output, {"machine": machine(), "medians": medians, "ratio": ratio, "windows": windows})


if __name__ == "__main__":
    main()
