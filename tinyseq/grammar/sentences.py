# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Sentences, one function per family, and the fixed phrases.

A clause has no final punctuation, so that clauses can be joined.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from .lexicon import (
    ADJECTIVES,
    ANYTHING,
    CHAINS,
    GIVING,
    NOUNS,
    VERBS,
    Noun,
    Verb,
    adjectives_for,
    kinds_of,
    nouns_of,
    perhaps,
    pick,
    pick_adjective,
)
from .phrases import (
    BE,
    DO,
    NOTHING,
    NounPhrase,
    Phrase,
    be,
    direct_object,
    join,
    marked,
    noun_phrase,
    owned,
    perhaps_not,
    pick_setting,
    pick_tense,
    place,
    someone,
    subject,
    the,
    verb_group,
    verb_parts,
    with_agent,
    word,
)

AND, BUT = word("and", "y"), join(word(",", ","), word("but", "pero"))
_PLACES = frozenset({"way", "height", "barrier", "hollow", "building", "house"})
_INTRANSITIVE = tuple(verb for verb in VERBS if not verb.objects)
_TRANSITIVE = tuple(verb for verb in VERBS if verb.objects)
_PASSIVE = tuple(verb for verb in VERBS if verb.passive)
_VERB = {verb.english: verb for verb in VERBS}
_CHAINS = tuple(
    (first, second, objects)
    for first, second in ((_VERB[english] for english in chain.split("/")) for chain in CHAINS)
    if (objects := tuple(noun for noun in nouns_of(first.objects) if noun in nouns_of(second.objects)))
)


def statement(rng: random.Random) -> Phrase:
    """Someone does something: "The girl does not eat the apple"."""
    tense, negative = pick_tense(rng), perhaps(rng, 0.35)
    if perhaps(rng, 0.3):
        verb = rng.choice(_INTRANSITIVE)
        who, rest, setting = subject(rng, verb.subjects), NOTHING, 0.75
    else:
        verb = rng.choice(_TRANSITIVE)
        who, rest = subject(rng, verb.subjects), direct_object(rng, verb).phrase
        setting = 0.15 if kinds_of(verb.objects).isdisjoint(_PLACES) else 0  # not: crossed the river in the room
    often, when = NOTHING, pick_setting(rng, tense, setting)
    if not negative and when is NOTHING and perhaps(rng, 0.2):
        often = rng.choice((word("always", "siempre"), word("never", "nunca")))
    clause = join(who.phrase, often, verb_group(rng, verb, tense, who, negative), rest, when)
    return with_agent(who, verb, clause)


def description(rng: random.Random) -> Phrase:
    """Someone or something is so: "The balls are red"."""
    tense = pick_tense(rng)
    if perhaps(rng, 0.2):
        who = subject(rng, "person")
        fitting = [adjective for adjective in ADJECTIVES if "person" in adjective.fits.split()]
        if who.lemma in ("I", "you", "we", "they"):  # whose gender the English does not tell
            fitting = [adjective for adjective in fitting if not adjective.varies_by_gender]
        adjective = rng.choice(fitting)
    else:
        adjective = rng.choice(ADJECTIVES)
        who = noun_phrase(rng, pick(rng, adjective.fits), adjective=0, definite=True)
    negation = perhaps_not(rng, 0.25)
    degree = NOTHING
    if not adjective.absolute and perhaps(rng, 0.25):
        degree = word("very", "muy") if perhaps(rng, 0.7) else word("too", "demasiado")
    quality = word(adjective.english, adjective.form(who.gender, who.plural))
    clause = join(who.phrase, be(adjective.copula, tense, who), negation, degree, quality, spanish=(0, 2, 1, 3, 4))
    return clause.shows("adjective").combines("noun+adjective", who.lemma, adjective.english)


def location(rng: random.Random) -> Phrase:
    """Where something is: "The book is on the table"."""
    who = (
        subject(rng, "person")
        if perhaps(rng, 0.25)
        else noun_phrase(rng, pick(rng, "thing clothing animal"), definite=True)
    )
    tense, thing = pick_tense(rng), not who.animate
    negation = perhaps_not(rng, 0.2)
    return join(who.phrase, be("estar", tense, who), negation, place(rng, of_thing=thing), spanish=(0, 2, 1, 3))


