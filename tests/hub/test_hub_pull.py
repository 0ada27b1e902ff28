"""What was pushed comes back: the same bytes, logits and text, by every loader, at every kind of revision."""

import json
import math
import re

import pytest
import torch
from hubclient import Client
from safetensors.torch import load, save

LOOK = """
import json
import sys

import torch
from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer


@torch.no_grad()
def look(name, **options):
    "Tokens, states, logits and text that are made with the model of a folder or a repository."
    tokenizer = AutoTokenizer.from_pretrained(name, **options)
    base = AutoModel.from_pretrained(name, **options)
    model = AutoModelForSeq2SeqLM.from_pretrained(name, **options)
    batch = tokenizer(["Two dogs play.", "A man rides a bicycle down the long street."], return_tensors="pt", padding=True)
    target = batch.input_ids[:, :5]
    return {
        "ids": batch.input_ids.tolist(),
        "states": base(**batch, decoder_input_ids=target).last_hidden_state.tolist(),
        "logits": model(**batch, decoder_input_ids=target).logits.tolist(),
        "text": tokenizer.batch_decode(model.generate(**batch, max_new_tokens=9), skip_special_tokens=True),
    }
"""  # noqa: E501


def test_a_model_goes_from_hub_to_hub_without_the_package_and_stays_itself(client, hub, trained, files):
    push = """
import tinyseq
from tinyseq.hub.push import push
push(sys.argv[1], "alice/first")
print(json.dumps(look(sys.argv[1])))
"""
    pull_and_push = """
found = look("alice/first", trust_remote_code=True)
model = AutoModelForSeq2SeqLM.from_pretrained("alice/first", trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained("alice/first", trust_remote_code=True)
assert type(model).__module__.startswith("transformers_modules."), type(model)
assert type(tokenizer).__module__.startswith("transformers_modules."), type(tokenizer)
model.save_pretrained("saved")
tokenizer.save_pretrained("saved")
model.push_to_hub("alice/second")
tokenizer.push_to_hub("alice/second")
found["saved"] = look("saved", trust_remote_code=True)
print(json.dumps(found))
"""
    pull = 'print(json.dumps(look("alice/second", trust_remote_code=True)))'

    original = client.python(LOOK + push, trained).found
    first = client.python(LOOK + pull_and_push, without_tinyseq=True).found
    second = client.python(LOOK + pull, without_tinyseq=True).found

    assert first.pop("saved") == original
    assert first == original
    assert second == original
    pushed = [hub.files(name) for name in ("alice/first", "alice/second")]
    code = [name for name in files if name.endswith(".py")]
    assert len(code) >= 3  # of configuration, model and tokenizer
    for name in ("model.safetensors", "tokenizer.json", *code):
        assert pushed[0][name] == pushed[1][name] == files[name]
    assert not [r for r in hub.requests() if r.port == "storage" and client.xet]


@pytest.fixture
def two_versions(hub, files):
    """A repository where the first version has a tag and a branch, and main has other weights. Returns its id."""
    repository = hub.create("alice/model", files)
    first = repository.find("main").id
    repository.tags["v1"] = repository.branches["kept/first"] = first
    weights = {name: -weight for name, weight in load(files["model.safetensors"]).items()}
    hub.commit(repository, {"model.safetensors": save(weights, metadata={"format": "pt"})})
    return first


def test_branch_tag_and_commit_each_give_their_own_version(one_client, two_versions, trained):
    script = """
import tinyseq
from tinyseq import Translator
from transformers import pipeline

found = {"local": look(sys.argv[1])}
for revision in (None, "v1", "kept/first", sys.argv[2]):
    found[str(revision)] = look("alice/model", revision=revision)
texts = ["Two dogs play.", "A man rides a bicycle down the long street."]
for revision in ("main", "v1"):
    translator = Translator.from_pretrained("alice/model", revision=revision)
    found[f"translator {revision}"] = translator(texts, max_new_tokens=9)
    pipe = pipeline("translate", model="alice/model", revision=revision)
    found[f"pipeline {revision}"] = [t["translation_text"] for t in pipe(texts, max_new_tokens=9)]
print(json.dumps(found))
"""
    found = one_client.python(LOOK + script, trained, two_versions).found

    local, newest = found["local"], found["None"]
    assert found["v1"] == found["kept/first"] == found[two_versions] == local
    assert newest["ids"] == local["ids"]
    assert newest["logits"] != local["logits"]
    assert newest["text"] != local["text"]
    assert found["translator v1"] == found["pipeline v1"] == local["text"]
    assert found["translator main"] == found["pipeline main"] == newest["text"]


def test_tinyseq_translate_pulls_the_revision_that_was_asked_for(one_client, two_versions, hub):
    (one_client.folder / "in.txt").write_text("Two dogs play.\n")

    done = one_client.tinyseq("translate", "alice/model", "in.txt", "--revision", "v1")

    assert done.code == 0, done.err
    assert done.out.count("\n") == 1
    asked = {request.path.split("/resolve/")[1].split("/")[0] for request in hub.requests("*", "*/resolve/*")}
    assert asked == {two_versions}


