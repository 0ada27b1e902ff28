"""Every attention that Transformers offers, chosen at load or later; the weights that only eager gives."""

import pytest
import torch
from small_models import (
    KINDS,
    SOURCE,
    SOURCE_MASK,
    TAUGHT,
    every_kind,
    logits_of,
    random_model,
    taught_model,
    written,
)
from transformers import AttentionInterface, AttentionMaskInterface, AutoModelForSeq2SeqLM
from transformers.masking_utils import sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

IMPLEMENTATIONS = ["eager", "sdpa", pytest.param("flex_attention", marks=pytest.mark.slow)]  # flex compiles its masks


@every_kind
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_the_attention_implementation_can_be_chosen_at_load_and_after_and_the_logits_stay(
    implementation, kind, tmp_path
):
    model = random_model(**KINDS[kind])
    model.save_pretrained(tmp_path)
    expected = logits_of(model)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, attn_implementation=implementation)
    model.set_attn_implementation(implementation)
    for switched in (loaded, model):
        for part in (switched, switched.get_encoder(), switched.get_decoder()):
            assert part.config._attn_implementation == implementation
        torch.testing.assert_close(logits_of(switched), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_every_attention_implementation_writes_what_was_taught(implementation, num_beams):
    model = taught_model()
    model.set_attn_implementation(implementation)
    assert written(model.generate(SOURCE, num_beams=num_beams)) == TAUGHT


def test_an_attention_function_that_a_user_registers_is_called_by_every_attention():
    shapes = []

    def remember(module, query, key, *arguments, **options):
        shapes.append((module.is_causal, *query.shape, key.shape[2]))
        return ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, *arguments, **options)

    AttentionInterface.register("remember", remember)
    AttentionMaskInterface.register("remember", sdpa_mask)
    model = random_model()
    expected = logits_of(model)
    model.set_attn_implementation("remember")
    assert torch.equal(logits_of(model), expected)
    of_encoder, of_decoder = [(False, 2, 4, 7, 6, 7)], [(True, 2, 2, 5, 12, 5), (False, 2, 2, 5, 12, 7)]
    assert shapes == 3 * of_encoder + 2 * of_decoder


@pytest.mark.parametrize("implementation, error", [("flash_attention_2", ImportError), ("flush", ValueError)])
def test_an_attention_that_is_not_there_is_refused_by_name_at_load_and_after(implementation, error, tmp_path):
    if implementation == "flash_attention_2" and torch.cuda.is_available():
        pytest.skip("FlashAttention may be installed where there is a GPU")
    model = random_model()
    model.save_pretrained(tmp_path)
    expected = logits_of(model)
    name = implementation.replace("_", "").replace("flashattention", "FlashAttention")
    with pytest.raises(error, match=name):
        model.set_attn_implementation(implementation)
    with pytest.raises(error, match=name):
        type(model).from_pretrained(tmp_path, attn_implementation=implementation)
    assert torch.equal(logits_of(model), expected)


@pytest.mark.parametrize("implementation", ["sdpa", "flex_attention"])
def test_attention_weights_asked_of_what_gives_none_are_refused_with_the_setting_that_helps(implementation):
    model = random_model()
    model.set_attn_implementation(implementation)
    message = rf"{implementation}.*set_attn_implementation\('eager'\)"
    with pytest.raises(ValueError, match=message):
        logits_of(model, output_attentions=True)
    with pytest.raises(ValueError, match=message):
        model.get_encoder()(SOURCE, output_attentions=True)
    model.set_attn_implementation("eager")
    assert len(model.get_encoder()(SOURCE, output_attentions=True).attentions) == 3


def test_the_steps_of_a_beam_search_put_together_are_the_attention_of_the_hypothesis_that_is_returned():
    model = random_model()
    model.set_attn_implementation("eager")
    found = model.generate(
        SOURCE,
        attention_mask=SOURCE_MASK,
        num_beams=4,
        max_length=9,
        output_attentions=True,
        output_scores=True,
        return_dict_in_generate=True,
    )
    with torch.no_grad():
        whole = model(
            SOURCE, attention_mask=SOURCE_MASK, decoder_input_ids=found.sequences[:, :-1], output_attentions=True
        )
    assert len(set(found.beam_indices.flatten().tolist())) > 2  # the hypotheses have changed their places
    for sentence in range(2):
        for step, beam in enumerate(found.beam_indices[sentence].tolist()):
            for layer in range(2 if beam >= 0 else 0):  # -1 behind the end
                at_step = found.cross_attentions[step][layer][beam, :, 0]  # (heads, source_len)
                expected = whole.cross_attentions[layer][sentence, :, step]
                torch.testing.assert_close(at_step, expected, atol=1e-5, rtol=0)
