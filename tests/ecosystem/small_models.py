"""The models of these tests: small, every size another, and a MarianMT of the same sizes to compare with."""

import copy
import functools
from typing import Any

import pytest
import torch
from transformers import MarianConfig, MarianMTModel

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration

VOCAB, END, PAD = 23, 0, 22  # <pad> is BEGIN too
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10, END], [4, 3, 2, END, PAD, PAD, PAD]])
SOURCE_MASK = SOURCE.ne(PAD).long()
TARGET = torch.tensor([[PAD, 5, 6, 7, 8], [PAD, 9, 3, END, PAD]])
LABELS = torch.tensor([[5, 6, 7, 8, END], [9, 3, END, -100, -100]])

KINDS = {
    "post-norm sinusoidal": {},
    "post-norm learned": {"position_embedding_type": "learned"},
    "pre-norm rotary": {"normalize_before": True, "position_embedding_type": "rotary"},
    "untied": {"tie_word_embeddings": False},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
SIZES = dict(
    vocab_size=VOCAB,
    d_model=24,
    encoder_layers=3,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=2,
    encoder_ffn_dim=20,
    decoder_ffn_dim=28,
    max_position_embeddings=32,
)


def random_model(**changes) -> TinySeqForConditionalGeneration:
    """A model in eval mode in which no matrix has its initial value; as a rule it never writes `</s>`."""
    model = TinySeqForConditionalGeneration(TinySeqConfig(**{**SIZES, **changes}))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not name.endswith("layer_norm.weight"):
                weight.normal_(std=0.25)
        for embedding in (model.get_input_embeddings(), model.get_decoder().embed_tokens):
            embedding.weight[model.config.pad_token_id] = 0
    return model.eval()


def marian_model() -> MarianMTModel:
    """A model of the library that is made like ours: what it does or refuses, ours may do or refuse too."""
    ids = dict(pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=PAD, forced_eos_token_id=None)
    return MarianMTModel(MarianConfig(**SIZES, **ids)).eval()


@torch.no_grad()
def logits_of(model, **arguments) -> torch.Tensor:
    return model(SOURCE, attention_mask=SOURCE_MASK, decoder_input_ids=TARGET, **arguments).logits.float()


def taught_model(**changes) -> TinySeqForConditionalGeneration:
    """A model that has learned to write TARGET's two targets for SOURCE's two sources, and is sure of it."""
    return copy.deepcopy(teach(tuple(sorted(changes.items()))))


@functools.cache  # the same for every test
def teach(changes: tuple[tuple[str, Any], ...]) -> TinySeqForConditionalGeneration:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TinySeqForConditionalGeneration(TinySeqConfig(**{**SIZES, "dropout": 0.0, **dict(changes)})).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(100):
        optimizer.zero_grad()
        model(SOURCE, labels=LABELS).loss.backward()
        optimizer.step()
    return model.eval()


def written(sequences: torch.Tensor) -> list[list[int]]:
    """The ids without BEGIN and without what follows `</s>`."""
    rows = [row[1:] for row in sequences.tolist()]
    return [row[: row.index(END) + 1] if END in row else row for row in rows]


TAUGHT = [[5, 6, 7, 8, END], [9, 3, END]]
