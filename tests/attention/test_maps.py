"""Attention maps: of the translation that was returned, every head, by pieces and by words."""

import random

import numpy as np
import pytest
import torch
from by_hand import KINDS, ByHand, random_model
from datasets import Dataset
from transformers import GenerationConfig

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, TinySeqTokenizer, attention
from tinyseq.attention import maps_of_batch, maps_of_nbest
from tinyseq.attention.maps import as_it_was, look
from tinyseq.attention.words import word_groups, word_text

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


def of_forced(model, tokenizer, source, target_ids):
    """Encoder, decoder and cross weights of one sentence whose output was these ids, by teacher forcing."""
    begun = torch.tensor([[model.config.decoder_start_token_id, *target_ids[:-1]]])
    eager = TinySeqForConditionalGeneration(model.config)
    eager.load_state_dict(model.state_dict())
    eager.set_attn_implementation("eager")
    inputs = tokenizer(source, return_tensors="pt")
    output = eager.eval()(**inputs, decoder_input_ids=begun, output_attentions=True)
    kinds = (output.encoder_attentions, output.decoder_attentions, output.cross_attentions)
    return [torch.stack([layer[0] for layer in layers]).detach().numpy() for layers in kinds]


def assert_same_maps(found, expected, atol=1e-5):
    for name, weights in zip(("encoder", "decoder", "cross"), expected, strict=True):
        np.testing.assert_allclose(getattr(found, name), weights, atol=atol, err_msg=name)


# ------------------------------------------------- the numbers ------------------------------------------------------


def test_every_head_is_there_under_documented_shapes_and_rows_sum_to_one(model, tokenizer):
    found = attention.maps(model, tokenizer, SOURCE, target="el gato")
    source_len, target_len = len(found.source_pieces), len(found.target_pieces)
    assert found.encoder.shape == (3, 4, source_len, source_len)
    assert found.decoder.shape == (2, 2, target_len, target_len)
    assert found.cross.shape == (2, 2, target_len, source_len)
    for weights in (found.encoder, found.decoder, found.cross):
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert np.triu(found.decoder, k=1).max() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_maps_are_what_numpy_makes_of_the_weights(kind, tokenizer):
    model = random_model(tokenizer, **KINDS[kind])
    found = attention.maps(model, tokenizer, "the cat", target="gato")
    source, target = tokenizer("the cat")["input_ids"], tokenizer("gato")["input_ids"]
    by_hand = ByHand(model, source, target)
    for name, block in (("encoder", "self_attn"), ("decoder", "self_attn"), ("cross", "cross_attn")):
        weights = getattr(found, name)
        for layer in range(len(weights)):
            stack = "encoder" if name == "encoder" else "decoder"
            expected = np.zeros_like(weights[layer])
            expected[model.config.heads_kept(name, layer)] = by_hand.values[f"{stack}.{layer}.{block}.weights"]
            np.testing.assert_allclose(weights[layer], expected, atol=1e-5, err_msg=f"{name} {layer}")
    log_probs = np.log(by_hand.values["decoding.probs"])
    assert found.score == pytest.approx(np.mean([log_probs[i, piece] for i, piece in enumerate(target)]), abs=1e-5)


def test_pieces_are_the_real_ones_with_end_and_begin(model, tokenizer):
    found = attention.maps(model, tokenizer, SOURCE, target="el gato")
    assert found.source_pieces == tokenizer.convert_ids_to_tokens(tokenizer(SOURCE)["input_ids"])
    assert found.source_pieces[-1] == found.target_pieces[-1] == "</s>"
    assert found.decoder_pieces == ["<pad>", *found.target_pieces[:-1]]
    assert (found.source, found.translation) == (SOURCE, "el gato")


@pytest.mark.parametrize("beams", [1, 4])
def test_the_maps_are_those_of_the_translation_that_was_returned(model, tokenizer, beams):
    inputs = tokenizer(SOURCE, return_tensors="pt")
    returned = model.eval().generate(**inputs, num_beams=beams, max_new_tokens=7)[0, 1:].tolist()
    found = attention.maps(model, tokenizer, SOURCE, num_beams=beams, max_new_tokens=7)
    assert found.target_pieces == tokenizer.convert_ids_to_tokens(returned)
    assert found.translation == tokenizer.decode(returned, skip_special_tokens=True)
    assert_same_maps(found, of_forced(model, tokenizer, SOURCE, returned))


