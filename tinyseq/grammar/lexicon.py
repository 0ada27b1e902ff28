# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Words in both languages: their forms, the tables of them, and choosing among them.

Adding a word is adding an entry to a table; its kinds say what it goes with.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

# Word forms ----------------------------------------------------------------------------------------------------------

_PLAIN = str.maketrans("áéíóú", "aeiou")


def _spanish_plural(singular: str) -> str:
    if singular[-1] in "aeiouáéó":
        return singular + "s"
    if singular[-1] == "z":
        return singular[:-1] + "ces"
    return singular[:-2] + singular[-2:].translate(_PLAIN) + "es"  # canción, canciones; but árbol, árboles


def _english_s(base: str) -> str:
    """The form in -s: the plural of a noun, the third person of a verb."""
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "x", "ch", "sh")) else "s")


def _english_past(base: str) -> str:
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + ("d" if base.endswith("e") else "ed")


@dataclass(frozen=True)
class Noun:
    """A noun: its two words, its Spanish gender, and its kinds, which say what it can do and be."""

    english: str
    spanish: str
    gender: str
    kinds: str  # space-separated; the English word is a kind too, so that verbs and adjectives can name a single noun
    plural: str = ""  # the English plural, where irregular
    mass: bool = False  # whether it is used in the singular and with a definite determiner only ("the milk")
    stressed_a: bool = False  # whether it is feminine but takes `el` and `un` in the singular: el agua fría
    plural_only: bool = False  # whether Spanish has a plural for an English singular: the news is / las noticias son

    def is_any(self, kinds: str) -> bool:
        """Whether the noun is of one of the space-separated kinds."""
        return not kinds_of(kinds).isdisjoint(kinds_of(self.kinds + " " + self.english))

    def forms(self, plural: bool) -> tuple[str, str]:
        """The English and the Spanish form."""
        if self.plural_only or not plural:
            return self.english, self.spanish
        return self.plural or _english_s(self.english), _spanish_plural(self.spanish)


@cache
def kinds_of(kinds: str) -> frozenset[str]:
    """The space-separated kinds as a set."""
    return frozenset(kinds.split())


@dataclass(frozen=True)
class Adjective:
    """An adjective: its English word, its Spanish masculine, its copula, and the kinds of noun it fits.

    Attributes:
        feminine, plural: Where irregular.
        absolute: Whether it has no degrees: nothing is "very closed".
    """

    english: str
    spanish: str
    copula: str
    fits: str
    feminine: str = ""
    plural: str = ""
    absolute: bool = False

    def form(self, gender: str, plural: bool) -> str:
        """The Spanish form."""
        singular = (self.feminine or _feminine(self.spanish)) if gender == "f" else self.spanish
        return (self.plural or _spanish_plural(singular)) if plural else singular

    @property
    def varies_by_gender(self) -> bool:
        """Whether the feminine differs from the masculine."""
        return self.form("f", False) != self.form("m", False)


def _feminine(masculine: str) -> str:
    if masculine.endswith("o"):
        return masculine[:-1] + "a"
    if masculine.endswith("or"):
        return masculine + "a"
    return masculine[:-2] + "esa" if masculine.endswith("és") else masculine


_PRESENT = {"ar": "o as a amos an", "er": "o es e emos en", "ir": "o es e imos en"}
_PRETERITE = {"ar": "é aste ó amos aron", "er": "í iste ió imos ieron", "ir": "í iste ió imos ieron"}
_BEFORE_E = {"c": "qu", "g": "gu", "z": "c"}  # busqué, jugué, crucé


