# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Checkpoints whole or not at all: save, find, verify, resume, average.

A folder is written aside, synced, and put in place by renaming (`save_whole`). A checkpoint is such a folder with a
seal, `checksums.json`, that lists every file with its size and SHA-256 (`Checkpoints`, `verify`). In it are a model
that `from_pretrained` takes, and the optimizer's state (`gather_state`, `restore_state`). All of it is safetensors and
JSON: reading a checkpoint runs nothing that is in it, whoever made it.
"""

import contextlib
import ctypes
import errno
import hashlib
import itertools
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import extract_model_from_parallel
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import DTensor, distribute_tensor

SEAL = "checksums.json"
WEIGHTS = "model.safetensors"
STEP_NAME = re.compile(r"step-(\d{8,})")
LEFTOVER_NAME = re.compile(r"\.(step-\d{8,})\.(writing|before|removing)")
OF_RUST = re.compile(r"\(os error (\d+)\)")  # how safetensors and tokenizers tell of an error of the system
# What lies beside a model and holds of these weights alone: the seal, the state of a training, figures and their card
NOT_OF_THE_AVERAGE = re.compile(
    r"checksums\.json|(optimizer|average|state)\.json|log\.jsonl|training\.json|README\.md"
    r"|.*\.(safetensors|safetensors\.index\.json|bin|pt|pth|ckpt|pkl|pickle)|\..*"
)

# What a checkpoint has beside its model, for the run alone
OF_THE_RUN = re.compile(r"checksums\.json|state\.json|log\.jsonl|(optimizer|average)\.(json|safetensors)")


class CheckpointError(ValueError):
    """A checkpoint that can't be used; the message names the file and what is wrong with it."""


# --- a folder whole or not at all -----------------------------------------------------------------------------


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


# --- checkpoints of a run -------------------------------------------------------------------------------------


