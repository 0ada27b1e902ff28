"""PEFT's LoRA on the attention projections: only the adapters learn, they come back, and merged they are the model."""

import pytest
import torch
from small_models import KINDS, LABELS, SOURCE, SOURCE_MASK, every_kind, logits_of, random_model
from transformers import AutoModelForSeq2SeqLM

peft = pytest.importorskip("peft", reason="adapters need PEFT: pip install 'tinyseq[lora]'")

PROJECTIONS = ["q_proj", "k_proj", "v_proj", "out_proj"]


def adapted_model(folder, targets=PROJECTIONS, **changes):
    """A random model, saved in `folder`, with an adapter on top that has not learned anything yet."""
    random_model(**changes).save_pretrained(folder)
    base = AutoModelForSeq2SeqLM.from_pretrained(folder)
    return peft.get_peft_model(base, peft.LoraConfig(task_type="SEQ_2_SEQ_LM", r=5, target_modules=targets))


def learn(model, steps, **arguments):
    optimizer = torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad], lr=2e-2)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        model(input_ids=SOURCE, attention_mask=SOURCE_MASK, labels=LABELS, **arguments).loss.backward()
        optimizer.step()
    return model.eval()


def ids_of(model) -> list[list[int]]:
    return model.generate(input_ids=SOURCE, attention_mask=SOURCE_MASK, num_beams=3, max_length=9).tolist()


@every_kind
def test_only_the_adapters_of_every_attention_projection_learn(kind, tmp_path):
    model = adapted_model(tmp_path, **KINDS[kind])
    base = logits_of(model)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    learn(model, steps=2)  # the first step changes only B, which starts at zero
    changed = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    attentions = [f"encoder.layers.{layer}.self_attn" for layer in range(3)]
    attentions += [f"decoder.layers.{layer}.{which}" for layer in range(2) for which in ("self_attn", "encoder_attn")]
    assert changed == {
        f"base_model.model.model.{attention}.{projection}.lora_{matrix}.default.weight"
        for attention in attentions
        for projection in PROJECTIONS
        for matrix in "AB"
    }
    assert model.get_nb_trainable_parameters()[0] == 7 * 4 * 5 * (24 + 24)
    with model.disable_adapter():
        assert torch.equal(logits_of(model), base)
    assert not torch.equal(logits_of(model), base)


@every_kind
def test_an_adapter_comes_back_by_every_loader_and_merged_it_is_a_plain_model(kind, tmp_path):
    base, adapter, merged = (tmp_path / name for name in ("base", "adapter", "merged"))
    model = adapted_model(base, dropout=0.0, **KINDS[kind])
    unadapted = ids_of(model)
    learn(model, steps=30)
    expected, expected_ids = logits_of(model), ids_of(model)
    assert expected_ids != unadapted
    model.save_pretrained(adapter)
    assert (adapter / "adapter_model.safetensors").stat().st_size < (base / "model.safetensors").stat().st_size

    on_top = AutoModelForSeq2SeqLM.from_pretrained(base)
    on_top.load_adapter(str(adapter))
    again = peft.PeftModel.from_pretrained(AutoModelForSeq2SeqLM.from_pretrained(base), adapter)
    for loaded in (
        again,
        peft.AutoPeftModelForSeq2SeqLM.from_pretrained(adapter),
        AutoModelForSeq2SeqLM.from_pretrained(adapter),
        on_top,
    ):
        assert torch.equal(logits_of(loaded.eval()), expected)

    plain = again.merge_and_unload()
    assert type(plain) is type(random_model())
    plain.save_pretrained(merged)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(merged)
    for same in (plain, loaded):
        torch.testing.assert_close(logits_of(same), expected, atol=1e-4, rtol=0)
        assert ids_of(same) == expected_ids
    assert set(loaded.state_dict()) == set(AutoModelForSeq2SeqLM.from_pretrained(base).state_dict())
    assert (loaded.lm_head.weight is loaded.get_input_embeddings().weight) is (kind != "untied")


def test_the_loss_without_logits_knows_of_an_adapter_on_the_output_projection(tmp_path):
    """It is computed from the projection's weight, which then is only a part of the projection."""
    model = learn(adapted_model(tmp_path, targets=["lm_head"], tie_word_embeddings=False, dropout=0.0), steps=5)
    arguments = dict(input_ids=SOURCE, attention_mask=SOURCE_MASK, labels=LABELS)
    whole, projected = model(**arguments), model(**arguments, return_logits=False)
    torch.testing.assert_close(projected.loss, whole.loss, atol=1e-6, rtol=0)
    with model.disable_adapter():
        assert not torch.isclose(model(**arguments).loss, whole.loss)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_adapters_get_their_gradients_under_gradient_checkpointing(use_reentrant, tmp_path):
    gradients = []
    for checkpointing in (False, True):
        torch.manual_seed(2)
        model = adapted_model(tmp_path / str(checkpointing), dropout=0.0).train()
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.1)  # at zero, A would have no gradient
        if checkpointing:
            model.enable_input_require_grads()
            model.base_model.model.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
        model(input_ids=SOURCE, labels=LABELS).loss.backward()
        gradients.append({name: weight.grad for name, weight in model.named_parameters() if weight.requires_grad})
    assert all(gradient.abs().sum() > 0 for gradient in gradients[0].values())
    torch.testing.assert_close(gradients[1], gradients[0], atol=1e-5, rtol=0)


def test_the_library_finds_every_linear_layer_but_the_output_projection(tmp_path):
    model = adapted_model(tmp_path, targets="all-linear")
    adapted = {name.split(".lora_")[0].split(".")[-1] for name, _ in model.named_parameters() if ".lora_" in name}
    assert adapted == {*PROJECTIONS, "fc1", "fc2"}
