# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Text in, text out, line for line: n texts give n translations, in order, whatever is in them.

In the order in which a text goes through: cleaned, checked, split if it is too long for the model, sorted into batches
with others of its length, searched by ``model.generate``, decoded, put back in its place. What was noticed on the way
(texts that had to be split, hypotheses that never ended) is reported and returned, never passed over.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.utils import logging

from .text import clean, is_blank

logger = logging.get_logger(__name__)

LINES_SHOWN = 5
PORTION = 10_000  # texts that a stream reads before it translates them: enough to sort by length, little to keep

# Where a text that is too long is cut, in order of preference; a cut is the end of a match
SENTENCE_END = re.compile(r"[.!?…؟۔।][\"'”’»)\]]*\s+|[。！？｡][」』”’）]*\s*|\s*\n\s*")
SPACE = re.compile(r"\s+")
CHARACTER = re.compile(r".", re.DOTALL)


@dataclass
class Translations:
    """Translations in the order of their sources, and what was noticed while making them.

    Attributes:
        texts: One translation for each source.
        too_long: Indices of the sources that were longer than the model takes and were split.
        unfinished: Indices of the translations that were stopped by the length limit, without `</s>`.
    """

    texts: list[str]
    too_long: list[int]
    unfinished: list[int]


class Part(NamedTuple):
    """What the model translates at once: a source, as a rule, or one part of a source that was split."""

    source: int  # its index
    is_first: bool
    joint: str  # between the translation of the part before and this one
    input_ids: list[int]


