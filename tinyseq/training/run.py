# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""A training run: what it is made of, and the sentences that `train.py` is made of.

`Run.prepare` goes from options to data, tokenizer, model and optimiser, and to where an earlier start has left the
run; `update` is the one place where weights change; `evaluate_if_due`, `note` and `save_if_due` come between updates;
`finish` saves the last model, scores the test set and pushes.
"""

import contextlib
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from datasets import Dataset
from torch.utils.data import DataLoader
from tqdm.auto import tqdm

from ..batching.encoding import EncodedPairs, fingerprint_of
from ..batching.stream import Batch, BatchStream
from ..configuration_tinyseq import TinySeqConfig
from ..corpus.checks import Report
from ..evaluation import score
from ..hub.card import facts_of_run
from ..hub.push import BackgroundPush, HubPushError, add_facts, check_token, create_repository
from ..modeling_tinyseq import TinySeqForConditionalGeneration
from ..translation import Translator
from .checkpoint import Checkpoints, average
from .data import TrainingData, corpus_to_batch, encode, load_data, make_tokenizer, refused, write_reports
from .distributed import (
    check_same_everywhere,
    join_processes,
    leave_group,
    main_process_result,
    sum_over_processes,
    translate_shared,
    wrap,
)
from .interruption import Interruption, Stopped, signal_in
from .log import BatchLog, RunLog, write_options, write_test
from .optimization import MovingAverage, make_optimizer, seed_dropout
from .options import RunOptions, check_options, without
from .runtime import machine, versions
from .schedule import learning_rate, plan, plan_is_due
from .state import Progress, TrainingState, bad_numbers, check_first_machine, find_earlier
from .state_files import load_weights
from .validation import evaluate, merit


class Update(NamedTuple):
    """One update, as it went."""

    is_good: bool  # whether the weights have changed: there was no NaN and nothing infinite
    learning_rate: float  # of this update
    gradient_norm: float  # before it was clipped


@dataclass
class Run:
    """What a training run is made of while it goes on."""

    options: RunOptions  # as given
    interruption: Interruption  # signals that have come to this process
    accelerator: Accelerator  # the processes, devices and number formats
    folder: Path  # the run's
    show: Callable[..., None]  # prints a line, on the first process alone
    data: TrainingData  # pairs of text
    valid: EncodedPairs  # the encoded validation pairs
    batches: BatchStream  # the stream of training batches; this process's part of it
    state: TrainingState  # model, optimiser, numbers and log: what a checkpoint holds
    checkpoints: Checkpoints  # those of the run
    hub: BackgroundPush | None = None  # pushes the model, on the first process, if it is to be pushed
    batch_log: BatchLog | None = None  # notes the pairs of each update, if it is wanted
    stop: int = 0  # the signal that one of the processes got, or 0
    stream: Iterator[Batch] = field(init=False)  # its batches, from where the run is
    bar: tqdm = field(init=False)  # the progress bar
    # when the run would have begun, had it never stopped; on the clock of `time.perf_counter`
    begun_at: float = field(init=False)

    # --- before the first update ------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, options: RunOptions, architecture: dict[str, Any], interruption: Interruption) -> "Run":
        """Returns the run that the options describe, at its beginning or where an earlier start has left it.

        Args:
            architecture: Options of `TinySeqConfig`.
            interruption: Handles signals: at once until all is prepared, then at the end of an update.
        """
        folder = check_options(options)
        TinySeqConfig(**architecture)  # refuses now what would be refused after the data were read
        accelerator = join_processes(options, folder / "trackers")
        given = without("of_machine", {"library versions": versions(), **asdict(options), **architecture})
        check_same_everywhere(accelerator, given)
        set_seed(options.seed)
        if options.push_to_hub:
            main_process_result(accelerator, check_token)  # now, not when the data have been read

        show = print if accelerator.is_main_process else lambda *words: None
        data = load_data(options, show)
        repository = None
        if options.push_to_hub:
            name, private = options.hub_model_id or folder.resolve().name, options.hub_private_repo or None
            repository = main_process_result(accelerator, lambda: create_repository(name, private=private))
        max_length = architecture["max_position_embeddings"]
        tokenizer = make_tokenizer(accelerator, options, max_length, data.train, folder / "tokenizer")
        config = TinySeqConfig(
            **architecture,
            vocab_size=len(tokenizer),
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.pad_token_id,
        )
        corpus, known = corpus_to_batch(accelerator, options, data.train, tokenizer, config, show)
        valid = encode(accelerator, data.valid, "validation", tokenizer, config, show)
        share = (accelerator.process_index, accelerator.num_processes)
        batches = BatchStream(corpus, options.batch_size_tokens, options.seed, tokenizer.pad_token_id, *share)

        model = TinySeqForConditionalGeneration(config)
        model.generation_config.update(
            num_beams=options.num_beams,
            length_penalty=options.length_penalty,
            suppress_tokens=[config.pad_token_id],  # its logit is a constant, not a score
        )
        optimizer = make_optimizer(model, options.learning_rate, options.adam_beta2, options.weight_decay)
        average = MovingAverage(model, options.ema_decay).to(accelerator.device) if options.ema_decay else None
        parameters = model.num_parameters()
        model, optimizer = wrap(accelerator, model, optimizer)
        progress, log = Progress(steps=options.max_steps), RunLog(folder / "log.jsonl", accelerator)
        state = TrainingState(accelerator, model, optimizer, average, tokenizer, progress, log, repository=repository)
        checkpoints = Checkpoints(folder / "checkpoints", options.keep_checkpoints, options.keep_best_checkpoints)
        run = cls(options, interruption, accelerator, folder, show, data, valid, batches, state, checkpoints)
        run.begin(architecture, known, parameters)
        return run

    def begin(self, architecture: dict[str, Any], known: dict[str, Any], parameters: int) -> None:
        """Begins, or goes on where an earlier start has left the run, and tells of it.

        Args:
            architecture: Options of `TinySeqConfig`.
            known: What `corpus_to_batch` knows of the training pairs.
            parameters: How many the model has.
        """
        options, accelerator, folder, data = self.options, self.accelerator, self.folder, self.data
        progress, log, processes = self.progress, self.state.log, accelerator.num_processes
        if self.epoch_steps and not options.max_steps and not options.time_budget_minutes:
            progress.steps = max(round(options.epochs * self.epoch_steps), 1)
        plan(accelerator, progress, options)
        resolved = {**asdict(options), **architecture, "max_steps": progress.steps, "resume": False}
        learnt_from = {"training data": known["fingerprint"], "validation data": self.valid.fingerprint}
        self.state.identity = {"options": resolved, "batches per update": self.batches_per_update, **learnt_from}
        sets = {"train": (options.train, known["size"]), "validation": (options.valid, len(self.valid))}
        of_test = None
        if data.test is not None:
            of_test = fingerprint_of(data.test, self.state.tokenizer, architecture["max_position_embeddings"])
            sets["test"] = (options.test, len(data.test))
        check_same_everywhere(accelerator, {**learnt_from, "test data": of_test})
        log.facts = facts_of_run(resolved, without("is_private", resolved), sets, known["longest_source"])
        log.facts |= {"parameters": parameters, "machine": machine(processes), "versions": versions()}
        log.facts |= {"left_out": refused(data.reports)}

        if options.resume:
            check_first_machine(accelerator, self.checkpoints)
        found = main_process_result(accelerator, lambda: find_earlier(self.checkpoints, parameters, options))
        if found is not None:
            self.state.load(found)
            self.show(f"goes on from {found}: update {progress.step:,}")
        log.begin()
        if progress.data:
            self.batches.state = progress.data
        self.note_rows_read()

        length = f"{progress.steps:,} updates" if progress.steps else f"{options.time_budget_minutes:g} minutes"
        length += f", {progress.steps / self.epoch_steps:.1f} epochs" if progress.steps and self.epoch_steps else ""
        self.show(
            f"{parameters / 1e6:.1f} M parameters, {len(self.state.tokenizer)} pieces, {known['words']}; {length}, "
            f"on {processes} process{'es' * (processes > 1)} ({accelerator.device})"
        )
        if accelerator.is_main_process:
            write_options(folder / "options.yaml", resolved)
            write_reports(folder / "data_report.json", data.reports)
            if self.state.repository is not None:
                self.hub = BackgroundPush(self.state.repository, options.hub_private_repo or None)
        accelerator.init_trackers(
            "tinyseq", config={k: v for k, v in asdict(options).items() if isinstance(v, int | float | str)}
        )
        if options.log_batches:
            self.batch_log = BatchLog(folder / f"batches-{accelerator.process_index}.jsonl", progress.batches)
        self.interruption.at_once = None  # from here on a signal waits for the end of the update
        workers = options.loader_workers
        # Many batches ahead, so that a worker can read and encode the next block of a stream meanwhile
        prefetch = 64 if workers else None
        self.stream = iter(DataLoader(self.batches, batch_size=None, num_workers=workers, prefetch_factor=prefetch))
        self.begun_at = time.perf_counter() - progress.seconds  # of all starts together
        is_watched = accelerator.is_main_process and sys.stderr.isatty()
        self.bar = tqdm(total=progress.steps, initial=progress.step, unit="update", disable=not is_watched)

    # --- while it goes on -------------------------------------------------------------------------------------

    @property
    def progress(self) -> Progress:
        """The numbers of the run."""
        return self.state.progress

    @property
    def goes_on(self) -> bool:
        """Whether another update is to follow: the run has not come to its end, and no signal has come."""
        return not (self.progress.finished or self.stop)

    @property
    def batches_per_update(self) -> int:
        """Batches of all processes in one update."""
        return self.accelerator.num_processes * self.options.gradient_accumulation_steps

    @property
    def epoch_steps(self) -> float | None:
        """Updates in one pass over the training pairs; `None` for a stream."""
        in_epoch = self.batches.batches_per_epoch
        return in_epoch / self.batches_per_update if in_epoch else None

    def update(self) -> Update:
        """Takes one update: one loss per target token of the whole of it, over micro-batches and processes."""
        options, accelerator, progress, model = self.options, self.accelerator, self.progress, self.state.model
        start, processes = time.perf_counter(), accelerator.num_processes
        model.train()
        group = self.next_batches()
        tokens = sum(int(batch.tensors["labels"].ne(-100).sum()) for batch in group)
        tokens = max(int(sum_over_processes(accelerator, [tokens])[0]), 1)
        rate = learning_rate(progress.step, progress.steps, options)
        for parameter_group in self.state.optimizer.param_groups:
            parameter_group["lr"] = rate
        loss = torch.zeros((), device=accelerator.device)
        for number, batch in enumerate(group):
            seed_dropout(options.seed, progress.batches + number * processes + accelerator.process_index)
            accelerator.sync_gradients = number == len(group) - 1
            with contextlib.nullcontext() if accelerator.sync_gradients else accelerator.no_sync(model):
                # DDP averages gradients over processes, so each process's part is multiplied by their number
                part_of_loss = model(
                    **{name: tensor.to(accelerator.device) for name, tensor in batch.tensors.items()},
                    label_smoothing=options.label_smoothing,
                    num_items_in_batch=tokens / processes,
                    return_logits=False,
                ).loss
                accelerator.backward(part_of_loss)
            loss += part_of_loss.detach()
        gradient_norm = float(accelerator.clip_grad_norm_(model.parameters(), options.max_grad_norm or math.inf))

        progress.seconds = time.perf_counter() - self.begun_at
        is_over = accelerator.is_main_process and progress.seconds >= 60 * (options.time_budget_minutes or math.inf)
        loss_sum, is_over, *flags = sum_over_processes(
            accelerator, [loss.item() * tokens / processes, is_over, *self.interruption.flags()]
        )
        self.stop = signal_in(flags)
        progress.batches += self.batches_per_update
        progress.data = self.batches.state_after(group[-1], progress.batches)
        is_good = math.isfinite(loss_sum) and math.isfinite(gradient_norm)
        if is_good or accelerator.scaler is not None:  # which skips such an update by itself, and lowers its scale
            self.state.optimizer.step()
            is_good = is_good and not accelerator.optimizer_step_was_skipped
        self.state.optimizer.zero_grad()
        rows = [batch.rows for batch in group]
        if self.batch_log is not None:
            step = progress.step + is_good
            self.batch_log.write(batches=progress.batches, step=step, loss_sum=loss_sum, rows=rows)
        if is_good:
            progress.step += 1
            progress.skipped_in_a_row = 0
            progress.loss_sum += loss_sum
            progress.loss_tokens += tokens
            if self.state.average is not None:
                self.state.average.update_parameters(accelerator.unwrap_model(model))
        else:
            progress.skipped += 1
            # A float16 scale that is still high has to be lowered in this way; it says nothing about the data
            if accelerator.scaler is None or accelerator.scaler.get_scale() < 1:
                progress.skipped_in_a_row += 1
            if progress.skipped_in_a_row >= options.max_bad_updates:
                raise ValueError(bad_numbers(accelerator, rows, self.data.train, progress, self.checkpoints))
        progress.window_seconds += time.perf_counter() - start
        if is_good and plan_is_due(progress, options):
            plan(accelerator, progress, options)
        if is_over:
            progress.steps = progress.next_evaluation = progress.step
        return Update(is_good, rate, gradient_norm)

    def next_batches(self) -> list[Batch]:
        """Returns this process's batches of the next update.

        Raises:
            ValueError: A row of a stream is bad.
        """
        try:
            return [next(self.stream) for _ in range(self.options.gradient_accumulation_steps)]
        except ValueError as error:
            if self.accelerator.num_processes == 1:  # alone, a process can still save what was learned
                self.state.save(self.checkpoints)
            text = str(error)  # from a loader's worker it comes with that one's traceback
            raise ValueError(text.rpartition("Error: ")[2].strip() if "DataLoader worker" in text else text) from error

    def note(self, update: Update) -> None:
        """Writes a line of the log, if one is due, and moves the bar on."""
        progress = self.progress
        if update.is_good and (progress.step % self.options.log_steps == 0 or progress.evaluation_is_due):
            line = progress.take_figures()
            line |= {"learning_rate": update.learning_rate, "gradient_norm": update.gradient_norm}
            epoch = {"epoch": round(progress.step / self.epoch_steps, 3)} if self.epoch_steps else {}
            self.state.log.write(line | epoch)
            self.bar.total = progress.steps
            self.bar.set_postfix_str(
                f"loss {line['loss_per_target_token']:.3f}/token, lr {update.learning_rate:.1e}, "
                f"{line['target_tokens_per_second']:.0f} target tokens/s"
            )
        self.bar.update(update.is_good)

    def save_if_due(self, update: Update) -> None:
        """Writes a checkpoint: after a signal, and every so many updates, unless an evaluation follows, which does."""
        every, progress = self.options.save_steps, self.progress
        is_due = update.is_good and every and progress.step % every == 0 and not progress.evaluation_is_due
        if self.stop or is_due:
            self.state.save(self.checkpoints)

    def evaluate_if_due(self) -> bool:
        """Evaluates the model, if it is due, and keeps it as best/, if it is; returns whether it was due."""
        progress, options = self.progress, self.options
        if not progress.evaluation_is_due:
            return False
        translator = Translator(self.state.whole_model(), self.state.tokenizer)
        figures = evaluate(self.accelerator, translator, self.valid, self.data.valid, options, self.interruption)
        if figures is None:
            self.stop = self.signal_of_any()
            self.state.save(self.checkpoints)
            return True
        self.state.log.write({"step": progress.step, **figures})
        self.note_rows_read()
        value = merit(figures, options.best_metric)
        if progress.best is None or value > progress.best:
            progress.best, progress.without_gain = value, 0
            self.state.save_best(self.best_folder, translator, self.data.valid, options.card_examples)
            if self.hub is not None and options.hub_strategy == "every_save":
                self.hub.push(self.best_folder, f"Update {progress.step}")
        else:
            progress.without_gain += 1
        progress.seconds = time.perf_counter() - self.begun_at
        progress.evaluation_seconds = figures["evaluation_seconds"]
        progress.finished = progress.steps is not None and progress.step >= progress.steps
        if options.patience is not None and progress.without_gain >= options.patience:
            self.show(f"no better {options.best_metric} in {progress.without_gain} evaluations: enough")
            progress.finished = True
        plan(self.accelerator, progress, options)
        self.state.save(self.checkpoints, value)
        return True

    def note_rows_read(self) -> None:
        """Tells in the run's folder, and on its cards, what was refused of a stream, as far as it was read."""
        if not self.options.streaming or self.progress.data is None:
            return
        self.data.reports["train"] = {"read so far": self.progress.data["report"]}
        self.state.log.facts["left_out"] = refused(self.data.reports)
        if self.accelerator.is_main_process:
            write_reports(self.folder / "data_report.json", self.data.reports)

    # --- its end ----------------------------------------------------------------------------------------------

    @property
    def best_folder(self) -> Path:
        """Where the best model lies."""
        return self.folder / "best"

    def signal_of_any(self) -> int:
        """Returns the signal that any process got, or 0."""
        return signal_in(sum_over_processes(self.accelerator, self.interruption.flags()))

    def finish(self) -> None:
        """Saves the last weights, tries the mean of the last ones, scores the test set and pushes.

        Raises:
            Stopped: A signal has come; what is left out is made when the run goes on.
            HubPushError: The last push failed.
        """
        progress = self.progress
        self.bar.close()
        if self.options.streaming and progress.data:
            report = Report.from_dict(progress.data["report"])
            self.show(f"training data read in {progress.step:,} updates:\n{report}")
        if not self.stop:
            self.state.save_model(self.folder / "last", self.state.whole_model())
            seconds = f"{progress.training_seconds:.0f} s"
            self.show(f"trained {progress.step:,} updates in {seconds}; best model: {self.best_folder}")
        if self.options.average_checkpoints and not self.stop:
            self.try_average()
        if self.data.test is not None and not self.stop:
            self.score_test_set(self.data.test)
        self.stop = self.stop or self.signal_of_any()
        leave_group(self.accelerator)
        if self.stop:
            raise Stopped(
                self.stop,
                f"stopped by {signal.Signals(self.stop).name} at update {progress.step:,} of {progress.steps or '?'}; "
                f"{self.checkpoints.path(progress.step)} is whole; the same command with --resume goes on from there",
            )
        if self.hub is not None:
            self.push(self.hub)

    def model_of(self, weights: Callable[[], Any]) -> Translator:
        """Returns a translator with the weights that the first process reads."""
        found = main_process_result(self.accelerator, weights)
        return Translator(self.state.model_with(found), self.state.tokenizer)

    def try_average(self) -> None:
        """Makes the mean of the last checkpoints best/, if it is better."""
        number, progress = self.options.average_checkpoints, self.progress
        translator = self.model_of(lambda: average(self.checkpoints.newest(number)))
        figures = evaluate(self.accelerator, translator, self.valid, self.data.valid, self.options, self.interruption)
        if figures is None:
            return
        if progress.best is None or merit(figures, self.options.best_metric) > progress.best:
            self.state.log.write({"step": progress.step, **figures, "averaged_checkpoints": number})
            self.state.save_best(self.best_folder, translator, self.data.valid, self.options.card_examples)

    def score_test_set(self, pairs: Dataset) -> None:
        """Translates the test set with the best model, and writes translations and scores."""
        options = self.options
        translator = self.model_of(lambda: load_weights(self.best_folder))
        begin = time.perf_counter()
        hypotheses, unfinished = translate_shared(
            self.accelerator, translator, pairs["source"], stopping_criteria=[self.interruption]
        )
        seconds = time.perf_counter() - begin
        self.stop = self.signal_of_any()
        if self.stop:
            return
        scores = score(hypotheses, pairs["target"], tokenize=options.bleu_tokenizer)
        self.show(f"test set, beam {options.num_beams}\n{scores}")
        figures = {
            **scores.to_dict(),
            "num_beams": options.num_beams,
            "unfinished": unfinished,
            "sentences_per_second": round(len(hypotheses) / seconds, 2),
        }
        if self.accelerator.is_main_process:
            write_test(self.folder, hypotheses, figures)
            add_facts(self.best_folder, {"test": figures}, self.state.repository or str(self.best_folder))

    def push(self, hub: BackgroundPush) -> None:
        """Pushes the best model; a failure says how to do it by hand."""
        by_hand = f"tinyseq push {self.best_folder} {hub.name}" + " --private" * self.options.hub_private_repo
        self.interruption.at_once = f"during the push; the model is whole, push it with: {by_hand}"
        try:
            self.show(f"pushed: {hub.finish(self.best_folder, f'Trained for {self.progress.step} updates')}")
        except (ValueError, OSError) as error:
            raise HubPushError(
                f"{error}. The model is whole, in {self.best_folder}; push it with: {by_hand}"
            ) from error
