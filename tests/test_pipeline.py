"""`pipeline("translate", ...)`: what Transformers' translation pipeline gave, with the promises of a Translator.

The fixture's model has learned to write its four words in capitals, so that each text can be told from the others.
"""

import datasets
import pytest
import torch
from taught import save_taught_model
from transformers import BertConfig, BertLMHeadModel, MarianConfig, MarianMTModel, pipeline
from transformers.pipelines.pt_utils import KeyDataset

import tinyseq
from tinyseq import TinySeqForConditionalGeneration

LEARNED = {"ant": "ANT", "bee": "BEE", "cow": "COW", "owl": "ŌWL"}
MOST_PIECES = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a model."""
    path = tmp_path_factory.mktemp("model")
    options = {"encoder_layers": 2, "decoder_layers": 1, "max_position_embeddings": MOST_PIECES}
    save_taught_model(path, LEARNED, seed=3, vocab_size=280, **options)
    return str(path)


@pytest.fixture(scope="module")
def pipe(folder):
    return pipeline("translate", model=folder)


@pytest.fixture
def batches(pipe, monkeypatch):
    """The number of sentences in each batch that reaches the model, and the options it comes with."""
    seen = []
    generate = pipe.model.generate

    def counting(input_ids, attention_mask, **options):
        seen.append((len(input_ids), options))
        return generate(input_ids=input_ids, attention_mask=attention_mask, **options)

    monkeypatch.setattr(pipe.model, "generate", counting)
    return seen


def test_a_text_gives_a_list_with_one_translation_and_a_list_gives_one_for_each(pipe):
    assert pipe("ant") == [{"translation_text": "ANT"}]
    assert pipe(["cow", "ant"]) == [{"translation_text": "COW"}, {"translation_text": "ANT"}]
    assert pipe(("owl",)) == [{"translation_text": "ŌWL"}]
    assert pipe([]) == []


def test_blank_and_long_texts_keep_their_places(pipe, caplog):
    texts = ["cow", "", " ", "ant " * 20, "\u200b", "bee"]

    out = [result["translation_text"] for result in pipe(texts)]

    assert [bool(text) for text in out] == [True, False, False, True, False, True]
    assert (out[0], out[5]) == ("COW", "BEE")
    assert "line 4 (" in caplog.text
    assert pipe(" ") == [{"translation_text": ""}]


def test_an_iterator_gives_an_iterator_that_reads_a_batch_ahead(pipe, batches):
    read = []

    def texts():
        for word in ["cow", "ant", "", "bee", "owl"]:
            read.append(word)
            yield word

    results = pipe(texts(), batch_size=2)
    assert next(results) == [{"translation_text": "COW"}]
    assert read == ["cow", "ant"]
    assert [result[0]["translation_text"] for result in results] == ["ANT", "", "BEE", "ŌWL"]
    assert [size for size, _ in batches] == [2, 1, 1]
    assert [result for [result] in pipe(map(str.strip, ["bee\n"]))] == [{"translation_text": "BEE"}]


def test_a_data_set_streams_in_order(pipe):
    dataset = datasets.Dataset.from_dict({"en": ["cow", "", "owl", "bee", "ant"]})

    results = pipe(KeyDataset(dataset, "en"), batch_size=2)

    assert next(results) == [{"translation_text": "COW"}]
    assert [result[0]["translation_text"] for result in results] == ["", "ŌWL", "BEE", "ANT"]


class WhoReads(torch.utils.data.Dataset):
    """Three times "ant" in this process, "bee" in a worker."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return "ant" if torch.utils.data.get_worker_info() is None else "bee"


def test_a_data_set_is_read_by_as_many_processes_as_asked_for(folder, pipe):
    with_workers = pipeline("translate", model=pipe.model, tokenizer=pipe.tokenizer, num_workers=1)

    for results, expected in (
        (pipe(WhoReads()), "ANT"),
        (pipe(WhoReads(), num_workers=2), "BEE"),
        (with_workers(WhoReads()), "BEE"),
        (with_workers(WhoReads(), num_workers=0), "ANT"),
    ):
        assert list(results) == [[{"translation_text": expected}]] * 3


def test_a_column_is_a_list_and_a_table_is_refused(pipe):
    dataset = datasets.Dataset.from_dict({"en": ["cow", "ant"], "de": ["Kuh", "Ameise"]})

    assert pipe(dataset["en"]) == [{"translation_text": "COW"}, {"translation_text": "ANT"}]
    with pytest.raises(TypeError, match="texts is a Dataset of 'en', 'de'"):
        pipe(dataset)
    with pytest.raises(TypeError, match=r"texts\[0\] is of type NoneType"):
        pipe([None])


def test_the_batch_size_and_generate_options_of_a_call_go_before_those_it_was_made_with(folder, pipe, batches):
    made = pipeline("translate", model=pipe.model, tokenizer=pipe.tokenizer, batch_size=3, num_beams=2)

    made(["ant", "bee", "cow", "owl"], max_new_tokens=9)
    made(["ant", "bee", "cow", "owl"], batch_size=2, num_beams=1)
    made("ant")

    beams = {"num_beams": 2}
    expected = [(3, {**beams, "max_new_tokens": 9}), (1, {**beams, "max_new_tokens": 9})]
    expected += [(2, {"num_beams": 1}), (2, {"num_beams": 1}), (1, beams)]
    assert batches == expected
    with pytest.raises(ValueError, match="num_beam'"):
        made("ant", num_beam=2)
    with pytest.raises(ValueError, match="batch_size=0"):
        pipeline("translate", model=folder, batch_size=0)


def test_device_and_dtype_are_those_asked_for(folder):
    made = pipeline("translate", model=folder, device="cpu", dtype="bfloat16", trust_remote_code=True)

    assert (made.device, made.model.device, made.model.dtype) == (torch.device("cpu"),) * 2 + (torch.bfloat16,)
    assert isinstance(made, tinyseq.TranslationPipeline)
    assert isinstance(made.model, TinySeqForConditionalGeneration)


def test_a_saved_pipeline_is_a_model_folder_like_any_other(pipe, tmp_path):
    pipe.save_pretrained(tmp_path)

    assert pipeline("translate", model=str(tmp_path))("owl") == [{"translation_text": "ŌWL"}]
    assert tinyseq.Translator.from_pretrained(tmp_path)("owl") == "ŌWL"
    assert "custom_pipelines" not in (tmp_path / "config.json").read_text()


def test_any_encoder_decoder_translates_and_nothing_else(pipe, tmp_path):
    tokenizer = pipe.tokenizer
    marian = MarianMTModel(
        MarianConfig(
            vocab_size=len(tokenizer),
            d_model=16,
            encoder_layers=1,
            decoder_layers=2,
            encoder_attention_heads=2,
            decoder_attention_heads=4,
            encoder_ffn_dim=24,
            decoder_ffn_dim=32,
            max_position_embeddings=MOST_PIECES,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.pad_token_id,
        )
    )
    marian.generation_config.max_length = 7
    marian.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    (ids,) = marian.eval().generate(**tokenizer("ant", return_tensors="pt"))
    expected = tokenizer.decode(ids, skip_special_tokens=True).replace("\n", " ")

    loaded = pipeline("translate", model=str(tmp_path))

    assert type(loaded.model) is MarianMTModel
    assert loaded(["ant", ""]) == [{"translation_text": expected}, {"translation_text": ""}]
    bert = BertLMHeadModel(
        BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
    )
    with pytest.raises(ValueError, match="'bert', which is no encoder-decoder"):
        pipeline("translate", model=bert, tokenizer=tokenizer)
