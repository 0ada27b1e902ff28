# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What each head of a model does, measured over a corpus: where it looks, how sharply, and how much depends on it.

A head is named by its attention ("encoder", "decoder" or "cross"), its layer and its number there, both from 0.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from tqdm.auto import tqdm

from ..configuration_tinyseq import ATTENTIONS
from ..translation import filled_up, source_tensors
from .maps import (
    AttentionMaps,
    as_it_was,
    as_text,
    begin_token,
    encode,
    maps_of_batch,
    teacher_forced,
    translate,
)

MOST = 0.5  # a head has the role to which more than this share of its attention goes, on average
Links = Sequence[tuple[int, int]]  # (source word, target word), from 0


class Head(NamedTuple):
    """One head of a model; written `encoder.0.2`."""

    attention: str
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.attention}.{self.layer}.{self.head}"

    @classmethod
    def parse(cls, text: str) -> "Head":
        """Returns the head that is written `encoder.0.2`.

        Raises:
            ValueError: It is written otherwise.
        """
        match text.split("."):
            case [name, layer, head] if name in ATTENTIONS and layer.isdecimal() and head.isdecimal():
                return cls(name, int(layer), int(head))
        raise ValueError(f"{text!r} is no head; write ATTENTION.LAYER.HEAD, such as encoder.0.2 or cross.1.0")


# ---------------------------------------------------------------------------------------------------------------------
# Where heads look
# ---------------------------------------------------------------------------------------------------------------------


@dataclass
class HeadStatistics:
    """What each head does over a corpus, in words and not in pieces. Each array is (layers, heads) of one attention.

    A head that was removed has NaN everywhere.

    Attributes:
        measured: On what, for people to read.
        entropy: By attention: of the rows, in bits, on average: 0 looks at one word, 3 at eight alike.
        distance: By attention: mean number of words between a word and what it looks at; not for "cross".
        weights: By attention and role: the share of the attention that goes there, over the rows where there is such
            a word. For "encoder": previous word, same word, next word, end token. For "decoder", whose rows are what
            is being written: last word (the one just read), word before it, begin token. For "cross": same position,
            end token and, where links are known, alignment.
        importance: By attention: how much depends on the head (see `importance`), or `None`.
    """

    measured: str
    entropy: dict[str, np.ndarray]
    distance: dict[str, np.ndarray]
    weights: dict[str, dict[str, np.ndarray]]
    importance: dict[str, np.ndarray] | None = None

    def role(self, name: str, layer: int, head: int) -> str:
        """Returns the role to which most of a head's attention goes; "mixed" if none has more than half of it."""
        shares = {role: share[layer, head] for role, share in self.weights[name].items()}
        if any(np.isnan(share) for share in shares.values()):
            return "removed"
        best = max(shares, key=lambda role: shares[role])
        return best if shares[best] > MOST else "mixed"

    def to_data(self) -> dict[str, Any]:
        """Returns the figures by attention, layer and head, as JSON can hold them."""

        def figure(array: np.ndarray | None, place: tuple[int, int]) -> float | None:
            return None if array is None or np.isnan(array[place]) else round(float(array[place]), 5)

        data: dict[str, Any] = {"measured": self.measured}
        for name in ATTENTIONS:
            layers, heads = self.entropy[name].shape
            data[name] = [
                [
                    {
                        "entropy": figure(self.entropy[name], (layer, head)),
                        "distance": figure(self.distance.get(name), (layer, head)),
                        "role": self.role(name, layer, head),
                        "weights": {role: figure(share, (layer, head)) for role, share in self.weights[name].items()},
                        "importance": figure(self.importance[name] if self.importance else None, (layer, head)),
                        "removed": self.role(name, layer, head) == "removed",
                    }
                    for head in range(heads)
                ]
                for layer in range(layers)
            ]
        return data

    def __str__(self) -> str:
        """Returns a table for each attention, a line for each head."""
        lines = [f"measured on {self.measured}"]
        for name in ATTENTIONS:
            columns = {"entropy": self.entropy[name]}
            if name in self.distance:
                columns["distance"] = self.distance[name]
            columns |= self.weights[name]
            if self.importance is not None:
                columns["importance"] = self.importance[name]
            widths = [max(len(title), 6) + 2 for title in columns]
            titles = "".join(f"{title:>{size}}" for title, size in zip(columns, widths, strict=True))
            lines += ["", f"{name:<8}  head{titles}  role"]
            for layer, head in np.ndindex(self.entropy[name].shape):
                cells = [
                    f"{'-':>{size}}"
                    if np.isnan(array[layer, head])
                    else f"{array[layer, head]:>{size}.{4 if title == 'importance' else 2}f}"
                    for (title, array), size in zip(columns.items(), widths, strict=True)
                ]
                lines.append(f"layer {layer:<2}  {head:>4}" + "".join(cells) + f"  {self.role(name, layer, head)}")
        return "\n".join(lines)