def test_what_can_not_be_pulled_is_one_line_that_names_it(one_client, hub, two_versions, files):
    """From the command line's own function, in one process, as each of these imports a lot."""
    script = """
import json, sys
from tinyseq.cli import main as cli

for name, *options in json.loads(sys.argv[1]):
    assert cli.main(["translate", name, "/dev/null", *options]) == 2
    print("end", file=sys.stderr)
"""
    hub.create("bob/secret", files, private=True)
    hub.create("bob/gated", files, gated=True)
    asked = [["alice/model", "--revision", "v2"], ["alice/modle"], ["bob/secret"], ["bob/gated"]]

    done = one_client.python(script, json.dumps(asked))

    assert (done.code, done.out) == (0, ""), done.err
    outputs = done.err.removesuffix("end\n").split("end\n")
    assert len(outputs) == 4
    for line, names in zip(outputs, asked, strict=True):
        [message] = re.findall("^tinyseq: error: (.*)$", line, re.M)
        assert "Traceback" not in line
        assert names[0] in message
        assert names[-1] in message


def test_private_and_gated_repositories_give_their_model_to_whoever_may_have_it(one_client, hub, files):
    script = """
from tinyseq import Translator

print(json.dumps([Translator.from_pretrained(name)("Two dogs play.") for name in ("lab/secret", "lab/gated")]))
"""
    hub.create("lab/secret", files, private=True)
    hub.create("lab/gated", files, gated=True)

    secret, gated = one_client.python("import json" + script, token="hf_alice_reads").found

    assert secret == gated


# Downloads that break ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(files):
    """The files of a model whose weights are more than the client downloads at a time, 10 MiB."""
    config = json.loads(files["config.json"]) | {"encoder_ffn_dim": 64_000}
    weights = load(files["model.safetensors"])
    width, inner = config["d_model"], config["encoder_ffn_dim"]
    generator = torch.Generator().manual_seed(5)
    for name, shape in {"fc1.weight": (inner, width), "fc1.bias": (inner,), "fc2.weight": (width, inner)}.items():
        assert f"model.encoder.layers.0.{name}" in weights
        weights[f"model.encoder.layers.0.{name}"] = torch.randn(shape, generator=generator)
    weights = save(weights, metadata={"format": "pt"})
    assert len(weights) > 15 * 2**20
    return files | {"config.json": json.dumps(config).encode(), "model.safetensors": weights}


LOAD = """
import json
import tinyseq
from transformers import AutoModelForSeq2SeqLM

model = AutoModelForSeq2SeqLM.from_pretrained("alice/large")
print(json.dumps({name: float(weight.double().sum()) for name, weight in model.named_parameters()}))
"""


def sums_of(files):
    return {name: float(weight.double().sum()) for name, weight in load(files["model.safetensors"]).items()}


def test_a_download_that_breaks_goes_on_where_it_broke(hub, tmp_path, corpus, large):
    hub.create("alice/large", large)
    hub.fail("GET", "/lfs/*", 12 * 2**20)

    found = Client(hub, tmp_path, False, corpus).python(LOAD).found

    assert found == sums_of(large)
    first, second = hub.requests("GET", "/lfs/*")
    assert "range" not in first.headers
    resumed = int(re.fullmatch(r"bytes=(\d+)-", second.headers["range"])[1])
    assert 10 * 2**20 <= resumed <= 12 * 2**20


def test_a_download_that_stays_broken_leaves_nothing_that_loads_and_is_finished_later(client, hub, large):
    """With LFS the connection breaks each time; with Xet the storage has lost a part."""
    if client.xet:
        script = "from huggingface_hub import HfApi; HfApi().upload_file(**ARGUMENTS)"
        (client.folder / "weights").write_bytes(large["model.safetensors"])
        hub.create("alice/large", {name: data for name, data in large.items() if name != "model.safetensors"})
        arguments = {
            "path_or_fileobj": "weights",
            "path_in_repo": "model.safetensors",
            "repo_id": "alice/large",
        }
        assert client.python(script.replace("ARGUMENTS", repr(arguments))).code == 0
        parts = [path for path in (hub.xet / "xet/xorbs").rglob("*") if path.is_file() and path.stat().st_size > 2**20]
        assert parts
        for part in parts:
            part.rename(hub.xet / part.name)
    else:
        hub.create("alice/large", large)
        hub.fail("GET", "/lfs/*", 2**20, times=math.inf)

    broken = client.python(LOAD)
    offline = client.python(LOAD, hf_home=client.hf_home, HF_HUB_OFFLINE="1")
    hub.faults.clear()
    if client.xet:
        for part in parts:
            (hub.xet / part.name).rename(part)
    finished = client.python(LOAD, hf_home=client.hf_home)

    assert (broken.code, broken.out) == (1, "")
    assert (offline.code, offline.out) == (1, "")
    assert finished.found == sums_of(large)
