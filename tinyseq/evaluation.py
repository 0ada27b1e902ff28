# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""BLEU and chrF of translations, as sacreBLEU computes them, each with its signature; `METRICS` is where to add one.

References are raw text: never ids decoded again, and never tokenised beforehand. The numbers are those of sacreBLEU's
own command line on the same files, on its scale from 0 to 100.
"""

import importlib.util
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from sacrebleu.metrics import BLEU, CHRF
from transformers.utils import logging

logger = logging.get_logger(__name__)

# Languages whose words have no spaces around them, or which have a tokenizer of their own in sacreBLEU: the tokenizer,
# and the Python module that it needs
TOKENIZERS = {"zh": ("zh", None), "ja": ("ja-mecab", "MeCab"), "ko": ("ko-mecab", "mecab_ko")}


@dataclass(frozen=True)
class Metric:
    """How one of sacreBLEU's metrics is computed, and how it is shown."""

    title: str  # in tables
    short: str  # in the line that tells of an evaluation while training
    make: Callable[[str], Any]  # returns sacreBLEU's metric, given a tokenizer of its BLEU
    sign: int = 1  # -1 where less is better: a figure times its sign is more for a better model
    in_curve: bool = False  # whether a run's curve.png shows it


def bleu_metric(tokenize: str) -> BLEU:
    """Returns sacreBLEU's BLEU with this tokenizer; refuses one that is not known, or not installed."""
    if tokenize not in BLEU.TOKENIZERS:
        raise ValueError(f"tokenize={tokenize!r} is not known; choose one of {', '.join(BLEU.TOKENIZERS)}")
    try:
        return BLEU(tokenize=tokenize)
    except (ImportError, RuntimeError) as error:  # its message says what to install
        raise ValueError(f"tokenize={tokenize!r} can't be used: {' '.join(str(error).split())}") from error


# The one place where a metric is named: what computes, shows or compares scores goes through all of these. The key is
# what the Hub calls it, and is in the names of its figures (`valid_chrf`, `chrf_signature`) and in `--best_metric`.
METRICS = {
    "bleu": Metric("BLEU", "BLEU", bleu_metric, in_curve=True),  # Papineni et al. 2002
    "chrf": Metric("chrF2", "chrF", lambda tokenize: CHRF()),  # Popović 2015
}


class Scores(SimpleNamespace):
    """Scores of a set of translations, by name: of each of `METRICS` the figure and how it was computed, and two more.

    Such as `scores.bleu` and `scores.bleu_signature` (Post 2018): two figures compare only where these are equal.

    Attributes:
        exact_match: Percentage of hypotheses that are a reference to the letter.
        sentences: Number of hypotheses.
    """

    def to_dict(self) -> dict[str, Any]:
        """Returns the scores by name."""
        return dict(vars(self))

    def __str__(self) -> str:
        rows = [(metric.title, vars(self)[key], vars(self)[f"{key}_signature"]) for key, metric in METRICS.items()]
        rows.append(("exact match", self.exact_match, f"% of {self.sentences:,} sentences"))
        return "\n".join(f"{title:<11}  {value:6.2f}   {note}" for title, value, note in rows)


def score(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    tokenize: str | None = None,
    language: str | None = None,
) -> Scores:
    """Returns the figures of all `METRICS` and the share of exact matches.

    Args:
        hypotheses: The translations, detokenised.
        references: Their references; or several lists of references, each as long as the hypotheses.
        tokenize: sacreBLEU's tokenizer, for a metric that has one, as BLEU. `None`: what suits `language`.
        language: Code of the target language, such as `"de"` or `"zh-CN"`.

    Raises:
        TypeError: A hypothesis or a reference is not a string.
        ValueError: There is nothing to score, the counts differ, or the tokenizer is not known or not installed.
    """
    is_one_list = len(references) == 0 or isinstance(references[0], str)
    lists: Any = [references] if is_one_list else references
    streams: list[list[str]] = [list(stream) for stream in lists]
    check(hypotheses, streams)
    metrics = {key: metric.make(tokenize or bleu_tokenizer_for(language)) for key, metric in METRICS.items()}
    values = {key: metric.corpus_score(list(hypotheses), streams).score for key, metric in metrics.items()}
    matches = sum(hypothesis in together for hypothesis, *together in zip(hypotheses, *streams, strict=True))
    return Scores(
        **values,
        exact_match=100 * matches / len(hypotheses),
        sentences=len(hypotheses),
        **{f"{key}_signature": str(metric.get_signature()) for key, metric in metrics.items()},
    )


def bleu_tokenizer_for(language: str | None) -> str:
    """Returns the name of the tokenizer that BLEU should use for a target language, of those that are installed."""
    code = (language or "").lower().replace("_", "-").split("-")[0]
    tokenizer, module = TOKENIZERS.get(code, ("13a", None))
    return tokenizer if module is None or importlib.util.find_spec(module) else "char"


def check(hypotheses: Sequence[str], streams: list[list[str]]) -> None:
    """Refuses to score nothing, lists of unequal length and what is no text; warns of references not in NFC."""
    if len(hypotheses) == 0 or len(streams) == 0:
        raise ValueError(f"there is nothing to score: {len(hypotheses)} hypotheses, {len(streams)} reference lists")
    for number, stream in enumerate(streams, start=1):
        if len(stream) != len(hypotheses):
            which = f"reference list {number} has" if len(streams) > 1 else "there are"
            raise ValueError(
                f"{len(hypotheses):,} hypotheses, but {which} {len(stream):,} references: each needs its own"
            )
    for name, texts in [("hypotheses", hypotheses), *(("references", stream) for stream in streams)]:
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"{name}[{index}] is of type {type(text).__name__}; give a str")
    count = sum(not unicodedata.is_normalized("NFC", text) for stream in streams for text in stream)
    if count:  # the metrics compare characters as they are
        logger.warning(
            f"{count:,} of {sum(map(len, streams)):,} references are not in NFC and the metrics do not normalise: "
            f"a letter with an accent as a character of its own does not match the same letter in NFC."
        )
