"""`generate()`: the right hypothesis, whatever the batch, the cache and the beams; where it stops; what it says.

Oracles: arg max over full passes without a cache, every hypothesis enumerated, Marian with the same weights.
"""

import functools
import itertools
import json
import logging
import warnings

import pytest
import torch
import transformers
from transformers import MarianConfig, MarianMTModel

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, TinySeqTokenizer

VOCAB, D_MODEL, END, PAD = 23, 24, 0, 22  # <pad> is BEGIN too
# Three sources of unequal length
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10, END], [4, 3, 2, END, PAD, PAD, PAD], [11, 12, 13, 14, 15, END, PAD]])
SOURCE_MASK = SOURCE.ne(PAD).long()

KINDS = {
    "post-norm sinusoidal": {},
    "post-norm learned": {"position_embedding_type": "learned"},
    "pre-norm rotary": {"normalize_before": True, "position_embedding_type": "rotary"},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def small_config(**changes) -> TinySeqConfig:
    options = dict(
        vocab_size=VOCAB,
        d_model=D_MODEL,
        encoder_layers=3,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=2,
        encoder_ffn_dim=20,
        decoder_ffn_dim=28,
        max_position_embeddings=32,
    )
    return TinySeqConfig(**{**options, **changes})


def random_model(**changes) -> TinySeqForConditionalGeneration:
    """A model in eval mode with random weights, which as a rule never writes `</s>`."""
    model = TinySeqForConditionalGeneration(small_config(**changes))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not name.endswith("layer_norm.weight"):
                weight.normal_(std=0.25)
        model.get_input_embeddings().weight[model.config.pad_token_id] = 0
    return model.eval()


def learn(model, source, labels, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        model(source, labels=labels, return_logits=False).loss.backward()
        optimizer.step()
    return model.eval()


@functools.cache
def half_taught_model(kind) -> TinySeqForConditionalGeneration:
    """A model that copies badly: its outputs differ in length, and its hypotheses are close to each other."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TinySeqForConditionalGeneration(small_config(dropout=0.0, **KINDS[kind]))
        labels = torch.full((60, 20), -100)
        for row in range(60):
            length = row % 19 + 1
            labels[row, :length] = torch.randint(1, PAD, (length,))
            labels[row, length] = END
        return learn(model, labels.masked_fill(labels == -100, PAD), labels, steps=60)


def stripped(sequences) -> list[list[int]]:
    """The ids without BEGIN and without what follows `</s>`."""
    rows = [row[1:] for row in sequences.tolist()]
    return [row[: row.index(END) + 1] if END in row else row for row in rows]


# ---------------------------------------------- the right hypothesis ------------------------------------------------


@every_kind
def test_greedy_search_takes_the_arg_max_of_a_full_pass_at_every_step(kind):
    model = half_taught_model(kind)
    expected = []
    for row in SOURCE:
        target = torch.tensor([[PAD]])
        while target.shape[1] <= 12 and END not in target:
            logits = model(row[None], decoder_input_ids=target, use_cache=False).logits
            target = torch.cat([target, logits[:, -1:].argmax(-1)], dim=1)
        expected.append(target[0, 1:].tolist())
    assert stripped(model.generate(SOURCE, attention_mask=SOURCE_MASK, max_new_tokens=12)) == expected


def enumerated(model, source, longest, length_penalty):
    """Every hypothesis over words 1 to 4 of at most `longest` pieces, best first: [(score, pieces)]."""
    words = [1, 2, 3, 4]
    hypotheses = [
        (*body, *end)
        for length in range(longest + 1)
        for body in itertools.product(words, repeat=length)
        for end in [(END,)] + [()] * (length == longest)
        if 0 < length + len(end) <= longest
    ]
    scored = []
    for pieces in hypotheses:
        target = torch.tensor([[model.config.pad_token_id, *pieces]])
        with torch.no_grad():
            log_probs = model(source, decoder_input_ids=target[:, :-1]).logits.log_softmax(-1)
        total = log_probs.gather(-1, target[:, 1:, None]).sum().item()
        scored.append((total / len(pieces) ** length_penalty, pieces))
    return sorted(scored, reverse=True)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
def test_beam_search_with_enough_beams_finds_the_best_of_all_hypotheses_of_a_4_word_vocabulary(length_penalty):
    model = random_model(vocab_size=6, pad_token_id=5)
    source = torch.tensor([[3, 1, 2, END]])
    every = enumerated(model, source, longest=3, length_penalty=length_penalty)
    assert len(every) == 1 + 4 + 16 + 64  # </s>, w </s>, w w </s>, w w w
    outputs = model.generate(
        source,
        num_beams=85,
        num_return_sequences=7,
        max_new_tokens=3,
        length_penalty=length_penalty,
        early_stopping="never",
        suppress_tokens=[5],  # <pad> is no word
        return_dict_in_generate=True,
        output_scores=True,
    )
    assert stripped(outputs.sequences) == [list(pieces) for _, pieces in every[:7]]
    expected = torch.tensor([score for score, _ in every[:7]])
    torch.testing.assert_close(outputs.sequences_scores, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_generation_gives_the_ids_of_marian_with_the_same_weights(num_beams):
    model = random_model()
    ours = model.config.to_diff_dict()
    marian = MarianMTModel(MarianConfig(**{name: ours[name] for name in ours if name != "model_type"})).eval()
    assert not marian.load_state_dict(model.state_dict(), strict=False).unexpected_keys
    arguments = dict(attention_mask=SOURCE_MASK, num_beams=num_beams, max_new_tokens=15)
    expected = marian.generate(SOURCE, forced_eos_token_id=None, **arguments)
    assert stripped(model.generate(SOURCE, **arguments)) == stripped(expected)


@every_kind
def test_four_beams_give_equal_ids_and_scores_with_no_cache_a_dynamic_and_a_static_one(kind):
    """Beams that change places must take their cache with them."""
    model = half_taught_model(kind)
    outputs = [
        model.generate(
            SOURCE,
            attention_mask=SOURCE_MASK,
            num_beams=4,
            num_return_sequences=4,
            max_new_tokens=14,
            return_dict_in_generate=True,
            output_scores=True,
            **cache,
        )
        for cache in ({"use_cache": False}, {"use_cache": True}, {"cache_implementation": "static"})
    ]
    assert len(outputs[0].sequences) == 12
    for other in outputs[1:]:
        assert other.sequences.tolist() == outputs[0].sequences.tolist()
        torch.testing.assert_close(other.sequences_scores, outputs[0].sequences_scores, atol=1e-5, rtol=0)
    beams = outputs[0].beam_indices
    assert (beams[:, 1:] != beams[:, :-1])[beams[:, 1:] >= 0].any()  # they did change places


@every_kind
def test_greedy_search_gives_the_same_with_no_cache_a_dynamic_and_a_static_one(kind):
    model = half_taught_model(kind)
    expected = model.generate(SOURCE, attention_mask=SOURCE_MASK, use_cache=False).tolist()
    assert model.generate(SOURCE, attention_mask=SOURCE_MASK).tolist() == expected
    assert model.generate(SOURCE, attention_mask=SOURCE_MASK, cache_implementation="static").tolist() == expected


@every_kind
@pytest.mark.parametrize("num_beams", [1, 5])
def test_translations_do_not_depend_on_batch_size_order_or_a_given_mask(kind, num_beams):
    """Sources of 1 to 20 tokens."""
    model = half_taught_model(kind)
    sources = [[*torch.randint(1, PAD, (length,)).tolist(), END] for length in range(20)]

    def translate(batch_size, order, mask_given):
        found = {}
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            longest = max(len(sources[row]) for row in rows)
            batch = torch.tensor([sources[row] + [PAD] * (longest - len(sources[row])) for row in rows])
            outputs = model.generate(
                batch,
                num_beams=num_beams,
                max_new_tokens=8,
                return_dict_in_generate=True,
                output_scores=True,
                **({"attention_mask": batch.ne(PAD).long()} if mask_given else {}),
            )
            scores = outputs.sequences_scores if num_beams > 1 else torch.zeros(len(rows))
            found.update(zip(rows, zip(stripped(outputs.sequences), scores.tolist(), strict=True), strict=True))
        return [found[row] for row in range(20)]

    alone = translate(1, list(range(20)), mask_given=True)
    assert len({len(pieces) for pieces, _ in alone}) > 2
    for batch_size, order, mask_given in [(7, range(20), True), (20, range(19, -1, -1), True), (20, range(20), False)]:
        together = translate(batch_size, list(order), mask_given)
        assert [pieces for pieces, _ in together] == [pieces for pieces, _ in alone]
        assert [score for _, score in together] == pytest.approx([score for _, score in alone], abs=1e-5)


def test_a_source_padded_on_the_left_is_translated_the_same():
    model = random_model()
    left = torch.tensor([[PAD, PAD, PAD, 4, 3, 2, END]])
    arguments = dict(num_beams=3, max_new_tokens=12)
    expected = stripped(model.generate(torch.tensor([[4, 3, 2, END]]), **arguments))
    assert stripped(model.generate(left, attention_mask=left.ne(PAD).long(), **arguments)) == expected


def test_embeddings_or_encoder_outputs_in_place_of_the_ids_are_translated_the_same():
    model = random_model()
    arguments = dict(attention_mask=SOURCE_MASK, num_beams=2, max_new_tokens=9)
    expected = model.generate(SOURCE, **arguments).tolist()
    embeds = model.get_input_embeddings()(SOURCE)
    assert model.generate(inputs_embeds=embeds, **arguments).tolist() == expected
    encoder_outputs = model.get_encoder()(SOURCE, attention_mask=SOURCE_MASK)
    assert model.generate(encoder_outputs=encoder_outputs, **arguments).tolist() == expected


def test_a_given_beginning_is_kept_and_continued_as_greedy_search_would():
    model = half_taught_model("post-norm sinusoidal")
    whole = model.generate(SOURCE[:1], max_new_tokens=8)
    assert END not in whole[:, :8]
    continued = model.generate(SOURCE[:1], decoder_input_ids=whole[:, :4], max_new_tokens=5)
    assert continued[:, :9].tolist() == whole.tolist()


def test_sampling_repeats_itself_under_the_same_seed_and_only_then():
    model = random_model()

    def sampled(seed):
        torch.manual_seed(seed)
        return model.generate(SOURCE, do_sample=True, max_new_tokens=10).tolist()

    assert sampled(1) == sampled(1)
    assert sampled(1) != sampled(2)


# ------------------------------------------------- where it stops ---------------------------------------------------


@pytest.fixture(scope="module")
def recites_40_tokens():
    """A model that was taught one pair, its target 40 tokens long, and the pair."""
    torch.manual_seed(0)
    model = TinySeqForConditionalGeneration(
        small_config(dropout=0.0, encoder_layers=1, decoder_layers=1, max_position_embeddings=64)
    )
    source = torch.tensor([[5, 6, 7, END]])
    target = torch.cat([torch.randint(1, PAD, (1, 39)), torch.tensor([[END]])], dim=1)
    return learn(model, source, target, steps=300), source, target


@pytest.mark.parametrize("num_beams", [1, 4])
def test_without_a_length_argument_a_target_of_40_tokens_comes_out_whole(recites_40_tokens, num_beams):
    """Transformers' own default is 20 tokens."""
    model, source, target = recites_40_tokens
    assert stripped(model.generate(source, num_beams=num_beams)) == target.tolist()


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default")
def test_the_default_length_survives_saving_even_with_a_generation_config_that_names_none(recites_40_tokens, tmp_path):
    model, source, target = recites_40_tokens
    model.save_pretrained(tmp_path)
    assert stripped(TinySeqForConditionalGeneration.from_pretrained(tmp_path).generate(source)) == target.tolist()
    file = tmp_path / "generation_config.json"
    settings = json.loads(file.read_text())
    assert settings.pop("max_length") == 65  # 64 pieces behind BEGIN
    file.write_text(json.dumps(settings))
    assert stripped(TinySeqForConditionalGeneration.from_pretrained(tmp_path).generate(source)) == target.tolist()
    file.unlink()
    assert stripped(TinySeqForConditionalGeneration.from_pretrained(tmp_path).generate(source)) == target.tolist()


def test_a_model_that_never_ends_writes_as_many_pieces_as_the_longest_trained_target_has():
    model = random_model(eos_token_id=None)
    assert model.generate(SOURCE).shape == (3, 1 + 32)


@pytest.mark.parametrize("limit, length", [({"max_length": 20}, 20), ({"max_new_tokens": 20}, 21)])
def test_a_length_given_by_the_caller_or_in_the_settings_is_kept(recites_40_tokens, limit, length):
    model, source, _ = recites_40_tokens
    assert model.generate(source, **limit).shape[1] == length
    settings = transformers.GenerationConfig(pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=PAD, **limit)
    assert model.generate(source, generation_config=settings).shape[1] == length


@pytest.mark.parametrize("cache", [{}, {"cache_implementation": "static"}, {"use_cache": False}])
@pytest.mark.parametrize("limit, length", [({"max_length": 34}, 34), ({"max_new_tokens": 100}, 101)])
def test_a_limit_beyond_the_positions_is_refused_before_the_work(cache, limit, length):
    """Without this a static cache would look up a row that the position table does not have."""
    model = random_model(eos_token_id=None)
    message = (
        f"{length} pieces are asked for .* max_position_embeddings=32 writes at most 33; choose max_length=33 or less"
    )
    with pytest.raises(ValueError, match=message):
        model.generate(SOURCE, **limit, **cache)
    assert model.generate(SOURCE, max_length=33, **cache).shape == (3, 33)


def test_a_source_longer_than_the_positions_is_refused_by_generate_and_the_next_call_works():
    model = random_model()
    for length in (33, 40):
        with pytest.raises(ValueError, match=f"the source has {length} pieces and the model takes 32"):
            model.generate(torch.randint(1, PAD, (2, length)))
    assert len(model.generate(SOURCE)) == 3


@pytest.mark.parametrize("num_beams", [1, 4])
def test_outputs_of_a_model_taught_ten_pairs_stop_by_themselves(num_beams):
    """Own tokenizer; labels end in </s>, also where they were cut; a limit of 100 is never reached."""
    pairs = [("one dog", "ein Hund"), ("two cats", "zwei Katzen"), ("a red house", "ein rotes Haus")]
    pairs += [(f"number {n}", f"die Zahl {n}") for n in range(7)]
    tokenizer = TinySeqTokenizer.train([text for pair in pairs for text in pair], vocab_size=320)
    assert tokenizer.pad_token_id != tokenizer.eos_token_id
    batch = tokenizer(
        [source for source, _ in pairs], text_target=[target for _, target in pairs], padding=True, return_tensors="pt"
    )
    labels = batch["labels"].masked_fill(batch["labels"] == tokenizer.pad_token_id, -100)
    assert all(row[row != -100][-1] == tokenizer.eos_token_id for row in labels)
    model = TinySeqForConditionalGeneration(
        small_config(
            vocab_size=len(tokenizer),
            d_model=48,
            encoder_layers=1,
            decoder_layers=1,
            dropout=0.0,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            max_position_embeddings=128,
        )
    )
    learn(model, batch["input_ids"], labels, steps=120)
    outputs = model.generate(
        batch["input_ids"], attention_mask=batch["attention_mask"], num_beams=num_beams, max_new_tokens=100
    )
    assert outputs.shape[1] < 20
    assert tokenizer.batch_decode(outputs, skip_special_tokens=True) == [target for _, target in pairs]


# -------------------------------------------------- what it says ----------------------------------------------------


@pytest.fixture
def complaints():
    """Collects every warning and every logged message from here on, those that are given only once included."""
    messages = []

    class Keep(logging.Handler):
        def emit(self, record):
            messages.append(record.getMessage())

    handler = Keep(level=logging.WARNING)
    loggers = [logging.getLogger(), transformers.utils.logging.get_logger()]
    logging.Logger.warning_once.cache_clear()
    for logger in loggers:
        logger.addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield lambda: messages + [str(warning.message) for warning in caught]
    for logger in loggers:
        logger.removeHandler(handler)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"max_new_tokens": 7},
        {"max_length": 7},
        {"num_beams": 4},
        {
            "num_beams": 4,
            "max_new_tokens": 7,
            "num_return_sequences": 3,
            "length_penalty": 0.6,
            "early_stopping": True,
        },
        {"do_sample": True, "temperature": 0.7, "top_k": 5, "top_p": 0.9, "max_new_tokens": 7},
        {"max_new_tokens": 7, "return_dict_in_generate": True, "output_scores": True},
    ],
    ids=lambda arguments: " ".join(arguments) or "nothing",
)
def test_normal_calls_print_no_warning(recites_40_tokens, complaints, arguments, tmp_path):
    model, source, _ = recites_40_tokens
    model.save_pretrained(tmp_path)
    loaded = TinySeqForConditionalGeneration.from_pretrained(tmp_path)
    loaded.generate(source, attention_mask=torch.ones_like(source), **arguments)
    assert complaints() == []


