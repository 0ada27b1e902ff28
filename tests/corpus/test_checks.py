"""What is wrong with a pair, and the report of it. Oracles: pairs made to have one fault each, counted by hand."""

import json
import unicodedata

import pytest

from tinyseq.corpus.checks import KINDS, Checks, Report, lengths, normalised, script_of, weighted_length

# A pair that has this fault and no other, in a corpus from English to German
FAULTY = {
    "test_pair": ("Held out.", "Nicht zum Lernen."),
    "duplicate": ("A dog runs.", "Ein Hund rennt."),
    "identical": ("Copyright Smith", " copyright  SMITH"),
    "header": ("en", "pt_BR"),
    "control": ("a bell\x07", "eine Glocke"),
    "too_long": ("word " * 401, "Wort " * 399),
    "length_ratio": ("A cat.", "Eine Katze, die gar nicht mehr aufhören will."),
    "script": ("A bird sings.", "Птица поёт."),
}
FINE = [("A dog runs.", "Ein Hund rennt."), ("It is late.", "Es ist spät."), ("Who is it?", "Wer ist das?")]


def checks(**options):
    """Checks that have seen the three fine pairs."""
    made = Checks(held_out=["Held out."], **options)
    made.settle(FINE)
    assert [made.fault(*pair) for pair in FINE] == [None] * 3
    return made


def settled(*pairs):
    """Checks that know a corpus of these pairs."""
    made = Checks()
    made.settle(pairs)
    return made


def test_there_is_an_example_of_every_kind():
    assert set(FAULTY) == set(KINDS)


@pytest.mark.parametrize("kind", FAULTY)
@pytest.mark.parametrize("drop", [(), tuple(KINDS)], ids=["kept", "dropped"])
def test_each_fault_is_named(kind, drop):
    assert checks(drop=drop).fault(*FAULTY[kind]) == kind


def test_a_pair_with_several_faults_is_the_first_kind():
    both = ("Held out.", "Held out.")
    assert checks().fault(*both) == "test_pair"


def test_a_kind_that_is_dropped_comes_before_one_that_is_kept():
    both = ("Held out.", "Held out.")
    assert checks(drop=["identical"]).fault(*both) == "identical"
    assert checks(drop=["identical", "test_pair"]).fault(*both) == "test_pair"


# What is the same text -----------------------------------------------------------------------------------------------

SAME = [
    "Der Weiße Bär",
    "der weisse bär",
    "DER WEISSE BÄR",
    "  Der\tWeiße \u3000 Bär\u00a0\n",
    unicodedata.normalize("NFD", "Der Weiße Bär"),
    unicodedata.normalize("NFD", "DER WEISSE BÄR"),
]


@pytest.mark.parametrize("text", SAME)
def test_case_spacing_and_the_coding_of_accents_do_not_make_another_text(text):
    assert normalised(text) == "der weisse bär"


@pytest.mark.parametrize(
    "text", ["Der Weiße Bar", "Der Weiße-Bär", "DerWeiße Bär", "Der Weiße Bär.", "Der Weiße B a\u0308r"]
)
def test_other_letters_and_marks_make_another_text(text):
    assert normalised(text) != normalised(SAME[0])


@pytest.mark.parametrize("text", ["İstanbul", "ΌΣΟΣ", "ǰ", "ᾼ", "ŉ a", "\u1e9e", "a \x1c b", "ﬁ", "Å\u0323", "각"])
def test_what_is_normalised_stays_as_it_is_in_every_form(text):
    forms = {normalised(unicodedata.normalize(form, text)) for form in ("NFC", "NFD")}
    assert len(forms) == 1
    assert normalised(*forms) == forms.pop()


@pytest.mark.parametrize("text", ["ΐδιος", "ΰ", "straße", "ŉ", "Ὄψις ᾳ", "ĳ"])
def test_a_text_in_capitals_is_the_same_text_though_its_accents_come_apart(text):
    assert normalised(text.upper()) == normalised(text)


@pytest.mark.parametrize("source", ["held out.", " Held\u00a0 OUT.\t"])
def test_a_test_source_is_known_in_another_case_and_spacing(source):
    assert checks().fault(source, "was es auch sei") == "test_pair"


def test_a_held_out_text_on_the_target_side_is_no_test_pair():
    assert checks().fault("draussen gehalten", "Held out.") is None


# Duplicates ----------------------------------------------------------------------------------------------------------


def test_a_duplicate_is_a_pair_whose_sides_are_both_the_same_as_before():
    made = checks()
    assert made.fault("a  DOG runs.", "ein Hund rennt. ") == "duplicate"
    assert made.fault("A dog runs.", "Da rennt ein Hund.") is None
    assert made.fault("The dog runs.", "Ein Hund rennt.") is None


def test_what_ends_a_side_is_part_of_what_makes_a_pair():
    made = settled()
    assert made.fault("one two", "three") is None
    assert made.fault("one", "two three") is None


