"""The code that travels with a model: a saved folder works where tinyseq can't be imported, and can be saved again.

Each process here is a new one. Where it must not know the package, importing it fails; else nothing hides it.
"""

import ast
import hashlib
import itertools
import json
import pickle
import sys
from pathlib import Path

import pytest
import torch
from fresh_process import WITHOUT_TINYSEQ, run_python
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.dynamic_module_utils import get_imports

import tinyseq
from tinyseq import (
    TinySeqConfig,
    TinySeqEncoder,
    TinySeqForConditionalGeneration,
    TinySeqModel,
    TinySeqTokenizer,
)

CODE = {
    "configuration_tinyseq.py", "losses_tinyseq.py", "modeling_tinyseq.py", "push_tinyseq.py",
    "tokenization_tinyseq.py",
}  # fmt: skip
AUTO_MAP = {
    "AutoConfig": "configuration_tinyseq.TinySeqConfig",
    "AutoModel": "modeling_tinyseq.TinySeqModel",
    "AutoModelForSeq2SeqLM": "modeling_tinyseq.TinySeqForConditionalGeneration",
}
TEXTS = ["The cat sleeps.", "Zürich, 42!"]

LOAD_AND_SAVE = """
import json, sys
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

folder, again, texts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
trust = {"trust_remote_code": True}
config = AutoConfig.from_pretrained(folder, **trust)
tokenizer = AutoTokenizer.from_pretrained(folder, **trust)
base = AutoModel.from_pretrained(folder, **trust).eval()
model = AutoModelForSeq2SeqLM.from_pretrained(folder, **trust).eval()
batch = tokenizer(texts, return_tensors="pt", padding=True)
decoder_input_ids = torch.full((len(texts), 1), config.decoder_start_token_id)
with torch.no_grad():
    logits = model(**batch, decoder_input_ids=decoder_input_ids).logits
    states = base(**batch, decoder_input_ids=decoder_input_ids).last_hidden_state
output = model.generate(**batch, max_new_tokens=9, num_beams=3)
model.save_pretrained(again)
tokenizer.save_pretrained(again)
print(json.dumps({
    "modules": [type(thing).__module__.partition(".")[0] for thing in (config, tokenizer, base, model)],
    "classes": [type(thing).__name__ for thing in (config, tokenizer, base, model)],
    "ids": batch["input_ids"].tolist(),
    "logits": logits.tolist(),
    "states": states.tolist(),
    "texts": tokenizer.batch_decode(output, skip_special_tokens=True),
}))
"""

REFUSED = """
import json, sys
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer
said = {}
for loader in (AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer):
    for trust in ({}, {"trust_remote_code": False}):
        try:
            loader.from_pretrained(sys.argv[1], **trust)
        except ValueError as error:
            said[f"{loader.__name__} {trust}"] = str(error)
        else:
            said[f"{loader.__name__} {trust}"] = "loaded"
print("\\n" + json.dumps(said))  # the prompt has no line end
"""


def hashes(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def auto_map(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))["auto_map"]


@pytest.fixture(scope="module")
def tokenizer():
    return TinySeqTokenizer.train(TEXTS * 10, vocab_size=300, algorithm="bpe")


def make_model(tokenizer, **options):
    torch.manual_seed(1)
    config = TinySeqConfig(
        vocab_size=len(tokenizer), d_model=24, encoder_layers=3, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=2, encoder_ffn_dim=40, decoder_ffn_dim=36, max_position_embeddings=50, **options,
    )  # fmt: skip
    return TinySeqForConditionalGeneration(config).eval()


def save(folder: Path, *things) -> Path:
    for thing in things:
        thing.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    "options",
    [{}, {"position_embedding_type": "learned", "normalize_before": True, "tie_word_embeddings": False}],
    ids=["sinusoidal", "learned, pre-norm, untied"],
)
def test_a_saved_folder_works_in_a_process_without_the_package_and_again_when_saved_from_there_twice(
    tokenizer, tmp_path, options
):
    model = make_model(tokenizer, **options)
    folders = [save(tmp_path / "first", model, tokenizer), tmp_path / "second", tmp_path / "third"]
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    start = torch.full((len(TEXTS), 1), model.config.decoder_start_token_id)
    with torch.no_grad():
        logits = model(**batch, decoder_input_ids=start).logits
        states = model.model(**batch, decoder_input_ids=start).last_hidden_state
    texts = tokenizer.batch_decode(model.generate(**batch, max_new_tokens=9, num_beams=3), skip_special_tokens=True)

    for folder, again in itertools.pairwise(folders):
        found = run_python(WITHOUT_TINYSEQ + LOAD_AND_SAVE, folder, again, json.dumps(TEXTS))
        assert found["modules"] == ["transformers_modules"] * 4
        assert found["classes"] == [
            "TinySeqConfig", "TinySeqTokenizer", "TinySeqModel", "TinySeqForConditionalGeneration",
        ]  # fmt: skip
        assert found["ids"] == batch["input_ids"].tolist()
        torch.testing.assert_close(torch.tensor(found["logits"]), logits)
        torch.testing.assert_close(torch.tensor(found["states"]), states)
        assert found["texts"] == texts

    for folder in folders:
        assert set(hashes(folder)) >= CODE
        assert auto_map(folder) == AUTO_MAP
    assert hashes(folders[2]) == hashes(folders[1])
    assert all(hashes(folders[2])[name] == hashes(folders[0])[name] for name in (*CODE, "model.safetensors"))

    mine = TinySeqForConditionalGeneration.from_pretrained(folders[2]).eval()
    with torch.no_grad():
        torch.testing.assert_close(mine(**batch, decoder_input_ids=start).logits, logits, atol=0, rtol=0)


