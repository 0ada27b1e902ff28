"""What a TinySeqConfig accepts, refuses, warns of, and writes to config.json."""

import json

import pytest
import torch
from transformers import AutoConfig

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration


def small_config(**changes) -> TinySeqConfig:
    options = dict(
        vocab_size=23,
        d_model=24,
        encoder_layers=3,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=2,
        encoder_ffn_dim=20,
        decoder_ffn_dim=28,
        max_position_embeddings=32,
    )
    return TinySeqConfig(**{**options, **changes})


# A valid value for every option, none of them the default: (option, value)
OTHER_VALUES = {
    "vocab_size": 23,
    "d_model": 24,
    "encoder_layers": 5,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 28,
    "activation_function": "gelu",
    "dropout": 0.25,
    "attention_dropout": 0.125,
    "activation_dropout": 0.0625,
    "normalize_before": True,
    "layer_norm_eps": 1e-6,
    "position_embedding_type": "rotary",
    "max_position_embeddings": 32,
    "rope_theta": 500.0,
    "scale_embedding": False,
    "kept_heads": {"encoder": [[0, 2], [0, 1, 2], [1], [2], [0, 1]], "decoder": [[0, 5], [3]], "cross": [[1, 4], [0]]},
    "tie_word_embeddings": False,
    "initializer_range": 0.02,
    "use_cache": False,
    "pad_token_id": 21,
    "eos_token_id": 20,
    "bos_token_id": 19,
    "decoder_start_token_id": 18,
}


# --------------------------------------------- what it writes and reads ----------------------------------------------


def test_the_list_of_other_values_above_names_every_declared_option():
    inherited_facts = {"is_encoder_decoder", "is_decoder"}
    assert set(OTHER_VALUES) == set(TinySeqConfig.__annotations__) - inherited_facts


@pytest.mark.parametrize("option", OTHER_VALUES)
def test_no_other_value_above_is_the_default(option):
    assert getattr(TinySeqConfig(), option) != OTHER_VALUES[option]


def test_every_declared_option_is_written_to_config_json_even_at_its_default(tmp_path):
    TinySeqConfig().save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert set(TinySeqConfig.__annotations__) <= set(written)
    assert written["model_type"] == "tinyseq"


@pytest.mark.parametrize("load", [TinySeqConfig, AutoConfig])
def test_every_option_comes_back_from_config_json(tmp_path, load):
    TinySeqConfig(**OTHER_VALUES).save_pretrained(tmp_path)
    loaded = load.from_pretrained(tmp_path)
    assert type(loaded) is TinySeqConfig
    assert {option: getattr(loaded, option) for option in OTHER_VALUES} == OTHER_VALUES


def test_a_second_save_writes_the_same_bytes(tmp_path):
    TinySeqConfig(**OTHER_VALUES).save_pretrained(tmp_path / "one")
    TinySeqConfig.from_pretrained(tmp_path / "one").save_pretrained(tmp_path / "two")
    assert (tmp_path / "one" / "config.json").read_bytes() == (tmp_path / "two" / "config.json").read_bytes()


def test_the_standard_names_of_transformers_read_the_encoders_sizes():
    config = small_config()
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (24, 3, 4)


def test_caches_get_the_decoders_depth_and_heads():
    decoder = small_config().get_text_config(decoder=True)
    assert (decoder.num_hidden_layers, decoder.num_attention_heads) == (2, 2)


def test_pad_is_the_last_id_and_starts_the_decoder_unless_told_otherwise():
    assert (small_config().pad_token_id, small_config().decoder_start_token_id) == (22, 22)
    assert (small_config(pad_token_id=3).pad_token_id, small_config(pad_token_id=3).decoder_start_token_id) == (3, 3)


# ----------------------------------------------------- refusals ------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [
        "vocab_size",
        "d_model",
        "encoder_layers",
        "decoder_layers",
        "encoder_attention_heads",
        "decoder_attention_heads",
        "encoder_ffn_dim",
        "decoder_ffn_dim",
        "max_position_embeddings",
    ],
)
@pytest.mark.parametrize("value", [0, -3])
def test_a_size_below_one_is_refused_with_the_option_the_value_and_the_least(option, value):
    with pytest.raises(ValueError, match=f"{option}={value} must be 1 or more"):
        small_config(**{option: value})


@pytest.mark.parametrize("option", ["dropout", "attention_dropout", "activation_dropout"])
@pytest.mark.parametrize("value", [-0.1, 1, 2.0])
def test_a_dropout_that_is_no_probability_below_one_is_refused(option, value):
    with pytest.raises(ValueError, match=f"{option}={value} is a probability: choose 0 <= {option} < 1"):
        small_config(**{option: value})


@pytest.mark.parametrize("option", ["layer_norm_eps", "rope_theta"])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_number_that_must_be_positive_is_refused_at_zero_and_below(option, value):
    with pytest.raises(ValueError, match=f"{option}={value} must be greater than 0"):
        small_config(**{option: value})


def test_a_negative_standard_deviation_is_refused():
    with pytest.raises(ValueError, match="initializer_range=-0.02 is a standard deviation: it can't be negative"):
        small_config(initializer_range=-0.02)


@pytest.mark.parametrize("option", ["encoder_attention_heads", "decoder_attention_heads"])
def test_a_width_that_the_heads_do_not_divide_is_refused_with_the_nearest_that_they_do(option):
    with pytest.raises(
        ValueError, match=f"d_model=26 is not divisible by {option}=4; choose a multiple of 4, such as"
    ):
        small_config(**{"d_model": 26, "encoder_attention_heads": 2, option: 4})


