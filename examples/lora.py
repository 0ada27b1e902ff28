# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Teaches a trained model a new domain with LoRA (Hu et al. 2021, arXiv:2106.09685).

The English-Spanish model of `make demo` writes the Spanish of Spain: a car is a coche. Here it learns Mexico's words:
a car is a carro, and what was a carro is a carretón. The model's own weights stay as they are; small matrices beside
its linear layers are trained, and in the end added to them.

    make demo
    python examples/lora.py demo_output/run/best --output_dir demo_output/mexico
    echo "The doctor sold the car." | tinyseq translate demo_output/mexico/merged

The output folder gets `adapter/` (PEFT loads it on top of the model), `merged/` (a model like any other) and
`results.json`. For a domain of your own, replace `load_domain`: the rest takes any pairs of sentences. The model may
be a MarianMT model too, whose layers have the same names.
"""

import argparse
import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments, set_seed

from tinyseq import grammar
from tinyseq.evaluation import Scores, score
from tinyseq.training.recipe import HelpFormatter
from tinyseq.translation import Translator

ADAPTED = ["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"]  # of every attention and every feed-forward block

# Spain's word / Mexico's. Both are of one gender, so that articles and adjectives stay right
WORDS = """
    coche/carro coches/carros carro/carretón carros/carretones patata/papa patatas/papas bola/pelota bolas/pelotas
    autobús/camión autobuses/camiones valla/cerca vallas/cercas delante/enfrente
    médico/doctor médicos/doctores profesor/maestro profesores/maestros granjero/ranchero granjeros/rancheros
    camarera/mesera camareras/meseras enfadado/enojado enfadada/enojada enfadados/enojados enfadadas/enojadas
    perezoso/flojo perezosa/floja perezosos/flojos perezosas/flojas
    estrecho/angosto estrecha/angosta estrechos/angostos estrechas/angostas
    resbaladizo/resbaloso resbaladiza/resbalosa resbaladizos/resbalosos resbaladizas/resbalosas
"""
MEXICO = dict(pair.split("/") for pair in WORDS.split())
SENTENCES = ["The doctor sold the car.", "The waitress is in front of the bus.", "The girl likes the red apples."]

Pairs = list[tuple[str, str]]  # source, target


@dataclass
class Domain:
    """Sentence pairs of the new domain and of the old one, which the model must not forget."""

    new: Pairs
    old: Pairs
    new_test: Pairs
    old_test: Pairs


def mexican(spanish: str) -> str:
    """Returns a sentence of Spain with Mexico's words."""
    return re.sub(r"\w+", lambda word: MEXICO.get(word[0], word[0]), spanish)


