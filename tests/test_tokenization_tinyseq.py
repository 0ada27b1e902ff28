"""The tokenizer: any text comes back, no text is a special token, and the same corpus gives the same file.

It is trained here, on ASCII only, so that every other script is unseen.
"""

import copy
import hashlib
import json
import os
import pickle
import random
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer
from transformers import AutoTokenizer

import tinyseq
from tinyseq import TinySeqTokenizer

END, BYTES = 0, range(1, 257)  # </s>, then the 256 bytes; <pad> is the last id

ENGLISH = [
    "You are welcome",
    "The cat sat on the mat and the dog ran to the house",
    "A man with a red hat is riding a bicycle down the street",
    "Two dogs are playing in the snow with a ball",
    "She said: hello, how are you today?",
]
CORPUS = [f"{line} {number}" for number in range(40) for line in [*ENGLISH, "De nada", "El gato y el perro"]]

SCRIPTS = {
    "Latin": "abcdefghijklmnopqrstuvwxyzABCDXYZäöüßéèñçÅøłž",
    "Cyrillic": "абвгдежзиклмнопрстуАБВ",
    "Greek": "αβγδεζηθικλμνξοπρσ",
    "Arabic": "ابتثجحخدذرزسشصضطظعغ",
    "Hebrew": "אבגדהוזחטיכלמנסעפצקרשת",
    "Devanagari": "अआइईउऊएऐओऔकखगघचछजि़ा्",
    "Thai": "กขคงจฉชซญดตถทธนบปผพ้่",
    "Chinese": "我知道一點西班牙語你好世界的是不了人在有這",
    "Hangul": "가나다라마바사아자차카타파하각한국어",
    "Emoji": "😀🎉👍🇩🇪❤️👩‍👧",
    "signs": "0123456789.,:;!?«»()-'\"</s>",
}


def mixed_script_lines(count, seed) -> list[str]:
    chooser = random.Random(seed)
    lines = []
    for _ in range(count):
        words = []
        for _ in range(chooser.randint(1, 9)):
            alphabet = chooser.choice(list(SCRIPTS.values()))
            words.append("".join(chooser.choice(alphabet) for _ in range(chooser.randint(1, 7))))
        lines.append(chooser.choice([" ", "  ", ", "]).join(words))
    return lines


MIXED = mixed_script_lines(500, seed=1)


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def algorithm(request):
    return request.param


@pytest.fixture(scope="module")
def tokenizer(algorithm) -> TinySeqTokenizer:
    """Learned from ASCII; tests that change it take a copy."""
    return TinySeqTokenizer.train(CORPUS, vocab_size=420, algorithm=algorithm, model_max_length=48)


def ids_of(tokenizer, text, **arguments):
    return tokenizer(text, **arguments).input_ids


def there_and_back(tokenizer, text):
    return tokenizer.decode(ids_of(tokenizer, text), skip_special_tokens=True)


# ---------------------------------------------- the text comes back --------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "The cat sat on the mat",
        "Zürich",
        "😀 👩‍👩‍👧 🇩🇪",
        "สวัสดีครับ",
        "مرحبا بالعالم",
        "Việt Nam",
        "한국어",
        "我知道點西班牙語。",
        "a\u0000b",
        "\u0301",
        "\ufffd",
        "\U0010ffff",
        "\u200b",
        "\u2028",
        "",
        " ",
        "  two  spaces, before and behind  ",
        "\ttab\r\nline\n",
        "Bonjour ! Ça va ? « oui »",
        "': '",
        "a , b",
        "don't , can 't",
        "</s>",
        "one </s> two",
        "<pad><pad>",
        "<0x41> <0xC3><0xBC>",
        "<unk> <s> [CLS]",
        "x² + ½, ﬁne, Ⅳ",  # which another normal form would write out
    ],
)
def test_decoding_gives_the_encoded_text_back(tokenizer, text):
    assert there_and_back(tokenizer, text) == text


def test_500_lines_of_mixed_scripts_come_back_in_normal_form_c(tokenizer):
    expected = [unicodedata.normalize("NFC", line) for line in MIXED]
    assert tokenizer.batch_decode(ids_of(tokenizer, MIXED), skip_special_tokens=True) == expected


