"""The example that the texts on attention work through, with the numbers worked by hand.

"You are welcome" is translated to "De nada": embedding width 6, 2 heads, so that a query has size 3. The projections
are the identity, so that queries, keys and values are the word vectors themselves, and every number can be followed:

    You      1 0 0 | 0 2 0        head 1 sees the first three values, head 2 the last three
    are      0 1 0 | 1 0 0
    welcome  1 1 0 | 0 0 1
    De       1 0 0 | 0 0 1
    BEGIN    0 0 0 | 0 0 0

The scores are divided by the square root of 3. The three powers of e that come of it:

    e^(1/sqrt 3) = 1.7813        e^(2/sqrt 3) = 3.1731        e^(4/sqrt 3) = 10.0684
"""

from types import SimpleNamespace

import pytest
import torch

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, TinySeqModel, modeling_tinyseq

END, YOU, ARE, WELCOME, DE, NADA, BEGIN = range(7)  # BEGIN is <pad> too
SOURCE = torch.tensor([[YOU, ARE, WELCOME]])
TARGET = torch.tensor([[BEGIN, DE]])  # what the decoder reads to write "De nada"
WORD_VECTORS = [
    [9, 9, 9, 9, 9, 9],
    [1, 0, 0, 0, 2, 0],
    [0, 1, 0, 1, 0, 0],
    [1, 1, 0, 0, 0, 1],
    [1, 0, 0, 0, 0, 1],
    [9, 9, 9, 9, 9, 9],
    [0, 0, 0, 0, 0, 0],
]


def example_config(**changes) -> TinySeqConfig:
    return TinySeqConfig(
        vocab_size=7,
        d_model=6,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_layers=1,
        decoder_layers=1,
        encoder_ffn_dim=10,
        decoder_ffn_dim=8,
        position_embedding_type="learned",
        max_position_embeddings=16,
        scale_embedding=False,
        dropout=0.0,
        **changes,
    )


@pytest.fixture
def model() -> TinySeqModel:
    model = TinySeqModel(example_config()).eval()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        model.shared.weight.copy_(torch.tensor(WORD_VECTORS))
        for name, weight in model.named_parameters():
            if "embed_positions" in name:
                weight.zero_()
            elif name.endswith("_proj.weight"):
                weight.copy_(torch.eye(6))
    return model


@pytest.fixture
def trace(model, monkeypatch):
    """Runs the model and returns what went through each of its three attentions, by name."""
    layer, decoder_layer = model.encoder.layers[0], model.decoder.layers[0]
    names = {
        layer.self_attn: "encoder self-attention",
        decoder_layer.self_attn: "decoder self-attention",
        decoder_layer.encoder_attn: "cross-attention",
    }
    steps = {name: SimpleNamespace() for name in names.values()}
    attend = modeling_tinyseq.eager_attention

    def watched(module, query, key, value, attention_mask, scaling, **arguments):
        output, weights = attend(module, query, key, value, attention_mask, scaling, **arguments)
        scores = query @ key.transpose(-2, -1) * scaling
        vars(steps[names[module]]).update(
            query=query, key=key, value=value, scores=scores, mask=attention_mask, weights=weights, context=output
        )
        return output, weights

    monkeypatch.setattr(modeling_tinyseq, "eager_attention", watched)
    for block, name in names.items():
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):

            def keep(module, inputs, output, name=name, part=part):
                vars(steps[name]).update({f"{part}_input": inputs[0], f"{part}_output": output})

            getattr(block, part).register_forward_hook(keep)

    def run(source=SOURCE, target=TARGET):
        with torch.no_grad():
            outputs = model(source, decoder_input_ids=target, output_hidden_states=True, use_cache=False)
        return outputs, steps

    return run


def assert_numbers(tensor, expected):
    torch.testing.assert_close(tensor, torch.tensor(expected), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "name, query_len, key_len",
    [("encoder self-attention", 3, 3), ("decoder self-attention", 2, 2), ("cross-attention", 2, 3)],
)
def test_every_step_of_attention_has_the_shape_of_the_text(trace, name, query_len, key_len):
    outputs, steps = trace()
    step = steps[name]
    assert outputs.encoder_hidden_states[0].shape == (1, 3, 6)  # (batch, source_len, width)
    assert outputs.decoder_hidden_states[0].shape == (1, 2, 6)  # (batch, target_len, width)
    assert step.q_proj_output.shape == (1, query_len, 6)
    assert step.k_proj_output.shape == step.v_proj_output.shape == (1, key_len, 6)
    assert step.query.shape == (1, 2, query_len, 3)  # split: (batch, heads, length, query size)
    assert step.key.shape == step.value.shape == (1, 2, key_len, 3)
    assert step.scores.shape == step.weights.shape == (1, 2, query_len, key_len)
    assert step.context.shape == (1, query_len, 2, 3)
    assert step.out_proj_input.shape == (1, query_len, 6)  # merged
    assert step.out_proj_output.shape == (1, query_len, 6)
    assert_numbers(step.weights.sum(-1), torch.ones(1, 2, query_len).tolist())


def test_the_first_layer_reads_the_word_vectors(trace):
    outputs, _ = trace()
    assert_numbers(outputs.encoder_hidden_states[0], [[[1.0, 0, 0, 0, 2, 0], [0, 1, 0, 1, 0, 0], [1, 1, 0, 0, 0, 1]]])
    assert_numbers(outputs.decoder_hidden_states[0], [[[0.0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 1]]])


