"""Attention maps: of the translation that was returned, every head, and pictures of them."""

import numpy as np
import pytest
import torch

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, TinySeqTokenizer, attention

SOURCE = "the black cat drank the milk"


@pytest.fixture(scope="module")
def tokenizer():
    return TinySeqTokenizer.train([SOURCE, "el gato negro bebió la leche"] * 3, vocab_size=320)


@pytest.fixture
def model(tokenizer):
    torch.manual_seed(3)
    config = TinySeqConfig(
        vocab_size=len(tokenizer), d_model=24, encoder_layers=3, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=28, max_position_embeddings=40,
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    return TinySeqForConditionalGeneration(config)


def test_every_head_is_there_under_documented_shapes_and_rows_sum_to_one(model, tokenizer):
    found = attention.maps(model, tokenizer, SOURCE, target="el gato")
    source_len, target_len = len(found.source_pieces), len(found.target_pieces)
    assert found.encoder.shape == (3, 4, source_len, source_len)
    assert found.decoder.shape == (2, 2, target_len, target_len)
    assert found.cross.shape == (2, 2, target_len, source_len)
    for weights in (found.encoder, found.decoder, found.cross):
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert np.triu(found.decoder, k=1).max() == 0


def test_pieces_are_the_real_ones_with_end_and_begin(model, tokenizer):
    found = attention.maps(model, tokenizer, SOURCE, target="el gato")
    assert found.source_pieces == tokenizer.convert_ids_to_tokens(tokenizer(SOURCE)["input_ids"])
    assert found.source_pieces[-1] == found.target_pieces[-1] == "</s>"
    assert found.decoder_pieces == ["<pad>", *found.target_pieces[:-1]]


def test_maps_of_a_beam_search_are_those_of_the_translation_that_was_returned(model, tokenizer):
    inputs = tokenizer(SOURCE, return_tensors="pt")
    returned = model.eval().generate(**inputs, num_beams=4, max_new_tokens=7)
    found = attention.maps(model, tokenizer, SOURCE, num_beams=4, max_new_tokens=7)
    assert found.target_pieces == tokenizer.convert_ids_to_tokens(returned[0, 1:].tolist())
    text = tokenizer.decode(returned[0], skip_special_tokens=True)
    assert tokenizer(text_target=text)["input_ids"]  # the forced map below is of the same length at least
    eager = TinySeqForConditionalGeneration(model.config)
    eager.load_state_dict(model.state_dict())
    eager.set_attn_implementation("eager")
    output = eager.eval()(**inputs, decoder_input_ids=returned[:, :-1], output_attentions=True)
    expected = torch.stack([layer[0] for layer in output.cross_attentions]).detach().numpy()
    np.testing.assert_allclose(found.cross, expected, atol=1e-5)


def test_the_model_is_left_as_it_was(model, tokenizer):
    model.train()
    attention.maps(model, tokenizer, SOURCE, max_new_tokens=3)
    assert model.training
    assert model.config._attn_implementation == "sdpa"


def test_the_pictures_are_drawn_and_wrong_labels_refused(tmp_path):
    pytest.importorskip("matplotlib", reason="Matplotlib is an extra: pip install tinyseq[viz]")
    from tinyseq.visualization import draw_curve, draw_map

    draw_map(np.eye(3), ["a", "b", "</s>"], ["x", "y", "</s>"], tmp_path / "map.png")
    lines = [{"step": 1, "loss_per_target_token": 5.0}, {"step": 1, "valid_loss": 4.0, "valid_bleu": 12.0}]
    draw_curve(lines, tmp_path / "curve.png")
    for name in ("map.png", "curve.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"shape \(3, 3\)"):
        draw_map(np.eye(3), ["a"], ["x", "y", "z"], tmp_path / "no.png")
