# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Signals that end a run in order: noted when they come, acted on by all processes at the end of the same update."""

import os
import signal
import time
from types import FrameType
from typing import Any

import torch
from transformers import StoppingCriteria

# What schedulers, shells and launchers send; not all are there on every system
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGUSR1", "SIGHUP") if hasattr(signal, name))
SECONDS_OF_ONE_KEY = 2  # a launcher passes a Ctrl-C on that its processes have had from the terminal
LAUNCHER_VARIABLES = ("TORCHELASTIC_RUN_ID", "ACCELERATE_MIXED_PRECISION")  # set by torchrun, by accelerate launch


class Stopped(BaseException):
    """A run that ends early, and in order, because it was asked to. No error: what handles errors must not take it.

    Attributes:
        number: Of the signal.
    """

    def __init__(self, number: int, message: str):
        super().__init__(number, message)
        self.number = number
        self.message = message

    def __str__(self) -> str:
        return self.message

    @property
    def exit_code(self) -> int:
        """What a shell makes of the signal: 143 for SIGTERM, 130 for SIGINT, 138 for SIGUSR1 (on Linux)."""
        return 128 + self.number


class Interruption(StoppingCriteria):
    """Notes the first signal, or that the launcher has died, until the loop asks.

    A context manager: the handlers of before are put back at its end. While there is nothing to finish in order, as
    before the first update, a signal ends the run at once, by raising `Stopped` with the message `at_once`. So does
    Ctrl-C a second time, some seconds after the first.

    It is also a stopping criterion: given to ``generate()``, a translation that is under way ends at its next piece.
    """

    def __init__(self) -> None:
        self.noted = 0  # the signal's number
        self.noted_at = 0.0
        self.at_once: str | None = "before the first update of this start; nothing is lost"
        # Workers whose launcher was killed would go on for ever, with nobody to stop them
        is_launched = any(name in os.environ for name in LAUNCHER_VARIABLES)
        self.launcher = os.getppid() if is_launched else None
        self.before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        try:
            for number in SIGNALS:
                if number == getattr(signal, "SIGHUP", None) and signal.getsignal(number) == signal.SIG_IGN:
                    continue  # `nohup` asked for that
                self.before[number] = signal.signal(number, self.note)
        except ValueError:  # not in the main thread, where nobody can handle signals
            pass
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def note(self, number: int, frame: FrameType | None = None) -> None:
        """Handles a signal."""
        name = signal.Signals(number).name
        if self.at_once is not None:
            raise Stopped(number, f"stopped by {name} {self.at_once}")
        if self.noted and number == signal.SIGINT and time.monotonic() > self.noted_at + SECONDS_OF_ONE_KEY:
            raise Stopped(number, f"stopped by a second {name} at once; --resume goes on from the last checkpoint")
        if not self.noted:
            self.noted, self.noted_at = number, time.monotonic()

    def flags(self) -> list[float]:
        """Returns 1 for the signal of `SIGNALS` that has come, else 0: numbers that processes can add up."""
        if not self.noted and self.launcher is not None and os.getppid() != self.launcher:
            self.noted = signal.SIGTERM
        return [float(number == self.noted) for number in SIGNALS]

    def __call__(self, input_ids: torch.Tensor, scores: Any, **keywords: Any) -> torch.Tensor:
        """Returns for each row of `input_ids` (batch, length) whether it is to end: all, once a signal has come."""
        return torch.full((len(input_ids),), bool(self.noted), dtype=torch.bool, device=input_ids.device)


def signal_in(flags: list[float]) -> int:
    """Returns the number of the signal that the sum of all processes' `flags()` tells of, or 0."""
    return next((int(number) for number, flag in zip(SIGNALS, flags, strict=True) if flag), 0)