def test_the_width_proposed_for_indivisible_heads_is_one_that_works():
    with pytest.raises(ValueError, match="such as d_model=132") as refusal:
        small_config(d_model=130, encoder_attention_heads=12, decoder_attention_heads=12)
    assert "d_model=130" in str(refusal.value)
    assert small_config(d_model=132, encoder_attention_heads=12, decoder_attention_heads=12).d_model == 132


def test_rotary_positions_are_refused_with_heads_of_odd_size():
    with pytest.raises(ValueError, match="d_model=12 with encoder_attention_heads=4 gives heads of odd size 3"):
        small_config(d_model=12, position_embedding_type="rotary")


def test_an_unknown_kind_of_positions_is_refused_with_the_kinds_there_are():
    with pytest.raises(ValueError, match="'rotatory' must be one of sinusoidal, learned, rotary"):
        small_config(position_embedding_type="rotatory")


def test_an_unknown_activation_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="activation_function='rellu' is not known; choose one of .*gelu.*relu"):
        small_config(activation_function="rellu")


@pytest.mark.parametrize("option, value", [("d_model", "24"), ("dropout", "0.1"), ("normalize_before", 1)])
def test_a_value_of_the_wrong_type_is_refused_with_the_option(option, value):
    with pytest.raises(Exception, match=option):
        small_config(**{option: value})


def test_a_bad_value_in_a_saved_file_is_refused_on_loading(tmp_path):
    small_config().save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "dropout": 2.0}))
    with pytest.raises(ValueError, match="dropout=2.0"):
        TinySeqConfig.from_pretrained(tmp_path)


@pytest.mark.parametrize("option", ["pad_token_id", "decoder_start_token_id"])
def test_a_special_token_outside_the_vocabulary_is_refused_by_the_model_with_its_name(option):
    with pytest.raises(
        ValueError, match=f"{option}=23 is outside the vocabulary: with vocab_size=23, choose from 0 to 22"
    ):
        TinySeqForConditionalGeneration(small_config(**{option: 23}))


# ----------------------------------------------------- warnings ------------------------------------------------------


@pytest.mark.parametrize(
    "typo, option",
    [
        ("d_modle", "d_model"),
        ("encoder_layer", "encoder_layers"),
        ("drop_out", "dropout"),
        ("vocabsize", "vocab_size"),
    ],
)
def test_a_keyword_that_is_nearly_an_option_warns_with_the_nearest_name(caplog, typo, option):
    small_config(**{typo: 16})
    assert f"no option '{typo}'; did you mean '{option}'?" in caplog.text


def test_good_options_and_far_off_keywords_give_no_warning(caplog):
    TinySeqConfig(**OTHER_VALUES, my_own_note="trained on a boat")
    assert caplog.text == ""


def test_a_generation_setting_in_the_constructor_warns_where_it_belongs_and_has_no_effect(caplog, tmp_path):
    model = TinySeqForConditionalGeneration(small_config(num_beams=4, max_length=11))
    for name in ("num_beams", "max_length"):
        assert f"'{name}' says how to decode" in caplog.text
    assert "model.generation_config" in caplog.text
    assert not hasattr(model.config, "num_beams")
    assert (model.generation_config.num_beams, model.generation_config.max_length) == (None, 33)


def test_a_generation_setting_put_on_the_config_later_warns_and_saving_still_works(caplog, tmp_path):
    model = TinySeqForConditionalGeneration(small_config())
    model.generation_config.num_beams = 4
    model.config.num_beams = 5
    assert "'num_beams' says how to decode" in caplog.text
    model.save_pretrained(tmp_path)
    assert "num_beams" not in json.loads((tmp_path / "config.json").read_text())
    assert TinySeqForConditionalGeneration.from_pretrained(tmp_path).generation_config.num_beams == 4
    model.generate(torch.tensor([[5, 6, 0]]), max_new_tokens=3)


def test_the_special_tokens_and_use_cache_can_still_be_changed_after_construction(caplog):
    config = small_config()
    config.pad_token_id, config.eos_token_id, config.use_cache = 4, 5, False
    assert (config.pad_token_id, config.eos_token_id, config.use_cache) == (4, 5, False)
    assert caplog.text == ""


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"decoder": None}, r"kept_heads has 'encoder', 'cross'; it needs encoder, decoder, cross"),
        ({"encoder": [[0], [1]]}, r"kept_heads\['encoder'\] has 2 lists; it needs one for each of the 3 layers"),
        ({"cross": [[0], []]}, r"kept_heads\['cross'\]\[1\]=\[\] must be one or more of the heads 0 to 1"),
        ({"encoder": [[0], [1], [4]]}, r"kept_heads\['encoder'\]\[2\]=\[4\] must be one or more of the heads 0 to 3"),
        ({"decoder": [[1, 0], [0]]}, r"kept_heads\['decoder'\]\[0\]=\[1, 0\] .* rising"),
        ({"decoder": [[1, 1], [0]]}, r"kept_heads\['decoder'\]\[0\]=\[1, 1\] .* each once"),
    ],
)
def test_kept_heads_that_name_no_head_are_refused(changes, message):
    every = {"encoder": [[0], [1], [2]], "decoder": [[0], [1]], "cross": [[1], [0]], **changes}
    with pytest.raises(ValueError, match=message):
        small_config(kept_heads={name: layers for name, layers in every.items() if layers is not None})
