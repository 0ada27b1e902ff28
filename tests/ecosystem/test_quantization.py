"""Models loaded with 8-bit weights on a CPU: they write the same, are smaller on disk, and load again as they are."""

import pytest
import torch
from small_models import KINDS, SOURCE, TAUGHT, every_kind, logits_of, taught_model, written
from transformers import AutoModelForSeq2SeqLM, TorchAoConfig


@every_kind
@pytest.mark.parametrize("name", ["Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"])
def test_a_model_loaded_by_torchao_in_8_bits_writes_the_same_and_can_be_saved_and_loaded(name, kind, tmp_path):
    quantization = pytest.importorskip(
        "torchao.quantization", reason="needs torchao: pip install -c constraints.txt torchao"
    )
    model = taught_model(**KINDS[kind])
    model.save_pretrained(tmp_path / "whole")
    settings = TorchAoConfig(getattr(quantization, name)())
    quantized = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "whole", quantization_config=settings)
    layer = quantized.get_decoder().layers[1]
    assert type(layer.encoder_attn.q_proj.weight) is not torch.nn.Parameter
    quantized.save_pretrained(tmp_path / "small")
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "small")
    sizes = [(tmp_path / folder / "model.safetensors").stat().st_size for folder in ("whole", "small")]
    assert sizes[1] < sizes[0]
    for loaded in (quantized, again):
        assert 0 < (logits_of(loaded) - logits_of(model)).abs().max() < 0.5  # of logits up to 10
        for num_beams in (1, 4):
            assert written(loaded.generate(SOURCE, num_beams=num_beams)) == TAUGHT
    assert torch.equal(logits_of(again), logits_of(quantized))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_model_whose_output_projection_is_a_module_without_a_weight_tensor_writes_the_same():
    """As PyTorch's own dynamic quantisation makes it."""
    model = torch.ao.quantization.quantize_dynamic(taught_model(), {torch.nn.Linear}, dtype=torch.qint8)
    assert not isinstance(model.lm_head.weight, torch.Tensor)
    assert written(model.generate(SOURCE, num_beams=4)) == TAUGHT


def test_a_model_loaded_by_quanto_in_8_bits_writes_the_same(tmp_path):
    pytest.importorskip("optimum.quanto", reason="needs quanto: pip install optimum-quanto")
    from transformers import QuantoConfig

    taught_model().save_pretrained(tmp_path)
    quantized = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, quantization_config=QuantoConfig(weights="int8"))
    assert type(quantized.get_decoder().layers[1].fc1.weight) is not torch.nn.Parameter
    assert written(quantized.generate(SOURCE, num_beams=4)) == TAUGHT
