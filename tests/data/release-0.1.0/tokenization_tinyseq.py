# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The TinySeq tokenizer: readable pieces, no unknown token, and the text comes back as it was.

One vocabulary serves both languages. A piece that begins a word carries the space before it, written ``▁``. What no
piece covers is spelled in bytes (``<0xE2>``...), so every text has ids and every text can be decoded.

The normalisation, all of it: Unicode NFC (composed and decomposed accents become the same), and ``▁`` (U+2581) itself
becomes a space. ``decode(encode(text))`` is the text after that.

Ids: ``</s>`` is 0, the 256 bytes follow, then the pieces, and ``<pad>`` is last, as Marian has it. ``</s>`` is
appended to source and target; there is no begin token, since the model begins to decode with ``<pad>``.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import TokenizersBackend
from transformers.utils import logging

from .push_tinyseq import PushToHub

logger = logging.get_logger(__name__)

END, PAD, SPACE = "</s>", "<pad>", "▁"
IGNORED = -100  # what labels are padded with, by Transformers' custom
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SMALLEST_VOCABULARY = len(BYTES) + 3  # the bytes, the space, </s> and <pad>
ALGORITHMS = ("unigram", "bpe")

# What can be one piece at most: a run of letters, one digit or one other character, each with the space before it. As
# "<" stands alone, no text can be taken for </s> or for a byte.
WORDS = rf"{SPACE}?[\p{{L}}\p{{M}}]+|{SPACE}?\p{{N}}|{SPACE}?[^\p{{L}}\p{{M}}\p{{N}}{SPACE}]"


