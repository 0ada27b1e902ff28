# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The two ways to make heads: one wide projection split by channels, or one small projection for each head.

They are the same: the rows of a wide weight are the rows of the small ones, one below the other. The output projection
is the mirror image: the columns of a wide one are those of the small ones side by side, and the small ones' results
are summed. Functions turn weights of one way into weights of the other, both ways, bit for bit; `HeadwiseAttention` is
an attention with small projections, made from a `TinySeqAttention`, which has wide ones.

docs/two_ways_to_make_heads.md shows why, and which to use when. Shapes are in the words of modeling_tinyseq.py.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from tinyseq.modeling_tinyseq import TinySeqAttention, eager_attention, rotate

PROJECTIONS = ("q_proj", "k_proj", "v_proj")  # whose rows are shared out
Projection = tuple[torch.Tensor, torch.Tensor | None]  # weight and bias, as `nn.Linear` has them


def per_head(weight: torch.Tensor, bias: torch.Tensor | None, heads: int) -> list[Projection]:
    """Returns the small projection of each head: its rows of the wide one of queries, keys or values.

    Args:
        weight: (heads * head_dim, d_model)
        bias: (heads * head_dim), or `None` where there is none.
        heads: How many there are.

    Returns:
        For each head a weight (head_dim, d_model) and a bias (head_dim) or `None`; views of the wide ones.

    Raises:
        ValueError: The rows can't be shared out among so many heads.
    """
    size = size_of_a_head(weight.shape[0], heads, "rows")
    biases = [None] * heads if bias is None else bias.split(size)
    return list(zip(weight.split(size), biases, strict=True))


def joined(projections: Sequence[Projection]) -> Projection:
    """Returns the wide projection of small ones: the weights one below the other, and the biases.

    Args:
        projections: For each head a weight (head_dim, d_model) and a bias (head_dim) or `None`.

    Raises:
        ValueError: There is none, they are of several shapes, or only some have a bias.
    """
    weights, biases = check_alike([weight for weight, _ in projections]), [bias for _, bias in projections]
    there = [bias for bias in biases if bias is not None]
    if len(there) not in (0, len(biases)):
        raise ValueError(f"{len(there)} of {len(biases)} projections have a bias; either all have one, or none")
    return torch.cat(weights), torch.cat(there) if there else None


def output_per_head(weight: torch.Tensor, heads: int) -> list[torch.Tensor]:
    """Returns the small output projection of each head: its columns of the wide one.

    What they give is summed, so the wide one's bias, which is added once, is no head's own.

    Args:
        weight: (d_model, heads * head_dim)
        heads: How many there are.

    Returns:
        For each head a weight (d_model, head_dim), a view of the wide one.

    Raises:
        ValueError: The columns can't be shared out among so many heads.
    """
    return list(weight.split(size_of_a_head(weight.shape[1], heads, "columns"), dim=1))