@dataclass(frozen=True)
class Verb:
    """A verb: English base form, Spanish infinitive, the kinds of its subject and object, and what is irregular."""

    english: str
    spanish: str
    subjects: str
    objects: str = ""  # the kinds of its object; "" for an intransitive verb
    past: str = ""  # the English past, where irregular
    participle: str = ""  # the English participle, where it differs from the past
    stem: str = ""  # the Spanish present stem when stressed: cierr- of cerrar
    present: str = ""  # the Spanish present, where irregular: yo, tú, él, nosotros, ellos
    preterite: str = ""  # the Spanish preterite, where irregular, likewise
    spanish_participle: str = ""  # where irregular
    marker: str = ""  # the preposition that Spanish puts before the object: entrar *en* la cueva
    passive: bool = False  # whether it is used in the passive

    def english_form(self, tense: str, person: int) -> str:
        """The English form for a tense ("present", "past" or "base") and a person (index into yo, tú, él, ...)."""
        first, *rest = self.english.split()
        if tense == "past":
            first = self.past or _english_past(first)
        elif tense == "present" and person == 2:
            first = _english_s(first)
        return " ".join([first, *rest])

    def spanish_form(self, tense: str, person: int) -> str:
        """The Spanish form for a tense ("present" or "past") and a person."""
        return _conjugation(self)[tense][person]

    def participles(self, gender: str, plural: bool) -> tuple[str, str]:
        """The English participle, and the Spanish one in its form."""
        masculine = self.spanish_participle or self.spanish[:-2] + ("ado" if self.spanish.endswith("ar") else "ido")
        english = self.participle or self.past or _english_past(self.english)
        singular = _feminine(masculine) if gender == "f" else masculine
        return english, _spanish_plural(singular) if plural else singular


@cache
def _conjugation(verb: Verb) -> dict[str, tuple[str, ...]]:
    stem, ending = verb.spanish[:-2], verb.spanish[-2:]
    present = [(verb.stem or stem) + suffix for suffix in _PRESENT.get(ending, "").split()]  # none for -ír
    if verb.stem:
        present[3] = stem + _PRESENT[ending].split()[3]
    preterite = [stem + suffix for suffix in _PRETERITE.get(ending, "").split()]
    if ending == "ar" and stem[-1] in _BEFORE_E:
        preterite[0] = stem[:-1] + _BEFORE_E[stem[-1]] + "é"
    return {"present": tuple(verb.present.split() or present), "past": tuple(verb.preterite.split() or preterite)}


# The tables ----------------------------------------------------------------------------------------------------------
# Left out on purpose: verbs whose past is their base form (read, put, cut), since "They read." has two translations.

NAMES = (  # English, Spanish, gender
    ("Ana", "Ana", "f"), ("Maria", "María", "f"), ("Lucia", "Lucía", "f"), ("Elena", "Elena", "f"),
    ("Carmen", "Carmen", "f"), ("Sofia", "Sofía", "f"), ("Pedro", "Pedro", "m"), ("Pablo", "Pablo", "m"),
    ("Diego", "Diego", "m"), ("Miguel", "Miguel", "m"), ("Antonio", "Antonio", "m"), ("Jorge", "Jorge", "m"),
)  # fmt: skip

