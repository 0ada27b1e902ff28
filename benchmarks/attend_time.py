"""How long `tinyseq attend` works on one sentence, once imports and model are loaded.

    python benchmarks/attend_time.py demo_output/run/best

Each run is a new process, which translates with the model's own search, takes the maps of the returned translation,
makes the table, and makes the page, for which the sentence is translated once more without each head. Times are in
seconds; the first call in a process is the one that a user waits for.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

SENTENCE = (
    "The old animal of the farmer didn't cross the very wide street near the school because it was too tired today."
)


def one_run(model: str) -> dict[str, float]:
    """Returns the seconds of each part of the first call of this process."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    from tinyseq import attention
    from tinyseq.attention import heads, pictures

    loaded = AutoModelForSeq2SeqLM.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    seconds = {}

    def note(name: str, start: float) -> float:
        seconds[name] = time.perf_counter() - start
        return time.perf_counter()

    start = time.perf_counter()
    found = attention.maps(*loaded, SENTENCE)
    start = note("translate and map", start)
    words = found.of_words()
    pictures.table(*pictures.choose(words))
    start = note("table", start)
    without = heads.without_each_head(*loaded, found)
    start = note("translate without each head", start)
    totals = heads.Totals()
    totals.add(words)
    figures = totals.statistics("this sentence alone", heads.removed_heads(loaded[0]))
    page = pictures.attention_page([words], figures, model=model, without=without)
    note("page", start)
    return {**seconds, "all": sum(seconds.values()), "page_kib": len(page.encode()) / 1024}


def main() -> None:
    """Runs the parts in new processes and prints the median and the range of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of a model")
    parser.add_argument("--runs", type=int, default=5, help="processes (default 5)")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_run(options.model)))
        return
    command = [sys.executable, __file__, options.model, "--one"]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        for _ in range(options.runs)
    ]
    print(f"{len(SENTENCE.split())} words, {options.runs} processes, first call of each; seconds: median (range)")
    for name in runs[0]:
        values = [run[name] for run in runs]
        print(f"{name:<28} {statistics.median(values):8.2f} ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
