# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The attention of a translation: every head's weights, from one forward pass over the finished translation."""

from dataclasses import dataclass

import numpy as np
import torch

from .translation import clean


@dataclass
class AttentionMaps:
    """All attention weights of one sentence and its translation. Rows sum to 1.

    Attributes:
        source_pieces: What the columns of `encoder` and `cross` stand for, `</s>` included.
        target_pieces: What each row of `decoder` and `cross` predicts, `</s>` included.
        decoder_pieces: What each row of `decoder` and `cross` has just read: BEGIN, then the target's pieces.
        encoder: (encoder_layers, heads, source_len, source_len)
        decoder: (decoder_layers, heads, target_len, target_len)
        cross: (decoder_layers, heads, target_len, source_len)
    """

    source_pieces: list[str]
    target_pieces: list[str]
    decoder_pieces: list[str]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray


def maps(model, tokenizer, source: str, target: str | None = None, **generate_options) -> AttentionMaps:
    """Returns the attention of the translation of `source`, or of `target` if one is given.

    The weights are those of one forward pass over the whole translation, so with beam search too they belong to the
    translation that was returned.

    Args:
        model: An encoder-decoder of Transformers that has eager attention. It is left as it was.
        tokenizer: Its tokenizer.
        source: One sentence.
        target: A translation to look at, in place of the model's own.
        generate_options: For `model.generate`, if no target is given.
    """
    inputs = tokenizer(clean(source), return_tensors="pt").to(model.device)
    implementation, training = model.config._attn_implementation, model.training
    model.eval()
    try:
        with torch.inference_mode():
            if target is None:
                begun = model.generate(**inputs, **generate_options)[:1]
                labels = begun[:, 1:]
            else:
                labels = tokenizer(text_target=clean(target), return_tensors="pt")["input_ids"].to(model.device)
                begun = torch.cat([labels.new_full((1, 1), model.config.decoder_start_token_id), labels], dim=1)
            model.set_attn_implementation("eager")
            output = model(**inputs, decoder_input_ids=begun[:, :-1], output_attentions=True, use_cache=False)
    finally:
        model.set_attn_implementation(implementation)
        model.train(training)

    def stacked(layers) -> np.ndarray:
        return torch.cat(list(layers)).float().cpu().numpy()

    return AttentionMaps(
        source_pieces=tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist()),
        target_pieces=tokenizer.convert_ids_to_tokens(labels[0].tolist()),
        decoder_pieces=tokenizer.convert_ids_to_tokens(begun[0, :-1].tolist()),
        encoder=stacked(output.encoder_attentions),
        decoder=stacked(output.decoder_attentions),
        cross=stacked(output.cross_attentions),
    )
