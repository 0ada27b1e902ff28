# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What can be wrong with a pair that was read without a fault, and the report of all that was refused, and where.

`Checks` looks at one pair at a time and names the first of `KINDS` that it is. By default such a pair is counted and
kept; `drop` says which kinds are left out. A check knows the pair, the held-out texts, the scripts that the corpus is
written in and, if it was asked to remember, the pairs before: so a stream can be checked as it is read.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import median_low
from typing import Any, NamedTuple

MOST_CHARACTERS = 2_000
MOST_RATIO, RATIO_SLACK = 4, 20  # the slack lets short texts be: "No." may well be "Auf gar keinen Fall."
CJK_WEIGHT = 3  # a Chinese text has about a third of the characters of its translation, so each counts as three
SAMPLE_PAIRS = 1_000  # the first pairs of a corpus, which say what scripts its sides are written in
SCRIPT_SHARE = 0.9  # of the sample's texts, that one script must have for the side to be said to be in it
PLACES_SHOWN = 5

# In the order in which a pair is looked at. It is counted once: as the first kind that is left out or, if there is
# none, as the first kind that it is.
KINDS = {
    "test_pair": "its source is also among the test or validation pairs",
    "duplicate": "the same pair was there before",
    "identical": "both sides are the same text",
    "header": "language codes: a header, if --source and --target name them",
    "control": "a control character other than tab, LF and CR",
    "too_long": f"a side has over {MOST_CHARACTERS:,} characters",
    "length_ratio": f"a side is over {MOST_RATIO} times as long as the other plus {RATIO_SLACK} characters",
    "script": "a side is in another script than the rest of its side",
}

CODE = re.compile(r"[a-z]{2}([-_][a-zA-Z]{2,4})?|src|tgt|trg")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
CJK = "CJK"  # written together, so one script: Han, kana, Hangul, Bopomofo
CJK_NAMES = ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO")


@dataclass
class Report:
    """How many rows were dropped, repaired or only noted, why, and the first few places of each reason."""

    rows: int = 0  # how many rows were read, those of the pairs included
    counts: Counter[str] = field(default_factory=Counter)  # rows of each reason
    kept: Counter[str] = field(default_factory=Counter)  # rows of each reason that are among the pairs all the same
    places: dict[str, list[str]] = field(default_factory=dict)  # the first places of each reason

    def add(self, reason: str, place: str, kept: bool = False) -> None:
        """Counts one row."""
        self.counts[reason] += 1
        if kept:
            self.kept[reason] += 1
        places = self.places.setdefault(reason, [])
        if len(places) < PLACES_SHOWN:
            places.append(place)

    @property
    def dropped(self) -> int:
        """Number of rows that are not among the pairs."""
        return self.counts.total() - self.kept.total()

    def merge(self, other: "Report") -> None:
        """Adds what another report counted, of rows read after those of this one."""
        self.rows += other.rows
        self.counts += other.counts
        self.kept += other.kept
        for reason, places in other.places.items():
            self.places[reason] = (self.places.get(reason, []) + places)[:PLACES_SHOWN]

    def to_dict(self) -> dict[str, Any]:
        """Returns what JSON can hold, the most frequent reason first; `from_dict` is the way back."""
        reasons = {
            reason: {
                "rows": count,
                "kept": self.kept[reason],
                "dropped": count - self.kept[reason],
                "first_places": list(self.places[reason]),
            }
            for reason, count in self.counts.most_common()
        }
        return {"rows": self.rows, "dropped": self.dropped, "reasons": reasons}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Report":
        """Returns the report that `to_dict` made `state` of."""
        reasons = state["reasons"].items()
        return cls(
            rows=state["rows"],
            counts=Counter({reason: found["rows"] for reason, found in reasons}),
            kept=Counter({reason: found["kept"] for reason, found in reasons if found["kept"]}),
            places={reason: list(found["first_places"]) for reason, found in reasons},
        )

    def __str__(self) -> str:
        """One table, a line per reason, the most frequent first; empty if every row was taken as it was."""
        if not self.counts:
            return ""
        named = {reason: f"{reason}: {KINDS[reason]}" if reason in KINDS else reason for reason in self.counts}
        width = max(map(len, named.values()))
        lines = [f"{'rows':>9}  {'were':<7}  {'what':<{width}}  first places"]
        for reason, count in self.counts.most_common():
            kept = self.kept[reason]
            fate = "kept" if kept == count else f"{kept} kept" if kept else "dropped"
            more = ", ..." if count > len(self.places[reason]) else ""
            lines.append(f"{count:>9,}  {fate:<7}  {named[reason]:<{width}}  {', '.join(self.places[reason])}{more}")
        return "\n".join(lines)


def normalised(text: str) -> str:
    """What makes two texts the same: not case, nor white space, nor how accents are coded (Unicode's NFC, casefold).

    Used wherever texts are compared: for test pairs, duplicates, identical sides, and by `split_off`.
    """
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())  # a fold may compose anew
    if "  " in text or not text.isprintable():  # else all white space is single spaces, which is faster to tell
        text = " ".join(text.split())
    return text.strip()


def lengths(texts: Sequence[str]) -> dict[str, int]:
    """Median and longest of some texts, in characters and in words, which are what stands between spaces."""
    characters = [len(text) for text in texts]
    words = [len(text.split()) for text in texts]
    return {
        "median_characters": median_low(characters),
        "longest_characters": max(characters),
        "median_words": median_low(words),
        "longest_words": max(words),
        "all_words": sum(words),
    }


@cache
def script_of(character: str) -> str | None:
    """The script of a letter, such as LATIN or CYRILLIC, as its Unicode name begins; None for what is no letter."""
    if not character.isalpha():
        return None
    first = unicodedata.normalize("NFKC", character)[0]  # of a full-width or a mathematical letter, the letter
    word = unicodedata.name(first, "").partition(" ")[0]
    return CJK if word in CJK_NAMES else None if word in ("", "MODIFIER") else word


