"""`tinyseq.translation`: n texts in, n translations out, in order, whatever is in them.

The fixture's model has learned, in a second or two, to write the words of a sentence backwards.
"""

import itertools
import json
import random

import datasets
import pyarrow as pa
import pytest
import torch
from transformers import (
    BertConfig,
    BertLMHeadModel,
    GenerationConfig,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
)

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, TinySeqTokenizer, Translator
from tinyseq.text import is_blank
from tinyseq.translation import split_text

SENTENCES = [" ".join(words) + "." for words in itertools.product(("a", "one"), ("big", "red"), ("dog", "cat"))]
EXTRAS = {
    "say </s> loudly": "loudly </s> say",  # spells out a special token, on both sides
    "long": " ".join(f"w{number}" for number in range(14)),  # far more pieces than the 20 of Transformers' default
    "A. B. C.": "C. B. A.",
}
MOST_PIECES = 90


def backwards(sentence):
    return " ".join(reversed(sentence.removesuffix(".").split())) + "."


def learn(model, tokenizer, sources, targets, steps=150):
    """Overfits the pairs."""
    batch = tokenizer(sources, padding=True, return_tensors="pt")
    labels = tokenizer(targets, padding=True, return_tensors="pt").input_ids
    labels[labels == tokenizer.pad_token_id] = -100
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model.train()
    for _ in range(steps):
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # matrices this small lose by a second thread
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def translator(one_thread):
    torch.manual_seed(1)
    sources = [*SENTENCES, *EXTRAS]
    targets = [*map(backwards, SENTENCES), *EXTRAS.values()]
    tokenizer = TinySeqTokenizer.train([*sources, *targets], 320)
    config = TinySeqConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        encoder_layers=2,
        decoder_layers=1,
        encoder_ffn_dim=48,
        decoder_ffn_dim=64,
        max_position_embeddings=MOST_PIECES,
        dropout=0.0,
    )
    model = learn(TinySeqForConditionalGeneration(config), tokenizer, sources, targets)
    return Translator(model, tokenizer)


def generate_alone(translator, text, **options):
    """One text through `model.generate` by itself: no batch, no padding, no Translator."""
    inputs = translator.tokenizer(text, return_tensors="pt")
    (ids,) = translator.model.generate(**inputs, **options)
    return translator.tokenizer.decode(ids, skip_special_tokens=True)


# Lines ---------------------------------------------------------------------------------------------------------------


def test_what_was_learned_comes_out_in_the_order_of_the_input(translator):
    assert translator(SENTENCES) == list(map(backwards, SENTENCES))


def test_a_str_gives_a_str_and_any_iterable_gives_a_list(translator):
    assert translator("a big dog.") == "dog big a."
    assert translator(text for text in ["a big dog."]) == ["dog big a."]
    assert translator([]) == []


@pytest.mark.parametrize("num_beams", [1, 5])
def test_batch_size_and_order_do_not_change_a_translation(translator, num_beams):
    words = ["a", "one", "big", "red", "dog", "cat"]
    texts = [" ".join(random.choices(words, k=length)) for length in range(1, 21)]
    options = {"num_beams": num_beams, "max_new_tokens": 30}
    expected = [generate_alone(translator, text, **options) for text in texts]
    shuffled = random.sample(range(len(texts)), len(texts))

    for batch_size in (1, 7, 20):
        translate = Translator(translator.model, translator.tokenizer, batch_size)
        assert translate(texts, **options) == expected
        assert translate([texts[i] for i in shuffled], **options) == [expected[i] for i in shuffled]


def test_blank_texts_stay_blank_do_not_reach_the_model_and_leave_their_neighbours_alone(translator, monkeypatch):
    batch_sizes = []
    generate = translator.model.generate

    def counting(input_ids, **inputs):
        batch_sizes.append(len(input_ids))
        return generate(input_ids=input_ids, **inputs)

    monkeypatch.setattr(translator.model, "generate", counting)

    out = translator(["", "a big dog.", " ", "\t", "\u200b", "\0", "\u3000\u2028\ufeff", "one red cat.", "\x85"])

    assert out == ["", "dog big a.", "", "", "", "", "", "cat red one.", ""]
    assert batch_sizes == [2]


def test_only_blank_texts_need_no_model_at_all(translator, monkeypatch):
    monkeypatch.setattr(translator.model, "generate", None)

    assert translator(["", " "]) == ["", ""]


