"""A Hub on this machine, and clients for it.

Nothing of `huggingface_hub`, Transformers or `datasets` is replaced: what they send over HTTP is what is tested.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import fresh
import pytest
from hubclient import ROOT, Client, files_in, short_run
from hubserver import HubServer, User

from tinyseq import grammar

USERS = {
    "hf_alice": User("alice", organizations=("lab",)),
    "hf_alice_reads": User("alice", "read", organizations=("lab",)),
    "hf_bob": User("bob"),
}


# How large files travel is not the point of these: they run with Xet, and with LFS in `make test-slow`
WITH_XET = {
    "test_pushing_the_same_again_makes_no_commit_and_a_changed_file_one",
    "test_model_tokenizer_and_config_push_themselves_with_a_card_that_has_no_gaps",
    "test_pairs_come_from_a_private_data_set_by_the_token_of_its_owner",
    "test_a_streamed_data_set_gives_the_same_pairs_and_is_never_on_the_disk",
    "test_a_hub_that_stays_down_is_named_and_the_repository_is_as_it_was",
    "test_a_run_ends_in_one_commit_of_its_best_model",
}


@pytest.hookimpl(tryfirst=True)  # before the tests marked slow are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what only repeats."""
    for item in items:
        if item.name.endswith("[lfs]") and item.name.removesuffix("[lfs]") in WITH_XET:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def hub(tmp_path_factory) -> Iterator[HubServer]:
    """A Hub where nothing is yet. Whatever a test does, no token may come to the storage, which is another host."""
    with HubServer(USERS, xet=tmp_path_factory.mktemp("xet")) as hub:
        yield hub
    assert [r.path for r in hub.requests() if r.port == "storage" and "authorization" in r.headers] == []


@pytest.fixture(params=["lfs", "xet"])
def client(request, hub, tmp_path, corpus) -> Client:
    """A client, once with Git LFS and once with Xet for its large files."""
    if request.param == "xet":
        pytest.importorskip("hf_xet")  # huggingface_hub has it wherever it can be had
    return Client(hub, tmp_path, request.param == "xet", corpus)


@pytest.fixture
def one_client(hub, tmp_path, corpus) -> Client:
    """A client as it is by default, for what has nothing to do with how large files travel."""
    return Client(hub, tmp_path, True, corpus)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """A folder with pairs to train on."""
    folder = tmp_path_factory.mktemp("corpus")
    for name, split, number in (("train", "train", 300), ("valid", "validation", 30)):
        rows = [f"{pair.source}\t{pair.target}\n" for pair in grammar.generate(split, number)]
        (folder / f"{name}.tsv").write_text("".join(["en\tes\n", *rows]), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def trained(corpus, tmp_path_factory) -> Path:
    """The folder of a model that train.py has made, without any Hub."""
    folder = tmp_path_factory.mktemp("trained")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, ROOT / "train.py", *short_run(corpus), "--output_dir", folder / "run"]
    done = fresh.run(command, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return folder / "run" / "best"


@pytest.fixture(scope="session")
def files(trained: Path) -> dict[str, bytes]:
    """The files of that folder."""
    return files_in(trained)
