# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What happens, step by step, when a model translates a sentence: each number it works with, in order, explained.

Every number is the model's own: `recording.py` listens to one run of it, and nothing is computed a second time.
`story.py` makes the steps of what was heard; `steps.py` shows one.

Shapes are in the words of modeling_tinyseq.py, of one sentence, so without `batch`.
"""

from dataclasses import dataclass
from typing import Any

import torch

from ..text import clean
from ..translation import Translator, quiet
from .maps import as_it_was, begin_token, encode, pieces_of
from .recording import record
from .steps import Step, data_of, text_of, wrapped
from .story import BEGIN, Story


@dataclass
class Trace:
    """All steps of one translation, in order. `str(trace)` is a text to read, `trace["decoder.0.ffn.fc1"]` a step.

    Attributes:
        source: The sentence, as the model gets it.
        translation: What came out or, where a translation was given, that one.
        notes: What to know about the whole, a sentence each.
        steps: All steps, in the order in which they are computed.
    """

    source: str
    translation: str
    notes: list[str]
    steps: list[Step]

    def __getitem__(self, name: str) -> Step:
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(f"there is no step {name!r}; the names are those of trace.steps, such as {self.steps[0].name}")

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, values: int = 6, layers: str = "first") -> str:
        """Returns the trace as a text for a terminal.

        Args:
            values: So many numbers are shown of each vector.
            layers: `first`: only the first layer of encoder and of decoder is written out; `all`: every layer.

        Raises:
            ValueError: `values` is not 1 or more, or `layers` none of the two.
        """
        check_values(values)
        if layers not in ("first", "all"):
            raise ValueError(f"layers={layers!r} must be 'first' or 'all'")
        lines = [line for text in (f"{self.source} -> {self.translation}", *self.notes) for line in wrapped(text)]
        group = ""
        for step in self.steps:
            is_new = step.group != group
            if is_new:
                group = step.group
                lines += ["", f"{f'=== {group} ':=<100}"]
            if layers == "first" and "layer" in group.split() and not group.endswith(" 0"):
                if is_new:
                    last = [other for other in self.steps if other.group == group][-1]
                    lines.append(f"The same steps with weights of its own, {step.name} to {last.name} {last.shape}.")
                continue
            lines += ["", *text_of(step, values)]
        return "\n".join(lines)

    def to_data(self, values: int = 8) -> dict[str, Any]:
        """Returns what the page shows, as JSON can hold it: numbers to four decimals, vectors cut after `values`.

        Raises:
            ValueError: `values` is not 1 or more.
        """
        check_values(values)
        return {
            "source": self.source,
            "translation": self.translation,
            "notes": self.notes,
            "steps": [data_of(step, values) for step in self.steps],
        }


def trace(model: Any, tokenizer: Any, source: str, target: str | None = None) -> Trace:
    """Returns what happens, step by step, when the model translates `source`.

    The translation is found greedily: the likeliest piece at each step, within the limits of the model's generation
    config. One forward pass over it then gives the numbers of all steps of decoding, a row for each.

    Args:
        model: A TinySeq model with its output projection. It is left as it was.
        tokenizer: Its tokenizer.
        source: One sentence.
        target: A translation to follow, in place of the model's own.

    Raises:
        TypeError: A text is no string.
        ValueError: A text is blank or too long, or the model is no TinySeq translation model.
    """
    if getattr(model.config, "model_type", None) != "tinyseq" or not hasattr(model, "lm_head"):
        raise ValueError(
            f"model is a {type(model).__name__}, and a trace follows the layers of TinySeqForConditionalGeneration; "
            f"load one with AutoModelForSeq2SeqLM, or see the attention of other models with tinyseq.attention.maps"
        )
    source_ids = encoded(model, tokenizer, "source", source)
    inputs = {"input_ids": source_ids, "attention_mask": torch.ones_like(source_ids)}
    notes = ["Dropout is off, as always in translation: in training it sets some numbers to zero at random."]
    with as_it_was(model), torch.inference_mode():
        model.eval()
        if target is None:
            greedy = {"num_beams": 1, "do_sample": False, "num_return_sequences": 1}
            begun = Translator(model, tokenizer).generate(source_ids.tolist(), **greedy)  # (1, 1 + target_len)
        else:
            labels = encoded(model, tokenizer, "target", target)
            begun = torch.cat([labels.new_full((1, 1), begin_token(model)), labels], dim=1)
        translation = tokenizer.decode(begun[0], skip_special_tokens=True, clean_up_tokenization_spaces=False)
        if target is None and (model.generation_config.num_beams or 1) > 1:
            with quiet():
                searched = Translator(model, tokenizer)(source, num_return_sequences=1)
            if searched != translation:
                notes.append(
                    f"Steps follow the likeliest piece at each step; the search with "
                    f"{model.generation_config.num_beams} beams that the model's generation config asks for, and "
                    f"`tinyseq translate` makes, gives: {searched}"
                )
        recording = record(model, inputs, begun[:, :-1])

    def pieces(ids: torch.Tensor) -> list[str]:
        return pieces_of(tokenizer, ids[0].tolist())

    story = Story(model, recording, pieces(source_ids), [BEGIN, *pieces(begun[:, 1:-1])])
    story.encoder(source_ids[0].cpu().numpy())
    story.decoder(begun[0].cpu().numpy())
    vocabulary = pieces_of(tokenizer, range(recording["decoding.logits"].shape[-1]))
    story.decoding(begun[0, 1:].cpu().numpy(), vocabulary, translation, is_given=target is not None)
    return Trace(clean(source), translation, notes, story.steps)


def check_values(values: int) -> None:
    """Refuses to show no numbers."""
    if values < 1:
        raise ValueError(f"values={values} must be 1 or more: so many numbers are shown of each vector")


def encoded(model: Any, tokenizer: Any, side: str, text: str) -> torch.Tensor:
    """Returns the ids of a text, (1, length), with the end token; refuses what the model can't translate."""
    if not isinstance(text, str):
        raise TypeError(f"{side} is of type {type(text).__name__}; give one sentence as a str")
    return torch.tensor(encode(model, tokenizer, [text], side), device=model.device)
