"""The model against oracles that are not its code, and the invariants that every sentence pair must keep.

Oracles: attention worked in loops, `torch.nn.functional`, Marian (post-norm) and Pegasus (pre-norm) with the same
weights, the formulas of the papers. Every size differs: batch 2, source 7, target 5, heads 4 and 2, layers 3 and 2.
"""

import cmath
import json
import math
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import fresh
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import (
    AutoModel,
    AutoModelForSeq2SeqLM,
    MarianConfig,
    MarianMTModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)
from transformers.modeling_outputs import BaseModelOutput

import tinyseq
from tinyseq import TinySeqConfig, TinySeqDecoder, TinySeqEncoder, TinySeqForConditionalGeneration, TinySeqModel
from tinyseq.losses_tinyseq import ByteDropout, cross_entropy, dropout, projection_cross_entropy
from tinyseq.modeling_tinyseq import (
    TinySeqAttention,
    TinySeqRotaryPositions,
    TinySeqSinusoidalPositions,
    eager_attention,
    rotate,
)

VOCAB, D_MODEL, END, PAD = 23, 24, 0, 22  # <pad> is BEGIN too
IGNORED = -100
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10, END], [4, 3, 2, END, PAD, PAD, PAD]])
SOURCE_MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]])
LABELS = torch.tensor([[5, 6, 7, 8, END], [9, 3, END, IGNORED, IGNORED]])
TARGET = torch.tensor([[PAD, 5, 6, 7, 8], [PAD, 9, 3, END, PAD]])  # LABELS behind BEGIN, -100 as <pad>

