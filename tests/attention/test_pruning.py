"""Removing heads for real: a smaller model that computes what the old one computed with these heads switched off."""

import numpy as np
import pytest
import torch
from by_hand import random_model
from test_heads import SOURCES, TARGETS, without
from transformers import AutoModelForSeq2SeqLM, MarianConfig, MarianMTModel

from tinyseq import TinySeqTokenizer, attention
from tinyseq.attention import heads
from tinyseq.attention.heads import Head
from tinyseq.attention.pruning import least_important, prune, prune_least_important

SOME = [Head.parse(text) for text in ("encoder.0.2", "encoder.0.0", "decoder.1.1", "cross.0.0", "encoder.2.3")]
KINDS = {
    "post-norm": {},
    "pre-norm, learned positions": {"normalize_before": True, "position_embedding_type": "learned"},
    "rotary positions": {"position_embedding_type": "rotary", "tie_word_embeddings": False},
}


@pytest.fixture(scope="module")
def tokenizer():
    return TinySeqTokenizer.train(["the black cat drank the milk", "el gato negro bebió la leche"] * 3, 320)


@pytest.fixture
def batch(tokenizer):
    inputs = tokenizer(SOURCES, return_tensors="pt", padding=True)
    return {**inputs, "labels": tokenizer(TARGETS, return_tensors="pt", padding=True)["input_ids"]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_pruned_model_computes_what_the_old_one_computes_with_these_heads_off(kind, tokenizer, batch):
    model = random_model(tokenizer, **KINDS[kind])
    pruned = prune(model, SOME)
    expected = without(model, *SOME)(**batch)
    found = pruned(**batch)
    torch.testing.assert_close(found.logits, expected.logits, atol=1e-5, rtol=0)
    assert (found.logits - model(**batch).logits).abs().max() > 1e-2


def test_the_weights_of_the_heads_are_gone(tokenizer):
    model = random_model(tokenizer)
    pruned = prune(model, SOME)
    sizes = {"encoder": 6, "decoder": 12, "cross": 12}  # 24 / 4 and 24 / 2
    gone = sum(sizes[head.attention] * (4 * 24 + 3) for head in SOME)  # q, k, v with their biases; out_proj's columns
    count = [sum(parameter.numel() for parameter in one.parameters()) for one in (model, pruned)]
    assert count[1] == count[0] - gone
    assert pruned.model.encoder.layers[0].self_attn.q_proj.weight.shape == (12, 24)
    assert pruned.model.encoder.layers[0].self_attn.out_proj.weight.shape == (24, 12)
    assert pruned.config.kept_heads["encoder"] == [[1, 3], [0, 1, 2, 3], [0, 1, 2]]
    assert (model.config.kept_heads, model.model.encoder.layers[0].self_attn.q_proj.weight.shape) == (None, (24, 24))


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"cache_implementation": "static"}, {"use_cache": False}])
def test_a_pruned_model_is_saved_loaded_and_used_as_before(tokenizer, batch, tmp_path, options):
    pruned = prune(random_model(tokenizer), SOME)
    pruned.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    expected = without(random_model(tokenizer), *SOME).generate(**inputs, num_beams=options.get("num_beams", 1))
    assert loaded.generate(**inputs, **options).tolist() == expected.tolist()
    assert loaded.config.kept_heads == pruned.config.kept_heads


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_heads_keep_their_numbers_in_the_maps(tokenizer, implementation):
    model = random_model(tokenizer)
    off = SOME[:2]
    pruned = prune(model, off)
    pruned.set_attn_implementation(implementation)
    found = attention.maps(pruned, tokenizer, SOURCES[0], target=TARGETS[0])
    expected = attention.maps(without(model, *off), tokenizer, SOURCES[0], target=TARGETS[0])
    assert found.encoder.shape == expected.encoder.shape
    np.testing.assert_allclose(found.encoder[0, [1, 3]], expected.encoder[0, [1, 3]], atol=1e-5)
    assert found.encoder[0, [0, 2]].max() == 0
    np.testing.assert_allclose(found.cross, expected.cross, atol=1e-5)


def test_pruning_again_goes_on_from_what_is_there(tokenizer, batch):
    model = random_model(tokenizer)
    twice = prune(prune(model, SOME[:2]), SOME[2:])
    once = prune(model, SOME)
    assert twice.config.kept_heads == once.config.kept_heads
    torch.testing.assert_close(twice(**batch).logits, once(**batch).logits, atol=0, rtol=0)


def test_a_pruned_model_can_be_trained_on(tokenizer, batch):
    pruned = prune(random_model(tokenizer), SOME)
    pruned.train()(**batch).loss.backward()
    assert all(parameter.grad is not None for parameter in pruned.parameters())


def test_a_model_with_an_adapter_is_refused(tokenizer):
    peft = pytest.importorskip("peft", reason="PEFT is an extra: pip install tinyseq[lora]")
    adapted = peft.get_peft_model(random_model(tokenizer), peft.LoraConfig(r=2, target_modules=["q_proj"]))
    with pytest.raises(ValueError, match=r"the model has an adapter, .* merge it first: merge_and_unload\(\)"):
        prune(adapted, SOME)


