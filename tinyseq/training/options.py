# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The options of a training run. Each says all about itself, once, and whatever asks about options asks here.

What each declares: its help, its range and unit; whether the weights depend on it, and so a run that goes on must have
the same; whether it is private, and so on no model card; whether each machine may have its own. The options of the
model are those of `TinySeqConfig`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..corpus.loading import corpora_of, is_on_hub
from ..evaluation import METRICS, bleu_tokenizer_for


class Range(NamedTuple):
    """The numbers that an option may have."""

    words: str  # how a message says it, after "must be"
    holds: Callable[[float], bool]  # whether a number is one of them; NaN is none


COUNT = Range("1 or more", lambda number: 1 <= number < math.inf)
NOT_NEGATIVE = Range("0 or more", lambda number: 0 <= number < math.inf)
POSITIVE = Range("greater than 0", lambda number: 0 < number < math.inf)
PART = Range("at least 0 and below 1", lambda number: 0 <= number < 1)
SEED = Range("from 0 to 2**32 - 1", lambda number: 0 <= number < 2**32)  # what NumPy takes
FINITE = Range("a finite number", math.isfinite)


class Facts(NamedTuple):
    """What is known of an option beside its help; see `option`."""

    allowed: Range | None
    decides_weights: bool
    is_private: bool
    of_machine: bool


def option(
    help_text: str,
    default: Any = None,
    allowed: Range | None = None,
    unit: str = "",
    *,
    decides_weights: bool = True,
    is_private: bool = False,
    of_machine: bool = False,
    choices: Sequence[str] | None = None,
) -> Any:
    """Returns a field of `RunOptions`.

    Args:
        help_text: What it is.
        default: Its value where nothing is given; `None`: another one is chosen then, or none.
        allowed: The numbers that it may have.
        unit: What a number counts, for its help.
        decides_weights: Whether other weights come out with another value: a run goes on with the same only.
        is_private: Whether it says where things lie or go, which is nobody's business: it is on no card.
        of_machine: Whether machines of one run may have it otherwise: where each has its files.
        choices: The words that it may be, where its type does not say so.
    """
    about = "; ".join(fact for fact in (unit and f"in {unit}", allowed.words if allowed else "") if fact)
    facts = Facts(allowed, decides_weights, is_private, of_machine)
    metadata = {"help": f"{help_text} ({about})" if about else help_text, "facts": facts}
    return field(default=default, metadata=metadata | ({"choices": choices} if choices else {}))


def place(help_text: str, default: Any = None) -> Any:
    """Returns a field that says where files of a machine lie; what is in them decides, and not their names."""
    return option(help_text, default, decides_weights=False, is_private=True, of_machine=True)


def bookkeeping(help_text: str, default: Any = None, allowed: Range | None = None, unit: str = "") -> Any:
    """Returns a field that is about what a run writes and where it sends it, and changes nothing of the model."""
    return option(help_text, default, allowed, unit, decides_weights=False, is_private=True)


