# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Pairs of text -> ids -> batches by token budget, in the one stream of them that all processes share.

To read in this order: encoding, stream, mixing (corpora that are streamed, or mixed by weights).
"""

from .encoding import EncodedPairs, encode_pairs
from .mixing import DatasetStream, Mixture, StreamedCorpus
from .stream import Batch, BatchStream, WholeCorpus, token_budget_batches

__all__ = [
    "Batch", "BatchStream", "DatasetStream", "EncodedPairs", "Mixture", "StreamedCorpus", "WholeCorpus",
    "encode_pairs", "token_budget_batches",
]  # fmt: skip