_LIKED = "food drink animal building outdoors town clothing text music vehicle toy instrument person"
_LIKED_DOING = tuple(v for v in _INTRANSITIVE if v.english not in ("fall", "arrive", "cry", "wait"))
_LIKE = Verb("like", "gustar", "person animal", _LIKED)
_ME = ("me", "te", "le", "nos", "les")


def _liking(rng: random.Random, who: NounPhrase) -> tuple[Phrase, Phrase, Phrase, int]:
    """Who likes, as `a` phrase and as clitic; what is liked, and its person."""
    liker, clitic = join(word("", "a"), who.phrase), word("", _ME[who.person])
    if who.lemma in ("I", "you", "we", "they"):
        liker, clitic = NOTHING, word(who.lemma, _ME[who.person])
    if who.kinds.startswith("person") and perhaps(rng, 0.25):
        verb = rng.choice(_LIKED_DOING)
        return liker, clitic, join(word("to"), word(verb.english, verb.spanish)), 2
    thing = noun_phrase(rng, pick(rng, _LIKED), adjective=0.2, definite=True)
    return liker, clitic, thing.phrase.combines("verb+object", "like", thing.lemma), thing.person


def gustar(rng: random.Random) -> Phrase:
    """What pleases is the subject in Spanish: "The boy likes the apples" / "Al niño le gustan las manzanas"."""
    who = subject(rng, "person animal", together=0)
    tense = "past" if perhaps(rng, 0.25) else "present"
    liker, clitic, what, person = _liking(rng, who)
    negation, like = verb_parts(rng, _LIKE, tense, who, perhaps(rng, 0.35), person)
    clause = join(liker, clitic, negation, like, what, spanish=(0, 2, 1, 3, 4))
    return with_agent(who, _LIKE, clause).shows("gustar")


def _clitic(thing: NounPhrase) -> Phrase:
    """The pronoun for an earlier noun: "it" / lo or la, "them" / los or las."""
    spanish = ("las" if thing.plural else "la") if thing.gender == "f" else ("los" if thing.plural else "lo")
    if thing.plural:
        return word("them", spanish)
    return word(("her" if thing.gender == "f" else "him") if thing.kinds.startswith("person") else "it", spanish)


def clitic_chain(rng: random.Random) -> Phrase:
    """A noun, and later its pronoun: "Ana bought the apple and ate it" / "Ana compró la manzana y la comió"."""
    first, second, objects = rng.choice(_CHAINS)
    who, tense = subject(rng, "person"), pick_tense(rng)
    thing = noun_phrase(rng, rng.choice(objects))
    taken = marked(first, thing).combines("verb+object", first.english, thing.lemma)
    taken = taken.combines("verb+object", second.english, thing.lemma)
    start = with_agent(who, first, join(who.phrase, verb_group(rng, first, tense, who, False), taken))
    if perhaps(rng, 0.6):
        link, other, start_again = AND, who, NOTHING
    else:
        other = subject(rng, "person")
        link, start_again = BUT, other.phrase
    negative = start_again is not NOTHING and perhaps(rng, 0.5)
    end = with_agent(other, second, join(start_again, verb_group(rng, second, tense, other, negative, _clitic(thing))))
    return join(start, link, end).shows("clitic")


def relative_clause(rng: random.Random, noun: Noun, tense: str) -> NounPhrase:
    """The noun with a clause that says which: "the boys that the teacher sees" / "los niños que ve el profesor"."""
    plural, adjective = not noun.mass and perhaps(rng, 0.4), pick_adjective(rng, noun) if perhaps(rng, 0.1) else None
    head = the(noun, plural, adjective)
    seers = [verb for verb in _TRANSITIVE if noun.is_any(verb.objects) and not verb.marker]
    doers = [verb for verb in _TRANSITIVE if noun.is_any(verb.subjects)]
    if doers and (not seers or perhaps(rng, 0.5)):
        verb = rng.choice(doers)
        thing = direct_object(rng, verb, adjective=0.1, possessor=0.05)
        clause = with_agent(head, verb, join(verb_group(rng, verb, tense, head, False), thing.phrase))
    else:
        verb = rng.choice(seers)
        who = subject(rng, verb.subjects)
        clause = join(who.phrase, verb_group(rng, verb, tense, who, False), spanish=(1, 0))
        clause = with_agent(who, verb, clause).combines("verb+object", verb.english, noun.english)
    return replace(head, phrase=join(head.phrase, word("that", "que"), clause).shows("relative_clause"))


