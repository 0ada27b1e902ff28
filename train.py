# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Trains a translation model on your own parallel text.

  python train.py demo --output_dir runs/demo                        a recipe that comes with tinyseq
  python train.py --train a.en a.de --output_dir runs/mine           two files, line by line
  python train.py my.yaml --learning_rate 1e-3                       a recipe of your own, an option on top
  python train.py my.yaml --resume                                   on from the newest checkpoint, if there is one
  torchrun --nproc_per_node 2 train.py my.yaml                       two processes, on GPUs or on the CPU
  accelerate launch -m tinyseq.train my.yaml                         the same file from the installed package

The run's folder then holds best/ and last/, each a model that from_pretrained takes, checkpoints/, log.jsonl,
curve.png, options.yaml, data_report.json and, if a test set was given, test.json.

Exit code: 0 when the run came to its end; 143, 130 or 138 when SIGTERM, SIGINT (Ctrl-C) or SIGUSR1 ended it, with a
checkpoint from which --resume goes on; 1 after an error, which is the last line on stderr; 2 for a wrong command line.
"""

import contextlib
import errno
import math
import signal
import sys
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Literal

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, InitProcessGroupKwargs, set_seed
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers.utils import logging as transformers_logging

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration
from tinyseq.batching.encoding import fingerprint_of
from tinyseq.batching.stream import Batch, BatchStream
from tinyseq.corpus.checks import Report
from tinyseq.evaluation import bleu_tokenizer_for, score
from tinyseq.hub.card import facts_of_run
from tinyseq.hub.push import BackgroundPush, HubPushError, add_facts, check_token, create_repository
from tinyseq.training.checkpoint import Checkpoints, average
from tinyseq.training.data import (
    corpus_to_batch,
    encode,
    load_data,
    make_tokenizer,
    refused,
    write_reports,
)
from tinyseq.training.distributed import (
    check_distribution,
    check_launcher,
    check_same_everywhere,
    end_process,
    leave_group,
    lost_process,
    main_process_result,
    prepare,
    sum_over_processes,
    translate_shared,
)
from tinyseq.training.interruption import Interruption, Stopped, signal_in
from tinyseq.training.log import BatchLog, RunLog, write_options, write_test
from tinyseq.training.optimization import MovingAverage, make_optimizer, seed_dropout
from tinyseq.training.options import model_options, parse_options
from tinyseq.training.run_checks import check_first_machine, check_options, find_earlier
from tinyseq.training.runtime import keep_freed_memory, machine, versions
from tinyseq.training.state import Progress, TrainingState, bad_numbers
from tinyseq.training.state_files import load_weights
from tinyseq.training.validation import evaluate
from tinyseq.translation import Translator

EVALUATIONS = 5  # in a run, where --eval_steps does not say otherwise
# Options that processes may have otherwise: where each machine has its files
OF_EACH_MACHINE = {"output_dir", "train", "valid", "test", "tokenizer", "loader_workers"}
FIRST_PLAN = 20  # updates after which a time budget is turned into a number of updates
PLANS = 20  # how often that is done anew in a run, as its speed changes


def option(help_text: str, default=None):
    """A field of `RunOptions` with its explanation."""
    return field(default=default, metadata={"help": help_text})


@dataclass
class RunOptions:
    """One training run. The model's own options are those of TinySeqConfig."""

    output_dir: str | None = option("the run's folder; must be new or empty, unless --resume or --overwrite")
    resume: bool = option("go on from the newest whole checkpoint of the run's folder; without one, begin", False)
    overwrite: bool = option("train into a folder that holds another run; its models are replaced", False)

    # data
    train: list[str] | None = option(
        "training pairs: two aligned text files, or one TSV, CSV, JSON lines or Parquet file, or a pattern of such "
        "files, or a data set (a folder, or a name on the Hub), or 'grammar', the built-in English-Spanish corpus. "
        "Plain or .gz. Several corpora are separated by +"
    )
    valid: list[str] | None = option("validation pairs, likewise; by default a part of the training pairs")
    test: list[str] | None = option("test pairs, likewise: translated and scored at the end")
    valid_pairs: int = option("pairs taken out of the training data for validation where --valid is not given", 1000)
    source: str | None = option("language code or column of the source side, where the data has names for them")
    target: str | None = option("language code or column of the target side")
    dataset_config_name: str | None = option("configuration of a data set on the Hub that has several")
    dataset_revision: str | None = option("branch, tag or commit of a data set on the Hub")
    streaming: bool = option(
        "read the training pairs as they are needed: none is kept in memory or on the disk", False
    )
    weights: list[float] | None = option(
        "how often a pair comes from each corpus of --train; else each pair is as often"
    )
    shuffle_buffer: int = option("pairs that are mixed with each other, of a stream or of weighted corpora", 100_000)
    on_bad_row: Literal["stop", "skip"] = option(
        "what to do about a row that cannot be read: stop, or skip and count", "stop"
    )
    drop: list[str] | None = option(
        "kinds of suspicious training pairs to leave out, or 'all': duplicate, test_pair, identical, length_ratio, "
        "script, header, control, too_long; they are counted and kept otherwise (`tinyseq corpus` shows them)"
    )

    # tokenizer
    tokenizer: str | None = option("folder of a tokenizer to use; by default one is learned from the training pairs")
    vocab_size: int = option("most pieces that the learned tokenizer may have, both languages together", 8000)
    tokenizer_algorithm: Literal["bpe", "unigram"] = option("how pieces are learned", "bpe")

    # optimisation
    seed: int = option("decides weights at the start, data order and dropout", 0)
    batch_size_tokens: int = option("most positions of a batch on either side, padding included, per process", 2048)
    gradient_accumulation_steps: int = option("batches per process and update", 1)
    epochs: float = option("passes over the training pairs", 10.0)
    max_steps: int | None = option("updates; overrides --epochs")
    time_budget: float | None = option(
        "minutes, evaluations included: as many updates as go into them, unless --max_steps says fewer"
    )
    learning_rate: float = option("highest learning rate", 1.5e-3)
    warmup_steps: int = option("updates during which the rate rises from 0; at most a tenth of all", 300)
    schedule: Literal["linear", "cosine", "inverse_sqrt"] = option(
        "the rate after warm-up: down to 0 at the last update in a line or a cosine, or as 1/sqrt(update)", "linear"
    )
    adam_beta2: float = option("decay of AdamW's mean of squares", 0.98)
    weight_decay: float = option("AdamW's weight decay", 0.01)
    label_smoothing: float = option("share of the target distribution that is spread over all pieces", 0.1)
    max_grad_norm: float = option("gradients are scaled down to this norm; 0: never", 1.0)
    mixed_precision: Literal["no", "bf16", "fp16"] | None = option(
        "number format of the matrix products; by default what `accelerate config` says, else no"
    )
    ema_decay: float = option("evaluate and save a moving average of the weights with this decay; 0: none", 0.0)
    max_bad_updates: int = option("updates in a row that may be skipped for a NaN or infinite gradient", 5)
    loader_workers: int = option("processes that prepare batches beside each training process", 0)
    process_timeout: float = option("seconds that processes wait for each other before the run fails", 1800)

    # evaluation and output
    eval_steps: int | None = option("updates between evaluations; by default five in the run")
    eval_pairs: int = option("validation pairs that are translated at each evaluation, the first ones", 500)
    patience: int | None = option("end after so many evaluations in a row without a better one")
    save_steps: int | None = option("updates between checkpoints; by default one at each evaluation")
    keep_checkpoints: int = option("newest checkpoints that are kept", 2)
    keep_best_checkpoints: int = option("best checkpoints that are kept besides", 1)
    average_checkpoints: int = option("at the end try the mean of so many newest checkpoints as best/; 0: do not", 0)
    num_beams: int = option("beams for the test set; saved as the model's default", 5)
    length_penalty: float = option("beam search divides a score by length to this power; saved likewise", 1.0)
    bleu_tokenize: str | None = option("how BLEU finds words, such as 13a or zh; by default as --target asks for")
    best_metric: Literal["bleu", "chrf", "loss"] = option("which validation figure chooses best/", "bleu")
    log_steps: int = option("updates between lines of log.jsonl", 50)
    log_batches: bool = option("write which pairs each update learned from to batches-PROCESS.jsonl", False)
    report_to: list[str] | None = option("trackers that Accelerate knows, such as tensorboard or wandb")

    # the Hub (the token is that of `hf auth login`, or HF_TOKEN)
    push_to_hub: bool = option("put best/ on the Hub, with a model card", False)
    hub_model_id: str | None = option("its repository, owner/name; by default the run's folder, under your own name")
    hub_private_repo: bool = option("make a new repository private; refuse one that is there and public", False)
    hub_strategy: Literal["end", "every_save"] = option("push when all is done, or also whenever best/ changes", "end")
    card_examples: int = option("validation sentences to show on the model card, where whoever sees it reads them", 0)