@dataclass
class RunOptions:
    """One training run. The model's own options are those of TinySeqConfig."""

    output_dir: str | None = place("the run's folder; must be new or empty, unless --resume or --overwrite")
    resume: bool = bookkeeping(
        "go on from the newest whole checkpoint of the run's folder; without one, begin", default=False
    )
    overwrite: bool = bookkeeping("train into a folder that holds another run; its models are replaced", default=False)

    # data
    train: list[str] | None = place(
        "training pairs: two aligned text files, or one TSV, CSV, JSON lines or Parquet file, or a pattern of such "
        "files, or a data set (a folder, or a name on the Hub), or 'grammar', the built-in English-Spanish corpus. "
        "Plain or .gz. Several corpora are separated by +"
    )
    valid: list[str] | None = place("validation pairs, likewise; by default a part of the training pairs")
    test: list[str] | None = place("test pairs, likewise: translated and scored at the end")
    valid_pairs: int = option(
        "pairs taken out of the training data for validation where --valid is not given", 1000, COUNT
    )
    source: str | None = option("language code or column of the source side, where the data has names for them")
    target: str | None = option("language code or column of the target side")
    dataset_config_name: str | None = option("configuration of a data set on the Hub that has several")
    dataset_revision: str | None = option("branch, tag or commit of a data set on the Hub")
    streaming: bool = option(
        "read the training pairs as they are needed: none is kept in memory or on the disk", default=False
    )
    weights: list[float] | None = option(
        "how often a pair comes from each corpus of --train; else each pair is as often", None, POSITIVE
    )
    shuffle_buffer: int = option(
        "how many are mixed with each other, of a stream or of weighted corpora", 100_000, COUNT, "pairs"
    )
    on_bad_row: Literal["stop", "skip"] = option(
        "what to do about a row that cannot be read: stop, or skip and count", "stop", decides_weights=False
    )
    drop: list[str] | None = option(
        "kinds of suspicious training pairs to leave out, or 'all': duplicate, test_pair, identical, length_ratio, "
        "script, header, control, too_long; they are counted and kept otherwise (`tinyseq corpus` shows them)"
    )

    # tokenizer
    tokenizer: str | None = place("folder of a tokenizer to use; by default one is learned from the training pairs")
    vocab_size: int = option(
        "most that the learned tokenizer may have, both languages together", 8000, COUNT, "pieces"
    )
    tokenizer_algorithm: Literal["bpe", "unigram"] = option("how pieces are learned", "bpe")

    # optimisation
    seed: int = option("decides weights at the start, data order and dropout", 0, SEED)
    batch_size_tokens: int = option(
        "greatest size of a batch on either side, padding included, per process", 2048, COUNT, "positions"
    )
    gradient_accumulation_steps: int = option("batches per process and update", 1, COUNT, decides_weights=False)
    epochs: float = option("passes over the training pairs", 10.0, POSITIVE)
    max_steps: int | None = option("updates; overrides --epochs", None, COUNT)
    time_budget_minutes: float | None = option(
        "how long to train, evaluations included: as many updates as go into it, unless --max_steps says fewer",
        None, POSITIVE, "minutes", decides_weights=False,
    )  # fmt: skip
    learning_rate: float = option("highest learning rate", 1.5e-3, POSITIVE)
    warmup_steps: int = option(
        "how long the rate rises from 0; at most a tenth of the run", 300, NOT_NEGATIVE, "updates"
    )
    schedule: Literal["linear", "cosine", "inverse_sqrt"] = option(
        "the rate after warm-up: down to 0 at the last update in a line or a cosine, or as 1/sqrt(update)", "linear"
    )
    adam_beta2: float = option("decay of AdamW's mean of squares", 0.98, PART)
    weight_decay: float = option("AdamW's weight decay", 0.01, NOT_NEGATIVE)
    label_smoothing: float = option("part of the target distribution that is spread over all pieces", 0.1, PART)
    max_grad_norm: float = option("gradients are scaled down to this norm; 0: never", 1.0, NOT_NEGATIVE)
    mixed_precision: Literal["no", "bf16", "fp16"] | None = option(
        "number format of the matrix products; by default what `accelerate config` says, else no"
    )
    ema_decay: float = option("evaluate and save a moving average of the weights with this decay; 0: none", 0.0, PART)
    max_bad_updates: int = option(
        "updates in a row that may be skipped for a NaN or infinite gradient", 5, COUNT, decides_weights=False
    )
    loader_workers: int = option(
        "processes that prepare batches beside each training process", 0, NOT_NEGATIVE,
        decides_weights=False, is_private=True, of_machine=True,
    )  # fmt: skip
    process_timeout_seconds: float = bookkeeping(
        "how long processes wait for each other before the run fails", 1800, POSITIVE, "seconds"
    )

    # evaluation and output
    eval_steps: int | None = option(
        "how long between evaluations; by default there are five in the run", None, COUNT, "updates"
    )
    eval_pairs: int = option("validation pairs that are translated at each evaluation, the first ones", 500, COUNT)
    patience: int | None = option(
        "end after so many evaluations in a row without a better one", None, COUNT, decides_weights=False
    )
    save_steps: int | None = bookkeeping(
        "how long between checkpoints; by default one at each evaluation", None, COUNT, "updates"
    )
    keep_checkpoints: int = bookkeeping("newest checkpoints that are kept", 2, COUNT)
    keep_best_checkpoints: int = bookkeeping("best checkpoints that are kept besides", 1, NOT_NEGATIVE)
    average_checkpoints: int = option(
        "at the end try the mean of so many newest checkpoints as best/; 0: do not", 0, NOT_NEGATIVE,
        decides_weights=False,
    )  # fmt: skip
    num_beams: int = option("beams for the test set; saved as the model's default", 5, COUNT, decides_weights=False)
    length_penalty: float = option(
        "beam search divides a score by length to this power; saved likewise", 1.0, FINITE, decides_weights=False
    )
    bleu_tokenize: str | None = option("how BLEU finds words, such as 13a or zh; by default as --target asks for")
    best_metric: str = option("which validation figure chooses best/", "bleu", choices=(*METRICS, "loss"))
    log_steps: int = bookkeeping("how long between lines of log.jsonl", 50, COUNT, "updates")
    log_batches: bool = bookkeeping(
        "write which pairs each update learned from to batches-PROCESS.jsonl", default=False
    )
    report_to: list[str] | None = bookkeeping("trackers that Accelerate knows, such as tensorboard or wandb")

    # the Hub (the token is that of `hf auth login`, or HF_TOKEN)
    push_to_hub: bool = bookkeeping("put best/ on the Hub, with a model card", default=False)
    hub_model_id: str | None = bookkeeping(
        "its repository, owner/name; by default the run's folder, under your own name"
    )
    hub_private_repo: bool = bookkeeping(
        "make a new repository private; refuse one that is there and public", default=False
    )
    hub_strategy: Literal["end", "every_save"] = bookkeeping(
        "push when all is done, or also whenever best/ changes", "end"
    )
    card_examples: int = bookkeeping(
        "validation sentences to show on the model card, where whoever sees it reads them", 0, NOT_NEGATIVE
    )

    @property
    def bleu_tokenizer(self) -> str:
        """How BLEU finds words: as was said, or as the target language asks for."""
        return self.bleu_tokenize or bleu_tokenizer_for(self.target)


