# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Pictures: of an attention as a table for the terminal, as a PNG, as a page; and the curve of a training run.

The PNGs need Matplotlib (`pip install tinyseq[viz]`); the rest needs nothing.
"""

import base64
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from transformers.utils import logging

from ..configuration_tinyseq import ATTENTIONS
from . import pages
from .heads import HeadStatistics
from .maps import AttentionMaps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.get_logger(__name__)

SHADES = ((0.75, "█"), (0.5, "▓"), (0.25, "▒"), (0.1, "░"), (0.005, "·"))  # from this weight on
FONTS = (  # beside Matplotlib's own, which has no Chinese, Hindi, Thai ...; those that are installed are used
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "PingFang SC",
    "Hiragino Sans", "Microsoft YaHei", "SimHei", "Noto Sans Devanagari", "Noto Sans Thai", "Noto Sans Arabic",
    "Noto Sans Hebrew", "Noto Sans", "Arial Unicode MS",
)  # fmt: skip
LONGEST_LABEL = 14  # columns of the terminal; what is longer is cut, with "…"
WHAT = {
    "encoder": "the encoder's self-attention: where each source word (row) looks in the source (columns)",
    "decoder": "the decoder's self-attention: where it looks in what it has read (columns) to write a word (row)",
    "cross": "the cross-attention: where the decoder looks in the source (columns) to write a word (row)",
}


# ---------------------------------------------------------------------------------------------------------------------
# One map: which, and what its rows and columns stand for
# ---------------------------------------------------------------------------------------------------------------------


def choose(
    found: AttentionMaps, name: str = "cross", layer: int = -1, head: int | None = None
) -> tuple[np.ndarray, list[str], list[str]]:
    """Returns one map, (rows, columns), and the labels of its rows and of its columns.

    Args:
        found: Of pieces or of words.
        name: "encoder", "decoder" or "cross".
        layer: From 0; -1 is the last.
        head: From 0; `None`: the mean of all that are there.

    Raises:
        ValueError: There is no such attention, layer or head, or the head was removed.
    """
    if name not in ATTENTIONS:
        raise ValueError(f"attention={name!r} must be one of {', '.join(ATTENTIONS)}")
    weights = getattr(found, name)
    layers, heads = weights.shape[:2]
    if not -layers <= layer < layers:
        raise ValueError(f"layer={layer}: the layers of this attention are 0 to {layers - 1}")
    if head is not None and not 0 <= head < heads:
        raise ValueError(f"head={head}: the heads of this attention are 0 to {heads - 1}")
    there = weights[layer][weights[layer].any(axis=(1, 2))]  # a head that was removed has no weight anywhere
    if head is not None and not weights[layer, head].any():
        raise ValueError(f"head={head} was removed from layer {layer % layers} of this model")
    chosen = there.mean(axis=0) if head is None else weights[layer, head]
    read = ["BEGIN", *found.decoder_pieces[1:]]
    rows = {"encoder": found.source_pieces, "decoder": found.target_pieces, "cross": found.target_pieces}
    columns = {"encoder": found.source_pieces, "decoder": read, "cross": found.source_pieces}
    return chosen, rows[name], columns[name]


def check_labels(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Refuses labels that do not fit the weights."""
    if weights.shape != (len(rows), len(columns)):
        raise ValueError(f"weights of shape {weights.shape} do not fit {len(rows)} targets and {len(columns)} sources")


# ---------------------------------------------------------------------------------------------------------------------
# For the terminal
# ---------------------------------------------------------------------------------------------------------------------


