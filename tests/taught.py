"""A small model that has learned a few texts by heart, to say them again and stop: for tests of what is around it."""

from pathlib import Path

import torch

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, TinySeqTokenizer


def save_taught_model(folder: Path, learned: dict[str, str], seed: int, vocab_size: int, **options) -> None:
    """Teaches a model the pairs of `learned`, and saves it with its tokenizer.

    Args:
        folder: Where to.
        learned: Target by source.
        seed: Of the weights at the start.
        vocab_size: As for `TinySeqTokenizer.train`.
        options: Of the configuration, over those that all of these models share.
    """
    torch.manual_seed(seed)
    tokenizer = TinySeqTokenizer.train([*learned, *learned.values()], vocab_size)
    shared = {"d_model": 16, "encoder_ffn_dim": 24, "decoder_ffn_dim": 32, "dropout": 0.0}
    model = TinySeqForConditionalGeneration(TinySeqConfig(vocab_size=len(tokenizer), **shared, **options))
    batch = tokenizer(list(learned), return_tensors="pt", padding=True)
    labels = tokenizer(list(learned.values()), return_tensors="pt", padding=True).input_ids
    labels[labels == tokenizer.pad_token_id] = -100
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(80):
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
