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

sys.path.insert(0, str(Path(__file__).parents[1]))  # train.py lies beside this folder

from tinyseq import attention, grammar
from tinyseq.evaluation import score
from tinyseq.translation import Translator
from tinyseq.visualization import draw_map
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


def main() -> None:
    """Runs the five steps and writes demo_output/results.json."""
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

    say("4. Drawing where the translation looks")
    sentence = SENTENCES[3]
    found = attention.maps(translator.model, translator.tokenizer, sentence)
    picture = OUTPUT / "cross_attention.png"
    draw_map(
        found.cross[-1].mean(axis=0),
        found.source_pieces,
        found.target_pieces,
        picture,
        title="Cross-attention of the last decoder layer, mean over heads",
    )
    print(f"{picture}: which source pieces (columns) each piece of the translation (rows) looks at")

    results["seconds"] = time.perf_counter() - start
    (OUTPUT / "results.json").write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    say(f"Done in {results['seconds']:.0f} s, of which {results['training_seconds']:.0f} s training. Try it yourself:")
    print(f'  echo "The girl likes the red apples." | tinyseq translate {OUTPUT / "run" / "best"}')
    if options.check and (found := faults(results)):
        sys.exit("\n".join(found))


def faults(results: dict) -> list[str]:
    """Returns what is below the promise, a line each."""
    found = []
    for split in ("test", "test_combinations"):
        for name, least in LEAST.items():
            if results[split][name] < least:
                found.append(f"{split}: {name} is {results[split][name]:.2f}, promised are {least}")
        if results[split]["dictionary_bleu"] >= DICTIONARY_BLEU:
            found.append(f"{split}: the dictionary has BLEU {results[split]['dictionary_bleu']:.2f}")
    for source, target in EXPECTED.items():
        if results["translations"][source] != target:
            found.append(f"{source!r} became {results['translations'][source]!r}, not {target!r}")
    return found


def say(text: str) -> None:
    """Prints a heading."""
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    main()