def relative(rng: random.Random) -> Phrase:
    """A clause whose subject or object carries a relative clause."""
    tense = pick_tense(rng)
    chance = rng.random()
    if chance < 0.4:  # the boys that the teacher sees run
        verb = rng.choice(_INTRANSITIVE)
        who = relative_clause(rng, pick(rng, verb.subjects), tense)
        clause = join(who.phrase, verb_group(rng, verb, tense, who, perhaps(rng, 0.2)))
        return with_agent(who, verb, clause)
    if chance < 0.7:  # the book that the girl wrote is long
        noun = rng.choice([noun for noun in nouns_of(ANYTHING) if adjectives_for(noun)])
        adjective = rng.choice(adjectives_for(noun))
        who = relative_clause(rng, noun, tense)
        quality = word(adjective.english, adjective.form(who.gender, who.plural)).shows("adjective")
        clause = join(who.phrase, be(adjective.copula, tense, who), quality)
        return clause.combines("noun+adjective", who.lemma, adjective.english)
    verb = rng.choice(_TRANSITIVE)  # Ana ate the apple that the boy bought
    who, noun = subject(rng, verb.subjects), pick(rng, verb.objects)
    while noun.plural_only or not any(noun.is_any(other.objects) and not other.marker for other in _TRANSITIVE):
        noun = pick(rng, verb.objects)
    thing = relative_clause(rng, noun, tense)
    rest = marked(verb, thing).combines("verb+object", verb.english, noun.english)
    return with_agent(who, verb, join(who.phrase, verb_group(rng, verb, tense, who, perhaps(rng, 0.2)), rest))


def passive(rng: random.Random) -> Phrase:
    """The participle agrees: "The doors were painted by Ana" / "Las puertas fueron pintadas por Ana"."""
    verb = rng.choice(_PASSIVE)
    noun = rng.choice([noun for noun in nouns_of(verb.objects) if not noun.is_any("person animal")])
    what = noun_phrase(rng, noun, adjective=0.15)
    english, spanish = verb.participles(what.gender, what.plural)
    negation = perhaps_not(rng, 0.2)
    was = word(BE["past"][what.english_person], "fueron" if what.plural else "fue")
    by = NOTHING
    if perhaps(rng, 0.5):
        who = someone(rng, adjective=0.1)
        by = with_agent(who, verb, join(word("by", "por"), who.phrase))
    clause = join(what.phrase, was, negation, word(english, spanish), by, spanish=(0, 2, 1, 3, 4))
    return clause.shows("participle").combines("verb+object", verb.english, noun.english)


def giving(rng: random.Random) -> Phrase:
    """Spanish names the receiver twice: "gave the book to the girl" / "le dio el libro a la niña"."""
    verb, tense, who = rng.choice(GIVING), pick_tense(rng), subject(rng, "person")
    what = direct_object(rng, verb, adjective=0.15)
    receiver = someone(rng, adjective=0.05)
    doubling = Phrase(spanish=("les" if receiver.plural else "le",))
    negation, main = verb_parts(rng, verb, tense, who, perhaps(rng, 0.25))
    clause = join(who.phrase, negation, doubling, main, what.phrase, word("to", "a"), receiver.phrase)
    return with_agent(who, verb, clause).shows("indirect_object")


@dataclass(frozen=True)
class Frame:
    """What an animal does to what, and the reasons: those that only the animal can have, and those of the thing.

    Reasons against: "didn't cross it because it was too ...", "crossed it although it was very ...".
    Reasons in favour: "ate it because it was very ...", "didn't eat it although it was very ...".
    """

    verb: str
    objects: str
    animal_against: str
    thing_against: str
    animal_for: str = ""
    thing_for: str = ""


