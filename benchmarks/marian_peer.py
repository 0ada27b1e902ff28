# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Trains the peer: Transformers' MarianMT, of the sizes of a tinyseq run, with Transformers' own Seq2SeqTrainer.

  python benchmarks/marian_peer.py --like runs/mine --output-dir runs/peer --max-steps 1000 --learning-rate 1e-3

The run that it is to be like gives the pairs, the tokenizer, widths and depths, dropout, label smoothing, warm-up and
seed. What Marian has no choice in stays Marian's (post-norm, sinusoidal positions, its initialisation), and what the
Trainer has a default for stays at that (AdamW with betas 0.9 and 0.999, clipping at 1). Two settings, which make the
peer faster and better, are not defaults: like lengths in a batch, and a rate that falls to 0 at the last update.

--output-dir then holds model/, which from_pretrained takes, and log.jsonl with the same keys as train.py's.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import (
    AutoConfig,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    MarianConfig,
    MarianMTModel,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
    set_seed,
)

from tinyseq import TinySeqConfig
from tinyseq.batching.encoding import EncodedPairs, encode_pairs
from tinyseq.corpus.loading import load_corpus

SHARED_SIZES = (
    "vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads",
    "encoder_ffn_dim", "decoder_ffn_dim", "activation_function", "dropout", "attention_dropout", "activation_dropout",
    "max_position_embeddings", "scale_embedding", "tie_word_embeddings", "pad_token_id", "eos_token_id",
    "decoder_start_token_id",
)  # fmt: skip


def marian_like(config: TinySeqConfig) -> MarianMTModel:
    """Returns a new MarianMT of the sizes and special tokens of a tinyseq model."""
    sizes = {name: getattr(config, name) for name in SHARED_SIZES}
    # Its default forces id 0 at the length limit, and 20 pieces are its default limit
    model = MarianMTModel(MarianConfig(**sizes, forced_eos_token_id=None))
    model.generation_config.update(forced_eos_token_id=None, max_length=config.max_position_embeddings)
    return model


class RunToMatch:
    """What the peer takes over from a finished run of train.py.

    Attributes:
        options: All options of the run, by name.
        config: Of its model.
        tokenizer: Its tokenizer.
    """

    def __init__(self, folder: Path):
        self.options: dict[str, Any] = yaml.safe_load((folder / "options.yaml").read_text(encoding="utf-8"))
        self.config: TinySeqConfig = AutoConfig.from_pretrained(folder / "best")
        self.tokenizer = AutoTokenizer.from_pretrained(folder / "best")

    def encoded_pairs(self) -> EncodedPairs:
        """Returns the ids of its training pairs, without those that are too long, as train.py has them."""
        pairs = load_corpus(self.options["train"]).pairs
        return encode_pairs(pairs, self.tokenizer, self.config.max_position_embeddings)


class CountingTrainer(Seq2SeqTrainer):
    """Seq2SeqTrainer that counts the target tokens, padding left out, that it trained on."""

    target_tokens = 0

    def training_step(self, model: torch.nn.Module, inputs: dict, *args: Any, **kwargs: Any) -> torch.Tensor:
        self.target_tokens += int(inputs["labels"].ne(-100).sum())
        return super().training_step(model, inputs, *args, **kwargs)


class WindowLog(TrainerCallback):
    """Writes a line for every `log_steps` updates: tokens per second, and seconds since the start."""

    def __init__(self, path: Path, log_steps: int):
        self.path = path
        self.log_steps = log_steps
        self.trainer: CountingTrainer | None = None  # set once there is one
        self.start = self.window_start = 0.0
        self.window_tokens = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.path.write_text("", encoding="utf-8")
        self.start = self.window_start = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self.log_steps and state.global_step != state.max_steps:
            return
        assert self.trainer is not None
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        tokens = self.trainer.target_tokens - self.window_tokens
        line = {
            "step": state.global_step,
            "epoch": round(state.epoch, 3),
            "target_tokens_per_second": round(tokens / (now - self.window_start), 1),
            "training_seconds": round(now - self.start, 2),
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.window_start, self.window_tokens = now, self.trainer.target_tokens


def make_trainer(
    model: MarianMTModel,
    like: RunToMatch,
    pairs: EncodedPairs,
    output_dir: Path,
    batch_sentences: int,
    max_steps: int,
    learning_rate: float,
    log_steps: int,
) -> CountingTrainer:
    """Returns the trainer; see the module's docstring for what is set, and what is left at its default."""
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(output_dir),
        train_sampling_strategy="group_by_length",  # the default, random order, pads so much that it is far slower
        # One batch per update: with several, Marian's loss without smoothing is not divided by their number
        per_device_train_batch_size=batch_sentences,
        gradient_accumulation_steps=1,
        max_steps=max_steps,
        learning_rate=learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=min(like.options["warmup_steps"], max_steps // 10),  # as in train.py
        label_smoothing_factor=like.options["label_smoothing"],
        seed=like.options["seed"],
        eval_strategy="no",
        save_strategy="no",
        dataloader_pin_memory=torch.cuda.is_available(),
        report_to="none",
        disable_tqdm=True,
    )
    # A list of ids is the fastest data set for the loader, which works in the training process
    rows = [{"input_ids": s.tolist(), "labels": t.tolist()} for s, t in zip(pairs.sources, pairs.targets, strict=True)]
    log = WindowLog(output_dir / "log.jsonl", log_steps)
    trainer = CountingTrainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=DataCollatorForSeq2Seq(like.tokenizer, model=model),
        processing_class=like.tokenizer,
        callbacks=[log],
    )
    log.trainer = trainer
    return trainer


def main() -> None:
    """Trains one peer."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--like", type=Path, required=True, metavar="RUN", help="folder of a finished run of train.py")
    parser.add_argument("--output-dir", type=Path, required=True, help="the peer's folder")
    parser.add_argument("--max-steps", type=int, required=True, help="updates")
    parser.add_argument(
        "--learning-rate", type=float, default=1e-3, help="highest learning rate [default: %(default)s]"
    )
    parser.add_argument(
        "--batch-sentences",
        type=int,
        help="pairs per update; by default as many as make, on average, the target tokens of the run's token budget",
    )
    parser.add_argument(
        "--log-steps", type=int, default=10, help="updates per line of log.jsonl [default: %(default)s]"
    )
    options = parser.parse_args()
    if not (options.like / "best" / "config.json").is_file():
        parser.error(
            f"--like {options.like}: there is no finished run of train.py, with best/ and options.yaml, in it"
        )

    like = RunToMatch(options.like)
    pairs = like.encoded_pairs()
    budget = like.options["batch_size_tokens"] * like.options["gradient_accumulation_steps"]
    batch_sentences = options.batch_sentences or sentences_for(budget, pairs)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    set_seed(like.options["seed"])
    model = marian_like(like.config)
    print(f"MarianMT, {model.num_parameters() / 1e6:.1f} M parameters, {batch_sentences} pairs per update", flush=True)
    trainer = make_trainer(
        model,
        like,
        pairs,
        options.output_dir,
        batch_sentences,
        options.max_steps,
        options.learning_rate,
        options.log_steps,
    )
    trainer.train()
    model.save_pretrained(options.output_dir / "model")
    like.tokenizer.save_pretrained(options.output_dir / "model")


def sentences_for(target_tokens: int, pairs: EncodedPairs) -> int:
    """Returns how many pairs have that many target tokens on average."""
    return max(round(target_tokens * len(pairs) / pairs.target_tokens), 1)


if __name__ == "__main__":
    main()
