# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Removing heads for real: the weights become smaller, and the model is used as before.

Which heads a model can do without, after "Are Sixteen Heads Really Better than One?" (Michel et al. 2019,
arXiv:1905.10650): the importance of each is measured over a corpus, and the least important go.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ..configuration_tinyseq import ATTENTIONS
from .heads import Head, attention_blocks, heads_kept, importance


def prune(model: Any, heads: Iterable[Head]) -> Any:
    """Returns a copy of a TinySeq model without some of its heads.

    Their rows of the projections of queries, keys and values are gone, and their columns of the output projection; the
    configuration's `kept_heads` says which are left. What the model computes is what it computed with these heads
    switched off (`heads.gated`), to rounding.

    Args:
        model: A TinySeq model; it stays as it is.
        heads: What to remove.

    Raises:
        ValueError: The model is of another family; a head is not there; or a block would be left without any.
    """
    if model.config.model_type != "tinyseq":
        raise ValueError(
            f"heads of a {model.config.model_type!r} model can't be removed, as its configuration has no place to say "
            f"so; give a TinySeq model"
        )
    if hasattr(model, "peft_config"):
        raise ValueError("the model has an adapter, whose shapes fit all heads; merge it first: merge_and_unload()")
    before = heads_kept(model)
    after = {name: [list(layer) for layer in layers] for name, layers in before.items()}
    for head in heads:
        if head.attention not in ATTENTIONS or head.layer not in range(len(after[head.attention])):
            raise ValueError(f"{head}: there is no such layer")
        there = after[head.attention][head.layer]
        if head.head not in there:
            raise ValueError(f"{head}: there is no such head; layer {head.layer} has {there}")
        if len(there) == 1:
            raise ValueError(f"{head} is the last head of its layer, and one must stay")
        there.remove(head.head)

    pruned = copy.deepcopy(model)
    for module in pruned.modules():
        if hasattr(module, "config"):
            module.config.kept_heads = after
    for name, blocks in attention_blocks(pruned).items():
        for layer, block in enumerate(blocks):
            stay = torch.tensor([before[name][layer].index(head) for head in after[name][layer]])
            width = torch.arange(block.head_dim)
            rows = (stay[:, None] * block.head_dim + width).flatten().to(pruned.device)
            for projection in (block.q_proj, block.k_proj, block.v_proj):
                shrink(projection, rows, dim=0)
            shrink(block.out_proj, rows, dim=1)
    return pruned


def shrink(projection: nn.Linear, which: torch.Tensor, dim: int) -> None:
    """Leaves only some rows (`dim` 0: outputs) or columns (`dim` 1: inputs) of a linear layer."""
    with torch.no_grad():
        projection.weight = nn.Parameter(
            projection.weight.index_select(dim, which), requires_grad=projection.weight.requires_grad
        )
        if dim == 0 and projection.bias is not None:
            projection.bias = nn.Parameter(
                projection.bias.index_select(0, which), requires_grad=projection.bias.requires_grad
            )
    projection.out_features, projection.in_features = projection.weight.shape


def least_important(
    figures: Mapping[str, np.ndarray], kept: Mapping[str, Sequence[Sequence[int]]], count: int
) -> list[Head]:
    """Returns the `count` least important of the heads that are there, the least of all first.

    One head of each layer of each attention stays, however little depends on it: the most important.

    Args:
        figures: Their importance, by attention, (layers, heads), as `heads.importance` gives it.
        kept: By attention and layer, the heads that are there, as `heads.heads_kept` gives them.
        count: How many.

    Raises:
        ValueError: So many can't be removed, or the importance of one is no finite number.
    """
    candidates = []
    for name, layers in kept.items():
        for layer, heads in enumerate(layers):
            for head in heads:
                if not np.isfinite(figures[name][layer, head]):
                    raise ValueError(
                        f"the importance of {Head(name, layer, head)} is {figures[name][layer, head]}, which has no "
                        f"place in an order; measure it with weights in float32"
                    )
            by_importance = sorted(heads, key=lambda head: figures[name][layer, head])
            candidates += [(figures[name][layer, head], Head(name, layer, head)) for head in by_importance[:-1]]
    if not 0 <= count <= len(candidates):
        raise ValueError(
            f"{count} heads can't be removed: from 0 to {len(candidates)} can, as one of each layer must stay"
        )
    return [head for _, head in sorted(candidates)[:count]]


def prune_least_important(
    model: Any,
    tokenizer: Any,
    sources: Sequence[str],
    targets: Sequence[str],
    count: int,
    *,
    rounds: int = 6,
    batch_size: int = 32,
    progress: bool = False,
) -> Any:
    """Returns a copy of a model without the `count` heads on which least depends, measured over pairs.

    They go in rounds, and importance is measured anew in each: what was done by two heads is done by one when the
    other is gone.

    Args:
        model: A TinySeq model; it stays as it is.
        sources: Sentences.
        targets: Their translations.
        count: How many heads to remove.
        rounds: In how many portions.
        batch_size: Pairs at once.
        progress: Whether to draw a bar for each round on stderr.

    Raises:
        ValueError: So many can't be removed, since one of each layer must stay; `rounds` is below 1; or as in `prune`,
            `importance` and `least_important`.
    """
    if rounds < 1:
        raise ValueError(f"rounds={rounds} must be 1 or more")
    kept = heads_kept(model)
    most = sum(len(heads) - 1 for layers in kept.values() for heads in layers)
    if not 0 <= count <= most:
        raise ValueError(f"{count} heads can't be removed: from 0 to {most} can, as one of each layer must stay")
    model = prune(model, [])
    for part in np.array_split(np.arange(count), rounds):
        if len(part):
            found = importance(model, tokenizer, sources, targets, batch_size=batch_size, progress=progress)
            model = prune(model, least_important(found, heads_kept(model), len(part)))
    return model
