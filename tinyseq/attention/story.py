# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The steps of a trace, made of a recording, in the order of the paper: what each is called, and what it says."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .recording import Recording
from .steps import Step

TOP = 5  # pieces shown of each distribution over the vocabulary
BEGIN = "BEGIN"


class Side(NamedTuple):
    """The pieces that a step has a row for: those of the source, or those that the decoder reads."""

    length: str  # the name of the axis
    pieces: list[str]


class Story:
    """Makes the steps of a recording, in order.

    Args:
        model: The model that was recorded.
        recording: What it did.
        source: The pieces of the source.
        read: What the decoder reads: BEGIN, and each piece that it writes but the last.
    """

    def __init__(self, model: Any, recording: Recording, source: list[str], read: list[str]):
        self.model = model
        self.config = model.config
        self.recording = recording
        self.source, self.target = Side("source_len", source), Side("target_len", read)
        self.steps: list[Step] = []
        self.group = ""
        self.state = ""  # the step whose values the next block reads
        self.memory = ""  # the step that gives what the cross-attentions look at

    def add(
        self,
        name: str,
        title: str,
        text: str,
        side: Side,
        width: str | None = "d_model",
        *,
        values: np.ndarray | None = None,
        inputs: Sequence[str] = (),
        tabs: Sequence[str] = (),
        tab_axis: str = "heads",
        **more: Any,
    ) -> None:
        """Adds a step with a row for each piece of a side.

        Args:
            name, title, text, tabs: As of a `Step`, and `more` likewise.
            side: What the rows are.
            width: The name of the last axis; `None`: each row is one number.
            values: The numbers, if not those that are recorded under the name.
            inputs: Names of steps; what begins with a dot is in the same block.
            tab_axis: The name of the first axis, where there are tabs.
        """
        axes = (*[tab_axis] * bool(tabs), side.length, *([] if width is None else [width]))
        values = self.recording[name] if values is None else values
        block = name.rpartition(".")[0]
        inputs = tuple(block + origin if origin.startswith(".") else origin for origin in inputs)
        step = Step(name, self.group, title, text, axes, values, inputs=inputs, rows=side.pieces, tabs=tabs, **more)
        self.steps.append(step)

    def encoder(self, ids: np.ndarray) -> None:
        """Adds the steps that read the source."""
        self.group = "source"
        self.add(
            "source.pieces",
            "The source in pieces",
            "The tokenizer cuts the sentence into pieces of its vocabulary, each of which has a number, its id; "
            f"{self.source.pieces[-1]} marks the end.",
            self.source,
            None,
            values=ids,
        )
        self.stack("encoder", self.model.get_encoder(), "source.pieces", self.source)
        self.memory = self.state

    def decoder(self, ids: np.ndarray) -> None:
        """Adds the steps that read what has been written so far; `ids` are those of BEGIN and of all pieces."""
        self.group = "target so far"
        self.add(
            "target.pieces",
            "What the decoder reads",
            f"{BEGIN} (here the id {ids[0]}), then each piece as soon as it is written. Each row is one step of the "
            "loop: it sees the rows above it and none below, so one pass over all rows gives the numbers of every "
            "step; with a cache the loop computes only its new row, with the same numbers.",
            self.target,
            None,
            values=ids[:-1],
        )
        self.stack("decoder", self.model.get_decoder(), "target.pieces", self.target)

    def stack(self, name: str, stack: Any, ids: str, side: Side) -> None:
        """Adds embedding, positions and layers of an encoder or a decoder; `ids` is the step that has its ids."""
        self.add(
            f"{name}.embedding",
            "Embedding",
            f"Each id picks its row of the embedding matrix, which has {self.config.vocab_size} rows of "
            f"d_model = {self.config.d_model} learned numbers.",
            side,
            formula="E[id]",
            inputs=[ids],
        )
        self.positions(f"{name}.positions", side)
        is_added = self.config.position_embedding_type != "rotary"
        is_scaled = self.config.scale_embedding
        self.add(
            f"{name}.input",
            "What the first layer reads",
            "The embedding"
            + (f", times √d_model = {stack.embed_scale:.4f}" if is_scaled else "")
            + (", plus the position, number by number." if is_added else "."),
            side,
            formula=f"x = {'√d_model · ' if is_scaled else ''}E[id]{' + position' if is_added else ''}",
            inputs=[".embedding", *[".positions"] * is_added],
        )
        self.state = f"{name}.input"
        for index in range(len(stack.layers)):
            self.group = f"{name} layer {index}"
            self.attention(f"{name}.{index}.self_attn", name, index)
            if name == "decoder":
                self.attention(f"{name}.{index}.cross_attn", "cross", index)
            self.feed_forward(f"{name}.{index}.ffn", side)
        if f"{name}.norm" in self.recording:
            self.group = f"{name} output"
            self.norm(f"{name}.norm", "Last LayerNorm", side)

    def positions(self, name: str, side: Side) -> None:
        """Adds the positions, whichever the model has."""
        kind = self.config.position_embedding_type
        if kind == "rotary":
            self.add(
                name,
                "Positions, as angles",
                "Rotary positions are not added to anything: they say by which angle each pair of numbers of a query "
                "or key is turned in every self-attention. These are the cosines and sines of the angles.",
                side,
                "head_dim",
                formula=f"angle = position · {self.config.rope_theta:g}^(−2i / head_dim)",
                tabs=("cosine", "sine"),
                tab_axis="cosine and sine",
            )
            return
        text = "Attention alone does not know the order of the pieces, so each place has a vector of its own, "
        if kind == "sinusoidal":
            text += "fixed: sines in the first half, cosines in the second, of ever slower waves."
            formula = "sin(p / 10000^(2i / d_model)), cos(p / 10000^(2i / d_model))"
        else:
            text += "learned as the embedding is."
            formula = "P[place]"
        self.add(name, f"Positions, {'fixed' if kind == 'sinusoidal' else kind}", text, side, formula=formula)

    def norm(self, name: str, title: str, side: Side) -> None:
        """Adds a LayerNorm of the present state."""
        self.add(
            name,
            title,
            "Each row is brought to mean 0 and variance 1, then stretched by γ and moved by β, both learned: so "
            "numbers stay of one size however many layers there are.",
            side,
            formula="γ · (x − mean) / √(variance + ε) + β",
            inputs=[self.state],
        )
        self.state = name

    def residual(self, block: str, before: str, output: str, side: Side) -> None:
        """Adds the sum of what a block was given and what it gave and, post-norm, its LayerNorm."""
        is_first = self.config.normalize_before
        self.add(
            f"{block}.residual",
            "Residual sum",
            "What came in is added to what came out: the block only has to find what is to be changed.",
            side,
            formula="x + block(LayerNorm(x))" if is_first else "x + block(x)",
            inputs=[before, output],
        )
        self.state = f"{block}.residual"
        if not is_first:
            self.norm(f"{block}.norm", "LayerNorm", side)

    def attention(self, block: str, kind: str, layer: int) -> None:
        """Adds the steps of one attention block.

        Args:
            block: The beginning of its steps' names.
            kind: `encoder`, `decoder` or `cross`.
            layer: Its number, from 0.
        """
        is_cross = kind == "cross"
        where = {"encoder": "Self-attention", "decoder": "Causal self-attention", "cross": "Cross-attention"}[kind]
        queries = self.source if kind == "encoder" else self.target
        keys = self.source if is_cross else queries
        count, _, head_dim = self.recording[f"{block}.q_heads"].shape
        kept = (getattr(self.config, "kept_heads", None) or {}).get(kind)  # where heads were removed
        heads = [f"head {head}" for head in (kept[layer] if kept else range(count))]
        width = "d_model" if count * head_dim == self.config.d_model else "heads * head_dim"
        split = f"heads {count}, length, head_dim {head_dim}"
        matrix: dict[str, Any] = {"side": queries, "width": keys.length, "columns": keys.pieces, "tabs": heads}

        def add(stage: str, title: str, text: str, *axes: Any, **more: Any) -> None:
            self.add(f"{block}.{stage}", f"{where}: {title}", text, *axes, **more)

        before = self.state
        if self.config.normalize_before:
            self.norm(f"{block}.norm", f"{where}: LayerNorm first", queries)
        asking = self.state
        looked_at = self.memory if is_cross else asking
        roles = {
            "q": ("queries", "what each piece is looking for", queries, asking),
            "k": ("keys", "what each piece has to offer to a query", keys, looked_at),
            "v": ("values", "what each piece hands over when it is looked at", keys, looked_at),
        }
        for letter, (role, meaning, side, origin) in roles.items():
            big = letter.upper()
            text = f"A linear layer gives {meaning}."
            if is_cross:
                text += " From the decoder." if letter == "q" else " From the encoder's output."
            add(letter, f"{big}, the {role}", text, side, width, formula=f"x W_{big}ᵀ + b_{big}", inputs=[origin])
        is_turned = self.config.position_embedding_type == "rotary" and not is_cross
        for letter, (role, _, side, _) in roles.items():
            flat = self.recording[f"{block}.{letter}"]
            add(
                f"{letter}_heads",
                f"{letter.upper()} split into heads",
                f"The same numbers, seen otherwise: each head takes its own {head_dim} channels of the {role}, and "
                "works with them alone.",
                side,
                "head_dim",
                values=flat.reshape(len(flat), count, head_dim).transpose(1, 0, 2),
                formula=f"(length, {width}) → ({split})",
                inputs=[f".{letter}"],
                tabs=heads,
            )
        for letter in "qk" if is_turned else "":
            add(
                f"{letter}_turned",
                f"{letter.upper()} turned by its positions",
                "Each pair of numbers (i, i + head_dim / 2) is turned by its angle: the product of a query and a key "
                "then depends on how far apart they are.",
                queries,
                "head_dim",
                values=self.recording[f"{block}.{letter}_heads"],  # as the attention function got them
                formula="(a, b) → (a cos − b sin, b cos + a sin)",
                inputs=[f".{letter}_heads", f"{kind}.positions"],
                tabs=heads,
            )
        add(
            "scores",
            "Q·K, the scores",
            "Each query is multiplied with each key, number by number, and summed: the better they fit, the higher. A "
            "row is the piece that looks, a column the piece that is looked at.",
            formula="Q Kᵀ",
            inputs=[".q_turned", ".k_turned"] if is_turned else [".q_heads", ".k_heads"],
            **matrix,
        )
        add(
            "scaled",
            "scaled",
            f"Divided by the square root of the query size, √{head_dim} = {head_dim**0.5:.4f}: sums of more products "
            "are larger, and softmax would give all to one key.",
            formula="Q Kᵀ / √head_dim",
            inputs=[".scores"],
            **matrix,
        )
        text = "0 where a piece may be looked at; elsewhere so low a number that softmax makes it 0. "
        if kind == "decoder":
            text += "Causal: a row sees itself and the rows above it, because what comes later is not yet written."
        else:
            text += "It hides the padding of short sentences in a batch; a sentence alone has none."
        add("mask", "the mask", text, **{**matrix, "tabs": ()})
        add(
            "masked",
            "scores with the mask",
            "The mask is added, the same for every head.",
            formula="Q Kᵀ / √head_dim + mask",
            inputs=[".scaled", ".mask"],
            **matrix,
        )
        add(
            "weights",
            "softmax, the weights",
            "Softmax makes each row a distribution: no weight is negative, and a row sums to 1.",
            formula="softmax(s) = e^s / (sum of e^s over the row)",
            inputs=[".masked"],
            sums_to_one=True,
            **matrix,
        )
        add(
            "context",
            "weights times V",
            "Each row is the mean of the values, weighted: what the head takes along from where it looks.",
            queries,
            "head_dim",
            formula="softmax(Q Kᵀ / √head_dim + mask) V",
            inputs=[".weights", ".v_heads"],
            tabs=heads,
        )
        add(
            "merged",
            "heads merged",
            "The heads' results are laid side by side again.",
            queries,
            width,
            formula=f"({split}) → (length, {width})",
            inputs=[".context"],
        )
        add(
            "output",
            "output projection",
            "One more linear layer mixes what the heads found.",
            queries,
            formula="merged W_Oᵀ + b_O",
            inputs=[".merged"],
        )
        self.residual(block, before, ".output", queries)

    def feed_forward(self, block: str, side: Side) -> None:
        """Adds the steps of one feed-forward block."""
        before = self.state
        if self.config.normalize_before:
            self.norm(f"{block}.norm", "Feed-forward: LayerNorm first", side)
        self.add(
            f"{block}.fc1",
            "Feed-forward: first linear layer",
            "Each row alone, whatever the others hold, goes through a linear layer to a wider one.",
            side,
            "ffn_dim",
            formula="x W_1ᵀ + b_1",
            inputs=[self.state],
        )
        activation = self.config.activation_function
        is_relu = activation == "relu"
        self.add(
            f"{block}.activation",
            f"Feed-forward: {activation}",
            "What is below zero becomes zero." if is_relu else f"The non-linearity {activation}.",
            side,
            "ffn_dim",
            formula="max(0, x)" if is_relu else f"{activation}(x)",
            inputs=[".fc1"],
        )
        self.add(
            f"{block}.fc2",
            "Feed-forward: second linear layer",
            "A second linear layer brings it back to the model's width.",
            side,
            formula="x W_2ᵀ + b_2",
            inputs=[".activation"],
        )
        self.residual(block, before, ".fc2", side)

    def decoding(self, ids: np.ndarray, vocabulary: list[str], translation: str, is_given: bool) -> None:
        """Adds the steps from the decoder's last states to the text; `ids` are those of the pieces written."""
        self.group = "decoding"
        self.add(
            "decoding.logits",
            "Logits: a score for each piece",
            f"Each row is multiplied with the output vector of each of the {len(vocabulary)} pieces: how well would "
            f"it come next? The logit of {vocabulary[self.config.pad_token_id]}, which is never written, is always 0.",
            self.target,
            "vocab",
            formula="x Wᵀ",
            inputs=[self.state],
            columns=vocabulary,
        )
        self.add(
            "decoding.probs",
            "Probabilities",
            "Softmax over the vocabulary: each row is a distribution over the pieces that may come next.",
            self.target,
            "vocab",
            formula="softmax(logits)",
            inputs=[".logits"],
            columns=vocabulary,
            sums_to_one=True,
        )
        for index in range(len(ids)):
            self.choice(index, ids, vocabulary, is_given)
        self.add(
            "decoding.text",
            "The text",
            f"The pieces, without the special ones, put together: {translation}",
            Side("target_len", [vocabulary[piece] for piece in ids]),
            None,
            values=ids,
            inputs=[f".{index}" for index in range(len(ids))],
        )

    def choice(self, index: int, ids: np.ndarray, vocabulary: list[str], is_given: bool) -> None:
        """Adds the step that writes piece `index` of `ids`: the likeliest ones, and the one that was taken."""
        logits, probs = self.recording["decoding.logits"][index], self.recording["decoding.probs"][index]
        chosen = ids[index]
        candidates = list(np.argsort(-logits, kind="stable")[:TOP])
        if chosen not in candidates:
            candidates.append(chosen)
        piece, prob = vocabulary[chosen], probs[chosen]
        rank = 1 + int((logits > logits[chosen]).sum())
        read = " ".join(self.target.pieces[max(0, index - 5) : index + 1])
        text = f"Having read {'... ' if index > 5 else ''}{read}: "
        if is_given:
            text += f"the given translation goes on with {piece}, rank {rank} with probability {prob:.3g}."
        elif rank == 1:
            text += f"{piece} is taken, the likeliest, with probability {prob:.3g}."
        else:
            text += f"{piece} is taken, with probability {prob:.3g}; the generation config rules out the {rank - 1} "
            text += "that are likelier."
        if index + 1 < len(ids):
            text += " It is fed back: the decoder reads it in the next step."
        elif chosen in np.atleast_1d(self.model.generation_config.eos_token_id):
            text += " It means END: the loop stops."
        else:
            text += " The length limit stops the loop here, before END."
        self.add(
            f"decoding.{index}",
            f"Piece {index}: {piece}",
            text,
            Side("candidates", [vocabulary[candidate] for candidate in candidates]),
            "logit and probability",
            values=np.stack([logits[candidates], probs[candidates]], axis=-1),
            inputs=[".probs", *[f".{index - 1}"] * (index > 0)],
            columns=("logit", "probability"),
            chosen=candidates.index(chosen),
        )
