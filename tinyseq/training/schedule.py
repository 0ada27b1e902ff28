# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The learning rate of each update, and how many updates there are: of a number, of epochs, or of a time budget."""

import math

from accelerate import Accelerator

from .distributed import main_process_result
from .options import RunOptions
from .state import Progress

EVALUATIONS = 5  # in a run, where --eval_steps does not say otherwise
FIRST_PLAN = 20  # updates after which a time budget is turned into a number of updates
PLANS = 20  # how often that is done anew in a run, as its speed changes


def learning_rate(step: int, steps: int | None, options: RunOptions) -> float:
    """Returns the rate of update `step` (from 0) of `steps`: it depends on nothing else.

    With a time budget, `steps` is not known at first.
    """
    if steps is None:
        return options.learning_rate * (step + 1) / max(options.warmup_steps, FIRST_PLAN)
    warmup = min(options.warmup_steps, steps // 10)
    if step < warmup:
        return options.learning_rate * (step + 1) / warmup
    if options.schedule == "inverse_sqrt":
        return options.learning_rate * math.sqrt(max(warmup, 1) / (step + 1))
    left = (steps - step) / (steps - warmup)  # 1 after warm-up, just above 0 at the last update
    return options.learning_rate * (left if options.schedule == "linear" else (1 - math.cos(math.pi * left)) / 2)


def plan_is_due(progress: Progress, options: RunOptions) -> bool:
    """Whether what is left of a time budget is to be turned into updates anew, after an update."""
    if not options.time_budget_minutes or progress.evaluation_is_due:  # which is followed by a plan
        return False
    return progress.step == FIRST_PLAN or progress.step % max((progress.steps or 0) // PLANS, FIRST_PLAN) == 0


def plan(accelerator: Accelerator, progress: Progress, options: RunOptions) -> None:
    """Sets how many updates there are, and when the model is evaluated next: at the end at the latest.

    What is left of a time budget becomes updates at the speed so far, by the clock of the first process.
    """
    if options.time_budget_minutes and progress.step and not progress.finished:
        # one evaluation comes at the end
        left = 60 * options.time_budget_minutes - progress.seconds - progress.evaluation_seconds
        steps = progress.step + max(int(left * progress.step / progress.seconds), 1)
        steps = min(steps, options.max_steps or steps)
        progress.steps = main_process_result(accelerator, lambda: steps)
    if progress.steps is not None:
        every = options.eval_steps or max(math.ceil(progress.steps / EVALUATIONS), 1)
        progress.next_evaluation = min(progress.step - progress.step % every + every, progress.steps)
    elif options.eval_steps:
        progress.next_evaluation = progress.step + options.eval_steps