def test_the_complaints_fixture_hears_transformers_and_tinyseq(complaints):
    random_model(d_modle=3).generate(SOURCE, temperature=0.5)
    heard = " ".join(complaints())
    assert "d_modle" in heard
    assert "temperature" in heard


@pytest.mark.parametrize("arguments", [{}, {"num_beams": 4}, {"return_dict_in_generate": True}])
def test_attention_weights_asked_of_sdpa_are_refused_with_the_setting_to_change(arguments):
    """Not empty lists, and not an IndexError."""
    model = random_model()
    with pytest.raises(ValueError, match=r"attn_implementation='sdpa'.*set_attn_implementation\('eager'\)"):
        model.generate(SOURCE, output_attentions=True, **arguments)


def test_with_eager_attention_beam_search_returns_the_maps_of_every_step_in_the_documented_shapes():
    model = random_model()
    model.set_attn_implementation("eager")
    outputs = model.generate(
        SOURCE,
        attention_mask=SOURCE_MASK,
        num_beams=4,
        max_new_tokens=6,
        output_attentions=True,
        return_dict_in_generate=True,
    )
    assert [weights.shape for weights in outputs.encoder_attentions] == 3 * [(3, 4, 7, 7)]
    assert len(outputs.cross_attentions) == len(outputs.decoder_attentions) == 6
    for step, (to_source, to_target) in enumerate(
        zip(outputs.cross_attentions, outputs.decoder_attentions, strict=True), start=1
    ):
        assert [weights.shape for weights in to_source] == 2 * [(3 * 4, 2, 1, 7)]
        assert [weights.shape for weights in to_target] == 2 * [(3 * 4, 2, 1, step)]
    real = SOURCE_MASK.repeat_interleave(4, dim=0)[:, None, None, :]
    for weights in outputs.cross_attentions[-1]:
        torch.testing.assert_close((weights * real).sum(-1), torch.ones(12, 2, 1), atol=1e-6, rtol=0)
