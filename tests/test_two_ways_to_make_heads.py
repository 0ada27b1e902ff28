"""Two ways to make heads: weights go from one to the other and back unchanged, and give the same attention.

The oracle of the small projections is the model's own attention, which has a wide one and its own tests. Every size
differs: batch 2, query 5, key 7, heads 4, head_dim 6.
"""

import pytest
import torch
from two_ways_to_make_heads import HeadwiseAttention, joined, output_joined, output_per_head, per_head

from tinyseq import TinySeqConfig
from tinyseq.modeling_tinyseq import TinySeqAttention, TinySeqRotaryPositions

BATCH, QUERY_LEN, KEY_LEN, HEADS, HEAD_DIM, D_MODEL = 2, 5, 7, 4, 6, 24


def wide_attention(kind, **changes):
    config = TinySeqConfig(
        vocab_size=23, d_model=D_MODEL, encoder_layers=2, decoder_layers=1, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, **changes,
    )  # fmt: skip
    config._attn_implementation = "eager"
    attention = TinySeqAttention(config, kind, 0)
    with torch.no_grad():
        for weight in attention.parameters():
            weight.normal_(std=0.4)
    return attention


def inputs_of(kind, length):
    """Arguments of a call: the first sentence whole, the second with two pieces of padding; causal in a decoder."""
    keys = KEY_LEN if kind == "cross" else length
    allowed = torch.ones(BATCH, 1, length, keys, dtype=torch.bool)
    allowed[1, :, :, -2:] = False
    if kind == "decoder":
        allowed &= torch.ones(length, keys).tril().bool()
    arguments = {"attention_mask": allowed}
    if kind == "cross":
        arguments["encoder_hidden_states"] = torch.randn(BATCH, KEY_LEN, D_MODEL)
    return torch.randn(BATCH, length, D_MODEL), arguments


# ------------------------------------------------- weights ---------------------------------------------------------


@pytest.mark.parametrize("heads", [1, 4, 6])
def test_weights_go_to_heads_and_back_bit_for_bit(heads):
    weight, bias, output = torch.randn(24, 18), torch.randn(24), torch.randn(18, 24)
    back, back_bias = joined(per_head(weight, bias, heads))
    assert torch.equal(back, weight)
    assert torch.equal(back_bias, bias)
    assert torch.equal(output_joined(output_per_head(output, heads)), output)
    assert joined(per_head(weight, None, heads))[1] is None


def test_heads_go_to_a_wide_weight_and_back_bit_for_bit():
    parts = [(torch.randn(3, 11), torch.randn(3)) for _ in range(5)]
    weight, bias = joined(parts)
    assert (weight.shape, bias.shape) == ((15, 11), (15,))
    for part, (own_weight, own_bias) in zip(per_head(weight, bias, 5), parts, strict=True):
        assert torch.equal(part[0], own_weight)
        assert torch.equal(part[1], own_bias)
    outputs = [torch.randn(11, 3) for _ in range(5)]
    assert output_joined(outputs).shape == (11, 15)
    assert all(map(torch.equal, output_per_head(output_joined(outputs), 5), outputs))


def test_each_head_has_its_own_channels():
    weight = torch.arange(6.0)[:, None] * torch.ones(6, 2)  # the number of the row
    assert [part[:, 0].tolist() for part, _ in per_head(weight, None, 3)] == [[0, 1], [2, 3], [4, 5]]
    assert [part[0].tolist() for part in output_per_head(weight.T, 3)] == [[0, 1], [2, 3], [4, 5]]


def test_what_does_not_fit_is_refused():
    weight = torch.zeros(24, 18)
    with pytest.raises(ValueError, match="heads=5 does not divide the 24 rows"):
        per_head(weight, None, 5)
    with pytest.raises(ValueError, match="heads=0 does not divide the 18 columns"):
        output_per_head(weight, 0)
    with pytest.raises(ValueError, match=r"shapes \[\]; give one or more"):
        joined([])
    with pytest.raises(ValueError, match=r"\[\(3, 11\), \(4, 11\)\]"):
        output_joined([torch.zeros(3, 11), torch.zeros(4, 11)])
    with pytest.raises(ValueError, match="1 of 2 projections have a bias"):
        joined([(torch.zeros(3, 2), torch.zeros(3)), (torch.zeros(3, 2), None)])