_UNFIT = "tired sick scared injured nervous lazy"
FRAMES = (
    Frame("cross", "street road avenue square bridge river path", _UNFIT,
          "wide narrow long deep steep slippery flooded", "hungry thirsty curious bored", "empty"),
    Frame("climb", "height wall tree", _UNFIT, "high steep slippery", "hungry curious bored"),
    Frame("jump over", "barrier gap", _UNFIT + " shy", "high wide deep slippery", "curious bored angry"),
    Frame("enter", "hollow", "tired sick scared nervous shy", "narrow deep damp flooded long", "hungry curious bored"),
    Frame("eat", "apple pear orange lemon banana tomato egg potato bread cheese meat soup rice",
          "tired sick scared nervous bored angry",
          "salty bitter sour rotten", "hungry", "fresh delicious"),
    Frame("drink", "milk water juice", "tired sick scared nervous angry", "salty bitter sour", "thirsty",
          "fresh delicious"),
    Frame("move", "load", "tired sick injured lazy", "heavy", "angry bored", "light"),
)  # fmt: skip
_QUALITY = {adjective.english: adjective for adjective in ADJECTIVES}
_LOOKS = tuple(_QUALITY[look] for look in ("black", "white", "big", "small", "old", "young"))


def referent(rng: random.Random) -> Phrase:
    """Only the reason's adjective tells what "it" is: the animal was tired (cansado), the street was wide (ancha).

    As a rule the animal and the thing differ in gender, so that the Spanish adjective shows the choice; between them
    and the adjective there may be other nouns, which it cannot fit. Two things keep a model from a short cut: in some
    sentences both are of one gender (these are not marked), so that it can't learn one noun's gender and take the
    other; and in half of them the reason comes first, so that it can't go by the article that it has written already.
    """
    frame = rng.choice(FRAMES)
    plural, of_animal = perhaps(rng, 0.12), perhaps(rng, 0.5)
    thing_noun = pick(rng, frame.objects)
    plural = plural and not thing_noun.mass
    differ = perhaps(rng, 0.5)
    animal_noun = rng.choice([noun for noun in nouns_of("animal") if (noun.gender != thing_noun.gender) == differ])
    in_favour = perhaps(rng, 0.4)
    reasons = ((frame.thing_against, frame.thing_for), (frame.animal_against, frame.animal_for))[of_animal]
    noun = animal_noun if of_animal else thing_noun
    fitting = [_QUALITY[name] for name in reasons[in_favour].split() if noun.is_any(_QUALITY[name].fits)]
    if not fitting:
        in_favour = False
        fitting = [_QUALITY[name] for name in reasons[False].split() if noun.is_any(_QUALITY[name].fits)]
    quality = rng.choice(fitting)

    animal = the(animal_noun, plural, rng.choice(_LOOKS) if perhaps(rng, 0.15) else None)
    if perhaps(rng, 0.2):
        animal = replace(animal, phrase=owned(rng, animal_noun, plural, word(*animal_noun.forms(plural))))
    thing = the(thing_noun, plural)
    verb, tense = _VERB[frame.verb], "past" if perhaps(rng, 0.8) else "present"
    although = perhaps(rng, 0.4)
    negative = although == in_favour  # against it, or in favour but in vain
    reason_first = perhaps(rng, 0.5)
    link = word("although", "aunque") if although else word("because", "como" if reason_first else "porque")
    degree = word("too", "demasiado") if negative and not although else word("very", "muy")
    beside = NOTHING
    if not plural and perhaps(rng, 0.3):  # "they" could be "the girls", but "it" cannot
        beside = join(word("with", "con"), the(pick(rng, "person"), perhaps(rng, 0.25)).phrase)
    elif frame.verb not in ("cross", "enter") and perhaps(rng, 0.3):
        place_noun = pick(rng, "house school church museum library hotel")
        beside = join(word("near", "cerca de"), the(place_noun).phrase)
    chosen = animal if of_animal else thing
    form = quality.form(chosen.gender, plural)
    it = word("they" if plural else "it")
    reason = join(link, it, be(quality.copula, tense, chosen), degree, word(quality.english, form))
    rest = marked(verb, thing).combines("verb+object", verb.english, thing_noun.english)
    event = join(animal.phrase, verb_group(rng, verb, tense, animal, negative), rest, beside)
    clause = join(reason, word(",", ","), event) if reason_first else join(event, reason)
    clause = with_agent(animal, verb, clause).shows("adjective")
    clause = clause.combines("noun+adjective", chosen.lemma, quality.english)
    clause = clause.combines("referent", animal_noun.english + "+" + thing_noun.english, quality.english)
    return replace(clause.shows("referent"), referent=form) if differ else clause