KINDS = {
    "post-norm sinusoidal": {},
    "post-norm learned": {"position_embedding_type": "learned"},
    "pre-norm sinusoidal": {"normalize_before": True},
    "pre-norm rotary": {"normalize_before": True, "position_embedding_type": "rotary"},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
both_implementations = pytest.mark.parametrize("implementation", ["sdpa", "eager"])


def small_config(**changes) -> TinySeqConfig:
    options = dict(
        vocab_size=VOCAB,
        d_model=D_MODEL,
        encoder_layers=3,
        decoder_layers=2,
        encoder_attention_heads=4,  # of size 6
        decoder_attention_heads=2,  # of size 12
        encoder_ffn_dim=20,
        decoder_ffn_dim=28,
        max_position_embeddings=32,
    )
    return TinySeqConfig(**{**options, **changes})


def random_model(implementation="sdpa", model_class=TinySeqForConditionalGeneration, **changes):
    """A model in eval mode in which no weight has its initial value, biases and LayerNorms included; <pad> stays 0."""
    model = model_class(small_config(**changes))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("layer_norm.weight"):
                weight.uniform_(0.5, 1.5)
            else:
                weight.normal_(std=0.3)
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[PAD] = 0
    model.set_attn_implementation(implementation)
    return model.eval()


@torch.no_grad()
def logits_of(model, source=SOURCE, target=TARGET, **arguments) -> torch.Tensor:
    return model(source, decoder_input_ids=target, **arguments).logits


def gradients_of(model, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


def assert_close(one, other, atol=1e-5):
    torch.testing.assert_close(one, other, atol=atol, rtol=0)


# ------------------------------------------------ attention (Eq. 1) --------------------------------------------------


def attention_by_hand(block, heads, asking, looked_at, allowed):
    """softmax(Q K^T / sqrt(head_dim)) V for one sentence, one query and one head at a time, in NumPy.

    asking (query_len, d_model), looked_at (key_len, d_model), allowed (query_len, key_len)
    -> output (query_len, d_model), weights (heads, query_len, key_len)
    """
    parameters = {name: value.detach().double().numpy() for name, value in block.named_parameters()}

    def project(name, states):
        return states.double().numpy() @ parameters[f"{name}.weight"].T + parameters[f"{name}.bias"]

    query, key, value = project("q_proj", asking), project("k_proj", looked_at), project("v_proj", looked_at)
    head_dim = query.shape[1] // heads
    merged = np.zeros_like(query)
    weights = np.zeros((heads, len(query), len(key)))
    for head in range(heads):
        columns = slice(head * head_dim, (head + 1) * head_dim)
        for i in range(len(query)):
            seen = [j for j in range(len(key)) if allowed[i, j]]
            scores = np.array([np.dot(query[i, columns], key[j, columns]) / math.sqrt(head_dim) for j in seen])
            probs = np.exp(scores) / np.exp(scores).sum()
            weights[head, i, seen] = probs
            merged[i, columns] = sum(prob * value[j, columns] for prob, j in zip(probs, seen, strict=True))
    return merged @ parameters["out_proj.weight"].T + parameters["out_proj.bias"], weights


@both_implementations
@pytest.mark.parametrize("which", ["encoder self-attention", "decoder self-attention", "cross-attention"])
def test_attention_is_softmax_of_scaled_scores_times_values_head_by_head(which, implementation):
    model = random_model(implementation).model
    source_states, target_states = torch.randn(2, 7, D_MODEL), torch.randn(2, 5, D_MODEL)
    if which == "encoder self-attention":
        block, heads, asking, looked_at = model.encoder.layers[1].self_attn, 4, source_states, source_states
        allowed = SOURCE_MASK.bool()[:, None, :].expand(2, 7, 7)
    elif which == "decoder self-attention":
        block, heads, asking, looked_at = model.decoder.layers[1].self_attn, 2, target_states, target_states
        allowed = torch.ones(2, 5, 5).tril().bool()
    else:
        block, heads, asking, looked_at = model.decoder.layers[1].encoder_attn, 2, target_states, source_states
        allowed = SOURCE_MASK.bool()[:, None, :].expand(2, 5, 7)

    output, weights = block(
        asking,
        encoder_hidden_states=looked_at if which == "cross-attention" else None,
        attention_mask=allowed[:, None],  # (batch, 1, query_len, key_len)
    )

    for row in range(2):
        expected, expected_weights = attention_by_hand(block, heads, asking[row], looked_at[row], allowed[row])
        np.testing.assert_allclose(output[row].detach().numpy(), expected, atol=1e-5)
        if implementation == "eager":
            np.testing.assert_allclose(weights[row].detach().numpy(), expected_weights, atol=1e-5)
    assert (weights is None) == (implementation == "sdpa")


@pytest.mark.parametrize("mask", ["none", "boolean", "additive"])
def test_eager_attention_equals_torchs_scaled_dot_product_attention(mask):
    query, key, value = torch.randn(2, 4, 5, 6), torch.randn(2, 4, 7, 6), torch.randn(2, 4, 7, 6)
    keep = torch.rand(2, 1, 5, 7) > 0.4
    keep[..., 0] = True
    attention_mask = {"none": None, "boolean": keep, "additive": torch.zeros(keep.shape).masked_fill(~keep, -1e9)}[
        mask
    ]
    output, weights = eager_attention(
        SimpleNamespace(training=False), query, key, value, attention_mask, scaling=1 / math.sqrt(6)
    )
    expected = functional.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask)
    assert_close(output, expected.transpose(1, 2))  # (batch, query_len, heads, head_dim)
    assert weights.shape == (2, 4, 5, 7)


@every_kind
def test_eager_and_sdpa_attention_give_the_same_logits(kind):
    model = random_model(**KINDS[kind])
    with_sdpa = logits_of(model)
    model.set_attn_implementation("eager")
    assert_close(logits_of(model), with_sdpa)


# ------------------------------------------- the whole model, by other code ------------------------------------------


def with_the_weights_of(model, other_class, other_config_class, may_lack=()):
    """A model of another library class with the same architecture and the same weights, by the same names."""
    ours = model.config.to_diff_dict()
    other = other_class(other_config_class(**{name: ours[name] for name in ours if name != "model_type"})).eval()
    report = other.load_state_dict(model.state_dict(), strict=False)
    assert report.unexpected_keys == []
    assert all(name.endswith(("final_logits_bias", *may_lack)) for name in report.missing_keys)
    return other


@pytest.mark.parametrize("activation, scale", [("relu", True), ("silu", False)])
def test_a_post_norm_model_gives_the_logits_of_marian_with_the_same_weights(activation, scale):
    model = random_model(activation_function=activation, scale_embedding=scale)
    marian = with_the_weights_of(model, MarianMTModel, MarianConfig, may_lack=["embed_positions.weight"])
    expected = logits_of(marian, attention_mask=SOURCE_MASK)
    assert expected.abs().max() > 1  # not a comparison of zeros
    assert_close(logits_of(model, attention_mask=SOURCE_MASK), expected)


def test_learned_positions_give_the_logits_of_marian_with_the_same_table():
    model = random_model(position_embedding_type="learned")
    marian = with_the_weights_of(model, MarianMTModel, MarianConfig)  # which then takes our table for its own
    assert_close(logits_of(model, attention_mask=SOURCE_MASK), logits_of(marian, attention_mask=SOURCE_MASK))


def test_a_pre_norm_model_gives_the_logits_of_pegasus_with_the_same_weights():
    model = random_model(normalize_before=True)
    pegasus = with_the_weights_of(
        model, PegasusForConditionalGeneration, PegasusConfig, may_lack=["embed_positions.weight"]
    )
    assert_close(logits_of(model, attention_mask=SOURCE_MASK), logits_of(pegasus, attention_mask=SOURCE_MASK))


def test_an_untied_model_gives_the_logits_of_a_tied_one_whose_matrix_it_has_three_times():
    tied = random_model()
    untied = TinySeqForConditionalGeneration(small_config(tie_word_embeddings=False)).eval()
    state = tied.state_dict()
    untied.load_state_dict({name: state[name] for name in untied.state_dict()})
    assert_close(logits_of(untied), logits_of(tied))


# ----------------------------------------------------- positions -----------------------------------------------------


@pytest.mark.parametrize("width", [24, 15])
def test_sinusoidal_table_is_the_papers_formula_sines_first(width):
    heads = 3
    model = TinySeqModel(small_config(d_model=width, encoder_attention_heads=heads, decoder_attention_heads=heads))
    sines = (width + 1) // 2
    expected = [
        [
            math.sin(p / 10000 ** (2 * i / width)) if i < sines else math.cos(p / 10000 ** (2 * (i - sines) / width))
            for i in range(width)
        ]
        for p in range(32)
    ]
    assert_close(model.encoder.embed_positions.table, torch.tensor(expected), atol=1e-6)
    assert_close(model.decoder.embed_positions.table, torch.tensor(expected), atol=1e-6)


def test_the_first_layer_gets_scaled_embedding_plus_position_counted_from_the_first_real_piece():
    model = random_model(position_embedding_type="learned").model
    source = torch.tensor([[PAD, PAD, 4, 3, END]])
    states = model.encoder(source, output_hidden_states=True).hidden_states[0]
    words, table = model.shared.weight, model.encoder.embed_positions.weight
    for column, position in [(2, 0), (3, 1), (4, 2)]:
        assert_close(states[0, column], words[source[0, column]] * math.sqrt(D_MODEL) + table[position])


def test_rotary_attention_is_the_complex_product_of_the_paper_and_cross_attention_is_not_turned():
    """RoFormer, Eq. 12-16: the pair (i, i + head_dim/2) is one complex number, times exp(1j * position * theta_i)."""
    model = random_model("eager", position_embedding_type="rotary", rope_theta=100.0).model
    outputs = model(
        SOURCE, decoder_input_ids=TARGET, output_attentions=True, output_hidden_states=True, use_cache=False
    )

    def turned(states, layer, heads, name):
        vectors = getattr(layer, name)(states).detach().double().numpy().reshape(len(states), heads, -1)
        half = vectors.shape[-1] // 2
        pairs = vectors[..., :half] + 1j * vectors[..., half:]  # (length, heads, head_dim / 2)
        angles = [[cmath.exp(1j * p * 100.0 ** (-i / half)) for i in range(half)] for p in range(len(states))]
        return pairs * np.array(angles)[:, None, :]

    states, block = outputs.encoder_hidden_states[0][0], model.encoder.layers[0].self_attn
    query, key = turned(states, block, 4, "q_proj"), turned(states, block, 4, "k_proj")
    scores = np.einsum("qhd,khd->hqk", query, key.conj()).real / math.sqrt(6)
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(outputs.encoder_attentions[0][0].detach().numpy(), expected, atol=1e-5)

    states, block = outputs.decoder_hidden_states[0][0], model.decoder.layers[0].self_attn
    query, key = turned(states, block, 2, "q_proj"), turned(states, block, 2, "k_proj")
    scores = np.einsum("qhd,khd->hqk", query, key.conj()).real / math.sqrt(12) + np.triu(np.full((5, 5), -1e9), 1)
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(outputs.decoder_attentions[0][0].detach().numpy(), expected, atol=1e-5)

    caught = {}
    handle = model.decoder.layers[0].encoder_attn.register_forward_hook(
        lambda module, args, kwargs, output: caught.update(asking=args[0], source=args[1]), with_kwargs=True
    )
    model(SOURCE, decoder_input_ids=TARGET)
    handle.remove()
    _, expected = attention_by_hand(
        model.decoder.layers[0].encoder_attn,
        2,
        caught["asking"][0].detach(),
        caught["source"][0].detach(),
        np.ones((5, 7)),
    )
    np.testing.assert_allclose(outputs.cross_attentions[0][0].detach().numpy(), expected, atol=1e-5)


def test_rotary_scores_depend_on_the_distance_and_not_on_the_place():
    positions = TinySeqRotaryPositions(small_config(), heads=4)
    query, key = torch.randn(1, 4, 5, 6), torch.randn(1, 4, 5, 6)
    here = torch.arange(5)[None]

    def scores(shift_of_queries, shift_of_keys):
        turned = rotate(query, *positions(here + shift_of_queries)), rotate(key, *positions(here + shift_of_keys))
        return turned[0] @ turned[1].transpose(-2, -1)

    assert_close(scores(11, 11), scores(0, 0))
    assert (scores(11, 0) - scores(0, 0)).abs().max() > 0.1


@every_kind
def test_a_model_turned_to_bfloat16_equals_one_loaded_in_bfloat16(kind, tmp_path):
    model = random_model(**KINDS[kind])
    model.save_pretrained(tmp_path)
    loaded = TinySeqForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.bfloat16).eval()
    source, target = torch.randint(1, PAD, (2, 31)), torch.randint(1, PAD, (2, 29))
    assert torch.equal(logits_of(model.to(torch.bfloat16), source, target), logits_of(loaded, source, target))


