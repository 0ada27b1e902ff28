# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The TinySeq model: the encoder-decoder of "Attention Is All You Need" (Vaswani et al. 2017, arXiv:1706.03762).

In the paper's order: positions, attention, feed-forward, encoder layer, decoder layer, encoder, decoder, the whole,
and the head that turns the decoder's states into words and a loss (losses_tinyseq.py). The masks are Transformers',
made in the encoder and the decoder. Where the code departs from the paper, it says so at that line.

Shapes, in these words throughout:
    batch       sentences in the batch
    source_len  pieces of the source, padding included
    target_len  pieces of the target, padding included
    query_len   rows of an attention: the length of the side that asks
    key_len     columns of an attention: the length of the side that is looked at
    heads       attention heads; head_dim = d_model / heads
    d_model     width of the model
    vocab       pieces in the vocabulary
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.generation import GenerationMixin
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel
from transformers.utils import can_return_tuple, is_torchdynamo_compiling, logging
from transformers.utils.deprecation import deprecate_kwarg

from .configuration_tinyseq import TinySeqConfig
from .losses_tinyseq import IGNORE_INDEX, cross_entropy, dropout, projection_cross_entropy
from .push_tinyseq import PushToHub

logger = logging.get_logger(__name__)

try:  # no public names, and this code lies beside published weights: it must work where later releases lack them
    from transformers.utils.generic import merge_with_config_defaults
    from transformers.utils.output_capturing import OutputRecorder, capture_outputs
except ImportError:
    logger.warning("TinySeq: with this version of Transformers hidden states and attentions are not returned")
    OutputRecorder = dict

    def unrecorded(forward: Callable) -> Callable:
        """Returns `forward` as it is."""
        return forward

    capture_outputs = merge_with_config_defaults = unrecorded


# ---------------------------------------------------------------------------------------------------------------------
# Positions (section 3.5)
# ---------------------------------------------------------------------------------------------------------------------