@pytest.mark.parametrize("beams", [1, 3])
def test_in_a_padded_batch_each_sentence_has_the_maps_that_it_has_alone(model, tokenizer, beams):
    sources = ["the milk", SOURCE, "cat"]
    options = {"num_beams": beams, "max_new_tokens": 6}
    together = maps_of_batch(model, tokenizer, sources, **options)
    for source, found in zip(sources, together, strict=True):
        alone = attention.maps(model, tokenizer, source, **options)
        assert (found.source_pieces, found.target_pieces) == (alone.source_pieces, alone.target_pieces)
        assert_same_maps(found, (alone.encoder, alone.decoder, alone.cross))
        assert found.score == pytest.approx(alone.score, abs=1e-5)


def test_each_of_the_n_best_has_its_own_maps_in_the_order_of_the_search(model, tokenizer):
    inputs = tokenizer(SOURCE, return_tensors="pt")
    returned = model.eval().generate(**inputs, num_beams=4, num_return_sequences=3, max_new_tokens=5)[:, 1:]
    found = maps_of_nbest(model, tokenizer, SOURCE, 3, num_beams=4, max_new_tokens=5)
    assert len({tuple(one.target_pieces) for one in found}) == 3
    for one, ids in zip(found, returned.tolist(), strict=True):
        assert one.target_pieces == tokenizer.convert_ids_to_tokens(ids)
        assert_same_maps(one, of_forced(model, tokenizer, SOURCE, ids))


def test_a_hypothesis_that_ended_earlier_than_the_others_ends_with_its_end_token(model, tokenizer):
    end = tokenizer.eos_token_id
    ids = tokenizer(SOURCE)["input_ids"]
    rows = [[9, 8, end], [9, 8, 7, 6, end]]
    begun = [[model.config.decoder_start_token_id, *row] for row in rows]
    with as_it_was(model), torch.inference_mode():
        found = look(model.eval(), tokenizer, [SOURCE] * 2, [ids] * 2, begun)
    assert [one.cross.shape[2] for one in found] == [3, 5]
    for one, row in zip(found, rows, strict=True):
        assert_same_maps(one, of_forced(model, tokenizer, SOURCE, row))


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_the_model_is_left_as_it_was(model, tokenizer, implementation):
    model.train()
    model.set_attn_implementation(implementation)
    attention.maps(model, tokenizer, SOURCE, max_new_tokens=3)
    assert model.training
    assert model.config._attn_implementation == implementation


def test_dropout_does_not_blur_the_maps_of_a_model_that_is_being_trained(tokenizer):
    model = random_model(tokenizer, dropout=0.5, attention_dropout=0.5).train()
    one, two = (attention.maps(model, tokenizer, SOURCE, target="el gato") for _ in range(2))
    np.testing.assert_array_equal(one.cross, two.cross)


def test_a_translation_that_hits_the_length_limit_is_told(model, tokenizer, caplog):
    found = attention.maps(model, tokenizer, SOURCE, max_new_tokens=3)
    assert found.target_pieces[-1] != "</s>"
    assert "1 of 1 translations hit the length limit" in caplog.text


@pytest.mark.parametrize(
    "sources, targets, message",
    [
        ([SOURCE, " \u200b"], None, r"source 1 is ' .*': there is nothing in it to look at"),
        ([SOURCE], [""], "the target is '': there is nothing"),
        (["milk " * 30], None, r"the source has \d+ pieces and the model takes 40; look at a part of it: 'milk"),
        ([SOURCE], ["milk " * 30], r"the target has \d+ pieces and the model takes 40"),
        ([SOURCE], ["a", "b"], "there are 1 sources and 2 targets"),
    ],
)
def test_what_has_no_maps_is_refused(model, tokenizer, sources, targets, message):
    with pytest.raises(ValueError, match=message):
        maps_of_batch(model, tokenizer, sources, targets)


def test_the_beams_of_a_generation_config_are_those_of_the_search(model, tokenizer, monkeypatch):
    searched = []
    generate = model.generate
    monkeypatch.setattr(model, "generate", lambda **given: searched.append(given["num_beams"]) or generate(**given))
    options = GenerationConfig(num_beams=5, max_new_tokens=5)
    maps_of_nbest(model, tokenizer, SOURCE, 2, generation_config=options)
    assert searched == [5]


