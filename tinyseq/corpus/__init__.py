# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Parallel text from anywhere -> checked pairs, and a report of what was refused and where.

In the order in which the data flow: readers, data_sets, checks, loading.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checks import Report
    from .loading import Corpus, CorpusStream, is_hub_name, is_on_hub, load_corpus, split_off, stream_corpus
    from .readers import CorpusError, read_lines

__all__ = [
    "Corpus",
    "CorpusError",
    "CorpusStream",
    "Report",
    "is_hub_name",
    "is_on_hub",
    "load_corpus",
    "read_lines",
    "split_off",
    "stream_corpus",
]


def __getattr__(name: str) -> Any:
    """Imports what is asked for: the command line needs `checks.py` and must not wait for `datasets`."""
    if name in __all__:
        for file in ("readers", "checks", "loading"):
            module = import_module(f".{file}", __name__)
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
