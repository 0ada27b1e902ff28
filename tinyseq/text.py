# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What every room needs of a text: the form in which a model gets it, and whether there is anything in it."""

import unicodedata


def clean(text: str) -> str:
    """Returns `text` as the model gets it, in training as in translation: without white space around it."""
    return text.strip()


def is_blank(text: str) -> bool:
    """Whether nothing in `text` can be seen: only separators and control, format or unassigned characters (Z*, C*)."""
    return all(unicodedata.category(character)[0] in "ZC" for character in text)
