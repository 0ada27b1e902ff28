# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""A folder whole or not at all: written aside, synced, and put in place by renaming."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def save_whole(folder: Path, write: Callable[[Path], None]) -> None:
    """Makes `write` fill a folder that appears at `folder` only when it is complete.

    What was there before stays until then; if `write` fails, it stays for good.

    Args:
        folder: Where the files shall lie.
        write: Called with the path of an empty folder beside it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside, before = folder.with_name(f".{folder.name}.writing"), folder.with_name(f".{folder.name}.before")
    shutil.rmtree(aside, ignore_errors=True)  # of a run that was killed
    aside.mkdir()
    try:
        write(aside)
        for path in aside.rglob("*"):
            if path.is_file():
                sync(path)
        shutil.rmtree(before, ignore_errors=True)
        if folder.exists():
            folder.rename(before)
        aside.rename(folder)
        sync(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    shutil.rmtree(before, ignore_errors=True)


def sync(path: Path) -> None:
    """Has the system write a file, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
