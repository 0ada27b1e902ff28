"""One process, accumulation, two and four processes give the weights that plain torch, written out here, gives."""

import json
import math

import numpy as np
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from torch.nn import functional
from training_runs import Run, log_of
from transformers import AutoTokenizer

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, grammar
from tinyseq.batching.encoding import encode_pairs
from tinyseq.batching.stream import token_budget_batches

ENCODER_HEADS, DECODER_HEADS, WIDTH, UPDATES, WARMUP = 2, 4, 16, 5, 2
RATE, SMOOTHING, DECAY, BETA2, MAX_NORM = 2e-3, 0.1, 0.3, 0.98, 0.5
OPTIONS = {
    "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20,
    "encoder_attention_heads": ENCODER_HEADS, "decoder_attention_heads": DECODER_HEADS,
    "position_embedding_type": "learned", "max_position_embeddings": 128, "vocab_size": 300, "dropout": 0,
    "learning_rate": RATE, "label_smoothing": SMOOTHING, "weight_decay": DECAY, "adam_beta2": BETA2,
    "max_grad_norm": MAX_NORM, "max_steps": UPDATES, "eval_pairs": 2, "num_beams": 1, "seed": 3,
}  # fmt: skip


def train(folder, corpus, processes, *options):
    """Runs train.py on so many processes, and returns the weights at the end and the log."""
    arguments = ["--train", corpus / "train.tsv", "--valid", corpus / "valid.tsv", "--output_dir", folder, *options]
    arguments += [part for name, value in OPTIONS.items() for part in (f"--{name}", value)]
    run = Run.forked(arguments, folder.with_name("out"), processes)
    assert run.end() == [0] * processes, run.text
    assert f"on {processes} process" in run.text
    updates = [line for line in log_of(folder) if "learning_rate" in line]
    return load_file(folder / "last" / "model.safetensors"), updates


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Pairs of very unequal length. They fit in one batch of 8,192 positions."""
    folder = tmp_path_factory.mktemp("corpus")
    pairs = sorted(grammar.generate("train", 300), key=lambda pair: len(pair.target))
    chosen = [*pairs[:20], *pairs[140:160], *pairs[-40:]]
    for name, part in (("train", chosen), ("valid", pairs[60:64])):
        (folder / f"{name}.tsv").write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in part))
    return folder


@pytest.fixture(scope="module")
def big_batch(corpus, tmp_path_factory):
    """Weights after five updates of one batch each: the whole corpus."""
    folder = tmp_path_factory.mktemp("runs") / "big"
    return folder, *train(folder, corpus, 1, "--batch_size_tokens", 8192, "--log_steps", 1)


def attention(weights, name, queries, keys, heads, is_masked):
    """Multi-head attention, Vaswani et al. 2017, section 3.2. `is_masked`: (batch, 1, target_len, source_len)."""

    def project(part, states):
        return functional.linear(states, weights[f"{name}.{part}.weight"], weights[f"{name}.{part}.bias"])

    def split(states):
        return states.view(*states.shape[:2], heads, -1).transpose(1, 2)

    query, key, value = (
        split(project(part, states)) for part, states in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys))
    )
    scores = query @ key.transpose(2, 3) / math.sqrt(WIDTH / heads)
    mixed = scores.masked_fill(is_masked, -math.inf).softmax(-1) @ value
    return project("out_proj", mixed.transpose(1, 2).flatten(2))


def norm(weights, name, states):
    return functional.layer_norm(states, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"])


def feed_forward(weights, layer, states):
    inner = functional.linear(states, weights[f"{layer}.fc1.weight"], weights[f"{layer}.fc1.bias"]).relu()
    outer = functional.linear(inner, weights[f"{layer}.fc2.weight"], weights[f"{layer}.fc2.bias"])
    return norm(weights, f"{layer}.final_layer_norm", states + outer)


def summed_loss(weights, sources, targets, begin):
    """Label-smoothed cross-entropy, summed over all target tokens, of one pair at a time: there is no padding here."""
    total = 0.0
    for source, target in zip(sources, targets, strict=True):
        is_pad = torch.arange(len(weights["model.shared.weight"])) == begin  # its row stays at zero
        table = weights["model.shared.weight"].masked_fill(is_pad.unsqueeze(-1), 0)
        source, target = torch.tensor([source]), torch.tensor([target])
        inputs = torch.cat([torch.tensor([[begin]]), target[:, :-1]], dim=1)
        sides = []
        for side, ids in (("encoder", source), ("decoder", inputs)):
            positions = weights[f"model.{side}.embed_positions.weight"][: ids.shape[1]]
            sides.append(table[ids] * math.sqrt(WIDTH) + positions)
        encoded, decoded = sides
        nothing = torch.zeros(1, 1, 1, 1, dtype=torch.bool)
        for number in range(2):
            layer = f"model.encoder.layers.{number}"
            attended = attention(weights, f"{layer}.self_attn", encoded, encoded, ENCODER_HEADS, nothing)
            encoded = norm(weights, f"{layer}.self_attn_layer_norm", encoded + attended)
            encoded = feed_forward(weights, layer, encoded)
        layer = "model.decoder.layers.0"
        future = torch.ones(inputs.shape[1], inputs.shape[1]).triu(1).bool()
        attended = attention(weights, f"{layer}.self_attn", decoded, decoded, DECODER_HEADS, future)
        decoded = norm(weights, f"{layer}.self_attn_layer_norm", decoded + attended)
        attended = attention(weights, f"{layer}.encoder_attn", decoded, encoded, DECODER_HEADS, nothing)
        decoded = norm(weights, f"{layer}.encoder_attn_layer_norm", decoded + attended)
        log_probs = (feed_forward(weights, layer, decoded) @ table.T).log_softmax(-1)[0]
        right = log_probs[range(len(log_probs)), target[0]]
        total = total - (1 - SMOOTHING) * right.sum() - SMOOTHING * log_probs.mean(-1).sum()
    return total


def trained_by_hand(weights, sources, targets, begin):
    """Five updates of AdamW (Loshchilov and Hutter 2019, algorithm 2) on the mean over all target tokens."""
    weights = {name: tensor.double().requires_grad_() for name, tensor in weights.items()}
    first = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    second = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    losses = []
    for update in range(1, UPDATES + 1):
        loss = summed_loss(weights, sources, targets, begin) / sum(map(len, targets))
        losses.append(loss.item())
        gradients = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
        length = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients.values()))
        rate = RATE * (UPDATES - update + 1) / UPDATES  # no warm-up: a tenth of five updates
        for name, weight in weights.items():
            if name.endswith("k_proj.bias"):
                continue  # it changes no attention weight
            gradient = gradients[name] * min(1, MAX_NORM / (length + 1e-6))
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = BETA2 * second[name] + (1 - BETA2) * gradient**2
            step = first[name] / (1 - 0.9**update) / ((second[name] / (1 - BETA2**update)).sqrt() + 1e-9)
            decay = DECAY * weight.detach() if weight.dim() > 1 else 0
            weights[name] = (weight.detach() - rate * (step + decay)).requires_grad_()
    return weights, losses


def test_five_updates_are_those_of_hand_written_torch(big_batch, corpus):
    folder, weights, lines = big_batch
    torch.manual_seed(3)
    model = TinySeqForConditionalGeneration(TinySeqConfig.from_pretrained(folder / "last"))
    tokenizer = AutoTokenizer.from_pretrained(folder / "last")
    pairs = [line.split("\t") for line in (corpus / "train.tsv").read_text().splitlines()]
    sources, targets = ([tokenizer(text).input_ids for text in side] for side in zip(*pairs, strict=True))
    assert max(map(len, targets)) > 3 * min(map(len, targets))
    start = {name: tensor for name, tensor in model.named_parameters()}
    expected, losses = trained_by_hand(start, sources, targets, tokenizer.pad_token_id)
    for name, weight in expected.items():
        torch.testing.assert_close(weights[name].double(), weight.detach(), rtol=0, atol=1e-6, msg=name)
    assert [line["loss_per_target_token"] for line in lines] == pytest.approx(losses, rel=1e-6)
    moved = max((weights[name] - start[name]).abs().max().item() for name in expected)
    assert moved > 1000 * 1e-6  # what the bound is to be seen against


def budget_of_four(folder, corpus):
    """Returns a number of positions with which the corpus makes four batches in each of the first epochs."""
    pairs = [line.split("\t") for line in (corpus / "train.tsv").read_text().splitlines()]
    data = Dataset.from_dict(dict(zip(("source", "target"), map(list, zip(*pairs, strict=True)), strict=True)))
    encoded = encode_pairs(data, AutoTokenizer.from_pretrained(folder / "last"), 128)
    for budget in range(128, 4000, 32):
        if {len(token_budget_batches(encoded, budget, 3, block)) for block in range(UPDATES)} == {4}:
            return budget
    raise AssertionError("no budget makes four batches")


@pytest.mark.parametrize(("processes", "accumulation"), [(1, 4), (2, 2), (4, 1)])
def test_micro_batches_and_processes_give_the_weights_of_one_big_batch(
    big_batch, corpus, tmp_path, processes, accumulation
):
    folder, big, big_lines = big_batch
    weights, lines = train(
        tmp_path / "run", corpus, processes, "--batch_size_tokens", budget_of_four(folder, corpus),
        "--gradient_accumulation_steps", accumulation, "--log_steps", 1, "--log_batches",
        "--tokenizer", folder / "last",
    )  # fmt: skip
    logs = [(tmp_path / "run" / f"batches-{rank}.jsonl").read_text().splitlines() for rank in range(processes)]
    pairs = len((corpus / "train.tsv").read_text().splitlines())
    for update in range(UPDATES):  # each is the whole corpus, in four parts
        rows = [batch for log in logs for batch in json.loads(log[update])["rows"]]
        assert len(rows) == 4
        assert sorted(row for batch in rows for row in batch) == list(range(pairs))
        assert np.ptp([len(batch) for batch in rows]) > 0
    for name in big:
        torch.testing.assert_close(weights[name], big[name], rtol=0, atol=1e-6, msg=name)
    for line, big_line in zip(lines, big_lines, strict=True):
        assert line["loss_per_target_token"] == pytest.approx(big_line["loss_per_target_token"], rel=1e-6)
        assert line["learning_rate"] == big_line["learning_rate"]
