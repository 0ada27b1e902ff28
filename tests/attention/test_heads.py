"""What heads do: figures over maps made by hand, gates beside weights set to zero, importance beside differences."""

import copy

import numpy as np
import pytest
import torch
from by_hand import random_model
from transformers import MarianConfig, MarianMTModel, T5Config, T5ForConditionalGeneration

from tinyseq import TinySeqTokenizer
from tinyseq.attention import heads
from tinyseq.attention.heads import Head, Totals
from tinyseq.attention.maps import AttentionMaps, maps, maps_of_batch

SOURCES = ["the black cat", "the milk drank the cat", "milk"]
TARGETS = ["el gato negro", "la leche bebió", "leche leche"]
KEPT = {"encoder": [[1, 3], [0, 1, 2, 3], [2]], "decoder": [[1], [0, 1]], "cross": [[0, 1], [0]]}


@pytest.fixture(scope="module")
def tokenizer():
    return TinySeqTokenizer.train(["the black cat drank the milk", "el gato negro bebió la leche"] * 3, 320)


@pytest.fixture
def model(tokenizer):
    return random_model(tokenizer)


def without(model, *off):
    """A copy of the model in which the output of these heads is multiplied by zero, in its weights."""
    changed = copy.deepcopy(model)
    for name, layer, head in off:
        stack = changed.model.encoder if name == "encoder" else changed.model.decoder
        block = stack.layers[layer].encoder_attn if name == "cross" else stack.layers[layer].self_attn
        size = block.out_proj.in_features // (4 if name == "encoder" else 2)
        block.out_proj.weight.data[:, head * size : (head + 1) * size] = 0
    return changed


def loss_of(model, tokenizer, source, target):
    inputs = tokenizer(source, return_tensors="pt")
    labels = tokenizer(target, return_tensors="pt")["input_ids"]
    logits = model(**inputs, labels=labels).logits  # and not the loss, which is taken in float32
    return -logits.log_softmax(-1).gather(-1, labels[..., None]).sum().item(), labels.shape[1]


# ------------------------------------------------- names -------------------------------------------------------------


def test_a_head_is_read_as_it_is_written():
    assert Head.parse("cross.1.0") == Head("cross", 1, 0)
    assert str(Head("encoder", 0, 2)) == "encoder.0.2"


@pytest.mark.parametrize("text", ["encoder.0", "self.0.1", "encoder.-1.0", "encoder.0.x", ""])
def test_what_names_no_head_is_refused(text):
    with pytest.raises(ValueError, match=r"is no head; write ATTENTION.LAYER.HEAD"):
        Head.parse(text)


# ------------------------------------------------- where heads look --------------------------------------------------


def looking_at(columns, of):
    """A map (1, 1, rows, of columns) in which row i looks at column columns[i] alone."""
    return np.eye(of)[list(columns)][None, None]


def hand_made(encoder=(0, 1, 2, 3), decoder=(0, 1, 2), cross=(0, 1, 3)):
    return AttentionMaps(
        source="a b c", translation="x y", score=0.0, source_pieces=["a", "b", "c", "</s>"],
        target_pieces=["x", "y", "</s>"], decoder_pieces=["<pad>", "x", "y"],
        encoder=looking_at(encoder, 4), decoder=looking_at(decoder, 3), cross=looking_at(cross, 4),
    )  # fmt: skip


@pytest.mark.parametrize(
    "name, columns, role",
    [
        ("encoder", (0, 0, 1, 2), "previous word"),
        ("encoder", (1, 2, 3, 3), "next word"),
        ("encoder", (0, 1, 2, 3), "same word"),
        ("encoder", (3, 3, 3, 3), "end token"),
        ("encoder", (2, 3, 0, 1), "mixed"),
        ("decoder", (0, 1, 2), "last word"),
        ("decoder", (0, 0, 1), "word before it"),
        ("decoder", (0, 0, 0), "begin token"),
        ("cross", (0, 1, 2), "same position"),
        ("cross", (3, 3, 3), "end token"),
        ("cross", (2, 0, 1), "mixed"),
    ],
)
def test_a_head_has_the_role_to_which_its_attention_goes(name, columns, role):
    totals = Totals()
    totals.add(hand_made(**{name: columns}))
    assert totals.statistics("").role(name, 0, 0) == role


def test_a_head_that_follows_the_links_of_the_words_has_the_role_alignment():
    totals = Totals()
    totals.add(hand_made(cross=(2, 0, 1)), links=[(2, 0), (0, 1), (1, 1)])
    found = totals.statistics("")
    assert found.role("cross", 0, 0) == "alignment"
    assert found.weights["cross"]["alignment"] == 1  # the row of </s>, which has no link, is not counted