@pytest.mark.parametrize("text", [".", "&quot;", "¿", "\ufffd", "\u0301", "🐕"])
def test_what_can_be_seen_is_not_blank(text):
    assert not is_blank(text)


def test_white_space_around_a_text_and_its_unicode_form_do_not_matter(translator):
    assert translator([" a big dog.\r", "\u2028a big dog.\n\n"]) == ["dog big a."] * 2
    assert translator("cafe\u0301") == translator("caf\u00e9")


def test_a_model_that_writes_a_newline_does_not_break_the_line(translator):
    newline = translator.tokenizer.convert_tokens_to_ids("<0x0A>")

    out = translator("a big dog.", forced_bos_token_id=newline)

    assert out.startswith(" ")
    assert "\n" not in out


def test_a_special_token_spelled_out_in_a_text_ends_nothing(translator):
    assert translator("say </s> loudly") == "loudly </s> say"


# Streams and data sets -----------------------------------------------------------------------------------------------


def test_a_stream_gives_the_translations_in_order_and_reads_a_portion_ahead_at_most(translator):
    read = []

    def texts():
        for number in range(10**6):
            read.append(number)
            yield SENTENCES[number % len(SENTENCES)] if number != 4 else ""

    translations = translator.stream(texts(), portion=3)
    assert read == []

    got = []
    for ahead in (3, 3, 3, 6, 6, 6, 9):
        got.append(next(translations))
        assert len(read) == ahead
    assert got == [backwards(sentence) if i != 4 else "" for i, sentence in enumerate(SENTENCES[:7])]


def test_a_stream_gives_what_a_list_gives_and_takes_the_same_options(translator):
    texts = ["a big dog.", "", "long", "x" * 100, " one red cat. "]

    for portion in (1, 2, 5, 6):
        streamed = list(translator.stream(iter(texts), portion=portion, max_new_tokens=15, num_beams=2))
        assert streamed == translator(texts, max_new_tokens=15, num_beams=2)
    assert list(translator.stream([])) == []


def test_a_stream_counts_its_texts_from_its_beginning(translator, caplog):
    texts = ["a", "one", "x" * 100, "a\udc00"]
    translations = translator.stream(texts, portion=2, max_new_tokens=30)
    assert len([next(translations) for _ in range(2)]) == 2
    with pytest.raises(ValueError, match=r"texts\[3\] is no valid text"):
        next(translations)

    list(translator.stream(texts[:3], portion=2, max_new_tokens=30))
    assert "line 3 (101 pieces)" in caplog.text


def test_a_stream_draws_one_bar_on_request_for_all_its_portions(translator, capsys):
    list(translator.stream(SENTENCES, portion=3, max_new_tokens=3))
    assert capsys.readouterr() == ("", "")

    list(translator.stream(SENTENCES, portion=3, max_new_tokens=3, progress=True))
    assert capsys.readouterr().err.count("8/8") == 1


@pytest.mark.parametrize("given, message", [("a big dog.", "single str"), ({"en": []}, "dict of 'en'")])
def test_a_stream_refuses_what_is_not_several_texts(translator, given, message):
    with pytest.raises(TypeError, match=message):
        next(translator.stream(given))
    with pytest.raises(ValueError, match="portion=0 must be 1 or more"):
        next(translator.stream(["a"], portion=0))


def test_a_column_of_a_data_set_is_translated_whole_or_by_map(translator):
    dataset = datasets.Dataset.from_dict({"en": SENTENCES, "id": range(len(SENTENCES))})
    expected = list(map(backwards, SENTENCES))

    assert translator(dataset["en"]) == expected
    assert list(translator.stream(dataset.to_iterable_dataset()["en"], portion=3)) == expected
    mapped = dataset.map(lambda batch: {"ne": translator(batch["en"])}, batched=True, batch_size=3)
    assert mapped["ne"][:] == expected


def test_a_table_in_place_of_its_column_is_refused_by_its_columns(translator):
    columns = {"en": ["a"], "de": ["b"]}
    dataset = datasets.Dataset.from_dict(columns)

    def translate(batch):
        return {"es": translator(batch)}

    for table in (dataset, dataset.to_iterable_dataset(), dataset.to_pandas(), pa.table(columns), columns):
        with pytest.raises(TypeError, match=f"texts is a {type(table).__name__} of 'en', 'de'; give one of its"):
            translator(table)
    with pytest.raises(TypeError, match="texts is a LazyBatch of 'en', 'de'"):
        dataset.map(translate, batched=True)
    with pytest.raises(TypeError, match="texts is a DatasetDict of 'train'"):
        translator.translate(datasets.DatasetDict(train=dataset))
    with pytest.raises(TypeError, match=r"texts\[1\] is of type NoneType"):
        translator(datasets.Dataset.from_dict({"en": ["a", None]})["en"])