def test_heads_are_split_by_columns_and_merged_side_by_side(trace):
    _, steps = trace()
    step = steps["encoder self-attention"]
    assert_numbers(step.query[0, 0], [[1.0, 0, 0], [0, 1, 0], [1, 1, 0]])
    assert_numbers(step.query[0, 1], [[0.0, 2, 0], [1, 0, 0], [0, 0, 1]])
    for head, columns in enumerate([slice(0, 3), slice(3, 6)]):
        assert torch.equal(step.out_proj_input[:, :, columns], step.context[:, :, head])


def test_the_encoders_scores_are_dot_products_over_the_square_root_of_three(trace):
    _, steps = trace()
    root = 3**0.5
    assert_numbers(
        steps["encoder self-attention"].scores[0] * root,
        [
            [[1.0, 0, 1], [0, 1, 1], [1, 1, 2]],  # head 1: "You" is like "You" and "welcome"
            [[4.0, 0, 0], [0, 1, 0], [0, 0, 1]],  # head 2: every word is like itself, "You" most
        ],
    )


def test_the_encoders_weights_are_the_softmax_worked_by_hand(trace):
    _, steps = trace()
    assert_numbers(
        steps["encoder self-attention"].weights[0],
        [
            [
                [0.3904, 0.2192, 0.3904],  # 1.7813, 1, 1.7813, over their sum 4.5626
                [0.2192, 0.3904, 0.3904],
                [0.2645, 0.2645, 0.4711],  # 1.7813, 1.7813, 3.1731, over 6.7357
            ],
            [
                [0.8343, 0.0829, 0.0829],  # 10.0684, 1, 1, over 12.0684
                [0.2645, 0.4711, 0.2645],  # 1, 1.7813, 1, over 3.7813
                [0.2645, 0.2645, 0.4711],
            ],
        ],
    )


def test_the_context_of_a_word_is_the_weighted_sum_of_the_values(trace):
    _, steps = trace()
    # You, head 1: 0.3904 (1 0 0) + 0.2192 (0 1 0) + 0.3904 (1 1 0); head 2: 0.8343 (0 2 0) + 0.0829 (1 0 0) + ...
    you = [0.7808, 0.6096, 0.0, 0.0829, 1.6686, 0.0829]
    assert_numbers(steps["encoder self-attention"].out_proj_input[0, 0], you)
    assert_numbers(steps["encoder self-attention"].out_proj_output[0, 0], you)  # the output projection is the identity


def test_the_decoder_may_not_look_at_the_word_that_follows(trace):
    _, steps = trace()
    step = steps["decoder self-attention"]
    assert step.mask.shape == (1, 1, 2, 2)
    assert (step.mask[0, 0] == 0).tolist() == [[True, False], [True, True]]
    assert step.mask[0, 0, 0, 1] < -1e30
    assert_numbers(
        step.weights[0],
        [
            [[1.0, 0.0], [0.3595, 0.6405]],  # BEGIN sees itself; De: 1, 1.7813, over 2.7813
            [[1.0, 0.0], [0.3595, 0.6405]],
        ],
    )
    assert_numbers(step.out_proj_input[0], [[0.0] * 6, [0.6405, 0, 0, 0, 0, 0.6405]])


def test_cross_attention_asks_with_the_target_and_looks_at_the_source(model):
    """Two queries, three keys: BEGIN is like nothing, De is like You and welcome in head 1, like welcome in head 2."""
    output, weights = model.decoder.layers[0].encoder_attn(
        model.shared(TARGET), encoder_hidden_states=model.shared(SOURCE)
    )
    third = 1 / 3
    assert_numbers(
        weights[0].detach(),
        [
            [[third, third, third], [0.3904, 0.2192, 0.3904]],
            [[third, third, third], [0.2645, 0.2645, 0.4711]],
        ],
    )
    assert_numbers(
        output[0].detach(),
        [
            [2 * third, 2 * third, 0, third, 2 * third, third],  # the mean of the three words
            [0.7808, 0.6096, 0, 0.2645, 0.5289, 0.4711],
        ],
    )


def test_a_padded_source_gets_no_weight_on_the_padding_and_the_same_result(trace):
    whole, steps = trace()
    before = {name: vars(step).copy() for name, step in steps.items()}
    padded, steps = trace(source=torch.tensor([[YOU, ARE, WELCOME, BEGIN]]))
    for name in ("encoder self-attention", "cross-attention"):
        weights = steps[name].weights
        assert weights.shape == (1, 2, 4 if name.startswith("encoder") else 2, 4)
        assert weights[..., 3].abs().max() == 0
        torch.testing.assert_close(weights[:, :, : before[name]["weights"].shape[2], :3], before[name]["weights"])
    torch.testing.assert_close(padded.last_hidden_state, whole.last_hidden_state)


def test_from_begin_to_end_a_trained_model_writes_de_nada():
    model = TinySeqForConditionalGeneration(example_config())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    labels = torch.tensor([[DE, NADA, END]])
    for _ in range(60):
        optimizer.zero_grad()
        model(SOURCE, labels=labels).loss.backward()
        optimizer.step()
    assert model.eval().generate(SOURCE).tolist() == [[BEGIN, DE, NADA, END]]
