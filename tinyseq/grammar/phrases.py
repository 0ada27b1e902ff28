# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Phrases: English words, Spanish words and the links between them.

`word` makes them and `join` puts them together and reorders them; then noun phrases, verbs, and where and when.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from .lexicon import (
    NAMES,
    NUMBERS,
    PREPOSITIONS,
    PRONOUN_WEIGHTS,
    PRONOUNS,
    Adjective,
    Noun,
    Verb,
    nouns_of,
    perhaps,
    pick,
    pick_adjective,
)

PHENOMENA: tuple[str, ...] = (
    "article",  # el/la/los/las, un/una, agreeing with the noun
    "adjective",  # the black cats / los gatos negros
    "participle",  # the doors were painted / las puertas fueron pintadas
    "good_bad",  # buen libro, buena idea, malas noticias
    "negation",  # does not, doesn't, did not, didn't / no
    "question",  # Does the boy see the dog? / ¿Ve el niño al perro?
    "gustar",  # the boy likes the apples / al niño le gustan las manzanas
    "clitic",  # bought the apple and ate it / compró la manzana y la comió
    "indirect_object",  # gave the book to the girl / le dio el libro a la niña
    "personal_a",  # sees Ana / ve a Ana
    "contraction",  # al, del
    "possessive",  # the teacher's book / el libro del profesor
    "relative_clause",  # the boys that the teacher sees run / los niños que ve el profesor corren
    "dropped_subject",  # we eat / comemos
    "number",  # two cats / dos gatos
    "conjunction",  # two clauses, or two subjects
    "referent",  # it: only the adjective of the reason tells what it stands for
    "fixed_phrase",  # You are welcome. / De nada.
    "text",  # the sentences of the texts that tinyseq was written for
)

Links = tuple[tuple[int, int], ...]
Combination = tuple[str, str, str]  # kind, lemma, lemma: what can be held out of training


@dataclass(frozen=True)
class Phrase:
    """Words in both languages, the links between them, and what they show."""

    english: tuple[str, ...] = ()
    spanish: tuple[str, ...] = ()
    links: Links = ()
    phenomena: frozenset[str] = frozenset()
    combinations: frozenset[Combination] = frozenset()
    referent: str = ""

    def shows(self, *phenomena: str) -> Phrase:
        """The same words, marked with more phenomena."""
        return replace(self, phenomena=self.phenomena.union(phenomena))

    def combines(self, kind: str, first: str, second: str) -> Phrase:
        """The same words, marked as a combination of two lemmas."""
        return replace(self, combinations=self.combinations | {(kind, first, second)})


@cache
def word(english: str, spanish: str = "") -> Phrase:
    """A phrase whose English words all link to all its Spanish words; either side may be empty or several words."""
    source, target = tuple(english.split()), tuple(spanish.split())
    return Phrase(source, target, tuple((i, j) for i in range(len(source)) for j in range(len(target))))


NOTHING = word("")


def join(*parts: Phrase, spanish: Sequence[int] | None = None) -> Phrase:
    """The parts one after the other; in Spanish in the order of the indices `spanish`; the links follow the words."""
    english_words: list[str] = []
    english_start = []
    for part in parts:
        english_start.append(len(english_words))
        english_words.extend(part.english)
    spanish_words: list[str] = []
    links: list[tuple[int, int]] = []
    for index in range(len(parts)) if spanish is None else spanish:
        source_start, target_start = english_start[index], len(spanish_words)
        spanish_words.extend(parts[index].spanish)
        links.extend([(source_start + i, target_start + j) for i, j in parts[index].links])
    return Phrase(
        tuple(english_words),
        tuple(spanish_words),
        tuple(links),
        frozenset().union(*[part.phenomena for part in parts]),
        frozenset().union(*[part.combinations for part in parts]),
        "".join([part.referent for part in parts]),
    )


_WORD = re.compile(r"'s\b|\w+?(?='s\b)|\w+(?:'t\b)?|[^\w\s]")


def words(text: str) -> list[str]:
    """The words of a sentence, in English or Spanish, each punctuation mark a word of its own.

    A possessive `'s` is a word of its own, because it alone becomes `de`; a negation such as `didn't` is one word,
    because it becomes the one word `no`: words("Ana's dog didn't run.") is ["Ana", "'s", "dog", "didn't", "run", "."].
    """
    return _WORD.findall(text)


