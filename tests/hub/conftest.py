"""A Hub on this machine, and clients for it.

Nothing of `huggingface_hub`, Transformers or `datasets` is replaced: what they send over HTTP is what is tested.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hubclient import ROOT, Client, files_in, short_run
from hubserver import HubServer, User

from tinyseq import grammar

USERS = {
    "hf_alice": User("alice", organizations=("lab",)),
    "hf_alice_reads": User("alice", "read", organizations=("lab",)),
    "hf_bob": User("bob"),
}


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
    done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "run" / "best"


@pytest.fixture(scope="session")
def files(trained: Path) -> dict[str, bytes]:
    """The files of that folder."""
    return files_in(trained)
