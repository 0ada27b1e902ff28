# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The architecture of a TinySeq model: every value that decides what the weights mean.

What a *run* needs (learning rate, data, seeds) is not here but in ``train.py``; how to *decode* (beams, lengths) is in
``generation_config.json``.
"""

import difflib
import os
import shutil
from pathlib import Path
from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import GenerationConfig, PreTrainedConfig
from transformers.activations import ACT2FN
from transformers.utils import logging

from .push_tinyseq import PushToHub

logger = logging.get_logger(__name__)

POSITIONS = ("sinusoidal", "learned", "rotary")
ATTENTIONS = ("encoder", "decoder", "cross")  # the encoder's and the decoder's self-attention, the cross-attention
# What says how to decode: it has its place in the generation config
GENERATION_NAMES = set(GenerationConfig().to_dict()) - set(PreTrainedConfig().to_dict())

# Where the Auto classes find the code that travels with a model's weights
CODE = {
    "AutoConfig": "configuration_tinyseq.TinySeqConfig",
    "AutoModel": "modeling_tinyseq.TinySeqModel",
    "AutoModelForSeq2SeqLM": "modeling_tinyseq.TinySeqForConditionalGeneration",
}


@strict
class TinySeqConfig(PushToHub, PreTrainedConfig):
    """Configuration of a [`TinySeqModel`].

    The names are those of BART and Marian, so that other tools can read them. The defaults are the paper's design at a
    small size; ``recipes/`` hold what measured best for a task, and ``docs/log.md`` what was tried.

    Args:
        vocab_size: Number of pieces, one vocabulary for the source and the target side.
        d_model: Width of the embeddings and of every layer's output. Must be divisible by both numbers of heads.
        encoder_layers: Depth of the encoder.
        decoder_layers: Depth of the decoder; it may differ from the encoder's.
        encoder_attention_heads: Heads of the encoder's self-attention.
        decoder_attention_heads: Heads of the decoder's self- and cross-attention.
        encoder_ffn_dim: Width of the hidden layer of the encoder's feed-forward blocks.
        decoder_ffn_dim: Width of the hidden layer of the decoder's feed-forward blocks.
        activation_function: Its non-linearity, one of ``transformers.activations.ACT2FN``.
        dropout: Probability of dropping a value of the embeddings and of each block's output, in training.
        attention_dropout: The same for attention weights.
        activation_dropout: The same for the hidden layer of the feed-forward blocks.
        normalize_before: Where LayerNorm stands. ``False``: after each residual sum (post-norm, Vaswani et al. 2017).
            ``True``: before each block, with one more at the end of both stacks (pre-norm, Xiong et al. 2020).
        layer_norm_eps: Epsilon of the LayerNorms.
        position_embedding_type: ``"sinusoidal"`` (fixed, Vaswani et al. 2017, section 3.5), ``"learned"`` (a table) or
            ``"rotary"`` (queries and keys of the two self-attentions are rotated, Su et al. 2021).
        max_position_embeddings: Longest source or target, in pieces. A longer one is refused.
        rope_theta: Base of the rotary frequencies.
        scale_embedding: Multiply embeddings by ``sqrt(d_model)`` (Vaswani et al. 2017, section 3.4).
        kept_heads: Which heads are there, where some were removed: for each of the attentions "encoder", "decoder" and
            "cross" a list for each layer, with the numbers of its heads, from 0 and rising. `None`: all are there.
        tie_word_embeddings: Encoder embedding, decoder embedding and output projection are one matrix.
        initializer_range: Standard deviation of the embeddings at the start. ``None``: ``d_model ** -0.5``, which
            ``scale_embedding`` brings to 1. Linear layers start Xavier-uniform, which needs no number.
        use_cache: Whether decoding keeps keys and values by default.
        pad_token_id: Id of ``<pad>``. ``None``: the last id, as the TinySeq tokenizer has it.
        eos_token_id: Id of the end token ``</s>``.
        bos_token_id: Not used; decoding begins with ``decoder_start_token_id``.
        decoder_start_token_id: The token that decoding begins with (BEGIN). ``None``: ``pad_token_id``, as in Marian.

    Raises:
        ValueError: A value is out of its range, or the heads do not divide ``d_model``.
    """

    model_type = "tinyseq"
    attribute_map = {
        "hidden_size": "d_model",
        "num_attention_heads": "encoder_attention_heads",
        "num_hidden_layers": "encoder_layers",
    }
    keys_to_ignore_at_inference = ["cache"]
    # Encoder and decoder, each a model of its own, have the plans for several processes: see modeling_tinyseq.py
    base_model_tp_plan = {}  # type: ignore[var-annotated]  # an annotation would make it an option
    base_model_fsdp_plan = {}  # type: ignore[var-annotated]

    vocab_size: int = 8000
    d_model: int = 256
    encoder_layers: int = 3
    decoder_layers: int = 3
    encoder_attention_heads: int = 4
    decoder_attention_heads: int = 4
    encoder_ffn_dim: int = 1024
    decoder_ffn_dim: int = 1024
    activation_function: str = "relu"
    dropout: float | int = 0.1
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    normalize_before: bool = False
    layer_norm_eps: float = 1e-5
    position_embedding_type: str = "sinusoidal"
    max_position_embeddings: int = 512
    rope_theta: float | int = 10000.0
    scale_embedding: bool = True
    kept_heads: dict[str, list[list[int]]] | None = None
    tie_word_embeddings: bool = True
    initializer_range: float | int | None = None
    use_cache: bool = True
    is_encoder_decoder: bool = True
    is_decoder: bool = False
    pad_token_id: int | None = None
    eos_token_id: int | list[int] | None = 0
    bos_token_id: int | None = None
    decoder_start_token_id: int | None = None

    def __post_init__(self, **kwargs):
        if self.pad_token_id is None:
            self.pad_token_id = self.vocab_size - 1
        if self.decoder_start_token_id is None:
            self.decoder_start_token_id = self.pad_token_id
        self.validate_architecture()  # here too: from here a bad value is a plain ValueError
        warn_of_likely_mistakes(kwargs)
        super().__post_init__(**{name: value for name, value in kwargs.items() if name not in GENERATION_NAMES})

    def __setattr__(self, name, value):
        # Transformers would accept it here, and then refuse to save the trained model
        if name in GENERATION_NAMES and name not in type(self).__dataclass_fields__:
            warn_of_generation_setting(name)
        else:
            super().__setattr__(name, value)

    def save_pretrained(self, save_directory: str | os.PathLike, *args: Any, **kwargs: Any):
        """As in every configuration, and with the code: all that lies beside this file and travels.

        So models bring it too, whatever their class is at that moment (sharding gives them another). `auto_map` then
        names what lies in the folder, and no other: what `register_for_auto_class` has put there stays.
        """
        folder = Path(save_directory)
        if not folder.is_file():  # which is an error that Transformers tells
            folder.mkdir(parents=True, exist_ok=True)
            for file in Path(__file__).parent.glob("*_tinyseq.py"):
                shutil.copyfile(file, folder / file.name)
        classes = {place.split(".")[1] for place in CODE.values()}
        is_whole = not self.architectures or not classes.isdisjoint(self.architectures)  # else an encoder alone, say
        ours = CODE if is_whole else {"AutoConfig": CODE["AutoConfig"]}
        before: dict[str, str] = getattr(self, "auto_map", None) or {}
        entries = [*ours.items(), *((name, place) for name, place in before.items() if place not in CODE.values())]
        self.auto_map = {n: place for n, place in entries if (folder / f"{place.split('.')[0]}.py").is_file()}
        super().save_pretrained(save_directory, *args, **kwargs)

    def validate_architecture(self):
        """Refuses values out of range. Part of the strict validation: runs at construction.

        Raises:
            ValueError: Names the option, the value got and what is allowed.
        """
        for name in (
            "vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads",
            "decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim", "max_position_embeddings",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be 1 or more")
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is a probability: choose 0 <= {name} < 1")
        for name in ("layer_norm_eps", "rope_theta"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)} must be greater than 0")
        if self.initializer_range is not None and self.initializer_range < 0:
            raise ValueError(
                f"initializer_range={self.initializer_range} is a standard deviation: it can't be negative"
            )
        for name in ("encoder_attention_heads", "decoder_attention_heads"):
            heads = getattr(self, name)
            if self.d_model % heads:
                nearest = max(round(self.d_model / heads), 1) * heads
                raise ValueError(
                    f"d_model={self.d_model} is not divisible by {name}={heads}; choose a multiple of {heads}, "
                    f"such as d_model={nearest}, or a number of heads that divides {self.d_model}"
                )
            if self.position_embedding_type == "rotary" and (self.d_model // heads) % 2:
                raise ValueError(
                    f"position_embedding_type='rotary' turns pairs of values, and d_model={self.d_model} with "
                    f"{name}={heads} gives heads of odd size {self.d_model // heads}; choose an even size"
                )
        if self.position_embedding_type not in POSITIONS:
            raise ValueError(
                f"position_embedding_type={self.position_embedding_type!r} must be one of {', '.join(POSITIONS)}"
            )
        if self.activation_function not in ACT2FN:
            raise ValueError(
                f"activation_function={self.activation_function!r} is not known; "
                f"choose one of {', '.join(sorted(ACT2FN))}"
            )
        if self.kept_heads is not None:
            self.check_kept_heads(self.kept_heads)

    def check_kept_heads(self, kept_heads: dict[str, list[list[int]]]):
        """Refuses what names no head of this architecture.

        Raises:
            ValueError: Names the attention and the layer, what was got and what is allowed.
        """
        if set(kept_heads) != set(ATTENTIONS):
            raise ValueError(f"kept_heads has {', '.join(map(repr, kept_heads))}; it needs {', '.join(ATTENTIONS)}")
        for attention in ATTENTIONS:
            layers = self.encoder_layers if attention == "encoder" else self.decoder_layers
            if len(kept_heads[attention]) != layers:
                raise ValueError(
                    f"kept_heads[{attention!r}] has {len(kept_heads[attention])} lists; it needs one for each of the "
                    f"{layers} layers"
                )
            for layer, heads in enumerate(kept_heads[attention]):
                if not heads or heads != sorted(set(heads) & set(range(self.heads(attention)))):
                    raise ValueError(
                        f"kept_heads[{attention!r}][{layer}]={heads} must be one or more of the heads 0 to "
                        f"{self.heads(attention) - 1}, each once and rising"
                    )

    def heads(self, attention: str) -> int:
        """Returns the number of heads of each layer, the removed ones too; of "encoder", "decoder" or "cross"."""
        return self.encoder_attention_heads if attention == "encoder" else self.decoder_attention_heads

    def heads_kept(self, attention: str, layer: int) -> list[int]:
        """Returns the numbers of the heads that are there in a layer of "encoder", "decoder" or "cross"."""
        return list(range(self.heads(attention))) if self.kept_heads is None else self.kept_heads[attention][layer]


def option_names() -> list[str]:
    """Returns the names of the options that `TinySeqConfig` itself declares, in order."""
    return [name for name in TinySeqConfig.__annotations__ if name not in ("is_encoder_decoder", "is_decoder")]


def warn_of_likely_mistakes(unknown: dict) -> None:
    """Warns of a keyword that is nearly an option, or that belongs into the generation config.

    Transformers' configurations must accept unknown keywords, so a misspelt option can't be an error here. The
    training script, which need not accept them, refuses them.

    Args:
        unknown: The keywords that the configuration has no field for.
    """
    for name in unknown:
        if name in GENERATION_NAMES:
            warn_of_generation_setting(name)
        elif near := difflib.get_close_matches(name, option_names(), n=1, cutoff=0.8):
            logger.warning(f"TinySeqConfig has no option {name!r}; did you mean {near[0]!r}?")


def warn_of_generation_setting(name: str) -> None:
    """Warns that the generation setting `name` has no effect in a `TinySeqConfig`."""
    logger.warning(
        f"TinySeqConfig: {name!r} says how to decode, not what the model is, and is ignored here; "
        f"set it on model.generation_config (it is saved to generation_config.json)"
    )


__all__ = ["TinySeqConfig"]
