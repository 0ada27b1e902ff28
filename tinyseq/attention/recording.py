# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Listening to a model: all numbers of one translation, as the model itself comes by them.

The model runs as it is. Hooks keep what goes in and out of its modules, and an attention function that does what the
model's own does keeps each stage of every attention.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers.masking_utils import AttentionMaskInterface, eager_mask
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import AttentionInterface

IMPLEMENTATION = "tinyseq_trace"  # the name of the attention function that records


@dataclass
class Recording:
    """What a stack's modules were given and gave: arrays of one sentence by name."""

    values: dict[str, np.ndarray] = field(default_factory=dict)
    attentions: dict[nn.Module, str] = field(default_factory=dict)
    hooks: list[Any] = field(default_factory=list)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def keep(self, name: str, values: torch.Tensor) -> None:
        """Keeps the only sentence of a batch."""
        lowest = torch.finfo(torch.float32).min  # float64, and with it a mask, goes lower
        self.values[name] = values[0].double().clamp(min=lowest).float().cpu().numpy()

    def keep_input(self, module: nn.Module, name: str) -> None:
        """Will keep what `module` is given."""
        self.hooks.append(module.register_forward_pre_hook(lambda _, inputs: self.keep(name, inputs[0])))

    def keep_output(self, module: nn.Module, name: str) -> None:
        """Will keep what `module` gives."""
        self.hooks.append(module.register_forward_hook(lambda _, inputs, output: self.keep(name, output)))

    def keep_angles(self, module: nn.Module, name: str) -> None:
        """Will keep the cosines and sines that rotary positions give, (2, length, head_dim)."""
        self.hooks.append(
            module.register_forward_hook(lambda _, inputs, output: self.keep(name, torch.cat(output, dim=1)))
        )

    @contextmanager
    def of_stack(self, stack: Any, name: str) -> Iterator[None]:
        """Listens to an encoder or a decoder, called so in the names."""
        self.keep_output(stack.embed_tokens, f"{name}.embedding")
        if stack.embed_positions is not None:
            self.keep_output(stack.embed_positions, f"{name}.positions")
        else:
            self.keep_angles(stack.rotary_positions, f"{name}.positions")
        self.keep_input(stack.layers[0], f"{name}.input")
        for index, layer in enumerate(stack.layers):
            self.of_layer(layer, f"{name}.{index}")
        if stack.layer_norm is not None:
            self.keep_output(stack.layer_norm, f"{name}.norm")
        try:
            yield
        finally:
            for hook in self.hooks:
                hook.remove()
            self.hooks.clear()

    def of_layer(self, layer: Any, name: str) -> None:
        """Will keep all that happens in a layer."""
        blocks = {"self_attn": (layer.self_attn, layer.self_attn_layer_norm)}
        if hasattr(layer, "encoder_attn"):
            blocks["cross_attn"] = (layer.encoder_attn, layer.encoder_attn_layer_norm)
        for kind, (attention, _) in blocks.items():
            self.attentions[attention] = f"{name}.{kind}"
            for letter in "qkv":
                self.keep_output(getattr(attention, f"{letter}_proj"), f"{name}.{kind}.{letter}")
            self.keep_input(attention.out_proj, f"{name}.{kind}.merged")
            self.keep_output(attention.out_proj, f"{name}.{kind}.output")
        self.keep_output(layer.fc1, f"{name}.ffn.fc1")
        self.keep_input(layer.fc2, f"{name}.ffn.activation")
        self.keep_output(layer.fc2, f"{name}.ffn.fc2")
        # The sum goes into the LayerNorm behind the block or, pre-norm, into that of the next block
        norms = {kind: norm for kind, (_, norm) in blocks.items()} | {"ffn": layer.final_layer_norm}
        for kind, norm in norms.items():
            self.keep_output(norm, f"{name}.{kind}.norm")
        behind = list(norms.values())
        if layer.normalize_before:
            behind.pop(0)
            self.keep_output(layer, f"{name}.ffn.residual")
        for kind, norm in zip(norms, behind, strict=False):
            self.keep_input(norm, f"{name}.{kind}.residual")


def recording_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    recording: Recording | None = None,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Does what `modeling_tinyseq.eager_attention` does, in eval mode, and keeps each stage in `recording`.

    Args and shapes are that function's. Keyword arguments of the model's `forward` come through to here, which is how
    this one is told where to keep them.
    """
    scores = torch.matmul(query, key.transpose(-2, -1))
    scaled = scores * scaling
    if attention_mask is None:  # a sentence alone has no padding
        attention_mask = torch.zeros_like(scores[:, :1])
    masked = scaled + attention_mask.clamp(min=torch.finfo(scores.dtype).min)
    weights = nn.functional.softmax(masked, dim=-1)
    context = torch.matmul(weights, value)
    if recording is not None:
        name = recording.attentions[module]
        stages = dict(
            q_heads=query, k_heads=key, v_heads=value, scores=scores, scaled=scaled, mask=attention_mask[:, 0],
            masked=masked, weights=weights, context=context,
        )  # fmt: skip
        for stage, values in stages.items():
            recording.keep(f"{name}.{stage}", values)
    return context.transpose(1, 2).contiguous(), weights


AttentionInterface.register(IMPLEMENTATION, recording_attention)
AttentionMaskInterface.register(IMPLEMENTATION, eager_mask)


def record(model: Any, inputs: dict[str, torch.Tensor], decoder_input_ids: torch.Tensor) -> Recording:
    """Returns all that happens in one pass of the encoder, and one of the decoder over `decoder_input_ids`.

    Args:
        model: The model, in eval mode; its attention implementation is another afterwards.
        inputs: `input_ids` and `attention_mask`, (1, source_len) each.
        decoder_input_ids: BEGIN and the pieces behind it, (1, target_len).
    """
    model.set_attn_implementation(IMPLEMENTATION)
    recording = Recording()
    with recording.of_stack(model.get_encoder(), "encoder"):
        states = model.get_encoder()(**inputs, recording=recording).last_hidden_state
    # The two apart, because they may share one embedding module, which is then heard twice
    with recording.of_stack(model.get_decoder(), "decoder"):
        output = model(
            attention_mask=inputs["attention_mask"],
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            decoder_input_ids=decoder_input_ids,
            use_cache=False,
            recording=recording,
        )
    recording.keep("decoding.logits", output.logits)
    recording.keep("decoding.probs", output.logits.float().softmax(dim=-1))
    return recording
