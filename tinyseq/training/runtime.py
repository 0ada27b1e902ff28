# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The process we run in: its memory allocator, and what has to be noted to run the same again."""

import ctypes
import functools
import importlib.metadata
import platform
import subprocess
import sys
from pathlib import Path

import torch


def keep_freed_memory() -> bool:
    """Makes glibc keep freed memory for the next tensor; returns whether that could be set.

    By default glibc gets every large block from the system and gives it back when it is freed, so a training step on a
    CPU faults in, and has the kernel clear, the same pages again and again. Same as the environment's
    ``MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=...``, which are read only before a process starts.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # not glibc
        return False
    m_trim_threshold, m_mmap_max = -1, -4  # from malloc.h
    return bool(mallopt(m_mmap_max, 0)) and bool(mallopt(m_trim_threshold, 2**31 - 1))


def versions() -> dict[str, str]:
    """Returns the versions of Python, of the libraries that decide the outcome and, in a checkout, the commit."""
    found = {"python": platform.python_version()}
    for name in ("tinyseq", "torch", "transformers", "tokenizers", "accelerate", "datasets", "sacrebleu"):
        found[name] = importlib.metadata.version(name)
    folder = Path(__file__).parent
    git = ["git", "-C", str(folder)]
    run = functools.partial(subprocess.run, capture_output=True, text=True, timeout=10, check=True)
    try:
        run([*git, "ls-files", "--error-unmatch", Path(__file__).name])  # else it is the checkout of somebody else
        answer = run([*git, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
    except (OSError, subprocess.SubprocessError):
        return found  # no git, or not a checkout
    found["commit"] = answer.stdout.strip()
    return found


def machine(processes: int = 1) -> str:
    """Returns in words what is computed on: the devices of all processes, which are taken to be alike."""
    if torch.cuda.is_available():
        return f"{processes} x {torch.cuda.get_device_name()}"
    threads = torch.get_num_threads()
    each = f"{threads} thread{'s' * (threads > 1)} of a CPU ({platform.machine()})"
    return each if processes == 1 else f"{processes} processes, each on {each}"