def written(text_words: Sequence[str]) -> str:
    """The sentence as people write it: a capital first, no space inside "Ana's", "¿Ve", "Ana," and "corre."."""
    text = " ".join(text_words)
    text = re.sub(r" ('s\b|[.,?!])", r"\1", text)
    text = re.sub(r"([¿¡]) ", r"\1", text)
    first = 1 if text[0] in "¿¡" else 0
    return text[:first] + text[first].upper() + text[first + 1 :]


_CONTRACTIONS = {("a", "el"): "al", ("de", "el"): "del"}


def contracted(phrase: Phrase) -> Phrase:
    """The phrase with `a el` and `de el` as `al` and `del`, which take the links of both words."""
    spanish: list[str] = []
    position = []  # of every old word among the new ones
    for spanish_word in phrase.spanish:
        contraction = _CONTRACTIONS.get((spanish[-1], spanish_word)) if spanish else None
        if contraction:
            spanish[-1] = contraction
        else:
            spanish.append(spanish_word)
        position.append(len(spanish) - 1)
    if len(spanish) == len(phrase.spanish):
        return phrase
    links = tuple((i, position[j]) for i, j in phrase.links)
    return replace(phrase, spanish=tuple(spanish), links=links).shows("contraction")


@dataclass(frozen=True)
class NounPhrase:
    """A phrase that can be a subject or an object, with what the rest of the sentence agrees with."""

    phrase: Phrase
    lemma: str
    gender: str
    person: int  # index into (yo, tú, él, nosotros, ellos), for the Spanish verb
    english_person: int  # the same for the English verb; differs in "the news is" / "las noticias son"
    kinds: str

    @property
    def plural(self) -> bool:
        """Whether it is plural in Spanish."""
        return self.person >= 3

    @property
    def animate(self) -> bool:
        """Whether it takes the personal `a` as an object."""
        return self.kinds.startswith(("person", "animal"))


def _ownable(noun: Noun, plural: bool) -> bool:
    """Whether "my" and "Ana's" go with it: not with rivers, and of people only with relatives and friends."""
    if noun.is_any("person"):
        return noun.is_any("kin") and not (plural and noun.is_any("parent"))
    return noun.is_any("home") or not (
        noun.mass or noun.is_any("way height tree hollow barrier gap town building outdoors")
    )


def _article(definite: bool, gender: str, plural: bool, stressed_a: bool) -> str:
    if definite:
        form = ("las" if plural else "la") if gender == "f" else ("los" if plural else "el")
        return "el" if form == "la" and stressed_a else form
    return "una" if gender == "f" and not stressed_a else "un"


def _qualified(noun: Noun, plural: bool, adjective: Adjective | None) -> Phrase:
    """The noun with its adjective: after it in Spanish (gato negro), but for good and bad (buen libro)."""
    head = word(*noun.forms(plural))
    if adjective is None:
        return head
    form = adjective.form(noun.gender, plural or noun.plural_only)
    if adjective.english in ("good", "bad"):
        form = form[:-1] if form in ("bueno", "malo") else form  # buen libro, mal plan; buena idea, buenos libros
        head = join(word(adjective.english, form), head).shows("good_bad")
    else:
        head = join(word(adjective.english, form), head, spanish=(1, 0)).shows("adjective")
    return head.combines("noun+adjective", noun.english, adjective.english)


def _determined(determiner: Phrase, noun: Noun, plural: bool, head: Phrase) -> NounPhrase:
    person = 4 if plural or noun.plural_only else 2
    return NounPhrase(join(determiner, head), noun.english, noun.gender, person, 4 if plural else 2, noun.kinds)


def _the(noun: Noun, plural: bool, head: Phrase) -> Phrase:
    stressed_a = noun.stressed_a and head.spanish[0] == noun.spanish  # el agua fría, la buena agua
    return word("the", _article(True, noun.gender, plural or noun.plural_only, stressed_a)).shows("article")


def the(noun: Noun, plural: bool = False, adjective: Adjective | None = None) -> NounPhrase:
    """The noun with "the", and the adjective if there is one."""
    head = _qualified(noun, plural, adjective)
    return _determined(_the(noun, plural, head), noun, plural, head)