def output_joined(weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns the wide output projection, (d_model, heads * head_dim), of small ones, each (d_model, head_dim).

    Raises:
        ValueError: There is none, or they are of several shapes.
    """
    return torch.cat(check_alike(weights), dim=1)


def size_of_a_head(channels: int, heads: int, side: str) -> int:
    """Returns how many of the weight's rows or columns each head has."""
    if heads < 1 or channels % heads:
        raise ValueError(
            f"heads={heads} does not divide the {channels} {side} of weight; give the number of its heads"
        )
    return channels // heads


def check_alike(weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the weights of the heads of one attention; refuses what can't be that."""
    shapes = sorted({tuple(weight.shape) for weight in weights})
    if len(shapes) != 1:
        raise ValueError(f"the heads' weights are of shapes {shapes}; give one or more, all of one shape")
    return list(weights)


class OwnHead(nn.Module):
    """One head, with projections of its own: ``softmax(Q K^T / sqrt(head_dim)) V``, brought back to the model's width.

    Args:
        d_model: Width of what comes in and goes out.
        head_dim: Width of its queries, keys and values.
    """

    def __init__(self, d_model: int, head_dim: int):
        super().__init__()
        self.scaling = head_dim**-0.5
        self.q_proj = nn.Linear(d_model, head_dim)
        self.k_proj = nn.Linear(d_model, head_dim)
        self.v_proj = nn.Linear(d_model, head_dim)
        self.out_proj = nn.Linear(head_dim, d_model, bias=False)

    def forward(
        self,
        hidden_states: torch.Tensor,
        looked_at: torch.Tensor,
        attention_mask: torch.Tensor | None,
        positions: tuple[torch.Tensor, torch.Tensor] | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns its part of the output, (batch, query_len, d_model), and weights (batch, 1, query_len, key_len).

        Arguments are those of `HeadwiseAttention`; `looked_at` is (batch, key_len, d_model).
        """
        # (batch, length, d_model) -> (batch, 1, length, head_dim), as the model's attention has several
        query = self.q_proj(hidden_states).unsqueeze(1)
        key = self.k_proj(looked_at).unsqueeze(1)
        value = self.v_proj(looked_at).unsqueeze(1)
        if positions is not None:
            query, key = rotate(query, *positions), rotate(key, *positions)
        context, weights = eager_attention(self, query, key, value, attention_mask, self.scaling)
        return self.out_proj(context.squeeze(2)), weights  # the context is (batch, query_len, 1, head_dim)


class HeadwiseAttention(nn.Module):
    """Multi-head attention of heads that have projections of their own, each computed after the other, and summed.

    Same outputs and gradients as `TinySeqAttention`, to rounding, without its cache and its dropout: it is here to be
    read, and to compare with.

    Args:
        d_model: Width of what comes in and goes out.
        heads: How many there are.
        head_dim: Width of each.
        is_causal: Whether it is a decoder's self-attention, which must not be called without a mask.
    """

    def __init__(self, d_model: int, heads: int, head_dim: int, is_causal: bool = False):
        super().__init__()
        self.is_causal = is_causal
        self.heads = nn.ModuleList(OwnHead(d_model, head_dim) for _ in range(heads))
        self.out_bias = nn.Parameter(torch.zeros(d_model))  # of the sum

    @classmethod
    def from_attention(cls, attention: TinySeqAttention) -> "HeadwiseAttention":
        """Returns one with a copy of the weights of `attention`, on its device and in its dtype."""
        wide = attention.q_proj.weight
        heads = wide.shape[0] // attention.head_dim  # fewer than the configuration says, where some were removed
        made = cls(wide.shape[1], heads, attention.head_dim, attention.is_causal).to(wide)
        weights: dict[str, Any] = {"out_bias": attention.out_proj.bias}
        for name in PROJECTIONS:
            projection = getattr(attention, name)
            for head, (weight, bias) in enumerate(per_head(projection.weight, projection.bias, heads)):
                weights |= {f"heads.{head}.{name}.weight": weight, f"heads.{head}.{name}.bias": bias}
        for head, weight in enumerate(output_per_head(attention.out_proj.weight, heads)):
            weights[f"heads.{head}.out_proj.weight"] = weight
        made.load_state_dict(weights)
        return made

    def to_weights(self) -> dict[str, torch.Tensor]:
        """Returns a copy of the weights as `TinySeqAttention.load_state_dict` wants them."""
        own = self.state_dict()
        heads = range(len(self.heads))
        weights = {"out_proj.bias": own["out_bias"].clone()}
        for name in PROJECTIONS:
            parts = [(own[f"heads.{head}.{name}.weight"], own[f"heads.{head}.{name}.bias"]) for head in heads]
            weights[f"{name}.weight"], weights[f"{name}.bias"] = joined(parts)
        weights["out_proj.weight"] = output_joined([own[f"heads.{head}.out_proj.weight"] for head in heads])
        return weights

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        positions: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attends from `hidden_states` to themselves or, in cross-attention, to `encoder_hidden_states`.

        Args:
            hidden_states: (batch, query_len, d_model)
            encoder_hidden_states: (batch, source_len, d_model): makes this a cross-attention.
            attention_mask: (batch, 1, query_len, key_len), added to the scores, or boolean: True where a key may be
                looked at.
            positions: Rotary cosines and sines of the queries.

        Returns:
            The output (batch, query_len, d_model) and the weights (batch, heads, query_len, key_len).

        Raises:
            ValueError: A causal attention got no mask.
        """
        if self.is_causal and attention_mask is None:
            raise ValueError("a causal attention needs attention_mask, which says what comes later; give one")
        looked_at = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        parts = [head(hidden_states, looked_at, attention_mask, positions) for head in self.heads]
        output = self.out_bias + torch.stack([part for part, _ in parts]).sum(dim=0)
        return output, torch.cat([weights for _, weights in parts], dim=1)