NOUNS = (
    Noun("boy", "niño", "m", "person"), Noun("girl", "niña", "f", "person"),
    Noun("man", "hombre", "m", "person", plural="men"), Noun("woman", "mujer", "f", "person", plural="women"),
    Noun("teacher", "profesor", "m", "person worker"), Noun("doctor", "médico", "m", "person worker"),
    Noun("nurse", "enfermera", "f", "person worker"), Noun("farmer", "granjero", "m", "person worker"),
    Noun("waitress", "camarera", "f", "person worker"), Noun("poet", "poeta", "m", "person worker"),
    Noun("actress", "actriz", "f", "person worker"), Noun("student", "estudiante", "m", "person worker"),
    Noun("friend", "amigo", "m", "person kin"), Noun("neighbor", "vecino", "m", "person kin"),
    Noun("mother", "madre", "f", "person kin parent"), Noun("father", "padre", "m", "person kin parent"),
    Noun("sister", "hermana", "f", "person kin"), Noun("brother", "hermano", "m", "person kin"),
    Noun("daughter", "hija", "f", "person kin"), Noun("grandmother", "abuela", "f", "person kin parent"),
    Noun("grandfather", "abuelo", "m", "person kin parent"), Noun("king", "rey", "m", "person"),
    Noun("queen", "reina", "f", "person"),
    Noun("animal", "animal", "m", "animal"), Noun("dog", "perro", "m", "animal"),
    Noun("cat", "gato", "m", "animal"), Noun("horse", "caballo", "m", "animal"),
    Noun("donkey", "burro", "m", "animal"), Noun("bear", "oso", "m", "animal"),
    Noun("rabbit", "conejo", "m", "animal"), Noun("monkey", "mono", "m", "animal"),
    Noun("mouse", "ratón", "m", "animal", plural="mice"), Noun("cow", "vaca", "f", "animal"),
    Noun("goat", "cabra", "f", "animal"), Noun("hen", "gallina", "f", "animal"),
    Noun("turtle", "tortuga", "f", "animal"), Noun("zebra", "cebra", "f", "animal"),
    Noun("squirrel", "ardilla", "f", "animal"), Noun("mare", "yegua", "f", "animal"),
    Noun("apple", "manzana", "f", "food fruit goods"), Noun("orange", "naranja", "f", "food fruit goods"),
    Noun("pear", "pera", "f", "food fruit goods"), Noun("lemon", "limón", "m", "food fruit goods"),
    Noun("banana", "plátano", "m", "food fruit goods"),
    Noun("tomato", "tomate", "m", "food fruit goods", plural="tomatoes"), Noun("egg", "huevo", "m", "food goods"),
    Noun("cake", "pastel", "m", "food goods"), Noun("potato", "patata", "f", "food goods", plural="potatoes"),
    Noun("salad", "ensalada", "f", "food dish goods"), Noun("soup", "sopa", "f", "food dish", mass=True),
    Noun("rice", "arroz", "m", "food dish", mass=True), Noun("bread", "pan", "m", "food baked", mass=True),
    Noun("cheese", "queso", "m", "food", mass=True), Noun("meat", "carne", "f", "food dish", mass=True),
    Noun("milk", "leche", "f", "drink", mass=True), Noun("water", "agua", "f", "drink", mass=True, stressed_a=True),
    Noun("juice", "jugo", "m", "drink", mass=True), Noun("coffee", "café", "m", "drink hot_drink", mass=True),
    Noun("tea", "té", "m", "drink hot_drink", mass=True), Noun("wine", "vino", "m", "drink", mass=True),
    Noun("beer", "cerveza", "f", "drink", mass=True),
    Noun("book", "libro", "m", "text goods thing"), Noun("letter", "carta", "f", "text thing"),
    Noun("poem", "poema", "m", "text"), Noun("story", "historia", "f", "text"),
    Noun("message", "mensaje", "m", "text"),
    Noun("song", "canción", "f", "music"),
    Noun("map", "mapa", "m", "goods thing"), Noun("photo", "foto", "f", "goods thing"),
    Noun("idea", "idea", "f", "thought"), Noun("problem", "problema", "m", "thought"),
    Noun("question", "pregunta", "f", "thought"), Noun("plan", "plan", "m", "thought"),
    Noun("answer", "respuesta", "f", "thought"),
    Noun("news", "noticias", "f", "news", mass=True, plural_only=True),
    Noun("ball", "bola", "f", "goods thing toy"), Noun("toy", "juguete", "m", "goods thing toy"),
    Noun("table", "mesa", "f", "furniture goods"), Noun("chair", "silla", "f", "furniture goods"),
    Noun("bed", "cama", "f", "furniture goods"),
    Noun("door", "puerta", "f", "opening"), Noun("window", "ventana", "f", "opening"),
    Noun("wall", "muro", "m", "barrier"),
    Noun("key", "llave", "f", "thing"),
    Noun("clock", "reloj", "m", "goods thing machine"), Noun("lamp", "lámpara", "f", "goods thing"),
    Noun("box", "caja", "f", "thing container load"),
    Noun("bag", "bolsa", "f", "goods thing container"), Noun("bottle", "botella", "f", "goods thing container"),
    Noun("cup", "taza", "f", "goods thing fragile"), Noun("glass", "vaso", "m", "goods thing fragile"),
    Noun("plate", "plato", "m", "goods thing fragile"), Noun("knife", "cuchillo", "m", "goods thing", plural="knives"),
    Noun("pencil", "lápiz", "m", "goods thing"), Noun("flower", "flor", "f", "goods thing"),
    Noun("ring", "anillo", "m", "goods thing"), Noun("guitar", "guitarra", "f", "goods thing instrument"),
    Noun("piano", "piano", "m", "instrument goods"),
    Noun("hand", "mano", "f", "body"),
    Noun("shirt", "camisa", "f", "clothing goods"), Noun("dress", "vestido", "m", "clothing goods"),
    Noun("skirt", "falda", "f", "clothing goods"), Noun("hat", "sombrero", "m", "clothing goods"),
    Noun("coat", "abrigo", "m", "clothing goods"), Noun("shoe", "zapato", "m", "clothing goods"),
    Noun("car", "coche", "m", "vehicle goods machine"), Noun("bicycle", "bicicleta", "f", "vehicle goods machine"),
    Noun("boat", "barco", "m", "vehicle machine"), Noun("truck", "camión", "m", "vehicle goods machine"),
    Noun("train", "tren", "m", "vehicle machine"), Noun("bus", "autobús", "m", "vehicle machine"),
    Noun("house", "casa", "f", "building home"), Noun("school", "escuela", "f", "building"),
    Noun("church", "iglesia", "f", "building"), Noun("hotel", "hotel", "m", "building"),
    Noun("museum", "museo", "m", "building"), Noun("library", "biblioteca", "f", "building"),
    Noun("market", "mercado", "m", "building"), Noun("shop", "tienda", "f", "building"),
    Noun("kitchen", "cocina", "f", "room"), Noun("room", "habitación", "f", "room"),
    Noun("garden", "jardín", "m", "outdoors home"), Noun("park", "parque", "m", "outdoors"),
    Noun("beach", "playa", "f", "outdoors"),
    Noun("city", "ciudad", "f", "town"), Noun("village", "pueblo", "m", "town"),
    Noun("street", "calle", "f", "way paved"), Noun("road", "carretera", "f", "way paved"),
    Noun("avenue", "avenida", "f", "way paved"), Noun("square", "plaza", "f", "way"),
    Noun("bridge", "puente", "m", "way"), Noun("river", "río", "m", "way stream"),
    Noun("path", "camino", "m", "way"),
    Noun("mountain", "montaña", "f", "height"), Noun("hill", "colina", "f", "height"),
    Noun("rock", "roca", "f", "height"),
    Noun("tree", "árbol", "m", "tree"),
    Noun("fence", "valla", "f", "barrier"),
    Noun("ditch", "zanja", "f", "gap"), Noun("puddle", "charco", "m", "gap"),
    Noun("cave", "cueva", "f", "hollow"), Noun("tunnel", "túnel", "m", "hollow"),
    Noun("stone", "piedra", "f", "load"), Noun("branch", "rama", "f", "load"),
    Noun("log", "tronco", "m", "load"), Noun("sack", "saco", "m", "load"),
    Noun("cart", "carro", "m", "load"),
)  # fmt: skip