def measure(
    model: Any,
    tokenizer: Any,
    sources: Sequence[str],
    targets: Sequence[str],
    links: Sequence[Links] | None = None,
    measured: str | None = None,
    *,
    batch_size: int = 32,
    progress: bool = False,
) -> HeadStatistics:
    """Returns what each head does while the model reads `sources` and writes `targets`.

    Args:
        model: An encoder-decoder of Transformers that has eager attention.
        tokenizer: Its tokenizer.
        sources: Sentences.
        targets: Their translations.
        links: For each pair which words are translations of each other, if that is known. Words are those of
            `AttentionMaps.of_words`.
        measured: What this is measured on, for people to read.
        batch_size: Pairs at once.
        progress: Whether to draw a bar on stderr.

    Raises:
        ValueError: There is no pair, or one that is blank or too long.
    """
    check_pairs(sources, targets, links)
    totals = Totals()
    with tqdm(total=len(sources), unit=" pairs", disable=not progress) as bar:
        for batch in batches(sources, batch_size):
            found = maps_of_batch(model, tokenizer, [sources[i] for i in batch], [targets[i] for i in batch])
            for i, one in zip(batch, found, strict=True):
                totals.add(one.of_words(), links[i] if links is not None else None)
            bar.update(len(batch))
    return totals.statistics(measured or f"{len(sources):,} pairs", removed_heads(model))


def check_pairs(sources: Sequence[str], targets: Sequence[str], links: Sequence[Links] | None = None) -> None:
    """Refuses sources, targets and links that are no pairs."""
    if not sources:
        raise ValueError("there is no pair to measure heads on")
    for name, others in (("targets", targets), ("links", links)):
        if others is not None and len(others) != len(sources):
            raise ValueError(f"there are {len(sources)} sources and {len(others)} {name}; each source needs its own")


def batches(sources: Sequence[str], batch_size: int) -> Iterator[list[int]]:
    """Yields indices, sentences of like length together: little padding, and little memory but for the longest."""
    by_length = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    for start in range(0, len(sources), batch_size):
        yield by_length[start : start + batch_size]