# ----------------------------------------------------- invariants ----------------------------------------------------


@every_kind
@both_implementations
def test_future_target_tokens_do_not_change_earlier_logits(kind, implementation):
    model = random_model(implementation, **KINDS[kind])
    changed = TARGET.clone()
    changed[:, 3:] = torch.tensor([[11, 12], [13, 14]])
    before, after = logits_of(model), logits_of(model, target=changed)
    assert_close(after[:, :3], before[:, :3], atol=1e-6)
    assert (after[:, 3:] - before[:, 3:]).abs().max() > 0.1


@every_kind
def test_every_source_token_can_change_every_targets_logits(kind):
    model = random_model(**KINDS[kind])
    before = logits_of(model, SOURCE[:1], TARGET[:1])
    for column in range(7):
        changed = SOURCE[:1].clone()
        changed[0, column] = 15
        difference = (logits_of(model, changed, TARGET[:1]) - before).abs().amax(-1)
        assert (difference > 1e-3).all()


@every_kind
@both_implementations
@pytest.mark.parametrize("mask_given", [True, False])
def test_padding_the_source_on_the_right_or_on_the_left_changes_nothing(kind, implementation, mask_given):
    model = random_model(implementation, **KINDS[kind])
    alone = logits_of(model, torch.tensor([[4, 3, 2, END]]), TARGET[1:])
    for padded in ([4, 3, 2, END, PAD, PAD, PAD], [PAD, PAD, PAD, 4, 3, 2, END], [PAD, 4, 3, 2, END, PAD, PAD]):
        source = torch.stack([SOURCE[0], torch.tensor(padded)])
        mask = {"attention_mask": source.ne(PAD).long()} if mask_given else {}
        assert_close(logits_of(model, source, **mask)[1:], alone)