ANYTHING = "person animal goods thing furniture clothing vehicle building text food"

ADJECTIVES = (
    Adjective("good", "bueno", "ser", "person text music thought news food drink animal"),
    Adjective("bad", "malo", "ser", "person text music thought news"),
    Adjective("black", "negro", "ser", "animal thing furniture clothing vehicle opening", absolute=True),
    Adjective("white", "blanco", "ser", "animal thing furniture clothing vehicle opening building", absolute=True),
    Adjective("red", "rojo", "ser", "thing furniture clothing vehicle opening fruit", absolute=True),
    Adjective("yellow", "amarillo", "ser", "thing furniture clothing vehicle opening fruit", absolute=True),
    Adjective("blue", "azul", "ser", "thing furniture clothing vehicle opening", absolute=True),
    Adjective("green", "verde", "ser", "thing furniture clothing vehicle opening apple", absolute=True),
    Adjective("gray", "gris", "ser", "thing clothing vehicle cat mouse donkey rabbit squirrel", absolute=True),
    Adjective("big", "grande", "ser", "animal goods thing furniture vehicle building room outdoors town problem hand"),
    Adjective("small", "pequeño", "ser",
              "animal goods thing furniture vehicle building room outdoors town problem hand"),
    Adjective("new", "nuevo", "ser", "thing furniture clothing vehicle building book song"),
    Adjective("old", "viejo", "ser", "person animal thing furniture clothing vehicle building"),
    Adjective("young", "joven", "ser", "person animal", plural="jóvenes"),
    Adjective("tall", "alto", "ser", "person tree"),
    Adjective("pretty", "bonito", "ser", "thing furniture clothing building outdoors town music"),
    Adjective("expensive", "caro", "ser", "goods"),
    Adjective("cheap", "barato", "ser", "goods"),
    Adjective("modern", "moderno", "ser", "building machine furniture town", absolute=True),
    Adjective("happy", "feliz", "ser", "person"),
    Adjective("sad", "triste", "estar", "person"),
    Adjective("strong", "fuerte", "ser", "person horse bear donkey"),
    Adjective("famous", "famoso", "ser", "worker book song museum city"),
    Adjective("rich", "rico", "ser", "person"),
    Adjective("kind", "amable", "ser", "person"),
    Adjective("intelligent", "inteligente", "ser", "person dog monkey"),
    Adjective("hardworking", "trabajador", "ser", "person"),
    Adjective("Spanish", "español", "ser", "person wine cheese song", feminine="española", absolute=True),
    Adjective("English", "inglés", "ser", "person tea book song", absolute=True),
    Adjective("quiet", "tranquilo", "ser", "outdoors town building"),
    Adjective("important", "importante", "ser", "text thought news"),
    Adjective("difficult", "difícil", "ser", "problem question book song poem"),
    Adjective("easy", "fácil", "ser", "problem question answer song"),
    Adjective("strange", "extraño", "ser", "text thought music animal"),
    Adjective("interesting", "interesante", "ser", "text thought news museum town"),
    Adjective("short", "corto", "ser", "text music skirt dress pencil"),
    Adjective("clean", "limpio", "estar", "clothing fragile room opening body vehicle furniture"),
    Adjective("dirty", "sucio", "estar", "clothing fragile room opening body vehicle furniture"),
    Adjective("broken", "roto", "estar", "fragile toy machine lamp opening bottle furniture", absolute=True),
    Adjective("open", "abierto", "estar", "opening container shop museum market", absolute=True),
    Adjective("closed", "cerrado", "estar", "opening container shop museum market library church", absolute=True),
    Adjective("empty", "vacío", "estar", "container cup glass plate way building room", absolute=True),
    Adjective("full", "lleno", "estar", "container cup glass plate bus train", absolute=True),
    Adjective("cold", "frío", "estar", "drink dish hand"),
    Adjective("hot", "caliente", "estar", "hot_drink dish water milk"),
    Adjective("delicious", "delicioso", "ser", "food drink", absolute=True),
    Adjective("sweet", "dulce", "ser", "fruit cake juice wine"),
    Adjective("ripe", "maduro", "estar", "fruit", absolute=True),
    # The family in which the last adjective decides: those of living beings ...
    Adjective("tired", "cansado", "estar", "person animal"),
    Adjective("hungry", "hambriento", "estar", "person animal"),
    Adjective("thirsty", "sediento", "estar", "person animal"),
    Adjective("sick", "enfermo", "estar", "person animal"),
    Adjective("scared", "asustado", "estar", "person animal"),
    Adjective("injured", "herido", "estar", "person animal"),
    Adjective("nervous", "nervioso", "estar", "person animal"),
    Adjective("bored", "aburrido", "estar", "person animal"),
    Adjective("angry", "enfadado", "estar", "person animal"),
    Adjective("lazy", "perezoso", "ser", "person animal"),
    Adjective("shy", "tímido", "ser", "person animal"),
    Adjective("curious", "curioso", "ser", "person animal"),
    # ... and those of things; none fits both.
    Adjective("wide", "ancho", "ser", "paved square stream gap"),
    Adjective("narrow", "estrecho", "ser", "bridge path hollow"),
    Adjective("long", "largo", "ser", "way tunnel text skirt dress"),
    Adjective("deep", "profundo", "ser", "river gap cave"),
    Adjective("high", "alto", "ser", "barrier height bridge"),
    Adjective("steep", "empinado", "ser", "paved path mountain hill"),
    Adjective("slippery", "resbaladizo", "estar", "way height barrier tree"),
    Adjective("flooded", "inundado", "estar", "paved square path bridge hollow"),
    Adjective("damp", "húmedo", "ser", "hollow"),
    Adjective("salty", "salado", "estar", "soup rice bread cheese meat water"),
    Adjective("bitter", "amargo", "estar", "salad orange tea juice coffee"),
    Adjective("sour", "agrio", "estar", "milk juice orange"),
    Adjective("rotten", "podrido", "estar", "fruit meat egg potato"),
    Adjective("fresh", "fresco", "estar", "fruit meat egg bread milk juice cheese"),
    Adjective("heavy", "pesado", "ser", "load furniture"),
    Adjective("light", "ligero", "ser", "load chair bag"),
)  # fmt: skip

