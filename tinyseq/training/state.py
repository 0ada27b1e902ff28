# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""All that changes while a model is trained, as a checkpoint holds it: weights, optimiser, a small JSON of numbers.

There is no state of random generators: the order of the data and the dropout depend on the seed and on how many
batches have been used. So a run that goes on from a checkpoint gives, on the same processes, the weights of an
unbroken one, bit for bit.
"""

import copy
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from accelerate import Accelerator, DistributedType
from accelerate.utils import gather_object
from datasets import Dataset
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..files import check_space, recover, save_whole
from ..hub.card import examples_of
from ..hub.push import write_facts, write_training_json
from ..translation import Translator
from .checkpoint import Checkpoints
from .distributed import main_process_result
from .log import RunLog
from .optimization import MovingAverage
from .options import NOT_DECIDING, RunOptions
from .state_files import CheckpointError, gather_state, load_tensors, load_weights, restore_state, save_tensors, unwrap

STATE = "state.json"
BESIDE_WEIGHTS = 500_000  # bytes of a model's tokenizer, code and card


@dataclass
class Progress:
    """The numbers of a run."""

    step: int = 0  # updates made
    steps: int | None = None  # updates planned; `None` until a time budget has been measured
    next_evaluation: int | None = None  # the update after which the model is evaluated next
    batches: int = 0  # batches used, of all processes, those of skipped updates included
    data: dict[str, Any] | None = None  # where in the data the next batch is, as `BatchStream.state_after` says it
    loss_sum: float = 0.0  # loss summed over target tokens since the last line of the log
    loss_tokens: int = 0  # those target tokens
    window_seconds: float = 0.0  # seconds of training since then
    training_seconds: float = 0.0  # seconds of training before that, evaluations left out
    seconds: float = 0.0  # seconds in all, of all starts together
    skipped: int = 0  # updates that were skipped for a NaN or infinite gradient
    skipped_in_a_row: int = 0  # how many of them were the last ones
    best: float | None = None  # the best value of the metric so far, the higher the better
    without_gain: int = 0  # evaluations since then
    evaluation_seconds: float = 0.0  # seconds of the last evaluation
    finished: bool = False  # whether no update is to follow

    def take_figures(self) -> dict[str, float]:
        """Returns figures of the updates since the last line of the log, and begins to count for the next one."""
        self.training_seconds += self.window_seconds
        figures = {
            "step": self.step,
            "loss_per_target_token": self.loss_sum / self.loss_tokens,
            "target_tokens_per_second": round(self.loss_tokens / self.window_seconds, 1),
            "training_seconds": round(self.training_seconds, 2),
            "skipped_updates": self.skipped,
        }
        self.loss_sum, self.loss_tokens, self.window_seconds = 0.0, 0, 0.0
        return figures

    @property
    def evaluation_is_due(self) -> bool:
        """Whether the model is to be evaluated before the next update."""
        return self.next_evaluation is not None and self.step >= self.next_evaluation


@dataclass
class TrainingState:
    """What a run is made of while it goes on, and how it is written and read."""

    accelerator: Accelerator
    model: Any  # as `accelerator.prepare` gave it
    optimizer: Any  # likewise
    average: MovingAverage | None  # the moving average of the weights, if there is one
    tokenizer: PreTrainedTokenizerBase
    progress: Progress  # the numbers
    log: RunLog  # the figures so far
    # what must be equal when a run is resumed, by a name for messages: every option, the data
    identity: dict[str, Any] = field(default_factory=dict)
    repository: str | None = None  # name on the Hub, for the model cards

    def whole_model(self) -> PreTrainedModel:
        """Returns a model that this process can use alone: for evaluation, and to be saved.

        It is the moving average if there is one, and gathered from all processes if each has but a part.
        """
        if self.average is not None:
            return self.average.module
        model: Any = unwrap(self.model)
        if self.accelerator.distributed_type != DistributedType.FSDP:
            return model
        weights = get_model_state_dict(self.model, options=StateDictOptions(full_state_dict=True))
        return self.model_with(weights)

    def model_with(self, weights: Mapping[str, Any]) -> PreTrainedModel:
        """Returns another model of the same make that has these weights."""
        model: Any = unwrap(self.model)
        other = type(model)(copy.deepcopy(model.config)).to(self.accelerator.device)
        other.generation_config = copy.deepcopy(model.generation_config)
        other.load_state_dict(weights, strict=False)  # what is tied is not in a file twice
        return other.eval()

    def save(self, checkpoints: Checkpoints, score: float | None = None) -> Path:
        """Writes a checkpoint, by the first process; the others wait. Returns its folder."""
        weights, optimizer_state = gather_state(self.model, self.optimizer)
        model: Any = unwrap(self.model)
        scaler = self.accelerator.scaler
        state = {
            "progress": asdict(self.progress),
            "identity": self.identity,
            "scaler": scaler.state_dict() if scaler is not None else None,
        }

        def write(aside: Path) -> None:
            model.save_pretrained(aside, state_dict=weights)
            self.tokenizer.save_pretrained(aside)
            save_tensors(aside / "optimizer", optimizer_state)
            if self.average is not None:
                save_tensors(aside / "average", self.average.state_dict())
            (aside / STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
            self.log.save(aside / "log.jsonl")
            write_training_json(aside, self.log.newest)

        return main_process_result(self.accelerator, lambda: checkpoints.save(self.progress.step, write, score))

    def load(self, checkpoint: Path) -> None:
        """Takes up what a checkpoint holds, which the first process reads for all.

        Raises:
            CheckpointError: Naming the file that is not as it should be.
            ValueError: The run would be another one: naming the option.
        """

        def read() -> dict[str, Any]:
            state = read_state(checkpoint)
            check_identity(state["identity"], self.identity, checkpoint)
            return {
                **state,
                "weights": load_weights(checkpoint),
                "optimizer": load_tensors(checkpoint / "optimizer"),
                "average": load_tensors(checkpoint / "average") if self.average is not None else None,
                "log": (checkpoint / "log.jsonl").read_text(encoding="utf-8"),
            }

        found = main_process_result(self.accelerator, read)
        restore_state(self.model, self.optimizer, found["weights"], found["optimizer"])
        if self.average is not None:
            self.average.load_state_dict(found["average"])
        if self.accelerator.scaler is not None and found["scaler"] is not None:
            self.accelerator.scaler.load_state_dict(found["scaler"])
        for name, value in found["progress"].items():
            setattr(self.progress, name, value)
        self.log.load(found["log"])

    def save_best(self, folder: Path, translator: Translator, pairs: Dataset, examples: int) -> None:
        """Writes the best model, with the translations of the first `examples` of the pairs on its card."""
        if self.accelerator.is_main_process:
            self.log.facts["examples"] = examples_of(translator, pairs, examples)
        self.save_model(folder, translator.model)

    def save_model(self, folder: Path, model: PreTrainedModel) -> None:
        """Writes a model that `from_pretrained` takes as it is, with its card; whole, or what was there stays.

        The first process does, and the others wait.
        """

        def write(aside: Path) -> None:
            model.save_pretrained(aside)
            self.tokenizer.save_pretrained(aside)
            write_facts(aside, self.log.newest, self.repository or str(folder))

        main_process_result(self.accelerator, lambda: save_whole(folder, write))


def bad_numbers(
    accelerator: Accelerator, rows: list[list[int]], train: Any, progress: Progress, checkpoints: Checkpoints
) -> str:
    """Returns why a run ends that has had nothing but bad numbers for some updates.

    Args:
        rows: The training pairs of each batch of this process in the last update.
        train: The training pairs, of which the first are shown if they are in memory.
        progress: The run's.
        checkpoints: The run's.
    """
    pairs = sorted({row for batch in gather_object(rows) for row in batch})
    shown = ", ".join(map(str, pairs[:20])) + ", ..." * (len(pairs) > 20)
    steps = checkpoints.steps()
    where = f"the last whole checkpoint is {checkpoints.path(steps[-1])}" if steps else "there is no checkpoint yet"
    texts = ""
    if isinstance(train, Dataset):
        texts = ", the first being " + ", ".join(repr(train[pair]["source"][:60]) for pair in pairs[:3])
    return (
        f"{progress.skipped_in_a_row} updates in a row had a NaN or infinite loss or gradient, after update "
        f"{progress.step:,}; the last one was made of the pairs {shown} (rows of the training pairs, from 0){texts}; "
        f"{where}. Look at these pairs, or train anew with a lower --learning_rate"
    )


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Returns the JSON of a checkpoint, checked."""
    path = checkpoint / STATE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        Progress(**state["progress"])
        if not isinstance(state["identity"], dict):
            raise TypeError("its identity is no object")
        return {"scaler": None, **state}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointError(f"{path}: not the state of a run ({type(error).__name__}: {error})") from error