def test_without_the_package_and_without_trust_every_loader_refuses_and_says_what_to_pass(tokenizer, tmp_path):
    """No code of a folder runs unless the call says so, and no other class takes its place."""
    folder = save(tmp_path / "model", make_model(tokenizer), tokenizer)
    said = run_python(WITHOUT_TINYSEQ + REFUSED, folder)
    assert len(said) == 8
    for call, message in said.items():
        assert "trust_remote_code=True" in message, (call, message)


@pytest.mark.parametrize("trust", [True, False, None])
def test_with_the_package_imported_its_own_classes_are_used_whatever_is_trusted(tokenizer, tmp_path, trust):
    folder = save(tmp_path / "model", make_model(tokenizer), tokenizer)
    for file in CODE:  # were it run, it would fail
        (folder / file).write_text("raise RuntimeError('the code of the folder was run')\n")
    options = {} if trust is None else {"trust_remote_code": trust}
    assert type(AutoConfig.from_pretrained(folder, **options)) is TinySeqConfig
    assert type(AutoTokenizer.from_pretrained(folder, **options)) is TinySeqTokenizer
    assert type(AutoModel.from_pretrained(folder, **options)) is TinySeqModel
    assert type(AutoModelForSeq2SeqLM.from_pretrained(folder, **options)) is TinySeqForConditionalGeneration


def test_auto_map_names_the_code_that_lies_in_the_folder_and_no_other(tokenizer, tmp_path):
    model = make_model(tokenizer)
    model.config.auto_map = {"AutoModelForSeq2SeqLM": "someone/else--modeling_other.Other", "AutoX": "gone.X"}
    for name, part in (("whole", model), ("base", model.model), ("config", model.config)):
        assert auto_map(save(tmp_path / name, part)) == AUTO_MAP
    only_config = {"AutoConfig": AUTO_MAP["AutoConfig"]}
    assert auto_map(save(tmp_path / "encoder", TinySeqEncoder(model.config))) == only_config
    for folder in ("whole", "base", "config", "encoder"):
        assert set(hashes(tmp_path / folder)) >= CODE


def test_a_model_whose_class_sharding_has_replaced_brings_the_same_code(tokenizer, tmp_path):
    """As FSDP2 does: a class made by torch, in a module of torch's."""
    model = make_model(tokenizer)
    name = "FSDPTinySeqForConditionalGeneration"
    model.__class__ = type(name, (TinySeqForConditionalGeneration,), {"__module__": "torch.nn.modules.linear"})
    folder = save(tmp_path / "sharded", model)
    assert auto_map(folder) == AUTO_MAP
    assert set(hashes(folder)) >= CODE
    assert "linear.py" not in hashes(folder)


def test_the_code_of_a_users_own_class_is_saved_only_where_it_was_registered(tokenizer, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from tinyseq import TinySeqForConditionalGeneration, TinySeqTokenizer\n"
        "class Mine(TinySeqForConditionalGeneration): pass\n"
        "class MyTokenizer(TinySeqTokenizer): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import mine

    model = mine.Mine(make_model(tokenizer).config)
    my_tokenizer = mine.MyTokenizer(tokenizer_object=tokenizer.backend_tokenizer)
    folder = save(tmp_path / "unasked", model, my_tokenizer)
    assert "mine.py" not in hashes(folder)
    assert auto_map(folder) == {"AutoConfig": AUTO_MAP["AutoConfig"]}

    mine.Mine.register_for_auto_class("AutoModelForSeq2SeqLM")
    folder = save(tmp_path / "asked", model)
    assert "mine.py" in hashes(folder)
    assert auto_map(folder)["AutoModelForSeq2SeqLM"] == "mine.Mine"


def test_weights_that_are_a_pickle_run_nothing(tokenizer, tmp_path):
    marker = tmp_path / "marker"

    class Hostile:
        def __reduce__(self):
            return Path.touch, (marker,)

    folder = save(tmp_path / "model", make_model(tokenizer), tokenizer)
    (folder / "model.safetensors").unlink()
    torch.save({"lm_head.weight": Hostile()}, folder / "pytorch_model.bin")
    for trust in (False, True):
        with pytest.raises(Exception, match="(?i)weights|unpickl|unsupported"):
            AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=trust)
    assert not marker.exists()
    pickle.loads(pickle.dumps(Hostile()))
    assert marker.exists()  # so it would have run


def test_a_tokenizer_alone_brings_its_code(tokenizer, tmp_path):
    save(tmp_path, tokenizer)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert settings["auto_map"] == {"AutoTokenizer": ["tokenization_tinyseq.TinySeqTokenizer", None]}
    assert CODE & set(hashes(tmp_path)) == {"tokenization_tinyseq.py", "push_tinyseq.py"}


def test_the_code_imports_what_transformers_brings_and_its_siblings_each_by_name():
    """Transformers finds the siblings by reading the text, and takes no other form of import for one."""
    package = Path(tinyseq.__file__).parent
    allowed = {"torch", "transformers", "tokenizers", "huggingface_hub"} | set(sys.stdlib_module_names)
    assert {file.name for file in package.glob("*_tinyseq.py")} == CODE
    for name in CODE:
        assert set(get_imports(package / name)) <= allowed, name
        for node in ast.walk(ast.parse((package / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert {alias.name.partition(".")[0] for alias in node.names} <= allowed, name
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                assert node.module.partition(".")[0] in allowed, name
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 1, name
                assert f"{node.module}.py" in CODE - {name}, name