class Checkpoints:
    """The checkpoints of a run: folders `step-00001200`, each whole and sealed, and only as many as are wanted.

    One process at a time may use it; of a training's processes, the first.

    Args:
        folder: Where they lie: `RUN/checkpoints`.
        keep_newest: How many of the newest stay.
        keep_best: How many of those with the highest scores stay beside them; of equal scores, the earlier.
    """

    def __init__(self, folder: Path, keep_newest: int = 2, keep_best: int = 1):
        if keep_newest < 1:
            raise ValueError(f"keep_newest={keep_newest} must be 1 or more: a run resumes from its newest checkpoint")
        if keep_best < 0:
            raise ValueError(f"keep_best={keep_best} must be 0 or more")
        self.folder = Path(folder)
        self.keep_newest = keep_newest
        self.keep_best = keep_best
        self.damaged: set[int] = set()  # steps whose checkpoints `newest_whole` found to be damaged

    def path(self, step: int) -> Path:
        """Returns where the checkpoint of a step lies."""
        return self.folder / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """Returns the steps that there are checkpoints of, in order; damaged ones too."""
        if not self.folder.is_dir():
            return []
        found = ((STEP_NAME.fullmatch(path.name), path) for path in self.folder.iterdir())
        return sorted(int(name[1]) for name, path in found if name and path.is_dir())

    def newest(self, count: int) -> list[Path]:
        """Returns the newest checkpoints, in order; at most so many, and as many as there are."""
        return [self.path(step) for step in self.steps()[-count:]]

    def save(self, step: int, write: Callable[[Path], None], score: float | None = None) -> Path:
        """Saves a checkpoint, whole and sealed, and then removes those that are no longer wanted.

        Beside the newest and the best ones nothing stays: neither what is damaged, nor checkpoints of later steps,
        which a run that went back to an earlier one has given up.

        Args:
            step: Its number; a checkpoint of the same step is replaced.
            write: Called with an empty folder to fill.
            score: The higher, the better; NaN is none, and so is `None`, but for that of a checkpoint it replaces.

        Returns:
            Its folder.

        Raises:
            OSError: The system could not write. All checkpoints are as they were.
        """
        if step < 0:
            raise ValueError(f"step={step} must be 0 or more")
        folder = self.path(step)
        if score is None and folder.is_dir():  # an evaluation before stays true of the same weights
            with contextlib.suppress(CheckpointError):
                score = read_seal(folder)["score"]
        known_score = None if score is None or math.isnan(score) else float(score)

        def write_and_seal(aside: Path) -> None:
            write(aside)
            seal(aside, step, known_score)

        save_whole(folder, write_and_seal)
        self.damaged.discard(step)
        whole = [other for other in self.steps() if other <= step and other not in self.damaged]
        kept = {*whole[-self.keep_newest :], *self.by_score(whole)[: self.keep_best]}
        for other in self.steps():
            if other not in kept:
                # A name that is no checkpoint's, at one instant: a kill half-way must not leave half a checkpoint
                gone = beside(self.path(other), "removing")
                remove(gone)
                self.path(other).rename(gone)
                remove(gone)
        self.damaged.clear()
        return folder

    def by_score(self, steps: Iterable[int]) -> list[int]:
        """Returns those of the steps that have a score, the best first; of equal ones, the earlier."""
        scores = {}
        for step in steps:
            try:
                scores[step] = read_seal(self.path(step))["score"]
            except CheckpointError:
                continue  # `newest_whole` tells of it
        return sorted((step for step in scores if scores[step] is not None), key=lambda step: (-scores[step], step))

    def best(self) -> Path | None:
        """Returns the whole checkpoint with the highest score, if any has one."""
        for step in self.by_score(self.steps()):
            try:
                verify(self.path(step))
            except CheckpointError:
                continue
            return self.path(step)
        return None

    def newest_whole(self, show: Callable[[str], None] = print) -> Path | None:
        """Returns the newest checkpoint that is whole, or `None` if there are no checkpoints.

        All are verified. What a killed process left is cleared away.

        Args:
            show: Takes a message for each damaged checkpoint, which names the file and what is wrong with it.

        Raises:
            CheckpointError: There are checkpoints, and none is whole.
        """
        if self.folder.is_dir():
            for path in list(self.folder.iterdir()):
                leftover = LEFTOVER_NAME.fullmatch(path.name)
                if leftover and leftover[2] == "removing":
                    remove(path)
                elif leftover:
                    recover(self.folder / leftover[1])
        faults = {}
        for step in reversed(self.steps()):
            try:
                verify(self.path(step))
            except CheckpointError as error:
                faults[step] = str(error)
        self.damaged = set(faults)
        whole = [step for step in self.steps() if step not in faults]
        if faults and not whole:
            raise CheckpointError(
                f"{self.folder}: none of its {len(faults)} checkpoints is whole: {'; '.join(faults.values())}. "
                "Bring one back from a copy, or begin anew in another folder"
            )
        for fault in faults.values():
            show(f"damaged checkpoint, passed over: {fault}")
        return self.path(whole[-1]) if whole else None


def seal(folder: Path, step: int, score: float | None) -> None:
    """Writes `checksums.json`, which lists every file of the folder."""
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)} for name in files_of(folder)
    }
    content = {"step": step, "score": score, "files": files}
    (folder / SEAL).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def verify(folder: Path) -> dict[str, Any]:
    """Checks that the files of a checkpoint are those that were saved: names, sizes, SHA-256.

    Returns:
        The content of `checksums.json`: `{"step": ..., "score": ..., "files": {name: {"bytes": ..., "sha256": ...}}}`.

    Raises:
        CheckpointError: They are not; the message names the first file that differs.
    """
    content = read_seal(folder)
    there = files_of(folder)
    for name, recorded in content["files"].items():
        path = folder / name
        if name not in there:
            raise CheckpointError(f"{path}: is missing")
        try:
            size, digest = path.stat().st_size, sha256(path) if path.stat().st_size == recorded["bytes"] else ""
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read ({error})") from error
        if size != recorded["bytes"]:
            raise CheckpointError(f"{path}: has {size:,} bytes and was saved with {recorded['bytes']:,}")
        if digest != recorded["sha256"]:
            raise CheckpointError(f"{path}: is not what was saved: its SHA-256 is not that of {SEAL}")
    unknown = [name for name in there if name not in content["files"]]
    if unknown:
        raise CheckpointError(f"{folder / unknown[0]}: was not saved with the checkpoint: {SEAL} does not list it")
    return content