# Names of an earlier version, which go on working for this one
RENAMED = {"time_budget": "time_budget_minutes", "process_timeout": "process_timeout_seconds"}
# In a run's identity by other names: the batches of an update, and the data themselves
NOT_DECIDING = {one.name for one in fields(RunOptions) if not one.metadata["facts"].decides_weights} | RENAMED.keys()


def without(fact: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of all but the options of which a fact of `Facts` is true."""
    named = {one.name for one in fields(RunOptions) if getattr(one.metadata["facts"], fact)}
    return {name: value for name, value in values.items() if name not in named}


def check_ranges(options: RunOptions) -> None:
    """Refuses numbers that an option can't have.

    Raises:
        ValueError: Naming the option, the value and what is allowed.
    """
    for one in fields(options):
        allowed, value = one.metadata["facts"].allowed, getattr(options, one.name)
        if allowed is None or value is None:
            continue
        for number in value if isinstance(value, list) else [value]:
            if not allowed.holds(number):
                raise ValueError(f"--{one.name} {number} must be {allowed.words}")


def check_options(options: RunOptions) -> Path:
    """Refuses what can't work before anything is done; returns the run's folder.

    Raises:
        ValueError: Naming the options, their values and what to do.
    """
    if not options.train:
        raise ValueError("--train is missing: name the training pairs (--train corpus.en corpus.de) or a recipe")
    if not options.output_dir:
        raise ValueError("--output_dir is missing: name the run's folder")
    check_ranges(options)
    if options.average_checkpoints > options.keep_checkpoints or options.average_checkpoints == 1:
        raise ValueError(
            f"--average_checkpoints {options.average_checkpoints} needs at least 2, and as many of them to be kept; "
            f"--keep_checkpoints is {options.keep_checkpoints}"
        )
    if options.average_checkpoints and options.ema_decay:
        raise ValueError("--average_checkpoints and --ema_decay are two ways to the same; give one of them")
    for name in ("hub_model_id", "hub_private_repo", "hub_strategy"):
        if vars(options)[name] not in (None, False, "end") and not options.push_to_hub:
            raise ValueError(f"--{name} says where to push, and nothing is pushed without --push_to_hub")
    corpora = corpora_of(options.train)
    if [] in corpora:
        raise ValueError(f"--train {' '.join(options.train)}: a + stands between two corpora")
    for name in ("dataset_config_name", "dataset_revision"):
        if vars(options)[name] and not any(map(is_on_hub, (*corpora, options.valid, options.test))):
            raise ValueError(f"--{name} is for a data set on the Hub; --train, --valid and --test name none")
    if options.weights and len(options.weights) != len(corpora):
        raise ValueError(
            f"--weights {' '.join(map(str, options.weights))}: give a number above 0 for each of the "
            f"{len(corpora)} corpora of --train, which are separated by +"
        )
    if options.streaming and len(corpora) > 1 and not options.weights:
        raise ValueError(f"--streaming of {len(corpora)} corpora needs --weights: how long they are is not known")
    if options.streaming or options.weights:
        which = "--streaming" if options.streaming else "--weights"
        if not options.valid:
            raise ValueError(f"{which} needs --valid: no pairs can be taken out of what is not read as a whole")
        if not (options.max_steps or options.time_budget_minutes):
            raise ValueError(f"{which} needs --max_steps or --time_budget_minutes: there are no epochs to count")
    folder = Path(options.output_dir)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output_dir {folder} is a file")
    if options.resume and options.overwrite:
        raise ValueError("--resume goes on with a run and --overwrite throws it away; give one of them")
    if folder.exists() and any(folder.iterdir()) and not (options.overwrite or options.resume):
        raise ValueError(
            f"--output_dir {folder} is not empty; choose another, or pass --resume to go on with the run in it, or "
            f"--overwrite to replace it"
        )
    return folder
