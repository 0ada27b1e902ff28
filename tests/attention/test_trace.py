"""The trace of a translation: every step is there, in order, and each number is what NumPy makes of the weights.

Every size differs: source 7 pieces, target 6 or 4, heads 4 and 2, layers 3 and 2, widths 24, 20 and 28.
"""

import json

import numpy as np
import pytest
import torch
from by_hand import KINDS, ByHand, random_model
from torch import nn
from transformers import MarianConfig, MarianMTModel

from tinyseq import TinySeqTokenizer
from tinyseq.attention.trace import trace

SOURCE, TARGET = "the cat", "gato"
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def tokenizer():
    return TinySeqTokenizer.train(["the black cat drank the milk", "el gato negro bebió la leche"] * 3, 320)


@pytest.fixture
def model(tokenizer):
    return random_model(tokenizer)


def greedy(model, tokenizer, source=SOURCE):
    """The pieces that `model.generate` writes, BEGIN left out."""
    return model.generate(**tokenizer(source, return_tensors="pt"), num_beams=1, do_sample=False)[0, 1:].tolist()


# ------------------------------------------------- the numbers ------------------------------------------------------


@every_kind
@pytest.mark.parametrize("target", [None, TARGET])
def test_every_number_is_what_numpy_makes_of_the_weights(kind, target, tokenizer):
    model = random_model(tokenizer, **KINDS[kind])
    written = greedy(model, tokenizer) if target is None else tokenizer(text_target=target)["input_ids"]
    expected = ByHand(model, tokenizer(SOURCE)["input_ids"], written).values

    found = trace(model, tokenizer, SOURCE, target)

    assert [step.name for step in found.steps] == list(expected)
    for step in found.steps:
        numbers = np.where(step.values < -1e30, -np.inf, step.values)  # as low as the mask makes it
        np.testing.assert_allclose(numbers, expected[step.name], rtol=1e-5, atol=1e-5, err_msg=step.name)


def test_the_steps_of_a_post_norm_model_are_all_there_and_in_the_paper_s_order(model, tokenizer):
    attention = [
        "q", "k", "v", "q_heads", "k_heads", "v_heads", "scores", "scaled", "mask", "masked", "weights", "context",
        "merged", "output", "residual", "norm",
    ]  # fmt: skip
    feed_forward = ["fc1", "activation", "fc2", "residual", "norm"]
    expected = ["source.pieces", "encoder.embedding", "encoder.positions", "encoder.input"]
    for layer in range(3):
        expected += [f"encoder.{layer}.self_attn.{stage}" for stage in attention]
        expected += [f"encoder.{layer}.ffn.{stage}" for stage in feed_forward]
    expected += ["target.pieces", "decoder.embedding", "decoder.positions", "decoder.input"]
    for layer in range(2):
        expected += [
            f"decoder.{layer}.{block}.{stage}" for block in ("self_attn", "cross_attn") for stage in attention
        ]
        expected += [f"decoder.{layer}.ffn.{stage}" for stage in feed_forward]
    expected += ["decoding.logits", "decoding.probs", *(f"decoding.{index}" for index in range(6)), "decoding.text"]

    found = trace(model, tokenizer, SOURCE)

    assert [step.name for step in found.steps] == expected
    assert list(dict.fromkeys(step.group for step in found.steps)) == [
        "source", "encoder layer 0", "encoder layer 1", "encoder layer 2", "target so far", "decoder layer 0",
        "decoder layer 1", "decoding",
    ]  # fmt: skip


@every_kind
def test_a_step_works_on_steps_before_it_and_all_but_the_last_are_used(kind, tokenizer):
    found = trace(random_model(tokenizer, **KINDS[kind]), tokenizer, SOURCE)
    seen, used = set(), set()
    for step in found.steps:
        assert set(step.inputs) <= seen, step.name
        seen.add(step.name)
        used |= set(step.inputs)
    assert seen - used == {"decoding.text"}


@every_kind
def test_labels_fit_the_numbers_and_the_shape_says_what_they_are(kind, tokenizer):
    found = trace(random_model(tokenizer, **KINDS[kind]), tokenizer, SOURCE, TARGET)
    for step in found.steps:
        assert len(step.axes) == step.values.ndim, step.name
        rows = step.values.shape[max(0, step.values.ndim - 2)]
        assert len(step.rows) == rows, step.name
        assert len(step.columns) in (0, step.values.shape[-1]), step.name
        assert len(step.tabs) == (step.values.shape[0] if step.values.ndim == 3 else 0), step.name
    source_len, target_len = (len(tokenizer(text)["input_ids"]) for text in (SOURCE, TARGET))
    assert source_len != target_len
    heads = len(KINDS[kind].get("kept_heads", {"cross": [range(2)]})["cross"][0])
    expected = f"(heads {heads}, target_len {target_len}, source_len {source_len})"
    assert found["decoder.0.cross_attn.weights"].shape == expected
    assert found["encoder.1.ffn.fc1"].shape == f"(source_len {source_len}, ffn_dim 20)"


