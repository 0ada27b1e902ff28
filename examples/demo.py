# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The whole path on the built-in English-Spanish corpus: train, evaluate, translate, look at the attention.

Takes less than ten minutes on two CPU cores. Everything it makes lies in demo_output/. With --check it fails if a
figure is below what the README promises.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # train.py lies beside this folder

from tinyseq import attention, cli, grammar
from tinyseq.evaluation import score
from tinyseq.translation import Translator
from train import main as train

OUTPUT = Path("demo_output")
SENTENCES = [
    "You are welcome.",
    "The ball is blue.",
    "The black cat drank the milk.",
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
]
SPLITS = {
    "test": "like the training sentences",
    "test_combinations": "words that never stood together in training",
    "test_longer": "longer than any sentence in training",
}


# What the README promises, for the splits in whose sentences nothing is longer than in training
LEAST = {"bleu": 97, "exact_match": 93, "pronoun_referents_right": 98}
EXPECTED = {"You are welcome.": "De nada.", "The ball is blue.": "La bola es azul."}
DICTIONARY_BLEU = 35  # a dictionary that translates word by word stays below
LEAST_LOOKED_AT = 95  # percent of the sentences with "it" in which one head looks more at the noun that is meant


def main() -> None:
    """Runs the steps and writes demo_output/results.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if a figure is below what the README promises")
    options = parser.parse_args()
    start = time.perf_counter()
    say("1. Training on 40,000 sentence pairs made by tinyseq/grammar.py")
    train(["demo", "--output_dir", str(OUTPUT / "run"), "--overwrite"])
    newest = json.loads((OUTPUT / "run" / "last" / "training.json").read_text(encoding="utf-8"))
    results: dict = {"training_seconds": newest["training_seconds"]}

    say("2. Evaluating, beside a dictionary that translates word by word")
    translator = Translator.from_pretrained(OUTPUT / "run" / "best")
    dictionary = grammar.word_by_word(grammar.generate("train"))
    for split, what in SPLITS.items():
        pairs = grammar.generate(split)
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
        hypotheses = translator.translate(sources, progress=sys.stderr.isatty(), num_beams=1).texts
        scores = score(hypotheses, references)
        pronouns = [(pair, text) for pair, text in zip(pairs, hypotheses, strict=True) if pair.referent]
        right = 100 * sum(grammar.referent_is_right(*both) for both in pronouns) / max(len(pronouns), 1)
        word_by_word = score([dictionary(source) for source in sources], references)
        results[split] = {
            **scores.to_dict(),
            "pronouns": len(pronouns),
            "pronoun_referents_right": right,
            "dictionary_bleu": word_by_word.bleu,
        }
        print(
            f"{split} ({what}): BLEU {scores.bleu:.2f}, exact {scores.exact_match:.1f}%, "
            f"pronoun referents right {right:.1f}% of {len(pronouns)}; dictionary: BLEU {word_by_word.bleu:.2f}"
        )
    print(f"BLEU: {scores.bleu_signature}")

    say("3. Translating")
    results["translations"] = dict(zip(SENTENCES, translator(SENTENCES), strict=True))
    for source, translation in results["translations"].items():
        print(f"  {source}  ->  {translation}")

    say("4. Looking where the translation looks")
    picture, page = OUTPUT / "cross_attention.png", OUTPUT / "attention.html"
    pictures = ["--png", str(picture), "--html", str(page), "--corpus", "grammar"]
    if cli.main(["attend", str(OUTPUT / "run" / "best"), SENTENCES[3], *pictures]):
        sys.exit("tinyseq attend failed")
    print(f"\n{picture}: the same as a picture. {page}: every head of every attention, to look at in a browser")

    say('5. Which head knows what "it" is?')
    head, _ = looked_at(translator, "validation")
    results["it"] = {"head": f"encoder.{head[0]}.{head[1]}"}
    print(f"Encoder layer {head[0]}, head {head[1]}, found on the validation pairs: where the adjective looks.")
    for split in ("test", "test_combinations"):
        _, figures = looked_at(translator, split)
        results["it"][split] = {name: float(values[head]) for name, values in figures.items()}
        print(
            f"{split}: more at the noun that is meant than at the other in {figures['right'][head]:.1f}% of the "
            f"sentences; weight {figures['weight_meant'][head]:.2f} on it, {figures['weight_other'][head]:.2f} on the "
            f"other"
        )

    results["seconds"] = time.perf_counter() - start
    (OUTPUT / "results.json").write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    say(f"Done in {results['seconds']:.0f} s, of which {results['training_seconds']:.0f} s training. Try it yourself:")
    print(f'  echo "The girl likes the red apples." | tinyseq translate {OUTPUT / "run" / "best"}')
    if options.check and (found := faults(results)):
        sys.exit("\n".join(found))


def looked_at(translator: Translator, split: str) -> tuple[tuple[int, int], dict[str, np.ndarray]]:
    """Measures where the encoder's heads look from the adjective of "it was too tired", "it was too wide".

    Returns:
        Layer and head of the one that tells the two nouns apart best; and by layer and head, (layers,
        heads): in how many percent of the sentences it looks more at this noun than at the other, and the mean weight
        on each of the two.
    """
    pairs = [pair for pair in grammar.generate(split) if pair.referent]
    meant, other = [], []
    for start in range(0, len(pairs), 32):
        batch = pairs[start : start + 32]
        sources, targets = [pair.source for pair in batch], [pair.target for pair in batch]
        for pair, maps in zip(
            batch, attention.maps_of_batch(translator.model, translator.tokenizer, sources, targets), strict=True
        ):
            place = [word.lower() for word in grammar.words(pair.target)].index(pair.referent)
            adjective = next(i for i, j in pair.alignment if j == place)
            _, right, wrong = grammar.referent_words(pair)
            weights = maps.of_words().encoder[:, :, adjective]  # (layers, heads, source words)
            meant.append(weights[..., right])
            other.append(weights[..., wrong])
    figures = {
        "right": 100 * np.mean(np.greater(meant, other), axis=0),
        "weight_meant": np.mean(meant, axis=0),
        "weight_other": np.mean(other, axis=0),
    }
    differences = figures["weight_meant"] - figures["weight_other"]
    best = np.unravel_index(differences.argmax(), differences.shape)
    return (int(best[0]), int(best[1])), figures


def faults(results: dict) -> list[str]:
    """Returns what is below the promise, a line each."""
    found = []
    for split in ("test", "test_combinations"):
        for name, least in LEAST.items():
            if results[split][name] < least:
                found.append(f"{split}: {name} is {results[split][name]:.2f}, promised are {least}")
        if results[split]["dictionary_bleu"] >= DICTIONARY_BLEU:
            found.append(f"{split}: the dictionary has BLEU {results[split]['dictionary_bleu']:.2f}")
        if results["it"][split]["right"] < LEAST_LOOKED_AT:
            found.append(
                f"{split}: head {results['it']['head']} looks at the right noun in "
                f"{results['it'][split]['right']:.1f}% of the sentences, promised are {LEAST_LOOKED_AT}"
            )
    for source, target in EXPECTED.items():
        if results["translations"][source] != target:
            found.append(f"{source!r} became {results['translations'][source]!r}, not {target!r}")
    return found


def say(text: str) -> None:
    """Prints a heading."""
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    main()