# ------------------------------------------------- attention -------------------------------------------------------


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_small_projections_give_the_same_output_weights_and_gradients(kind, positions):
    wide = wide_attention(kind, position_embedding_type=positions)
    small = HeadwiseAttention.from_attention(wide)
    states, arguments = inputs_of(kind, QUERY_LEN)
    if positions == "rotary" and kind != "cross":
        arguments["positions"] = TinySeqRotaryPositions(wide.config, HEADS)(torch.arange(QUERY_LEN)[None])
    downstream = torch.randn(BATCH, QUERY_LEN, D_MODEL)
    found = {}
    for name, attention in (("wide", wide), ("small", small)):
        asking = states.clone().requires_grad_()
        output, weights = attention(asking, **arguments)
        (output * downstream).sum().backward()
        found[name] = {"output": output, "weights": weights, "states": asking.grad}

    assert found["small"]["weights"].shape == (BATCH, HEADS, QUERY_LEN, KEY_LEN if kind == "cross" else QUERY_LEN)
    for name, expected in found["wide"].items():
        torch.testing.assert_close(found["small"][name], expected, atol=1e-5, rtol=1e-5)
    for name in ("q_proj", "k_proj", "v_proj"):
        own = [getattr(head, name) for head in small.heads]
        weight, bias = joined([(projection.weight.grad, projection.bias.grad) for projection in own])
        projection = getattr(wide, name)
        torch.testing.assert_close(weight, projection.weight.grad, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(bias, projection.bias.grad, atol=1e-5, rtol=1e-5)
    weight = output_joined([head.out_proj.weight.grad for head in small.heads])
    torch.testing.assert_close(weight, wide.out_proj.weight.grad, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(small.out_bias.grad, wide.out_proj.bias.grad, atol=1e-5, rtol=1e-5)


def test_an_additive_mask_is_the_same_as_a_boolean_one():
    small = HeadwiseAttention.from_attention(wide_attention("cross"))
    states, arguments = inputs_of("cross", QUERY_LEN)
    expected, _ = small(states, **arguments)
    allowed = arguments.pop("attention_mask")
    output, _ = small(states, attention_mask=torch.where(allowed, 0.0, torch.finfo(torch.float32).min), **arguments)
    torch.testing.assert_close(output, expected)


@pytest.mark.parametrize("removed", [False, True])
def test_the_weights_come_back_bit_for_bit_into_a_wide_attention(removed):
    kept = {"encoder": [[0, 1, 3], [2]], "decoder": [[0]], "cross": [[1]]} if removed else None
    wide = wide_attention("encoder", kept_heads=kept)
    small = HeadwiseAttention.from_attention(wide)
    assert len(small.heads) == (3 if removed else HEADS)

    other = wide_attention("encoder", kept_heads=kept)
    other.load_state_dict(small.to_weights())

    for name, weight in wide.state_dict().items():
        assert torch.equal(other.state_dict()[name], weight), name


def test_it_is_a_copy_in_the_same_dtype():
    wide = wide_attention("encoder").to(torch.float64)
    small = HeadwiseAttention.from_attention(wide)
    assert small.out_bias.dtype == torch.float64
    before = wide.q_proj.weight.clone()
    with torch.no_grad():
        small.heads[0].q_proj.weight.zero_()
        small.to_weights()["k_proj.weight"].zero_()
    assert torch.equal(wide.q_proj.weight, before)
    assert small.heads[0].k_proj.weight.abs().sum() > 0


def test_a_causal_attention_without_a_mask_is_refused():
    small = HeadwiseAttention.from_attention(wide_attention("decoder"))
    with pytest.raises(ValueError, match="needs attention_mask"):
        small(torch.randn(BATCH, QUERY_LEN, D_MODEL))