def test_pieces_are_the_real_ones_with_end_and_begin(model, tokenizer):
    found = trace(model, tokenizer, SOURCE, TARGET)
    source = tokenizer.convert_ids_to_tokens(tokenizer(SOURCE)["input_ids"])
    target = tokenizer.convert_ids_to_tokens(tokenizer(text_target=TARGET)["input_ids"])
    weights = found["decoder.1.cross_attn.weights"]
    assert (list(weights.rows), list(weights.columns)) == (["BEGIN", *target[:-1]], source)
    assert found["decoding.text"].rows == target
    assert target[-1] == source[-1] == "</s>"


def test_removed_heads_keep_the_numbers_of_the_others(tokenizer):
    model = random_model(tokenizer, **KINDS["heads removed"])
    found = trace(model, tokenizer, SOURCE)
    assert found["encoder.0.self_attn.weights"].tabs == ["head 1", "head 3"]
    assert found["decoder.0.self_attn.v_heads"].tabs == ["head 1"]
    assert found["decoder.1.cross_attn.context"].tabs == ["head 0"]
    assert "heads * head_dim 12" in found["encoder.0.self_attn.merged"].shape


# ------------------------------------------------- decoding ---------------------------------------------------------


def test_the_choices_are_those_of_generate_within_the_limits_of_its_config(model, tokenizer):
    expected = greedy(model, tokenizer)
    assert len(expected) == 6

    found = trace(model, tokenizer, SOURCE)

    assert found["decoding.text"].values.tolist() == expected
    for index, piece in enumerate(expected):
        step = found[f"decoding.{index}"]
        assert step.rows[step.chosen] == tokenizer.convert_ids_to_tokens(piece)
    assert found.translation == tokenizer.decode(expected, skip_special_tokens=True)
    assert "length limit" in found["decoding.5"].text


def test_the_end_token_ends_the_loop_and_each_other_piece_is_fed_back(model, tokenizer):
    found = trace(model, tokenizer, SOURCE, TARGET)
    steps = [step for step in found.steps if step.name.removeprefix("decoding.").isdigit()]
    assert ["fed back" in step.text for step in steps] == [True] * (len(steps) - 1) + [False]
    assert "END" in steps[-1].text


def test_a_choice_that_the_config_forces_is_said_to_be_so(model, tokenizer):
    first = greedy(model, tokenizer)[0]
    model.generation_config.suppress_tokens = [first]
    step = trace(model, tokenizer, SOURCE)["decoding.0"]
    assert step.rows[0] == tokenizer.convert_ids_to_tokens(first)
    assert step.chosen == 1
    assert "rules out the 1 " in step.text


def test_a_given_translation_is_followed_and_its_rank_and_probability_told(model, tokenizer):
    found = trace(model, tokenizer, SOURCE, f" {TARGET} ")
    ids = tokenizer(text_target=TARGET)["input_ids"]
    output = model(**tokenizer(SOURCE, return_tensors="pt"), labels=torch.tensor([ids]))
    logits = output.logits[0, 0]
    rank = sorted(logits.tolist(), reverse=True).index(logits[ids[0]].item()) + 1
    assert found.translation == TARGET
    assert f"rank {rank} with probability {logits.softmax(-1)[ids[0]].item():.3g}" in found["decoding.0"].text


def test_another_translation_by_beam_search_is_told_in_a_line(model, tokenizer):
    model.generation_config.num_beams = 4
    beams = model.generate(**tokenizer(SOURCE, return_tensors="pt"))
    text = tokenizer.decode(beams[0], skip_special_tokens=True)
    assert text != tokenizer.decode(greedy(model, tokenizer), skip_special_tokens=True)
    model.generation_config.num_return_sequences = 3  # of which the first is the translation

    found = trace(model, tokenizer, SOURCE)

    assert next(note for note in found.notes if "4 beams" in note).endswith(text)
    assert not any("beams" in note for note in trace(model, tokenizer, SOURCE, TARGET).notes)