def test_entropy_is_in_bits_and_distance_in_words():
    found = hand_made(encoder=(3, 1, 2, 0))
    found.cross = np.full((1, 1, 3, 4), 0.25)
    found.decoder = np.array([[[[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]]]])
    totals = Totals()
    totals.add(found)
    figures = totals.statistics("")
    assert figures.entropy["encoder"] == 0
    assert figures.entropy["cross"] == pytest.approx(2)
    assert figures.entropy["decoder"] == pytest.approx((0 + 1 + 1.5) / 3)
    assert figures.distance["encoder"] == pytest.approx((3 + 0 + 0 + 3) / 4)
    assert figures.distance["decoder"] == pytest.approx((0 + 0.5 + 0.75) / 3)


def test_figures_are_means_over_the_words_of_all_pairs_whatever_the_batch(model, tokenizer):
    one = heads.measure(model, tokenizer, SOURCES, TARGETS, batch_size=1)
    two = heads.measure(model, tokenizer, SOURCES, TARGETS, batch_size=2)
    rows = [f.of_words().encoder for f in maps_of_batch(model, tokenizer, SOURCES, TARGETS)]
    entropy = np.concatenate([-(w * np.log2(w)).sum(-1) for w in rows], axis=-1).mean(-1)
    np.testing.assert_allclose(one.entropy["encoder"], entropy, atol=1e-5)
    np.testing.assert_allclose(two.entropy["encoder"], entropy, atol=1e-5)
    assert entropy.shape == (3, 4)


def test_a_head_that_was_removed_has_no_figures_and_says_so(tokenizer):
    model = random_model(tokenizer, kept_heads=KEPT)
    found = heads.measure(model, tokenizer, SOURCES, TARGETS, measured="three pairs")
    found.importance = heads.importance(model, tokenizer, SOURCES, TARGETS)
    assert found.role("encoder", 0, 2) == "removed"
    data = found.to_data()
    assert data["measured"] == "three pairs"
    assert data["encoder"][0][2]["removed"]
    assert data["encoder"][0][2]["entropy"] is None
    assert not data["encoder"][0][3]["removed"]
    assert [len(layer) for layer in data["cross"]] == [2, 2]
    assert np.isnan(found.importance["decoder"][0, 0])
    assert found.importance["decoder"][0, 1] > 0
    assert "nan" not in str(found)
    there = sum(len(heads) for layers in KEPT.values() for heads in layers)
    assert str(found).count("removed") == 3 * 4 + 2 * 2 + 2 * 2 - there


def test_heads_are_measured_on_pairs(model, tokenizer):
    for measure in (heads.measure, heads.importance):
        with pytest.raises(ValueError, match="there is no pair"):
            measure(model, tokenizer, [], [])
        with pytest.raises(ValueError, match="there are 3 sources and 2 targets; each source needs its own"):
            measure(model, tokenizer, SOURCES, TARGETS[:2])
    with pytest.raises(ValueError, match="there are 3 sources and 1 links"):
        heads.measure(model, tokenizer, SOURCES, TARGETS, [[(0, 0)]])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_of_half_precision_is_measured_too(tokenizer, dtype):
    wide = random_model(tokenizer)
    half = random_model(tokenizer).to(dtype)
    expected = heads.importance(wide, tokenizer, SOURCES, TARGETS)
    found = heads.importance(half, tokenizer, SOURCES, TARGETS)
    for name, figures in expected.items():
        np.testing.assert_allclose(found[name], figures, rtol=0.3, atol=0.02)
    removed = heads.without_each_head(half, tokenizer, maps(half, tokenizer, SOURCES[0]))
    assert removed["cross"][0][0]["text"] is not None


def test_what_is_asked_of_a_model_is_a_copy(tokenizer):
    model = random_model(tokenizer, kept_heads=KEPT)
    heads.heads_kept(model)["encoder"][0].append(99)
    assert model.config.kept_heads["encoder"][0] == [1, 3]


# ------------------------------------------------- switching heads off -----------------------------------------------


@pytest.mark.parametrize("head", [("encoder", 1, 3), ("decoder", 0, 1), ("cross", 1, 0)])
def test_a_gate_of_zero_does_what_weights_of_zero_do(model, tokenizer, head):
    inputs = tokenizer(SOURCES[1], return_tensors="pt")
    labels = tokenizer(TARGETS[1], return_tensors="pt")["input_ids"]
    gates = heads.all_on(model, 1)
    gates[head[0]][0, head[1], head[2]] = 0
    before = model(**inputs, labels=labels).logits
    with heads.gated(model, gates):
        gated = model(**inputs, labels=labels).logits
    torch.testing.assert_close(gated, without(model, head)(**inputs, labels=labels).logits, atol=1e-5, rtol=0)
    assert (gated - before).abs().max() > 1e-3
    torch.testing.assert_close(model(**inputs, labels=labels).logits, before, atol=0, rtol=0)  # as it was