def test_the_sign_for_a_space_in_pieces_comes_back_as_a_space(tokenizer):
    assert there_and_back(tokenizer, "▁a▁b") == " a b"


def test_there_is_no_unknown_token_and_unseen_characters_are_their_utf_8_bytes(tokenizer):
    assert tokenizer.unk_token is None
    assert tokenizer.convert_ids_to_tokens(ids_of(tokenizer, "ü")) == ["<0xC3>", "<0xBC>", "</s>"]
    assert set(ids_of(tokenizer, "สวัสดี")[:-1]) <= set(BYTES)


@pytest.mark.parametrize("text", ["Zürich für Müller", "Tiếng Việt rất khó", "각 나라의 말", "ﬁ Å ñ"])
def test_composed_and_decomposed_accents_have_the_same_ids(tokenizer, text):
    composed, decomposed = unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)
    assert composed != decomposed
    assert ids_of(tokenizer, decomposed) == ids_of(tokenizer, composed)
    assert there_and_back(tokenizer, decomposed) == composed


def test_a_decomposed_corpus_teaches_the_same_tokenizer_as_a_composed_one(algorithm):
    corpus = [f"Tiếng Việt rất hay và khó {n} 각 나라의 말 Zürich für Müller" for n in range(30)]
    files = [
        TinySeqTokenizer.train([unicodedata.normalize(form, line) for line in corpus], 400, algorithm)
        .backend_tokenizer.to_str()
        for form in ("NFC", "NFD")
    ]  # fmt: skip
    assert files[0] == files[1]


@pytest.mark.parametrize("text", ["</s>", "<pad>", "<0x41>", "A </s> B <pad> C"])
def test_special_tokens_and_bytes_that_a_text_spells_out_are_text(tokenizer, text):
    ids = ids_of(tokenizer, text, add_special_tokens=False)
    assert END not in ids
    assert tokenizer.pad_token_id not in ids
    assert "<0x41>" not in tokenizer.convert_ids_to_tokens(ids)
    assert ids_of(tokenizer, text) == [*ids, END]


def test_special_tokens_in_a_text_are_read_as_such_only_on_request(tokenizer):
    assert ids_of(tokenizer, "A</s>", split_special_tokens=False)[-2:] == [END, END]
    assert ids_of(tokenizer, "A</s>")[-2:] != [END, END]


# ------------------------------------------------- encoding options -------------------------------------------------


def test_the_end_the_bytes_and_pad_have_the_documented_ids(tokenizer):
    names = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    assert names[0] == "</s>"
    assert names[1:257] == [f"<0x{byte:02X}>" for byte in range(256)]
    assert names[-1] == "<pad>"
    assert len(set(names)) == len(tokenizer)
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (0, len(tokenizer) - 1)


def test_no_piece_holds_two_digits_or_letters_of_two_words(tokenizer):
    for piece in tokenizer.convert_ids_to_tokens(range(257, len(tokenizer) - 1)):
        body = piece.removeprefix("▁")
        assert len(body) <= 1 or body.isalpha()


@pytest.mark.parametrize("max_length", [1, 2, 4, 7])
def test_cut_sequences_keep_their_length_and_end_in_the_end_token(tokenizer, max_length):
    """A target without an end would teach a model never to stop."""
    text = "The cat sat on the mat and the dog ran to the house"
    batch = tokenizer(text, text_target=text, truncation=True, max_length=max_length)
    for ids in (batch["input_ids"], batch["labels"]):
        assert len(ids) == max_length
        assert ids[-1] == END
        assert ids[:-1] == ids_of(tokenizer, text)[: max_length - 1]


def test_sources_and_targets_are_encoded_alike(tokenizer):
    batch = tokenizer(["The cat", "De nada"], text_target=["El gato", "You are welcome"])
    assert batch["input_ids"] == ids_of(tokenizer, ["The cat", "De nada"])
    assert batch["labels"] == ids_of(tokenizer, ["El gato", "You are welcome"])