def read_seal(folder: Path) -> dict[str, Any]:
    """Returns the content of `checksums.json`, and refuses what is no such content, or another step's."""
    path = folder / SEAL
    content = read_json(path)
    score = content.get("score")
    files = content.get("files")
    if (
        content.keys() != {"step", "score", "files"}
        or type(content["step"]) is not int
        or not (score is None or type(score) in (int, float))
        or not isinstance(files, dict)
        or not all(
            isinstance(recorded, dict)
            and recorded.keys() == {"bytes", "sha256"}
            and type(recorded["bytes"]) is int
            and isinstance(recorded["sha256"], str)
            for recorded in files.values()
        )
    ):
        raise CheckpointError(f"{path}: is not of the form that a checkpoint's list of files has")
    name = STEP_NAME.fullmatch(folder.name)
    if name and int(name[1]) != content["step"]:
        raise CheckpointError(f"{path}: is of step {content['step']}, and lies in {folder.name}")
    return content


def files_of(folder: Path) -> list[str]:
    """Returns the names of all files in a checkpoint but the seal, in order.

    Hidden ones are none of it: nothing that loads a model reads them, and file systems and viewers add their own.
    """
    names = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(
        name.as_posix() for name in names if not any(part.startswith(".") for part in name.parts) and str(name) != SEAL
    )


