# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The attention of a translation: every head's weights, from one forward pass over the finished translation.

So with beam search too they are those of the translation that was returned, and not of the beams that were open while
it was found.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from transformers.utils import logging

from ..configuration_tinyseq import ATTENTIONS
from ..text import clean, is_blank
from ..translation import Translator, check_texts, filled_up, source_tensors
from .words import merge, word_groups, word_text

logger = logging.get_logger(__name__)


@dataclass
class AttentionMaps:
    """All attention weights of one sentence and one translation of it.

    A row says where one position looks, and sums to 1. A head that was removed (`TinySeqConfig.kept_heads`) keeps its
    place, so that heads have their numbers: its weights are 0.

    Attributes:
        source: The sentence.
        translation: The translation.
        score: Mean log-probability of a piece of the translation, `</s>` included; natural logarithm.
        source_pieces: What the columns of `encoder` and `cross` stand for, `</s>` included.
        target_pieces: What each row of `decoder` and `cross` predicts, `</s>` included.
        decoder_pieces: What each row of `decoder` and `cross` has just read, and what the columns of `decoder` stand
            for: BEGIN, then the target's pieces but the last.
        encoder: (encoder_layers, heads, source_len, source_len)
        decoder: (decoder_layers, heads, target_len, target_len)
        cross: (decoder_layers, heads, target_len, source_len)
        source_ids: The ids of the source's pieces, also where the maps are of words.
        target_ids: The ids of the target's pieces, likewise.
    """

    source: str
    translation: str
    score: float
    source_pieces: list[str]
    target_pieces: list[str]
    decoder_pieces: list[str]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray
    source_ids: list[int] = field(default_factory=list)
    target_ids: list[int] = field(default_factory=list)

    def of_words(self) -> "AttentionMaps":
        """Returns the same maps with the pieces of a word as one (Clark et al. 2019, arXiv:1906.04341, section 4.1).

        What goes to a word is the sum of what goes to its pieces; what comes from it is the mean over its pieces. So
        rows still sum to 1. In `decoder` a word of several pieces may look at itself: its later pieces have read the
        earlier ones.

        Raises:
            ValueError: The pieces are those of byte-level BPE or of WordPiece.
        """
        source, target = word_groups(self.source_pieces), word_groups(self.target_pieces)
        # One BEGIN and the target's pieces but the last; a last word of several pieces was read in part
        begun = [[0], *([i + 1 for i in group if i + 1 < len(self.decoder_pieces)] for group in target)]
        read = [group for group in begun if group]
        return replace(
            self,
            source_pieces=[word_text(self.source_pieces, group) for group in source],
            target_pieces=[word_text(self.target_pieces, group) for group in target],
            decoder_pieces=[word_text(self.decoder_pieces, group) for group in read],
            encoder=merge(self.encoder, source, source),
            decoder=merge(self.decoder, target, read),
            cross=merge(self.cross, target, source),
        )

    def to_bertviz(self, attention: str | None = None) -> dict[str, Any]:
        """Returns the arguments of BertViz's `head_view` and `model_view`.

            >>> bertviz.head_view(**attention.maps(model, tokenizer, "Two dogs play.").to_bertviz("cross"))

        Args:
            attention: "encoder", "decoder" or "cross"; `None`: all three, to choose from in the view.

        Raises:
            ValueError: All three are asked for, and encoder and decoder differ in layers or heads: BertViz would leave
                out what one has more, or fail. Or the translation breaks off inside a word.
        """
        if attention not in (None, *ATTENTIONS):
            raise ValueError(f"attention={attention!r} must be one of {', '.join(ATTENTIONS)}, or None for all three")
        if attention is None and self.encoder.shape[:2] != self.decoder.shape[:2]:
            raise ValueError(
                f"BertViz shows the three attentions together only if they have as many layers and heads, and the "
                f"encoder has {self.encoder.shape[:2]} and the decoder {self.decoder.shape[:2]}; choose one of "
                f"{', '.join(map(repr, ATTENTIONS))}"
            )
        if attention != "encoder" and len(self.target_pieces) != len(self.decoder_pieces):
            raise ValueError(
                "the translation breaks off inside a word, so that by words it is not read as it is written; give "
                "BertViz the maps of pieces"
            )
        arguments: dict[str, Any] = {}
        for name in ATTENTIONS if attention is None else (attention,):
            arguments[f"{name}_attention"] = [torch.from_numpy(layer)[None] for layer in getattr(self, name)]
            if name != "decoder":
                arguments["encoder_tokens"] = self.source_pieces
            if name != "encoder":
                arguments["decoder_tokens"] = self.decoder_pieces
        return arguments


