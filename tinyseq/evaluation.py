# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""BLEU and chrF of translations, as sacreBLEU computes them, each with its signature.

References are raw text: never ids decoded again, and never tokenised beforehand. The numbers are those of sacreBLEU's
own command line on the same files, on its scale from 0 to 100.
"""

import importlib.util
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sacrebleu.metrics import BLEU, CHRF
from transformers.utils import logging

logger = logging.get_logger(__name__)

# Languages whose words have no spaces around them, or which have a tokenizer of their own in sacreBLEU: the tokenizer,
# and the Python module that it needs
TOKENIZERS = {"zh": ("zh", None), "ja": ("ja-mecab", "MeCab"), "ko": ("ko-mecab", "mecab_ko")}


@dataclass(frozen=True)
class Scores:
    """Scores of a set of translations.

    Attributes:
        bleu: Corpus BLEU (Papineni et al. 2002), 0-100.
        chrf: Corpus chrF2 (Popović 2015), 0-100.
        exact_match: Percentage of hypotheses that are a reference to the letter.
        sentences: Number of hypotheses.
        bleu_signature: How BLEU was computed (Post 2018): two BLEUs compare only where these are equal.
        chrf_signature: The same for chrF.
    """

    bleu: float
    chrf: float
    exact_match: float
    sentences: int
    bleu_signature: str
    chrf_signature: str

    def to_dict(self) -> dict[str, Any]:
        """Returns the scores by name."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"BLEU         {self.bleu:6.2f}   {self.bleu_signature}\n"
            f"chrF2        {self.chrf:6.2f}   {self.chrf_signature}\n"
            f"exact match  {self.exact_match:6.2f}   % of {self.sentences:,} sentences"
        )


def score(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    tokenize: str | None = None,
    language: str | None = None,
) -> Scores:
    """Returns BLEU, chrF and the share of exact matches.

    Args:
        hypotheses: The translations, detokenised.
        references: Their references; or several lists of references, each as long as the hypotheses.
        tokenize: sacreBLEU's tokenizer for BLEU (chrF needs none). `None`: what suits `language`.
        language: Code of the target language, such as `"de"` or `"zh-CN"`.

    Raises:
        TypeError: A hypothesis or a reference is not a string.
        ValueError: There is nothing to score, the counts differ, or the tokenizer is not known or not installed.
    """
    is_one_list = len(references) == 0 or isinstance(references[0], str)
    lists: Any = [references] if is_one_list else references
    streams: list[list[str]] = [list(stream) for stream in lists]
    check_counts(hypotheses, streams)
    for name, texts in [("hypotheses", hypotheses), *(("references", stream) for stream in streams)]:
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"{name}[{index}] is of type {type(text).__name__}; give a str")
    warn_of_decomposed(streams)
    bleu, chrf = bleu_metric(tokenize or bleu_tokenizer_for(language)), CHRF()
    bleu_score = bleu.corpus_score(list(hypotheses), streams).score
    chrf_score = chrf.corpus_score(list(hypotheses), streams).score
    matches = sum(hypothesis in together for hypothesis, *together in zip(hypotheses, *streams, strict=True))
    return Scores(
        bleu=bleu_score,
        chrf=chrf_score,
        exact_match=100 * matches / len(hypotheses),
        sentences=len(hypotheses),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


def bleu_tokenizer_for(language: str | None) -> str:
    """Returns the name of the tokenizer that BLEU should use for a target language, of those that are installed."""
    code = (language or "").lower().replace("_", "-").split("-")[0]
    tokenizer, module = TOKENIZERS.get(code, ("13a", None))
    return tokenizer if module is None or importlib.util.find_spec(module) else "char"


def bleu_metric(tokenize: str) -> BLEU:
    """Returns sacreBLEU's BLEU with this tokenizer; refuses one that is not known, or not installed."""
    if tokenize not in BLEU.TOKENIZERS:
        raise ValueError(f"tokenize={tokenize!r} is not known; choose one of {', '.join(BLEU.TOKENIZERS)}")
    try:
        return BLEU(tokenize=tokenize)
    except (ImportError, RuntimeError) as error:  # its message says what to install
        raise ValueError(f"tokenize={tokenize!r} can't be used: {' '.join(str(error).split())}") from error


def check_counts(hypotheses: Sequence[str], streams: list[list[str]]) -> None:
    """Refuses to score nothing, or lists of unequal length."""
    if len(hypotheses) == 0 or len(streams) == 0:
        raise ValueError(f"there is nothing to score: {len(hypotheses)} hypotheses, {len(streams)} reference lists")
    for number, stream in enumerate(streams, start=1):
        if len(stream) != len(hypotheses):
            which = f"reference list {number} has" if len(streams) > 1 else "there are"
            raise ValueError(
                f"{len(hypotheses):,} hypotheses, but {which} {len(stream):,} references: each needs its own"
            )


def warn_of_decomposed(streams: list[list[str]]) -> None:
    """Says how many references are not in NFC: the metrics compare characters as they are."""
    count = sum(not unicodedata.is_normalized("NFC", text) for stream in streams for text in stream)
    if count:
        logger.warning(
            f"{count:,} of {sum(map(len, streams)):,} references are not in NFC and the metrics do not normalise: "
            f"a letter with an accent as a character of its own does not match the same letter in NFC."
        )
