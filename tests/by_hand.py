"""A translation by hand: a Transformer in NumPy that knows the weights' names and the papers' formulas, and no code.

The oracle of what is shown of a model's inside. Every size differs: heads 4 and 2, layers 3 and 2, widths 24, 20, 28.
"""

import math

import numpy as np
import torch

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration

WIDTH = 24
KINDS = {
    "post-norm sinusoidal relu": {},
    "pre-norm learned gelu": {
        "normalize_before": True, "position_embedding_type": "learned", "activation_function": "gelu",
        "scale_embedding": False,
    },
    "post-norm rotary": {"position_embedding_type": "rotary", "tie_word_embeddings": False},
    "pre-norm rotary": {"position_embedding_type": "rotary", "normalize_before": True},
    "heads removed": {
        "kept_heads": {"encoder": [[1, 3], [0, 1, 2, 3], [2]], "decoder": [[1], [0, 1]], "cross": [[0, 1], [0]]},
    },
}  # fmt: skip


def random_model(tokenizer, seed=10, **changes):
    """A model in eval mode in which no weight has its initial value."""
    torch.manual_seed(seed)
    options = dict(
        vocab_size=len(tokenizer), d_model=WIDTH, encoder_layers=3, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=28, max_position_embeddings=40,
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    model = TinySeqForConditionalGeneration(TinySeqConfig(**{**options, **changes})).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("norm.weight"):
                weight.uniform_(0.5, 1.5)
            else:
                weight.normal_(std=0.2)
    model.generation_config.max_length = 7  # BEGIN and six pieces
    return model


class ByHand:
    """All steps of a translation, computed from the state dict in float64; `values` has them by name, in order."""

    def __init__(self, model, source: list[int], target: list[int]):
        self.config = model.config
        self.weights = {name: weight.double().numpy() for name, weight in model.state_dict().items()}
        self.values: dict[str, np.ndarray] = {}
        self.memory = None
        self.memory = self.stack("encoder", "source.pieces", source)
        begun = [model.config.decoder_start_token_id, *target]
        states = self.stack("decoder", "target.pieces", begun[:-1])
        logits = states @ self.weights["lm_head.weight"].T
        logits[:, self.config.pad_token_id] = 0
        probs = softmax(logits)
        self.values |= {"decoding.logits": logits, "decoding.probs": probs}
        for index, piece in enumerate(target):
            ranked = sorted(range(logits.shape[1]), key=lambda i: -logits[index, i])
            shown = ranked[:5] + ([piece] if piece not in ranked[:5] else [])
            self.values[f"decoding.{index}"] = np.array([[logits[index, i], probs[index, i]] for i in shown])
        self.values["decoding.text"] = np.array(target)

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name, x):
        variance = ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True)
        normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(variance + 1e-5)
        return normal * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def stack(self, name, pieces, ids):
        prefix, v, places = f"model.{name}", self.values, range(len(ids))
        v[pieces] = np.array(ids)
        v[f"{name}.embedding"] = self.weights[f"{prefix}.embed_tokens.weight"][ids]
        scale = math.sqrt(WIDTH) if self.config.scale_embedding else 1
        kind = self.config.position_embedding_type
        if kind == "rotary":
            size = WIDTH // (4 if name == "encoder" else 2)
            angles = np.array([[p * 10000 ** (-2 * (i % (size // 2)) / size) for i in range(size)] for p in places])
            v[f"{name}.positions"] = np.stack([np.cos(angles), np.sin(angles)])
            x = v[f"{name}.embedding"] * scale
        else:
            if kind == "learned":
                table = self.weights[f"{prefix}.embed_positions.weight"][: len(ids)]
            else:
                waves = [[p / 10000 ** (2 * i / WIDTH) for i in range(WIDTH // 2)] for p in places]
                table = np.concatenate([np.sin(waves), np.cos(waves)], axis=1)
            v[f"{name}.positions"] = table
            x = v[f"{name}.embedding"] * scale + table
        v[f"{name}.input"] = x
        for index in range(3 if name == "encoder" else 2):
            layer = f"{prefix}.layers.{index}"
            blocks = [("self_attn", "self_attn")] + [("cross_attn", "encoder_attn")] * (name == "decoder")
            for short, long in blocks:
                block = f"{name}.{index}.{short}"
                x = self.around(
                    block,
                    f"{layer}.{long}_layer_norm",
                    x,
                    lambda x, block=block, layer=layer, long=long: self.attend(block, f"{layer}.{long}", x),
                )
            block = f"{name}.{index}.ffn"
            x = self.around(
                block, f"{layer}.final_layer_norm", x, lambda x, b=block, layer=layer: self.feed_forward(b, layer, x)
            )
        if self.config.normalize_before:
            x = v[f"{name}.norm"] = self.norm(f"{prefix}.layer_norm", x)
        return x

    def around(self, block, norm, x, inside):
        v = self.values
        if self.config.normalize_before:
            v[f"{block}.norm"] = self.norm(norm, x)
            v[f"{block}.residual"] = x + inside(v[f"{block}.norm"])
            return v[f"{block}.residual"]
        output = inside(x)
        v[f"{block}.residual"] = x + output
        v[f"{block}.norm"] = self.norm(norm, v[f"{block}.residual"])
        return v[f"{block}.norm"]

    def attend(self, block, name, x):
        v, is_cross = self.values, block.endswith("cross_attn")
        y = self.memory if is_cross else x
        size = WIDTH // (4 if block.startswith("encoder") else 2)
        heads = {}
        for letter, states in (("q", x), ("k", y), ("v", y)):
            v[f"{block}.{letter}"] = self.linear(f"{name}.{letter}_proj", states)
        for letter in "qkv":
            flat = v[f"{block}.{letter}"]
            parts = [flat[:, start : start + size] for start in range(0, flat.shape[1], size)]
            heads[letter] = v[f"{block}.{letter}_heads"] = np.array(parts)
        if self.config.position_embedding_type == "rotary" and not is_cross:
            for letter in "qk":
                pairs = heads[letter][..., : size // 2] + 1j * heads[letter][..., size // 2 :]
                angle = np.outer(np.arange(len(x)), [10000 ** (-2 * i / size) for i in range(size // 2)])
                turned = pairs * np.exp(1j * angle)
                heads[letter] = v[f"{block}.{letter}_turned"] = np.concatenate([turned.real, turned.imag], axis=-1)
        v[f"{block}.scores"] = np.einsum("hqd,hkd->hqk", heads["q"], heads["k"])
        v[f"{block}.scaled"] = v[f"{block}.scores"] / math.sqrt(size)
        is_causal = block.startswith("decoder") and not is_cross
        hidden = np.array([[is_causal and key > query for key in range(len(y))] for query in range(len(x))])
        v[f"{block}.mask"] = np.where(hidden, -np.inf, 0)
        v[f"{block}.masked"] = v[f"{block}.scaled"] + v[f"{block}.mask"]
        v[f"{block}.weights"] = softmax(v[f"{block}.masked"])
        v[f"{block}.context"] = np.einsum("hqk,hkd->hqd", v[f"{block}.weights"], heads["v"])
        v[f"{block}.merged"] = np.concatenate(list(v[f"{block}.context"]), axis=-1)
        v[f"{block}.output"] = self.linear(f"{name}.out_proj", v[f"{block}.merged"])
        return v[f"{block}.output"]

    def feed_forward(self, block, layer, x):
        v = self.values
        inner = v[f"{block}.fc1"] = self.linear(f"{layer}.fc1", x)
        if self.config.activation_function == "gelu":
            inner = inner * (1 + np.vectorize(math.erf)(inner / math.sqrt(2))) / 2
        else:
            inner = np.maximum(inner, 0)
        v[f"{block}.activation"] = inner
        v[f"{block}.fc2"] = self.linear(f"{layer}.fc2", inner)
        return v[f"{block}.fc2"]


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)
