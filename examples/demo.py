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

from tinyseq import attention, grammar
from tinyseq.cli import main as cli
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
TIRED = {"animal": "tired", "thing": "wide"}
SPLITS = {
    "test": "like the training sentences",
    "test_combinations": "words that never stood together in training",
    "test_longer": "longer than any sentence in training",
}


# What the README promises, for the splits in whose sentences nothing is longer than in training
LEAST = {"bleu": 97, "exact_match": 93, "pronoun_referents_right": 98}
EXPECTED = {"You are welcome.": "De nada.", "The ball is blue.": "La bola es azul."}
DICTIONARY_BLEU = 35  # a dictionary that translates word by word stays below
LEAST_LOOKED_AT = 90  # percent of the sentences in which a head looks more at the noun that "it" is than at the other
LEAST_SHIFT = 0.3  # by how much more weight a noun has in that head if it is meant than if it is not


def main() -> None:
    """Runs the steps and writes demo_output/results.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if a figure is below what the README promises")
    options = parser.parse_args()
    start = time.perf_counter()
    say("1. Training on 40,000 sentence pairs made by tinyseq/grammar")
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
    valid = noun_weights(translator, "validation")
    heads = {kind: best_head(valid, kind) for kind in ("animal", "thing")}
    results["it"] = {split: {} for split in ("test", "test_combinations")}
    for split, figures in results["it"].items():
        found = noun_weights(translator, split)
        for kind, head in heads.items():
            figures[kind] = {"head": "encoder.{}.{}".format(*head), **figures_of(found, kind, head)}
            print(
                f'{split}: where "it" is the {kind} ("too {TIRED[kind]}"), {figures[kind]["head"]} looks from the '
                f"adjective more at it than at the other noun in {figures[kind]['right']:.1f}% of "
                f"{figures[kind]['sentences']} sentences; mean weight {figures[kind]['meant']:.2f}, and "
                f"{figures[kind]['not_meant']:.2f} where it is not meant"
            )

    results["seconds"] = time.perf_counter() - start
    (OUTPUT / "results.json").write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    say(f"Done in {results['seconds']:.0f} s, of which {results['training_seconds']:.0f} s training. Try it yourself:")
    print(f'  echo "The girl likes the red apples." | tinyseq translate {OUTPUT / "run" / "best"}')
    if options.check and (found := faults(results)):
        sys.exit("\n".join(found))


def noun_weights(translator: Translator, split: str) -> dict[str, np.ndarray]:
    """Measures where the encoder's heads look from the adjective of "it was too tired", "it was too wide".

    Returns:
        `is_animal` (sentences): whether "it" is the animal, and not the thing; `animal` and `thing`
        (sentences, layers, heads): the weight on each of these two nouns.
    """
    pairs = [pair for pair in grammar.generate(split) if pair.referent]
    found: dict[str, list] = {"is_animal": [], "animal": [], "thing": []}
    for start in range(0, len(pairs), 32):
        batch = pairs[start : start + 32]
        sources, targets = [pair.source for pair in batch], [pair.target for pair in batch]
        for pair, maps in zip(
            batch, attention.maps_of_batch(translator.model, translator.tokenizer, sources, targets), strict=True
        ):
            place = [word.lower() for word in grammar.words(pair.target)].index(pair.referent)
            adjective = next(i for i, j in pair.alignment if j == place)
            _, meant, other = grammar.referent_words(pair)
            weights = maps.of_words().encoder[:, :, adjective]  # (layers, heads, source words)
            found["is_animal"].append(meant < other)  # the animal, which does something, comes first
            found["animal"].append(weights[..., min(meant, other)])
            found["thing"].append(weights[..., max(meant, other)])
    return {name: np.array(values) for name, values in found.items()}


def best_head(found: dict[str, np.ndarray], kind: str) -> tuple[int, int]:
    """Returns the layer and the head that give the animal, or the thing, more weight if it is meant than if not."""
    is_meant = found["is_animal"] == (kind == "animal")
    shift = found[kind][is_meant].mean(axis=0) - found[kind][~is_meant].mean(axis=0)
    layer, head = np.unravel_index(shift.argmax(), shift.shape)
    return int(layer), int(head)


def figures_of(found: dict[str, np.ndarray], kind: str, head: tuple[int, int]) -> dict[str, float]:
    """Returns how often a head looks more at the noun that is meant, in percent, and the mean weights on that noun."""
    is_meant = found["is_animal"] == (kind == "animal")
    weights, other = (
        found[name][:, head[0], head[1]] for name in (kind, {"animal": "thing", "thing": "animal"}[kind])
    )
    return {
        "sentences": int(is_meant.sum()),
        "right": float(100 * (weights > other)[is_meant].mean()),
        "meant": float(weights[is_meant].mean()),
        "not_meant": float(weights[~is_meant].mean()),
    }


def faults(results: dict) -> list[str]:
    """Returns what is below the promise, a line each."""
    found = []
    for split in ("test", "test_combinations"):
        for name, least in LEAST.items():
            if results[split][name] < least:
                found.append(f"{split}: {name} is {results[split][name]:.2f}, promised are {least}")
        if results[split]["dictionary_bleu"] >= DICTIONARY_BLEU:
            found.append(f"{split}: the dictionary has BLEU {results[split]['dictionary_bleu']:.2f}")
        for kind, figures in results["it"][split].items():
            shift = figures["meant"] - figures["not_meant"]
            if figures["right"] < LEAST_LOOKED_AT or shift < LEAST_SHIFT:
                found.append(
                    f"{split}: {figures['head']} looks at the {kind} that is meant in {figures['right']:.1f}% of the "
                    f"sentences, with {shift:.2f} more weight, promised are {LEAST_LOOKED_AT} and {LEAST_SHIFT}"
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
