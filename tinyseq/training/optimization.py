# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What an update is made with: AdamW, dropout that depends on the micro-batch alone, a moving average of weights."""

from typing import Any

import numpy as np
import torch
from torch.optim.swa_utils import AveragedModel


def make_optimizer(
    model: torch.nn.Module, learning_rate: float, beta2: float, weight_decay: float
) -> torch.optim.AdamW:
    """Returns AdamW (Loshchilov and Hutter 2019) with weight decay on matrices only.

    Biases and LayerNorms are not what should shrink. The biases of the keys are not trained at all unless positions
    are rotary: they add the same to all scores of a query, which softmax does not notice. Their gradient is nothing
    but rounding, of which Adam would make steps of full size, other ones for each way to add up the same batch.
    """
    for name, parameter in model.named_parameters():
        if name.endswith("k_proj.bias") and getattr(model.config, "position_embedding_type", None) != "rotary":
            parameter.requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, beta2), eps=1e-9, fused=True)


def seed_dropout(seed: int, micro_batch: int) -> None:
    """Makes the dropout of a micro-batch depend on the seed and its number alone.

    Then neither the process that it falls to nor an interruption before it changes what is dropped, and no state of a
    random generator has to be kept.
    """
    torch.manual_seed(int(np.random.SeedSequence([seed, micro_batch]).generate_state(1, np.uint64)[0]))


class MovingAverage(AveragedModel):
    """Exponential moving average of a model's weights (Polyak and Juditsky 1992): `module` is a model that has it.

    After update n the new weights count `max(1 - decay, 9 / (10 + n))`, so that the first ones are soon forgotten.
    """

    def __init__(self, model: torch.nn.Module, decay: float):
        @torch.no_grad()
        def average(averaged: Any, current: Any, updates: torch.Tensor | int) -> None:
            torch._foreach_lerp_(averaged, current, max(1 - decay, 9 / (10 + float(updates))))

        super().__init__(model, multi_avg_fn=average)