def test_a_pair_is_no_duplicate_of_one_that_was_left_out():
    made = checks(drop=["control", "duplicate"])
    assert made.fault("an owl\x07", "eine Eule") == "control"
    assert made.fault("an owl\x07", "eine Eule") == "control"
    assert made.fault("an owl", "eine Eule") is None


def test_duplicates_are_not_looked_for_without_memory_of_the_pairs():
    made = Checks(remember=False)
    assert [made.fault("a", "b") for _ in range(3)] == [None] * 3


# Identical sides -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"), [("12:30", None), ("— …", None), ("3 km", "identical"), ("你好", "identical")]
)
def test_the_same_text_on_both_sides_is_a_fault_if_there_are_letters_in_it(text, kind):
    assert settled().fault(text, text) == kind


# Control characters --------------------------------------------------------------------------------------------------


def test_control_characters_are_those_of_unicode_but_for_tab_and_line_ends():
    controls = {chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cc"}
    found = {c for c in map(chr, range(0x3000)) if settled().fault(f"a{c}b", f"x{c}y") == "control"}
    assert found == controls - set("\t\n\r")


def test_a_control_character_is_found_on_either_side():
    assert settled().fault("bell\x07", "Glocke") == "control"
    assert settled().fault("bell", "Glocke\x07") == "control"


@pytest.mark.parametrize("text", ["क्\u200dष", "👩\u200d🔬", "می\u200cخواهم", "\u200fשלום", "co\u00adop", "\ufeffa"])
def test_joiners_marks_of_direction_and_soft_hyphens_are_text(text):
    assert settled().fault(text, "anything") is None


# Lengths -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "length"), [("abc d", 5), ("Größe", 5), ("Привет", 6), ("我爱你。", 10), ("한국 a", 8), ("カナ", 6)]
)
def test_a_cjk_letter_counts_as_three_characters(text, length):
    assert weighted_length(text) == length


@pytest.mark.parametrize("filler", ["a", "ä", "я", "ก", "\U0001f600"])
def test_two_thousand_characters_are_not_too_long_and_one_more_is(filler):
    assert settled().fault(filler * 2000, "b" * 1999) is None
    assert settled().fault(filler * 2001, "b" * 1999) == "too_long"
    assert settled().fault("b" * 1999, filler * 2001) == "too_long"


def test_chinese_is_too_long_from_a_third_of_that():
    assert settled().fault("我" * 666, "b" * 1999) is None
    assert settled().fault("我" * 667, "b" * 1999) == "too_long"
    assert settled().fault("我" * 667, "b") == "too_long"


@pytest.mark.parametrize("letters", ["bb", "bä", "яя", "กก", "b\U00010400"])
@pytest.mark.parametrize(("short", "most"), [(1, 24), (10, 60), (100, 420)])
def test_a_side_may_have_four_times_the_characters_of_the_other_and_twenty_more(letters, short, most):
    first, second = (letter.upper() + letter * most for letter in letters)
    for one, other in ((first[:short], second[:most]), (second[:most], first[:short])):
        assert settled().fault(one, other) is None
    for one, other in ((first[:short], second[: most + 1]), (second[: most + 1], first[:short])):
        assert settled().fault(one, other) == "length_ratio"


def test_a_chinese_translation_of_an_english_sentence_is_not_too_short():
    english = "The committee will meet again next week to decide about the new proposal of the government."
    chinese = "委员会下周将再次开会，决定政府的新提案。"
    assert settled().fault(english, chinese) is None
    assert settled().fault(english * 2, "决定政府的新提案。") == "length_ratio"
    assert settled().fault("委员会下周将再次开会", "Yes") is None  # 30 to 3
    assert settled().fault("委员会下周将再次开会吧", "Yes") == "length_ratio"


# Scripts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("character", "script"),
    [
        ("a", "LATIN"), ("ß", "LATIN"), ("Ａ", "LATIN"), ("𝐀", "LATIN"), ("ª", "LATIN"), ("я", "CYRILLIC"),
        ("µ", "GREEK"), ("字", "CJK"), ("々", "CJK"), ("ー", "CJK"), ("ｶ", "CJK"), ("한", "CJK"), ("ㄅ", "CJK"),
        ("ع", "ARABIC"), ("ש", "HEBREW"), ("ก", "THAI"), ("क", "DEVANAGARI"),
        ("7", None), (" ", None), ("。", None), ("\u0301", None), ("ि", None), ("😀", None),
    ],
)  # fmt: skip
def test_the_script_of_a_letter_is_that_of_its_unicode_name(character, script):
    assert script_of(character) == script


RUSSIAN = [("A dog.", "Собака."), ("A cat.", "Кошка."), ("A big bird.", "Большая птица.")]