def load_domain(pairs: int) -> Domain:
    """Returns the sentences in which Mexico has another word (new), and as many of those that are the same (old).

    Args:
        pairs: How many pairs of the built-in corpus's training split to look through, and a tenth of its test split.
    """
    found = []
    for split, count in (("train", pairs), ("test", max(pairs // 10, 20))):
        everything = [(pair.source, pair.target, mexican(pair.target)) for pair in grammar.generate(split, count)]
        new = [(source, mexico) for source, spain, mexico in everything if spain != mexico]
        old = [(source, mexico) for source, spain, mexico in everything if spain == mexico]
        found += [new, old[: len(new)]]
    return Domain(*found)


def evaluate(translator: Translator, domain: Domain) -> dict[str, Scores]:
    """Prints and returns the scores on the new and on the old domain."""
    scores = {}
    for name, pairs in {"new": domain.new_test, "old": domain.old_test}.items():
        hypotheses = translator.translate([source for source, _ in pairs], progress=sys.stderr.isatty(), num_beams=1)
        scores[name] = score(hypotheses.texts, [target for _, target in pairs])
        print(f"{name} domain: BLEU {scores[name].bleu:.2f}, exact {scores[name].exact_match:.1f}% of {len(pairs)}")
    return scores


def adapt(translator: Translator, pairs: Pairs, options: argparse.Namespace):
    """Returns the translator's model with an adapter that has learned `pairs`."""
    from peft import LoraConfig, get_peft_model

    lora = LoraConfig(task_type="SEQ_2_SEQ_LM", r=options.rank, lora_alpha=2 * options.rank, target_modules=ADAPTED)
    model = get_peft_model(translator.model, lora)
    trained, parameters = model.get_nb_trainable_parameters()
    print(f"{trained:,} parameters are trained, {100 * trained / parameters:.1f}% of {parameters:,}")
    training = Seq2SeqTrainingArguments(
        output_dir=str(options.output_dir),
        max_steps=options.steps,
        per_device_train_batch_size=options.batch_size,
        train_sampling_strategy="group_by_length",  # little padding
        learning_rate=options.learning_rate,
        warmup_steps=options.steps // 20,
        lr_scheduler_type="linear",
        logging_steps=max(options.steps // 10, 1),
        disable_tqdm=not sys.stderr.isatty(),
        dataloader_pin_memory=torch.cuda.is_available(),  # on a CPU it would only warn
        save_strategy="no",
        report_to="none",
        seed=options.seed,
    )
    tokenizer = translator.tokenizer
    examples = [{**tokenizer(source, text_target=target)} for source, target in pairs]
    collator = DataCollatorForSeq2Seq(tokenizer, model)
    Seq2SeqTrainer(model, training, train_dataset=examples, data_collator=collator).train()
    return model


def main(arguments: list[str] | None = None) -> None:
    """Evaluates, trains the adapter, saves it and the merged model, and evaluates that."""
    options = parse(arguments)
    set_seed(options.seed)
    translator = Translator.from_pretrained(options.model)
    domain = load_domain(options.pairs)

    say("Before")
    before = evaluate(translator, domain)
    old_translations = translator(SENTENCES)

    say(f"Training on {len(domain.new):,} pairs of the new domain and {len(domain.old):,} of the old")
    start = time.perf_counter()
    model = adapt(translator, domain.new + domain.old, options)
    seconds = time.perf_counter() - start
    trained, parameters = model.get_nb_trainable_parameters()

    adapter, merged = options.output_dir / "adapter", options.output_dir / "merged"
    model.save_pretrained(adapter)
    model.merge_and_unload().save_pretrained(merged)
    for folder in (adapter, merged):
        translator.tokenizer.save_pretrained(folder)

    say(f"After {seconds:.0f} s")
    translator = Translator.from_pretrained(merged)
    after = evaluate(translator, domain)
    for source, was, now in zip(SENTENCES, old_translations, translator(SENTENCES), strict=True):
        print(f"  {source}  ->  {was}  ->  {now}")
    results = {
        "trained_parameters": trained,
        "parameters": parameters,
        "training_seconds": seconds,
        "before": {name: scores.to_dict() for name, scores in before.items()},
        "after": {name: scores.to_dict() for name, scores in after.items()},
    }
    text = json.dumps(results, indent=2, ensure_ascii=False) + "\n"
    (options.output_dir / "results.json").write_text(text, encoding="utf-8")
    print(f'Try it yourself:\n  echo "{SENTENCES[0]}" | tinyseq translate {merged}')


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Returns the options; a mistake in them ends the program with a line that says what to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter, allow_abbrev=False)
    parser.add_argument("model", help="folder of a trained English-Spanish model, such as demo_output/run/best")
    parser.add_argument("--output_dir", type=Path, required=True, help="must be new or empty")
    parser.add_argument("--steps", type=int, default=600, help="optimiser updates")
    parser.add_argument("--batch_size", type=int, default=64, help="sentence pairs of an update")
    parser.add_argument("--learning_rate", type=float, default=4e-3, help="after the warm-up; it falls to 0")
    parser.add_argument("--rank", type=int, default=16, help="inner width of the small matrices")
    parser.add_argument("--pairs", type=int, default=40_000, help="pairs of the corpus to look for the domain in")
    parser.add_argument("--seed", type=int, default=0, help="of the adapter's first values and of the data's order")
    options = parser.parse_args(arguments)
    for name in ("steps", "batch_size", "rank", "pairs"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)} must be 1 or more")
    if options.learning_rate <= 0:
        parser.error(f"--learning_rate {options.learning_rate} must be greater than 0")
    if not Path(options.model, "config.json").is_file():
        parser.error(f"{options.model}: there is no model in this folder (no config.json); train one with `make demo`")
    if options.output_dir.exists() and any(options.output_dir.iterdir()):
        parser.error(f"--output_dir {options.output_dir} is not empty; choose another, or remove it first")
    try:
        import peft  # noqa: F401
    except ImportError:
        parser.error("this example needs PEFT: pip install 'tinyseq[lora]'")
    return options


def say(text: str) -> None:
    """Prints a heading."""
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    main()
