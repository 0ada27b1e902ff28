# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Splits: `generate`, and what is held out of training.

Where a sentence may appear is decided by hashes of the sentence itself and of its combinations, never by what else
was drawn: so the splits of any sizes and any seeds are disjoint, and each can be generated without the others.
"""

import hashlib
import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from .lexicon import PRONOUNS
from .phrases import PHENOMENA, Combination, Links, Phrase, contracted, words, written
from .sentences import FIXED_PHRASES, TEXT_PHENOMENA, TEXT_SENTENCES, long_sentence, sentence

SPLITS = ("train", "validation", "test", "test_combinations", "test_longer")


@dataclass(frozen=True)
class Pair:
    """A source sentence, its one translation, and what is known of them.

    Attributes:
        source: The English sentence.
        target: The Spanish sentence.
        alignment: (source word, target word), 0-based, over `words(source)` and `words(target)`; sorted.
        phenomena: What the sentence shows: names from `PHENOMENA`, in its order.
        referent: For sentences of the phenomenon "referent", the Spanish adjective form that shows what `it` stands
            for ("cansado"); otherwise None.
    """

    source: str
    target: str
    alignment: Links
    phenomena: tuple[str, ...]
    referent: str | None = None


LONGEST = 17  # source or target words of a sentence of any split but test_longer, punctuation included
_HELD_OUT_PERCENT = {"noun+adjective": 7, "subject+verb": 3, "verb+object": 5, "referent": 10}
_TEXT_COMBINATIONS = {  # of the texts' own sentences, which training must have
    ("noun+adjective", "ball", "blue"), ("noun+adjective", "cat", "black"), ("noun+adjective", "animal", "tired"),
    ("noun+adjective", "street", "wide"), ("subject+verb", "cat", "drink"), ("subject+verb", "animal", "cross"),
    ("verb+object", "drink", "milk"), ("verb+object", "cross", "street"),
    ("referent", "animal+street", "tired"), ("referent", "animal+street", "wide"),
}  # fmt: skip
# Never held out: only "we" shows comemos, so that without "we eat" the word would be unknown, not the combination.
_COMMON_LEMMAS = frozenset({"and", "who", *(pronoun for pronoun, _, _ in PRONOUNS)})
DEFAULT_PAIRS = {"train": 40_000, "validation": 1_000, "test": 2_000, "test_combinations": 2_000, "test_longer": 1_000}
MOST_PAIRS = {
    "train": 200_000, "validation": 10_000, "test": 20_000, "test_combinations": 50_000, "test_longer": 50_000,
}  # fmt: skip
_FIXED_EVERY = 50  # one in so many training pairs is a text's own sentence or a fixed phrase


def _hash(text: str, buckets: int) -> int:
    """A number below `buckets` that depends on the text alone, on every machine (Python's own `hash` does not)."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % buckets


@cache
def is_held_out(combination: Combination) -> bool:
    """Whether the combination of lemmas appears in `test_combinations` alone."""
    if combination in _TEXT_COMBINATIONS or not _COMMON_LEMMAS.isdisjoint(combination):
        return False
    return _hash(" ".join(combination), 100) < _HELD_OUT_PERCENT[combination[0]]


def _split_of(phrase: Phrase, source: str) -> str:
    """The one split in which a sentence may appear."""
    combines = any(is_held_out(combination) for combination in phrase.combinations)
    if min(len(phrase.english), len(phrase.spanish)) > LONGEST:
        return "" if combines else "test_longer"
    if max(len(phrase.english), len(phrase.spanish)) > LONGEST:
        return ""
    if combines:
        return "test_combinations"
    bucket = _hash(source, 20)
    return "validation" if bucket == 0 else "test" if bucket <= 2 else "train"


def generate(split: str = "train", pairs: int | None = None, seed: int = 0) -> list[Pair]:
    """The first `pairs` pairs of a split, always the same for the same seed.

    A source appears once, but for the texts' own sentences and the fixed phrases: training begins with them (27 pairs)
    and repeats them throughout; no other split has them. Fewer pairs are the first of more: shuffle before training.

    Args:
        split: One of `SPLITS`. "validation" and "test" are drawn like "train"; every sentence of "test_combinations"
            has a combination of lemmas, such as a noun and an adjective, that no other split has; every sentence of
            "test_longer" is longer, in both languages, than any in the other splits.
        pairs: How many; by default 40,000 for training and 1,000 or 2,000 for the others.
        seed: Any integer. The splits of different seeds are disjoint too.

    Raises:
        ValueError: If the split is unknown or the number is negative or more than the grammar gives.
    """
    if split not in SPLITS:
        raise ValueError(f"split={split!r} is unknown; choose one of {', '.join(SPLITS)}")
    if pairs is None:
        pairs = DEFAULT_PAIRS[split]
    if not isinstance(pairs, int) or not 0 <= pairs <= MOST_PAIRS[split]:
        raise ValueError(f"pairs={pairs!r} is not allowed; split={split!r} gives 0 to {MOST_PAIRS[split]} pairs")
    rng = random.Random(f"{split} {seed}")
    draw = long_sentence if split == "test_longer" else sentence
    fixed = _fixed_pairs()
    seen = {pair.source for pair in fixed}
    drawn: list[Pair] = fixed[:pairs] if split == "train" else []
    while len(drawn) < pairs:
        if split == "train" and len(drawn) % _FIXED_EVERY == 0:
            drawn.append(fixed[len(drawn) // _FIXED_EVERY % len(fixed)])
            continue
        phrase = contracted(draw(rng))
        source = written(phrase.english)
        if source in seen or _split_of(phrase, source) != split:
            continue
        seen.add(source)
        phenomena = _in_order(phrase.phenomena)
        links = tuple(sorted(phrase.links))
        drawn.append(Pair(source, written(phrase.spanish), links, phenomena, phrase.referent or None))
    return drawn


def _fixed_pair(source: str, target: str, links: str, phenomena: Iterable[str], referent: str | None = None) -> Pair:
    source_words, target_words = words(source), words(target)
    last = len(source_words) - 1
    if links:
        alignment = {(int(i), int(j)) for i, j in (link.split("-") for link in links.split())}
    else:
        alignment = {(i, j) for i in range(last) for j, spanish in enumerate(target_words) if spanish.isalpha()}
    alignment |= {(last, j) for j, spanish in enumerate(target_words) if not spanish.isalpha()}
    return Pair(source, target, tuple(sorted(alignment)), _in_order(phenomena), referent)


def _in_order(phenomena: Iterable[str]) -> tuple[str, ...]:
    found = frozenset(phenomena)
    return tuple(phenomenon for phenomenon in PHENOMENA if phenomenon in found)


def _fixed_pairs() -> list[Pair]:
    """The sentences that every training set begins with: those of the texts, then the fixed phrases."""
    pairs = []
    for source, target, links in TEXT_SENTENCES:
        phenomena = TEXT_PHENOMENA.get(source, ("article", "adjective", "negation", "referent"))
        shown = words(target)[-2] if "referent" in phenomena else None
        pairs.append(_fixed_pair(source, target, links, ("text", *phenomena), shown))
    return pairs + [_fixed_pair(*fixed, ("fixed_phrase",)) for fixed in FIXED_PHRASES]