def question(rng: random.Random) -> Phrase:
    """Yes or no: "Does the boy see the dog?" / "¿Ve el niño al perro?"; the verb comes first in Spanish."""
    chance, tense = rng.random(), pick_tense(rng)
    if chance < 0.2:
        noun = rng.choice([noun for noun in NOUNS if adjectives_for(noun)])
        who = noun_phrase(rng, noun, adjective=0, definite=True)
        adjective = rng.choice(adjectives_for(noun))
        quality = word(adjective.english, adjective.form(who.gender, who.plural)).shows("adjective")
        body = join(be(adjective.copula, tense, who), who.phrase, quality, spanish=(0, 2, 1))
        return body.combines("noun+adjective", who.lemma, adjective.english)
    if chance < 0.4:
        who = subject(rng, "person animal", together=0)
        liker, clitic, what, person = _liking(rng, who)
        do, like = word(DO[tense][who.english_person]), word("like", _LIKE.spanish_form(tense, person))
        body = join(do, clitic, liker, like, what, spanish=(1, 3, 4, 2, 0))
        return with_agent(who, _LIKE, body).shows("gustar")
    verb = rng.choice(_INTRANSITIVE if perhaps(rng, 0.3) else _TRANSITIVE)
    who = subject(rng, verb.subjects)
    rest = direct_object(rng, verb).phrase if verb.objects else pick_setting(rng, tense, 0.6)
    return _asked(NOTHING, verb, tense, who, rest)


def _asked(wh: Phrase, verb: Verb, tense: str, who: NounPhrase, rest: Phrase) -> Phrase:
    do = word(DO[tense][who.english_person])
    main = word(verb.english, verb.spanish_form(tense, who.person))
    return with_agent(who, verb, join(wh, do, who.phrase, main, rest, spanish=(0, 3, 2, 4, 1)))


def wh_question(rng: random.Random) -> Phrase:
    """With a question word: "What did the girl eat?" / "¿Qué comió la niña?"."""
    chance, tense = rng.random(), pick_tense(rng)
    if chance < 0.2:
        who = noun_phrase(rng, pick(rng, "thing clothing animal person building text"), definite=True)
        return join(word("where", "dónde"), be("estar", tense, who), who.phrase)
    if chance < 0.4:
        verb = rng.choice([verb for verb in _TRANSITIVE if verb.subjects.startswith("person")])
        anyone = NounPhrase(NOTHING, "who", "m", 2, 2, "person")
        return join(word("who", "quién"), verb_group(rng, verb, tense, anyone, False), direct_object(rng, verb).phrase)
    if chance < 0.65:
        verb = rng.choice([verb for verb in _TRANSITIVE if "person" not in verb.objects and not verb.marker])
        return _asked(word("what", "qué"), verb, tense, subject(rng, verb.subjects), NOTHING)
    verb = rng.choice(_INTRANSITIVE)
    wh = rng.choice((word("where", "dónde"), word("when", "cuándo"), word("why", "por qué")))
    return _asked(wh, verb, tense, subject(rng, verb.subjects), NOTHING)


def two_clauses(rng: random.Random) -> Phrase:
    """Two clauses: "Ana sings and the boys dance"."""
    link = AND if perhaps(rng, 0.5) else BUT
    return join(_draw(rng, _SHORT_CLAUSES), link, _draw(rng, _SHORT_CLAUSES)).shows("conjunction")


def long_sentence(rng: random.Random) -> Phrase:
    """Three or four clauses."""
    clause = _draw(rng, _CLAUSES)
    for _ in range(rng.choice((2, 2, 3))):
        link = AND if perhaps(rng, 0.5) else BUT
        clause = join(clause, link, _draw(rng, _SHORT_CLAUSES))
    return join(clause, word(".", ".")).shows("conjunction")