@every_kind
@pytest.mark.parametrize("mask_given", [True, False])
def test_padding_the_target_on_the_right_changes_nothing(kind, mask_given):
    model = random_model(**KINDS[kind])
    alone = logits_of(model, SOURCE[1:], torch.tensor([[PAD, 9, 3]]))
    mask = {"decoder_attention_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])} if mask_given else {}
    padded = torch.tensor([[PAD, 5, 6, 7, 8], [PAD, 9, 3, PAD, PAD]])
    assert_close(logits_of(model, target=padded, **mask)[1:, :3], alone)


@every_kind
@both_implementations
def test_sentences_alone_and_in_any_order_give_what_the_batch_gives(kind, implementation):
    model = random_model(implementation, **KINDS[kind])
    together = logits_of(model)
    assert_close(logits_of(model, SOURCE[:1], TARGET[:1]), together[:1])
    assert_close(logits_of(model, SOURCE[1:, :4], TARGET[1:]), together[1:])
    assert_close(logits_of(model, SOURCE.flip(0), TARGET.flip(0)), together.flip(0))


@every_kind
@both_implementations
def test_decoding_step_by_step_with_a_cache_equals_one_pass_up_to_the_limit(kind, implementation):
    """Right-padded source, a prefix of 3 tokens, then one token at a time to the last position, 32."""
    model = random_model(implementation, **KINDS[kind])
    target = torch.cat([torch.full((2, 1), PAD), torch.randint(1, PAD, (2, 31))], dim=1)
    at_once = logits_of(model, target=target, attention_mask=SOURCE_MASK)
    encoder_outputs = model.get_encoder()(SOURCE, attention_mask=SOURCE_MASK)
    cache = None
    with torch.no_grad():
        for start, end in [(0, 3), *((position, position + 1) for position in range(3, 32))]:
            outputs = model(
                encoder_outputs=encoder_outputs,
                attention_mask=SOURCE_MASK,
                decoder_input_ids=target[:, start:end],
                cache=cache,
                use_cache=True,
            )
            cache = outputs.cache
            assert_close(outputs.logits, at_once[:, start:end])
    assert cache.get_seq_length() == 32
    assert [layer.keys.shape for layer in cache.cross_attention_cache.layers] == 2 * [(2, 2, 7, 12)]


@every_kind
def test_attention_rows_sum_to_one_over_real_tokens_and_are_zero_on_padding_and_future(kind):
    model = random_model("eager", **KINDS[kind])
    outputs = model(SOURCE, decoder_input_ids=TARGET, output_attentions=True)
    to_source = SOURCE_MASK[:, None, None, :].float()
    to_past = torch.ones(5, 5).tril()
    for maps, allowed, shape in [
        (outputs.encoder_attentions, to_source, (2, 4, 7, 7)),
        (outputs.decoder_attentions, to_past, (2, 2, 5, 5)),
        (outputs.cross_attentions, to_source, (2, 2, 5, 7)),  # target before source
    ]:
        assert len(maps) == (3 if maps is outputs.encoder_attentions else 2)
        for weights in maps:
            assert weights.shape == shape
            assert_close((weights * allowed).sum(-1), torch.ones(shape[:-1]), atol=1e-6)
            assert (weights * (1 - allowed)).abs().max() == 0


MASKS_OF_AN_EMPTY_SOURCE = {
    "made from <pad>": lambda keep, dtype: None,
    "2-D integers": lambda keep, dtype: keep.long(),
    "2-D boolean": lambda keep, dtype: keep,
    "4-D boolean": lambda keep, dtype: keep[:, None, None, :],
    "4-D lowest number": lambda keep, dtype: torch.zeros(2, 1, 1, 7, dtype=dtype).masked_fill(
        ~keep[:, None, None, :], torch.finfo(dtype).min
    ),
    "4-D minus infinity": lambda keep, dtype: torch.zeros(2, 1, 1, 7, dtype=dtype).masked_fill(
        ~keep[:, None, None, :], -math.inf
    ),
}


@both_implementations
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("form", MASKS_OF_AN_EMPTY_SOURCE)
def test_a_source_of_nothing_but_padding_stays_finite_and_leaves_its_neighbour_alone(implementation, dtype, form):
    """Attention of a row whose keys are all masked must not become NaN, forward or backward."""
    model = random_model(implementation).to(dtype)
    source = torch.stack([SOURCE[0], torch.full((7,), PAD)])
    mask = MASKS_OF_AN_EMPTY_SOURCE[form](source.ne(PAD), dtype)
    logits = model(source, attention_mask=mask, decoder_input_ids=TARGET).logits
    assert_close(
        logits[:1].detach(), logits_of(model, SOURCE[:1], TARGET[:1]), atol=1e-5 if dtype is torch.float32 else 0.02
    )
    assert logits.isfinite().all()
    gradients = gradients_of(model, logits.float().square().mean())
    assert all(gradient.isfinite().all() for gradient in gradients.values())


@both_implementations
@pytest.mark.parametrize("form", ["4-D boolean", "4-D lowest number", "4-D minus infinity"])
def test_a_4d_mask_hides_what_the_2d_mask_hides(implementation, form):
    model = random_model(implementation)
    mask = MASKS_OF_AN_EMPTY_SOURCE[form](SOURCE_MASK.bool(), torch.float32)
    assert_close(logits_of(model, attention_mask=mask), logits_of(model, attention_mask=SOURCE_MASK))


@every_kind
def test_a_source_longer_than_the_positions_is_refused_with_both_numbers_and_the_next_call_works(kind):
    model = random_model(**KINDS[kind])
    for length in (33, 40):
        source = torch.randint(1, PAD, (1, length))
        message = rf"the source has {length} pieces and the model takes 32 \(max_position_embeddings\)"
        with pytest.raises(ValueError, match=message):
            model(source, decoder_input_ids=TARGET[:1])
        with pytest.raises(ValueError, match=message):
            model(inputs_embeds=torch.zeros(1, length, D_MODEL), decoder_input_ids=TARGET[:1])
    assert logits_of(model, torch.randint(1, PAD, (2, 32))).isfinite().all()


def test_a_target_longer_than_the_positions_is_refused_in_one_pass_and_with_a_cache():
    model = random_model()
    with pytest.raises(ValueError, match="the target has 33 pieces and the model takes 32"):
        model(SOURCE[:1], decoder_input_ids=torch.full((1, 33), 5))
    cache = model(SOURCE[:1], decoder_input_ids=torch.full((1, 30), 5), use_cache=True).cache
    with pytest.raises(ValueError, match="the target has 33 pieces and the model takes 32"):
        model(SOURCE[:1], decoder_input_ids=torch.full((1, 3), 5), cache=cache)


# -------------------------------------------------------- loss -------------------------------------------------------


def expected_loss(logits, labels=LABELS, label_smoothing=0.0):
    """The mean over the real tokens, each picked by hand."""
    real = labels != IGNORED
    return functional.cross_entropy(logits[real], labels[real], label_smoothing=label_smoothing)


def test_the_decoder_reads_begin_and_the_labels_before_and_never_minus_100():
    model = random_model()
    labels = torch.tensor([[7, 9, END, IGNORED]])
    seen = []
    model.model.decoder.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    model(SOURCE[:1], labels=labels)
    assert seen[0].tolist() == [[PAD, 7, 9, END]]
    assert model.prepare_decoder_input_ids_from_labels(LABELS).tolist() == TARGET.tolist()
    assert model.prepare_decoder_input_ids_from_labels(torch.tensor([[7, END, IGNORED, IGNORED]])).tolist() == [
        [PAD, 7, END, PAD]
    ]


def test_the_decoder_begins_with_its_start_token_where_that_is_not_the_pad_token():
    model = random_model(decoder_start_token_id=17)
    assert model.prepare_decoder_input_ids_from_labels(LABELS).tolist() == [[17, 5, 6, 7, 8], [17, 9, 3, END, PAD]]


@pytest.mark.parametrize("model_class", [TinySeqModel, TinySeqForConditionalGeneration])
def test_a_missing_start_token_fails_at_construction_with_its_name(model_class):
    config = small_config()
    config.decoder_start_token_id = None
    with pytest.raises(ValueError, match="decoder_start_token_id is None"):
        model_class(config)


@pytest.mark.parametrize("return_logits", [True, False])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_over_real_tokens_of_unshifted_labels(label_smoothing, return_logits):
    model = random_model()
    outputs = model(SOURCE, labels=LABELS, label_smoothing=label_smoothing, return_logits=return_logits)
    assert_close(outputs.loss, expected_loss(logits_of(model), label_smoothing=label_smoothing), atol=1e-6)
    assert (outputs.logits is None) == (not return_logits)


def test_perfect_logits_have_no_loss():
    logits = torch.full((2, 5, VOCAB), -50.0).scatter(-1, LABELS.clamp(min=0)[..., None], 50.0)
    assert cross_entropy(logits, LABELS) == 0


@pytest.mark.parametrize("return_logits", [True, False])
def test_what_stands_where_the_label_is_ignored_does_not_matter(return_logits):
    model = random_model()
    decoder_input = TARGET.clone()
    decoder_input[1, 3:] = torch.tensor([11, 12])
    one = model(SOURCE, labels=LABELS, return_logits=return_logits).loss
    other = model(SOURCE, labels=LABELS, decoder_input_ids=decoder_input, return_logits=return_logits).loss
    assert_close(one, other, atol=1e-6)


@pytest.mark.parametrize("return_logits", [True, False])
def test_a_batch_without_any_label_has_loss_zero_and_finite_gradients(return_logits):
    model = random_model()
    loss = model(SOURCE, labels=torch.full((2, 5), IGNORED), return_logits=return_logits).loss
    assert loss == 0
    assert all(gradient.isfinite().all() for gradient in gradients_of(model, loss).values())


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("tied", [True, False])
def test_without_logits_loss_and_all_gradients_are_the_same_beyond_one_chunk(label_smoothing, tied):
    model = random_model(tie_word_embeddings=tied, max_position_embeddings=96)
    source = torch.randint(1, PAD, (9, 7))
    labels = torch.randint(0, PAD, (9, 83))
    labels[torch.rand(9, 83) < 0.2] = IGNORED
    assert (labels != IGNORED).sum() > 512  # ProjectionCrossEntropy.CHUNK
    losses, gradients = [], []
    for return_logits in (True, False):
        loss = model(source, labels=labels, label_smoothing=label_smoothing, return_logits=return_logits).loss
        losses.append(loss.detach())
        gradients.append(gradients_of(model, loss))
    assert_close(losses[1], losses[0], atol=1e-6)
    for name, expected in gradients[0].items():
        assert_close(gradients[1][name], expected, atol=1e-6)
        assert expected.abs().max() > 0 or name.endswith("k_proj.bias")  # which softmax can't see


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_under_bfloat16_autocast_the_loss_without_logits_stays_close(label_smoothing):
    model = random_model()
    exact = gradients_of(model, model(SOURCE, labels=LABELS, label_smoothing=label_smoothing).loss)
    with torch.autocast("cpu", torch.bfloat16):
        with_logits = model(SOURCE, labels=LABELS, label_smoothing=label_smoothing).loss
        without = model(SOURCE, labels=LABELS, label_smoothing=label_smoothing, return_logits=False).loss
    assert_close(without, with_logits, atol=0.03)
    gradients = gradients_of(model, without)
    for name in ("model.shared.weight", "model.decoder.layers.1.fc2.weight", "model.encoder.layers.0.fc1.weight"):
        assert gradients[name].dtype == torch.float32
        assert (gradients[name] - exact[name]).norm() < 0.05 * exact[name].norm()


def test_the_projected_loss_is_cross_entropy_of_the_projection_with_a_constant_logit():
    states, weight = torch.randn(6, 24), torch.randn(VOCAB, 24)
    labels = torch.tensor([3, IGNORED, 0, 21, IGNORED, 7])
    logits = states @ weight.T
    logits[:, PAD] = 0
    real = labels != IGNORED
    expected = functional.cross_entropy(logits[real], labels[real], reduction="sum", label_smoothing=0.2)
    assert_close(projection_cross_entropy(states, weight, labels, 0.2, PAD), expected)


class DoubledProjection(torch.nn.Linear):
    """A projection that is more than its weight, as an adapter or a quantiser makes it."""

    def forward(self, states):
        return 2 * super().forward(states)


def doubled_forward(projection):
    plain = projection.forward
    projection.forward = lambda states: 2 * plain(states)  # as what splits or offloads a model does


def doubled_class(projection):
    projection.__class__ = DoubledProjection


@pytest.mark.parametrize("doubled", [doubled_class, doubled_forward])
def test_the_loss_without_logits_is_that_of_what_the_projection_gives_not_of_its_weight_alone(doubled):
    model = random_model()
    weight_alone = model(SOURCE, labels=LABELS, return_logits=False).loss
    doubled(model.lm_head)
    outputs = model(SOURCE, labels=LABELS, return_logits=False)
    assert outputs.logits is None
    logits = 2 * torch.nn.functional.linear(
        model.model(SOURCE, decoder_input_ids=TARGET).last_hidden_state, model.lm_head.weight
    )
    logits = logits.index_fill(-1, torch.tensor([PAD]), 0)  # <pad> is never predicted
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), LABELS.flatten(), ignore_index=IGNORED)
    assert_close(outputs.loss, expected)
    assert (outputs.loss - weight_alone).abs() > 0.1


