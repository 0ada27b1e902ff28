# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""A model on the Hub: what its card says, and how it gets there."""

from .push import HubPushError, create_repository, make_card, push

__all__ = ["HubPushError", "create_repository", "make_card", "push"]
