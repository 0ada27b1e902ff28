# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""A file or a folder, written whole or not at all; and whether there is room for it."""

import ctypes
import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

OF_RUST = re.compile(r"\(os error (\d+)\)")  # how safetensors and tokenizers tell of an error of the system


def save_whole(folder: Path, write: Callable[[Path], None]) -> None:
    """Makes `write` fill a folder that appears at `folder` only when it is complete, and on the disk.

    What was there before stays until then; if `write` fails, it stays for good. One process at a time may do this for
    a folder.

    Args:
        folder: Where the files shall lie.
        write: Called with the path of an empty folder beside it.

    Raises:
        OSError: The system could not write (the disk is full, say); the message names the folder and the free space.
    """
    recover(folder)
    aside, before = beside(folder, "writing"), beside(folder, "before")
    try:
        new = [parent for parent in folder.parents if not parent.exists()]
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside.mkdir()
        write(aside)
        for path in (*aside.rglob("*"), aside):
            sync(path)
        if not folder.exists():
            aside.rename(folder)
        elif not exchange(aside, folder):
            folder.rename(before)
            aside.rename(folder)
        for parent in (folder.parent, *(parent.parent for parent in new)):
            sync(parent)
    except Exception as error:
        number = error_number(error)
        if number is None and not isinstance(error, OSError):
            raise
        text = re.sub(r"^\[Errno \d+\] ", "", str(error))  # it is put in front again
        message = (
            f"{folder}: could not be written ({readable_size(free_space(folder))} free on its disk): {text}. What was "
            "there before is as it was"
        )
        raise (OSError(message) if number is None else OSError(number, message)) from error
    finally:
        recover(folder)


def recover(folder: Path) -> None:
    """Puts back what a kill in the middle of `save_whole` took away, and clears what it left."""
    before = beside(folder, "before")
    if before.exists() and not folder.exists():
        before.rename(folder)
    remove(before)
    remove(beside(folder, "writing"))  # half a folder, or, after an exchange, the old one


def beside(folder: Path, what: str) -> Path:
    """Returns the hidden name that a folder has while something is done to it."""
    return folder.with_name(f".{folder.name}.{what}")


def exchange(one: Path, other: Path) -> bool:
    """Swaps two names at one instant, and says whether the system could: Linux can, on most file systems.

    Without it there is an instant between two renamings at which neither folder is at its place.
    """
    if sys.platform != "linux":
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # a C library older than 2018, or another one
        return False
    at_working_folder, rename_exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux's headers
    return renameat2(at_working_folder, os.fsencode(one), at_working_folder, os.fsencode(other), rename_exchange) == 0


def remove(path: Path) -> None:
    """Removes a folder or a file, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Has the system write a file, or a folder's list of names, to the disk."""
    if os.name == "nt":  # which syncs only what is open for writing, and no folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def error_number(error: Exception) -> int | None:
    """Returns the system's number of an error: safetensors and tokenizers hide it in the text."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = OF_RUST.search(str(error))
    return int(found[1]) if found else None


def free_space(folder: Path) -> int:
    """Returns the bytes that are free where `folder` is or will be."""
    while not folder.exists():
        folder = folder.absolute().parent
    return shutil.disk_usage(folder).free


def readable_size(size: float) -> str:
    """Returns a number of bytes as `"12.3 MB"`, in powers of 1,000."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def check_space(folder: Path, bytes_needed: int, what: str) -> None:
    """Refuses, before the work, what its disk has no room for.

    Args:
        folder: Where it will lie; need not be there yet.
        bytes_needed: How much room it takes at most.
        what: What it is, for the message: `"4 checkpoints"`.

    Raises:
        OSError: There is less room than that.
    """
    free = free_space(folder)
    if free < bytes_needed:
        raise OSError(
            errno.ENOSPC,
            f"{folder}: {what} need {readable_size(bytes_needed)}, and its disk has {readable_size(free)} free; make "
            "room, or choose a folder on another disk",
        )


def check_is_free(folder: Path) -> None:
    """Refuses to write a model over what is there: a file, or a folder that holds something."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder}: is there already, and not empty; choose another folder")


def is_device(path: str) -> bool:
    """Whether `path` is there and can't be replaced by a file: /dev/null, a named pipe."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """A file to write, which takes its name only when all is written; after an error there is none."""
    if is_device(path):
        with open(path, "wb") as output:
            yield output
        return
    path = os.path.realpath(path)
    aside = f"{path}.{os.getpid()}.part"
    try:
        with open(aside, "wb") as output:
            yield output
        os.replace(aside, path)
    finally:
        with suppress(FileNotFoundError):
            os.remove(aside)
