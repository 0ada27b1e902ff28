# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What a model card says: quality, use, examples, data, sizes, training, speed, limits. Facts of the training only.

``push.py`` puts it into a README.md and keeps what an author wrote there.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import yaml
from datasets import Dataset
from huggingface_hub import EvalResult
from huggingface_hub.repocard_data import eval_results_to_model_index

from ..corpus.loading import BUILT_IN, corpora_of, is_on_hub
from ..evaluation import METRICS
from ..push_tinyseq import USAGE
from ..text import clean
from ..translation import Translator

NEUTRAL_EXAMPLE = {"source": "A text to translate.", "translation": ""}
LANGUAGE = re.compile(r"[a-z]{2,3}([-_][A-Za-z0-9]{2,8})*")


def our_part(config: dict[str, Any], facts: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """Returns the card's metadata and its text.

    Args:
        config: The model's `config.json`.
        facts: `training.json`, as `train.py` writes it; what is not there is not on the card.
        name: By which the model is loaded: `"owner/name"`, or a path.
    """
    source, target = (facts.get("languages") or [None, None])[:2]
    direction = f"{source} → {target}" if source and target else None
    title = name.rstrip("/").split("/")[-1]
    parts = [
        f"# {title}",
        introduction(facts, direction),
        quality(facts),
        use(facts, name),
        examples(facts),
        data(facts),
        sizes(config, facts),
        training(facts),
        speed(facts),
        limits(config, facts, direction),
    ]
    return metadata(facts, title, source, target), "\n\n".join(part for part in parts if part)


def facts_of_run(
    options: dict[str, Any],
    public: dict[str, Any],
    pairs: Mapping[str, tuple[Sequence[str] | None, int | None]],
    longest_source: int | None,
) -> dict[str, Any]:
    """Returns what a card says of a run before it has any figures.

    Of files only the names, not the folders; of options only those that decide the outcome.

    Args:
        options: Every option of the run and of the model.
        public: Those of them that are nobody's secret.
        pairs: For each set of pairs, where it comes from (`None`: taken out of the training data) and its size
            (`None`: a stream).
        longest_source: Pieces of the longest source in training, if it is known.
    """
    train = options["train"]
    sets: dict[str, Any] = {}
    for name, (files, size) in pairs.items():
        shown = [PurePath(file).name for file in files] if files else ["taken out of the training data"]
        if files == [BUILT_IN]:
            shown = ["tinyseq's built-in English-Spanish corpus"]
        on_hub = next((corpus[0] for corpus in corpora_of(files or []) if is_on_hub(corpus)), None)
        sets[name] = {"files": shown, "data_set": on_hub, "pairs": size}
    sets["train"]["longest_source"] = longest_source
    return {
        "languages": languages_of(options["source"], options["target"], train),
        "data": sets,
        "options": public,
    }


def examples_of(translator: Translator, pairs: Dataset, number: int) -> list[dict[str, str]]:
    """Returns the first pairs with their translations, as the model's own search settings give them."""
    pairs = pairs.select(range(min(number, len(pairs))))
    translations = translator(pairs["source"])
    return [
        {"source": clean(pair["source"]), "translation": translation, "reference": clean(pair["target"])}
        for pair, translation in zip(pairs, translations, strict=True)
    ]


def languages_of(
    source: str | None, target: str | None, files: list[str] | None = None
) -> tuple[str | None, str | None]:
    """Returns the language codes of both sides: as they were named, or as the two files end."""
    corpus = corpora_of(files or [])[0]
    if corpus == [BUILT_IN]:
        source, target = source or "en", target or "es"
    elif len(corpus) == 2:
        ends = (PurePath(file.removesuffix(".gz")).suffix.removeprefix(".") for file in corpus)
        source, target = ("" if end == "txt" else end for end in ends)
    codes = [side.replace("_", "-") if side and LANGUAGE.fullmatch(side) else None for side in (source, target)]
    return codes[0], codes[1]


def metadata(facts: dict[str, Any], title: str, source: str | None, target: str | None) -> dict[str, Any]:
    """Returns the keys of the README's head that the Hub reads."""
    sets = facts.get("data", {})
    results = [
        EvalResult(
            task_type="translation",
            task_name="Translation",
            dataset_type=sets.get(split, {}).get("data_set") or "parallel-text",
            dataset_name=" ".join(sets.get(split, {}).get("files", [split])),
            dataset_split=split,
            metric_type=key,
            metric_value=round(scores[key], 2),
            metric_name=f"{name} {scores[f'{key}_signature']}",
        )
        for split, scores in scored(facts)
        for key, name in titles_in(scores).items()
    ]
    found = {
        "language": [side.split("-")[0] for side in (source, target) if side],
        "library_name": "transformers",
        "pipeline_tag": "translation",
        "tags": ["tinyseq", "translation"],
        "datasets": list(dict.fromkeys(part["data_set"] for part in sets.values() if part.get("data_set"))),
        "metrics": list(dict.fromkeys(result.metric_type for result in results)),
        "model-index": results and eval_results_to_model_index(title, results),
    }
    return {key: value for key, value in found.items() if value}


def scored(facts: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the test scores and the validation scores, those that there are."""
    found = [("test", facts["test"])] if "test" in facts else []
    valid = {key: facts[f"valid_{key}"] for key in METRICS if f"valid_{key}" in facts}
    if valid:
        valid |= {f"{key}_signature": facts[f"{key}_signature"] for key in valid}
        found.append(("validation", {**valid, "sentences": facts.get("valid_scored", ""), "num_beams": 1}))
    return found


def titles_in(scores: dict[str, Any]) -> dict[str, str]:
    """Returns key and title of the metrics that there are: what was scored by an older version may lack the newest."""
    return {key: metric.title for key, metric in METRICS.items() if key in scores}


def introduction(facts: dict[str, Any], direction: str | None) -> str:
    """One sentence: what it is."""
    parameters = facts.get("parameters", 0)
    count = f"{parameters / 1e6:.1f} million" if parameters >= 1e5 else f"{parameters:,}"
    size = f" of {count} parameters" if parameters else ""
    pairs = facts.get("data", {}).get("train", {}).get("pairs")
    trained = f", trained from scratch on {pairs:,} sentence pairs" if pairs else ""
    subject = f"Translates **{direction}**: a" if direction else "A translation model: a"
    return f"{subject} Transformer (encoder and decoder){size}{trained} with tinyseq."


def quality(facts: dict[str, Any]) -> str:
    """A table of scores with their signatures."""
    found = scored(facts)
    if not found:
        return ""
    first = found[0][1]
    titles, rows = titles_in(first), []
    for split, scores in found:
        figures = (f"{scores.get(key, math.nan):.2f}" for key in titles)
        rows.append((split, scores.get("sentences", ""), search_name(scores.get("num_beams", 1)), *figures))
    signatures = ", ".join(f"{title} `{first[f'{key}_signature']}`" for key, title in titles.items())
    note = f"Computed by sacreBLEU on raw text; scores compare only where the signatures are equal: {signatures}."
    return section("Quality", table(f"| set | sentences | search | {' | '.join(titles.values())} |", rows), note)


def search_name(num_beams: int) -> str:
    """Returns how a search with so many beams is called."""
    return "greedy" if num_beams == 1 else f"beam {num_beams}"


def use(facts: dict[str, Any], name: str) -> str:
    """A snippet that runs as it stands, and what it prints."""
    example = next(filter(is_plain, facts.get("examples", [])), NEUTRAL_EXAMPLE)
    prints = f"  # {example['translation']}" if example["translation"] else ""
    shown_name, text = (json.dumps(value, ensure_ascii=False) for value in (name, example["source"]))
    usage = USAGE.format(name=shown_name, text=text, prints=prints)
    of_files = f"```bash\ntinyseq translate {name} < input.txt > output.txt\n```"
    return section("Use", f"{usage} For whole files there is", of_files)


def examples(facts: dict[str, Any]) -> str:
    """A few validation sentences, good or bad as they are."""
    sides = ("source", "translation", "reference")
    rows = [[literally(example[side]) for side in sides] for example in facts.get("examples", [])]
    note = "The first validation sentences, not chosen."
    return section("Examples", note, table("| source | this model | reference |", rows)) if rows else ""


def is_plain(example: dict[str, str]) -> bool:
    """Whether an example can stand in the snippet: on one line of code, and without what would end the code."""
    text = example["source"] + example["translation"]
    return text.isprintable() and not any(mark in text for mark in ("```", "~~~", "<!--"))


def literally(text: str) -> str:
    """Returns `text` as it can stand in a table: its characters mean themselves."""
    return re.sub(r"([\\`*_\[\]|<>!~])", r"\\\1", " ".join(text.split()))


def section(title: str, *parts: str) -> str:
    """Returns a part of the card with its heading."""
    return "\n\n".join([f"## {title}", *parts])


def table(head: str, rows: Iterable[Iterable[Any]]) -> str:
    """Returns a table in Markdown."""
    lines = (f"| {' | '.join(map(str, row))} |" for row in rows)
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *lines])


def data(facts: dict[str, Any]) -> str:
    """What it was trained, validated and tested on."""
    rows = []
    for split, part in facts.get("data", {}).items():
        files = ", ".join(map(literally, part["files"]))
        if part.get("data_set"):
            files = f"[{part['data_set']}](https://huggingface.co/datasets/{part['data_set']})"
        rows.append((split, files, f"{part['pairs']:,}" if part["pairs"] is not None else "read as a stream"))
    return section("Data", table("| set | from | pairs |", rows)) if rows else ""


def sizes(config: dict[str, Any], facts: dict[str, Any]) -> str:
    """The architecture."""
    norm = "before each block (pre-norm)" if config["normalize_before"] else "after each residual sum (post-norm)"
    rows = {
        "layers": f"{config['encoder_layers']} encoder, {config['decoder_layers']} decoder",
        "width (d_model)": config["d_model"],
        "heads": f"{config['encoder_attention_heads']} encoder, {config['decoder_attention_heads']} decoder",
        "feed-forward width": f"{config['encoder_ffn_dim']} encoder, {config['decoder_ffn_dim']} decoder",
        "positions": f"{config['position_embedding_type']}, up to {config['max_position_embeddings']}",
        "LayerNorm": norm,
        "vocabulary": f"{config['vocab_size']:,} pieces for both languages, no unknown token",
    }
    if config.get("kept_heads"):
        kept = sum(len(heads) for layers in config["kept_heads"].values() for heads in layers)
        rows["heads that are left"] = f"{kept}; the others were removed"
    if "parameters" in facts:
        rows["parameters"] = f"{facts['parameters']:,}"
    return section("Model", table("| | |", rows.items()))


def training(facts: dict[str, Any]) -> str:
    """How it was trained, so that it can be done again."""
    if "options" not in facts or "step" not in facts:
        return ""
    passes = f" ({facts['epoch']:.1f} passes over the data)" if "epoch" in facts else ""
    versions = ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())
    listed = yaml.safe_dump(facts["options"], sort_keys=False, allow_unicode=True)
    return section(
        "Training",
        f"{facts['step']:,} updates{passes} in {facts['training_seconds']:,.0f} seconds on\n{facts['machine']}. "
        f"Versions: {versions}.",
        "<details><summary>All options</summary>",
        f"```yaml\n{listed}```",
        "</details>",
    )


def speed(facts: dict[str, Any]) -> str:
    """How fast it trained and translated."""
    lines = []
    if "target_tokens_per_second" in facts:
        lines.append(f"- training: {facts['target_tokens_per_second']:,.0f} target pieces per second")
    test = facts.get("test", {})
    if "sentences_per_second" in test:
        rate, search = test["sentences_per_second"], search_name(test["num_beams"])
        lines.append(f"- translating the test set: {rate:,.1f} sentences per second ({search})")
    machine = f"On the machine named above ({facts.get('machine')}):"
    return section("Speed", machine, "\n".join(lines)) if lines else ""


def limits(config: dict[str, Any], facts: dict[str, Any], direction: str | None) -> str:
    """What not to expect."""
    longest = facts.get("data", {}).get("train", {}).get("longest_source")
    test = facts.get("test", {})
    lines = [
        "It knows the kind of text it was trained on. Other text comes out fluent and wrong, without a warning.",
        "A translation can be wrong in names, numbers and negations; have what matters read by a person.",
        direction and f"One direction only: {direction}.",
        longest and f"The longest source in training had {longest} pieces; a longer one is likely to come out wrong.",
        f"A source or a translation has at most {config['max_position_embeddings']} pieces; `tinyseq translate` "
        f"splits a longer source and says so, `generate` refuses it.",
        test.get("unfinished")
        and f"{test['unfinished']} of the {test['sentences']:,} test translations ran into that limit.",
    ]
    return section("Limits", "\n".join(f"- {line}" for line in lines if line))
