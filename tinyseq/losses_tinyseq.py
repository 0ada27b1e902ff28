# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Dropout and the loss: two operations that are written out because they are half of the time on a CPU.

Shapes are in the words of modeling_tinyseq.py, whose layers call `dropout` and whose head calls the losses.
"""

import torch
from torch import nn
from transformers.utils import is_torchdynamo_compiling

IGNORE_INDEX = -100  # the label of a position that is not scored, as everywhere in Transformers


class ByteDropout(torch.autograd.Function):
    """Dropout whose mask comes from random bytes: the probability is a multiple of 1/256.

    ``torch.nn.functional.dropout`` draws one Bernoulli number per value, which takes a tenth of a training step on a
    CPU; eight masks from each 64-bit draw take a third of that. The kept values are scaled by the probability really
    used, so that the expectation is exact.
    """

    @staticmethod
    def forward(ctx, values: torch.Tensor, probability: float) -> torch.Tensor:
        dropped = min(max(round(probability * 256), 1), 255)  # of the 256 values of a byte
        words = torch.empty((values.numel() + 7) // 8, dtype=torch.int64)
        keep = words.random_(-(2**63), None).view(torch.uint8)[: values.numel()].view(values.shape) >= dropped
        ctx.scale = 256 / (256 - dropped)
        ctx.save_for_backward(keep)
        return (values * keep).mul_(ctx.scale)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor):
        (keep,) = ctx.saved_tensors
        return (gradient * keep).mul_(ctx.scale), None


def dropout(values: torch.Tensor, probability: float, training: bool) -> torch.Tensor:
    """Returns `values`, in training with a share of `probability` set to zero and the rest scaled up."""
    if not training or probability == 0:
        return values
    if values.device.type == "cpu" and not is_torchdynamo_compiling():
        return ByteDropout.apply(values, probability)
    return nn.functional.dropout(values, p=probability, training=True)


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor, label_smoothing: float = 0.0) -> torch.Tensor:
    """Returns the cross-entropy summed over all labels that are not -100.

    With smoothing `e` the wanted distribution is 1 - e on the label plus e / vocab on every piece (Szegedy et al.
    2016, section 7; Vaswani et al. 2017, section 5.4).

    Args:
        logits: (..., vocab)
        labels: (...), **unshifted**: the label of a position is the piece that follows it.
        label_smoothing: e, from 0 to below 1.
    """
    return nn.functional.cross_entropy(
        logits.float().view(-1, logits.shape[-1]),
        labels.view(-1),
        ignore_index=IGNORE_INDEX,
        label_smoothing=label_smoothing,
        reduction="sum",
    )


class ProjectionCrossEntropy(torch.autograd.Function):
    """The output projection and `cross_entropy` in one: the logits of all positions never exist at once.

    Chunk by chunk: project, take the loss, and turn the logits in place into their own gradient, softmax minus the
    wanted distribution, which at once gives the gradients of the states and of the projection. Logits of a whole batch
    (batch x target_len x vocab) are the largest tensors of a small model, and memory is what a CPU waits for.
    """

    CHUNK = 512  # positions; 512 x 8,000 float32 logits are 16 MB

    @staticmethod
    def forward(
        ctx,
        states: torch.Tensor,
        weight: torch.Tensor,
        labels: torch.Tensor,
        label_smoothing: float,
        constant: int | None,
    ) -> torch.Tensor:
        """Returns the summed loss of `states` (positions, d_model) and `labels` (positions), none of which is -100.

        The logit of piece `constant` is the constant 0; `weight` is (vocab, d_model).
        """
        vocab = weight.shape[0]
        needs_gradient = any(ctx.needs_input_grad)
        loss = torch.zeros((), dtype=torch.float32, device=states.device)
        if needs_gradient:
            states_gradient = torch.empty_like(states)
            weight_gradient = torch.zeros_like(weight, dtype=torch.float32)
        for start in range(0, states.shape[0], ProjectionCrossEntropy.CHUNK):
            rows = slice(start, start + ProjectionCrossEntropy.CHUNK)
            logits = states[rows] @ weight.T  # (chunk, vocab)
            if constant is not None:
                logits[:, constant] = 0
            log_probs = torch.log_softmax(logits, dim=-1, dtype=torch.float32)
            label = labels[rows].unsqueeze(-1)
            loss -= (1 - label_smoothing) * log_probs.gather(-1, label).sum()
            if label_smoothing:
                loss -= label_smoothing / vocab * log_probs.sum()
            if needs_gradient:
                gradient = log_probs.exp_()  # from here these are probabilities, then the gradient of the logits
                if label_smoothing:
                    gradient -= label_smoothing / vocab
                gradient.scatter_add_(-1, label, gradient.new_full((1, 1), label_smoothing - 1).expand_as(label))
                if constant is not None:
                    gradient[:, constant] = 0
                gradient = gradient.to(states.dtype)
                torch.matmul(gradient, weight, out=states_gradient[rows])
                if weight.dtype == torch.float32:
                    weight_gradient.addmm_(gradient.T, states[rows])
                else:
                    weight_gradient += gradient.T @ states[rows]
        if needs_gradient:
            ctx.save_for_backward(states_gradient, weight_gradient.to(weight.dtype))
        return loss

    @staticmethod
    def backward(ctx, gradient: torch.Tensor):
        states_gradient, weight_gradient = (saved * gradient.to(saved.dtype) for saved in ctx.saved_tensors)
        return states_gradient, weight_gradient, None, None, None


def projection_cross_entropy(
    states: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    label_smoothing: float = 0.0,
    constant: int | None = None,
) -> torch.Tensor:
    """Returns `cross_entropy(states @ weight.T, labels, label_smoothing)`, projecting only where there is a label.

    Args:
        states: (..., d_model)
        weight: (vocab, d_model)
        labels: (...), -100 where there is nothing to learn.
        label_smoothing: From 0 to below 1.
        constant: Id of a piece whose logit is the constant 0.
    """
    labels = labels.reshape(-1)
    scored = labels != IGNORE_INDEX
    states, labels = states.reshape(-1, states.shape[-1])[scored], labels[scored]
    device = states.device.type
    if torch.is_autocast_enabled(device):  # the cast is part of the graph; inside, autocast would undo it
        states, weight = states.to(torch.get_autocast_dtype(device)), weight.to(torch.get_autocast_dtype(device))
    with torch.autocast(device, enabled=False):
        return ProjectionCrossEntropy.apply(states, weight, labels, label_smoothing, constant)