@pytest.mark.parametrize("beams", [1, 3])
def test_the_translations_without_each_head_are_those_of_models_without_it(model, tokenizer, beams):
    options = {"num_beams": beams, "max_new_tokens": 6}
    found = maps(model, tokenizer, SOURCES[0], **options)
    removed = heads.without_each_head(model, tokenizer, found, **options)
    inputs = tokenizer(SOURCES[0], return_tensors="pt")
    target_ids = torch.tensor([tokenizer.convert_tokens_to_ids(found.target_pieces)])
    texts = set()
    for name, layers, count in (("encoder", 3, 4), ("decoder", 2, 2), ("cross", 2, 2)):
        assert [len(layer) for layer in removed[name]] == [count] * layers
        for layer in range(layers):
            for head in range(count):
                other = without(model, (name, layer, head))
                text = tokenizer.decode(other.generate(**inputs, **options)[0], skip_special_tokens=True)
                loss = other(**inputs, labels=target_ids).loss.item() + found.score
                assert removed[name][layer][head]["text"] == text
                assert removed[name][layer][head]["loss"] == pytest.approx(loss, abs=2e-5)
                texts.add(text)
    assert len(texts) > 3  # heads matter in this model


def test_more_heads_than_fit_at_once_are_switched_off_in_turns(model, tokenizer, monkeypatch):
    found = maps(model, tokenizer, SOURCES[0], max_new_tokens=4)
    at_once = heads.without_each_head(model, tokenizer, found, max_new_tokens=4)
    monkeypatch.setattr(heads, "ROWS_AT_ONCE", 3)
    in_turns = heads.without_each_head(model, tokenizer, found, max_new_tokens=4)
    each = [[head for layers in found.values() for layer in layers for head in layer] for found in (at_once, in_turns)]
    assert len(each[0]) == 20
    for one, two in zip(*each, strict=True):
        assert one["text"] == two["text"]
        assert one["loss"] == pytest.approx(two["loss"], abs=2e-5)


def test_heads_that_are_not_there_are_not_switched_off(tokenizer):
    model = random_model(tokenizer, kept_heads=KEPT)
    removed = heads.without_each_head(model, tokenizer, maps(model, tokenizer, "the cat"))
    there = [[i for i, head in enumerate(layer) if head is not None] for layer in removed["encoder"]]
    assert there == KEPT["encoder"]


def test_importance_is_the_slope_of_the_loss_along_the_gate(model, tokenizer):
    found = heads.importance(model, tokenizer, SOURCES, TARGETS, batch_size=2)
    step = 1e-5
    for name, layer, head in (("encoder", 2, 1), ("decoder", 0, 0), ("cross", 1, 1)):
        total = pieces = 0
        for source, target in zip(SOURCES, TARGETS, strict=True):
            losses = []
            for value in (1 + step, 1 - step):
                gates = {key: gate.double() for key, gate in heads.all_on(model, 1).items()}
                gates[name][0, layer, head] = value
                with heads.gated(model.double(), gates), torch.no_grad():
                    loss, count = loss_of(model, tokenizer, source, target)
                losses.append(loss)
            total += abs(losses[0] - losses[1]) / (2 * step)
            pieces += count
        assert found[name][layer, head] == pytest.approx(total / pieces, rel=1e-3)
        model.float()


def test_measuring_importance_leaves_the_model_as_it_was(model, tokenizer):
    model.train()
    heads.importance(model, tokenizer, SOURCES, TARGETS)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(not module._forward_pre_hooks for module in model.modules())


# ------------------------------------------------- other families ----------------------------------------------------


def test_heads_of_a_marian_model_can_be_measured_and_switched_off(tokenizer):
    config = MarianConfig(
        vocab_size=len(tokenizer), d_model=24, encoder_layers=3, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=28, max_position_embeddings=40,
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
        decoder_start_token_id=tokenizer.pad_token_id, forced_eos_token_id=None, init_std=0.3, max_length=None,
    )  # fmt: skip
    model = MarianMTModel(config).eval()
    found = maps(model, tokenizer, SOURCES[0], max_new_tokens=5)
    removed = heads.without_each_head(model, tokenizer, found, max_new_tokens=5)
    assert [[len(layer) for layer in removed[name]] for name in removed] == [[4, 4, 4], [2, 2], [2, 2]]
    assert max(abs(head["loss"]) for layer in removed["cross"] for head in layer) > 1e-3
    assert heads.importance(model, tokenizer, SOURCES, TARGETS)["encoder"].min() > 0


def test_a_model_that_is_laid_out_otherwise_is_refused():
    model = T5ForConditionalGeneration(
        T5Config(vocab_size=30, d_model=12, d_kv=4, d_ff=16, num_layers=2, num_heads=3, decoder_start_token_id=0)
    )
    with pytest.raises(ValueError, match="heads of a 't5' model can't be reached: its layers are not laid out"):
        heads.attention_blocks(model)
