# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Pictures: the curve of a training run and the map of an attention. Needs Matplotlib (`pip install tinyseq[viz]`)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


def draw_curve(lines: Sequence[dict], path: Path) -> None:
    """Draws loss and BLEU over the updates of a run.

    Args:
        lines: The lines of a run's log.jsonl.
        path: The PNG file to write.
    """
    figure = Figure(figsize=(7, 4), layout="constrained")
    loss_axes = figure.add_subplot()
    bleu_axes = loss_axes.twinx()
    for axes, name, style, label in (
        (loss_axes, "loss_per_target_token", "C0-", "training loss"),
        (loss_axes, "valid_loss", "C0o--", "validation loss"),
        (bleu_axes, "valid_bleu", "C1s-", "validation BLEU"),
    ):
        points = [(line["step"], line[name]) for line in lines if name in line]
        axes.plot(*zip(*points, strict=True) if points else ([], []), style, label=label)
    loss_axes.set(xlabel="update", ylabel="loss per target token (nats)")
    loss_axes.set_ylim(bottom=0)
    bleu_axes.set(ylabel="BLEU", ylim=(0, 100))
    loss_axes.grid(alpha=0.3)
    handles = [*loss_axes.get_lines(), *bleu_axes.get_lines()]
    loss_axes.legend(handles=handles, loc="center right")
    FigureCanvasAgg(figure).print_png(path)


def draw_map(weights: np.ndarray, sources: Sequence[str], targets: Sequence[str], path: Path, title: str = "") -> None:
    """Draws one attention map: a row for each target piece, a column for each source piece, dark where it looks.

    Args:
        weights: (target_len, source_len), each row summing to 1.
        sources: The pieces of the columns.
        targets: The pieces of the rows.
        path: The PNG file to write.
        title: A line above the map.

    Raises:
        ValueError: The labels do not fit the weights.
    """
    if weights.shape != (len(targets), len(sources)):
        raise ValueError(
            f"weights of shape {weights.shape} do not fit {len(targets)} targets and {len(sources)} sources"
        )
    figure = Figure(figsize=(2 + 0.55 * len(sources), 1.6 + 0.42 * len(targets)), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(sources)), sources, rotation=45, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(targets)), targets)
    axes.set_title(title)
    figure.colorbar(image, ax=axes, label="attention weight")
    FigureCanvasAgg(figure).print_png(path, pil_kwargs=None)