def test_batches_are_padded_on_the_right_and_the_mask_shows_it(tokenizer):
    batch = tokenizer(["The cat sat on the mat", "The cat"], padding=True)
    short = ids_of(tokenizer, "The cat")
    missing = len(batch["input_ids"][0]) - len(short)
    assert missing > 0
    assert batch["input_ids"][1] == short + [tokenizer.pad_token_id] * missing
    assert batch["attention_mask"] == [[1] * len(batch["input_ids"][0]), [1] * len(short) + [0] * missing]
    assert tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=True) == [
        "The cat sat on the mat",
        "The cat",
    ]


def test_offsets_point_at_the_characters_of_each_piece(tokenizer):
    text = "The cat said: hello, 42!"
    batch = tokenizer(text, return_offsets_mapping=True)
    pieces = tokenizer.convert_ids_to_tokens(batch["input_ids"])
    assert len(pieces) > 5
    for piece, (start, end) in zip(pieces[:-1], batch["offset_mapping"][:-1], strict=True):
        if not piece.startswith("<0x"):
            assert text[start:end] == piece.replace("▁", " ")
    assert "".join(text[start:end] for start, end in batch["offset_mapping"][:-1]) == text


def test_the_tokenizer_can_be_copied_and_sent_to_another_process(tokenizer):
    for twin in (copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        assert ids_of(twin, MIXED[:20]) == ids_of(tokenizer, MIXED[:20])
        assert twin.model_max_length == 48


# ----------------------------------------------------- training -----------------------------------------------------


def test_a_small_corpus_gives_fewer_pieces_and_a_message_with_both_numbers(algorithm, caplog):
    tokenizer = TinySeqTokenizer.train(["You are welcome"], vocab_size=8000, algorithm=algorithm)
    assert 259 < len(tokenizer) < 320
    assert f"a vocabulary of {len(tokenizer)} where up to 8000 were asked for" in caplog.text
    assert there_and_back(tokenizer, "You are welcome") == "You are welcome"


def test_a_corpus_with_enough_to_learn_gives_exactly_what_was_asked_and_no_message(algorithm, caplog):
    assert len(TinySeqTokenizer.train(MIXED, vocab_size=700, algorithm=algorithm)) == 700
    assert caplog.text == ""


@pytest.mark.parametrize("vocab_size", [0, 100, 258])
def test_fewer_than_the_bytes_and_special_tokens_are_refused_with_both_numbers(algorithm, vocab_size):
    with pytest.raises(ValueError, match=f"vocab_size={vocab_size} .* is too small: .* alone are 259"):
        TinySeqTokenizer.train(CORPUS, vocab_size, algorithm)


@pytest.mark.parametrize("texts", [["aabbccddee" * 9, "abcdefghij klm"], ["abcabc", "ab"], [" "], ["a"]])
def test_the_smallest_vocabularies_are_trained_without_hanging_and_lose_no_text(algorithm, texts):
    for vocab_size in range(259, 275):
        tokenizer = TinySeqTokenizer.train(texts, vocab_size, algorithm)
        assert 259 <= len(tokenizer) <= vocab_size
        assert [there_and_back(tokenizer, text) for text in [*texts, "Zürich"]] == [*texts, "Zürich"]


CHOOSER = random.Random(3)
CHINESE_LIKE = ["".join(chr(CHOOSER.randrange(0x4E00, 0x9FFF)) for _ in range(30)) for _ in range(300)]


@pytest.mark.parametrize("vocab_size", [300, 1000, 3000])
@pytest.mark.parametrize("multiple_of", [1, 8])
def test_thousands_of_distinct_characters_never_make_the_vocabulary_larger_than_asked(
    algorithm, vocab_size, multiple_of
):
    assert len({character for line in CHINESE_LIKE for character in line}) > 5000
    tokenizer = TinySeqTokenizer.train(CHINESE_LIKE, vocab_size, algorithm, multiple_of=multiple_of)
    assert len(tokenizer) == vocab_size // multiple_of * multiple_of
    assert [there_and_back(tokenizer, line) for line in CHINESE_LIKE[:9]] == CHINESE_LIKE[:9]


def test_of_too_many_characters_the_frequent_ones_get_pieces_and_the_rare_ones_bytes(algorithm):
    frequent, rare = "我你他的是", "".join(chr(0x5000 + n) for n in range(200))
    tokenizer = TinySeqTokenizer.train([frequent * 50, *rare], vocab_size=259 + 20, algorithm=algorithm)
    for character in frequent:
        assert len(ids_of(tokenizer, character)) == 2  # itself and </s>
    spelled = [character for character in rare if len(ids_of(tokenizer, character)) == 4]
    assert len(spelled) >= 180


@pytest.mark.parametrize("multiple_of", [8, 7, 64])
def test_the_vocabulary_is_a_multiple_of_what_was_asked(algorithm, multiple_of):
    tokenizer = TinySeqTokenizer.train(MIXED, vocab_size=701, algorithm=algorithm, multiple_of=multiple_of)
    assert len(tokenizer) == 701 // multiple_of * multiple_of
    assert tokenizer.pad_token_id == len(tokenizer) - 1
    assert there_and_back(tokenizer, MIXED[3]) == unicodedata.normalize("NFC", MIXED[3])


def test_a_multiple_that_the_texts_cannot_fill_is_refused_with_the_numbers(algorithm):
    with pytest.raises(ValueError, match="multiple_of=128 is too large for these texts: they gave 2[678]"):
        TinySeqTokenizer.train(["You are welcome"], vocab_size=8000, algorithm=algorithm, multiple_of=128)


@pytest.mark.parametrize("texts", [[], [""], ["", ""]])
def test_a_corpus_without_text_is_refused(algorithm, texts):
    with pytest.raises(ValueError, match="no text to train a tokenizer on"):
        TinySeqTokenizer.train(texts, 300, algorithm)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"algorithm": "wordpiece"}, "algorithm='wordpiece' must be one of unigram, bpe"),
        ({"multiple_of": 0}, "multiple_of=0 must be 1 or more"),
    ],
)
def test_an_argument_out_of_its_range_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        TinySeqTokenizer.train(CORPUS, 300, **arguments)


