# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""From pieces to whole words: which pieces make a word, what it says, and its weights."""

import codecs
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

SPACE = "▁"  # what a piece begins with if a space stands before it
OTHER_PIECES = ("Ġ", "##")  # how byte-level BPE and WordPiece begin a piece, from which words are made otherwise
BYTE = re.compile(r"<0x([0-9A-F]{2})>")
# Scripts that write no spaces between words: a piece is the nearest to a word that there is
UNSPACED = (
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
)
JOINERS = r"[\u200c\u200d](?=\w)"  # inside words of Persian, Hindi ...
LETTERS = rf"(?:(?:(?!{UNSPACED})\w)(?:{JOINERS})?)+"
WORD = re.compile(rf"(?P<unspaced>{UNSPACED}+)|{LETTERS}(?:['’](?!s\b){LETTERS})*|['’]s\b|\S")


def word_groups(pieces: Sequence[str]) -> list[list[int]]:
    """Returns the indices of the pieces of each word, in order: each piece is in one word.

    A word is a run of letters and digits, with the apostrophes in it (but a possessive `'s` stands alone); a mark of
    punctuation; a special token. Where no spaces are written between words (Chinese, Japanese, Thai ...), it is a
    piece.

    Raises:
        ValueError: The pieces are those of byte-level BPE or of WordPiece.
    """
    others = [piece for piece in pieces if piece.startswith(OTHER_PIECES)]
    if len(others) > 1 and not any(piece.startswith(SPACE) for piece in pieces):  # Maltese has words that begin with Ġ
        raise ValueError(
            f"{others[0]!r} is a piece of byte-level BPE or of WordPiece, and words are made of pieces as TinySeq's "
            f"and SentencePiece's tokenizers have them; look at the maps of pieces"
        )
    units = piece_units(pieces)
    starts, start = [], 0
    for _, unit_text in units:
        starts.append(start + len(unit_text) - len(unit_text.lstrip()))
        start += len(unit_text)
    # A mark (an accent, a vowel of Hindi) belongs to its letter, and \w does not know it
    text = "".join(
        "a" if unicodedata.category(char)[0] == "M" and not re.match(UNSPACED, char) else char
        for _, unit_text in units
        for char in unit_text
    )
    matches = list(WORD.finditer(text))
    groups: list[list[int]] = []
    last_word: object = None
    waiting: list[int] = []  # pieces that are only a space: they belong to the word that follows
    position = 0
    for (indices, unit_text), first in zip(units, starts, strict=True):
        if not unit_text.strip():
            waiting += indices
            continue
        while position < len(matches) and matches[position].end() <= first:
            position += 1
        word: object = position
        if is_special(pieces[indices[0]]) or matches[position]["unspaced"] is not None:
            word = object()  # its own
        if word == last_word and not waiting:
            groups[-1] += indices
        else:
            groups.append(waiting + indices)
            waiting = []
        last_word = word
    if waiting:
        groups.append(waiting)
    return groups


def piece_units(pieces: Sequence[str]) -> list[tuple[list[int], str]]:
    """Returns what pieces say: the indices of one piece, or of the bytes of one character, and their text."""
    units: list[tuple[list[int], str]] = []
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    begun: list[int] = []  # bytes of a character that is not yet complete

    def end_of_bytes() -> None:
        if text := decoder.decode(b"", final=True):
            units.append((list(begun), text))
        decoder.reset()
        begun.clear()

    for index, piece in enumerate(pieces):
        if byte := BYTE.fullmatch(piece):
            begun.append(index)
            if text := decoder.decode(bytes.fromhex(byte[1])):
                units.append((list(begun), text))
                begun.clear()
            continue
        end_of_bytes()
        units.append(([index], piece.replace(SPACE, " ")))
    end_of_bytes()
    return units


def is_special(piece: str) -> bool:
    """Whether a piece is a token such as `</s>`; TinySeq's and Marian's pieces have no "<" beside others."""
    return len(piece) > 2 and piece[0] == "<" and piece[-1] == ">" and not BYTE.fullmatch(piece)


def word_text(pieces: Sequence[str], group: Sequence[int]) -> str:
    """Returns what the pieces of one word say."""
    return "".join(text for _, text in piece_units([pieces[i] for i in group])).strip() or SPACE


def merge(weights: np.ndarray, rows: Sequence[Sequence[int]], columns: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns (..., words, words) of (..., pieces, pieces): the sum over a word's columns, the mean over its rows."""
    summed = np.stack([weights[..., group].sum(-1) for group in columns], axis=-1)
    return np.stack([summed[..., group, :].mean(-2) for group in rows], axis=-2)