@pytest.mark.parametrize(
    "pair",
    [
        ("Собака лает.", "Собака лает, да."),
        ("A dog barks.", "A dog is barking."),
        ("A dog λέει, γειά σου.", "Собака."),
    ],
)
def test_a_side_mostly_in_another_script_than_its_side_of_the_corpus_is_a_fault(pair):
    assert settled(*RUSSIAN).fault(*pair) == "script"


@pytest.mark.parametrize(
    "pair",
    [
        ("The word собака is Russian.", "Слово «dog» английское."),
        ("12:30", "0,5"),
        ("😀 !", "— 7 %"),
        ("naïve “Ærøskøbing” ſ", "Ёжик — это ёж…"),
    ],
)  # fmt: skip
def test_some_foreign_letters_and_no_letters_at_all_are_no_fault(pair):
    made = settled(*RUSSIAN)
    assert [made.fault(*pair), made.fault(pair[0], pair[1] + "!")] == [None, None]


def test_foreign_letters_that_were_let_pass_in_one_text_are_foreign_in_the_next():
    made = settled(*RUSSIAN)
    assert made.fault("The word dog.", "Слово «dog» английское.") is None
    assert made.fault("A good dog.", "«dog god»") == "script"


def test_latin_names_in_a_chinese_sentence_weigh_less_than_its_characters():
    made = settled(("A dog.", "一条狗。"), ("A cat.", "一只猫。"))
    assert made.fault("Facebook is boring.", "Facebook很無聊。") is None
    assert made.fault("I use Microsoft Windows.", "我 Microsoft Windows。") == "script"


def test_kana_and_han_are_one_script():
    made = settled(("A dog.", "犬です。"), ("A cat.", "ネコ。"))
    assert made.fault("A sushi.", "スシ") is None
    assert made.fault("Really?", "本当") is None


def test_a_side_in_several_scripts_has_none_that_is_foreign():
    serbian = [("One.", "један"), ("Two.", "dva"), ("Three.", "три")]
    assert settled(*serbian).fault("A Greek word.", "λέξη") is None


def test_one_text_in_ten_may_be_foreign_in_the_sample_that_says_what_is_not():
    sample = [(f"dog {n}", "собака") for n in range(18)] + [("cat", "cat one"), ("cat", "cat two")]
    assert settled(*sample).fault("bird", "a bird") == "script"
    assert settled(*sample, ("cat", "cat three")).fault("bird", "a bird") is None


def test_no_script_is_foreign_before_the_corpus_is_known():
    assert Checks().fault("A dog.", "собака") is None


# The report ----------------------------------------------------------------------------------------------------------


def report(rows, *found):
    made = Report(rows=rows)
    for reason, place, kept in found:
        made.add(reason, place, kept)
    return made


def test_the_table_says_of_each_reason_whether_its_rows_were_dropped_or_kept():
    found = [("target side blank", f"a.de:{n}", False) for n in range(1, 8)]
    made = report(
        99, ("script", "a.en:9", True), *found, ("duplicate", "a.en:20", True), ("duplicate", "a.en:21", False)
    )
    assert str(made).splitlines() == [
        "     rows  were     what                                                           first places",
        "        7  dropped  target side blank                                              "
        "a.de:1, a.de:2, a.de:3, a.de:4, a.de:5, ...",
        "        2  1 kept   duplicate: the same pair was there before                      a.en:20, a.en:21",
        "        1  kept     script: a side is in another script than the rest of its side  a.en:9",
    ]  # fmt: skip
    assert made.dropped == 8


def test_a_report_of_nothing_is_empty_text():
    assert str(report(5)) == ""


def test_a_report_survives_json():
    made = report(7, ("script", "ä:1", True), ("duplicate", "b:2", False), ("duplicate", "b:3", True))
    state = json.loads(json.dumps(made.to_dict()))
    assert Report.from_dict(state) == made
    assert state == {
        "rows": 7,
        "dropped": 1,
        "reasons": {
            "duplicate": {"rows": 2, "kept": 1, "dropped": 1, "first_places": ["b:2", "b:3"]},
            "script": {"rows": 1, "kept": 1, "dropped": 0, "first_places": ["ä:1"]},
        },
    }


def test_merged_reports_are_the_report_of_all_rows():
    found = [("script" if n % 3 else "control", f"a:{n}", n % 2 == 0) for n in range(17)]
    first, second = report(20, *found[:6]), report(11, *found[6:])
    second_before = second.to_dict()
    first.merge(second)
    assert first == report(31, *found)
    assert second.to_dict() == second_before


def test_lengths_are_counted_in_characters_and_in_words_between_spaces():
    texts = ["one  two", "three", "four five six seven", "八九", " ten "]
    assert lengths(texts) == {
        "median_characters": 5,
        "longest_characters": 19,
        "median_words": 1,
        "longest_words": 4,
        "all_words": 9,
    }
