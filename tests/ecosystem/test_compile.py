"""`torch.compile` and `torch.export`: one graph, few compilations whatever the lengths, the same numbers.

A backend that only counts stands in for a real compiler: what is counted is how often the graph was made anew.
"""

import pytest
import torch
from small_models import KINDS, LABELS, PAD, SOURCE, SOURCE_MASK, TARGET, every_kind, logits_of, random_model
from transformers import CompileConfig

LENGTHS = [(7 + step, 5 + 3 * step % 13) for step in range(20)]  # of the source and of the target


# Compiling takes seconds: two of the four kinds on every push
OFTEN = {"post-norm sinusoidal", "pre-norm rotary"}
some_kinds = pytest.mark.parametrize(
    "kind", [kind if kind in OFTEN else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)


class CountingBackend:
    """Runs a graph as it is. The count is the class's, because `generate` copies its settings."""

    compilations = 0

    def __call__(self, graph, example_inputs):
        CountingBackend.compilations += 1
        return graph.forward


@pytest.fixture
def backend():
    torch._dynamo.reset()
    CountingBackend.compilations = 0
    yield CountingBackend()
    torch._dynamo.reset()


def batch_of(source_len, target_len):
    """Two sentences, the second with half as many pieces and padding."""
    source, labels = torch.randint(1, PAD, (2, source_len)), torch.randint(1, PAD, (2, target_len))
    source[1, source_len // 2 :] = PAD
    labels[1, target_len // 2 :] = -100
    return {"input_ids": source, "attention_mask": source.ne(PAD).long(), "labels": labels}


@some_kinds
@pytest.mark.parametrize(
    "dynamic, most", [(None, 2), pytest.param(True, 1, marks=pytest.mark.slow)]
)  # None: fixed sizes first, then any
def test_twenty_lengths_need_no_more_than_two_compilations_and_give_the_same_logits(kind, dynamic, most, backend):
    model = random_model(**KINDS[kind])
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=dynamic)
    for lengths in LENGTHS:
        batch = batch_of(*lengths)
        with torch.no_grad():
            torch.testing.assert_close(compiled(**batch).logits, model(**batch).logits, atol=1e-5, rtol=0)
    assert CountingBackend.compilations <= most


@pytest.mark.parametrize("arguments", [{}, {"return_logits": False, "label_smoothing": 0.1}], ids=str)
def test_training_steps_of_twenty_lengths_need_no_more_than_two_compilations(arguments, backend):
    """With dropout on: its own autograd function must not break the graph."""
    model = random_model(dropout=0.2, activation_dropout=0.1, attention_dropout=0.1).train()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for lengths in LENGTHS:
        batch = batch_of(*lengths)
        losses = [compiled(**batch, **arguments).loss for _ in range(2)]
        assert losses[0] != losses[1]  # dropout acts in the graph too
        losses[0].backward()
    assert CountingBackend.compilations <= 2


@pytest.mark.parametrize("return_logits", [True, False])
def test_compiled_training_gives_the_same_loss_and_gradients(return_logits, backend):
    model = random_model(dropout=0.0).train()
    found = []
    for forward in (model, torch.compile(model, backend=backend, fullgraph=True)):
        model.zero_grad()
        output = forward(SOURCE, labels=LABELS, return_logits=return_logits)
        output.loss.backward()
        assert (output.logits is None) is not return_logits
        found.append([output.loss.detach(), *[weight.grad.clone() for weight in model.parameters()]])
    for plain, compiled in zip(*found, strict=True):
        torch.testing.assert_close(compiled, plain, atol=1e-5, rtol=1e-5)


@some_kinds
def test_decoding_with_a_static_cache_compiles_no_more_than_twice_for_ten_source_lengths(kind, backend):
    """Every step of every search is one graph: the first has fixed sizes, the second fits every source."""
    model = random_model(**KINDS[kind], eos_token_id=None)
    settings = CompileConfig(backend=backend, fullgraph=True, mode=None)
    settings._compile_all_devices = True  # else only on accelerators
    for source_len in range(7, 17):
        inputs = {name: batch_of(source_len, 5)[name] for name in ("input_ids", "attention_mask")}
        found = model.generate(**inputs, max_length=21, cache_implementation="static", compile_config=settings)
        assert found.tolist() == model.generate(**inputs, max_length=21).tolist()
    assert 1 <= CountingBackend.compilations <= 2


@pytest.mark.slow
def test_a_compiled_model_gives_all_its_outputs(backend):
    """In more than one graph: Transformers records attentions under a lock, which the compiler steps around."""
    model = random_model()
    model.set_attn_implementation("eager")
    arguments = dict(decoder_input_ids=TARGET, output_attentions=True, output_hidden_states=True)
    expected = model(SOURCE, **arguments)
    found = torch.compile(model, backend=backend)(SOURCE, **arguments)
    for name in ("encoder_attentions", "decoder_attentions", "cross_attentions", "decoder_hidden_states"):
        for one, other in zip(found[name], expected[name], strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


@some_kinds
def test_an_exported_program_gives_the_same_logits(kind):
    model = random_model(**KINDS[kind])
    inputs = {"input_ids": SOURCE, "attention_mask": SOURCE_MASK, "decoder_input_ids": TARGET, "use_cache": False}
    program = torch.export.export(model, (), kwargs=inputs, strict=False)
    torch.testing.assert_close(program.module()(**inputs).logits, logits_of(model), atol=1e-5, rtol=0)


@pytest.mark.slow
@every_kind
def test_transformers_exporter_makes_a_program_for_other_shapes_too(kind):
    from transformers.exporters import DynamoConfig, DynamoExporter

    model = random_model(**KINDS[kind])
    inputs = {"input_ids": SOURCE, "attention_mask": SOURCE_MASK, "decoder_input_ids": TARGET}
    program = DynamoExporter().export(model, inputs, DynamoConfig(dynamic=True))
    batch = batch_of(source_len=9, target_len=6)
    batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(batch.pop("labels"))
    torch.testing.assert_close(program(**batch)["logits"], model(**batch).logits, atol=1e-5, rtol=0)