def noun_phrase(
    rng: random.Random, noun: Noun, adjective: float = 0.28, possessor: float = 0.14, definite: bool = False
) -> NounPhrase:
    """The noun in either number, with a determiner or a possessor, and perhaps an adjective.

    Args:
        adjective: The probability of an adjective.
        possessor: The probability of a possessor ("Ana's") in place of the determiner.
        definite: Whether to leave out "a" and numbers.
    """
    plural = not noun.mass and perhaps(rng, 0.33)
    head = _qualified(noun, plural, pick_adjective(rng, noun) if perhaps(rng, adjective) else None)
    if not (_ownable(noun, plural) and perhaps(rng, possessor)):
        return _determined(_determiner(rng, noun, plural, head, definite), noun, plural, head)
    return _determined(NOTHING, noun, plural, owned(rng, noun, plural, head))


def _determiner(rng: random.Random, noun: Noun, plural: bool, head: Phrase, definite: bool) -> Phrase:
    """A determiner that agrees with the noun."""
    chance = rng.random()
    if noun.mass or chance < 0.60:
        return _the(noun, plural, head)
    if chance < 0.83 and not definite:
        if plural:
            return word(*rng.choice(NUMBERS)).shows("number")
        article = "an" if head.english[0][0] in "aeiouAEIOU" else "a"
        return word(article, _article(False, noun.gender, False, False)).shows("article")
    feminine = noun.gender == "f"
    if chance < 0.90 or not _ownable(noun, plural):
        spanish = ("estas" if feminine else "estos") if plural else ("esta" if feminine else "este")
        return word("these" if plural else "this", spanish).shows("adjective")
    our = ("our", "nuestra" if feminine else "nuestro")
    english, spanish = rng.choice((("my", "mi"), ("your", "tu"), ("his", "su"), ("her", "su"), our))
    return word(english, spanish + ("s" if plural else "")).shows("adjective")


def owned(rng: random.Random, noun: Noun, plural: bool, head: Phrase) -> Phrase:
    """The head with an owner: "the girl's red house" / "la casa roja de la niña"."""
    article = replace(_the(noun, plural, head), english=(), links=())
    return join(_owner(rng, noun), word("'s", "de"), head, article, spanish=(3, 2, 1, 0)).shows("possessive")


def person_name(rng: random.Random) -> NounPhrase:
    """Someone by name."""
    english, spanish, gender = rng.choice(NAMES)
    return NounPhrase(word(english, spanish), english, gender, 2, 2, "person")


def _owner(rng: random.Random, owned: Noun) -> Phrase:
    """A name, or a person with an article: whose the noun is."""
    if perhaps(rng, 0.5):
        return person_name(rng).phrase
    return the(rng.choice([noun for noun in nouns_of("person") if noun is not owned])).phrase


def someone(rng: random.Random, adjective: float) -> NounPhrase:
    """A name, or a person: by whom, or to whom."""
    if perhaps(rng, 0.3):
        return person_name(rng)
    return noun_phrase(rng, pick(rng, "person"), adjective, possessor=0.05)


def _together(first: NounPhrase, second: NounPhrase) -> NounPhrase:
    """Two subjects as one: "Ana and the boy", plural, and feminine only if both are."""
    phrase = join(first.phrase, word("and", "y"), second.phrase).shows("conjunction")
    gender = "f" if first.gender == second.gender == "f" else "m"
    return NounPhrase(phrase, "and", gender, 4, 4, first.kinds)


def subject(rng: random.Random, kinds: str, together: float = 0.04) -> NounPhrase:
    """A subject of one of the kinds: a noun phrase, or for people also a name, a pronoun or two of them."""
    if "person" in kinds:
        chance = rng.random()
        if chance < together:
            return _together(person_name(rng), the(pick(rng, "person")))
        if chance < 0.18:
            return person_name(rng)
        if chance < 0.43:
            english, spanish, person = rng.choices(PRONOUNS, PRONOUN_WEIGHTS)[0]
            phrase = word(english, spanish) if spanish else word(english).shows("dropped_subject")
            return NounPhrase(phrase, english, "f" if english == "she" else "m", person, person, "person pronoun")
        if "animal" in kinds and chance < 0.65:
            kinds = "person"
    return noun_phrase(rng, pick(rng, kinds))


