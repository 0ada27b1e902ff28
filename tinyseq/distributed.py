# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What several processes do together: share work, bring the results together, and fail together."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object

from .translation import Translator

T = TypeVar("T")


def share(accelerator: Accelerator, items: Sequence) -> list:
    """Returns this process's share of the items: every n-th."""
    return list(items[accelerator.process_index :: accelerator.num_processes])


def translate_shared(
    accelerator: Accelerator, translator: Translator, sources: Sequence[str], **generate_options: Any
) -> tuple[list[str], int]:
    """Returns the translations of all sources, in order, and how many hit the length limit; on every process.

    Each process makes its share.
    """
    sources = list(sources)
    mine = translator.translate(share(accelerator, sources), **generate_options)
    texts = list(zip(share(accelerator, range(len(sources))), mine.texts, strict=True))
    return [text for _, text in sorted(gather_object(texts))], len(gather_object(mine.unfinished))


def main_process_result(accelerator: Accelerator, action: Callable[[], T]) -> T:
    """Returns on every process what `action` gives on the first one, which alone runs it; its error is everyone's."""
    outcome: list[Any] = [None]
    if accelerator.is_main_process:
        try:
            outcome = [action()]
        except (ValueError, OSError) as error:
            outcome = [error]
    broadcast_object_list(outcome)
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]