VERBS = (
    Verb("run", "correr", "person animal", past="ran"),
    Verb("sleep", "dormir", "person animal", past="slept", stem="duerm",
         preterite="dormí dormiste durmió dormimos durmieron"),
    Verb("swim", "nadar", "person animal", past="swam"), Verb("walk", "caminar", "person animal"),
    Verb("jump", "saltar", "person animal"), Verb("rest", "descansar", "person animal"),
    Verb("play", "jugar", "person dog cat monkey", stem="jueg"),
    Verb("fall", "caer", "person animal", past="fell", present="caigo caes cae caemos caen",
         preterite="caí caíste cayó caímos cayeron"),
    Verb("sing", "cantar", "person", past="sang"), Verb("dance", "bailar", "person"),
    Verb("cry", "llorar", "person"), Verb("work", "trabajar", "person"),
    Verb("talk", "hablar", "person"), Verb("travel", "viajar", "person", past="traveled"),
    Verb("arrive", "llegar", "person vehicle"), Verb("wait", "esperar", "person"),
    Verb("eat", "comer", "person animal", "food", past="ate", participle="eaten", passive=True),
    Verb("drink", "beber", "person animal", "drink", past="drank", participle="drunk"),
    Verb("see", "ver", "person animal", ANYTHING + " way height", past="saw", participle="seen",
         present="veo ves ve vemos ven", preterite="vi viste vio vimos vieron"),
    Verb("look for", "buscar", "person animal", "person animal thing clothing food"),
    Verb("find", "encontrar", "person animal", "person animal thing clothing hollow", past="found", stem="encuentr",
         passive=True),
    Verb("follow", "seguir", "person animal", "person animal vehicle", present="sigo sigues sigue seguimos siguen",
         preterite="seguí seguiste siguió seguimos siguieron"),
    Verb("hear", "oír", "person animal", "person animal music news", past="heard", present="oigo oyes oye oímos oyen",
         preterite="oí oíste oyó oímos oyeron"),
    Verb("help", "ayudar", "person", "person animal"), Verb("love", "amar", "person", "person animal town beach"),
    Verb("call", "llamar", "person", "person"), Verb("greet", "saludar", "person", "person"),
    Verb("visit", "visitar", "person", "person building town beach"),
    Verb("listen to", "escuchar", "person", "person music news"),
    Verb("buy", "comprar", "person", "goods food drink house", past="bought", passive=True),
    Verb("sell", "vender", "person", "goods food drink house", past="sold", passive=True),
    Verb("want", "querer", "person", "goods food drink", stem="quier",
         preterite="quise quisiste quiso quisimos quisieron"),
    Verb("need", "necesitar", "person", "goods thing furniture"),
    Verb("use", "usar", "person", "map key knife pencil lamp vehicle"),
    Verb("cook", "cocinar", "person", "rice meat soup potato egg", passive=True),
    Verb("prepare", "preparar", "person", "dish hot_drink cake juice", passive=True),
    Verb("wash", "lavar", "person", "clothing fragile fruit vehicle body opening", passive=True),
    Verb("clean", "limpiar", "person", "fragile opening furniture room vehicle", passive=True),
    Verb("open", "abrir", "person", "opening container letter", passive=True, spanish_participle="abierto"),
    Verb("close", "cerrar", "person", "opening container book shop", stem="cierr"),
    Verb("paint", "pintar", "person", "opening furniture house wall bicycle boat flower tree", passive=True),
    Verb("draw", "dibujar", "person", "flower tree map house boat hand", past="drew", participle="drawn",
         passive=True),
    Verb("write", "escribir", "person", "text music answer", past="wrote", participle="written", passive=True,
         spanish_participle="escrito"),
    Verb("lose", "perder", "person", "key ring hat bag map pencil ball photo", past="lost", stem="pierd"),
    Verb("hide", "esconder", "person", "thing", past="hid", participle="hidden", passive=True),
    Verb("break", "romper", "person", "fragile toy window chair lamp clock", past="broke"),
    Verb("repair", "reparar", "person", "machine furniture opening lamp", passive=True),
    Verb("wear", "llevar", "person", "clothing ring", past="wore"),
    Verb("understand", "entender", "person", "thought text", past="understood", stem="entiend"),
    Verb("explain", "explicar", "person", "thought poem map", passive=True),
    Verb("forget", "olvidar", "person", "thought key music bag", past="forgot"),
    Verb("remember", "recordar", "person", "thought music text", stem="recuerd"),
    Verb("solve", "resolver", "person", "problem", stem="resuelv", spanish_participle="resuelto", passive=True),
    Verb("build", "construir", "person", "house wall bridge boat fence school", past="built", passive=True,
         present="construyo construyes construye construimos construyen",
         preterite="construí construiste construyó construimos construyeron"),
    Verb("cross", "cruzar", "person animal", "way"), Verb("climb", "escalar", "person animal", "height wall tree"),
    Verb("jump over", "saltar", "person animal", "barrier gap"),
    Verb("enter", "entrar", "person animal", "hollow building room", marker="en"),
    Verb("move", "mover", "person animal", "load", stem="muev"),
    Verb("carry", "cargar", "person horse donkey", "load container"),
)  # fmt: skip