def direct_object(rng: random.Random, verb: Verb, adjective: float = 0.28, possessor: float = 0.14) -> NounPhrase:
    """An object that the verb can take, with the personal `a` or the preposition that Spanish wants before it."""
    if verb.objects.startswith("person") and perhaps(rng, 0.2):
        thing = person_name(rng)
    else:
        thing = noun_phrase(rng, pick(rng, verb.objects), adjective, possessor)
    return replace(thing, phrase=marked(verb, thing).combines("verb+object", verb.english, thing.lemma))


def marked(verb: Verb, thing: NounPhrase) -> Phrase:
    """The object with the preposition that Spanish puts before it, if any."""
    if verb.marker:
        return join(word("", verb.marker), thing.phrase)
    return join(word("", "a"), thing.phrase).shows("personal_a") if thing.animate else thing.phrase


DO = {"present": ("do", "do", "does", "do", "do"), "past": ("did",) * 5}


def verb_parts(
    rng: random.Random, verb: Verb, tense: str, who: NounPhrase, negative: bool, person: int | None = None
) -> tuple[Phrase, Phrase]:
    """The negation, if any, and the verb: does not, eat / no, come.

    With `person`, the Spanish verb agrees with that, and not with the subject of the English one.
    """
    spanish = verb.spanish_form(tense, who.person if person is None else person)
    if not negative:
        return NOTHING, word(verb.english_form(tense, who.english_person), spanish)
    do = DO[tense][who.english_person]
    negation = word(do + "n't", "no") if perhaps(rng, 0.5) else join(word(do), word("not", "no"))
    return negation.shows("negation"), word(verb.english, spanish)


def verb_group(
    rng: random.Random, verb: Verb, tense: str, who: NounPhrase, negative: bool, clitic: Phrase = NOTHING
) -> Phrase:
    """The verb for a statement; a clitic goes last in English: "does not eat it" / "no la come"."""
    return join(*verb_parts(rng, verb, tense, who, negative), clitic, spanish=(0, 2, 1))


BE = {"present": ("am", "are", "is", "are", "are"), "past": ("was", "were", "was", "were", "were")}
_COPULAS = {
    ("ser", "present"): ("soy", "eres", "es", "somos", "son"),
    ("ser", "past"): ("era", "eras", "era", "éramos", "eran"),
    ("estar", "present"): ("estoy", "estás", "está", "estamos", "están"),
    ("estar", "past"): ("estaba", "estabas", "estaba", "estábamos", "estaban"),
}


def be(copula: str, tense: str, who: NounPhrase) -> Phrase:
    """The form of "to be"; `copula` is that of the Spanish adjective, ser or estar."""
    return word(BE[tense][who.english_person], _COPULAS[copula, tense][who.person])


def perhaps_not(rng: random.Random, probability: float) -> Phrase:
    """Perhaps the negation of "to be"."""
    return word("not", "no").shows("negation") if perhaps(rng, probability) else NOTHING


def pick_tense(rng: random.Random) -> str:
    """The past more often than the present."""
    return "past" if perhaps(rng, 0.55) else "present"


def with_agent(who: NounPhrase, verb: Verb, phrase: Phrase) -> Phrase:
    """The clause, marked with who does what."""
    return phrase.combines("subject+verb", who.lemma, verb.english)


def place(rng: random.Random, of_thing: bool = False) -> Phrase:
    """Where something happens, or where a thing is: "near the house" / "cerca de la casa"."""
    english, spanish, events, things = rng.choice(PREPOSITIONS)
    noun = pick(rng, things if of_thing else events)
    where = the(noun, adjective=pick_adjective(rng, noun) if perhaps(rng, 0.1) else None)
    return join(word(english, spanish), where.phrase)


def _time(rng: random.Random, tense: str) -> Phrase:
    if tense == "past":
        return word("yesterday", "ayer")
    every_day = join(word("every", "todos los"), word("day", "días"))
    return rng.choice((word("today", "hoy"), word("now", "ahora"), every_day))


def pick_setting(rng: random.Random, tense: str, probability: float) -> Phrase:
    """Perhaps a place or a time."""
    if not perhaps(rng, probability):
        return NOTHING
    return place(rng) if perhaps(rng, 0.6) else _time(rng, tense)
