"""Where the weights lie and in which type: device maps, weights on disk, half precision.

The CPU is the only device here, so that the second one is the disk. What must stay right are the tied weights, which
lie in the file once, and the position table, which does not lie in it at all.
"""

import accelerate
import pytest
import torch
from packaging.version import Version
from small_models import (
    KINDS,
    PAD,
    SOURCE,
    SOURCE_MASK,
    TAUGHT,
    every_kind,
    logits_of,
    random_model,
    taught_model,
    written,
)
from transformers import AutoModelForSeq2SeqLM


def assert_same(loaded, model):
    assert torch.equal(logits_of(loaded), logits_of(model))
    arguments = dict(attention_mask=SOURCE_MASK, max_length=9, num_beams=3)
    assert torch.equal(loaded.generate(SOURCE, **arguments), model.generate(SOURCE, **arguments))


@every_kind
@pytest.mark.parametrize("device_map", ["auto", "cpu", {"": "cpu"}], ids=str)
def test_a_model_loaded_by_device_map_is_the_same_and_tied(device_map, kind, tmp_path):
    model = random_model(**KINDS[kind])
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, device_map=device_map)
    assert_same(loaded, model)
    assert (loaded.lm_head.weight is loaded.get_input_embeddings().weight) is (kind != "untied")


@every_kind
@pytest.mark.parametrize("share", [0.75, 0.5, 0.3, 0.0])  # of the model that may stay in memory
def test_a_model_of_which_a_part_lies_on_disk_is_the_same(share, kind, tmp_path):
    if share == 0 and Version(accelerate.__version__) < Version("1.15"):
        pytest.skip("this Accelerate refuses to put all of a model on the disk; 1.15 does it")
    model = random_model(**KINDS[kind])
    model.save_pretrained(tmp_path / "model")
    memory = {"cpu": int(share * 4 * sum(weight.numel() for weight in model.parameters()))}
    loaded = AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path / "model", device_map="auto", max_memory=memory, offload_folder=tmp_path / "disk"
    )
    assert "disk" in loaded.hf_device_map.values()
    assert ("cpu" in loaded.hf_device_map.values()) is (share > 0)
    assert_same(loaded, model)


@every_kind
@pytest.mark.parametrize("offload", [accelerate.cpu_offload, accelerate.disk_offload])
def test_accelerate_takes_the_weights_away_and_brings_them_for_each_layer(offload, kind, tmp_path):
    model = random_model(**KINDS[kind])
    model.save_pretrained(tmp_path / "model")
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model")
    where = {"offload_dir": tmp_path / "disk"} if offload is accelerate.disk_offload else {}
    offload(loaded, execution_device=torch.device("cpu"), **where)
    assert_same(loaded, model)
    assert loaded.get_encoder().layers[0].fc1.weight.device.type == "meta"


@every_kind
def test_accelerate_fills_an_empty_model_from_the_saved_file(kind, tmp_path):
    model = random_model(**KINDS[kind])
    model.save_pretrained(tmp_path)
    with accelerate.init_empty_weights():
        empty = type(model)(model.config)
    assert empty.lm_head.weight.device.type == "meta"
    empty.tie_weights()
    assert_same(accelerate.load_checkpoint_and_dispatch(empty, tmp_path, device_map={"": "cpu"}).eval(), model)


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_a_model_writes_what_it_was_taught(dtype, implementation, num_beams, tmp_path):
    taught_model().save_pretrained(tmp_path)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=dtype, attn_implementation=implementation)
    assert {weight.dtype for weight in model.parameters()} == {dtype}
    for cache in ({}, {"cache_implementation": "static"}, {"use_cache": False}):
        assert written(model.generate(SOURCE, num_beams=num_beams, **cache)) == TAUGHT
    source = torch.nn.functional.pad(SOURCE, (3, 0), value=PAD)  # and with padding on the left
    assert written(model.generate(source, num_beams=num_beams)) == TAUGHT