# Ends ----------------------------------------------------------------------------------------------------------------


def test_a_target_of_forty_pieces_comes_back_whole_without_any_length_argument(translator, caplog):
    assert len(translator.tokenizer(EXTRAS["long"]).input_ids) >= 40

    done = translator.translate(["long"])

    assert done.texts == [EXTRAS["long"]]
    assert done.unfinished == []
    assert caplog.text == ""


def test_outputs_stop_by_themselves_far_below_the_limit(translator):
    done = translator.translate(SENTENCES, max_new_tokens=MOST_PIECES)

    assert done.unfinished == []
    assert max(len(translator.tokenizer(text).input_ids) for text in done.texts) < MOST_PIECES / 2


def test_translations_that_hit_the_limit_are_reported_by_their_lines(translator, caplog):
    done = translator.translate(["a big dog.", "", "long", "one red cat."], max_new_tokens=20, first_line=1001)

    assert done.unfinished == [2]
    assert EXTRAS["long"].startswith(done.texts[2])
    assert "1 of 4 translations hit the length limit" in caplog.text
    assert "line 1,003." in caplog.text


# Long texts ----------------------------------------------------------------------------------------------------------


def test_a_text_that_is_too_long_is_split_at_sentence_ends_and_named(translator, caplog):
    sentences = SENTENCES * 4
    count = len(translator.tokenizer(" ".join(sentences)).input_ids)
    assert count > MOST_PIECES

    done = translator.translate(["a big dog.", "", " ".join(sentences), "one red cat."])

    assert len(done.texts) == 4
    assert done.texts[0::3] == ["dog big a.", "cat red one."]
    assert done.texts[1] == ""
    assert done.too_long == [2]
    assert f"longer than the {MOST_PIECES} pieces the model takes" in caplog.text
    assert f"line 3 ({count} pieces)" in caplog.text
    parts = split_text(" ".join(sentences), lambda text: len(translator.tokenizer(text).input_ids) <= MOST_PIECES)
    assert all(part.endswith(".") for _, part in parts)
    assert done.texts[2] == " ".join(generate_alone(translator, part) for _, part in parts)


def test_a_line_of_three_thousand_pieces_gives_one_line(translator):
    done = translator.translate(["a big dog.", "one red cat.", "x" * 2999, "&quot;", "a red cat."], max_new_tokens=5)

    assert len(done.texts) == 5
    assert done.too_long == [2]


def test_the_longest_text_that_fits_is_not_split(translator):
    fits = "x" * (MOST_PIECES - 1)  # and </s>
    assert len(translator.tokenizer(fits).input_ids) == MOST_PIECES

    assert translator.translate([fits], max_new_tokens=3).too_long == []
    assert translator.translate([fits + "x"], max_new_tokens=3).too_long == [0]


def test_the_tokenizer_s_limit_counts_where_it_is_the_smaller(translator, monkeypatch):
    monkeypatch.setattr(translator.tokenizer, "model_max_length", 9)

    assert translator.translate(["x" * 8, "x" * 9], max_new_tokens=3).too_long == [1]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("One two. Six seven.", [("", "One two."), (" ", "Six seven.")]),
        ("Er sagt „Ja.“ Sie auch.", [("", "Er sagt"), (" ", "„Ja.“"), (" ", "Sie auch.")]),
        ("aaaa bbbb cccc", [("", "aaaa"), (" ", "bbbb cccc")]),
        ("aaaaaaaabbbbbbbb", [("", "aaaaaaaa"), ("", "bbbbbbbb")]),
        ("我喜欢狗狗狗。我喜欢猫猫。", [("", "我喜欢狗狗狗。"), ("", "我喜欢猫猫。")]),
        ("3.14159265 3.14159265", [("", "3.14159265"), (" ", "3.14159265")]),
        ("one\ntwo three", [("", "one"), (" ", "two three")]),
        ("a" + " " * 30 + "b", [("", "a"), (" ", "b")]),
        ("a " + "\u200b" * 30 + " b", [("", "a"), (" ", "b")]),
    ],
)
def test_long_texts_are_cut_at_a_sentence_end_else_a_space_else_anywhere(text, expected):
    assert split_text(text, lambda part: len(part) <= 10) == expected