class Translator:
    """Translates texts with any encoder-decoder model of Transformers and its tokenizer.

    How to search (beams, lengths, penalties) is in `model.generation_config`; options of a call go before it.

    Three ways to call it, by what one wants back: `translator(texts)` the translations, `translator.stream(texts)` the
    same one after another while the texts are still being read, `translator.translate(texts)` also what was noticed.

        >>> translator("Two dogs play.")
        >>> translator(dataset["en"], num_beams=5)
        >>> dataset.map(lambda batch: {"de": translator(batch["en"])}, batched=True, batch_size=10_000)
        >>> for translation in translator.stream(texts):
        ...     print(translation)
    """

    def __init__(self, model: Any, tokenizer: Any, batch_size: int = 64):
        if not getattr(model.config, "is_encoder_decoder", False):
            raise ValueError(
                f"model is a {model.config.model_type!r}, which is no encoder-decoder; give a translation model"
            )
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size} must be 1 or more")
        self.model = model
        self.tokenizer = tokenizer
        self.batch_size = batch_size

    @classmethod
    def from_pretrained(
        cls,
        path: str | os.PathLike[str],
        *,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        batch_size: int = 64,
    ) -> "Translator":
        """Returns a translator with the model and the tokenizer of a folder or of a repository on the Hub.

        Args:
            path: The folder, or the repository's name. With PEFT installed, that of an adapter will do.
            device: `None`: CUDA if there is a device, else the CPU.
            dtype: Of the weights, such as `"bfloat16"`. `None`: as they were saved.
            revision: Branch, tag or commit of the repository.
            trust_remote_code: Whether code that lies in the repository may run.
            batch_size: Most sentences in a batch.
        """
        device = checked_device(device)
        options: dict[str, Any] = {"revision": revision} if revision is not None else {}
        options["trust_remote_code"] = trust_remote_code
        tokenizer = AutoTokenizer.from_pretrained(path, **options)
        if dtype is not None:
            options["dtype"] = dtype
        model = AutoModelForSeq2SeqLM.from_pretrained(path, **options)
        return cls(model.to(device), tokenizer, batch_size)

    def __call__(self, texts: str | Iterable[str], **generate_options: Any) -> str | list[str]:
        """Returns the translation of a text, or the list of the translations of several, however they are given."""
        if isinstance(texts, str):
            return self.translate([texts], **generate_options).texts[0]
        return self.translate(texts, **generate_options).texts

    def stream(
        self, texts: Iterable[str], *, portion: int = PORTION, progress: bool = False, **generate_options: Any
    ) -> Iterator[str]:
        """Yields the translations in order, and keeps no more than a portion of the texts in memory.

        Args:
            texts: The sources, as many as there are; they are read when their turn comes.
            portion: So many texts are read, sorted by length and translated, before the first of them is yielded and
                the next are read. Less gives the first sooner, and is slower as a whole.
            progress: Whether to draw a bar on stderr.
            generate_options: Options of `model.generate`.

        Raises:
            TypeError: `texts` or one of them is of the wrong type.
            ValueError: An item is no valid text, or an option is not allowed.
        """
        check_is_iterable_of_texts(texts)
        if portion < 1:
            raise ValueError(f"portion={portion} must be 1 or more")
        total = len(texts) if isinstance(texts, Sized) else None
        remaining = iter(texts)
        first_line = 1
        with tqdm(total=total, unit=" sentences", disable=not progress) as bar:
            while read := list(islice(remaining, portion)):
                yield from self.translate(read, progress=bar, first_line=first_line, **generate_options).texts
                first_line += len(read)

    def translate(
        self, texts: Iterable[str], *, progress: bool | tqdm = False, first_line: int = 1, **generate_options: Any
    ) -> Translations:
        """Returns the translations of `texts`, and what was noticed.

        Args:
            texts: The sources. One without a visible character has the translation `""`.
            progress: Whether to draw a bar on stderr; or a bar to move on by `len(texts)`.
            first_line: Number of the first text in messages, where `texts` are a portion of a file.
            generate_options: Options of `model.generate`: `num_beams`, `length_penalty`, `max_new_tokens`, ...

        Raises:
            TypeError: `texts` or one of them is of the wrong type.
            ValueError: An item is no valid text, or an option is not allowed.
        """
        check_is_iterable_of_texts(texts)
        texts = list(texts)
        check_texts(texts, first_line - 1)
        per_text = self.setting("num_return_sequences", generate_options)
        if per_text not in (None, 1):
            raise ValueError(f"num_return_sequences={per_text}: here a text has one translation; use model.generate")
        parts, too_long = self.make_parts([clean(text) for text in texts], first_line)
        by_length = sorted(range(len(parts)), key=lambda i: len(parts[i].input_ids), reverse=True)  # little padding
        hypotheses = [""] * len(parts)
        unfinished: set[int] = set()
        bar = progress
        if isinstance(bar, bool):
            bar = tqdm(total=len(texts), unit=" sentences", disable=not progress)
        bar.update(len(texts) - len({part.source for part in parts}))  # the blank ones
        was_training = self.model.training
        self.model.eval()
        try:
            for start in range(0, len(parts), self.batch_size):
                batch = by_length[start : start + self.batch_size]
                decoded, ended = self.translate_batch([parts[i].input_ids for i in batch], generate_options)
                for i, hypothesis, has_ended in zip(batch, decoded, ended, strict=True):
                    hypotheses[i] = hypothesis
                    if not has_ended:
                        unfinished.add(parts[i].source)
                bar.update(sum(parts[i].is_first for i in batch))
        finally:
            self.model.train(was_training)
            if bar is not progress:
                bar.close()

        translations = [""] * len(texts)
        for part, hypothesis in zip(parts, hypotheses, strict=True):
            joint = part.joint if translations[part.source] and hypothesis else ""
            translations[part.source] += joint + hypothesis
        if unfinished:
            places = first_few(f"line {first_line + index:,}" for index in sorted(unfinished))
            logger.warning(
                f"{len(unfinished):,} of {len(texts):,} translations hit the length limit before their end and stop "
                f"there: {places}. Raise max_new_tokens, or train the model for longer."
            )
        return Translations(translations, too_long, sorted(unfinished))

    def make_parts(self, sources: Sequence[str], first_line: int) -> tuple[list[Part], list[int]]:
        """Returns what to translate, in order, and which sources had to be split. A blank source has no part."""
        limit = self.source_limit()
        indices = [index for index, source in enumerate(sources) if not is_blank(source)]
        parts: list[Part] = []
        lengths: dict[int, int] = {}  # of the sources that are too long
        for index, ids in zip(indices, self.encode([sources[index] for index in indices]), strict=True):
            if len(ids) <= limit:
                parts.append(Part(index, True, "", ids))
                continue
            lengths[index] = len(ids)
            pieces = split_text(sources[index], lambda text: len(self.encode([text])[0]) <= limit)
            for number, (joint, piece) in enumerate(pieces):
                parts.append(Part(index, number == 0, joint, self.encode([piece])[0]))
        if lengths:
            places = first_few(f"line {first_line + index:,} ({length:,} pieces)" for index, length in lengths.items())
            logger.warning(
                f"{len(lengths):,} of {len(sources):,} texts are longer than the {limit:,} pieces the model takes "
                f"and are translated in parts: {places}."
            )
        return parts, list(lengths)

    def source_limit(self) -> int:
        """Returns the most pieces, special tokens included, that a source may have."""
        limits = (getattr(self.model.config, "max_position_embeddings", None), self.tokenizer.model_max_length)
        return min(limit for limit in limits if limit is not None)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Returns the ids of each text, whole, with the special tokens that the tokenizer adds to a source."""
        if not texts:
            return []
        return self.tokenizer(texts, truncation=False, padding=False, verbose=False)["input_ids"]

    @torch.inference_mode()
    def translate_batch(self, sources: list[list[int]], options: dict[str, Any]) -> tuple[list[str], list[bool]]:
        """Returns the translations of a batch of ids, and whether each has come to its end."""
        output_ids = self.generate(sources, **options)
        texts = self.tokenizer.batch_decode(output_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return [text.replace("\n", " ") for text in texts], self.have_ended(output_ids, options)

    def generate(self, sources: Sequence[Sequence[int]], **options: Any) -> torch.Tensor:
        """Returns the ids that `model.generate` gives for those of sources, (batch, target_len), BEGIN included."""
        output = self.model.generate(**source_tensors(self.model, sources), **options)
        return getattr(output, "sequences", output)

    def have_ended(self, output_ids: torch.Tensor, options: dict[str, Any]) -> list[bool]:
        """Returns for each row of (batch, target_len) whether it ends of itself: with `</s>`, and not by force."""
        ends = torch.tensor(self.setting("eos_token_id", options), device=output_ids.device)
        is_end = torch.isin(output_ids[:, 1:], ends)  # BEGIN may be the same token
        if self.setting("forced_eos_token_id", options) is not None:  # Marian's have `</s>` put at the limit
            new_tokens = self.setting("max_new_tokens", options)
            limit = self.setting("max_length", options) if new_tokens is None else new_tokens + 1
            if limit is not None and output_ids.shape[1] >= limit:
                is_end = is_end[:, :-1]
        return is_end.any(dim=1).tolist()

    def setting(self, name: str, options: dict[str, Any]) -> Any:
        """Returns the value that `generate` takes: the call's own, its `generation_config`'s, or the model's."""
        given = (options.get(name), getattr(options.get("generation_config"), name, None))
        return next((value for value in given if value is not None), getattr(self.model.generation_config, name))