def maps(model: Any, tokenizer: Any, source: str, target: str | None = None, **generate_options: Any) -> AttentionMaps:
    """Returns the attention of the translation of `source`, or of `target` if one is given.

    Args:
        model: An encoder-decoder of Transformers that has eager attention. It is left as it was.
        tokenizer: Its tokenizer.
        source: One sentence.
        target: A translation to look at, in place of the model's own.
        generate_options: For `model.generate`, if no target is given.

    Raises:
        ValueError: The source, or the target, is blank or longer than the model takes.
    """
    return maps_of_batch(model, tokenizer, [source], None if target is None else [target], **generate_options)[0]


def maps_of_nbest(model: Any, tokenizer: Any, source: str, n: int, **generate_options: Any) -> list[AttentionMaps]:
    """Returns the attention of the `n` best translations of `source` that a beam search finds, the best first.

    Args:
        model: As in `maps`.
        tokenizer: Its tokenizer.
        source: One sentence.
        n: How many. The search has as many beams at least.
        generate_options: For `model.generate`.

    Raises:
        ValueError: As in `maps`; or `n` is below 1, or more than the beams that were asked for; or sampling was.
    """
    if generate_options.get("num_return_sequences", n) != n:
        raise ValueError(f"num_return_sequences={generate_options['num_return_sequences']}: n={n} says how many")
    if n < 1:
        raise ValueError(f"n={n} must be 1 or more")
    given = generate_options.get("generation_config")
    if generate_options.get("do_sample", getattr(given, "do_sample", None)):
        raise ValueError("do_sample=True: the n best are those of a beam search, which draws nothing; leave it out")
    beams = generate_options.get("num_beams") or getattr(given, "num_beams", None)
    if beams is None:
        beams = beams_for(model, n)
    elif n > beams:
        raise ValueError(f"n={n} is more than num_beams={beams}, the translations that the search keeps")
    options = {**generate_options, "num_beams": beams, "do_sample": False, "num_return_sequences": n}
    with as_it_was(model), torch.inference_mode():
        model.eval()
        ids = encode(model, tokenizer, [source], "source")
        return look(model, tokenizer, [source] * n, ids * n, translate(model, tokenizer, ids, **options))


def beams_for(model: Any, n: int) -> int:
    """Returns how many beams a search for the `n` best has, if nobody says: the model's own, and `n` at least."""
    return max(n, model.generation_config.num_beams or 1)


def maps_of_batch(
    model: Any,
    tokenizer: Any,
    sources: Sequence[str],
    targets: Sequence[str] | None = None,
    **generate_options: Any,
) -> list[AttentionMaps]:
    """Returns the maps of each of several sentences, all of which the model takes at once.

    Args:
        model: As in `maps`.
        tokenizer: Its tokenizer.
        sources: The sentences.
        targets: As many translations to look at, in place of the model's own.
        generate_options: For `model.generate`, if there are no targets.

    Raises:
        ValueError: As in `maps`, naming the sentence by its index; or there are more sources than targets, or less.
    """
    if isinstance(sources, str) or isinstance(targets, str):
        raise TypeError("sources and targets must be lists of texts; for one sentence there is maps()")
    if generate_options.get("num_return_sequences") not in (None, 1):
        raise ValueError("here a sentence has one translation; for several there is maps_of_nbest()")
    if targets is not None and generate_options:
        raise ValueError(f"{', '.join(generate_options)}: nothing is searched where the targets are given")
    if targets is not None and len(targets) != len(sources):
        raise ValueError(f"there are {len(sources)} sources and {len(targets)} targets; each source needs its own")
    if not sources:
        return []
    with as_it_was(model), torch.inference_mode():
        model.eval()
        ids = encode(model, tokenizer, sources, "source")
        if targets is None:
            begun = translate(model, tokenizer, ids, **generate_options)
        else:
            begun = [[begin_token(model), *target] for target in encode(model, tokenizer, targets, "target")]
        return look(model, tokenizer, sources, ids, begun)