class Totals:
    """Sums over the rows of many maps; see `HeadStatistics`."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, str], np.ndarray] = {}
        self.rows: dict[tuple[str, str], int] = {}

    def add(self, found: AttentionMaps, links: Links | None = None) -> None:
        """Adds the maps of the words of one pair."""
        for name in ATTENTIONS:
            weights = getattr(found, name).astype(np.float64)  # (layers, heads, rows, columns)
            rows, columns = np.indices(weights.shape[2:])
            with np.errstate(divide="ignore", invalid="ignore"):
                information = np.where(weights > 0, -weights * np.log2(weights), 0)
            self.count(name, "entropy", information.sum(-1))
            if name != "cross":
                self.count(name, "distance", (weights * abs(rows - columns)).sum(-1))
            for role, places in role_masks(found, name, links).items():
                has_one = places.any(-1)
                self.count(name, role, (weights * places).sum(-1)[..., has_one])

    def count(self, name: str, figure: str, values: np.ndarray) -> None:
        """Adds (layers, heads, rows) to the sum of a figure."""
        key = name, figure
        self.sums[key] = self.sums.get(key, 0) + values.sum(-1)
        self.rows[key] = self.rows.get(key, 0) + values.shape[-1]

    def statistics(self, measured: str, removed: dict[str, np.ndarray] | None = None) -> HeadStatistics:
        """Returns the means; of a head that is not there, by attention (layers, heads), NaN."""
        means: dict[str, dict[str, np.ndarray]] = {name: {} for name in ATTENTIONS}
        for (name, figure), total in self.sums.items():
            rows = self.rows[name, figure]
            if rows:
                means[name][figure] = np.where(removed[name] if removed else False, np.nan, total / rows)
        return HeadStatistics(
            measured,
            entropy={name: means[name].pop("entropy") for name in ATTENTIONS},
            distance={name: means[name].pop("distance") for name in ATTENTIONS if name != "cross"},
            weights=means,
        )


def role_masks(found: AttentionMaps, name: str, links: Links | None) -> dict[str, np.ndarray]:
    """Returns for each role of an attention which columns of each row are of it: booleans, (rows, columns)."""
    rows, columns = np.indices(getattr(found, name).shape[2:])
    if name == "decoder":
        return {"last word": columns == rows, "word before it": columns == rows - 1, "begin token": columns == 0}
    end = columns == len(found.source_pieces) - 1
    if name == "encoder":
        return {
            "previous word": columns == rows - 1,
            "same word": columns == rows,
            "next word": columns == rows + 1,
            "end token": end,
        }
    masks = {"same position": columns == rows, "end token": end}
    if links is not None:
        masks["alignment"] = np.zeros(rows.shape, dtype=bool)
        for source_word, target_word in links:
            masks["alignment"][target_word, source_word] = True
    return masks


# ---------------------------------------------------------------------------------------------------------------------
# How much depends on them
# ---------------------------------------------------------------------------------------------------------------------


def attention_blocks(model: Any) -> dict[str, list[Any]]:
    """Returns the attention blocks of each layer, by attention.

    Raises:
        ValueError: The model's layers are not laid out as those of TinySeq, BART and Marian.
    """
    try:
        encoder, decoder = model.get_encoder().layers, model.get_decoder().layers
        blocks = {
            "encoder": [layer.self_attn for layer in encoder],
            "decoder": [layer.self_attn for layer in decoder],
            "cross": [layer.encoder_attn for layer in decoder],
        }
        for block in [*blocks["encoder"], *blocks["decoder"], *blocks["cross"]]:
            _ = block.out_proj, block.head_dim
    except AttributeError as error:
        raise ValueError(
            f"heads of a {model.config.model_type!r} model can't be reached: its layers are not laid out as those of "
            f"TinySeq, BART and Marian ({error})"
        ) from error
    return blocks


def head_counts(model: Any) -> dict[str, int]:
    """Returns by attention the number of heads of a layer, the removed ones too."""
    encoder, decoder = model.config.encoder_attention_heads, model.config.decoder_attention_heads
    return {"encoder": encoder, "decoder": decoder, "cross": decoder}


def heads_kept(model: Any) -> dict[str, list[list[int]]]:
    """Returns by attention and layer the numbers of the heads that are there."""
    config = model.config
    if getattr(config, "kept_heads", None) is not None:
        return {name: [list(heads) for heads in layers] for name, layers in config.kept_heads.items()}
    layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers, "cross": config.decoder_layers}
    return {name: [list(range(count)) for _ in range(layers[name])] for name, count in head_counts(model).items()}


def number_of_heads(model: Any) -> int:
    """Returns how many heads are there, in all layers of all attentions."""
    return sum(len(heads) for layers in heads_kept(model).values() for heads in layers)


def removed_heads(model: Any) -> dict[str, np.ndarray] | None:
    """Returns by attention which heads are not there: booleans, (layers, heads); `None` if all are."""
    if getattr(model.config, "kept_heads", None) is None:
        return None
    removed = {}
    for name, layers in model.config.kept_heads.items():
        removed[name] = np.ones((len(layers), model.config.heads(name)), dtype=bool)
        for layer, heads in enumerate(layers):
            removed[name][layer, heads] = False
    return removed


@contextmanager
def gated(model: Any, gates: dict[str, torch.Tensor]) -> Iterator[None]:
    """The model with the output of each head multiplied by a number: 0 switches it off, 1 leaves it as it is.

    Args:
        model: Laid out as TinySeq, BART or Marian.
        gates: By attention, (batch, layers, heads): each sentence of the batch, and all its beams, has its own.
    """

    def multiply_by(gate: torch.Tensor, head_dim: int):
        def multiply(_module: nn.Module, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
            states = arguments[0].unflatten(-1, (-1, head_dim))  # (batch or batch * beams, length, heads, head_dim)
            of_rows = gate.repeat_interleave(states.shape[0] // gate.shape[0], dim=0)
            gated = states * of_rows[:, None, :, None]  # in float32, whatever the model's type
            return (gated.to(states.dtype).flatten(-2),)

        return multiply

    handles = []
    kept = heads_kept(model)
    try:
        for name, blocks in attention_blocks(model).items():
            for layer, block in enumerate(blocks):
                gate = gates[name][:, layer, kept[name][layer]]
                handles.append(block.out_proj.register_forward_pre_hook(multiply_by(gate, block.head_dim)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def all_on(model: Any, batch: int) -> dict[str, torch.Tensor]:
    """Returns gates that change nothing: ones, by attention, (batch, layers, heads)."""
    return {
        name: torch.ones(batch, len(heads_kept(model)[name]), count, device=model.device)
        for name, count in head_counts(model).items()
    }


def importance(
    model: Any,
    tokenizer: Any,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    batch_size: int = 32,
    progress: bool = False,
) -> dict[str, np.ndarray]:
    """Returns how much depends on each head, by attention, (layers, heads); NaN for a head that is not there.

    The gradient of a sentence's loss with respect to a gate on the head's output, its absolute value, summed over the
    sentences and divided by their target pieces (Michel et al. 2019, arXiv:1905.10650, Eq. 2): to first order, by how
    much the loss of a piece changes, in nats, if the head is switched off.

    Args:
        model: Laid out as TinySeq, BART or Marian.
        tokenizer: Its tokenizer.
        sources: Sentences.
        targets: Their translations.
        batch_size: Pairs at once.
        progress: Whether to draw a bar on stderr.

    Raises:
        ValueError: There is no pair, or one that is blank or too long.
    """
    check_pairs(sources, targets)
    found = {name: np.zeros(gates.shape[1:]) for name, gates in all_on(model, 1).items()}
    pieces = 0
    with as_it_was(model), tqdm(total=len(sources), unit=" pairs", disable=not progress) as bar:
        model.eval()
        for batch in batches(sources, batch_size):
            source_ids = encode(model, tokenizer, [sources[i] for i in batch], "source")
            target_ids = encode(model, tokenizer, [targets[i] for i in batch], "target")
            gates = {name: gate.requires_grad_() for name, gate in all_on(model, len(batch)).items()}
            with torch.enable_grad(), gated(model, gates):
                labels = filled_up(model, target_ids, -100)
                output = model(**source_tensors(model, source_ids), labels=labels)
                count = int((labels >= 0).sum())
                gradients = torch.autograd.grad(output.loss * count, list(gates.values()))
            for name, gradient in zip(gates, gradients, strict=True):
                found[name] += gradient.abs().sum(0).double().cpu().numpy()
            pieces += count
            bar.update(len(batch))
    removed = removed_heads(model)
    return {
        name: np.where(removed[name] if removed else False, np.nan, total / pieces) for name, total in found.items()
    }


ROWS_AT_ONCE = 64  # sentences, each with another head switched off, that are translated together


def without_each_head(
    model: Any, tokenizer: Any, found: AttentionMaps, **generate_options: Any
) -> dict[str, list[list[dict[str, Any] | None]]]:
    """Returns what becomes of a translation when one head is switched off: by attention, layer and head.

    Each is a dict: `text`, the translation that the model makes without the head; and `loss`, by how much the mean
    log-probability of a piece of the translation that it makes with the head falls. `None`: the head is not there.

    Args:
        model: Laid out as TinySeq, BART or Marian.
        tokenizer: Its tokenizer.
        found: The maps of the translation, as the model made it.
        generate_options: Those that the translation was made with.
    """
    kept = heads_kept(model)
    each = [Head(name, layer, head) for name in ATTENTIONS for layer, heads in enumerate(kept[name]) for head in heads]
    begun = [begin_token(model), *found.target_ids]
    result: dict[str, list[list[dict[str, Any] | None]]] = {
        name: [[None] * gates.shape[2] for _ in range(gates.shape[1])] for name, gates in all_on(model, 1).items()
    }
    with as_it_was(model), torch.inference_mode():
        model.eval()
        for start in range(0, len(each), ROWS_AT_ONCE):
            some = each[start : start + ROWS_AT_ONCE]
            sources = [found.source_ids] * len(some)
            gates = all_on(model, len(some))
            for row, head in enumerate(some):
                gates[head.attention][row, head.layer, head.head] = 0
            with gated(model, gates):
                translated = translate(model, tokenizer, sources, warn=False, **generate_options)
                _, scores = teacher_forced(model, sources, [begun] * len(some))
            for head, (_, *ids), score in zip(some, translated, scores, strict=True):
                text = as_text(tokenizer, ids)
                loss = round(found.score - score, 5)
                result[head.attention][head.layer][head.head] = {"text": text, "loss": loss}
    return result