def check_identity(saved: dict[str, Any], now: dict[str, Any], checkpoint: Path) -> None:
    """Refuses to go on with another run than the one that was begun, naming what differs."""
    saved, now = flat(saved), flat(now)
    for name in sorted(saved.keys() | now.keys()):
        if name not in NOT_DECIDING and saved.get(name) != now.get(name):
            raise ValueError(
                f"--resume: {name} is {now.get(name)!r} and was {saved.get(name)!r} when {checkpoint} was written; "
                f"the weights would be those of neither run. Give the same again, or train into another folder"
            )


def flat(identity: dict[str, Any]) -> dict[str, Any]:
    """Returns the identity with its options beside the rest, as JSON gives it back."""
    return json.loads(
        json.dumps({**identity.get("options", {}), **{k: v for k, v in identity.items() if k != "options"}})
    )


def check_first_machine(accelerator: Accelerator, checkpoints: Checkpoints) -> None:
    """Refuses to begin anew on one machine while the checkpoints lie on another, which was the first one before.

    Raises:
        ValueError: On every process alike.
    """
    newest = gather_object([max(checkpoints.steps(), default=0)])
    if max(newest) > newest[0]:
        there = f"that of {newest[0]:,} only" if newest[0] else "none"
        raise ValueError(
            f"--resume: process {newest.index(max(newest))} has the checkpoint of update {max(newest):,} in its "
            f"folder, and process 0, which reads and writes them, has {there}; give the machines the ranks that they "
            f"had before (--node_rank, --machine_rank), or copy the run's folder"
        )


def find_earlier(checkpoints: Checkpoints, parameters: int, options: RunOptions) -> Path | None:
    """Returns the checkpoint to go on from, if there is one, after a look at whether there is room for more."""
    for name in ("best", "last"):
        recover(checkpoints.folder.parent / name)
    found = None
    if options.resume:
        found = checkpoints.newest_whole(lambda message: print(message, file=sys.stderr))
    else:
        shutil.rmtree(checkpoints.folder, ignore_errors=True)  # of the run that --overwrite gives up
    weights = 4 * parameters  # bytes; AdamW has two more numbers for each
    one = weights * (4 if options.ema_decay else 3) + BESIDE_WEIGHTS
    kept = options.keep_checkpoints + options.keep_best_checkpoints + 1  # one more while it is written
    there = sum(path.stat().st_size for path in checkpoints.folder.parent.rglob("*.safetensors"))
    models = 3 * (weights + BESIDE_WEIGHTS)  # best/ and last/, and one while it is written
    check_space(checkpoints.folder.parent, max(kept * one + models - there, one), "checkpoints and models")
    return found