GIVING = (  # who, what, and to whom
    Verb("give", "dar", "person", "goods thing", past="gave", present="doy das da damos dan",
         preterite="di diste dio dimos dieron"),
    Verb("send", "enviar", "person", "text photo flower map", past="sent",
         present="envío envías envía enviamos envían"),
    Verb("show", "mostrar", "person", "goods thing building text", stem="muestr"),
)  # fmt: skip

CHAINS = (  # what one does first and then: bought the apple and ate it
    "buy/eat", "buy/wash", "buy/sell", "buy/paint", "buy/break", "buy/open", "buy/hide", "buy/lose", "buy/repair",
    "buy/wear", "cook/eat", "prepare/eat", "prepare/drink", "buy/drink", "wash/eat", "wash/sell", "open/close",
    "open/clean", "close/paint", "find/open", "find/hide", "find/wash", "find/wear", "lose/find", "lose/look for",
    "paint/sell", "repair/sell", "repair/use", "write/explain", "write/forget", "write/understand", "hide/find",
    "break/repair", "clean/paint", "build/paint", "build/sell", "see/greet", "see/follow", "see/help", "see/call",
    "see/buy", "hear/follow", "hear/remember", "hear/call", "visit/help", "look for/find", "find/follow",
    "draw/paint", "explain/remember", "forget/remember", "need/buy", "want/buy", "hear/forget", "need/look for",
    "move/carry", "carry/move", "cross/see", "understand/solve", "love/visit",
)  # fmt: skip