def test_more_hypotheses_than_beams_are_refused(model, tokenizer):
    with pytest.raises(ValueError, match="n=4 is more than num_beams=3, the translations that the search keeps"):
        maps_of_nbest(model, tokenizer, SOURCE, 4, num_beams=3)
    with pytest.raises(ValueError, match="n=0 must be 1 or more"):
        maps_of_nbest(model, tokenizer, SOURCE, 0)
    with pytest.raises(ValueError, match="num_return_sequences=2: n=3 says how many"):
        maps_of_nbest(model, tokenizer, SOURCE, 3, num_return_sequences=2)
    with pytest.raises(ValueError, match="n=4 is more than num_beams=3"):
        maps_of_nbest(model, tokenizer, SOURCE, 4, generation_config=GenerationConfig(num_beams=3))
    for drawn in ({"do_sample": True}, {"generation_config": GenerationConfig(do_sample=True)}):
        with pytest.raises(ValueError, match="do_sample=True: the n best are those of a beam search"):
            maps_of_nbest(model, tokenizer, SOURCE, 2, **drawn)
    with pytest.raises(ValueError, match=r"for several there is maps_of_nbest\(\)"):
        attention.maps(model, tokenizer, SOURCE, num_beams=3, num_return_sequences=2)


def test_the_search_of_the_n_best_does_not_sample(model, tokenizer):
    model.generation_config.do_sample = True
    one, two = (maps_of_nbest(model, tokenizer, SOURCE, 2, max_new_tokens=5) for _ in range(2))
    assert [found.target_ids for found in one] == [found.target_ids for found in two]


@pytest.mark.parametrize("how", ["option", "configuration"])
def test_another_end_token_ends_the_maps_where_it_ends_the_translation(model, tokenizer, how):
    sources = ["the milk", SOURCE]
    free = maps_of_batch(model, tokenizer, sources, max_new_tokens=8)
    end = free[0].target_ids[2]
    options = {"eos_token_id": [end]}
    if how == "configuration":
        options = {"generation_config": GenerationConfig.from_dict({**model.generation_config.to_dict(), **options})}
    found = maps_of_batch(model, tokenizer, sources, max_new_tokens=8, **options)
    assert found[0].target_ids == free[0].target_ids[: free[0].target_ids.index(end) + 1]
    assert found[0].cross.shape[2] == len(found[0].target_ids)


def test_decoding_begins_as_generate_begins(model, tokenizer):
    model.generation_config.decoder_start_token_id = 7
    for found in (
        attention.maps(model, tokenizer, SOURCE, max_new_tokens=4),
        attention.maps(model, tokenizer, SOURCE, target="el gato"),
    ):
        assert found.decoder_pieces[0] == tokenizer.convert_ids_to_tokens(7)
        model.config.decoder_start_token_id = 7
        assert_same_maps(found, of_forced(model, tokenizer, SOURCE, found.target_ids))


def test_a_part_that_was_frozen_stays_in_eval_mode(model, tokenizer):
    model.train()
    model.model.encoder.eval()
    attention.maps(model, tokenizer, SOURCE, max_new_tokens=3)
    assert not model.model.encoder.training
    assert model.model.decoder.training


def test_ids_that_the_tokenizer_does_not_know_have_a_name(tokenizer):
    model = random_model(tokenizer, vocab_size=len(tokenizer) + 9, pad_token_id=tokenizer.pad_token_id)
    with as_it_was(model), torch.inference_mode():
        begun = [[model.config.decoder_start_token_id, 9, len(tokenizer) + 3, 0]]
        (found,) = look(model, tokenizer, ["cat"], [tokenizer("cat")["input_ids"]], begun)
    assert found.of_words().target_pieces[1] == f"<id {len(tokenizer) + 3}>"


def test_what_is_no_text_is_refused_by_its_place(model, tokenizer):
    with pytest.raises(TypeError, match=r"texts\[1\] is of type int"):
        maps_of_batch(model, tokenizer, ["cat", 3])
    with pytest.raises(ValueError, match=r"texts\[0\] is no valid text: .* surrogate"):
        attention.maps(model, tokenizer, "caf\udce9")


def test_options_of_a_search_that_does_not_happen_are_refused(model, tokenizer):
    with pytest.raises(ValueError, match="num_beams: nothing is searched where the targets are given"):
        attention.maps(model, tokenizer, SOURCE, target="el gato", num_beams=3)


