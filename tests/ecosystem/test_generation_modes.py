"""Caches other than the usual ones, and ways to decode beyond greedy and beams: what works, and who refuses what not.

Where Transformers itself refuses, Marian shows it: it gets the same message.
"""

import itertools

import pytest
import torch
from small_models import END, PAD, SOURCE, TAUGHT, marian_model, random_model, taught_model, written
from transformers.cache_utils import DynamicCache, EncoderDecoderCache, QuantizedCache


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("backend", ["fp8", "quanto", "hqq"])
def test_a_quantised_cache_of_the_target_writes_the_same(backend, num_beams):
    if backend != "fp8":
        package = {"quanto": "optimum.quanto", "hqq": "hqq"}[backend]
        pytest.importorskip(package, reason=f"{package} is not installed: pip install optimum-quanto hqq")
    model = taught_model()
    config = model.config.get_text_config(decoder=True)
    group = (
        {} if backend == "fp8" else {"q_group_size": 12, "residual_length": 2, "nbits": 8 if backend == "hqq" else 4}
    )
    quantized = QuantizedCache(backend=backend, config=config, **group)
    cache = EncoderDecoderCache(quantized, DynamicCache(config=config))
    assert written(model.generate(SOURCE, cache=cache, num_beams=num_beams)) == TAUGHT
    assert quantized.get_seq_length() >= len(TAUGHT[0])  # it was used


def test_the_name_of_the_quantised_cache_is_refused_for_every_encoder_decoder():
    """Transformers 5.24 makes that cache for decoder-only models; the test above makes it by hand."""
    for model in (random_model(), marian_model()):
        with pytest.raises(ValueError, match="does not support the quantized cache"):
            model.generate(SOURCE, cache_implementation="quantized")


def test_speculative_decoding_with_a_smaller_model_from_the_prompt_or_with_early_exit_is_greedy_search():
    model = random_model()
    helper = random_model(encoder_layers=1, decoder_layers=1)
    expected = model.generate(SOURCE[:1], max_length=16).tolist()
    for arguments in (
        {"assistant_model": helper},
        {"assistant_model": model},
        {"prompt_lookup_num_tokens": 2},
        {"assistant_early_exit": 1},
    ):
        assert model.generate(SOURCE[:1], max_length=16, **arguments).tolist() == expected


class Received:
    def __init__(self):
        self.ids = []

    def put(self, ids):
        self.ids += ids.flatten().tolist()

    def end(self):
        self.ids.append("end")


def test_a_streamer_gets_every_piece_of_greedy_search_and_then_the_end():
    streamer = Received()
    sequences = random_model().generate(SOURCE[:1], max_length=16, streamer=streamer)
    assert streamer.ids == [*sequences[0].tolist(), "end"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"streamer": Received(), "num_beams": 4}, "`streamer` cannot be used with beam search"),
        ({"prompt_lookup_num_tokens": 2}, "assisted generate is only supported for batch_size = 1"),
    ],
)
def test_what_cannot_be_combined_is_refused_as_marian_refuses_it(arguments, message):
    for model in (random_model(), marian_model()):
        with pytest.raises(ValueError, match=message):
            model.generate(SOURCE, max_length=16, **arguments)


def test_constraints_on_what_is_written_hold():
    model = random_model()
    free = written(model.generate(SOURCE, max_length=16))
    banned = next(piece for row in free for piece in row if piece != END)
    found = written(
        model.generate(
            SOURCE,
            max_length=16,
            min_length=5,
            bad_words_ids=[[banned]],
            no_repeat_ngram_size=2,
            repetition_penalty=1.2,
            forced_eos_token_id=END,
        )
    )
    for row in found:
        assert banned not in row
        assert len(row) >= 4
        pairs = list(itertools.pairwise(row))
        assert len(pairs) == len(set(pairs))
        assert row[-1] == END


def test_transition_scores_of_beams_are_the_log_probabilities_of_a_forward_pass():
    model = random_model()
    found = model.generate(
        SOURCE, num_beams=3, max_length=9, output_scores=True, return_dict_in_generate=True, length_penalty=0.0
    )
    scores = model.compute_transition_scores(found.sequences, found.scores, found.beam_indices)
    with torch.no_grad():
        logits = model(SOURCE, decoder_input_ids=found.sequences[:, :-1]).logits
    expected = logits.log_softmax(-1).gather(-1, found.sequences[:, 1:, None])[..., 0]
    expected = expected.masked_fill(found.sequences[:, 1:] == PAD, 0)
    torch.testing.assert_close(scores, expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(scores.sum(-1), found.sequences_scores, atol=1e-4, rtol=0)
