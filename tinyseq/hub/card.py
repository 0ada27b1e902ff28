# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What a model card says: quality, use, examples, data, sizes, training, speed, limits. Facts of the training only.

``hub.py`` puts it into a README.md and keeps what an author wrote there.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import yaml
from datasets import Dataset

from ..corpus.loading import BUILT_IN, corpora_of, is_on_hub
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
    parts = [
        f"# {name.rstrip('/').split('/')[-1]}",
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
    return metadata(facts, name, source, target), "\n\n".join(part for part in parts if part)


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
    files = corpora_of(files)[0] if files else None
    if files == [BUILT_IN]:
        sides = [source or "en", target or "es"]
    elif files and len(files) == 2:
        sides = [PurePath(file.removesuffix(".gz")).suffix.removeprefix(".") for file in files]
        sides = ["" if side == "txt" else side for side in sides]
    else:
        sides = [source or "", target or ""]
    codes = [side.replace("_", "-") if LANGUAGE.fullmatch(side) else None for side in sides]
    return codes[0], codes[1]


def metadata(facts: dict[str, Any], name: str, source: str | None, target: str | None) -> dict[str, Any]:
    """Returns the keys of the README's head that the Hub reads."""
    found: dict[str, Any] = {}
    languages = [side.split("-")[0] for side in (source, target) if side]
    if languages:
        found["language"] = languages
    found |= {"library_name": "transformers", "pipeline_tag": "translation", "tags": ["tinyseq", "translation"]}
    sets = facts.get("data", {})
    hub_sets = list(dict.fromkeys(part["data_set"] for part in sets.values() if part.get("data_set")))
    if hub_sets:
        found["datasets"] = hub_sets
    results = []
    for split, scores in scored(facts):
        part = sets.get(split, {})
        results.append(
            {
                "task": {"type": "translation", "name": "Translation"},
                "dataset": {
                    "name": " ".join(part.get("files", [split])),
                    "type": part.get("data_set") or "parallel-text",
                    "split": split,
                },
                "metrics": [
                    {"type": "bleu", "value": round(scores["bleu"], 2), "name": f"BLEU {scores['bleu_signature']}"},
                    {"type": "chrf", "value": round(scores["chrf"], 2), "name": f"chrF2 {scores['chrf_signature']}"},
                ],
            }
        )
    if results:
        found["metrics"] = ["bleu", "chrf"]
        found["model-index"] = [{"name": name.rstrip("/").split("/")[-1], "results": results}]
    return found


def scored(facts: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the test scores and the validation scores, those that there are."""
    found = [("test", facts["test"])] if "test" in facts else []
    if "valid_bleu" in facts:
        names = {"valid_bleu": "bleu", "valid_chrf": "chrf", "bleu_signature": "bleu_signature"}
        names |= {"chrf_signature": "chrf_signature", "valid_scored": "sentences"}
        valid = {short: facts[name] for name, short in names.items() if name in facts}
        found.append(("validation", {**valid, "num_beams": 1}))
    return found


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
    rows = [
        f"| {split} | {scores.get('sentences', '')} | {search(scores.get('num_beams', 1))} | {scores['bleu']:.2f} | "
        f"{scores['chrf']:.2f} |"
        for split, scores in scored(facts)
    ]
    if not rows:
        return ""
    head = "| set | sentences | search | BLEU | chrF2 |\n|---|---|---|---|---|"
    _, first = scored(facts)[0]
    note = (
        "Computed by sacreBLEU on raw text; scores compare only where the signatures are equal: BLEU "
        f"`{first['bleu_signature']}`, chrF2 `{first['chrf_signature']}`."
    )
    return "\n".join(["## Quality", "", head, *rows, "", note])


def search(beams: int) -> str:
    """Returns the words for a number of beams."""
    return "greedy" if beams == 1 else f"beam {beams}"


def use(facts: dict[str, Any], name: str) -> str:
    """A snippet that runs as it stands, and what it prints."""
    example = next(filter(is_plain, facts.get("examples", [])), NEUTRAL_EXAMPLE)
    prints = f"  # {example['translation']}" if example["translation"] else ""
    shown_name, text = (json.dumps(value, ensure_ascii=False) for value in (name, example["source"]))
    usage = USAGE.format(name=shown_name, text=text, prints=prints)
    return f"""## Use

{usage} For whole files there is

```bash
tinyseq translate {name} < input.txt > output.txt
```"""


def examples(facts: dict[str, Any]) -> str:
    """A few validation sentences, good or bad as they are."""
    rows = [
        "| " + " | ".join(cell(example[side]) for side in ("source", "translation", "reference")) + " |"
        for example in facts.get("examples", [])
    ]
    if not rows:
        return ""
    head = "| source | this model | reference |\n|---|---|---|"
    return "\n".join(["## Examples", "", "The first validation sentences, not chosen.", "", head, *rows])


def is_plain(example: dict[str, str]) -> bool:
    """Whether an example can stand in the snippet: on one line of code, and without what would end the code."""
    text = example["source"] + example["translation"]
    return text.isprintable() and not any(mark in text for mark in ("```", "~~~", "<!--"))


def cell(text: str) -> str:
    """Returns `text` as it can stand in a table: its characters mean themselves."""
    return re.sub(r"([\\`*_\[\]|<>!~])", r"\\\1", " ".join(text.split()))


def data(facts: dict[str, Any]) -> str:
    """What it was trained, validated and tested on."""
    rows = []
    for split, part in facts.get("data", {}).items():
        files = ", ".join(cell(file) for file in part["files"])
        if part.get("data_set"):
            files = f"[{part['data_set']}](https://huggingface.co/datasets/{part['data_set']})"
        count = f"{part['pairs']:,}" if part["pairs"] is not None else "read as a stream"
        rows.append(f"| {split} | {files} | {count} |")
    return "\n".join(["## Data", "", "| set | from | pairs |", "|---|---|---|", *rows]) if rows else ""


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
    return "\n".join(
        ["## Model", "", "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]
    )


def training(facts: dict[str, Any]) -> str:
    """How it was trained, so that it can be done again."""
    if "options" not in facts or "step" not in facts:
        return ""
    passes = f" ({facts['epoch']:.1f} passes over the data)" if "epoch" in facts else ""
    versions = ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())
    listed = yaml.safe_dump(facts["options"], sort_keys=False, allow_unicode=True)
    return f"""## Training

{facts["step"]:,} updates{passes} in {facts["training_seconds"]:,.0f} seconds on
{facts["machine"]}. Versions: {versions}.

<details><summary>All options</summary>

```yaml
{listed}```

</details>"""


def speed(facts: dict[str, Any]) -> str:
    """How fast it trained and translated."""
    lines = []
    if "target_tokens_per_second" in facts:
        lines.append(f"- training: {facts['target_tokens_per_second']:,.0f} target pieces per second")
    test = facts.get("test", {})
    if "sentences_per_second" in test:
        lines.append(
            f"- translating the test set: {test['sentences_per_second']:,.1f} sentences per second ("
            f"{search(test['num_beams'])})"
        )
    if not lines:
        return ""
    return "\n".join(["## Speed", "", f"On the machine named above ({facts['machine']}):", "", *lines])


def limits(config: dict[str, Any], facts: dict[str, Any], direction: str | None) -> str:
    """What not to expect."""
    lines = ["It knows the kind of text it was trained on. Other text comes out fluent and wrong, without a warning."]
    lines.append("A translation can be wrong in names, numbers and negations; have what matters read by a person.")
    if direction:
        lines.append(f"One direction only: {direction}.")
    longest = facts.get("data", {}).get("train", {}).get("longest_source")
    if longest:
        lines.append(f"The longest source in training had {longest} pieces; a longer one is likely to come out wrong.")
    lines.append(
        f"A source or a translation has at most {config['max_position_embeddings']} pieces; `tinyseq translate` "
        f"splits a longer source and says so, `generate` refuses it."
    )
    unfinished = facts.get("test", {}).get("unfinished")
    if unfinished:
        lines.append(f"{unfinished} of the {facts['test']['sentences']:,} test translations ran into that limit.")
    return "\n".join(["## Limits", "", *(f"- {line}" for line in lines)])