def table(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> str:
    """Returns a map as text: a line for each row, in percent, with a shade; below half a percent nothing.

    Args:
        weights: (rows, columns), each row summing to 1.
        rows: What the rows stand for.
        columns: What the columns stand for.

    Raises:
        ValueError: The labels do not fit the weights.
    """
    check_labels(weights, rows, columns)
    titles = [cut(label) for label in columns]
    widths = [max(width(title), 5) + 2 for title in titles]
    labels = [cut(label) for label in rows]
    first = max(map(width, labels), default=0)
    lines = [" " * first + "".join(before(title, size) for title, size in zip(titles, widths, strict=True))]
    for label, row in zip(labels, weights, strict=True):
        cells = [before(shade(weight), size) for weight, size in zip(row, widths, strict=True)]
        lines.append(label + " " * (first - width(label)) + "".join(cells))
    return "\n".join(line.rstrip() for line in lines)


def shade(weight: float) -> str:
    """Returns a weight as a shade and a percentage; both of them three and more columns wide."""
    shade = next((shade for least, shade in SHADES if weight >= least), "")
    return f"{shade}{100 * weight:4.0f}" if shade else ""


def width(text: str) -> int:
    """Returns how many columns of a terminal a text takes: Chinese characters two, combining marks none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def before(text: str, columns: int) -> str:
    """Returns a text with the spaces before it that fill so many columns."""
    return " " * (columns - width(text)) + text


def cut(label: str) -> str:
    """Returns a label that fits, and changes nothing but its own place on the screen."""
    shown = "".join(char if char.isprintable() else "�" for char in label)
    if width(shown) <= LONGEST_LABEL:
        return shown
    while width(shown) > LONGEST_LABEL - 1:
        shown = shown[:-1]
    return shown + "…"


# ---------------------------------------------------------------------------------------------------------------------
# As a page
# ---------------------------------------------------------------------------------------------------------------------


def attention_page(
    hypotheses: Sequence[AttentionMaps],
    statistics: HeadStatistics,
    *,
    model: str,
    unit: str = "words",
    without: Mapping[str, Sequence[Sequence[dict[str, Any] | None]]] | None = None,
) -> str:
    """Returns the page of a sentence and its translations, as HTML: one file that works without a network.

    Args:
        hypotheses: The maps of each translation of one source, the one that is returned first.
        statistics: What each head does, over a corpus or over these words.
        model: Its name, to show.
        unit: What the maps are of, "words" or "pieces".
        without: What becomes of the first translation when a head is switched off, as `heads.without_each_head` gives
            it.
    """
    first = hypotheses[0]
    data = {
        "model": model,
        "unit": unit,
        "source": {"text": first.source, "tokens": first.source_pieces},
        "encoder": packed(first.encoder),
        "hypotheses": [
            {
                "text": found.translation,
                "score": round(found.score, 5),
                "read": ["BEGIN", *found.decoder_pieces[1:]],
                "written": found.target_pieces,
                "decoder": packed(found.decoder),
                "cross": packed(found.cross),
            }
            for found in hypotheses
        ],
        "heads": statistics.to_data(),
        "without": without,
    }
    return pages.render("attention", f"Attention: {first.source}", data)


def packed(weights: np.ndarray) -> dict[str, Any]:
    """Returns maps, (layers, heads, rows, columns), for a page: each weight in 16 bits, 0 to 65535 for 0 to 1."""
    layers, heads, rows, columns = weights.shape
    values = np.rint(np.clip(weights, 0, 1) * 65535).astype("<u2")
    text = base64.b64encode(values.tobytes()).decode("ascii")
    return {"layers": layers, "heads": heads, "rows": rows, "columns": columns, "weights": text}


# ---------------------------------------------------------------------------------------------------------------------
# As PNG
# ---------------------------------------------------------------------------------------------------------------------


def new_figure(size: tuple[float, float]) -> "Figure":
    """Returns an empty figure, its size in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"pictures need Matplotlib: pip install tinyseq[viz] ({error})") from error
    return Figure(figsize=size, layout="constrained")


def save(figure: "Figure", path: Path | BinaryIO) -> None:
    """Writes a figure as PNG, in fonts that are there for its scripts; says so where there are none."""
    from matplotlib import font_manager, rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    installed = {font.name for font in font_manager.fontManager.ttflist}
    families = ["DejaVu Sans", *(family for family in FONTS if family in installed)]
    with rc_context({"font.family": families}), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for text in figure.findobj(Text):
            text.set_fontfamily(families)
        FigureCanvasAgg(figure).print_png(path)
    missing = sum("missing from font" in str(warning.message) for warning in caught)
    if missing:
        logger.warning(
            f"{missing} characters have no glyph in the fonts of this machine and are boxes in the picture; install a "
            f"font for them, such as Noto Sans CJK, or make the page, for which the browser finds one."
        )


def draw_curve(lines: Sequence[dict], path: Path) -> None:
    """Draws loss, BLEU and what else of `METRICS` is for a curve, over the updates of a run.

    Args:
        lines: The lines of a run's log.jsonl.
        path: The PNG file to write.
    """
    from ..evaluation import METRICS  # it imports sacreBLEU, which maps do without

    figure = new_figure((7, 4))
    loss_axes = figure.add_subplot()
    score_axes = loss_axes.twinx()
    metrics = {name: metric.title for name, metric in METRICS.items() if metric.in_curve}
    for axes, name, style, label in (
        (loss_axes, "loss_per_target_token", "C0-", "training loss"),
        (loss_axes, "valid_loss", "C0o--", "validation loss"),
        *(
            (score_axes, f"valid_{name}", f"C{color}s-", f"validation {title}")
            for color, (name, title) in enumerate(metrics.items(), start=1)
        ),
    ):
        points = [(line["step"], line[name]) for line in lines if name in line]
        axes.plot(*zip(*points, strict=True) if points else ([], []), style, label=label)
    loss_axes.set(xlabel="update", ylabel="loss per target token (nats)")
    loss_axes.set_ylim(bottom=0)
    score_axes.set(ylabel=", ".join(metrics.values()), ylim=(0, 100))
    loss_axes.grid(alpha=0.3)
    handles = [*loss_axes.get_lines(), *score_axes.get_lines()]
    loss_axes.legend(handles=handles, loc="center right")
    save(figure, path)


def draw_map(
    weights: np.ndarray, sources: Sequence[str], targets: Sequence[str], path: Path | BinaryIO, title: str = ""
) -> None:
    """Draws one attention map: a row for each target piece, a column for each source piece, dark where it looks.

    Args:
        weights: (target_len, source_len), each row summing to 1.
        sources: The pieces of the columns.
        targets: The pieces of the rows.
        path: The PNG file to write, or one that is open.
        title: A line above the map.

    Raises:
        ValueError: The labels do not fit the weights.
    """
    check_labels(weights, targets, sources)
    figure = new_figure((2 + 0.55 * len(sources), 1.6 + 0.42 * len(targets)))
    axes = figure.add_subplot()
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(sources)), map(plain, sources), rotation=45, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(targets)), map(plain, targets))
    axes.set_title(plain(title))
    figure.colorbar(image, ax=axes, label="attention weight")
    save(figure, path)


def plain(text: str) -> str:
    """Returns a text that Matplotlib draws as it is: a dollar sign begins no formula."""
    return text.replace("$", r"\$")
