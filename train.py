# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Trains a translation model on your own parallel text.

  python train.py demo --output_dir runs/demo                        a recipe that comes with tinyseq
  python train.py --train a.en a.de --output_dir runs/mine           two files, line by line
  python train.py my.yaml --learning_rate 1e-3                       a recipe of your own, an option on top
  torchrun --nproc_per_node 2 train.py my.yaml                       two processes, on GPUs or on the CPU
  accelerate launch -m tinyseq.train my.yaml                         the same file from the installed package

The run's folder then holds best/ and last/, each a model that from_pretrained takes, and log.jsonl, curve.png,
options.yaml and, if a test set was given, test.json.
"""

import contextlib
import json
import math
import sys
import time
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, set_seed
from datasets import Dataset
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers import AutoTokenizer
from transformers.utils import logging as transformers_logging

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, TinySeqTokenizer
from tinyseq.batching import Collator, EncodedPairs, TokenBudgetBatches, encode_pairs
from tinyseq.card import examples_of, facts_of_run
from tinyseq.checkpoint import save_whole
from tinyseq.corpus import is_on_hub, load_corpus, split_off
from tinyseq.distributed import main_process_result, share, translate_shared
from tinyseq.evaluation import Scores, bleu_tokenizer_for, score
from tinyseq.hub import BackgroundPush, HubPushError, add_facts, check_token, create_repository, write_facts
from tinyseq.options import model_options, parse_options
from tinyseq.runlog import RunLog, write_options
from tinyseq.runtime import keep_freed_memory, machine, versions
from tinyseq.translation import Translator, clean


def option(help_text: str, default=None):
    """A field of `RunOptions` with its explanation."""
    return field(default=default, metadata={"help": help_text})


@dataclass
class RunOptions:
    """One training run. The model's own options are those of TinySeqConfig."""

    output_dir: str | None = option("the run's folder; must be new or empty, unless --overwrite")
    overwrite: bool = option("train into a folder that holds another run; its models are replaced", False)

    # data
    train: list[str] | None = option(
        "training pairs: two aligned text files, or one TSV, CSV, JSON lines or Parquet file, or a data set (a "
        "folder, or a name on the Hub), or 'grammar', the built-in English-Spanish corpus. Plain or .gz"
    )
    valid: list[str] | None = option("validation pairs, likewise; by default a part of the training pairs")
    test: list[str] | None = option("test pairs, likewise: translated and scored at the end")
    valid_pairs: int = option("pairs taken out of the training data for validation where --valid is not given", 1000)
    source: str | None = option("language code or column of the source side, where the data has names for them")
    target: str | None = option("language code or column of the target side")
    dataset_config_name: str | None = option("configuration of a data set on the Hub that has several")
    dataset_revision: str | None = option("branch, tag or commit of a data set on the Hub")
    streaming: bool = option("read a data set on the Hub as it is needed, without a copy on the disk", False)
    on_bad_row: Literal["stop", "skip"] = option(
        "what to do about a row that cannot be read: stop, or skip and count", "stop"
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
    learning_rate: float = option("highest learning rate", 1.5e-3)
    warmup_steps: int = option("updates during which the rate rises from 0; at most a tenth of all", 300)
    schedule: Literal["linear", "cosine", "inverse_sqrt"] = option(
        "the rate after warm-up: down to 0 at the last update in a line or a cosine, or as 1/sqrt(update)", "linear"
    )
    adam_beta2: float = option("decay of AdamW's mean of squares", 0.98)
    weight_decay: float = option("AdamW's weight decay", 0.01)
    label_smoothing: float = option("share of the target distribution that is spread over all pieces", 0.1)
    max_grad_norm: float = option("gradients are scaled down to this norm; 0: never", 1.0)
    mixed_precision: Literal["no", "bf16", "fp16"] = option("number format of the matrix products", "no")
    loader_workers: int = option("processes that prepare batches beside each training process", 0)

    # evaluation and output
    eval_steps: int | None = option("updates between evaluations; by default five in the run")
    eval_pairs: int = option("validation pairs that are translated at each evaluation, the first ones", 500)
    num_beams: int = option("beams for the test set; saved as the model's default", 5)
    length_penalty: float = option("beam search divides a score by length to this power; saved likewise", 1.0)
    bleu_tokenize: str | None = option("how BLEU finds words, such as 13a or zh; by default as --target asks for")
    best_metric: Literal["bleu", "chrf", "loss"] = option("which validation figure chooses best/", "bleu")
    log_steps: int = option("updates between lines of log.jsonl", 50)
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
        train(options, architecture)
    except (ValueError, OSError) as error:
        sys.exit(f"train.py: error: {error}")


def train(options: RunOptions, architecture) -> None:
    """Trains one model; see the module's docstring for what it leaves behind."""
    keep_freed_memory()
    transformers_logging.disable_progress_bar()
    run_folder = check_options(options)
    TinySeqConfig(**asdict(architecture))  # refuses now what would be refused after the data were read
    # torch 2.13 has a new name for an option below, and Accelerate does not know it yet
    warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
    accelerator = Accelerator(
        cpu=not torch.accelerator.is_available(),  # without it, several processes on a CPU do not find each other
        mixed_precision=options.mixed_precision,
        log_with=options.report_to,
        project_dir=run_folder / "trackers",
        kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=False)],  # position tables never change
    )
    show = accelerator.print
    set_seed(options.seed)

    if options.push_to_hub:
        main_process_result(accelerator, check_token)  # now, not when the data have been read

    # --- data --------------------------------------------------------------------------------------------
    train_pairs, valid_pairs, test_pairs = load_data(options, show)
    repository = None
    if options.push_to_hub:
        name = options.hub_model_id or run_folder.resolve().name
        private = options.hub_private_repo or None
        repository = main_process_result(accelerator, lambda: create_repository(name, private=private))
    with accelerator.main_process_first():
        tokenizer = make_tokenizer(options, architecture, train_pairs, run_folder, accelerator.is_main_process)
    config = TinySeqConfig(
        **asdict(architecture),
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    encoded = encode(train_pairs, "training", tokenizer, config, show)
    valid = encode(valid_pairs, "validation", tokenizer, config, show)
    processes = accelerator.num_processes
    batches = TokenBudgetBatches(
        encoded, options.batch_size_tokens, options.seed, accelerator.process_index, processes
    )
    collate = Collator(tokenizer.pad_token_id)
    loader = DataLoader(encoded, batch_sampler=batches, collate_fn=collate, num_workers=options.loader_workers)

    # --- model and optimiser ------------------------------------------------------------------------------
    model = TinySeqForConditionalGeneration(config)
    model.generation_config.update(
        num_beams=options.num_beams,
        length_penalty=options.length_penalty,
        suppress_tokens=[config.pad_token_id],  # its logit is a constant, not a score
    )
    optimizer = make_optimizer(model, options)
    parameters = model.num_parameters()
    model, optimizer = accelerator.prepare(model, optimizer)
    epoch_steps = len(batches.epoch(0)) / (processes * options.gradient_accumulation_steps)
    steps = options.max_steps or max(round(options.epochs * epoch_steps), 1)
    eval_steps = options.eval_steps or math.ceil(steps / 5)
    show(
        f"{parameters / 1e6:.1f} M parameters, {len(tokenizer)} pieces, {len(encoded)} pairs "
        f"({encoded.target_tokens / len(encoded):.1f} target pieces each); "
        f"{steps} updates, {steps / epoch_steps:.1f} epochs, "
        f"on {processes} process{'es' * (processes > 1)} ({accelerator.device})"
    )
    resolved = {**asdict(options), **asdict(architecture), "max_steps": steps}
    if accelerator.is_main_process:
        write_options(run_folder / "options.yaml", resolved)
    accelerator.init_trackers(
        "tinyseq", config={k: v for k, v in asdict(options).items() if isinstance(v, int | float | str)}
    )

    # --- the loop -----------------------------------------------------------------------------------------
    sets = {"train": (options.train, len(encoded)), "validation": (options.valid, len(valid))}
    if test_pairs is not None:
        sets["test"] = (options.test, len(test_pairs))
    facts = facts_of_run(resolved, sets, longest_source=max(map(len, encoded.sources)))
    facts |= {"parameters": parameters, "machine": machine(processes), "versions": versions()}
    log = RunLog(run_folder / "log.jsonl", accelerator, facts)
    hub = None
    if repository is not None and accelerator.is_main_process:
        hub = BackgroundPush(repository, private)
    micro_batches = iter(loader)
    best = -math.inf
    step = skipped = 0
    loss_sum, loss_tokens = torch.zeros((), device=accelerator.device), 0  # since the last line of the log
    window_start, training_seconds = time.perf_counter(), 0.0
    progress = tqdm(total=steps, unit="update", disable=not (accelerator.is_main_process and sys.stderr.isatty()))
    model.train()
    while step < steps:
        group = [next(micro_batches) for _ in range(options.gradient_accumulation_steps)]
        group = [{name: tensor.to(accelerator.device) for name, tensor in batch.items()} for batch in group]
        # One loss per target token of the whole update, over micro-batches and processes. DDP averages gradients over
        # processes, so each process's share is multiplied by their number.
        tokens = sum(batch["labels"].ne(-100).sum() for batch in group)
        tokens = accelerator.reduce(tokens, "sum").item()
        for group_part, batch in enumerate(group, start=1):
            last = group_part == len(group)
            with contextlib.nullcontext() if last else accelerator.no_sync(model):
                loss = model(
                    **batch,
                    label_smoothing=options.label_smoothing,
                    num_items_in_batch=tokens / processes,
                    return_logits=False,
                ).loss
                accelerator.backward(loss)
            loss_sum += loss.detach() * tokens / processes
        loss_tokens += tokens
        gradient_norm = accelerator.clip_grad_norm_(model.parameters(), options.max_grad_norm or math.inf)
        for parameters_group in optimizer.param_groups:
            parameters_group["lr"] = learning_rate(step, steps, options)
        optimizer.step()
        optimizer.zero_grad()
        if accelerator.optimizer_step_was_skipped:  # float16 overflowed; the scaler lowers its scale and we go on
            skipped += 1
            continue
        step += 1
        progress.update()

        if step % options.log_steps == 0 or step % eval_steps == 0 or step == steps:
            seconds = time.perf_counter() - window_start
            training_seconds += seconds
            line = {
                "step": step,
                "epoch": round(step / epoch_steps, 3),
                "loss_per_target_token": accelerator.reduce(loss_sum, "sum").item() / loss_tokens,
                "target_tokens_per_second": round(loss_tokens / seconds, 1),
                "learning_rate": learning_rate(step - 1, steps, options),
                "gradient_norm": float(gradient_norm),
                "training_seconds": round(training_seconds, 2),
                "skipped_updates": skipped,
            }
            if not math.isfinite(line["loss_per_target_token"]):
                raise ValueError(
                    f"the loss is {line['loss_per_target_token']} at update {step}; lower --learning_rate"
                )
            progress.set_postfix_str(
                f"loss {line['loss_per_target_token']:.3f}/token, "
                f"{line['target_tokens_per_second']:.0f} target tokens/s, "
                f"lr {line['learning_rate']:.1e}"
            )
            log.write(line)
            if step % eval_steps == 0 or step == steps:
                figures = evaluate(accelerator, model, tokenizer, valid, valid_pairs, collate, options)
                log.write({"step": step, **figures})
                value = (
                    -figures["valid_loss"]
                    if options.best_metric == "loss"
                    else figures[f"valid_{options.best_metric}"]
                )
                if accelerator.is_main_process:
                    translator = Translator(accelerator.unwrap_model(model), tokenizer)
                    log.facts["examples"] = examples_of(translator, valid_pairs, options.card_examples)
                    save(run_folder / "last", accelerator, model, tokenizer, log.newest, repository)
                    if value > best:
                        save(run_folder / "best", accelerator, model, tokenizer, log.newest, repository)
                        if hub is not None and options.hub_strategy == "every_save":
                            hub.push(run_folder / "best", f"Update {step} of {steps}")
                best = max(best, value)
                accelerator.wait_for_everyone()
            loss_sum.zero_()
            loss_tokens = 0
            window_start = time.perf_counter()
    progress.close()

    # --- the test set -------------------------------------------------------------------------------------
    best_folder = run_folder / "best"
    show(f"trained {steps} updates in {training_seconds:.0f} s; best model: {best_folder}")
    if test_pairs is not None:
        best_model = TinySeqForConditionalGeneration.from_pretrained(best_folder).to(accelerator.device)
        start = time.perf_counter()
        hypotheses, unfinished = translate_shared(accelerator, Translator(best_model, tokenizer), test_pairs["source"])
        seconds = time.perf_counter() - start
        scores = score(
            hypotheses, test_pairs["target"], tokenize=options.bleu_tokenize or bleu_tokenizer_for(options.target)
        )
        show(f"test set, beam {options.num_beams}\n{scores}")
        if accelerator.is_main_process:
            figures = {
                **scores.to_dict(),
                "num_beams": options.num_beams,
                "unfinished": unfinished,
                "sentences_per_second": round(len(hypotheses) / seconds, 2),
            }
            (run_folder / "test.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
            (run_folder / "test.hypotheses.txt").write_text(
                "\n".join(hypotheses) + "\n", encoding="utf-8", newline="\n"
            )
            add_facts(best_folder, {"test": figures}, repository or str(best_folder))
    accelerator.wait_for_everyone()
    accelerator.end_training()

    if hub is not None:
        try:
            show(f"pushed: {hub.finish(best_folder, f'Trained for {steps} updates')}")
        except (ValueError, OSError) as error:
            raise HubPushError(
                f"{error}. The model is whole, in {best_folder}; push it with: tinyseq push {best_folder} {hub.name}"
                + " --private" * options.hub_private_repo
            ) from error


def check_options(options: RunOptions) -> Path:
    """Refuses what can't work before anything is done; returns the run's folder."""
    if not options.train:
        raise ValueError("--train is missing: name the training pairs (--train corpus.en corpus.de) or a recipe")
    if not options.output_dir:
        raise ValueError("--output_dir is missing: name the run's folder")
    for name in (
        "batch_size_tokens", "gradient_accumulation_steps", "epochs", "learning_rate", "log_steps", "num_beams",
        "eval_pairs", "valid_pairs",
    ):  # fmt: skip
        if not getattr(options, name) > 0:
            raise ValueError(f"--{name} {getattr(options, name)} must be greater than 0")
    for name in ("max_steps", "eval_steps"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise ValueError(f"--{name} {getattr(options, name)} must be 1 or more")
    if not 0 <= options.label_smoothing < 1:
        raise ValueError(f"--label_smoothing {options.label_smoothing} must be at least 0 and below 1")
    if options.card_examples < 0:
        raise ValueError(f"--card_examples {options.card_examples} must be 0 or more")
    for name in ("hub_model_id", "hub_private_repo", "hub_strategy"):
        if getattr(options, name) not in (None, False, "end") and not options.push_to_hub:
            raise ValueError(f"--{name} says where to push, and nothing is pushed without --push_to_hub")
    for name in ("dataset_config_name", "dataset_revision", "streaming"):
        if getattr(options, name) and not any(map(is_on_hub, (options.train, options.valid, options.test))):
            raise ValueError(f"--{name} is for a data set on the Hub; --train, --valid and --test name none")
    folder = Path(options.output_dir)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output_dir {folder} is a file")
    if folder.exists() and any(folder.iterdir()) and not options.overwrite:
        raise ValueError(f"--output_dir {folder} is not empty; choose another, or pass --overwrite to replace it")
    return folder


def load_data(options: RunOptions, show) -> tuple[Dataset, Dataset, Dataset | None]:
    """Returns training, validation and test pairs, and shows what was refused."""

    def load(files: list[str], split: str) -> Dataset:
        on_hub = is_on_hub(files)
        corpus = load_corpus(
            files,
            source=options.source,
            target=options.target,
            split=split,
            on_bad_row=options.on_bad_row,
            name=options.dataset_config_name if on_hub else None,
            revision=options.dataset_revision if on_hub else None,
            streaming=options.streaming and on_hub,
        )
        if str(corpus.report):
            show(f"{split} data ({' '.join(files)}):\n{corpus.report}")
        return corpus.pairs

    train_pairs = load(options.train or [], "train")
    test_pairs = load(options.test, "test") if options.test else None
    if options.valid:
        return train_pairs, load(options.valid, "validation"), test_pairs
    train_pairs, valid_pairs = split_off(train_pairs, options.valid_pairs, seed=options.seed)
    return train_pairs, valid_pairs, test_pairs


def make_tokenizer(options: RunOptions, architecture, pairs: Dataset, run_folder: Path, is_main_process: bool):
    """Returns the tokenizer that was named, or one learned from the training pairs: by the first process, for all."""
    if options.tokenizer:
        return AutoTokenizer.from_pretrained(options.tokenizer)
    folder = run_folder / "tokenizer"
    if is_main_process:
        texts = (clean(text) for rows in pairs.iter(batch_size=10_000) for side in rows.values() for text in side)
        tokenizer = TinySeqTokenizer.train(
            texts,
            options.vocab_size,
            options.tokenizer_algorithm,
            model_max_length=architecture.max_position_embeddings,
        )
        save_whole(folder, tokenizer.save_pretrained)
    return AutoTokenizer.from_pretrained(folder)


def encode(pairs: Dataset, what: str, tokenizer, config: TinySeqConfig, show) -> EncodedPairs:
    """Returns the ids of the pairs, and shows how many were too long."""
    encoded = encode_pairs(pairs, tokenizer, config.max_position_embeddings)
    if encoded.too_long:
        show(f"{encoded.too_long} {what} pairs left out: a side has over {config.max_position_embeddings} pieces")
    if not len(encoded):
        raise ValueError(f"no {what} pairs left; raise --max_position_embeddings ({config.max_position_embeddings})")
    return encoded


def make_optimizer(model: torch.nn.Module, options: RunOptions) -> torch.optim.AdamW:
    """Returns AdamW with weight decay on matrices only: biases and LayerNorms are not what should shrink."""
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, options.adam_beta2), eps=1e-9, fused=True)


def learning_rate(step: int, steps: int, options: RunOptions) -> float:
    """Returns the rate of update `step` (from 0) of `steps`: it depends on nothing else."""
    warmup = min(options.warmup_steps, steps // 10)
    if step < warmup:
        return options.learning_rate * (step + 1) / warmup
    if options.schedule == "inverse_sqrt":
        return options.learning_rate * math.sqrt(max(warmup, 1) / (step + 1))
    left = (steps - step) / (steps - warmup)  # 1 after warm-up, just above 0 at the last update
    return options.learning_rate * (left if options.schedule == "linear" else (1 - math.cos(math.pi * left)) / 2)


def evaluate(accelerator, model, tokenizer, valid: EncodedPairs, pairs: Dataset, collate, options) -> dict[str, float]:
    """Returns loss per target token over all pairs, and BLEU and chrF of the first ones, decoded greedily."""
    start = time.perf_counter()
    model = accelerator.unwrap_model(model)  # shares are unequal, and a DDP forward waits for the other processes
    model.eval()
    sums = torch.zeros(2, dtype=torch.float64, device=accelerator.device)  # loss, target tokens
    for rows in share(accelerator, TokenBudgetBatches(valid, max(options.batch_size_tokens, 4096), seed=0).epoch(0)):
        batch = {name: tensor.to(accelerator.device) for name, tensor in collate([valid[row] for row in rows]).items()}
        with torch.no_grad():
            loss = model(**batch, num_items_in_batch=1, return_logits=False).loss
        sums += torch.stack([loss, batch["labels"].ne(-100).sum()]).double()
    loss_sum, tokens = accelerator.reduce(sums, "sum").tolist()
    pairs = pairs.select(range(min(options.eval_pairs, len(pairs))))
    hypotheses, _ = translate_shared(accelerator, Translator(model, tokenizer), pairs["source"], num_beams=1)
    scores: Scores = score(
        hypotheses, list(pairs["target"]), tokenize=options.bleu_tokenize or bleu_tokenizer_for(options.target)
    )
    model.train()
    accelerator.print(
        f"valid: loss {loss_sum / tokens:.3f} per target token, BLEU {scores.bleu:.2f}, chrF {scores.chrf:.2f}"
    )
    return {
        "valid_loss": loss_sum / tokens,
        "valid_bleu": scores.bleu,
        "valid_chrf": scores.chrf,
        "valid_scored": scores.sentences,
        "bleu_signature": scores.bleu_signature,
        "chrf_signature": scores.chrf_signature,
        "evaluation_seconds": round(time.perf_counter() - start, 2),
    }


def save(folder: Path, accelerator: Accelerator, model, tokenizer, facts: dict, repository: str | None) -> None:
    """Writes a model that `from_pretrained` takes as it is, with its card; whole, or what was there stays."""

    def write(aside: Path) -> None:
        accelerator.unwrap_model(model).save_pretrained(aside)
        tokenizer.save_pretrained(aside)
        write_facts(aside, facts, repository or str(folder))

    save_whole(folder, write)


if __name__ == "__main__":
    main()
