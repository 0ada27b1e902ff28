"""`Seq2SeqTrainer` with Transformers' own collator: generation in evaluation, stopping and going on, the best model.

That its gradients are right under accumulation is in tests/test_modeling_tinyseq.py.
"""

import logging

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from small_models import SIZES, marian_model
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, TinySeqTokenizer

NUMBERS = {"one": "uno", "two": "dos", "three": "tres", "four": "cuatro", "five": "cinco", "six": "seis"}
SOURCES = ["one", "two three", "four five six", "three one", "six", "five two one four"]
TARGETS = [" ".join(NUMBERS[word] for word in source.split()) for source in SOURCES]


@pytest.fixture(scope="module")
def tokenizer():
    return TinySeqTokenizer.train([*SOURCES, *TARGETS] * 3, vocab_size=300)


def new_model(tokenizer, **changes) -> TinySeqForConditionalGeneration:
    torch.manual_seed(1)
    ids = dict(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id)
    changes = {"d_model": 48, "dropout": 0.0, **changes}
    return TinySeqForConditionalGeneration(TinySeqConfig(**{**SIZES, **ids, **changes}))


def trainer_of(model, tokenizer, folder, compute_metrics=None, **arguments) -> Seq2SeqTrainer:
    settings = dict(
        output_dir=str(folder),
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        per_device_train_batch_size=4,  # of 6 sentences: two steps an epoch, the second of two sentences
        num_train_epochs=3,
        learning_rate=5e-3,
        save_strategy="no",
        logging_strategy="epoch",
    )
    examples = [{**tokenizer(source, text_target=target)} for source, target in zip(SOURCES, TARGETS, strict=True)]
    return Seq2SeqTrainer(
        model,
        Seq2SeqTrainingArguments(**{**settings, **arguments}),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model),
        train_dataset=examples,
        eval_dataset=examples,
        processing_class=tokenizer,
        compute_metrics=compute_metrics,
    )


def losses_of(trainer) -> list[float]:
    return [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.parametrize("num_beams", [1, 3])
def test_evaluation_by_generation_gives_the_texts_that_were_learned(tokenizer, num_beams, tmp_path):
    seen = []

    def compute_metrics(prediction):
        ids = [
            np.where(ids < 0, tokenizer.pad_token_id, ids) for ids in (prediction.predictions, prediction.label_ids)
        ]
        seen[:] = [tokenizer.batch_decode(rows, skip_special_tokens=True) for rows in ids]
        return {"sentences": len(prediction.predictions)}

    trainer = trainer_of(
        new_model(tokenizer),
        tokenizer,
        tmp_path,
        compute_metrics,
        num_train_epochs=60,
        predict_with_generate=True,
        generation_num_beams=num_beams,
    )
    trainer.train()
    metrics = trainer.evaluate()
    assert seen == [TARGETS, TARGETS]
    assert metrics["eval_sentences"] == 6
    assert float(metrics["eval_loss"]) < 0.1


@pytest.mark.parametrize(
    "arguments",
    [
        {"bf16": True},
        {"gradient_checkpointing": True},
        {"label_smoothing_factor": 0.1},
        {"train_sampling_strategy": "group_by_length"},
        {"neftune_noise_alpha": 5.0},
        {"torch_compile": True, "torch_compile_backend": "eager"},
        {"optim": "adafactor"},
        {"gradient_accumulation_steps": 2, "max_grad_norm": 0.5},
    ],
    ids=" ".join,
)
def test_the_loss_falls_under_every_option_of_the_trainer(tokenizer, arguments, tmp_path):
    trainer = trainer_of(new_model(tokenizer), tokenizer, tmp_path, num_train_epochs=8, **arguments)
    trainer.train()
    losses = losses_of(trainer)
    assert losses[-1] < 0.9 * losses[0]


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tokenizer, tmp_path):
    whole = trainer_of(new_model(tokenizer, dropout=0.1), tokenizer, tmp_path, save_strategy="epoch")
    whole.train()
    resumed = trainer_of(new_model(tokenizer, dropout=0.1), tokenizer, tmp_path, save_strategy="no")
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert resumed.state.global_step == whole.state.global_step == 6
    expected = whole.model.state_dict()
    for name, weight in resumed.model.state_dict().items():
        torch.testing.assert_close(weight, expected[name], atol=0, rtol=0)


def test_the_best_model_comes_back_whole_and_tied_and_what_the_trainer_says_of_it_it_says_of_marian(
    tokenizer, tmp_path, caplog
):
    """The Trainer misses the tied weights, which lie in a checkpoint once, and says so of every model with such."""
    transformers.utils.logging.enable_propagation()
    marian = marian_model()
    marian.resize_token_embeddings(len(tokenizer))
    for name, model in (("ours", new_model(tokenizer)), ("marian", marian)):
        caplog.clear()
        trainer = trainer_of(
            model,
            tokenizer,
            tmp_path / name,
            eval_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model="eval_runtime",  # any of them, as a rule not the last
        )
        with caplog.at_level(logging.WARNING, logger="transformers"):
            trainer.train()
        assert [message for message in caplog.messages if "lm_head.weight" in message]
        best = load_file(f"{trainer.state.best_model_checkpoint}/model.safetensors")
        state = trainer.model.state_dict()
        for key, weight in best.items():
            assert torch.equal(state[key], weight)
        assert trainer.model.lm_head.weight is trainer.model.get_input_embeddings().weight
        missing = {key for key in state if key not in best}
        if name == "ours":
            assert missing == {
                "lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
            }  # fmt: skip
    transformers.utils.logging.disable_propagation()


def test_a_checkpoint_of_the_trainer_is_a_model_folder(tokenizer, tmp_path):
    trainer = trainer_of(new_model(tokenizer), tokenizer, tmp_path, save_strategy="epoch", num_train_epochs=1)
    trainer.train()
    loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "checkpoint-2")
    assert torch.equal(loaded.lm_head.weight, trainer.model.lm_head.weight)
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path / "checkpoint-2")(SOURCES[3])["input_ids"]
    assert ids == tokenizer(SOURCES[3])["input_ids"]