def test_texts_may_come_from_a_generator(tokenizer, algorithm):
    again = TinySeqTokenizer.train((line for line in CORPUS), 420, algorithm)
    assert again.get_vocab() == tokenizer.get_vocab()


def test_a_new_tokenizer_of_the_same_kind_is_trained_from_an_iterator_of_texts_or_of_batches(tokenizer):
    spanish = ["uno dos tres", "cuatro cinco seis"] * 20
    new = tokenizer.train_new_from_iterator(iter(spanish), 300)
    batched = tokenizer.train_new_from_iterator(iter([spanish[:7], spanish[7:]]), 300)
    assert type(new) is TinySeqTokenizer
    assert type(new.backend_tokenizer.model) is type(tokenizer.backend_tokenizer.model)
    assert new.get_vocab() == batched.get_vocab() != tokenizer.get_vocab()
    assert (len(new) <= 300, new.model_max_length, new.eos_token_id) == (True, 48, END)
    assert ids_of(new, "</s>")[:-1] != [END]
    with_new = tokenizer.train_new_from_iterator(iter(spanish), 300, new_special_tokens=["<x>"])
    assert with_new.convert_tokens_to_ids("<x>") == len(with_new) - 1 <= 299


def test_a_new_tokenizer_has_the_special_tokens_of_the_old_one_under_their_new_names(tokenizer):
    old = copy.deepcopy(tokenizer)
    old.add_special_tokens({"extra_special_tokens": ["<de>", "<en>"]})
    old.add_special_tokens({"mask_token": "<mask>"})
    new_names = {"</s>": "<end>", "<en>": "<es>"}
    new = old.train_new_from_iterator(["uno dos tres", "cuatro cinco seis"], 300, special_tokens_map=new_names)
    assert (new.eos_token, new.pad_token, new.mask_token) == ("<end>", "<pad>", "<mask>")
    assert list(new.extra_special_tokens) == ["<de>", "<es>"]
    assert len(new) <= 300
    ids = new("uno dos").input_ids
    assert ids[-1] == new.eos_token_id == new.get_vocab()["<end>"]
    assert new.decode(ids, skip_special_tokens=True) == "uno dos"
    assert "</s>" not in new.get_vocab()
    again = new.train_new_from_iterator(["uno dos tres"], 300)
    assert again.all_special_tokens == new.all_special_tokens


def test_a_new_tokenizer_of_fewer_ids_than_bytes_is_larger_than_asked_and_says_so(tokenizer, caplog):
    new = tokenizer.train_new_from_iterator(["uno dos tres"], 100)
    assert len(new) == 259
    assert "vocab_size=100 has no room for the bytes: 259" in caplog.text


