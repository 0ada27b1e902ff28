# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Checkpoints whole or not at all: save, find, verify, resume, average.

A folder is written aside, synced, and put in place by renaming (`save_whole`). A checkpoint is such a folder with a
seal, `checksums.json`, that lists every file with its size and SHA-256 (`Checkpoints`, `verify`). In it are a model
that `from_pretrained` takes, and the optimizer's state (`state_files.py`).
"""

import contextlib
import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from ..files import beside, check_is_free, recover, remove, save_whole
from .state_files import WEIGHTS, CheckpointError, check_weights, load_weights, read_json

SEAL = "checksums.json"
STEP_NAME = re.compile(r"step-(\d{8,})")
LEFTOVER_NAME = re.compile(r"\.(step-\d{8,})\.(writing|before|removing)")
# What lies beside a model and holds of these weights alone: the seal, the state of a training, figures and their card
NOT_OF_THE_AVERAGE = re.compile(
    r"checksums\.json|(optimizer|average|state)\.json|log\.jsonl|training\.json|README\.md"
    r"|.*\.(safetensors|safetensors\.index\.json|bin|pt|pth|ckpt|pkl|pickle)|\..*"
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
    check_is_free(output)
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