Family = tuple[int, Callable[[random.Random], Phrase]]  # weight, function
_SHORT_CLAUSES: tuple[Family, ...] = ((5, statement), (3, description), (1, location), (2, gustar), (1, passive))
_CLAUSES: tuple[Family, ...] = (
    (20, statement), (10, description), (4, location), (9, gustar), (9, clitic_chain),
    (8, relative), (6, passive), (5, giving), (24, referent), (5, two_clauses),
)  # fmt: skip
_QUESTIONS: tuple[Family, ...] = ((8, question), (5, wh_question))


def _draw(rng: random.Random, families: tuple[Family, ...]) -> Phrase:
    functions = [function for _, function in families]
    return rng.choices(functions, [weight for weight, _ in families])[0](rng)


def sentence(rng: random.Random) -> Phrase:
    """A sentence of any family, with its punctuation."""
    if perhaps(rng, 0.13):
        asked = join(word("", "¿"), _draw(rng, _QUESTIONS), word("?", "?")).shows("question")
        return replace(asked, links=(*asked.links, (len(asked.english) - 1, 0)))
    return join(_draw(rng, _CLAUSES), word(".", "."))


# English, Spanish, and the links between their words ("" links all words but the punctuation).
FIXED_PHRASES: tuple[tuple[str, str, str], ...] = (
    ("Good morning.", "Buenos días.", "0-0 1-1"), ("Good afternoon.", "Buenas tardes.", "0-0 1-1"),
    ("Good night.", "Buenas noches.", "0-0 1-1"), ("Thank you.", "Gracias.", ""),
    ("Thank you very much.", "Muchas gracias.", "0-1 1-1 2-0 3-0"), ("How are you?", "¿Cómo estás?", "0-1 1-2"),
    ("What is your name?", "¿Cómo te llamas?", ""), ("Where are you from?", "¿De dónde eres?", "0-2 1-3 3-1"),
    ("How much does it cost?", "¿Cuánto cuesta?", "0-1 1-1 4-2"), ("What time is it?", "¿Qué hora es?", "0-1 1-2 2-3"),
    ("See you later.", "Hasta luego.", "0-0 1-0 2-1"), ("See you tomorrow.", "Hasta mañana.", "0-0 1-0 2-1"),
    ("Nice to meet you.", "Mucho gusto.", ""), ("Excuse me.", "Perdón.", ""),
    ("I am sorry.", "Lo siento.", ""), ("I do not know.", "No lo sé.", "2-0 3-2"),
    ("Of course.", "Por supuesto.", ""), ("Good luck!", "¡Buena suerte!", "0-1 1-2"),
    ("Happy birthday!", "¡Feliz cumpleaños!", "0-1 1-2"), ("Congratulations!", "¡Felicidades!", ""),
    ("Have a nice trip!", "¡Buen viaje!", "2-1 3-2"), ("Please.", "Por favor.", ""),
)  # fmt: skip
TEXT_SENTENCES: tuple[tuple[str, str, str], ...] = (
    ("You are welcome.", "De nada.", ""),
    ("The ball is blue.", "La bola es azul.", "0-0 1-1 2-2 3-3"),
    ("The black cat drank the milk.", "El gato negro bebió la leche.", "0-0 1-2 2-1 3-3 4-4 5-5"),
    ("The animal didn't cross the street because it was too tired.",
     "El animal no cruzó la calle porque estaba demasiado cansado.", "0-0 1-1 2-2 3-3 4-4 5-5 6-6 8-7 9-8 10-9"),
    ("The animal didn't cross the street because it was too wide.",
     "El animal no cruzó la calle porque era demasiado ancha.", "0-0 1-1 2-2 3-3 4-4 5-5 6-6 8-7 9-8 10-9"),
)  # fmt: skip
TEXT_PHENOMENA = {
    "You are welcome.": ("fixed_phrase",),
    "The ball is blue.": ("article", "adjective"),
    "The black cat drank the milk.": ("article", "adjective"),
}