def test_asking_for_neither_logits_nor_loss_is_refused():
    with pytest.raises(ValueError, match="return_logits=False leaves only the loss, which needs labels"):
        random_model()(SOURCE, decoder_input_ids=TARGET, return_logits=False)


@pytest.mark.parametrize("count_type", [int, torch.tensor])
@pytest.mark.parametrize("return_logits", [True, False])
def test_micro_batches_of_unequal_length_add_up_to_one_big_batch(return_logits, count_type):
    """Targets of 2, 9, 30 and 4 tokens."""
    model = random_model()
    source = torch.randint(1, PAD, (4, 7))
    labels = torch.full((4, 30), IGNORED)
    for row, length in enumerate([2, 9, 30, 4]):
        labels[row, :length] = torch.randint(0, PAD, (length,))
    big = model(source, labels=labels, return_logits=return_logits).loss
    expected = gradients_of(model, big)
    model.zero_grad()
    total = 0
    for row in range(4):
        loss = model(
            source[row : row + 1],
            labels=labels[row : row + 1],
            num_items_in_batch=count_type(45),
            return_logits=return_logits,
        ).loss
        loss.backward()
        total += loss.detach()
    assert_close(total, big.detach())
    for name, weight in model.named_parameters():
        assert_close(weight.grad, expected[name], atol=1e-6)


def padded_batch(examples):
    longest_source = max(len(example["input_ids"]) for example in examples)
    longest_target = max(len(example["labels"]) for example in examples)
    source = torch.full((len(examples), longest_source), PAD)
    labels = torch.full((len(examples), longest_target), IGNORED)
    for row, example in enumerate(examples):
        source[row, : len(example["input_ids"])] = torch.tensor(example["input_ids"])
        labels[row, : len(example["labels"])] = torch.tensor(example["labels"])
    begin = torch.full((len(examples), 1), PAD)
    decoder_input_ids = torch.cat([begin, labels[:, :-1]], dim=1).masked_fill(labels == IGNORED, PAD)
    return {"input_ids": source, "labels": labels, "decoder_input_ids": decoder_input_ids}


def trainer_of(model, folder, **arguments):
    examples = [
        {"input_ids": [*range(1, 2 + n), END], "labels": [*range(3, 4 + 2 * n), END]} for n in range(1, 9)
    ]  # eight targets of 3 to 17 tokens
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(folder),
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        remove_unused_columns=False,
        **arguments,
    )
    return Seq2SeqTrainer(model, arguments, data_collator=padded_batch, train_dataset=examples, eval_dataset=examples)


def test_seq2seq_trainer_gives_the_same_weights_with_and_without_accumulation(tmp_path):
    """Each epoch is one update: of one batch of 8, or of 4 micro-batches of 2. SGD, as Adam would blow up rounding."""
    weights, losses, start = [], [], None
    for batch_size, accumulation in [(8, 1), (2, 4)]:
        torch.manual_seed(1)
        model = TinySeqForConditionalGeneration(small_config(dropout=0.0))
        start = model.state_dict()["model.encoder.layers.0.fc1.weight"].clone()
        trainer = trainer_of(
            model,
            tmp_path,
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=accumulation,
            num_train_epochs=3,
            learning_rate=0.5,
            optim="sgd",
            lr_scheduler_type="constant",
            logging_steps=1,
        )
        trainer.train()
        weights.append(model.state_dict())
        losses.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    assert len(losses[0]) == 3
    np.testing.assert_allclose(losses[1], losses[0], atol=2e-4)  # the log is rounded
    for name, expected in weights[0].items():
        assert_close(weights[1][name], expected)
    assert (weights[0]["model.encoder.layers.0.fc1.weight"] - start).abs().max() > 1e-3


def test_seq2seq_trainer_evaluates_with_label_smoothing_over_real_tokens(tmp_path):
    """The trainer takes the labels out of the batch; the loss must not lose them, nor count padding."""
    model = random_model()
    trainer = trainer_of(model, tmp_path, label_smoothing_factor=0.1, per_device_eval_batch_size=8)
    batch = padded_batch(trainer.eval_dataset)
    logits = logits_of(model, batch["input_ids"], batch["decoder_input_ids"])
    expected = expected_loss(logits, batch["labels"], label_smoothing=0.1)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected.item(), abs=1e-4)