class TinySeqSinusoidalPositions(nn.Module):
    """Fixed position vectors: ``sin(p / 10000^(2i/d_model))`` in the first half and the cosines in the second.

    The paper alternates sines and cosines; the halves, as in Marian, are the same numbers in another order, which a
    trained model can't tell apart.
    """

    def __init__(self, config: TinySeqConfig):
        super().__init__()
        # float32 in a model of any dtype, and not saved: `_init_weights` fills it whenever the model is made or loaded
        self.table = nn.Buffer(self.make_table(config.max_position_embeddings, config.d_model), persistent=False)

    @staticmethod
    def make_table(positions: int, width: int) -> torch.Tensor:
        """Returns the table, (positions, width)."""
        frequencies = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = torch.arange(positions, dtype=torch.float64)[:, None] * frequencies
        return torch.cat([angles.sin(), angles.cos()[:, : width // 2]], dim=-1).float()

    def forward(self, position_ids: torch.Tensor) -> torch.Tensor:
        """(batch or 1, length) -> (batch or 1, length, d_model)"""
        return nn.functional.embedding(position_ids, self.table)


class TinySeqRotaryPositions(nn.Module):
    """Rotary positions (RoFormer, Su et al. 2021, arXiv:2104.09864): angles by which queries and keys are turned.

    The score of a query and a key then depends on how far apart they are, not on where they stand.
    """

    def __init__(self, config: TinySeqConfig, heads: int):
        super().__init__()
        self.base = config.rope_theta
        self.pairs = config.d_model // heads // 2

    def forward(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch or 1, length) -> cosines and sines, each (batch or 1, 1, length, head_dim)"""
        # Not a buffer: `model.half()` would round it, and an angle is a frequency times a position of some hundreds
        pairs = torch.arange(self.pairs, device=position_ids.device, dtype=torch.float32)
        frequencies = self.base ** (-pairs / self.pairs)
        angles = position_ids[:, None, :, None].float() * frequencies
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()


def rotate(vectors: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Turns each pair (value i, value i + head_dim/2) of (batch, heads, length, head_dim) by its angle."""
    first, second = vectors.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (vectors * cosines + turned * sines).to(vectors.dtype)


# ---------------------------------------------------------------------------------------------------------------------
# Attention (section 3.2)
# ---------------------------------------------------------------------------------------------------------------------


def eager_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scaled dot-product attention, Eq. 1: ``softmax(Q K^T / sqrt(head_dim)) V``, the weights returned too.

    Args:
        module: The attention block; says whether it is training.
        query: (batch, heads, query_len, head_dim)
        key: (batch, heads, key_len, head_dim)
        value: (batch, heads, key_len, head_dim)
        attention_mask: Added to the scores, (batch, 1, query_len, key_len): 0 where a key may be looked at, a very
            negative number where it is padding or lies in the future. Or boolean: True where a key may be looked at.
        scaling: ``1 / sqrt(head_dim)``: keeps the scores' variance at 1, so that softmax does not saturate.
        dropout: Probability of dropping a weight.

    Returns:
        The output (batch, query_len, heads, head_dim) and the weights (batch, heads, query_len, key_len).
    """
    scores = torch.matmul(query, key.transpose(-2, -1)) * scaling
    if attention_mask is not None:
        # The lowest finite number, not minus infinity: the softmax of a row without any key must not be NaN
        lowest = torch.finfo(scores.dtype).min
        if attention_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attention_mask, lowest)
        else:
            scores = scores + attention_mask.clamp(min=lowest)
    weights = nn.functional.softmax(scores, dim=-1)
    kept = nn.functional.dropout(weights, p=dropout, training=module.training)
    output = torch.matmul(kept, value).transpose(1, 2).contiguous()
    return output, weights


def implementation(config: TinySeqConfig) -> str:
    """Returns who computes attention, such as "eager"; where it has another private name, Transformers' default."""
    return getattr(config, "_attn_implementation", "sdpa")


class TinySeqAttention(nn.Module):
    """Multi-head attention (section 3.2.2), self- or cross-attention.

    Queries, keys and values come from three linear layers. They are split into heads logically: one projection of
    width d_model, seen as (heads, head_dim). Each head attends on its own; the results are laid side by side again and
    go through an output projection. Where heads were removed, their part of the width is not there.

    Args:
        config: Of the model.
        attention: Which of a model's three it is: "encoder", "decoder" or "cross".
        layer_idx: Number of its layer.
    """

    def __init__(self, config: TinySeqConfig, attention: str, layer_idx: int):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.is_causal = attention == "decoder"
        self.head_dim = config.d_model // config.heads(attention)
        self.scaling = self.head_dim**-0.5
        self.dropout = config.attention_dropout  # of weights; the paper drops only embeddings and blocks' outputs
        width = self.head_dim * len(config.heads_kept(attention, layer_idx))  # d_model, if no head was removed
        # With biases, as in Marian; the paper has none. That of the keys adds the same to all scores of a query, which
        # softmax can't see: without rotary positions it has no gradient
        self.q_proj = nn.Linear(config.d_model, width)
        self.k_proj = nn.Linear(config.d_model, width)
        self.v_proj = nn.Linear(config.d_model, width)
        self.out_proj = nn.Linear(width, config.d_model)

    def split_heads(self, states: torch.Tensor) -> torch.Tensor:
        """(batch, length, heads * head_dim) -> (batch, heads, length, head_dim)"""
        return states.view(*states.shape[:-1], -1, self.head_dim).transpose(1, 2)

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        positions: tuple[torch.Tensor, torch.Tensor] | None = None,
        cache: Cache | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Attends from `hidden_states` to themselves or, in cross-attention, to `encoder_hidden_states`.

        Args:
            hidden_states: (batch, query_len, d_model)
            encoder_hidden_states: (batch, source_len, d_model): makes this a cross-attention.
            attention_mask: What may be looked at, in the form that the attention implementation wants.
            positions: Rotary cosines and sines of the queries.
            cache: Keys and values of earlier steps; the new ones are added to it.

        Returns:
            The output (batch, query_len, d_model), and the weights (batch, heads, query_len, key_len) or, from
            implementations that don't give them, `None`.
        """
        query = self.split_heads(self.q_proj(hidden_states))
        if positions is not None:
            query = rotate(query, *positions)

        is_cross_attention = encoder_hidden_states is not None
        layer_cache = cache
        if isinstance(cache, EncoderDecoderCache):
            layer_cache = cache.cross_attention_cache if is_cross_attention else cache.self_attention_cache
        if is_cross_attention and isinstance(cache, EncoderDecoderCache) and cache.is_updated.get(self.layer_idx):
            # the source does not change while decoding: its keys and values are computed once
            key, value = layer_cache.layers[self.layer_idx].keys, layer_cache.layers[self.layer_idx].values
        else:
            looked_at = encoder_hidden_states if is_cross_attention else hidden_states
            key = self.split_heads(self.k_proj(looked_at))
            value = self.split_heads(self.v_proj(looked_at))
            if positions is not None:
                key = rotate(key, *positions)
            if layer_cache is not None:
                key, value = layer_cache.update(key, value, self.layer_idx)
                if is_cross_attention and isinstance(cache, EncoderDecoderCache):
                    cache.is_updated[self.layer_idx] = True

        attend: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(implementation(self.config), eager_attention)
        probability = self.dropout if self.training else 0.0
        output, weights = attend(
            self, query, key, value, attention_mask, scaling=self.scaling, dropout=probability, **kwargs
        )
        # (batch, query_len, heads, head_dim) -> (batch, query_len, heads * head_dim), d_model as a rule
        return self.out_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights


# ---------------------------------------------------------------------------------------------------------------------
# Layers (section 3.1)
# ---------------------------------------------------------------------------------------------------------------------


class TinySeqLayer(GradientCheckpointingLayer):
    """What encoder and decoder layers share: the feed-forward block, and residual sums with LayerNorm."""

    def __init__(self, config: TinySeqConfig, ffn_dim: int):
        super().__init__()
        self.normalize_before = config.normalize_before
        self.dropout = config.dropout
        self.activation_dropout = config.activation_dropout
        self.activation_fn = ACT2FN[config.activation_function]
        self.fc1 = nn.Linear(config.d_model, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def residual(self, hidden_states: torch.Tensor, norm: nn.LayerNorm, block: Callable) -> torch.Tensor:
        """Post-norm ``norm(x + block(x))``, as in the paper, or on request pre-norm ``x + block(norm(x))``."""
        if self.normalize_before:
            return hidden_states + dropout(block(norm(hidden_states)), self.dropout, self.training)
        return norm(hidden_states + dropout(block(hidden_states), self.dropout, self.training))

    def feed_forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Position-wise feed-forward network, Eq. 2: (batch, length, d_model) -> the same shape"""
        inner = self.activation_fn(self.fc1(hidden_states))  # the paper's is ReLU, without dropout behind it
        return self.fc2(dropout(inner, self.activation_dropout, self.training))


class TinySeqEncoderLayer(TinySeqLayer):
    """Self-attention over the source, then feed-forward."""

    def __init__(self, config: TinySeqConfig, layer_idx: int):
        super().__init__(config, config.encoder_ffn_dim)
        self.self_attn = TinySeqAttention(config, "encoder", layer_idx)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        positions: tuple[torch.Tensor, torch.Tensor] | None = None,
        **kwargs,
    ) -> torch.Tensor:
        """(batch, source_len, d_model) -> the same shape"""
        hidden_states = self.residual(
            hidden_states,
            self.self_attn_layer_norm,
            lambda x: self.self_attn(x, attention_mask=attention_mask, positions=positions, **kwargs)[0],
        )
        return self.residual(hidden_states, self.final_layer_norm, self.feed_forward)


class TinySeqDecoderLayer(TinySeqLayer):
    """Causal self-attention over the target so far, cross-attention to the source, then feed-forward."""

    def __init__(self, config: TinySeqConfig, layer_idx: int):
        super().__init__(config, config.decoder_ffn_dim)
        self.self_attn = TinySeqAttention(config, "decoder", layer_idx)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.encoder_attn = TinySeqAttention(config, "cross", layer_idx)
        self.encoder_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        positions: tuple[torch.Tensor, torch.Tensor] | None = None,
        cache: Cache | None = None,
        **kwargs,
    ) -> torch.Tensor:
        """(batch, target_len, d_model), source states (batch, source_len, d_model) -> (batch, target_len, d_model)"""
        hidden_states = self.residual(
            hidden_states,
            self.self_attn_layer_norm,
            lambda x: self.self_attn(x, attention_mask=attention_mask, positions=positions, cache=cache, **kwargs)[0],
        )
        if encoder_hidden_states is not None:
            hidden_states = self.residual(
                hidden_states,
                self.encoder_attn_layer_norm,
                lambda x: self.encoder_attn(
                    x, encoder_hidden_states, attention_mask=encoder_attention_mask, cache=cache, **kwargs
                )[0],
            )
        return self.residual(hidden_states, self.final_layer_norm, self.feed_forward)


# ---------------------------------------------------------------------------------------------------------------------
# Encoder and decoder
# ---------------------------------------------------------------------------------------------------------------------


class TinySeqPreTrainedModel(PushToHub, PreTrainedModel):
    """What Transformers needs to know of every TinySeq model, and how weights start."""

    config: TinySeqConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["TinySeqEncoderLayer", "TinySeqDecoderLayer"]
    _skip_keys_device_placement = ["cache"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True

    def __init__(self, config: TinySeqConfig):
        super().__init__(config)
        for name in ("pad_token_id", "decoder_start_token_id"):
            token_id = getattr(config, name)
            if token_id is not None and not 0 <= token_id < config.vocab_size:
                raise ValueError(
                    f"{name}={token_id} is outside the vocabulary: with vocab_size={config.vocab_size}, choose from 0 "
                    f"to {config.vocab_size - 1}"
                )

    def _init_weights(self, module: nn.Module):
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            std = self.config.initializer_range
            init.normal_(module.weight, mean=0.0, std=self.config.d_model**-0.5 if std is None else std)
            if module.padding_idx is not None:  # `init` leaves what was loaded; a row of it would not be known as such
                is_padding = torch.arange(module.num_embeddings, device=module.weight.device) == module.padding_idx
                init.copy_(module.weight, module.weight.masked_fill(is_padding[:, None], 0))
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, TinySeqSinusoidalPositions):
            init.copy_(module.table, module.make_table(*module.table.shape))

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """As in every Transformers model; the decoder's own embedding changes too where the embeddings are untied.

        Raises:
            ValueError: A special token that the model works with would be cut off. `<pad>` is as a rule the last id,
                so that what can go are pieces that were added behind it.
        """
        for name in ("pad_token_id", "decoder_start_token_id", "eos_token_id"):
            ids = getattr(self.config, name)
            last = max(ids) if isinstance(ids, list) else ids
            if new_num_tokens is not None and last is not None and new_num_tokens <= last:
                raise ValueError(
                    f"new_num_tokens={new_num_tokens} would cut off {name}={last}; choose {last + 1} or more, or give "
                    f"the special tokens lower ids in the configuration first"
                )
        embedding = super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        decoder = getattr(self.base_model, "decoder", None)
        if decoder is not None and not self.config.tie_word_embeddings:
            decoder.resize_token_embeddings(embedding.num_embeddings, mean_resizing=mean_resizing)
        return embedding

    def source_mask(self, input_ids: torch.Tensor | None, attention_mask: torch.Tensor | None) -> torch.Tensor | None:
        """Returns the source's mask, (batch, source_len), 1 = keep; made from the pad id where none is given."""
        if attention_mask is None and input_ids is not None:
            return input_ids.ne(self.config.pad_token_id).long()
        return attention_mask

    @property
    def dummy_inputs(self) -> dict[str, torch.Tensor]:
        """Two sentences of unequal length, to run the model once."""
        pad, begin, end = self.config.pad_token_id, self.config.decoder_start_token_id, self.config.eos_token_id
        input_ids = torch.tensor([[5, 6, 7, end], [8, end, pad, pad]], device=self.device)
        return {
            "input_ids": input_ids,
            "decoder_input_ids": torch.tensor([[begin, 5, 6], [begin, 7, 8]]).to(input_ids),
        }


class TinySeqStack(TinySeqPreTrainedModel):
    """What encoder and decoder share: embedding, scaling and positions in front of a stack of layers."""

    attentions: tuple[str, ...] = ("self_attn",)  # the attention blocks of each layer

    def __init__(self, config: TinySeqConfig, heads: int):
        super().__init__(config)
        self.dropout = config.dropout
        self.embed_scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0  # section 3.4 scales
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.rotary_positions: TinySeqRotaryPositions | None = None
        self.embed_positions: nn.Module | None = None
        if config.position_embedding_type == "sinusoidal":
            self.embed_positions = TinySeqSinusoidalPositions(config)
        elif config.position_embedding_type == "learned":
            self.embed_positions = nn.Embedding(config.max_position_embeddings, config.d_model)
        else:
            self.rotary_positions = TinySeqRotaryPositions(config, heads)
        # Pre-norm leaves the last sum unnormalised, so each stack ends with a LayerNorm, which the paper's has not
        self.layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps) if config.normalize_before else None
        self.gradient_checkpointing = False

    def post_init(self):
        """As in every Transformers model; then says how several processes share the stack."""
        super().post_init()
        # FSDP gathers one layer at a time. The tied embeddings stay with the whole model, which runs before and after
        # all of them
        self.fsdp_plan["layers.*"] = "free_full_weight"
        # Tensor parallelism splits by vocabulary, by feed-forward width and by heads, if every layer has as many
        plan = {"embed_tokens": "embedding_rowwise", "layers.*.fc1": "colwise", "layers.*.fc2": "rowwise"}
        for attention in self.attentions if self.config.kept_heads is None else ():
            plan |= {f"layers.*.{attention}.{name}": "colwise" for name in ("q_proj", "k_proj", "v_proj")}
            plan[f"layers.*.{attention}.out_proj"] = "rowwise"
        self.tp_plan.update(plan)

    def embed(
        self, input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None, side: str, past_length: int = 0
    ) -> torch.Tensor:
        """Checks the arguments; returns the embeddings before scaling and positions, (batch, length, d_model).

        Raises:
            ValueError: Neither or both of ids and embeddings, or more positions than the model has.
        """
        prefix = "decoder_" if side == "target" else ""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError(f"give exactly one of {prefix}input_ids and {prefix}inputs_embeds")
        length = (input_ids if inputs_embeds is None else inputs_embeds).shape[1]
        # A static cache knows its length only as a tensor, which must not be asked here
        total = length + past_length if isinstance(past_length, int) else length
        if total > self.config.max_position_embeddings:
            raise ValueError(
                f"the {side} has {total} pieces and the model takes {self.config.max_position_embeddings} "
                f"(max_position_embeddings); shorten or split the text, or train with a larger limit"
            )
        return self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds

    def add_positions(
        self, inputs_embeds: torch.Tensor, position_ids: torch.Tensor
    ) -> tuple[torch.Tensor, tuple | None]:
        """Returns the first layer's input, (batch, length, d_model), and the rotary angles if there are any."""
        hidden_states = inputs_embeds * self.embed_scale
        if self.embed_positions is not None:
            hidden_states = hidden_states + self.embed_positions(position_ids).to(hidden_states.dtype)
        angles = self.rotary_positions(position_ids) if self.rotary_positions is not None else None
        return dropout(hidden_states, self.dropout, self.training), angles

    def check_output_attentions(self, requested: bool | None) -> None:
        """Refuses to return attention weights that the attention implementation does not compute."""
        if requested and implementation(self.config) != "eager":
            raise ValueError(
                f"output_attentions=True needs attention that gives its weights, and attn_implementation="
                f"{implementation(self.config)!r} does not: call model.set_attn_implementation('eager') or load with "
                f"attn_implementation='eager'"
            )


