# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Pairs of text -> ids -> batches by token budget, in the one stream of them that all processes share."""