def test_the_same_translation_by_beam_search_is_not_worth_a_line(tokenizer):
    model = random_model(tokenizer, seed=3)
    model.generation_config.num_beams = 4
    beams = model.generate(**tokenizer(SOURCE, return_tensors="pt"))
    assert beams[0, 1:].tolist() == greedy(model, tokenizer)
    assert not any("beams" in note for note in trace(model, tokenizer, SOURCE).notes)


# ------------------------------------------------- the model is left as it was --------------------------------------


def state_of(model):
    return {
        "training": [module.training for module in model.modules()],
        "implementation": {id(m): m.config._attn_implementation for m in model.modules() if hasattr(m, "config")},
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
        "config": model.config.to_dict(),
        "generation_config": model.generation_config.to_dict(),
        "random": torch.get_rng_state().tolist(),
    }


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_the_model_is_left_as_it_was_after_an_error_too(implementation, model, tokenizer, monkeypatch):
    model.set_attn_implementation(implementation)
    model.train()
    model.model.encoder.layers[1].eval()  # as who freezes a layer may do
    before = state_of(model)

    trace(model, tokenizer, SOURCE)
    assert state_of(model) == before

    monkeypatch.setattr(model.model.decoder.layers[1].fc2, "forward", lambda inner: inner @ torch.zeros(1, 1))
    with pytest.raises(RuntimeError):
        trace(model, tokenizer, SOURCE, TARGET)
    assert state_of(model) == before


def test_dropout_is_off(tokenizer):
    options = {"dropout": 0.5, "attention_dropout": 0.5, "activation_dropout": 0.5}
    found = trace(random_model(tokenizer, **options).train(), tokenizer, SOURCE, TARGET)
    expected = trace(random_model(tokenizer), tokenizer, SOURCE, TARGET)
    for step, other in zip(found.steps, expected.steps, strict=True):
        np.testing.assert_array_equal(step.values, other.values)
    assert "Dropout is off" in str(found)


def test_one_embedding_module_for_both_sides_is_told_apart(model, tokenizer):
    model.set_input_embeddings(nn.Embedding.from_pretrained(model.get_input_embeddings().weight.detach()))
    assert model.get_encoder().embed_tokens is model.get_decoder().embed_tokens
    found = trace(model, tokenizer, SOURCE, TARGET)
    table = model.get_input_embeddings().weight.detach().numpy()
    for name, ids in (("encoder", found["source.pieces"]), ("decoder", found["target.pieces"])):
        np.testing.assert_array_equal(found[f"{name}.embedding"].values, table[ids.values])


# ------------------------------------------------- what is refused --------------------------------------------------


def test_what_can_not_be_followed_is_refused_with_what_to_do(model, tokenizer):
    with pytest.raises(ValueError, match="the source is ' \\\\n': there is nothing in it to look at; give a sentence"):
        trace(model, tokenizer, " \n")
    with pytest.raises(ValueError, match="the target is '': there is nothing"):
        trace(model, tokenizer, SOURCE, "")
    with pytest.raises(ValueError, match=r"source has \d+ pieces and the model takes 40; look at a part of it"):
        trace(model, tokenizer, "xyz " * 30)
    with pytest.raises(ValueError, match=r"target has \d+ pieces and the model takes 40"):
        trace(model, tokenizer, SOURCE, "xyz " * 30)
    with pytest.raises(TypeError, match="source is of type list"):
        trace(model, tokenizer, [SOURCE])


def test_a_model_of_another_family_or_without_output_projection_is_refused(model, tokenizer):
    tiny = dict(
        vocab_size=len(tokenizer), d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, pad_token_id=1, decoder_start_token_id=1,
    )  # fmt: skip
    for other in (MarianMTModel(MarianConfig(**tiny)), model.model):
        with pytest.raises(ValueError, match=f"model is a {type(other).__name__}.*load one with"):
            trace(other, tokenizer, SOURCE)


# ------------------------------------------------- as text and as data ----------------------------------------------


def test_the_text_has_every_step_of_the_first_layers_and_a_line_for_each_other_layer(model, tokenizer):
    found = trace(model, tokenizer, SOURCE, TARGET)
    text = str(found)
    for step in found.steps:
        is_other = ".1." in step.name or ".2." in step.name
        assert (f" {step.name} {step.shape}" in text.replace("to ", "")) != is_other or step.name.endswith("ffn.norm")
    assert text.count("The same steps with weights of its own") == 3  # encoder layers 1 and 2, decoder layer 1
    everything = found.to_text(layers="all")
    assert all(f"{step.title}   {step.name} {step.shape}\n" in everything for step in found.steps)


