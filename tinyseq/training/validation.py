# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""How good a model is that is still being trained: loss per target token, BLEU and chrF, by all processes together."""

import math
import time
from typing import Any

import torch
from accelerate import Accelerator
from datasets import Dataset

from ..batching.stream import EncodedPairs, tensors_of, token_budget_batches
from ..evaluation import METRICS, score
from ..translation import Translator
from .distributed import share, sum_over_processes, translate_shared
from .interruption import Interruption, signal_in
from .options import RunOptions


def evaluate(
    accelerator: Accelerator,
    translator: Translator,
    valid: EncodedPairs,
    pairs: Dataset,
    options: RunOptions,
    interruption: Interruption,
) -> dict[str, Any] | None:
    """Returns loss per target token over all of `valid`, and BLEU and chrF of the first pairs, decoded greedily.

    A signal to any process ends it early, and then there are no figures: `None`, on every process.

    Args:
        accelerator: Of the run.
        translator: A model that this process can use alone: shares are unequal, so that it must not wait for others.
        valid: The encoded validation pairs.
        pairs: The same as text, of which the first are translated.
        options: The run's.
        interruption: Asked between batches, and by `generate` between pieces.
    """
    start = time.perf_counter()
    model = translator.model
    was_training = model.training
    model.eval()
    pad_token_id = translator.tokenizer.pad_token_id
    loss_sum = tokens = 0.0
    for rows in share(accelerator, token_budget_batches(valid, max(options.batch_size_tokens, 4096), seed=0, block=0)):
        if interruption.noted:
            break
        tensors = tensors_of(valid, rows, pad_token_id)
        batch = {name: tensor.to(model.device) for name, tensor in tensors.items()}
        with torch.no_grad():
            loss_sum += model(**batch, num_items_in_batch=1, return_logits=False).loss.item()
        tokens += float(batch["labels"].ne(-100).sum())
    pairs = pairs.select(range(min(options.eval_pairs, len(pairs))))
    hypotheses, _ = translate_shared(
        accelerator, translator, pairs["source"], num_beams=1, stopping_criteria=[interruption]
    )
    model.train(was_training)
    loss_sum, tokens, *flags = sum_over_processes(accelerator, [loss_sum, tokens, *interruption.flags()])
    if signal_in(flags):
        return None
    scores = score(hypotheses, list(pairs["target"]), tokenize=options.bleu_tokenizer)
    if accelerator.is_main_process:
        shown = "".join(f", {metric.short} {getattr(scores, key):.2f}" for key, metric in METRICS.items())
        print(f"valid: loss {loss_sum / tokens:.3f} per target token{shown}")
    return {
        "valid_loss": loss_sum / tokens,
        **{f"valid_{key}": getattr(scores, key) for key in METRICS},
        "valid_scored": scores.sentences,
        **{f"{key}_signature": getattr(scores, f"{key}_signature") for key in METRICS},
        "evaluation_seconds": round(time.perf_counter() - start, 2),
    }


def merit(figures: dict[str, Any], metric: str) -> float:
    """Returns the figure that chooses the best model, turned so that more is better; NaN is worst."""
    sign = -1 if metric == "loss" else METRICS[metric].sign
    value = sign * figures[f"valid_{metric}"]
    return -math.inf if math.isnan(value) else value