PREPOSITIONS = (  # English, Spanish, the kinds of place for what people do and for where a thing is
    ("in", "en", "room outdoors town school museum market library church hotel", "room garden container house"),
    ("near", "cerca de", "building river bridge tree beach", "building opening furniture tree"),
    ("behind", "detrás de", "building tree wall", "building opening furniture tree"),
    ("in front of", "delante de", "building tree wall", "building opening furniture"),
    ("under", "debajo de", "tree bridge", "furniture tree bridge"),
    ("on", "sobre", "bridge", "table chair bed box"),
)

NUMBERS = (
    ("two", "dos"), ("three", "tres"), ("four", "cuatro"), ("five", "cinco"), ("six", "seis"), ("seven", "siete"),
    ("eight", "ocho"), ("nine", "nueve"), ("ten", "diez"),
)  # fmt: skip
PRONOUN_WEIGHTS = (3, 3, 1, 1, 3, 2)  # what only they show, such as como and comes, should not be rare
PRONOUNS = (("I", "", 0), ("you", "", 1), ("he", "él", 2), ("she", "ella", 2), ("we", "", 3), ("they", "", 4))


# Choosing words ------------------------------------------------------------------------------------------------------


def perhaps(rng: random.Random, probability: float) -> bool:
    """Whether to, this time."""
    return rng.random() < probability