def source_tensors(model: Any, rows: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
    """Returns `input_ids` and `attention_mask`, both (batch, source_len), of ids of unequal lengths."""
    mask = filled_up(model, [[1] * len(ids) for ids in rows], 0)
    return {"input_ids": filled_up(model, rows, model.config.pad_token_id), "attention_mask": mask}


def filled_up(model: Any, rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    """Returns ids as one tensor (batch, length), with `value` behind the shorter ones, where the model is."""
    tensors = [torch.tensor(ids) for ids in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=value).to(model.device)


@contextmanager
def quiet() -> Iterator[None]:
    """Leaves out what translating warns of, where that is counted and told in another way."""
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def split_text(text: str, fits: Callable[[str], bool], joint: str = "") -> list[tuple[str, str]]:
    """Returns parts of `text` that fit, each with what stands between it and the part before: a space, or nothing.

    It is halved, and the halves again: at the sentence end nearest to the middle; without one, at a space; without
    one, anywhere. So the parts are of like length, and no stub is left for the end.
    """
    text = clean(text)
    if is_blank(text):
        return []
    if fits(text):
        return [(joint, text)]
    for pattern in (SENTENCE_END, SPACE, CHARACTER):
        cuts = [match.end() for match in pattern.finditer(text) if match.end() < len(text)]
        if cuts:
            break
    else:
        raise ValueError(f"the character {text!r} alone is longer than the model takes")
    cut = min(cuts, key=lambda position: abs(2 * position - len(text)))
    space = " " if text[cut - 1].isspace() or text[cut].isspace() else ""
    return split_text(text[:cut], fits, joint) + split_text(text[cut:], fits, space)


def check_is_iterable_of_texts(texts: Iterable[str]) -> None:
    """Refuses what can be iterated over and gives something else: a single text its characters, a table its names."""
    if isinstance(texts, str):
        raise TypeError("texts is a single str, not several; call the translator itself: translator(text)")
    names: Iterable[Any] | None = getattr(texts, "column_names", None)  # a `datasets.Dataset`, an Arrow table
    if names is None:
        names = getattr(texts, "columns", None)  # a data frame
    if names is None and isinstance(texts, Mapping):  # such as the batches of `Dataset.map`
        names = texts
    if names is not None:
        shown = ", ".join(repr(name) for name in names)
        raise TypeError(
            f"texts is a {type(texts).__name__} of {shown or 'nothing'}; give one of its columns of text: texts[NAME]"
        )


def check_texts(texts: Sequence[str], first: int = 0) -> None:
    """Refuses what is no text that UTF-8 can hold, naming the item; `first` is the number of the first one."""
    for index, text in enumerate(texts, start=first):
        if not isinstance(text, str):
            raise TypeError(f"texts[{index}] is of type {type(text).__name__}; give a str")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"texts[{index}] is no valid text: its character {error.start + 1} is half of a surrogate pair "
                f"(U+{ord(text[error.start]):04X}); decode it from its bytes with errors='replace', or leave it out"
            ) from error


def checked_device(device: str | torch.device | None) -> torch.device:
    """Returns the device asked for, or the default."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device={device!r} is not known; choose cpu, cuda, cuda:1, mps ...") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={str(device)!r}: there is no CUDA device that PyTorch can use; choose cpu")
    return device


def first_few(places: Iterable[str]) -> str:
    """Returns the first few of `places` as one text that says whether there are more."""
    places = list(places)
    return ", ".join(places[:LINES_SHOWN]) + (", ..." if len(places) > LINES_SHOWN else "")