def test_nothing_but_white_space_is_lost_by_splitting():
    text = "".join(random.choices("ab .。!\n", k=2000))

    parts = split_text(text, lambda part: len(part) <= 13)

    assert max(len(part) for _, part in parts) <= 13
    assert "".join("".join(part.split()) for _, part in parts) == "".join(text.split())


def test_parts_are_joined_as_the_source_was(translator):
    text = "狗" * 50  # each is three bytes; there is no space to cut at
    parts = split_text(text, lambda part: len(translator.tokenizer(part).input_ids) <= MOST_PIECES)
    one_by_one = [generate_alone(translator, part, max_new_tokens=9) for _, part in parts]

    assert [joint for joint, _ in parts] == [""] * len(parts)
    assert len(parts) == 2
    assert translator(text, max_new_tokens=9) == "".join(one_by_one)


# The model -----------------------------------------------------------------------------------------------------------


def test_the_model_is_in_evaluation_during_the_call_and_in_its_old_mode_after(translator, monkeypatch):
    seen = []
    generate = translator.model.generate
    monkeypatch.setattr(
        translator.model, "generate", lambda **inputs: seen.append(translator.model.training) or generate(**inputs)
    )
    translator.model.train()
    translator("a big dog.")
    assert (seen, translator.model.training) == ([False], True)

    monkeypatch.setattr(translator.model, "generate", None)
    with pytest.raises(TypeError):
        translator("a big dog.")
    assert translator.model.training

    translator.model.eval()
    translator("")
    assert not translator.model.training


def test_generate_options_of_a_call_go_before_the_model_s(translator, monkeypatch):
    monkeypatch.setattr(translator.model.generation_config, "max_length", 4)

    assert translator.translate(["long"]).unfinished == [0]
    assert translator("long", max_length=MOST_PIECES) == EXTRAS["long"]


def test_a_generation_config_can_be_given_and_scores_may_be_asked_for(translator, caplog):
    config = GenerationConfig(num_beams=2, max_new_tokens=20, return_dict_in_generate=True, output_scores=True)

    done = translator.translate(["a big dog.", "long"], generation_config=config)

    assert done.texts[0] == "dog big a."
    assert done.unfinished == [1]
    with pytest.raises(ValueError, match="num_return_sequences=2"):
        translator("a", generation_config=GenerationConfig(num_beams=2, num_return_sequences=2))


