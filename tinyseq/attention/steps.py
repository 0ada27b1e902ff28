# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""One step of a trace, with its numbers: as lines of text, and as data for a page."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

WIDE = ("d_model", "head_dim", "heads * head_dim", "ffn_dim", "vocab")  # axes of which a table shows the first few
MASKED = -3e4  # a score below this was put there by the mask: the lowest number of float16 is -65504
SMALL = 12  # most rows and columns of a matrix that the text shows whole, of every head


@dataclass
class Step:
    """One step of the computation, and the numbers that it gives."""

    name: str  # its id, such as `encoder.0.self_attn.scores`
    group: str  # the part of the model it belongs to, such as `encoder layer 0`
    title: str  # what it is, in a few words
    text: str  # what happens here, and why, in a sentence or two
    axes: tuple[str, ...]  # the name of each axis of `values`
    values: np.ndarray  # the numbers, all of them
    formula: str = ""  # how they come about
    inputs: tuple[str, ...] = ()  # names of the steps whose values it works on
    # what each entry of the last axis but one (of the only axis, where there is one) stands for
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()  # what each entry of the last axis stands for, where that is something with a name
    tabs: Sequence[str] = ()  # what each entry of the first of three axes stands for: a head, as a rule
    sums_to_one: bool = False  # whether each row is a distribution
    # where `values` are the candidates for the next piece, the row of the one that was taken
    chosen: int | None = None

    @property
    def shape(self) -> str:
        """The shape in words, such as `(heads 4, source_len 6, head_dim 32)`."""
        return "(" + ", ".join(f"{axis} {n}" for axis, n in zip(self.axes, self.values.shape, strict=True)) + ")"


def number(value: float) -> str:
    """Returns a number as the tables show it."""
    if isinstance(value, (int, np.integer)):
        return str(value)
    if value < MASKED:
        return "masked"
    return f"{value:.0e}" if 0 < abs(value) < 0.00005 else f"{value:.4f}"


def wrapped(text: str, indent: str = "") -> list[str]:
    """Returns a text as lines."""
    return textwrap.wrap(text, 100, initial_indent=indent, subsequent_indent=indent, break_long_words=False)


def text_of(step: Step, values: int) -> list[str]:
    """Returns a step as lines: name, title and shape, what happens, the formula, and the numbers."""
    lines = [f"{step.title}   {step.name} {step.shape}"]
    lines += wrapped(step.text, "  ")
    if step.formula:
        lines.append(f"  {step.formula}")
    if len(step.axes) < 3:
        return lines + table_of(step, step.values, values)
    is_small = step.name.endswith((".scores", ".weights")) and max(step.values.shape[1:]) <= SMALL
    shown = len(step.tabs) if is_small or step.axes[0] != "heads" else 1
    for tab, matrix in list(zip(step.tabs, step.values, strict=True))[:shown]:
        lines += [f"  {tab}", *table_of(step, matrix, values)]
    if shown < len(step.tabs):
        lines.append(f"  {', '.join(step.tabs[shown:])} likewise")
    return lines


def table_of(step: Step, matrix: np.ndarray, values: int) -> list[str]:
    """Returns one matrix of a step, or its only vector, as the lines of a table."""
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    width = matrix.shape[1]
    shown = width if step.axes[-1] not in WIDE and width <= max(values, SMALL) else min(values, width)
    is_cut = shown < width
    cells = [[number(value) for value in row[:shown]] + ["..."] * is_cut for row in matrix]
    header = [*step.columns[:shown], *["..."] * is_cut] if step.columns else []
    if step.sums_to_one:
        cells = [[*row, f"{total:.4f}"] for row, total in zip(cells, matrix.sum(axis=-1), strict=True)]
        header = [*header, "sum"]
    labels = list(step.rows)
    if step.chosen is not None:
        labels = [f"{'>' if index == step.chosen else ' '} {label}" for index, label in enumerate(labels)]
    table = [["", *header]] * bool(header) + [[label, *row] for label, row in zip(labels, cells, strict=True)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "    "
        + "  ".join(
            [f"{line[0]:<{widths[0]}}"]
            + [f"{cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True)]
        )
        for line in table
    ]


def data_of(step: Step, values: int) -> dict[str, Any]:
    """Returns a step as JSON can hold it."""
    width = step.values.shape[-1]
    shown = min(values, width) if step.axes[-1] in WIDE else width
    numbers = step.values[..., :shown]
    data = {
        "name": step.name,
        "group": step.group,
        "title": step.title,
        "text": step.text,
        "formula": step.formula,
        "shape": step.shape,
        "inputs": list(step.inputs),
        "rows": list(step.rows),
        "columns": list(step.columns[:shown]),
        "tabs": list(step.tabs),
        "cut": f"the first {shown} of {width} columns are shown" if shown < width else "",
        "values": numbers.tolist() if numbers.dtype.kind == "i" else np.round(numbers.astype(float), 4).tolist(),
        "chosen": step.chosen,
    }
    if step.sums_to_one:
        data["sums"] = np.round(step.values.astype(float).sum(axis=-1), 4).tolist()
    return data