def sha256(path: Path) -> str:
    """Returns a file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- what is in them ------------------------------------------------------------------------------------------


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        CheckpointError: The file holds something else, or can't be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, nested without end
        raise CheckpointError(f"{path}: is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: must hold a JSON object, and holds a {type(content).__name__}")
    return content


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Reads a safetensors file, onto the CPU.

    Raises:
        CheckpointError: The file holds something else, or can't be read.
    """
    try:
        return load_file(path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise CheckpointError(f"{path}: is not a whole safetensors file ({error})") from error


def load_weights(folder: Path) -> dict[str, Tensor]:
    """Reads the weights of a model's folder by name, and nothing but safetensors.

    Raises:
        CheckpointError: There are none, or they can't be read.
    """
    return read_safetensors(Path(folder) / WEIGHTS)


def save_tensors(path_stem: Path, flat: dict[str, Any]) -> None:
    """Writes values by name: tensors to `STEM.safetensors`, the rest to `STEM.json`.

    Args:
        path_stem: Path without the suffix.
        flat: Tensors of any shape and of any dtype that safetensors has; numbers, texts, truth values, `None`, lists
            and dictionaries of these (tuples come back as lists).

    Raises:
        ValueError: A value is of another kind; the message says which.
    """
    tensors = {}
    taken: set[int] = set()  # safetensors refuses tensors that share memory, as views of one another do
    for name, value in flat.items():
        if isinstance(value, Tensor):
            tensor = value.detach().cpu().contiguous()
            address = tensor.untyped_storage().data_ptr()
            tensors[name] = tensor.clone() if address in taken else tensor
            taken.add(address)
    rest = {name: value for name, value in flat.items() if name not in tensors}
    for name, value in rest.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: a {type(value).__name__} is neither a tensor nor JSON ({error})") from error
    stem = str(path_stem)
    Path(f"{stem}.json").write_text(json.dumps(rest, indent=1) + "\n", encoding="utf-8")
    save_file(tensors, f"{stem}.safetensors")


def load_tensors(path_stem: Path) -> dict[str, Any]:
    """Reads what `save_tensors` wrote.

    Raises:
        CheckpointError: One of the two files is missing, damaged, or holds something else, such as a pickle.
    """
    stem = str(path_stem)
    rest, tensors = read_json(Path(f"{stem}.json")), read_safetensors(Path(f"{stem}.safetensors"))
    both = sorted(rest.keys() & tensors.keys())
    if both:
        raise CheckpointError(f"{stem}.json: holds {both[0]}, which {stem}.safetensors holds too")
    return {**rest, **tensors}


def gather_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns the full weights and the full state of the optimizer, on the CPU.

    The same, to the bit, whether the model is plain, compiled, or wrapped by DDP or FSDP 2. A collective: all must
    call it; the first process gets the values, the others empty dictionaries.

    torch's own `get_optimizer_state_dict` is not used: called before the first update it makes one and counts it, and
    its flat form has no place for a parameter that never had a gradient.

    Args:
        model: As it is trained, wrapped.
        optimizer: Of its parameters, or of some of them.

    Returns:
        The weights by the names of the unwrapped model, tied ones once; and the optimizer's state, flat:
        `state.PARAMETER.ENTRY` for what it knows of a parameter, `group.NUMBER.OPTION` for each option of a group of
        parameters, and `group.NUMBER.params` for their names. They may share memory with the model.

    Raises:
        ValueError: The optimizer has a parameter that the model has not.
    """
    unwrapped = unwrap(model)
    tensors = unwrapped.state_dict()  # first: by it FSDP 2 ends a forward pass, and has its own parameters back
    names, tied = parameter_names(unwrapped), tied_names(unwrapped)
    weights = {name: whole(tensor) for name, tensor in tensors.items() if name not in tied}
    flat: dict[str, Any] = {}
    for number, group in enumerate(optimizer.param_groups):
        for option, value in group.items():
            flat[f"group.{number}.{option}"] = [name_of(p, names) for p in value] if option == "params" else value
    for parameter, entries in optimizer.state.items():
        for entry, value in entries.items():
            flat[f"state.{name_of(parameter, names)}.{entry}"] = whole(value)
    return (weights, flat) if is_first_process() else ({}, {})


def restore_state(
    model: nn.Module, optimizer: torch.optim.Optimizer, weights: dict[str, Tensor], optimizer_state: dict[str, Any]
) -> None:
    """Gives a model and its optimizer what `gather_state` returned, to the bit.

    A collective: all processes must call it, each with the same values, which it has read itself. Model and optimizer
    may be wrapped otherwise than where the values come from. Everything is checked before anything is changed.

    Args:
        model: As it will be trained, wrapped.
        optimizer: Of the same parameters, in the same groups.
        weights: By name; tied ones once.
        optimizer_state: As `gather_state` returns it.

    Raises:
        CheckpointError: The values are of another model or optimizer; the message says which differ.
    """
    unwrapped = unwrap(model)
    tensors = unwrapped.state_dict()  # first, as in `gather_state`
    names, tied = parameter_names(unwrapped), tied_names(unwrapped)
    expected = {name: tensor for name, tensor in tensors.items() if name not in tied}
    check_weights("the model", expected, "the checkpoint", weights)
    state, groups = unflatten(optimizer_state)
    check_groups(optimizer, groups, names)
    check_entries(state, {name: parameter for parameter, name in names.items()})

    parts = {name: part(weights[name], tensor) for name, tensor in expected.items()}
    unwrapped.load_state_dict({**parts, **{name: parts[first] for name, first in tied.items()}})
    by_number, numbers = {}, itertools.count()  # an optimizer's own state knows its parameters by number
    for group, saved in zip(optimizer.param_groups, groups, strict=True):
        saved["params"] = []
        for parameter in group["params"]:
            number = next(numbers)
            saved["params"].append(number)
            if names[parameter] in state:
                entries = state[names[parameter]]
                by_number[number] = {entry: part(value, parameter) for entry, value in entries.items()}
    optimizer.load_state_dict({"state": by_number, "param_groups": groups})


def unwrap(model: nn.Module) -> nn.Module:
    """Returns the model without what DDP and compilation put around it; FSDP 2 puts nothing there."""
    if any(isinstance(module, FullyShardedDataParallel) for module in model.modules()):
        raise ValueError("FSDP 1 is not supported, as it flattens the parameters; use FSDP 2 (fsdp_version: 2)")
    return extract_model_from_parallel(model, keep_torch_compile=False)


def is_first_process() -> bool:
    """Whether this is the process that writes."""
    return not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0


def parameter_names(model: nn.Module) -> dict[Tensor, str]:
    """Returns the name of each parameter; of several, the first."""
    return {parameter: name for name, parameter in model.named_parameters()}


def tied_names(model: nn.Module) -> dict[str, str]:
    """Returns the further names of tied parameters, each with the first."""
    first = parameter_names(model)
    every = model.named_parameters(remove_duplicate=False)
    return {name: first[parameter] for name, parameter in every if first[parameter] != name}


def name_of(parameter: Tensor, names: dict[Tensor, str]) -> str:
    """Returns the name of a parameter of the optimizer, which must be one of the model's."""
    if parameter not in names:
        raise ValueError(f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is not in the model")
    return names[parameter]


def whole(value: Any) -> Any:
    """Returns a tensor as it would be in one process, on the CPU, where this process is the first; others as it is."""
    if isinstance(value, DTensor):
        value = value.full_tensor()  # a collective
    return value.detach().cpu() if isinstance(value, Tensor) and is_first_process() else value


def part(value: Any, like: Tensor) -> Any:
    """Returns a copy of a whole tensor as this process needs it: cut as `like` is, if it has its shape.

    A copy, as training changes it, and what was read may lie in the memory of a file.
    """
    if isinstance(value, Tensor) and isinstance(like, DTensor) and value.shape == like.shape:
        value = value.to(like.to_local().device)
        return distribute_tensor(value, like.device_mesh, like.placements)  # a collective
    return value.clone() if isinstance(value, Tensor) else value


def unflatten(optimizer_state: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Returns the entries by parameter, and the groups, of a flat state of an optimizer."""
    state: dict[str, dict[str, Any]] = {}
    groups: dict[str, dict[str, Any]] = {}
    for key, value in optimizer_state.items():
        kind, _, rest = key.partition(".")
        if kind == "group":
            number, _, option = rest.partition(".")
            groups.setdefault(number, {})[option] = value
        elif kind == "state":
            name, _, entry = rest.rpartition(".")
            state.setdefault(name, {})[entry] = value
        else:
            raise CheckpointError(f"the checkpoint's optimizer holds {key!r}, which is neither of a group nor a state")
    numbers = [str(number) for number in range(len(groups))]
    if groups.keys() != set(numbers):
        raise CheckpointError(f"the checkpoint's optimizer has groups {', '.join(groups)}; they count from 0")
    return state, [groups[number] for number in numbers]


def check_weights(one: str, expected: dict[str, Tensor], other: str, found: dict[str, Tensor]) -> None:
    """Refuses weights that are not like those expected: by name, shape and dtype."""
    check_names(one, expected, other, found)
    for name in expected:
        mine, theirs = (
            f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
            for tensor in (expected[name], found[name])
        )
        if mine != theirs:
            raise CheckpointError(f"{other} does not fit {one}: {name} is {theirs}, and must be {mine}")


def check_groups(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]], names: dict[Tensor, str]) -> None:
    """Refuses groups of parameters that are not those of the optimizer, and gives their options its types."""
    if len(groups) != len(optimizer.param_groups):
        raise CheckpointError(
            f"the checkpoint's optimizer has {len(groups)} groups of parameters, and this one has "
            f"{len(optimizer.param_groups)}"
        )
    for number, (group, saved) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        params = saved.get("params")
        if not isinstance(params, list) or not all(isinstance(name, str) for name in params):
            raise CheckpointError(f"group.{number}.params of the checkpoint's optimizer must be a list of names")
        mine = [name_of(parameter, names) for parameter in group["params"]]
        check_names(f"group {number} of the optimizer", mine, "the checkpoint's", params)
        for option, value in group.items():
            found = saved.setdefault(option, value)  # it may have come with a newer torch
            if isinstance(value, tuple) and isinstance(found, list):  # JSON has no tuples
                found = saved[option] = tuple(found)
            if option != "params" and None not in (value, found) and kind_of(value) != kind_of(found):
                raise CheckpointError(
                    f"group.{number}.{option} of the checkpoint's optimizer is {found!r}; it must be of the kind of "
                    f"{value!r}"
                )


def check_entries(state: dict[str, dict[str, Any]], parameters: dict[str, Tensor]) -> None:
    """Refuses entries of an optimizer's state that are of no parameter, or of one of another shape."""
    for name, entries in state.items():
        if name not in parameters:
            raise CheckpointError(f"the checkpoint's optimizer knows of {name}, which is not in the model")
        shape = parameters[name].shape
        for entry, value in entries.items():
            # One with fewer dimensions is no moment of each weight: a count of updates, or the mean of a row
            if isinstance(value, Tensor) and value.dim() >= len(shape) > 0 and value.shape != shape:
                raise CheckpointError(
                    f"{entry} of {name} has shape {tuple(value.shape)} in the checkpoint's optimizer, and the "
                    f"parameter has {tuple(shape)}"
                )


def check_names(one: str, expected: Iterable[str], other: str, found: Iterable[str]) -> None:
    """Refuses names other than those expected, and tells a few of them."""
    missing, unknown = sorted({*expected} - {*found}), sorted({*found} - {*expected})
    sides = [
        f"only {side} has {', '.join(names[:3])}" + f" and {len(names) - 3} more" * (len(names) > 3)
        for side, names in ((one, missing), (other, unknown))
        if names
    ]
    if sides:
        raise CheckpointError(f"{other} does not fit {one}: {'; '.join(sides)}")


def kind_of(value: Any) -> Any:
    """Returns what must agree of two values of an option: numbers may be whole or not, a truth value is no number."""
    if isinstance(value, list | tuple):
        return [kind_of(item) for item in value]
    return float if type(value) is int else type(value)


# --- the average of several -----------------------------------------------------------------------------------


def average(folders: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the mean of the weights of several models, which is often better than each of them.

    Summed in float64, one model at a time, and rounded once to the dtype of the weights.

    Args:
        folders: Of models of one run, one at least: the last checkpoints, say.

    Raises:
        CheckpointError: One can't be read.
        ValueError: They are not alike: a weight that some lack, or of another shape or dtype, or counts that differ.
    """
    first = load_weights(folders[0])
    like = {name: tensor.to("meta") for name, tensor in first.items()}  # shapes and dtypes, without the memory
    sums = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in first.items()}
    del first
    for folder in folders[1:]:
        weights = load_weights(folder)
        check_weights(str(folders[0]), like, str(folder), weights)
        for name, tensor in weights.items():
            if tensor.is_floating_point():
                sums[name] += tensor
            elif not torch.equal(tensor, sums[name]):
                raise ValueError(f"{folder} and {folders[0]} differ in {name}: whole numbers, which have no average")
    return {
        name: (total / len(folders)).to(like[name].dtype) if total.is_floating_point() else total
        for name, total in sums.items()
    }


def average_checkpoints(folders: Sequence[Path], output: Path) -> None:
    """Writes a model whose weights are the mean of those of several; the rest of it is that of the last one named.

    What holds of one of them alone is left out: optimizer, state and log of its training, its figures and its card.

    Args:
        folders: Models of one run; checkpoints among them are verified.
        output: Where to; must be new or empty.

    Raises:
        CheckpointError: One can't be read, or is damaged.
        ValueError: One is no model, or not the same model as the others; or `output` is taken.
    """
    folders, output = [Path(folder) for folder in folders], Path(output)
    if len(folders) < 2:
        raise ValueError(f"an average is made of 2 models or more, and {len(folders)} was given")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(f"{output}: is there already, and not empty; choose another folder")
    for folder in folders:
        for name in ("config.json", WEIGHTS):
            if not (folder / name).is_file():
                raise ValueError(f"{folder}: holds no {name}, so it is not the folder of a model")
        if (folder / SEAL).is_file():
            verify(folder)
    last = folders[-1]
    for folder in folders[:-1]:
        check_alike(folder, last)
    weights = average(folders)

    def write(aside: Path) -> None:
        for path in sorted(last.iterdir()):
            if path.is_file() and not NOT_OF_THE_AVERAGE.fullmatch(path.name):
                shutil.copyfile(path, aside / path.name)
        save_file(weights, aside / WEIGHTS, metadata={"format": "pt"})  # Transformers asks for the metadata

    save_whole(output, write)


def check_alike(folder: Path, other: Path) -> None:
    """Refuses models that differ in configuration or vocabulary: their weights can agree in shape all the same."""
    one, two = (
        {key: value for key, value in read_json(path / "config.json").items() if key != "transformers_version"}
        for path in (folder, other)
    )
    for key in sorted(one.keys() | two.keys()):
        if one.get(key) != two.get(key):
            raise ValueError(
                f"{folder} is not the same model as {other}: its config.json has {key} {one.get(key)!r}, the other's "
                f"{two.get(key)!r}"
            )
    tokenizers = [path / "tokenizer.json" for path in (folder, other)]
    if all(path.is_file() for path in tokenizers) and sha256(tokenizers[0]) != sha256(tokenizers[1]):
        raise ValueError(f"{folder} is not the same model as {other}: their tokenizer.json differ")