class TinySeqTokenizer(PushToHub, TokenizersBackend):
    """Fast tokenizer with byte fallback; make one with [`TinySeqTokenizer.train`].

    Special tokens that a text spells out (``"</s>"``) are text and stay text: a line of a corpus can't end a sentence.
    Pass ``split_special_tokens=False`` in a call to have them read as special tokens.
    """

    _auto_class = "AutoTokenizer"  # its code is saved beside it
    vocab_files_names = {"tokenizer_file": "tokenizer.json"}
    model_input_names = ["input_ids", "attention_mask"]
    padding_side = "right"

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        # The code of others is saved where they ask for it, by `register_for_auto_class`
        cls._auto_class = None  # type: ignore[assignment]

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int = 8000,
        algorithm: str = "unigram",
        multiple_of: int = 1,
        model_max_length: int = 512,
        show_progress: bool = False,
    ) -> "TinySeqTokenizer":
        """Returns a tokenizer learned from `texts`, sources and targets alike.

        Args:
            texts: Any iterable of texts; it is read once.
            vocab_size: The most ids it may have, special tokens and bytes included. A small corpus gives fewer.
            algorithm: `"unigram"` (Kudo 2018, arXiv:1804.10959) or `"bpe"` (Sennrich et al. 2016, arXiv:1508.07909).
            multiple_of: The number of ids is a multiple of this, by leaving out the last pieces: 8 suits GPUs.
            model_max_length: Longest sequence, `</s>` included, that the model takes.
            show_progress: Draw a progress bar.

        Raises:
            ValueError: An argument is out of its range, or there is no text.
        """
        if algorithm not in ALGORITHMS:
            raise ValueError(f"algorithm={algorithm!r} must be one of {', '.join(ALGORITHMS)}")
        if multiple_of < 1:
            raise ValueError(f"multiple_of={multiple_of} must be 1 or more")
        most = vocab_size // multiple_of * multiple_of
        if most < SMALLEST_VOCABULARY:
            raise ValueError(
                f"vocab_size={vocab_size} (multiple_of={multiple_of}) is too small: the 256 bytes, the space, {END} "
                f"and {PAD} alone are {SMALLEST_VOCABULARY}; a few hundred more is the least that makes sense"
            )
        backend = Tokenizer(models.Unigram() if algorithm == "unigram" else models.BPE())
        backend.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(" ", SPACE)])
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), behavior="isolated")
        backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Replace(SPACE, " ")])
        pieces = most - len(BYTES) - 2
        normalized = [backend.normalizer.normalize_str(text) for text in texts]
        learnable = learnable_parts(normalized, pieces)
        make = train_unigram if algorithm == "unigram" else train_bpe
        backend.model = make(backend, learnable, pieces, multiple_of, show_progress)
        backend.add_special_tokens([END, PAD])  # both are in the vocabulary; this marks them as special
        backend.post_processor = processors.TemplateProcessing(
            single=f"$A {END}", pair=f"$A $B {END}", special_tokens=[(END, backend.token_to_id(END))]
        )
        tokenizer = cls.wrap(backend, END, PAD, model_max_length)
        if len(tokenizer) < most:
            logger.warning(
                f"The texts gave a vocabulary of {len(tokenizer)} where up to {most} were asked for: there was "
                f"nothing more to learn from them. Size the model with len(tokenizer)."
            )
        return tokenizer

    @classmethod
    def wrap(cls, backend: Tokenizer, end: str, pad: str, model_max_length: int) -> "TinySeqTokenizer":
        """Returns `backend` as a TinySeq tokenizer, with its end and padding tokens."""
        return cls(
            tokenizer_object=backend,
            eos_token=end,
            pad_token=pad,
            model_max_length=model_max_length,
            split_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )

    def train_new_from_iterator(
        self, text_iterator, vocab_size, length=None, new_special_tokens=None, special_tokens_map=None, **kwargs
    ) -> "TinySeqTokenizer":
        """Returns a tokenizer of the same kind, learned from an iterator of texts or of lists of texts.

        It has the special tokens of this one, under the names that `special_tokens_map` (old name to new) gives them.
        As with the library's own byte-level tokenizers, a `vocab_size` that is too small for the bytes is exceeded.
        """
        algorithm = "bpe" if isinstance(self.backend_tokenizer.model, models.BPE) else "unigram"
        texts = (text for batch in text_iterator for text in ([batch] if isinstance(batch, str) else batch))
        names = special_tokens_map or {}
        roles = {role: names.get(token, token) for role, token in self.special_tokens_map.items()}
        extra = [names.get(token, token) for token in map(str, self.extra_special_tokens)]
        extra += new_special_tokens or []
        own = {END: roles.pop("eos_token", END), PAD: roles.pop("pad_token", PAD)}
        size = vocab_size - len(roles) - len(extra)
        if size < SMALLEST_VOCABULARY:
            logger.warning(
                f"vocab_size={vocab_size} has no room for the bytes: {SMALLEST_VOCABULARY} ids are in every vocabulary"
            )
            size = SMALLEST_VOCABULARY
        tokenizer = type(self).train(texts, size, algorithm, model_max_length=self.model_max_length, **kwargs)
        if own != {END: END, PAD: PAD}:
            backend = json.dumps(renamed(json.loads(tokenizer.backend_tokenizer.to_str()), own))
            tokenizer = type(self).wrap(Tokenizer.from_str(backend), own[END], own[PAD], self.model_max_length)
        if roles or extra:
            tokenizer.add_special_tokens({**roles, "extra_special_tokens": extra})
        return tokenizer

    def _decode(self, token_ids, skip_special_tokens=False, **kwargs):
        """As in Transformers; -100, which pads labels and what processes have gathered, is no piece and gives nothing.

        Transformers lets it through to a bare OverflowError.
        """
        if isinstance(token_ids, int):
            token_ids = [token_ids]
        if isinstance(token_ids, list):
            token_ids = [token for token in token_ids if token != IGNORED]
        return super()._decode(token_ids, skip_special_tokens, **kwargs)

    def _save_pretrained(self, save_directory, file_names, legacy_format=None, filename_prefix=None):
        # The backend keeps the truncation and padding of the last call, and would write them into tokenizer.json,
        # where they would cut the texts of whoever loads it
        self.backend_tokenizer.no_truncation()
        self.backend_tokenizer.no_padding()
        return super()._save_pretrained(save_directory, file_names, legacy_format, filename_prefix)


def renamed(node, names: dict[str, str]):
    """Returns the JSON value `node` with every string that has a new name, keys included, under that name."""
    if isinstance(node, dict):
        return {names.get(key, key): renamed(value, names) for key, value in node.items()}
    if isinstance(node, list):
        return [renamed(value, names) for value in node]
    return names.get(node, node) if isinstance(node, str) else node