def test_the_text_shows_the_numbers_of_all_heads_of_a_small_matrix_and_that_rows_sum_to_one(model, tokenizer):
    found = trace(model, tokenizer, SOURCE, TARGET)
    step = found["decoder.0.cross_attn.weights"]
    text = str(found)
    block = text[text.index(f"{step.name} ") :].split("\n\n")[0]
    lines = block.splitlines()
    for head in range(2):
        start = lines.index(f"  head {head}")
        assert lines[start + 1].split() == [*step.columns, "sum"]
        for row, (label, values) in enumerate(zip(step.rows, step.values[head], strict=True)):
            shown = lines[start + 2 + row].split()
            assert (shown[0], shown[-1]) == (label, "1.0000")
            np.testing.assert_allclose([float(value) for value in shown[1:-1]], values, atol=5.1e-5)
    step.values[0, 1] /= 2
    assert " 0.5000\n" in str(found)[str(found).index(f"{step.name} ") :]  # the sum is one, and no mere word


def test_the_text_cuts_long_vectors_and_says_so(model, tokenizer):
    found = trace(model, tokenizer, SOURCE, TARGET)
    text = found.to_text(values=3)
    lines = text[text.index("encoder.0.self_attn.q_heads") :].split("\n\n")[0].splitlines()
    row = lines[lines.index("  head 0") + 1].split()
    assert row[0] == found["source.pieces"].rows[0]
    assert row[1:] == [*(f"{value:.4f}" for value in found["encoder.0.self_attn.q_heads"].values[0, 0, :3]), "..."]
    assert lines[-1] == "  head 1, head 2, head 3 likewise"
    assert "masked" in text[text.index("decoder.0.self_attn.masked") :].split("\n\n")[0]


def test_the_data_are_the_numbers_to_four_decimals_whole_where_columns_are_pieces(model, tokenizer):
    found = trace(model, tokenizer, SOURCE, TARGET)
    data = json.loads(json.dumps(found.to_data(values=5), allow_nan=False))
    assert [step["name"] for step in data["steps"]] == [step.name for step in found.steps]
    for shown, step in zip(data["steps"], found.steps, strict=True):
        numbers = np.array(shown["values"])
        is_cut = step.axes[-1] not in ("source_len", "target_len", "logit and probability")
        width = min(5, step.values.shape[-1]) if is_cut else step.values.shape[-1]
        assert numbers.shape == (*step.values.shape[:-1], width), step.name
        all_columns = step.values.shape[-1]
        assert shown["cut"] == (f"the first 5 of {all_columns} columns are shown" if width < all_columns else "")
        numbers = np.where(numbers < -1e30, step.values[..., :width], numbers)
        np.testing.assert_allclose(numbers, step.values[..., :width], atol=5.1e-5)
        assert shown["shape"] == step.shape
    weights = next(step for step in data["steps"] if step["name"] == "encoder.2.self_attn.weights")
    assert np.array(weights["sums"]).shape == (4, len(weights["rows"]))
    assert set(np.array(weights["sums"]).flat) == {1.0}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_what_is_masked_is_said_to_be_so_in_every_dtype(dtype, model, tokenizer):
    found = trace(model.to(dtype), tokenizer, SOURCE, TARGET)
    json.dumps(found.to_data(), allow_nan=False)
    text = str(found)
    table = text[text.index("decoder.0.self_attn.masked") :].split("\n\n")[0].split("head 0\n")[1].splitlines()
    assert [line.split().count("masked") for line in table[1:5]] == [3, 2, 1, 0]


def test_a_long_matrix_is_cut_as_vectors_are(model, tokenizer):
    text = trace(model, tokenizer, "the black cat drank", TARGET).to_text(values=3)
    lines = text[text.index("encoder.0.self_attn.weights") :].split("\n\n")[0].splitlines()
    row = lines[lines.index("  head 0") + 2].split()
    assert (len(row), row[4:]) == (6, ["...", "1.0000"])  # a label, three weights, the sum of all
    assert lines[-1] == "  head 1, head 2, head 3 likewise"


def test_an_unknown_step_or_way_to_show_it_is_refused(model, tokenizer):
    found = trace(model, tokenizer, SOURCE, TARGET)
    with pytest.raises(KeyError, match=r"no step 'encoder.7'.*such as source.pieces"):
        found["encoder.7"]
    with pytest.raises(ValueError, match="values=0 must be 1 or more"):
        found.to_text(values=0)
    with pytest.raises(ValueError, match="values=-1 must be 1 or more"):
        found.to_data(values=-1)
    with pytest.raises(ValueError, match="layers='last' must be 'first' or 'all'"):
        found.to_text(layers="last")