def columns(
    model: Any,
    tokenizer: Any,
    sources: Sequence[str],
    targets: Sequence[str] | None = None,
    **generate_options: Any,
) -> dict[str, list]:
    """Returns `maps_of_batch` as the columns of a data set, named as the attributes of `AttentionMaps`.

    >>> dataset.map(lambda batch: attention.columns(model, tokenizer, batch["en"]), batched=True, batch_size=32)

    Read with `.with_format("numpy")`, each map is an array again.
    """
    found = maps_of_batch(model, tokenizer, sources, targets, **generate_options)
    return {name: [getattr(one, name) for one in found] for name in [field.name for field in fields(AttentionMaps)]}


# ---------------------------------------------------------------------------------------------------------------------
# From a sentence to its maps
# ---------------------------------------------------------------------------------------------------------------------


@contextmanager
def as_it_was(model: Any) -> Iterator[None]:
    """Puts back which modules were training, and the attention implementation."""
    training = {module: module.training for module in model.modules()}
    implementation = model.config._attn_implementation
    try:
        yield
    finally:
        if model.config._attn_implementation != implementation:
            model.set_attn_implementation(implementation)
        for module, was_training in training.items():
            module.training = was_training


def encode(model: Any, tokenizer: Any, texts: Sequence[str], side: str) -> list[list[int]]:
    """Returns the ids of texts of a side, "source" or "target", with the end token; the model must take each.

    Raises:
        TypeError: One is no text.
        ValueError: One is no valid text, blank or too long.
    """
    check_texts(texts)
    limit = Translator(model, tokenizer).source_limit()
    names = [f"{side} {index}" for index in range(len(texts))] if len(texts) > 1 else [f"the {side}"]
    for name, text in zip(names, texts, strict=True):
        if is_blank(text):
            raise ValueError(f"{name} is {text!r}: there is nothing in it to look at; give a sentence")
    found = tokenized(tokenizer, texts, side)
    for name, text, ids in zip(names, texts, found, strict=True):
        if len(ids) > limit:
            raise ValueError(
                f"{name} has {len(ids)} pieces and the model takes {limit}; look at a part of it: {text!r}"
            )
    return found


def tokenized(tokenizer: Any, texts: Sequence[str], side: str) -> list[list[int]]:
    """Returns the ids of texts of a side, whatever their length."""
    cleaned = [clean(text) for text in texts]
    arguments: dict[str, Any] = {"text": cleaned} if side == "source" else {"text_target": cleaned}
    return tokenizer(**arguments, truncation=False, padding=False, verbose=False)["input_ids"]


def begin_token(model: Any) -> int:
    """Returns the id that decoding begins with."""
    begin = model.generation_config.decoder_start_token_id
    return model.config.decoder_start_token_id if begin is None else begin


def translate(
    model: Any, tokenizer: Any, sources: Sequence[Sequence[int]], *, warn: bool = True, **generate_options: Any
) -> list[list[int]]:
    """Returns the ids of the translations: BEGIN, the pieces, and `</s>` if one came to it.

    Args:
        model: In eval mode.
        tokenizer: Its tokenizer.
        sources: Ids.
        warn: Whether to say which stopped at the length limit: their maps end in the middle of a sentence.
        generate_options: For `model.generate`.
    """
    translator = Translator(model, tokenizer)
    output_ids = translator.generate(sources, **{"num_return_sequences": 1, **generate_options})
    unfinished = [i for i, ended in enumerate(translator.have_ended(output_ids, generate_options)) if not ended]
    if unfinished and warn:
        logger.warning(
            f"{len(unfinished):,} of {len(output_ids):,} translations hit the length limit before their end and stop "
            f"there: {', '.join(map(str, unfinished))}. Raise max_new_tokens, or train the model for longer."
        )
    ends = set(torch.as_tensor(translator.setting("eos_token_id", generate_options)).flatten().tolist())
    found = []
    for begin, *row in output_ids.tolist():  # BEGIN may be an end token too
        end = next((i + 1 for i, piece in enumerate(row) if piece in ends), len(row))
        found.append([begin, *row[:end]])
    return found


