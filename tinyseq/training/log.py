# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""What a training run writes about itself: its options, its figures, its curve."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from accelerate import Accelerator

from .runtime import versions


def write_options(path: Path, options: dict[str, Any]) -> None:
    """Writes a recipe that runs the same again: every option, and versions and commit as comments."""
    path.parent.mkdir(parents=True, exist_ok=True)
    notes = "".join(f"# {name}: {version}\n" for name, version in versions().items())
    path.write_text(notes + yaml.safe_dump(options, sort_keys=False), encoding="utf-8")


class RunLog:
    """The run's figures: a line of JSON each, the trackers, and a curve drawn anew at each evaluation.

    Attributes:
        facts: What holds for the whole run: its data, sizes, options, versions.
    """

    def __init__(self, path: Path, accelerator: Accelerator, facts: dict[str, Any] | None = None):
        self.path = path
        self.accelerator = accelerator
        self.facts = facts or {}
        self.lines: list[dict] = []

    def begin(self) -> None:
        """Begins the file anew with the lines there are."""
        if self.accelerator.is_main_process:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.save(self.path)

    def save(self, path: Path) -> None:
        """Writes all lines so far."""
        path.write_text("".join(f"{json.dumps(line)}\n" for line in self.lines), encoding="utf-8")

    def load(self, text: str) -> None:
        """Goes on from the lines of an earlier start; what was written after them is left out."""
        self.lines = [json.loads(line) for line in text.splitlines()]

    @property
    def newest(self) -> dict:
        """What is written beside a model's weights: the facts, and the newest value of every figure."""
        return {**self.facts, **{name: value for line in self.lines for name, value in line.items()}}

    def write(self, line: dict) -> None:
        """Notes figures of one update, which `line["step"]` names."""
        self.lines.append(line)
        if self.accelerator.is_main_process:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            if "valid_loss" in line:
                self.draw()
        numbers = {name: value for name, value in line.items() if isinstance(value, int | float) and name != "step"}
        self.accelerator.log(numbers, step=line["step"])

    def draw(self) -> None:
        """Draws curve.png, if Matplotlib is there."""
        from ..attention.pictures import draw_curve

        with suppress(ImportError):
            draw_curve(self.lines, self.path.with_name("curve.png"))


def write_test(folder: Path, hypotheses: list[str], figures: dict[str, Any]) -> None:
    """Writes the translations of the test set, and their scores."""
    (folder / "test.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    (folder / "test.hypotheses.txt").write_text("\n".join(hypotheses) + "\n", encoding="utf-8", newline="\n")


class BatchLog:
    """Which pairs each update of this process learned from, and the loss: one line of JSON per update.

    It is there to compare runs by. Lines of updates after the checkpoint that a run goes on from are left out.
    """

    def __init__(self, path: Path, batches: int):
        before = path.read_text(encoding="utf-8").splitlines() if path.is_file() and batches else []
        lines = [line for line in before if line.endswith("}") and json.loads(line)["batches"] <= batches]
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("w", encoding="utf-8", buffering=1)
        self.file.writelines(f"{line}\n" for line in lines)

    def write(self, **line: Any) -> None:
        """Notes an update."""
        self.file.write(json.dumps(line) + "\n")