def weighted_length(text: str) -> int:
    """Characters, of which a CJK letter counts as three."""
    return len(text) + (CJK_WEIGHT - 1) * sum(script_of(character) == CJK for character in text)


def script_shares(text: str) -> dict[str, float]:
    """The scripts of a text's letters, and the share that each has; a CJK letter counts as three."""
    counts = Counter(script for script in map(script_of, text) if script)
    counts[CJK] *= CJK_WEIGHT
    return {script: count / counts.total() for script, count in counts.items() if count}


class _Side:
    """The script that one side of a corpus is written in, if it is one, learned from its first texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        shares = map(script_shares, texts)
        found = Counter(script for text in shares for script, share in text.items() if share > 0.5)
        script, count = (found.most_common(1) or [("", 0)])[0]
        self.script = script if count and count >= SCRIPT_SHARE * found.total() else None
        self.usual: set[str] = set()  # characters that were seen not to be foreign letters

    def is_foreign(self, text: str) -> bool:
        """Whether most of a text's letters are of another script."""
        if self.script is None or (self.script == "LATIN" and text.isascii()) or self.usual.issuperset(text):
            return False
        self.usual.update(character for character in text if script_of(character) in (self.script, None))
        shares = script_shares(text)
        return bool(shares) and shares.get(self.script, 0.0) < 0.5


class _Pair(NamedTuple):
    """A pair as it is, and as it is compared."""

    source: str
    target: str
    source_key: str
    target_key: str
    hash: bytes  # of both keys; empty where none is remembered


class Checks:
    """Names what is wrong with a pair.

    Args:
        drop: The kinds that are left out.
        held_out: Source texts that training must not see.
        remember: Whether to keep a hash of each pair, about 100 bytes, to find duplicates.
    """

    def __init__(self, drop: Iterable[str] = (), held_out: Iterable[str] = (), remember: bool = True) -> None:
        self.drop = frozenset(drop)
        self.held_out = frozenset(map(normalised, held_out))
        self.remember = remember
        self.seen: set[bytes] = set()
        self.sides: tuple[_Side, _Side] | None = None
        checks = {
            "test_pair": self.is_test_pair,
            "duplicate": self.is_duplicate,
            "identical": self.is_identical,
            "header": self.is_header,
            "control": self.has_control,
            "too_long": self.is_too_long,
            "length_ratio": self.is_uneven,
            "script": self.is_foreign,
        }
        order = sorted(KINDS, key=lambda kind: kind not in self.drop)  # stable: else as in KINDS
        self.checks = [(kind, checks[kind]) for kind in order]

    def settle(self, sample: Sequence[tuple[str, str]]) -> None:
        """Takes the first pairs of a corpus and learns from them what script each side is written in."""
        self.sides = (_Side(source for source, _ in sample), _Side(target for _, target in sample))

    @property
    def is_settled(self) -> bool:
        """Whether the scripts of the sides are known."""
        return self.sides is not None

    def fault(self, source: str, target: str) -> str | None:
        """The kind of a pair that is not as it should be, or None.

        It is the first of the kinds that are left out or, if there is none, the first of the others.
        """
        keys = normalised(source), normalised(target)
        pair = _Pair(source, target, *keys, _hash("\t".join(keys)) if self.remember else b"")  # no key holds a tab
        found = None
        for kind, is_it in self.checks:
            if is_it(pair):
                found = kind
                break
        if self.remember and found not in self.drop:  # a later pair is no duplicate of one that is not there
            self.seen.add(pair.hash)
        return found

    def is_test_pair(self, pair: _Pair) -> bool:
        return pair.source_key in self.held_out

    def is_duplicate(self, pair: _Pair) -> bool:
        return pair.hash in self.seen

    def is_identical(self, pair: _Pair) -> bool:
        """Numbers and punctuation are the same in many languages."""
        return pair.source_key == pair.target_key and any(map(str.isalpha, pair.source_key))

    def is_header(self, pair: _Pair) -> bool:
        return bool(CODE.fullmatch(pair.source) and CODE.fullmatch(pair.target))

    def has_control(self, pair: _Pair) -> bool:
        is_plain = pair.source.isprintable() and pair.target.isprintable()  # true of nearly all, and faster to tell
        return not is_plain and bool(CONTROL.search(pair.source) or CONTROL.search(pair.target))

    def is_too_long(self, pair: _Pair) -> bool:
        most = CJK_WEIGHT * max(len(pair.source), len(pair.target))
        return most > MOST_CHARACTERS and max(map(weighted_length, pair[:2])) > MOST_CHARACTERS

    def is_uneven(self, pair: _Pair) -> bool:
        source, target = len(pair.source), len(pair.target)
        shorter, longer = (source, target) if source < target else (target, source)
        if CJK_WEIGHT * longer <= MOST_RATIO * shorter + RATIO_SLACK:  # even if all of it were CJK
            return False
        return _is_longer(pair.source, pair.target) or _is_longer(pair.target, pair.source)

    def is_foreign(self, pair: _Pair) -> bool:
        return self.sides is not None and (
            self.sides[0].is_foreign(pair.source) or self.sides[1].is_foreign(pair.target)
        )


def _is_longer(text: str, other: str) -> bool:
    """Whether a text is too long for the other to be its translation. Its bytes are a bound that is fast to tell."""
    return (
        len(text.encode("utf-8", "surrogatepass")) > MOST_RATIO * len(other) + RATIO_SLACK
        and weighted_length(text) > MOST_RATIO * weighted_length(other) + RATIO_SLACK
    )


def _hash(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
