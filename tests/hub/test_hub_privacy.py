"""Private means private: nothing of a model that is to be private comes to where others can read it."""

import json

LOOKS = """
import json
from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import RepositoryNotFoundError

seen = {}
for who in (False, "hf_bob", "hf_alice"):
    try:
        seen[str(who)] = HfApi().model_info("alice/model", token=who).private
    except RepositoryNotFoundError:
        seen[str(who)] = "not found"
print(json.dumps(seen))
"""


def uploads(hub):
    """What was sent towards a repository: from the announcement of files to the commit."""
    return [line for line in hub.writes() if not line.startswith("POST /api/repos/create ")]


def test_a_new_repository_is_private_if_asked_and_only_its_owner_sees_it(one_client, hub, trained):
    done = one_client.tinyseq("push", trained, "alice/model", "--private")

    assert done.code == 0, done.err
    [created] = hub.requests("POST", "/api/repos/create")  # not public for a moment either
    asked = json.loads(created.body)
    assert asked.get("visibility") == "private" or asked.get("private") is True
    assert one_client.python(LOOKS).found == {"False": "not found", "hf_bob": "not found", "hf_alice": True}


def test_a_private_repository_stays_private_whether_asked_or_not(one_client, hub, trained):
    repository = hub.create("alice/model", private=True)

    script = """
import sys
from tinyseq.hub.push import push

for private in (None, True, False):
    push(sys.argv[1], "alice/model", private=private)
"""

    done = one_client.python(script, trained)

    assert done.code == 0, done.err
    assert repository.private
    assert [request for request in hub.requests("P*", "*/settings")] == []


def test_nothing_is_pushed_into_a_public_repository_if_private_was_asked(one_client, hub, trained):
    repository = hub.create("alice/model", {"README.md": b"public"})
    before = dict(repository.find("main").entries)

    done = one_client.tinyseq("push", trained, "alice/model", "--private")

    assert done.code == 2
    assert "alice/model is a public repository and private=True was asked for" in done.err
    assert "Traceback" not in done.err
    assert uploads(hub) == []
    assert repository.find("main").entries == before
    assert not repository.private  # nor is it hidden from those who use it


def test_train_refuses_a_public_repository_before_it_trains(one_client, hub):
    hub.create("alice/model")

    done = one_client.train(
        "--output_dir", "run", "--push_to_hub", "--hub_model_id", "alice/model", "--hub_private_repo"
    )

    assert done.code == 1
    assert "alice/model is a public repository" in done.err
    assert "Traceback" not in done.err
    assert uploads(hub) == []
    assert list((one_client.folder / "run").rglob("*.safetensors")) == []
    assert list((one_client.folder / "run").rglob("tokenizer*")) == []


def test_model_tokenizer_and_config_refuse_a_public_repository_and_make_a_private_one(one_client, hub, trained):
    script = """
import json, sys
import tinyseq
from transformers import pipeline
from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, TinySeqTokenizer

refused, made = {}, []
for kind in (TinySeqConfig, TinySeqForConditionalGeneration, TinySeqTokenizer, None):
    part = kind.from_pretrained(sys.argv[1]) if kind else pipeline("translate", model=sys.argv[1])
    name = type(part).__name__
    positional = (True,) if kind is TinySeqConfig else ()
    named = {} if positional else {"push_to_hub": True}
    for how, push in {
        "push_to_hub": lambda to: part.push_to_hub(to, private=True),
        "save_pretrained": lambda to: part.save_pretrained("saved", *positional, **named, repo_id=to, private=True),
    }.items():
        push(f"alice/{name}-{how}")
        made.append(f"alice/{name}-{how}")
        try:
            push("alice/public")
        except ValueError as error:
            refused[f"{name} {how}"] = str(error)
print(json.dumps([refused, made]))
"""
    hub.create("alice/public")

    refused, made = one_client.python(script, trained).found

    assert len(refused) == 8
    assert all(
        "alice/public is a public repository and private=True was asked for" in text for text in refused.values()
    )
    assert [commit.title for commit in hub.repository("alice/public").history()] == ["initial commit"]
    assert [line for line in uploads(hub) if "alice/public" in line] == []
    assert len(made) == 8
    assert all(hub.repository(name).private for name in made)


def test_a_name_without_an_owner_is_the_token_s_own(one_client, hub, trained):
    script = """
import sys
from tinyseq.hub.push import push
from tinyseq import TinySeqForConditionalGeneration

push(sys.argv[1], "pushed", private=True)
TinySeqForConditionalGeneration.from_pretrained(sys.argv[1]).push_to_hub("model", private=True)
try:
    push(sys.argv[1], "public", private=True)
except OSError as error:
    print(error)
"""
    hub.create("alice/public")

    done = one_client.python(script, trained)

    assert done.code == 0, done.err
    assert "alice/public is a public repository" in done.out
    for name in ("alice/pushed", "alice/model"):
        assert hub.repository(name).private
        assert "model.safetensors" in hub.files(name)


MAY_NOT = [
    (None, "alice/model", "there is no Hub token"),
    ("hf_wrong", "alice/model", "does not know this token"),
    ("hf_alice_reads", "alice/model", "may not write"),
    ("hf_alice_reads", "alice/there", "may not write"),
    ("hf_alice", "bob/model", "may not write"),
    ("hf_alice", "bob/there", "may not write"),
    ("hf_alice", "bob/gated", "may not write"),
    ("hf_alice", "bob/secret", "may not write"),
]


def test_who_may_not_write_is_told_what_to_do_and_nothing_is_sent(one_client, hub, trained):
    script = """
import json, sys
from tinyseq.hub.push import HubPushError, push

messages = []
for token, name, _ in json.loads(sys.argv[2]):
    try:
        messages.append(push(sys.argv[1], name, token=token))
    except HubPushError as error:
        messages.append(str(error))
print(json.dumps(messages))
"""
    hub.create("alice/there")
    hub.create("bob/there")
    hub.create("bob/gated", gated=True)
    hub.create("bob/secret", private=True)
    there = set(hub.repositories)

    messages = one_client.python(script, trained, json.dumps(MAY_NOT), token=None).found

    for (_, _, words), message in zip(MAY_NOT, messages, strict=True):
        assert words in message
        assert "write access" in message
        assert "\n" not in message
    assert uploads(hub) == []
    assert set(hub.repositories) == there
