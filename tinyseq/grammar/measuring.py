# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Measuring a translation: whether it shows what `it` stands for, and a dictionary as baseline."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import cache

from .lexicon import NAMES, NOUNS, nouns_of
from .phrases import words, written
from .splits import Pair


def referent_is_right(pair: Pair, hypothesis: str) -> bool:
    """Whether a translation shows what `it` stands for: the adjective in the right gender, and not in the other.

    Raises:
        ValueError: If the pair has no referent.
    """
    if pair.referent is None:
        raise ValueError(f"pair {pair.source!r} has no referent; give a pair whose phenomena include 'referent'")
    found = set(words(hypothesis.lower()))
    return pair.referent in found and _other_gender(pair.referent) not in found


def referent_words(pair: Pair) -> tuple[int, int, int]:
    """Which words of the source are the pronoun, the noun that it stands for, and the other that it could stand for.

    The two nouns are an animal and a thing, of unequal gender in Spanish; the adjective tells which is meant.

    Returns:
        Indices into `words(pair.source)`.

    Raises:
        ValueError: If the pair has no referent.
    """
    if pair.referent is None:
        raise ValueError(f"pair {pair.source!r} has no referent; give a pair whose phenomena include 'referent'")
    source = [word.lower() for word in words(pair.source)]
    link = next(i for i, word in enumerate(source) if word in ("because", "although") and source[i + 1] in _PRONOUNS)
    event = range(link) if link else range(source.index(","), len(source))  # the other clause: before it, or behind it
    animal = max(i for i in event if source[i] in _forms("animal"))
    thing = next(i for i in event if i > animal and source[i] in _forms(""))
    gender = "f" if pair.referent.rstrip("s").endswith("a") else "m"
    is_animal = _forms("animal")[source[animal]] == gender
    return link + 1, *((animal, thing) if is_animal else (thing, animal))


_PRONOUNS = ("it", "they")


@cache
def _forms(kinds: str) -> dict[str, str]:
    """The gender of each English form of the nouns of some kinds; "" for all."""
    nouns = nouns_of(kinds) if kinds else NOUNS
    return {noun.forms(plural)[0]: noun.gender for noun in nouns for plural in (False, True)}


def _other_gender(form: str) -> str:
    """cansado, cansada; anchas, anchos."""
    stem, plural = (form[:-1], "s") if form.endswith("s") else (form, "")
    return stem[:-1] + {"o": "a", "a": "o"}[stem[-1]] + plural


def word_by_word(train: Iterable[Pair]) -> Callable[[str], str]:
    """A dictionary as translator, the baseline: each word becomes what it most often links to, its place kept.

    Args:
        train: Aligned pairs; a word's translation is the target words that it links to, possibly none.

    Returns:
        A function from a source sentence to its word-for-word translation; unknown words stay as they are.
    """
    counts: defaultdict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for pair in train:
        target = words(pair.target)
        linked: defaultdict[int, list[str]] = defaultdict(list)
        for i, j in pair.alignment:
            linked[i].append(target[j] if target[j] in _PROPER else target[j].lower())
        for i, source_word in enumerate(words(pair.source)):
            counts[source_word.lower()][tuple(linked[i])] += 1
    dictionary = {source_word: found.most_common(1)[0][0] for source_word, found in counts.items()}

    def translate(source: str) -> str:
        translated: list[str] = []
        for source_word in words(source):
            if source_word.isalpha() or "'" in source_word:
                translated.extend(dictionary.get(source_word.lower(), (source_word,)))
            else:
                translated.append(source_word)
        if translated and translated[-1] in ("?", "!"):
            translated.insert(0, {"?": "¿", "!": "¡"}[translated[-1]])
        return written(translated) if translated else ""

    return translate


_PROPER = frozenset(spanish for _, spanish, _ in NAMES)