class TinySeqEncoder(TinySeqStack):
    """Reads the source: embedding, positions, `encoder_layers` layers. Usable alone."""

    _can_record_outputs = {
        "hidden_states": TinySeqEncoderLayer,
        "attentions": OutputRecorder(target_class=TinySeqAttention, index=1, layer_name="self_attn"),
    }

    def __init__(self, config: TinySeqConfig):
        super().__init__(config, config.encoder_attention_heads)
        self.layers = nn.ModuleList([TinySeqEncoderLayer(config, index) for index in range(config.encoder_layers)])
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        """Encodes a batch of sources.

        Args:
            input_ids: (batch, source_len)
            attention_mask: (batch, source_len), 1 = keep, 0 = padding. Without it, `<pad>` is taken for padding.
            inputs_embeds: (batch, source_len, d_model), in place of the ids.

        Returns:
            `last_hidden_state` (batch, source_len, d_model).
        """
        self.check_output_attentions(kwargs.get("output_attentions"))
        attention_mask = self.source_mask(input_ids, attention_mask)
        inputs_embeds = self.embed(input_ids, inputs_embeds, "source")
        position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device).unsqueeze(0)
        if attention_mask is not None and attention_mask.dim() == 2:
            # Counting from the first real piece: padding on the left changes nothing either
            position_ids = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)
        hidden_states, positions = self.add_positions(inputs_embeds, position_ids)
        attention_mask = create_bidirectional_mask(
            config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask
        )
        for layer in self.layers:
            hidden_states = layer(hidden_states, attention_mask, positions=positions, **kwargs)
        if self.layer_norm is not None:
            hidden_states = self.layer_norm(hidden_states)
        return BaseModelOutput(last_hidden_state=hidden_states)