def as_text(tokenizer: Any, ids: Sequence[int]) -> str:
    """Returns the text of a translation's ids."""
    return tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)


def teacher_forced(
    model: Any, source_ids: Sequence[Sequence[int]], begun: Sequence[Sequence[int]], **options: Any
) -> tuple[Any, list[float]]:
    """Runs the model once over sources and translations, given as ids, the latter with BEGIN.

    Returns:
        Its output, and the mean log-probability of a piece of each translation.
    """
    output = model(
        **source_tensors(model, source_ids),
        decoder_input_ids=filled_up(model, [ids[:-1] for ids in begun], model.config.pad_token_id),
        use_cache=False,
        **options,
    )
    labels = filled_up(model, [ids[1:] for ids in begun], -100)
    log_probs = output.logits.float().log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    scores = log_probs.masked_fill(labels < 0, 0).sum(-1) / (labels >= 0).sum(-1)
    return output, scores.tolist()


def look(
    model: Any,
    tokenizer: Any,
    sources: Sequence[str],
    source_ids: Sequence[Sequence[int]],
    begun: Sequence[Sequence[int]],
) -> list[AttentionMaps]:
    """Returns the maps of sources and translations from one forward pass over all; leaves the attention eager."""
    model.set_attn_implementation("eager")
    output, scores = teacher_forced(model, source_ids, begun, output_attentions=True)
    layers = {"encoder": output.encoder_attentions, "decoder": output.decoder_attentions}
    layers["cross"] = output.cross_attentions
    every = {name: with_removed_heads(model.config, name, found) for name, found in layers.items()}
    return [
        AttentionMaps(
            source=source,
            translation=as_text(tokenizer, target),
            score=score,
            source_pieces=pieces_of(tokenizer, ids, source),
            target_pieces=pieces_of(tokenizer, target),
            decoder_pieces=pieces_of(tokenizer, [begin, *target[:-1]]),
            encoder=every["encoder"][:, i, :, : len(ids), : len(ids)],
            decoder=every["decoder"][:, i, :, : len(target), : len(target)],
            cross=every["cross"][:, i, :, : len(target), : len(ids)],
            source_ids=list(ids),
            target_ids=target,
        )
        for i, (source, ids, (begin, *target), score) in enumerate(
            zip(sources, source_ids, begun, scores, strict=True)
        )
    ]


def pieces_of(tokenizer: Any, ids: Sequence[int], source: str | None = None) -> list[str]:
    """Returns the pieces that ids stand for; one that the tokenizer does not know is `<id 3123>`.

    Args:
        tokenizer: The tokenizer.
        ids: Of the target or, if `source` is given, of that source.
        source: Needed where source and target have vocabularies of their own, as some Marian models have.
    """
    if source is not None and getattr(tokenizer, "separate_vocabs", False):
        pieces = tokenizer.tokenize(clean(source))
        return [*pieces, *[tokenizer.eos_token] * (len(ids) - len(pieces))]
    found = tokenizer.convert_ids_to_tokens(list(ids))
    return [f"<id {i}>" if piece is None else piece for i, piece in zip(ids, found, strict=True)]


def with_removed_heads(config: Any, attention: str, layers: Sequence[torch.Tensor]) -> np.ndarray:
    """Returns the weights of all layers as one array, (layers, batch, heads, query_len, key_len).

    Args:
        config: The model's.
        attention: Which of its attentions.
        layers: (batch, heads that are there, query_len, key_len) of each layer.
    """
    found = [weights.float().cpu().numpy() for weights in layers]
    if getattr(config, "kept_heads", None) is None:
        return np.stack(found)
    batch, _, *lengths = found[0].shape
    every = np.zeros((len(found), batch, config.heads(attention), *lengths), dtype=np.float32)
    for layer, weights in enumerate(found):
        every[layer][:, config.heads_kept(attention, layer)] = weights
    return every