@pytest.mark.parametrize("return_logits", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_the_embedding_of_pad_gets_no_gradient_and_stays_zero_in_training(return_logits, tied):
    model = TinySeqForConditionalGeneration(small_config(tie_word_embeddings=tied)).train()
    embeddings = [model.model.encoder.embed_tokens.weight, model.model.decoder.embed_tokens.weight]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    for _ in range(4):
        loss = model(SOURCE, labels=LABELS, label_smoothing=0.1, return_logits=return_logits).loss
        optimizer.zero_grad()
        loss.backward()
        assert all(weight.grad[PAD].abs().max() == 0 for weight in embeddings)
        optimizer.step()
    assert all(weight[PAD].abs().max() == 0 and weight[5].abs().max() > 0 for weight in embeddings)


@every_kind
@pytest.mark.parametrize("tied", [True, False])
def test_every_parameter_gets_a_gradient_from_the_loss(kind, tied):
    model = TinySeqForConditionalGeneration(small_config(tie_word_embeddings=tied, **KINDS[kind]))
    model(SOURCE, labels=LABELS).loss.backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []


def test_loss_and_teacher_forced_accuracy_move_together_on_a_copying_task():
    """With labels shifted twice, the loss falls while the accuracy does not."""
    model = TinySeqForConditionalGeneration(small_config(dropout=0.0, encoder_layers=1, decoder_layers=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    source = torch.cat([torch.randint(1, PAD, (32, 6)), torch.full((32, 1), END)], dim=1)
    losses, accuracies = [], []
    for _ in range(200):
        outputs = model(source, labels=source)
        optimizer.zero_grad()
        outputs.loss.backward()
        optimizer.step()
        losses.append(outputs.loss.item())
        accuracies.append((outputs.logits.argmax(-1) == source).float().mean().item())
    assert losses[0] > 2
    assert accuracies[0] < 0.3
    assert losses[-1] < 0.1
    assert accuracies[-1] > 0.98


# ------------------------------------------------------ dropout ------------------------------------------------------


def test_dropout_drops_the_share_asked_for_in_every_byte_of_a_draw_and_keeps_the_mean():
    values = torch.ones(2**20)
    dropped = dropout(values, 0.3, training=True)
    probability = 77 / 256  # the multiple of 1/256 nearest to 0.3
    assert sorted(dropped.unique().tolist()) == pytest.approx([0, 1 / (1 - probability)])
    deviation = math.sqrt(probability * (1 - probability) / 2**17)
    for place in range(8):  # eight masks come from each 64-bit number
        share = (dropped[place::8] == 0).float().mean().item()
        assert share == pytest.approx(probability, abs=5 * deviation)
    assert dropped.mean().item() == pytest.approx(1, abs=0.005)


def test_dropped_values_are_independent_of_their_neighbours():
    is_dropped = (dropout(torch.ones(2**20), 0.5, training=True) == 0).float() - 0.5
    for distance in (1, 2, 7, 8, 9, 64):
        assert (is_dropped[:-distance] * is_dropped[distance:]).mean().abs() < 0.25 * 5 / 2**10


@pytest.mark.parametrize("shape", [(3, 5, 7), (1,), (0, 4)])
def test_dropouts_gradient_passes_exactly_where_the_value_passed(shape):
    values = torch.randn(shape).add_(10).requires_grad_()
    dropped = dropout(values, 0.4, training=True)
    dropped.sum().backward()
    assert dropped.shape == shape
    assert_close(values.grad, (dropped / values).detach(), atol=1e-6)


def test_dropout_takes_values_that_do_not_lie_in_order_in_memory():
    values = torch.arange(1.0, 36.0).reshape(5, 7).T
    dropped = dropout(values, 0.5, training=True)
    assert ((dropped == 0) | (dropped == 2 * values)).all()
    assert 0 < (dropped == 0).sum() < 35


def test_dropout_is_the_identity_in_evaluation_and_at_probability_zero():
    values = torch.randn(3, 5)
    assert dropout(values, 0.5, training=False) is values
    assert dropout(values, 0.0, training=True) is values


def test_dropout_repeats_itself_under_the_same_seed_and_only_then():
    def drawn(seed):
        torch.manual_seed(seed)
        return dropout(torch.ones(200), 0.5, training=True)

    assert torch.equal(drawn(3), drawn(3))
    assert not torch.equal(drawn(3), drawn(4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dropout_keeps_the_type_of_its_values(dtype):
    values = torch.ones(40, dtype=dtype, requires_grad=True)
    dropped = ByteDropout.apply(values, 0.5)
    dropped.sum().backward()
    assert (dropped.dtype, values.grad.dtype) == (dtype, dtype)


@pytest.mark.parametrize("option", ["dropout", "attention_dropout", "activation_dropout"])
@both_implementations
def test_each_dropout_option_acts_in_training_and_only_there(option, implementation):
    model = random_model(implementation, **{"dropout": 0.0, option: 0.5})
    assert torch.equal(logits_of(model), logits_of(model))
    model.train()
    assert not torch.equal(logits_of(model), logits_of(model))


def test_without_any_dropout_training_and_evaluation_give_the_same_logits():
    model = random_model(dropout=0.0)
    in_evaluation = logits_of(model)
    assert torch.equal(logits_of(model.train()), in_evaluation)


@every_kind
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_gradient_checkpointing_gives_equal_gradients_with_dropout_on(kind, use_reentrant):
    model = random_model(
        **{"dropout": 0.2, "activation_dropout": 0.1, "attention_dropout": 0.1, **KINDS[kind]}
    ).train()
    torch.manual_seed(5)
    expected = gradients_of(model, model(SOURCE, labels=LABELS).loss)
    model.activation_checkpointing_enable({"use_reentrant": use_reentrant})
    torch.manual_seed(5)
    gradients = gradients_of(model, model(SOURCE, labels=LABELS).loss)
    for name, gradient in gradients.items():
        assert_close(gradient, expected[name])


# ---------------------------------------------- saving, loading, tying -----------------------------------------------


def tied_weights(model) -> list[torch.Tensor]:
    base = model.base_model
    weights = [base.shared.weight, base.encoder.embed_tokens.weight, base.decoder.embed_tokens.weight]
    return [*weights, model.lm_head.weight] if hasattr(model, "lm_head") else weights


def train_a_little(model, steps, seed=2):
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        model(SOURCE, labels=LABELS).loss.backward()
        optimizer.step()
    return model.eval()


def load_without_complaint(model_class, folder, **arguments):
    model, report = model_class.from_pretrained(folder, output_loading_info=True, **arguments)
    assert not any(report.values()), report
    return model.eval()


@every_kind
def test_a_trained_tied_model_comes_back_tied_and_equal_by_every_class(kind, tmp_path):
    model = train_a_little(random_model(**KINDS[kind]), steps=5)
    model.save_pretrained(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors",
        "configuration_tinyseq.py", "losses_tinyseq.py", "modeling_tinyseq.py", "push_tinyseq.py",
        "tokenization_tinyseq.py",
    }  # fmt: skip
    logits = logits_of(model)
    for model_class in (TinySeqForConditionalGeneration, AutoModelForSeq2SeqLM):
        loaded = load_without_complaint(model_class, tmp_path)
        assert type(loaded) is TinySeqForConditionalGeneration
        assert len({weight.data_ptr() for weight in tied_weights(loaded)}) == 1
        assert torch.equal(logits_of(loaded), logits)
    base = AutoModel.from_pretrained(tmp_path).eval()
    assert type(base) is TinySeqModel
    assert len({weight.data_ptr() for weight in tied_weights(base)}) == 1
    states = base(SOURCE, decoder_input_ids=TARGET).last_hidden_state
    assert torch.equal(states, model.model(SOURCE, decoder_input_ids=TARGET).last_hidden_state)


def test_a_loaded_model_takes_the_same_next_training_step(tmp_path):
    model = train_a_little(random_model(), steps=3)
    model.save_pretrained(tmp_path)
    loaded = load_without_complaint(TinySeqForConditionalGeneration, tmp_path)
    train_a_little(model, steps=1, seed=8)
    train_a_little(loaded, steps=1, seed=8)
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight)


def test_an_untied_model_keeps_separate_matrices_through_save_and_load(tmp_path):
    model = train_a_little(random_model(tie_word_embeddings=False), steps=2)
    model.save_pretrained(tmp_path)
    loaded = load_without_complaint(AutoModelForSeq2SeqLM, tmp_path)
    three = [loaded.model.encoder.embed_tokens, loaded.model.decoder.embed_tokens, loaded.lm_head]
    assert len({module.weight.data_ptr() for module in three}) == 3
    assert (three[0].weight - three[1].weight).abs().max() > 0.1
    assert torch.equal(logits_of(loaded), logits_of(model))


@every_kind
def test_the_state_dict_holds_weights_only_and_no_table(kind):
    keys = set(random_model(**KINDS[kind]).state_dict())
    learned = KINDS[kind].get("position_embedding_type") == "learned"
    assert any("position" in key for key in keys) == learned
    assert all(key.endswith((".weight", ".bias")) for key in keys)


@pytest.fixture(scope="module")
def fresh_process(tmp_path_factory):
    """What a new process finds in saved models of every kind, in fp32 and bf16: {kind: {what: array as a list}}."""
    folder = tmp_path_factory.mktemp("fresh")
    expected = {}
    for kind in KINDS:
        torch.manual_seed(7)
        model = random_model(**KINDS[kind])
        model.save_pretrained(folder / kind)
        expected[kind] = model
    script = """
import json, sys
import torch
import tinyseq
from transformers import AutoModel, AutoModelForSeq2SeqLM

torch.set_num_threads(1)
folder, source, target = sys.argv[1], *map(torch.tensor, json.loads(sys.argv[2]))
found = {}
for kind in json.loads(sys.argv[3]):
    path = f"{folder}/{kind}"
    junk = [torch.full((32, 24), float("nan")) for _ in range(50)]  # so that memory nobody wrote to is no row of zeros
    del junk
    model = AutoModelForSeq2SeqLM.from_pretrained(path).eval()
    half = AutoModelForSeq2SeqLM.from_pretrained(path, dtype=torch.bfloat16).eval()
    base = AutoModel.from_pretrained(path).eval()
    with torch.no_grad():
        found[kind] = {
            "logits": model(source, decoder_input_ids=target).logits.tolist(),
            "half": half(source, decoder_input_ids=target).logits.float().tolist(),
            "states": base(source, decoder_input_ids=target).last_hidden_state.tolist(),
            "tables": [
                m.table.tolist() for x in (model, half, base) for m in x.modules() if hasattr(m, "table")
            ],
        }
print(json.dumps(found))
"""
    arguments = [folder, json.dumps([SOURCE.tolist(), TARGET.tolist()]), json.dumps(list(KINDS))]
    environment = {**os.environ, "PYTHONPATH": str(Path(tinyseq.__file__).parents[1])}
    done = fresh.run([sys.executable, "-c", script, *arguments], env=environment)
    assert done.returncode == 0, done.stderr
    return expected, json.loads(done.stdout)


@every_kind
def test_a_new_process_gets_the_same_logits_states_and_position_tables_in_float32_and_bfloat16(fresh_process, kind):
    model, found = fresh_process[0][kind], fresh_process[1][kind]
    assert_close(torch.tensor(found["logits"]), logits_of(model))
    states = model.model(SOURCE, decoder_input_ids=TARGET).last_hidden_state.detach()
    assert_close(torch.tensor(found["states"]), states)
    half = model.to(torch.bfloat16)
    assert_close(torch.tensor(found["half"]), logits_of(half).float())
    sinusoidal = "sinusoidal" in kind
    assert len(found["tables"]) == (6 if sinusoidal else 0)  # two sides of three models
    for table in found["tables"]:
        assert torch.equal(torch.tensor(table), TinySeqSinusoidalPositions(small_config()).table)


def test_the_position_table_stays_float32_in_a_model_loaded_in_bfloat16(tmp_path):
    random_model().save_pretrained(tmp_path)
    loaded = load_without_complaint(TinySeqForConditionalGeneration, tmp_path, dtype=torch.bfloat16)
    assert loaded.model.encoder.embed_positions.table.dtype == torch.float32
    assert {weight.dtype for weight in loaded.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("dtype, atol", [(torch.float16, 0.02), (torch.bfloat16, 0.2)])
def test_a_model_loads_in_half_precision_and_stays_close(dtype, atol, tmp_path):
    model = random_model()
    model.save_pretrained(tmp_path)
    loaded = load_without_complaint(TinySeqForConditionalGeneration, tmp_path, dtype=dtype)
    assert_close(logits_of(loaded).float(), logits_of(model), atol=atol)


def test_the_weights_survive_language_model_to_bare_model_and_back(tmp_path):
    model = random_model()
    model.save_pretrained(tmp_path / "lm")
    AutoModel.from_pretrained(tmp_path / "lm").save_pretrained(tmp_path / "bare")
    back = load_without_complaint(AutoModelForSeq2SeqLM, tmp_path / "bare")
    for name, weight in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], weight), name


def test_a_misspelt_key_in_the_weights_is_reported_as_missing_and_unexpected(tmp_path):
    random_model().save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.encoder.layers.0.fc1.wieght"] = weights.pop("model.encoder.layers.0.fc1.weight")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    _, report = TinySeqForConditionalGeneration.from_pretrained(tmp_path, output_loading_info=True)
    assert report["missing_keys"] == {"model.encoder.layers.0.fc1.weight"}
    assert report["unexpected_keys"] == {"model.encoder.layers.0.fc1.wieght"}


@pytest.mark.parametrize("tied", [True, False])
def test_new_pieces_leave_the_old_rows_and_the_logits_as_they_were(tied, tmp_path):
    """Up by 5, save, load, generate, and down again."""
    model = random_model(tie_word_embeddings=tied)
    logits = logits_of(model)
    matrices = {name: weight.clone() for name, weight in model.state_dict().items() if weight.shape[0] == VOCAB}
    assert len(matrices) == (4 if tied else 3)

    model.resize_token_embeddings(VOCAB + 5)

    assert (model.config.vocab_size, model.lm_head.out_features) == (VOCAB + 5, VOCAB + 5)
    for name, old in matrices.items():
        new = model.state_dict()[name]
        assert new.shape == (VOCAB + 5, D_MODEL)
        assert torch.equal(new[:VOCAB], old)
    assert_close(logits_of(model)[..., :VOCAB], logits)
    if tied:
        assert len({weight.data_ptr() for weight in tied_weights(model)}) == 1
    else:
        assert model.model.encoder.embed_tokens is not model.model.decoder.embed_tokens
    with_new_piece = torch.tensor([[VOCAB + 4, 6, END]])
    assert model(with_new_piece, labels=with_new_piece).loss.isfinite()

    model.save_pretrained(tmp_path)
    loaded = load_without_complaint(AutoModelForSeq2SeqLM, tmp_path)
    assert torch.equal(logits_of(loaded), logits_of(model))
    assert torch.equal(loaded.generate(with_new_piece), model.generate(with_new_piece))

    model.resize_token_embeddings(VOCAB)
    assert model.config.vocab_size == VOCAB
    assert_close(logits_of(model), logits)
    assert model(SOURCE, labels=LABELS, return_logits=False).loss.isfinite()


@pytest.mark.parametrize("tied", [True, False])
def test_a_vocabulary_that_would_lose_a_special_token_is_refused_and_the_model_stays_as_it_was(tied):
    model = random_model(tie_word_embeddings=tied)
    logits = logits_of(model)
    with pytest.raises(ValueError, match=f"new_num_tokens={PAD} would cut off pad_token_id={PAD}; choose {PAD + 1}"):
        model.resize_token_embeddings(PAD)
    model.config.pad_token_id = model.config.decoder_start_token_id = 1
    model.config.eos_token_id = [0, 5]
    with pytest.raises(ValueError, match="new_num_tokens=5 would cut off eos_token_id=5"):
        model.resize_token_embeddings(5)
    model.config.pad_token_id = model.config.decoder_start_token_id = PAD
    assert_close(logits_of(model), logits)


def test_generation_settings_survive_in_generation_config_json_and_nowhere_else(tmp_path):
    """Saved over an older folder too."""
    model = random_model()
    model.generation_config.num_beams, model.generation_config.max_length = 2, 9
    model.save_pretrained(tmp_path)
    model.generation_config.num_beams, model.generation_config.length_penalty = 4, 0.7
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    settings = loaded.generation_config
    assert (settings.num_beams, settings.max_length, settings.length_penalty) == (4, 9, 0.7)
    assert not {"num_beams", "max_length", "length_penalty"} & set(json.loads((tmp_path / "config.json").read_text()))
    outputs = loaded.generate(SOURCE, return_dict_in_generate=True, output_scores=True)
    assert "sequences_scores" in outputs  # four beams were really used
    assert outputs.sequences.shape[1] <= 9


# -------------------------------------------------- parts and outputs ------------------------------------------------


def test_encoder_and_decoder_work_alone_and_as_parts():
    model = random_model().model
    encoded = model.encoder(SOURCE)
    decoded = model.decoder(TARGET, encoder_hidden_states=encoded[0], encoder_attention_mask=SOURCE_MASK)
    outputs = model(SOURCE, decoder_input_ids=TARGET)
    assert_close(encoded.last_hidden_state, outputs.encoder_last_hidden_state, atol=0)
    assert_close(decoded.last_hidden_state, outputs.last_hidden_state, atol=0)
    assert model.get_encoder() is model.encoder
    assert model.get_decoder() is model.decoder


@pytest.mark.parametrize("model_class", [TinySeqEncoder, TinySeqDecoder])
def test_encoder_and_decoder_can_be_made_saved_and_loaded_alone(model_class, tmp_path):
    model = random_model(model_class=model_class)
    model.save_pretrained(tmp_path)
    loaded = load_without_complaint(model_class, tmp_path)
    assert torch.equal(loaded(SOURCE).last_hidden_state, model(SOURCE).last_hidden_state)


def test_the_decoder_alone_without_a_source_leaves_cross_attention_out_and_is_causal():
    decoder = random_model(model_class=TinySeqDecoder)
    changed = TARGET.clone()
    changed[:, 3:] = 11
    one, other = decoder(TARGET).last_hidden_state, decoder(changed).last_hidden_state
    assert_close(one[:, :3], other[:, :3], atol=1e-6)


@every_kind
def test_embeddings_given_in_place_of_ids_give_the_same(kind):
    model = random_model(**KINDS[kind])
    words = model.get_input_embeddings()
    with torch.no_grad():
        outputs = model(
            inputs_embeds=words(SOURCE),
            attention_mask=SOURCE_MASK,
            decoder_inputs_embeds=words(TARGET),
        )
    assert torch.equal(outputs.logits, logits_of(model))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({}, "exactly one of input_ids and inputs_embeds"),
        ({"input_ids": SOURCE}, "exactly one of decoder_input_ids and decoder_inputs_embeds"),
        (
            {"input_ids": SOURCE, "inputs_embeds": torch.zeros(2, 7, D_MODEL), "decoder_input_ids": TARGET},
            "exactly one of input_ids and inputs_embeds",
        ),
    ],
)
def test_neither_or_both_of_ids_and_embeddings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        random_model()(**arguments)


@pytest.mark.parametrize(
    "form",
    [lambda states: (states,), lambda states: BaseModelOutput(last_hidden_state=states), lambda states: [states]],
)
def test_encoder_outputs_may_be_a_tuple_or_a_model_output(form):
    model = random_model()
    states = model.get_encoder()(SOURCE).last_hidden_state
    logits = model(attention_mask=SOURCE_MASK, encoder_outputs=form(states), decoder_input_ids=TARGET).logits
    assert torch.equal(logits, logits_of(model))


def test_hidden_states_are_the_first_input_and_every_layers_output():
    outputs = random_model()(SOURCE, decoder_input_ids=TARGET, output_hidden_states=True)
    assert [states.shape for states in outputs.encoder_hidden_states] == 4 * [(2, 7, D_MODEL)]
    assert [states.shape for states in outputs.decoder_hidden_states] == 3 * [(2, 5, D_MODEL)]
    assert torch.equal(outputs.encoder_hidden_states[-1], outputs.encoder_last_hidden_state)


@pytest.mark.parametrize("model_class", [TinySeqModel, TinySeqForConditionalGeneration])
def test_a_tuple_holds_what_the_model_output_holds(model_class):
    model = random_model("eager", model_class)
    arguments = dict(decoder_input_ids=TARGET, output_attentions=True, output_hidden_states=True, use_cache=False)
    named, plain = model(SOURCE, **arguments), model(SOURCE, **arguments, return_dict=False)
    assert isinstance(plain, tuple)
    assert len(plain) == len(named.to_tuple()) == 7
    assert torch.equal(plain[0], named[0])


def test_the_old_name_of_the_cache_is_accepted_with_a_warning():
    model = random_model()
    cache = model(SOURCE, decoder_input_ids=TARGET[:, :4], use_cache=True).cache
    with pytest.warns(FutureWarning, match="past_key_values.*cache"):
        outputs = model(SOURCE, decoder_input_ids=TARGET[:, 4:], past_key_values=cache)
    assert_close(outputs.logits.detach(), logits_of(model)[:, 4:])


def test_attention_weights_asked_of_sdpa_are_refused_with_the_setting_to_change():
    model = random_model("sdpa")
    for part, arguments in [
        (model, {"decoder_input_ids": TARGET}),
        (model.model, {"decoder_input_ids": TARGET}),
        (model.get_encoder(), {}),
        (model.get_decoder(), {}),
    ]:
        with pytest.raises(ValueError, match=r"attn_implementation='sdpa'.*set_attn_implementation\('eager'\)"):
            part(SOURCE, output_attentions=True, **arguments)


def test_fsdp_gathers_every_layer_alone_and_nothing_else():
    model = TinySeqForConditionalGeneration(small_config())
    planned = {name for name, _ in model.named_modules() if re.sub(r"\.\d+", ".*", name) in model.fsdp_plan}
    assert planned == {
        *(f"model.encoder.layers.{i}" for i in range(3)),
        *(f"model.decoder.layers.{i}" for i in range(2)),
    }


def test_a_model_can_be_made_on_the_meta_device_without_memory():
    with torch.device("meta"):
        model = TinySeqForConditionalGeneration(small_config())
    assert {tensor.device.type for tensor in [*model.parameters(), *model.buffers()]} == {"meta"}


def test_a_fresh_model_starts_as_documented():
    model = TinySeqForConditionalGeneration(small_config(d_model=96, vocab_size=500))
    assert model.model.shared.weight[:-1].std().item() == pytest.approx(96**-0.5, rel=0.05)
    assert model.model.shared.weight[-1].abs().max() == 0  # <pad>
    block = next(module for module in model.modules() if isinstance(module, TinySeqAttention))
    assert block.q_proj.weight.abs().max().item() == pytest.approx(math.sqrt(6 / (96 + 96)), rel=0.01)  # Xavier
    assert block.q_proj.bias.abs().max() == 0
    given = TinySeqForConditionalGeneration(small_config(d_model=96, vocab_size=500, initializer_range=0.5))
    assert given.model.shared.weight[:-1].std().item() == pytest.approx(0.5, rel=0.05)


def test_the_dummy_inputs_run_the_model():
    model = random_model()
    assert model(**model.dummy_inputs).logits.shape == (2, 3, VOCAB)