# ------------------------------------------------ saving and loading ------------------------------------------------


def with_added_tokens(tokenizer) -> TinySeqTokenizer:
    tokenizer = copy.deepcopy(tokenizer)
    assert tokenizer.add_tokens([AddedToken("<de>", lstrip=True), "zzz"]) == 2
    assert tokenizer.add_special_tokens({"extra_special_tokens": ["<mask>"]}) == 1
    return tokenizer


def everything_about(tokenizer) -> dict:
    """All that must survive, in terms that json can carry."""
    batch = tokenizer([*MIXED, "a <de> b zzz c <mask> d"], return_offsets_mapping=True)
    return json.loads(
        json.dumps(
            {
                "ids": batch["input_ids"],
                "offsets": batch["offset_mapping"],
                "size": len(tokenizer),
                "special": sorted(tokenizer.all_special_ids),
                "added": {str(id): repr(token) for id, token in tokenizer.added_tokens_decoder.items()},
                "limits": [tokenizer.model_max_length, tokenizer.padding_side, tokenizer.split_special_tokens],
            }
        )
    )


def files_of(folder) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(Path(folder).iterdir())}


def run_python(script, *arguments, **environment) -> dict:
    """Runs `script` in a new process that can import the package, and returns the JSON that it prints."""
    path = str(Path(tinyseq.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def second_generation(tmp_path_factory):
    """What a new process, with another hash seed, makes of saved tokenizers, and of the same corpus."""
    folder = tmp_path_factory.mktemp("generations")
    for algorithm in ("unigram", "bpe"):
        tokenizer = TinySeqTokenizer.train(CORPUS, vocab_size=420, algorithm=algorithm, model_max_length=48)
        with_added_tokens(tokenizer).save_pretrained(folder / algorithm)
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_tokenization_tinyseq import *

folder, found = Path(sys.argv[1]), {{}}
for algorithm in ("unigram", "bpe"):
    found[algorithm] = {{}}
    for name, loader in [("class", TinySeqTokenizer), ("auto", AutoTokenizer)]:
        tokenizer = loader.from_pretrained(folder / algorithm)
        assert type(tokenizer) is TinySeqTokenizer
        found[algorithm][name] = everything_about(tokenizer)
        second, third = (folder / f"{{algorithm}} {{generation}} {{name}}" for generation in (2, 3))
        tokenizer.save_pretrained(second)
        loader.from_pretrained(second).save_pretrained(third)
    trained = TinySeqTokenizer.train(MIXED, vocab_size=700, algorithm=algorithm)
    found[algorithm]["trained"] = trained.backend_tokenizer.to_str()
print(json.dumps(found))
"""
    return folder, run_python(script, folder, PYTHONHASHSEED="12345")


@pytest.mark.parametrize("loader", ["class", "auto"])
def test_a_new_process_reads_the_same_ids_offsets_and_flags_with_added_tokens(
    second_generation, algorithm, tokenizer, loader
):
    folder, found = second_generation
    expected = everything_about(with_added_tokens(tokenizer))
    assert found[algorithm][loader] == expected
    assert len(expected["added"]) == 2 + 3
    first, second, third = (
        files_of(folder / name) for name in (algorithm, f"{algorithm} 2 {loader}", f"{algorithm} 3 {loader}")
    )
    assert second["tokenizer.json"] == first["tokenizer.json"]
    assert third == second  # the settings file of the second has two lines more, of Transformers' loading


def test_the_same_corpus_gives_the_same_file_in_a_process_with_another_hash_seed(second_generation, algorithm):
    _, found = second_generation
    here = TinySeqTokenizer.train(MIXED, vocab_size=700, algorithm=algorithm).backend_tokenizer.to_str()
    assert found[algorithm]["trained"] == here


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize("skip_special_tokens", [True, False])
def test_the_padding_of_labels_and_of_gathered_predictions_decodes_to_nothing(tokenizer, dtype, skip_special_tokens):
    texts = ["a brown dog", "it"]
    gathered = np.full((3, 40), -100, dtype=dtype)  # the last row is empty
    for row, text in zip(gathered, texts, strict=False):
        ids = ids_of(tokenizer, text)
        row[: len(ids)] = ids
    end = "" if skip_special_tokens else tokenizer.eos_token
    expected = [texts[0] + end, texts[1] + end, ""]
    assert tokenizer.batch_decode(gathered, skip_special_tokens=skip_special_tokens) == expected
    assert tokenizer.decode(torch.from_numpy(gathered[0]), skip_special_tokens=skip_special_tokens) == expected[0]
    assert tokenizer.decode(-100) == ""


def test_added_tokens_are_found_in_text_and_decoded(tokenizer):
    tokenizer = with_added_tokens(tokenizer)
    ids = ids_of(tokenizer, "a <de> b zzz c")
    assert tokenizer.convert_tokens_to_ids("<de>") in ids
    assert tokenizer.convert_tokens_to_ids("zzz") in ids
    assert "zzz" in tokenizer.decode(ids, skip_special_tokens=True)


def test_autotokenizer_gives_the_same_ids_with_or_without_the_package_and_trust_or_an_error_that_says_why(
    tokenizer, tmp_path, monkeypatch
):
    """Saved with its code and without; the package imported or not; code trusted or not."""
    tokenizer.save_pretrained(tmp_path / "with code")
    assert (tmp_path / "with code" / "tokenization_tinyseq.py").exists()
    monkeypatch.setattr(TinySeqTokenizer, "_auto_class", None)
    tokenizer.save_pretrained(tmp_path / "plain")
    assert not (tmp_path / "plain" / "tokenization_tinyseq.py").exists()
    script = """
import json, sys
from transformers import AutoTokenizer
found = {}
for name in ("plain", "with code"):
    for trust in (False, True):
        try:
            tokenizer = AutoTokenizer.from_pretrained(f"{sys.argv[1]}/{name}", trust_remote_code=trust)
            lines = json.loads(sys.argv[2])
            ids = tokenizer(lines).input_ids
            found[f"{name}, trust {trust}"] = [
                ids, tokenizer.batch_decode(ids, skip_special_tokens=True), tokenizer.model_max_length
            ]
        except ValueError as error:
            found[f"{name}, trust {trust}"] = str(error)
assert "tinyseq" not in sys.modules
print(json.dumps(found))
"""
    lines = [*MIXED[:100], "You are </s> welcome <pad>", "Bonjour ! « oui »"]
    ids = ids_of(tokenizer, lines)
    expected = [ids, tokenizer.batch_decode(ids, skip_special_tokens=True), 48]
    found = run_python(script, tmp_path, json.dumps(lines))
    error = found.pop("with code, trust False")
    assert "trust_remote_code" in error
    assert found == dict.fromkeys(["plain, trust False", "plain, trust True", "with code, trust True"], expected)
    for name in ("plain", "with code"):  # here, the package is imported
        for trust in (False, True):
            loaded = AutoTokenizer.from_pretrained(tmp_path / name, trust_remote_code=trust)
            assert type(loaded) is TinySeqTokenizer
            assert ids_of(loaded, lines) == ids


def test_the_truncation_and_padding_of_a_call_are_not_saved(tokenizer, tmp_path):
    tokenizer = copy.deepcopy(tokenizer)
    whole = ids_of(tokenizer, ENGLISH[1])
    tokenizer(["The cat sat", "The"], max_length=4, truncation=True, padding="max_length")
    tokenizer.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "tokenizer.json").read_text())
    assert (written["truncation"], written["padding"]) == (None, None)
    assert Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(ENGLISH[1]).ids == whole
    assert ids_of(TinySeqTokenizer.from_pretrained(tmp_path), ENGLISH[1]) == whole


def test_the_models_limit_is_saved_and_is_where_truncation_cuts(tokenizer, tmp_path):
    """Not the placeholder of 1e30, with which truncation does nothing."""
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.model_max_length == 48
    assert len(ids_of(loaded, "the cat sat " * 100, truncation=True)) == 48


def test_the_removal_of_spaces_before_punctuation_is_off_and_saved_as_off(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["clean_up_tokenization_spaces"] is False
    assert there_and_back(TinySeqTokenizer.from_pretrained(tmp_path), "Bonjour ! Ça va ?") == "Bonjour ! Ça va ?"