@cache
def nouns_of(kinds: str) -> tuple[Noun, ...]:
    """The nouns of any of the kinds."""
    return tuple(noun for noun in NOUNS if noun.is_any(kinds))


@cache
def _uses() -> dict[Noun, int]:
    """With how many verbs and adjectives each noun goes."""
    fits = [*(verb.subjects for verb in VERBS), *(verb.objects for verb in VERBS), *(a.fits for a in ADJECTIVES)]
    return {noun: sum(noun.is_any(kinds) for kinds in fits) for noun in NOUNS}


@cache
def _cumulative_weights(kinds: str) -> list[float]:
    """For `pick`: a noun that few verbs and adjectives go with weighs more, lest it be rare."""
    return list(accumulate(1 / (3 + _uses()[noun]) for noun in nouns_of(kinds)))


def pick(rng: random.Random, kinds: str) -> Noun:
    """A noun of one of the kinds."""
    return rng.choices(nouns_of(kinds), cum_weights=_cumulative_weights(kinds))[0]


@cache
def adjectives_for(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that fit the noun."""
    return tuple(adjective for adjective in ADJECTIVES if noun.is_any(adjective.fits))


@cache
def _adjective_weights(noun: Noun) -> list[float]:
    """Cumulative: an adjective that fits few nouns weighs more, as in `pick`."""
    return list(accumulate(1 / (5 + len(nouns_of(adjective.fits))) for adjective in adjectives_for(noun)))


def pick_adjective(rng: random.Random, noun: Noun) -> Adjective | None:
    """An adjective that fits the noun; good and bad more often, since they alone go before it in Spanish."""
    fitting = adjectives_for(noun)
    if not fitting:
        return None
    if fitting[0].english == "good" and perhaps(rng, 0.15):
        return fitting[0]
    return rng.choices(fitting, cum_weights=_adjective_weights(noun))[0]
