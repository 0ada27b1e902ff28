# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What several processes do together: share work, bring the results together, agree, and fail together."""

import os
import pickle
import sys
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import Accelerator, DistributedType
from accelerate.utils import (
    DistributedDataParallelKwargs,
    InitProcessGroupKwargs,
    broadcast_object_list,
    gather_object,
)

from ..translation import Translator, quiet
from .interruption import Stopped
from .options import RunOptions

T = TypeVar("T")

# Process groups that are no longer used. Gloo's ends by waiting for its thread, which may wait for Python's lock,
# which the one who lets go of the group has: torch 2.13 stays there for ever.
KEPT: list[Any] = []


class ProcessLostError(RuntimeError):
    """Another process of the run has failed or hangs; the reason is in its own message."""


def share(accelerator: Accelerator, items: Sequence) -> list:
    """Returns this process's share of the items: every n-th."""
    return list(items[accelerator.process_index :: accelerator.num_processes])


def sum_over_processes(accelerator: Accelerator, numbers: Sequence[float]) -> list[float]:
    """Returns the sums of all processes' numbers, the same on every process, in double precision."""
    if accelerator.num_processes == 1:
        return list(numbers)
    return accelerator.reduce(torch.tensor(numbers, dtype=torch.float64, device=accelerator.device), "sum").tolist()


def translate_shared(
    accelerator: Accelerator, translator: Translator, sources: Sequence[str], **generate_options: Any
) -> tuple[list[str], int]:
    """Returns the translations of all sources, in order, and how many hit the length limit; on every process.

    Each process makes its share.
    """
    sources = list(sources)
    with quiet():  # its lines would be those of a share; the count is returned
        mine = translator.translate(share(accelerator, sources), **generate_options)
    texts = list(zip(share(accelerator, range(len(sources))), mine.texts, strict=True))
    return [text for _, text in sorted(gather_object(texts))], len(gather_object(mine.unfinished))


def main_process_result(accelerator: Accelerator, action: Callable[[], T]) -> T:
    """Returns on every process what `action` gives on the first one, which alone runs it; its error is everyone's."""
    outcome: list[Any] = [None]
    if accelerator.is_main_process:
        try:
            outcome = [action()]
        except (Exception, Stopped) as error:
            outcome = [error if can_travel(error) else RuntimeError(f"{type(error).__name__}: {error}")]
    broadcast_object_list(outcome)
    if isinstance(outcome[0], Exception | Stopped):
        raise outcome[0]
    return outcome[0]


def join_processes(options: RunOptions, trackers: Path) -> Accelerator:
    """Returns what the processes of a run do together by, when all have joined.

    Args:
        options: The run's.
        trackers: Where trackers write.

    Raises:
        ValueError: The launcher was configured for what a run can't do.
    """
    check_launcher()
    # torch 2.13 has a new name for an option below, and Accelerate does not know it yet
    warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
    accelerator = Accelerator(
        cpu=not torch.accelerator.is_available(),  # without it, several processes on a CPU do not find each other
        mixed_precision=options.mixed_precision,
        log_with=options.report_to,
        project_dir=trackers,
        kwargs_handlers=[
            DistributedDataParallelKwargs(broadcast_buffers=False),  # position tables never change
            InitProcessGroupKwargs(timeout=timedelta(seconds=options.process_timeout_seconds)),
        ],
    )
    check_distribution(accelerator, options.ema_decay)
    return accelerator


def check_launcher() -> None:
    """Refuses what a launcher was configured for and a run could not keep its word with.

    Raises:
        ValueError: With the reason.
    """
    if os.environ.get("ACCELERATE_USE_DEEPSPEED", "").lower() == "true":
        raise ValueError(
            "DeepSpeed is not supported: its engine changes the weights within the backward pass, so that an update "
            "with bad numbers could not be skipped, and no checkpoint could hold what its optimizer knows. FSDP 2 "
            "splits weights, gradients and optimizer too: distributed_type: FSDP and fsdp_version: 2 in Accelerate's "
            "configuration"
        )


