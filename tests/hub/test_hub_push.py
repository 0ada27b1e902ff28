"""A push over HTTP: one commit with everything, by the way that the client's large files take."""

import json

from hubclient import files_in

from tinyseq.hub.push import files_of_a_model

MODEL = {
    "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    "configuration_tinyseq.py", "losses_tinyseq.py", "modeling_tinyseq.py", "push_tinyseq.py",
    "tokenization_tinyseq.py",
}  # fmt: skip


def titles(hub, name, revision="main"):
    return [commit.title for commit in hub.repository(name).history(revision)]


def parents_asked_for(hub):
    """The `parentCommit` of each commit that was sent."""
    return [
        json.loads(r.body.splitlines()[0])["value"].get("parentCommit") for r in hub.requests("POST", "*/commit/*")
    ]


def test_tinyseq_push_makes_one_commit_of_model_tokenizer_code_and_card(client, hub, trained, files):
    done = client.tinyseq("push", trained, "alice/first", "--message", "First model")

    assert done.code == 0, done.err
    commit, initial = hub.repository("alice/first").history()
    assert (commit.title, initial.title) == ("First model", "initial commit")
    assert commit.id in done.out
    assert parents_asked_for(hub) == [initial.id]
    pushed = hub.files("alice/first")
    assert set(pushed) >= {*MODEL, "README.md"}
    assert {name: data for name, data in pushed.items() if name != "README.md"} == {
        name: data for name, data in files.items() if name != "README.md"
    }
    by_lfs, by_xet = hub.requests("PUT", "/lfs/*"), hub.requests("GET", "*/xet-write-token/*")
    assert [bool(by_lfs), bool(by_xet)] == [not client.xet, client.xet]


def test_pushing_the_same_again_makes_no_commit_and_a_changed_file_one(client, hub, trained):
    script = """
import sys
from pathlib import Path
from tinyseq.hub.push import push

folder = Path(sys.argv[1])
print(push(folder, "alice/again"))
print(push(folder, "alice/again"))
(folder / "notes.txt").write_text("new")
print(push(folder, "alice/again", message="With notes"))
"""
    for path in trained.iterdir():
        (client.folder / "copy").mkdir(exist_ok=True)
        (client.folder / "copy" / path.name).write_bytes(path.read_bytes())

    done = client.python(script, client.folder / "copy")

    assert done.code == 0, done.err
    assert titles(hub, "alice/again") == ["With notes", "Upload tinyseq model", "initial commit"]
    assert hub.files("alice/again")["notes.txt"] == b"new"
    weights = [r for r in hub.requests("PUT", "/lfs/*") if r.status == 200]
    assert len(weights) == (0 if client.xet else 1)  # what the Hub has is not sent again


def test_a_branch_is_made_where_there_is_none_and_main_stays(one_client, hub, trained):
    done = one_client.tinyseq("push", trained, "lab/model", "--revision", "second/try")  # an organization's member

    assert done.code == 0, done.err
    assert titles(hub, "lab/model") == ["initial commit"]
    assert titles(hub, "lab/model", "second/try") == ["Upload tinyseq model", "initial commit"]
    assert set(hub.files("lab/model", "second/try")) >= MODEL


def test_files_that_others_put_there_stay(one_client, hub, trained):
    hub.create("alice/shared", {"examples/a.txt": b"theirs", "config.json": b"{}"})

    assert one_client.tinyseq("push", trained, "alice/shared").code == 0

    pushed = hub.files("alice/shared")
    assert pushed["examples/a.txt"] == b"theirs"
    assert json.loads(pushed["config.json"])["model_type"] == "tinyseq"


def test_old_weights_that_would_be_loaded_beside_the_new_go_in_the_same_commit(one_client, hub, trained):
    old = ("model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    kept = {"model.safetensors.txt": b"notes", "old/model-00001-of-00001.safetensors": b"an archive"}
    hub.create("alice/sharded", dict.fromkeys(old, b"old") | kept)
    before = len(hub.repository("alice/sharded").history())

    assert one_client.tinyseq("push", trained, "alice/sharded").code == 0

    pushed = hub.files("alice/sharded")
    assert set(pushed) & set(old) == set()
    assert pushed.items() >= kept.items()
    assert "model.safetensors" in pushed
    assert len(hub.repository("alice/sharded").history()) == before + 1


PUSH_PARTS = """
import sys
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer
import tinyseq

folder, *names = sys.argv[1:]
config = AutoConfig.from_pretrained(folder)
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
"""


def test_model_tokenizer_and_config_push_themselves_with_a_card_that_has_no_gaps(client, hub, trained, files):
    script = """
model.push_to_hub("alice/parts")
tokenizer.push_to_hub("alice/parts")
config.push_to_hub("alice/config")
model.save_pretrained("saved", push_to_hub=True, repo_id="alice/saved", private=True)
tokenizer.save_pretrained("saved", push_to_hub=True, repo_id="alice/saved", private=True)
"""
    done = client.python(PUSH_PARTS + script, trained)

    assert done.code == 0, done.err
    assert len(hub.repository("alice/parts").history()) == 3  # one commit each
    for name in ("alice/parts", "alice/saved"):
        pushed = hub.files(name)
        assert set(pushed) >= {*MODEL, "README.md"}
        for file in ("model.safetensors", "tokenizer.json", "modeling_tinyseq.py"):
            assert pushed[file] == files[file]
    assert hub.repository("alice/saved").private
    assert not hub.repository("alice/parts").private
    for name in ("alice/parts", "alice/config", "alice/saved"):
        card = hub.files(name)["README.md"].decode()
        assert "More Information Needed" not in card
        assert card.count("<!-- tinyseq: begin -->") == card.count("<!-- tinyseq: end -->") == 1
    local = files_in(client.folder / "saved")
    assert local["model.safetensors"] == files["model.safetensors"]


def test_the_snippets_on_both_cards_run_without_the_package(one_client, hub, trained):
    script = """
from tinyseq.hub.push import push

model.push_to_hub("alice/small-card")
tokenizer.push_to_hub("alice/small-card")
push(folder, "alice/full-card")
"""
    run_snippets = """
import contextlib, io, json

found = {}
for name, snippet in json.loads(sys.argv[1]).items():
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(snippet, {})
    found[name] = printed.getvalue()
print(json.dumps(found))
"""
    done = one_client.python(PUSH_PARTS + script, trained)
    assert done.code == 0, done.err
    snippets = {}
    for name in ("alice/small-card", "alice/full-card"):
        snippets[name] = hub.files(name)["README.md"].decode().split("```python\n")[1].split("```")[0]
        assert name in snippets[name]

    found = one_client.python("import sys" + run_snippets, json.dumps(snippets), without_tinyseq=True).found

    for name, snippet in snippets.items():
        assert found[name].endswith("\n")
        shown = [line.split("  # ")[1] for line in snippet.splitlines() if "  # " in line]
        assert shown in ([], found[name].splitlines())


def test_of_what_a_run_keeps_in_a_checkpoint_only_the_model_is_pushed(trained):
    """The hub has its own list of what is the run's alone, where paths and texts may stand: a new file fails here."""
    checkpoint = max((trained.parent / "checkpoints").iterdir())

    pushed = {path.name for path in files_of_a_model(checkpoint)}

    assert "model.safetensors" in pushed
    assert pushed <= {path.name for path in trained.iterdir()}
    assert {path.name for path in checkpoint.iterdir()} - pushed >= {"state.json", "log.jsonl", "checksums.json"}