def learnable_parts(texts: list[str], pieces: int) -> list[str]:
    """Returns the texts, cut at the rarest characters where there are more characters than pieces to learn.

    Written Chinese can have more characters than a small vocabulary has pieces, and the trainers can't leave any out.
    Those cut out here are spelled in bytes.

    Args:
        texts: The texts, normalised.
        pieces: How many pieces there can be, the space among them.

    Raises:
        ValueError: There is no text.
    """
    counts = Counter(character for text in texts for character in text)
    if not counts:
        raise ValueError("there is no text to train a tokenizer on: every text was empty")
    counts.pop(SPACE, None)
    rare = sorted(counts, key=lambda character: (-counts[character], character))[pieces - 1 :]
    if not rare:
        return texts
    cut = re.compile(f"[{re.escape(''.join(rare))}]+")
    return [part for text in texts for part in cut.split(text) if part]


def train_unigram(
    backend: Tokenizer, texts: list[str], pieces: int, multiple_of: int, show_progress: bool
) -> models.Unigram:
    """Returns a unigram model of at most `pieces` pieces, the bytes and the special tokens beside them."""
    trainer = trainers.UnigramTrainer(
        vocab_size=max(pieces, 10),  # with less it never ends where the texts have as many characters
        special_tokens=[],
        unk_token=None,
        max_piece_length=16,
        show_progress=show_progress,
    )
    backend.train_from_iterator(texts, trainer)
    learned = json.loads(backend.to_str())["model"]["vocab"]
    # Characters first: where the end has to be cut off, it is the least likely of the longer pieces
    learned = sorted(reproducible(learned), key=lambda pair: (len(pair[0]) > 1, -pair[1], pair[0]))
    space_score = dict(learned).get(SPACE, min((score for _, score in learned), default=0.0))
    learned = [pair for pair in learned if pair[0] != SPACE][: pieces - 1]
    learned.insert(0, (SPACE, space_score))
    learned = learned[: fitting(len(learned), multiple_of)]
    lowest = min(score for _, score in learned)
    vocabulary = [(END, lowest), *((byte, lowest) for byte in BYTES), *learned, (PAD, lowest)]
    # An id for unknown characters must be named, though the bytes leave it nothing to do
    return models.Unigram(vocabulary, unk_id=0, byte_fallback=True)


def reproducible(learned: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Returns the trainer's pieces and scores without what differs from run to run, though the texts are the same.

    That is the last digits, from sums in another order, and the scores of characters that are no use as pieces: the
    trainer gives them the lowest score plus 0.0001 for each one before, in the order of a hash table. Here each of
    them has the lowest score.
    """
    lowest = min((score for _, score in learned), default=0.0)
    scores = []
    for piece, score in learned:
        steps = (score - lowest) / 0.0001
        by_order = len(piece) == 1 and steps < len(learned) and abs(steps - round(steps)) < 1e-6
        scores.append((piece, round(lowest if by_order else score, 6)))
    return scores


def train_bpe(backend: Tokenizer, texts: list[str], pieces: int, multiple_of: int, show_progress: bool) -> models.BPE:
    """Returns a BPE model of at most `pieces` pieces, the bytes and the special tokens beside them."""
    trainer = trainers.BpeTrainer(
        vocab_size=pieces,
        special_tokens=[],
        initial_alphabet=[SPACE],
        limit_alphabet=pieces,
        max_token_length=16,
        show_progress=show_progress,
    )
    backend.train_from_iterator(texts, trainer)
    model = json.loads(backend.to_str())["model"]
    learned = sorted(model["vocab"], key=model["vocab"].get)
    learned = learned[: fitting(len(learned), multiple_of)]
    kept = set(learned)
    merges = [(left, right) for left, right in model["merges"] if left + right in kept]
    vocabulary = {piece: index for index, piece in enumerate([END, *BYTES, *learned, PAD])}
    return models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True)


def fitting(pieces: int, multiple_of: int) -> int:
    """Returns how many of `pieces` to keep for the whole vocabulary to be a multiple."""
    fixed = len(BYTES) + 2
    most = (pieces + fixed) // multiple_of * multiple_of
    if most < SMALLEST_VOCABULARY:
        raise ValueError(
            f"multiple_of={multiple_of} is too large for these texts: they gave {pieces + fixed} ids, and the next "
            f"smaller multiple has no room for the {SMALLEST_VOCABULARY} of every vocabulary; give more text or "
            f"choose a smaller multiple"
        )
    return most - fixed


__all__ = ["TinySeqTokenizer"]