def check_distribution(accelerator: Accelerator, ema_decay: float) -> None:
    """Refuses, at the start, a way of sharing the work that would fail later or that Accelerate would not follow.

    Every process comes to the same answer by itself, so it waits until all have joined: one that is still joining
    when another ends would fail for that, and hide the reason.

    Raises:
        ValueError: With the reason.
    """
    accelerator.wait_for_everyone()
    kind = accelerator.distributed_type
    is_sharded = kind == DistributedType.FSDP
    if not is_sharded and os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true":
        raise ValueError(
            f"FSDP was asked for, and Accelerate would do without it here (its way is {kind.value}): it needs "
            f"accelerators and several processes. On a CPU leave FSDP out"
        )
    if is_sharded and getattr(accelerator.state.fsdp_plugin, "fsdp_version", 1) != 2:
        raise ValueError("FSDP 1 is not supported, as it flattens the weights; use FSDP 2 (fsdp_version: 2)")
    if is_sharded and ema_decay:
        raise ValueError(f"--ema_decay {ema_decay}: there is no moving average with FSDP, which splits the weights")


def wrap(accelerator: Accelerator, model: Any, optimizer: torch.optim.Optimizer) -> tuple[Any, Any]:
    """Returns model and optimizer as `accelerator.prepare` wraps them.

    Accelerate 1.15 gives embedding and projection a group of FSDP of their own. Here the embeddings of encoder and
    decoder have the same weight, and torch refuses a weight in two groups. What it does not find stays with the rest.
    """
    if accelerator.distributed_type != DistributedType.FSDP:
        return accelerator.prepare(model, optimizer)
    model.get_input_embeddings = model.get_output_embeddings = lambda: None
    try:
        return accelerator.prepare(model, optimizer)
    finally:
        del model.get_input_embeddings, model.get_output_embeddings


def can_travel(error: BaseException) -> bool:
    """Whether an error can be sent to other processes: some can be pickled, but not made again."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


def leave_group(accelerator: Accelerator) -> None:
    """Ends what processes do together, when all have come here."""
    accelerator.wait_for_everyone()
    if torch.distributed.is_initialized():
        KEPT.append(torch.distributed.group.WORLD)
    accelerator.end_training()


def end_process(code: int) -> None:
    """Ends a process that has failed, so that the others are told at once.

    Of several processes one can't end as usual: Python would clear up, and that waits for collectives which the others
    may never join.
    """
    if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def check_same_everywhere(accelerator: Accelerator, what: dict[str, Any]) -> None:
    """Refuses a run whose processes were not given the same; else they would wait for each other, or learn nonsense.

    Args:
        what: Things that must be equal on all processes, by the name that a message can use.

    Raises:
        ValueError: On every process alike, naming what differs and where.
    """
    found = gather_object([what])
    for name, value in found[0].items():
        others = [number for number, theirs in enumerate(found) if theirs.get(name) != value]
        if others:
            raise ValueError(
                f"the processes were not given the same {name}: process 0 has {value!r}, process {others[0]} "
                f"{found[others[0]].get(name)!r}; give every machine the same command, files and versions"
            )


def lost_process(error: Exception) -> ProcessLostError | None:
    """Returns what to say of an error that came out of waiting for another process, or `None` if it is none of these.

    torch raises bare RuntimeErrors there, whose text alone tells them.
    """
    text = str(error)
    kinds = (torch.distributed.DistError, torch.distributed.DistBackendError, torch.distributed.DistNetworkError)
    signs = ("gloo", "Gloo", "NCCL", "ncclUniqueId", "Connection closed by peer", "Connection reset", "Broken pipe")
    if isinstance(error, kinds) or (isinstance(error, RuntimeError) and any(sign in text for sign in signs)):
        return ProcessLostError(
            f"another process of this run has failed, and its own message says why, or was waited for longer than "
            f"--process_timeout_seconds ({text.splitlines()[0][:200]})"
        )
    return None
