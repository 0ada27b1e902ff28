"""A push that fails says why in one line, and leaves the repository as it was."""

import json
import math

from hubserver import HubError

BUSY = {"Retry-After": "0"}
PUSH_WITHOUT_PATIENCE = """
import sys
import tinyseq.hub
from tinyseq.cli import main as cli

tinyseq.hub.push.WAITS = (0.1, 0.2, 0.3)  # seconds between tries, where the Hub does not say them
sys.exit(cli.main(["push", *sys.argv[1:]]))
"""


def titles(hub, name="alice/model"):
    return [commit.title for commit in hub.repository(name).history()]


def assert_refused(done, *words):
    """One line on stderr after what was said about waiting, and the code of an error of the user's."""
    assert (done.code, done.out) == (2, ""), done.err
    assert "Traceback" not in done.err
    last = done.err.splitlines()[-1]
    assert last.startswith("tinyseq: error: ")
    for word in ("nothing was pushed", *words):
        assert word in last


def test_a_commit_that_came_in_between_stays_and_is_told_of(one_client, hub, trained):
    repository = hub.create("alice/model", {"config.json": b"{}"})
    seen = repository.find("main").id
    hub.fail("POST", "*/commit/main", lambda: hub.commit(repository, {"config.json": b'{"theirs": 1}'}))

    done = one_client.tinyseq("push", trained, "alice/model")

    assert_refused(done, "alice/model", "someone else's commit came in between", "push again")
    [sent] = hub.requests("POST", "*/commit/*")
    assert json.loads(sent.body.splitlines()[0])["value"]["parentCommit"] == seen
    assert sent.status == 412
    assert titles(hub) == ["by hand", "by hand", "initial commit"]
    assert hub.files("alice/model") == {"config.json": b'{"theirs": 1}'}


def test_a_new_branch_is_gone_again_when_the_push_to_it_fails(one_client, hub, trained):
    repository = hub.create("alice/model")
    hub.fail("POST", "*/commit/*", HubError(400, "No."))

    done = one_client.tinyseq("push", trained, "alice/model", "--revision", "new")

    assert_refused(done, "status 400")
    assert list(repository.branches) == ["main"]


def test_too_many_requests_are_waited_for_as_long_as_the_hub_asks(one_client, hub, trained):
    hub.create("alice/model")
    hub.fail("POST", "*/commit/main", HubError(429, "Too many requests", headers={"Retry-After": "2"}))

    done = one_client.tinyseq("push", trained, "alice/model")

    assert done.code == 0, done.err
    first, second = hub.requests("POST", "*/commit/*")
    assert (first.status, second.status) == (429, 200)
    assert 2 <= second.time - first.time < 30
    assert titles(hub) == ["Upload tinyseq model", "initial commit"]


def test_a_hub_that_is_busy_at_every_step_once_gets_one_commit(client, hub, trained):
    for method, path in [
        ("GET", "/api/whoami-v2"), ("POST", "/api/repos/create"), ("GET", "*/auth-check/write"),
        ("POST", "/api/validate-yaml"), ("POST", "*/preupload/*"), ("POST", "*/objects/batch"),
        ("GET", "*/xet-write-token/*"), ("POST", "*/commit/*"),
    ]:  # fmt: skip
        hub.fail(method, path, HubError(503, "Service unavailable", headers=BUSY))

    done = client.tinyseq("push", trained, "alice/model")

    assert done.code == 0, done.err
    assert titles(hub) == ["Upload tinyseq model", "initial commit"]
    unused = {path for _, path, *_ in hub.faults}
    assert unused == ({"*/objects/batch"} if client.xet else {"*/xet-write-token/*"})


def test_an_answer_that_is_lost_after_the_commit_was_made_gives_no_second_one(one_client, hub, trained):
    hub.fail("POST", "*/commit/*", 5)  # made, and five bytes of the answer sent

    done = one_client.tinyseq("push", trained, "alice/model")

    assert done.code == 0, done.err
    assert titles(hub) == ["Upload tinyseq model", "initial commit"]
    assert hub.repository("alice/model").find("main").id in done.out


def test_a_hub_that_stays_down_is_named_and_the_repository_is_as_it_was(client, hub, trained):
    repository = hub.create("alice/model", {"config.json": b"{}", "model.safetensors": b"old"})
    before = dict(repository.find("main").entries)
    hub.fail("POST", "*/commit/*", HubError(503, "Service unavailable", headers=BUSY), times=math.inf)

    done = client.tinyseq("push", trained, "alice/model")

    assert_refused(done, "alice/model", "503", "later")
    assert repository.find("main").entries == before
    assert 2 <= len(hub.requests("POST", "*/commit/*")) <= 6
    assert (trained / "model.safetensors").is_file()


def test_a_storage_that_takes_no_file_stops_the_push_before_the_commit(client, hub, trained):
    repository = hub.create("alice/model", {"config.json": b"{}"})
    before = dict(repository.find("main").entries)
    path = ("GET", "*/xet-write-token/*") if client.xet else ("PUT", "/lfs/*")
    hub.fail(*path, HubError(403, "AccessDenied"), times=math.inf)

    done = client.python(PUSH_WITHOUT_PATIENCE, trained, "alice/model")

    assert_refused(done, "alice/model", "AccessDenied" if not client.xet else "403")
    assert hub.requests("POST", "*/commit/*") == []
    assert repository.find("main").entries == before


def test_no_connection_is_one_line_after_a_few_tries(one_client, hub, trained):
    hub.stop()

    done = one_client.python(PUSH_WITHOUT_PATIENCE, trained, "alice/model")

    assert_refused(done, hub.url, "can't be reached")


def test_offline_mode_is_one_line_at_once(one_client, hub, trained):
    done = one_client.tinyseq("push", trained, "alice/model", HF_HUB_OFFLINE="1")

    assert_refused(done, "can't be reached", "offline")
    assert hub.log == []