def main(arguments: list[str] | None = None) -> None:
    """Options -> data -> tokenizer -> model -> loop -> test."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options, architecture = parse_options([RunOptions, model_options()], arguments, description=__doc__ or "")
    try:
        with Interruption() as interruption:
            train(options, architecture, interruption)
    except Stopped as stop:
        say(str(stop))
        end_process(stop.exit_code)
    except (ValueError, OSError) as error:
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        hint = f". Make room for {options.output_dir}; the same command with --resume goes on" if full else ""
        say(f"error: {error}{hint}")
        end_process(1)
    except Exception as error:
        traceback.print_exc()
        if lost := lost_process(error):
            say(f"error: {lost}")
        end_process(1)


def say(message: str) -> None:
    """Writes a line on stderr, at once, so that those of several processes do not run into each other."""
    sys.stderr.write(f"train.py: {message}\n")


def train(options: RunOptions, architecture, interruption: Interruption) -> None:
    """Trains one model; see the module's docstring for what it leaves behind."""
    keep_freed_memory()
    transformers_logging.disable_progress_bar()
    run_folder = check_options(options)
    TinySeqConfig(**asdict(architecture))  # refuses now what would be refused after the data were read
    check_launcher()
    # torch 2.13 has a new name for an option below, and Accelerate does not know it yet
    warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
    accelerator = Accelerator(
        cpu=not torch.accelerator.is_available(),  # without it, several processes on a CPU do not find each other
        mixed_precision=options.mixed_precision,
        log_with=options.report_to,
        project_dir=run_folder / "trackers",
        kwargs_handlers=[
            DistributedDataParallelKwargs(broadcast_buffers=False),  # position tables never change
            InitProcessGroupKwargs(timeout=timedelta(seconds=options.process_timeout)),
        ],
    )
    processes = accelerator.num_processes
    show = print if accelerator.is_main_process else lambda *words: None
    check_distribution(accelerator, options.ema_decay)
    given = {"library versions": versions(), **asdict(options), **asdict(architecture)}
    check_same_everywhere(accelerator, {name: what for name, what in given.items() if name not in OF_EACH_MACHINE})
    set_seed(options.seed)
    if options.push_to_hub:
        main_process_result(accelerator, check_token)  # now, not when the data have been read

    # --- data --------------------------------------------------------------------------------------------
    data = load_data(options, show)
    repository = None
    if options.push_to_hub:
        name = options.hub_model_id or run_folder.resolve().name
        private = options.hub_private_repo or None
        repository = main_process_result(accelerator, lambda: create_repository(name, private=private))
    tokenizer = make_tokenizer(
        accelerator, options, architecture.max_position_embeddings, data.train, run_folder / "tokenizer"
    )
    config = TinySeqConfig(
        **asdict(architecture),
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    corpus, known = corpus_to_batch(accelerator, options, data.train, tokenizer, config, show)
    valid = encode(accelerator, data.valid, "validation", tokenizer, config, show)
    batches = BatchStream(
        corpus, options.batch_size_tokens, options.seed, tokenizer.pad_token_id, accelerator.process_index, processes
    )

    # --- model and optimiser ------------------------------------------------------------------------------
    model = TinySeqForConditionalGeneration(config)
    model.generation_config.update(
        num_beams=options.num_beams,
        length_penalty=options.length_penalty,
        suppress_tokens=[config.pad_token_id],  # its logit is a constant, not a score
    )
    optimizer = make_optimizer(model, options.learning_rate, options.adam_beta2, options.weight_decay)
    moving_average = MovingAverage(model, options.ema_decay).to(accelerator.device) if options.ema_decay else None
    parameters = model.num_parameters()
    model, optimizer = prepare(accelerator, model, optimizer)

    # --- the run, and where an earlier start has left it --------------------------------------------------
    update_batches = processes * options.gradient_accumulation_steps
    epoch_steps = batches.batches_per_epoch / update_batches if batches.batches_per_epoch else None
    progress = Progress(steps=options.max_steps)
    if epoch_steps and not options.max_steps and not options.time_budget:
        progress.steps = max(round(options.epochs * epoch_steps), 1)
    plan_evaluation(progress, options)
    resolved = {**asdict(options), **asdict(architecture), "max_steps": progress.steps, "resume": False}
    learnt_from = {"training data": known["fingerprint"], "validation data": valid.fingerprint}
    identity = {"options": resolved, "batches per update": update_batches, **learnt_from}
    of_test = fingerprint_of(data.test, tokenizer, config.max_position_embeddings) if data.test is not None else None
    check_same_everywhere(accelerator, {**learnt_from, "test data": of_test})
    sets = {"train": (options.train, known["size"]), "validation": (options.valid, len(valid))}
    if data.test is not None:
        sets["test"] = (options.test, len(data.test))
    facts = facts_of_run(resolved, sets, longest_source=known["longest_source"])
    facts |= {
        "parameters": parameters,
        "machine": machine(processes),
        "versions": versions(),
        "left_out": refused(data.reports),
    }
    log = RunLog(run_folder / "log.jsonl", accelerator, facts)
    state = TrainingState(
        accelerator, model, optimizer, moving_average, tokenizer, progress, log, identity, repository
    )
    checkpoints = Checkpoints(run_folder / "checkpoints", options.keep_checkpoints, options.keep_best_checkpoints)
    if options.resume:
        check_first_machine(accelerator, checkpoints)
    found = main_process_result(accelerator, lambda: find_earlier(checkpoints, parameters, options))
    if found is not None:
        state.load(found)
        show(f"goes on from {found}: update {progress.step:,}")
    log.begin()
    if options.streaming and progress.data:
        data.reports["train"] = {"read so far": progress.data["report"]}
    batches.state = progress.data or batches.state
    length = f"{progress.steps:,} updates" if progress.steps else f"{options.time_budget:g} minutes"
    length += f", {progress.steps / epoch_steps:.1f} epochs" if progress.steps and epoch_steps else ""
    show(
        f"{parameters / 1e6:.1f} M parameters, {len(tokenizer)} pieces, {known['words']}; {length}, "
        f"on {processes} process{'es' * (processes > 1)} ({accelerator.device})"
    )
    if accelerator.is_main_process:
        write_options(run_folder / "options.yaml", resolved)
        write_reports(run_folder / "data_report.json", data.reports)
    accelerator.init_trackers(
        "tinyseq", config={k: v for k, v in asdict(options).items() if isinstance(v, int | float | str)}
    )
    hub = None
    if repository is not None and accelerator.is_main_process:
        hub = BackgroundPush(repository, private)
    batch_log = None
    if options.log_batches:
        batch_log = BatchLog(run_folder / f"batches-{accelerator.process_index}.jsonl", progress.batches)

    # --- the loop -----------------------------------------------------------------------------------------
    best_folder = run_folder / "best"
    interruption.at_once = None  # from here on a signal waits for the end of the update
    workers = options.loader_workers
    # Many batches ahead, so that a worker can read and encode the next block of a stream meanwhile
    loader = DataLoader(batches, batch_size=None, num_workers=workers, prefetch_factor=64 if workers else None)
    stream = iter(loader)
    earlier_seconds, start = progress.seconds, time.perf_counter()
    is_watched = accelerator.is_main_process and sys.stderr.isatty()
    bar = tqdm(total=progress.steps, initial=progress.step, unit="update", disable=not is_watched)
    stop = 0  # the signal that one of the processes got
    while not (progress.finished or stop):
        # An evaluation is due. It comes before the next update, as it may be what the run was interrupted in.
        if progress.evaluation_is_due:
            translator = Translator(state.whole_model(), tokenizer)
            figures = evaluate(accelerator, translator, valid, data.valid, options, interruption)
            if figures is None:
                stop = signal_in(sum_over_processes(accelerator, interruption.flags()))
                state.save(checkpoints)
                continue
            log.write({"step": progress.step, **figures})
            if options.streaming and accelerator.is_main_process and progress.data:
                data.reports["train"] = {"read so far": progress.data["report"]}
                log.facts["left_out"] = refused(data.reports)
                write_reports(run_folder / "data_report.json", data.reports)
            value = metric(figures, options)
            if progress.best is None or value > progress.best:
                progress.best, progress.without_gain = value, 0
                state.save_best(best_folder, translator, data.valid, options.card_examples)
                if hub is not None and options.hub_strategy == "every_save":
                    hub.push(best_folder, f"Update {progress.step}")
            else:
                progress.without_gain += 1
            progress.seconds = earlier_seconds + time.perf_counter() - start
            progress.evaluation_seconds = figures["evaluation_seconds"]
            progress.finished = progress.steps is not None and progress.step >= progress.steps
            if options.patience is not None and progress.without_gain >= options.patience:
                show(f"no better {options.best_metric} in {progress.without_gain} evaluations: enough")
                progress.finished = True
            plan_steps(accelerator, progress, options)
            plan_evaluation(progress, options)
            state.save(checkpoints, value)
            continue

        # One update. One loss per target token of the whole update, over micro-batches and processes. DDP averages
        # gradients over processes, so each process's share is multiplied by their number.
        update_start = time.perf_counter()
        model.train()
        try:
            group: list[Batch] = [next(stream) for _ in range(options.gradient_accumulation_steps)]
        except ValueError as error:  # a bad row of a stream; alone, a process can still save what was learned
            if processes == 1:
                state.save(checkpoints)
            text = str(error)  # from a loader's worker it comes with that one's traceback
            raise ValueError(text.rpartition("Error: ")[2].strip() if "DataLoader worker" in text else text) from error
        tokens = sum(int(batch.tensors["labels"].ne(-100).sum()) for batch in group)
        tokens = max(int(sum_over_processes(accelerator, [tokens])[0]), 1)
        rate = learning_rate(progress.step, progress.steps, options)
        for parameter_group in optimizer.param_groups:
            parameter_group["lr"] = rate
        loss = torch.zeros((), device=accelerator.device)
        for number, batch in enumerate(group):
            seed_dropout(options.seed, progress.batches + number * processes + accelerator.process_index)
            accelerator.sync_gradients = number == len(group) - 1
            with contextlib.nullcontext() if accelerator.sync_gradients else accelerator.no_sync(model):
                loss_share = model(
                    **{name: tensor.to(accelerator.device) for name, tensor in batch.tensors.items()},
                    label_smoothing=options.label_smoothing,
                    num_items_in_batch=tokens / processes,
                    return_logits=False,
                ).loss
                accelerator.backward(loss_share)
            loss += loss_share.detach()
        gradient_norm = float(accelerator.clip_grad_norm_(model.parameters(), options.max_grad_norm or math.inf))
        progress.seconds = earlier_seconds + time.perf_counter() - start
        is_over = accelerator.is_main_process and progress.seconds >= 60 * (options.time_budget or math.inf)
        loss_sum, is_over, *flags = sum_over_processes(
            accelerator, [loss.item() * tokens / processes, is_over, *interruption.flags()]
        )
        stop = signal_in(flags)
        progress.batches += update_batches
        progress.data = batches.state_after(group[-1], progress.batches)
        is_good = math.isfinite(loss_sum) and math.isfinite(gradient_norm)
        if is_good or accelerator.scaler is not None:  # which skips such an update by itself, and lowers its scale
            optimizer.step()
            is_good = is_good and not accelerator.optimizer_step_was_skipped
        optimizer.zero_grad()
        rows = [batch.rows for batch in group]
        if batch_log is not None:
            batch_log.write(batches=progress.batches, step=progress.step + is_good, loss_sum=loss_sum, rows=rows)
        if is_good:
            progress.step += 1
            progress.skipped_in_a_row = 0
            progress.loss_sum += loss_sum
            progress.loss_tokens += tokens
            if moving_average is not None:
                moving_average.update_parameters(accelerator.unwrap_model(model))
        else:
            progress.skipped += 1
            # A float16 scale that is still high has to be lowered in this way; it says nothing about the data
            if accelerator.scaler is None or accelerator.scaler.get_scale() < 1:
                progress.skipped_in_a_row += 1
            if progress.skipped_in_a_row >= options.max_bad_updates:
                raise ValueError(bad_numbers(accelerator, rows, data.train, progress, checkpoints))
        progress.window_seconds += time.perf_counter() - update_start

        is_planned = (
            progress.step == FIRST_PLAN or progress.step % max((progress.steps or 0) // PLANS, FIRST_PLAN) == 0
        )
        if options.time_budget and is_planned and is_good and not progress.evaluation_is_due:
            plan_steps(accelerator, progress, options)
            plan_evaluation(progress, options)
        if is_over:
            progress.steps = progress.next_evaluation = progress.step
        if is_good and (progress.step % options.log_steps == 0 or progress.evaluation_is_due):
            line = progress.take_figures() | {"learning_rate": rate, "gradient_norm": gradient_norm}
            log.write(line | ({"epoch": round(progress.step / epoch_steps, 3)} if epoch_steps else {}))
            bar.total = progress.steps
            bar.set_postfix_str(
                f"loss {line['loss_per_target_token']:.3f}/token, lr {rate:.1e}, "
                f"{line['target_tokens_per_second']:.0f} target tokens/s"
            )
        bar.update(is_good)
        is_save = is_good and options.save_steps and progress.step % options.save_steps == 0
        if stop or (is_save and not progress.evaluation_is_due):
            state.save(checkpoints)
    bar.close()
    if options.streaming and progress.data:
        show(f"training data read in {progress.step:,} updates:\n{Report.from_dict(progress.data['report'])}")

    # --- the end: the last weights, the mean of the last ones, the test set -------------------------------
    if not stop:
        state.save_model(run_folder / "last", state.whole_model())
        show(f"trained {progress.step:,} updates in {progress.training_seconds:.0f} s; best model: {best_folder}")
    if options.average_checkpoints and not stop:
        weights = main_process_result(accelerator, lambda: average(checkpoints.newest(options.average_checkpoints)))
        translator = Translator(state.model_with(weights), tokenizer)
        figures = evaluate(accelerator, translator, valid, data.valid, options, interruption)
        if figures is not None and (progress.best is None or metric(figures, options) > progress.best):
            log.write({"step": progress.step, **figures, "averaged_checkpoints": options.average_checkpoints})
            state.save_best(best_folder, translator, data.valid, options.card_examples)
    if data.test is not None and not stop:
        weights = main_process_result(accelerator, lambda: load_weights(best_folder))
        translator = Translator(state.model_with(weights), tokenizer)
        begin = time.perf_counter()
        hypotheses, unfinished = translate_shared(
            accelerator, translator, data.test["source"], stopping_criteria=[interruption]
        )
        seconds = time.perf_counter() - begin
        stop = signal_in(sum_over_processes(accelerator, interruption.flags()))
        if not stop:
            scores = score(
                hypotheses, data.test["target"], tokenize=options.bleu_tokenize or bleu_tokenizer_for(options.target)
            )
            show(f"test set, beam {options.num_beams}\n{scores}")
            figures = {
                **scores.to_dict(),
                "num_beams": options.num_beams,
                "unfinished": unfinished,
                "sentences_per_second": round(len(hypotheses) / seconds, 2),
            }
            if accelerator.is_main_process:
                write_test(run_folder, hypotheses, figures)
                add_facts(best_folder, {"test": figures}, repository or str(best_folder))
    stop = stop or signal_in(sum_over_processes(accelerator, interruption.flags()))
    leave_group(accelerator)
    if stop:
        raise Stopped(
            stop,
            f"stopped by {signal.Signals(stop).name} at update {progress.step:,} of {progress.steps or '?'}; "
            f"{checkpoints.path(progress.step)} is whole; the same command with --resume goes on from there",
        )

    if hub is not None:
        push_by_hand = f"tinyseq push {best_folder} {hub.name}" + " --private" * options.hub_private_repo
        interruption.at_once = f"during the push; the model is whole, push it with: {push_by_hand}"
        try:
            show(f"pushed: {hub.finish(best_folder, f'Trained for {progress.step} updates')}")
        except (ValueError, OSError) as error:
            raise HubPushError(
                f"{error}. The model is whole, in {best_folder}; push it with: {push_by_hand}"
            ) from error


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


def plan_steps(accelerator: Accelerator, progress: Progress, options: RunOptions) -> None:
    """Turns what is left of a time budget into updates, at the speed so far, by the clock of the first process."""
    if not options.time_budget or progress.finished:
        return
    left = 60 * options.time_budget - progress.seconds - progress.evaluation_seconds  # one evaluation at the end
    steps = progress.step + max(int(left * progress.step / progress.seconds), 1)
    steps = min(steps, options.max_steps or steps)
    progress.steps = main_process_result(accelerator, lambda: steps)


def plan_evaluation(progress: Progress, options: RunOptions) -> None:
    """Sets when the model is evaluated next, at the end at the latest."""
    if progress.steps is not None:
        every = options.eval_steps or max(math.ceil(progress.steps / EVALUATIONS), 1)
        progress.next_evaluation = min(progress.step - progress.step % every + every, progress.steps)
    elif options.eval_steps:
        progress.next_evaluation = progress.step + options.eval_steps


def metric(figures: dict[str, Any], options: RunOptions) -> float:
    """Returns the figure that chooses the best model, turned so that more is better; NaN is worst."""
    value = -figures["valid_loss"] if options.best_metric == "loss" else figures[f"valid_{options.best_metric}"]
    return -math.inf if math.isnan(value) else value


if __name__ == "__main__":
    main()
