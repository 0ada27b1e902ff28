"""`train.py --push_to_hub`: one commit at the end, or one with each save, and a training that no Hub can stop."""

import json
import math
import re
import shlex
import sys
import time

from hubclient import files_in
from hubserver import HubError

PUSHED = ("--output_dir", "run", "--push_to_hub", "--hub_model_id", "alice/model")


def titles(hub, name="alice/model"):
    return [commit.title for commit in hub.repository(name).history()]


def assert_repository_is(folder, hub, name="alice/model"):
    local, pushed = files_in(folder), hub.files(name)
    assert set(pushed) == {*local, "README.md"}
    for file in set(local) - {"README.md"}:
        assert pushed[file] == local[file]


def test_a_run_ends_in_one_commit_of_its_best_model(client, hub):
    private = not client.xet  # either, each once

    done = client.train(*PUSHED, *["--hub_private_repo"] * private)

    assert done.code == 0, done.err
    assert len(titles(hub)) == 2
    assert hub.repository("alice/model").private == private
    assert hub.repository("alice/model").find("main").id in done.out
    assert_repository_is(client.folder / "run/best", hub)


def test_each_save_is_pushed_while_training_goes_on_and_the_last_push_has_all(one_client, hub):
    """The first push hangs until the training is over: if it held the training up, it would wait in vain."""
    log = one_client.folder / "run/log.jsonl"
    saw_the_end = []

    def hang():
        for _ in range(600):
            if log.is_file() and '"step": 4' in log.read_text():
                saw_the_end.append(True)
                return
            time.sleep(0.1)

    hub.fail("POST", "*/preupload/*", hang)

    done = one_client.train(*PUSHED, "--hub_strategy", "every_save")

    assert done.code == 0, done.err
    assert saw_the_end == [True]
    assert_repository_is(one_client.folder / "run/best", hub)
    assert 2 <= len(titles(hub)) <= 3  # that of the hanging push, where it is not the last one's model, and the last


def test_a_push_that_fails_is_a_warning_and_the_last_one_makes_up_for_it(one_client, hub):
    hub.fail("POST", "*/commit/*", HubError(400, "the disk is full"))

    done = one_client.train(*PUSHED, "--hub_strategy", "every_save")

    assert done.code == 0, done.err
    assert "training goes on" in done.err
    assert "the disk is full" in done.err
    steps = [json.loads(line)["step"] for line in (one_client.folder / "run/log.jsonl").read_text().splitlines()]
    assert steps[-1] == 4
    assert_repository_is(one_client.folder / "run/best", hub)


def test_a_last_push_that_fails_says_where_the_model_is_and_the_command_that_it_names_pushes_it(one_client, hub):
    hub.fail("POST", "*/commit/*", HubError(503, "down", headers={"Retry-After": "0"}), times=math.inf)

    done = one_client.train(*PUSHED, "--hub_private_repo")

    assert done.code == 1
    assert "Traceback" not in done.err
    assert "503" in done.err
    assert titles(hub) == ["initial commit"]
    command = shlex.split(re.search(r"push it with: tinyseq (push .*)", done.err)[1])
    assert command[1:] == ["run/best", "alice/model", "--private"]
    hub.faults.clear()
    again = one_client.tinyseq(*command)
    assert again.code == 0, again.err
    assert_repository_is(one_client.folder / "run/best", hub)
    assert hub.repository("alice/model").private


def test_who_may_not_push_is_told_before_the_training(one_client, hub):
    done = one_client.train(*PUSHED, token="hf_alice_reads")

    assert done.code == 1
    assert "may not write" in done.err
    assert "Traceback" not in done.err
    assert hub.repositories == {}
    assert list((one_client.folder / "run").rglob("*.json*")) == []


def test_of_two_processes_one_talks_to_the_hub(one_client, hub):
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", 2)

    done = one_client.train(*PUSHED, launcher=launcher)

    assert done.code == 0, done.err
    assert "on 2 processes" in done.out
    assert len(hub.requests("POST", "/api/repos/create")) == 2  # before the training, and with the push
    assert len(hub.requests("POST", "*/preupload/*")) == len(hub.requests("POST", "*/commit/*")) == 1
    assert_repository_is(one_client.folder / "run/best", hub)