def test_the_heads_that_are_left_are_not_shared_out_over_processes(tokenizer):
    model = random_model(tokenizer)
    assert any("q_proj" in name for name in model.tp_plan)
    plan = type(model)(prune(model, SOME).config).tp_plan
    assert any("fc1" in name for name in plan)
    assert not any("attn" in name for name in plan)


def test_weights_keep_their_type(tokenizer):
    pruned = prune(random_model(tokenizer).bfloat16(), SOME)
    assert {parameter.dtype for parameter in pruned.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize(
    "what, message",
    [
        (["encoder.0.4"], r"encoder.0.4: there is no such head; layer 0 has \[0, 1, 2, 3\]"),
        (["cross.2.0"], "cross.2.0: there is no such layer"),
        (
            ["encoder.1.1", "encoder.1.1"],
            r"encoder.1.1: there is no such head; layer 1 has \[0, 2, 3\]",
        ),
        (
            ["decoder.0.0", "decoder.0.1"],
            "decoder.0.1 is the last head of its layer, and one must stay",
        ),
    ],
)
def test_what_can_not_be_removed_is_refused(tokenizer, what, message):
    model = random_model(tokenizer)
    with pytest.raises(ValueError, match=message):
        prune(model, map(Head.parse, what))
    assert model.config.kept_heads is None


def test_a_model_of_another_family_is_refused():
    config = MarianConfig(
        vocab_size=30, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, pad_token_id=0, decoder_start_token_id=0,
    )  # fmt: skip
    with pytest.raises(ValueError, match="heads of a 'marian' model can't be removed"):
        prune(MarianMTModel(config), [])


# ------------------------------------------------- which heads -------------------------------------------------------

FIGURES = {
    "encoder": np.array([[0.5, 0.1, 0.9], [0.02, 0.01, 0.03]]),
    "decoder": np.array([[0.3, 0.2, 0.0]]),
    "cross": np.array([[0.8, 0.7, 0.6]]),
}


def test_the_least_important_heads_go_first_and_the_most_important_of_a_layer_stays():
    kept = {
        "encoder": [[0, 1, 2], [0, 1, 2]],
        "decoder": [[0, 1]],
        "cross": [[0, 1, 2]],
    }  # decoder.0.2 is gone already
    order = ["encoder.1.1", "encoder.1.0", "encoder.0.1", "decoder.0.1", "encoder.0.0", "cross.0.2", "cross.0.1"]
    assert [str(head) for head in least_important(FIGURES, kept, 7)] == order
    assert [str(head) for head in least_important(FIGURES, kept, 3)] == order[:3]
    with pytest.raises(ValueError, match="8 heads can't be removed: from 0 to 7 can, as one of each layer must stay"):
        least_important(FIGURES, kept, 8)


def test_importance_is_measured_anew_in_each_round(tokenizer, monkeypatch):
    model = random_model(tokenizer)
    measured = []

    def importance(model, *arguments, **options):
        measured.append(sum(len(layer) for layers in heads.heads_kept(model).values() for layer in layers))
        return original(model, *arguments, **options)

    original = heads.importance
    monkeypatch.setattr("tinyseq.attention.pruning.importance", importance)
    pruned = prune_least_important(model, tokenizer, SOURCES, TARGETS, 7, rounds=3)
    assert measured == [20, 17, 15]
    assert sum(len(layer) for layers in pruned.config.kept_heads.values() for layer in layers) == 13
    with pytest.raises(ValueError, match="14 heads can't be removed: from 0 to 13 can"):
        prune_least_important(model, tokenizer, SOURCES, TARGETS, 14)


def test_nothing_removed_is_a_copy_too(tokenizer):
    model = random_model(tokenizer)
    same = prune_least_important(model, tokenizer, SOURCES, TARGETS, 0)
    assert same is not model
    assert heads.heads_kept(same) == heads.heads_kept(model)


@pytest.mark.parametrize("rounds", [0, -1])
def test_no_rounds_are_refused(tokenizer, rounds):
    with pytest.raises(ValueError, match=f"rounds={rounds} must be 1 or more"):
        prune_least_important(random_model(tokenizer), tokenizer, SOURCES, TARGETS, 2, rounds=rounds)


@pytest.mark.parametrize("figure", [np.nan, np.inf])
def test_importance_that_has_no_order_removes_nothing(figure):
    figures = {"encoder": np.array([[0.1, 0.2, 0.3], [0.4, figure, 0.6]])}
    with pytest.raises(ValueError, match=rf"importance of encoder\.1\.1 is {figure}.*float32"):
        least_important(figures, {"encoder": [[0, 1, 2], [0, 1, 2]]}, 1)
    assert least_important(figures, {"encoder": [[0, 1, 2], [0, 2]]}, 1) == [Head("encoder", 0, 0)]  # it is not there