def test_words_are_not_made_of_pieces_of_another_kind():
    for pieces in (["the", "Ġc", "at", "Ġruns"], ["the", "play", "##ing", "##s"]):
        with pytest.raises(ValueError, match="is a piece of byte-level BPE or of WordPiece"):
            word_groups(pieces)


def test_one_text_is_no_batch(model, tokenizer):
    with pytest.raises(TypeError, match=r"for one sentence there is maps\(\)"):
        maps_of_batch(model, tokenizer, SOURCE)


# --------------------------------------------------- a task ----------------------------------------------------------


def test_who_learns_to_copy_looks_at_what_it_copies():
    """Letters in any order, each of which may come again: what comes next depends on the place, not on the letter."""
    rng = random.Random(5)

    def texts(number):
        return ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(3, 9))) for _ in range(number)]

    tokenizer = TinySeqTokenizer.train(texts(300), vocab_size=275)  # no room for a piece of two letters
    model = TinySeqForConditionalGeneration(
        TinySeqConfig(
            vocab_size=len(tokenizer), d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, dropout=0.0, max_position_embeddings=24,
        )
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(500):
        batch = tokenizer(texts(32), return_tensors="pt", padding=True)
        labels = batch.input_ids.masked_fill(batch.attention_mask == 0, -100)
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min((step + 1) / 50, 1)
        model(**batch, labels=labels, return_logits=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    new = texts(60)
    found = maps_of_batch(model, tokenizer, new)

    copied = [one for one in found if one.translation == one.source]
    assert len(copied) > 0.95 * len(new)
    assert all(len(one.source_pieces) == len(one.source) + 1 for one in copied)
    looked_at = [one.cross[0].argmax(-1) for one in copied]  # (heads, target pieces)
    on_diagonal = np.mean([(places == np.arange(places.shape[1])).mean(axis=1) for places in looked_at], axis=0)
    weight = np.mean([np.diagonal(one.cross[0], axis1=1, axis2=2).mean(axis=1) for one in copied], axis=0)
    assert max(on_diagonal) > 0.97
    assert max(weight) > 0.7  # where chance would be one in 4 to 10


# --------------------------------------------------- words -----------------------------------------------------------


@pytest.mark.parametrize(
    "pieces, words",
    [
        (["The", "▁c", "at", ".", "</s>"], ["The", "cat", ".", "</s>"]),
        (["▁", "didn", "'", "t", "▁go"], ["didn't", "go"]),
        (["▁Ana", "'", "s", "▁dog", "s"], ["Ana", "'s", "dogs"]),
        (["▁«", "oui", "»", "!", "!"], ["«", "oui", "»", "!", "!"]),
        (["▁c", "<0xC3>", "<0xB4>", "te"], ["côte"]),
        (["▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "▁ja"], ["😀", "ja"]),
        (["<0xE2>", "<0x82>"], ["�"]),
        (["a", "<0x2C>", "<0x31>", "<0x2D>", "<0x32>"], ["a", ",", "1", "-", "2"]),
        (["▁नम", "स्", "ते", "▁जी"], ["नमस्ते", "जी"]),
        (["▁می\u200c", "خواهم"], ["می\u200cخواهم"]),
        (["▁e", "\u0301t", "e"], ["e\u0301te"]),
        (["▁我们", "明天", "去", "学校", "。"], ["我们", "明天", "去", "学校", "。"]),
        (["▁GPU", "上", "▁7", "5"], ["GPU", "上", "75"]),
        (["▁ไป", "โรงเรียน"], ["ไป", "โรงเรียน"]),
        (["Ġunju"], ["Ġunju"]),  # a word of Maltese
        (["▁Ġunju", "▁u", "▁##"], ["Ġunju", "u", "##"]),
        (["a", "▁"], ["a", "▁"]),
        (["<pad>", "a", "b", "<pad>"], ["<pad>", "ab", "<pad>"]),
        (["▁<", "/", "s", ">", "</s>"], ["<", "/", "s", ">", "</s>"]),
    ],
)
def test_pieces_are_grouped_into_words(pieces, words):
    groups = word_groups(pieces)
    assert [word_text(pieces, group) for group in groups] == words
    assert [i for group in groups for i in group] == list(range(len(pieces)))


def test_of_a_word_the_columns_are_added_and_the_rows_averaged():
    found = attention.AttentionMaps(
        source="ab c", translation="x yz", score=-1.0, source_pieces=["▁a", "b", "▁c", "</s>"],
        target_pieces=["▁x", "▁y", "z", "</s>"], decoder_pieces=["<pad>", "▁x", "▁y", "z"],
        encoder=np.full((1, 1, 4, 4), 0.25),
        decoder=np.array([[[[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.2, 0.6, 0], [0.1, 0.2, 0.3, 0.4]]]]),
        cross=np.array([[[[0.1, 0.2, 0.3, 0.4], [0.4, 0.2, 0.3, 0.1], [0, 0, 0.5, 0.5], [0, 0, 0, 1.0]]]]),
    ).of_words()  # fmt: skip
    assert found.source_pieces == ["ab", "c", "</s>"]
    assert found.target_pieces == ["x", "yz", "</s>"]
    assert found.decoder_pieces == ["<pad>", "x", "yz"]
    np.testing.assert_allclose(found.encoder[0, 0], [[0.5, 0.25, 0.25]] * 3)
    np.testing.assert_allclose(found.decoder[0, 0], [[1, 0, 0], [0.35, 0.35, 0.3], [0.1, 0.2, 0.7]])
    np.testing.assert_allclose(found.cross[0, 0], [[0.3, 0.3, 0.4], [0.3, 0.4, 0.3], [0, 0, 1]])


def test_words_of_real_maps_fit_their_labels_and_rows_still_sum_to_one(model, tokenizer):
    found = attention.maps(model, tokenizer, "a tiny xylophone drank milk", max_new_tokens=9)
    words = found.of_words()
    assert words.source_pieces == ["a", "tiny", "xylophone", "drank", "milk", "</s>"]
    assert words.cross.shape[2:] == (len(words.target_pieces), len(words.source_pieces))
    assert words.decoder.shape[2:] == (len(words.target_pieces), len(words.decoder_pieces))
    for weights in (words.encoder, words.decoder, words.cross):
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


# ------------------------------------------------- other forms -------------------------------------------------------


def test_a_data_set_gets_the_maps_as_columns_of_arrays(model, tokenizer):
    sources = ["the milk", SOURCE]
    dataset = Dataset.from_dict({"en": sources}).map(
        lambda batch: attention.columns(model, tokenizer, batch["en"], max_new_tokens=4), batched=True, batch_size=2
    )
    for row, found in zip(
        dataset.with_format("numpy"), maps_of_batch(model, tokenizer, sources, max_new_tokens=4), strict=True
    ):
        assert list(row["source_pieces"]) == found.source_pieces
        assert row["translation"] == found.translation
        assert np.asarray(row["cross"].tolist()).shape == found.cross.shape
        assert_same_maps(found, [np.asarray(row[name].tolist()) for name in ("encoder", "decoder", "cross")], 1e-6)


def test_bertviz_gets_a_tensor_for_each_layer_and_the_labels_that_fit(model, tokenizer):
    found = attention.maps(model, tokenizer, SOURCE, target="el gato")
    arguments = found.to_bertviz("cross")
    assert set(arguments) == {"cross_attention", "encoder_tokens", "decoder_tokens"}
    assert [tuple(layer.shape) for layer in arguments["cross_attention"]] == [(1, *found.cross.shape[1:])] * 2
    assert torch.equal(arguments["cross_attention"][1][0], torch.from_numpy(found.cross[1]))
    assert (arguments["encoder_tokens"], arguments["decoder_tokens"]) == (found.source_pieces, found.decoder_pieces)
    assert set(found.to_bertviz("encoder")) == {"encoder_attention", "encoder_tokens"}
    assert set(found.to_bertviz("decoder")) == {"decoder_attention", "decoder_tokens"}


def test_bertviz_gets_all_three_only_from_a_model_of_which_it_leaves_nothing_out(model, tokenizer):
    found = attention.maps(model, tokenizer, SOURCE, target="el gato")
    with pytest.raises(ValueError, match=r"the encoder has \(3, 4\) and the decoder \(2, 2\); choose one of"):
        found.to_bertviz()
    even = random_model(tokenizer, encoder_layers=2, encoder_attention_heads=2)
    arguments = attention.maps(even, tokenizer, SOURCE, target="el gato").to_bertviz()
    assert {"encoder_attention", "decoder_attention", "cross_attention"} < set(arguments)
