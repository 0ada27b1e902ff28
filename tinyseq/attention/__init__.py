# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Where a model looks, and what depends on it: maps by pieces and words, heads, pruning, every step of a translation.

In the order of reading: maps, words, heads, pruning; recording and trace; pictures and pages.
"""

from .heads import Head, HeadStatistics, importance, measure, without_each_head
from .maps import AttentionMaps, columns, maps, maps_of_batch, maps_of_nbest
from .pruning import least_important, prune, prune_least_important
from .trace import Trace, trace

__all__ = [
    "AttentionMaps",
    "Head",
    "HeadStatistics",
    "Trace",
    "columns",
    "importance",
    "least_important",
    "maps",
    "maps_of_batch",
    "maps_of_nbest",
    "measure",
    "prune",
    "prune_least_important",
    "trace",
    "without_each_head",
]