def tiny_marian(tokenizer, **options):
    config = MarianConfig(
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
    model = MarianMTModel(config).eval()
    for name, value in {"max_length": 12, "num_beams": 3, **options}.items():
        setattr(model.generation_config, name, value)
    return model


def test_a_marian_model_translates_with_the_same_class(translator, caplog):
    marian = Translator(tiny_marian(translator.tokenizer), translator.tokenizer, batch_size=2)

    out = marian(["a big dog.", "", "one red cat", "x" * 200])

    assert out[:3] == [generate_alone(marian, "a big dog."), "", generate_alone(marian, "one red cat")]
    assert "line 4 (201 pieces)" in caplog.text


def test_an_end_that_was_forced_by_the_limit_counts_as_unfinished(translator):
    tokenizer = translator.tokenizer
    forcing = tiny_marian(tokenizer, forced_eos_token_id=tokenizer.eos_token_id)
    forcing.lm_head.weight.data.zero_()
    forcing.final_logits_bias[0, tokenizer.convert_tokens_to_ids("<0x41>")] = 5.0  # it writes A, A, A ...

    assert Translator(forcing, tokenizer).translate(["a", "one"]).unfinished == [0, 1]
    assert Translator(forcing, tokenizer).translate(["a"], max_new_tokens=4).unfinished == [0]

    forcing.final_logits_bias[0, tokenizer.eos_token_id] = 9.0  # it ends at once
    assert Translator(forcing, tokenizer).translate(["a", "one"]).unfinished == []


def test_a_model_that_begins_with_its_end_token_has_not_ended_by_that(translator):
    tokenizer = translator.tokenizer
    model = tiny_marian(tokenizer, decoder_start_token_id=tokenizer.eos_token_id)  # as BART does
    model.lm_head.weight.data.zero_()
    model.final_logits_bias[0, tokenizer.convert_tokens_to_ids("<0x41>")] = 5.0  # it writes A, A, A ...

    assert Translator(model, tokenizer).translate(["a"]).unfinished == [0]


def test_a_saved_model_is_loaded_with_its_tokenizer_in_evaluation(translator, tmp_path):
    translator.model.save_pretrained(tmp_path)
    translator.tokenizer.save_pretrained(tmp_path)

    loaded = Translator.from_pretrained(tmp_path, device="cpu", dtype="bfloat16", batch_size=3)

    assert (loaded.model.training, loaded.model.dtype, loaded.batch_size) == (False, torch.bfloat16, 3)
    assert Translator.from_pretrained(tmp_path)("a big dog.") == "dog big a."


def test_a_marian_checkpoint_is_loaded_with_its_own_tokenizer(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece", reason="MarianTokenizer needs it: pip install sentencepiece")
    (tmp_path / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(tmp_path / "both"),
        vocab_size=99,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(str(tmp_path / "both.model"))
    names = ["</s>", "<unk>", *(pieces.id_to_piece(i) for i in range(3, len(pieces))), "<pad>"]
    (tmp_path / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    files = [str(tmp_path / name) for name in ("both.model", "both.model", "vocab.json")]  # source, target, ids
    tokenizer = MarianTokenizer(*files, source_lang="en", target_lang="ne", model_max_length=20)
    model = tiny_marian(tokenizer, max_length=20, num_beams=1)
    model = learn(model, tokenizer, SENTENCES, list(map(backwards, SENTENCES)))
    folder = tmp_path / "checkpoint"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)

    translate = Translator.from_pretrained(folder)

    assert type(translate.tokenizer) is MarianTokenizer
    assert translate(["one red cat.", "", " a big dog."]) == ["cat red one.", "", "dog big a."]
    assert translate.translate([" ".join(["a big dog."] * 9)]).too_long == [0]


def test_the_folder_of_an_adapter_is_loaded_with_the_model_it_belongs_to(translator, tmp_path):
    peft = pytest.importorskip("peft", reason="adapters need it: pip install peft")
    translator.model.save_pretrained(tmp_path / "base")
    base = TinySeqForConditionalGeneration.from_pretrained(tmp_path / "base")
    lora = peft.LoraConfig(target_modules=["q_proj", "v_proj"], r=4)
    learned = learn(peft.get_peft_model(base, lora), translator.tokenizer, ["a big dog."], ["one red cat."])
    learned.save_pretrained(tmp_path / "adapter")
    translator.tokenizer.save_pretrained(tmp_path / "adapter")

    assert Translator.from_pretrained(tmp_path / "adapter")("a big dog.") == "one red cat."


def test_a_bar_is_drawn_on_request_only_and_counts_sentences(translator, capsys):
    translator.translate(SENTENCES)
    assert capsys.readouterr() == ("", "")

    translator.translate([*SENTENCES, "", "x" * 100], progress=True, max_new_tokens=3)
    assert "10/10" in capsys.readouterr().err


# Refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "texts, error, message",
    [
        (["a", None], TypeError, r"texts\[1\] is of type NoneType; give a str"),
        ([["a"]], TypeError, r"texts\[0\] is of type list"),
        (["a", "b\ud800c"], ValueError, r"texts\[1\] is no valid text: its character 2 is .*U\+D800"),
        (["\udcff"], ValueError, r"texts\[0\] is no valid text"),
    ],
)
def test_what_is_no_text_is_refused_by_its_place(translator, texts, error, message):
    with pytest.raises(error, match=message):
        translator(texts)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_return_sequences": 3, "num_beams": 3}, "num_return_sequences=3: here a text has one translation"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"max_new_tokens": MOST_PIECES + 1}, f"{MOST_PIECES}"),
        ({"num_beam": 2}, "num_beam"),
    ],
)
def test_options_that_can_not_be_kept_are_refused(translator, options, message):
    with pytest.raises(ValueError, match=message):
        translator("a big dog.", **options)


def test_a_single_str_is_refused_where_a_list_is_needed(translator):
    with pytest.raises(TypeError, match="single str"):
        translator.translate("a big dog.")


def test_a_model_that_does_not_translate_and_an_impossible_batch_are_refused(translator):
    bert = BertLMHeadModel(
        BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
    )
    with pytest.raises(ValueError, match="'bert', which is no encoder-decoder"):
        Translator(bert, translator.tokenizer)
    with pytest.raises(ValueError, match="batch_size=0"):
        Translator(translator.model, translator.tokenizer, 0)


@pytest.mark.parametrize("device", ["gpu0", "cuda"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_loaded(device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=f"device='{device}'"):
        Translator.from_pretrained("/nowhere", device=device)