class TinySeqDecoder(TinySeqStack):
    """Writes the target: embedding, positions, `decoder_layers` layers that look at the encoder's states."""

    attentions = ("self_attn", "encoder_attn")
    _can_record_outputs = {
        "hidden_states": TinySeqDecoderLayer,
        "attentions": OutputRecorder(target_class=TinySeqAttention, index=1, layer_name="self_attn"),
        "cross_attentions": OutputRecorder(target_class=TinySeqAttention, index=1, layer_name="encoder_attn"),
    }

    def __init__(self, config: TinySeqConfig):
        super().__init__(config, config.decoder_attention_heads)
        self.layers = nn.ModuleList([TinySeqDecoderLayer(config, index) for index in range(config.decoder_layers)])
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Decodes a batch of targets, or their next pieces if `cache` holds the earlier ones.

        Args:
            input_ids: (batch, target_len)
            attention_mask: (batch, past + target_len), 1 = keep, 0 = padding.
            encoder_hidden_states: (batch, source_len, d_model). Without it the cross-attention is left out.
            encoder_attention_mask: (batch, source_len), 1 = keep, 0 = padding.
            cache: Keys and values of the pieces already decoded, and of the source.
            inputs_embeds: (batch, target_len, d_model), in place of the ids.
            use_cache: Whether to make a cache where none is given.

        Returns:
            `last_hidden_state` (batch, target_len, d_model) and `cache`.
        """
        self.check_output_attentions(kwargs.get("output_attentions"))
        if use_cache and cache is None:
            cache = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        past_length = cache.get_seq_length() if cache is not None else 0
        inputs_embeds = self.embed(input_ids, inputs_embeds, "target", past_length)
        position_ids = (torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + past_length).unsqueeze(0)
        hidden_states, positions = self.add_positions(inputs_embeds, position_ids)
        own_cache = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
        causal_mask = create_causal_mask(
            config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, cache=own_cache
        )
        if encoder_hidden_states is not None:
            encoder_attention_mask = create_bidirectional_mask(
                config=self.config,
                inputs_embeds=inputs_embeds,
                attention_mask=encoder_attention_mask,
                encoder_hidden_states=encoder_hidden_states,
            )
        for layer in self.layers:
            hidden_states = layer(
                hidden_states,
                encoder_hidden_states,  # positional, as gradient checkpointing wants it
                causal_mask,
                encoder_attention_mask=encoder_attention_mask,
                positions=positions,
                cache=cache,
                **kwargs,
            )
        if self.layer_norm is not None:
            hidden_states = self.layer_norm(hidden_states)
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=hidden_states, cache=cache)


# ---------------------------------------------------------------------------------------------------------------------
# The whole
# ---------------------------------------------------------------------------------------------------------------------


class TinySeqModel(TinySeqPreTrainedModel):
    """Encoder and decoder over one embedding, without the output projection."""

    _tied_weights_keys = {
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    }

    def __init__(self, config: TinySeqConfig):
        super().__init__(config)
        if config.decoder_start_token_id is None:
            raise ValueError(
                "decoder_start_token_id is None: decoding has no BEGIN; set it, as a rule to pad_token_id"
            )
        self.shared = None  # untied, each side has only an embedding of its own
        if config.tie_word_embeddings:
            self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = TinySeqEncoder(config)
        self.decoder = TinySeqDecoder(config)
        self.post_init()
        if self.shared is not None:
            self.tp_plan["shared"] = "embedding_rowwise"  # as the embeddings and the projection tied to it

    def get_input_embeddings(self) -> nn.Embedding:
        """Returns the embedding that both sides share or, untied, the encoder's."""
        return self.encoder.embed_tokens if self.shared is None else self.shared

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Puts `value` in the place of the shared embedding and of both sides' or, untied, of the encoder's."""
        self.encoder.embed_tokens = value
        if self.shared is not None:
            self.shared = self.decoder.embed_tokens = value

    @can_return_tuple
    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: tuple | BaseModelOutput | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> Seq2SeqModelOutput:
        """Runs encoder and decoder; arguments and shapes are theirs.

        Args:
            input_ids: (batch, source_len)
            attention_mask: (batch, source_len), 1 = keep, 0 = padding. Without it, `<pad>` is taken for padding.
            decoder_input_ids: (batch, target_len), beginning with `decoder_start_token_id`.
            decoder_attention_mask: (batch, target_len). Not needed for padding on the right.
            encoder_outputs: What the encoder gave for this source, to save running it again.
            cache: Keys and values of earlier steps.
            inputs_embeds: (batch, source_len, d_model), in place of `input_ids`.
            decoder_inputs_embeds: (batch, target_len, d_model), in place of `decoder_input_ids`.
            use_cache: Whether to return a cache for the next step.
        """
        attention_mask = self.source_mask(input_ids, attention_mask)
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask, inputs_embeds=inputs_embeds, **kwargs)
        elif not isinstance(encoder_outputs, BaseModelOutput):
            encoder_outputs = BaseModelOutput(*encoder_outputs[:3])
        decoder_outputs = self.decoder(
            decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            cache=cache,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            cache=decoder_outputs.cache,
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )


class TinySeqForConditionalGeneration(TinySeqPreTrainedModel, GenerationMixin):
    """The translation model: [`TinySeqModel`], the output projection, the loss, and `generate()`."""

    _tied_weights_keys = {
        "lm_head.weight": "model.shared.weight",
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
    }

    def __init__(self, config: TinySeqConfig):
        super().__init__(config)
        self.model = TinySeqModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()
        self.tp_plan["lm_head"] = "colwise_gather_output"
        self.generation_config.max_length = self.longest_output

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Returns the decoder's input, (batch, target_len): BEGIN, then every label but the last.

        So position i sees the labels before i and learns to give label i; the loss must not shift again. Data
        collators call this.
        """
        begin = torch.full_like(labels[:, :1], self.config.decoder_start_token_id)  # `<pad>`, as in Marian
        shifted = torch.cat([begin, labels[:, :-1]], dim=1)
        return shifted.masked_fill(shifted == IGNORE_INDEX, self.config.pad_token_id)

    @property
    def projection_is_plain(self) -> bool:
        """Whether `lm_head` is its weight and no more: not split over processes, quantised, adapted or offloaded."""
        head = self.lm_head
        return type(head) is nn.Linear and type(head.weight) is nn.Parameter and "forward" not in vars(head)

    @property
    def longest_output(self) -> int:
        """BEGIN and the longest target that the model takes, `</s>` included: the last piece is not fed back."""
        return self.config.max_position_embeddings + 1

    def generate(self, inputs: torch.Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        """As in every Transformers model; without `attention_mask`, `<pad>` is taken for padding, as in `forward`."""
        input_ids = kwargs.get("input_ids") if inputs is None else inputs
        if kwargs.get("attention_mask") is None and input_ids is not None:  # after encoding, nobody knows where it was
            kwargs["attention_mask"] = self.source_mask(input_ids, None)
        return super().generate(inputs, *args, **kwargs)

    def _prepare_generated_length(self, generation_config, has_default_max_length, **kwargs):
        if generation_config.max_new_tokens is not None:
            has_default_max_length = True  # the caller's limit replaces the model's, which is nothing to warn of
        elif has_default_max_length:  # a generation_config.json without a limit: Transformers' would be 20 pieces
            generation_config.max_length = self.longest_output
            has_default_max_length = False
        generation_config = super()._prepare_generated_length(
            generation_config=generation_config, has_default_max_length=has_default_max_length, **kwargs
        )
        longest = self.longest_output
        if generation_config.max_length > longest:
            raise ValueError(
                f"{generation_config.max_length} pieces are asked for (max_length, or max_new_tokens and the "
                f"{kwargs['input_ids_length']} to start from), and a model with max_position_embeddings={longest - 1} "
                f"writes at most {longest}; choose max_length={longest} or less"
            )
        return generation_config

    @can_return_tuple
    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: tuple | BaseModelOutput | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: int | torch.Tensor | None = None,
        return_logits: bool = True,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        """Scores every next piece and, with `labels`, gives the loss.

        Args beyond [`TinySeqModel.forward`]'s:
            labels: (batch, target_len), the pieces to predict, unshifted and ending with `</s>`; -100 where there is
                nothing to learn. Without `decoder_input_ids`, these are made from the labels.
            label_smoothing: See `cross_entropy`. No named parameter, because Trainer takes every one with "label" in
                its name for something that each batch must hold, and would evaluate without a loss.
            num_items_in_batch: What the summed loss is divided by: the target pieces of the whole update, where a
                batch is only a part of it. By default the labels of this batch, so that the loss is their mean.
            return_logits: `False`, with `labels`: the loss is computed without the logits ever being there as a whole,
                and only where there is a label; `logits` is `None`. Same loss and gradients, less time and memory.

        Returns:
            `loss` (a number), `logits` (batch, target_len, vocab), `cache`, and on request states and attentions.
        """
        label_smoothing: float = kwargs.pop("label_smoothing", 0.0)
        if labels is not None:
            use_cache = False if use_cache is None else use_cache
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        elif not return_logits:
            raise ValueError("return_logits=False leaves only the loss, which needs labels: give labels")

        outputs: Seq2SeqModelOutput = self.model(
            input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            cache=cache,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        states = outputs.last_hidden_state

        # `<pad>` is never a target: its logit is the constant 0, so that its embedding row, zero at the start, has no
        # gradient and stays zero. Marian's form of the model, in which other tools run it, counts on that.
        pad = self.config.pad_token_id if 0 <= self.config.pad_token_id < self.config.vocab_size else None
        logits = loss = None
        # `torch.compile` takes no loop over as many positions as happen to have a label
        if return_logits or not self.projection_is_plain or is_torchdynamo_compiling():
            logits = self.lm_head(states)
            if pad is not None:
                # Autograd forbids to change in place what comes out of a projection that is split over processes
                logits = logits if self.projection_is_plain else logits.clone()
                logits[..., pad] = 0
        if labels is not None:
            if logits is None:
                loss = projection_cross_entropy(states, self.lm_head.weight, labels, label_smoothing, pad)
            else:
                loss = cross_entropy(logits, labels.to(logits.device), label_smoothing)
            if num_items_in_batch is None:
                num_items_in_batch = labels.ne(IGNORE_INDEX).sum().clamp(min=1)
            if isinstance(num_items_in_batch, torch.Tensor):
                num_items_in_batch = num_items_in_batch.to(loss.device)
            loss = loss / num_items_in_batch

        others = {name: value for name, value in outputs.items() if name != "last_hidden_state"}
        return Seq2SeqLMOutput(loss=loss, logits=logits if return_logits else None, **others)


__all__ = [
    "TinySeqDecoder",
    "TinySeqEncoder",
    "TinySeqForConditionalGeneration",
    "TinySeqModel",
    "TinySeqPreTrainedModel",
]
