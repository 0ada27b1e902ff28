"""A data set of a repository as training pairs: copied, or streamed and never on the disk."""

import io
import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hubclient import ROOT
from hubserver import HubError

from tinyseq import grammar

CARD = """---
configs:
- config_name: talks
  data_files:
  - {split: train, path: talks/train.parquet}
  - {split: validation, path: talks/valid.parquet}
- config_name: news
  data_files:
  - {split: train, path: news/train.parquet}
  - {split: validation, path: news/valid.parquet}
---
"""
TALKS = (
    "--train", "alice/pairs", "--valid", "alice/pairs", "--dataset_config_name", "talks",
    "--source", "en", "--target", "es",
)  # fmt: skip
NEWS = (
    "--train", "alice/pairs", "--valid", "alice/pairs", "--dataset_config_name", "news",
    "--source", "english", "--target", "spanish",
)  # fmt: skip


def parquet(rows) -> bytes:
    """A file of these rows."""
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=100)
    return file.getvalue()


def talks(split, number) -> bytes:
    """Pairs as translation data sets have them: one column, with a text for each language."""
    pairs = enumerate(grammar.generate(split, number))
    return parquet([{"id": id, "translation": {"en": pair.source, "es": pair.target}} for id, pair in pairs])


def news(split, number) -> bytes:
    """Pairs in two columns among others."""
    pairs = grammar.generate(split, number)
    return parquet([{"english": pair.source, "year": 1999, "spanish": pair.target} for pair in pairs])


@pytest.fixture
def pairs(hub):
    """A private data set with two configurations. Its revision `small` has fewer pairs."""
    valid = {"talks/valid.parquet": talks("validation", 30), "news/valid.parquet": news("validation", 40)}
    small = {"talks/train.parquet": talks("train", 110), "news/train.parquet": news("train", 110)}
    more = {"talks/train.parquet": talks("train", 330), "news/train.parquet": news("train", 330)}
    repository = hub.create(
        "alice/pairs", {"README.md": CARD.encode(), **valid, **small}, kind="datasets", private=True
    )
    repository.tags["small"] = repository.find("main").id
    hub.commit(repository, more)
    return repository


def pairs_of_run(client) -> dict:
    """Splits, where they come from and their numbers of pairs, as the run has written them beside its model."""
    facts = json.loads((client.folder / "run/best/training.json").read_text())
    return {split: (part["data_set"], part["pairs"]) for split, part in facts["data"].items()}


def on_disk(client) -> list[str]:
    """Files of data that the run has left in its cache: Arrow's, and what was downloaded as it is."""
    files = [path for path in client.hf_home.rglob("*") if path.is_file()]
    return [path.name for path in files if path.suffix in (".arrow", ".parquet")]


def test_pairs_come_from_a_private_data_set_by_the_token_of_its_owner(client, pairs):
    done = client.train(*TALKS, "--output_dir", "run")

    assert done.code == 0, done.err
    assert pairs_of_run(client) == {"train": ("alice/pairs", 330), "validation": ("alice/pairs", 30)}
    assert any(name.endswith(".arrow") for name in on_disk(client))


def test_a_streamed_data_set_gives_the_same_pairs_and_is_never_on_the_disk(client, hub, pairs):
    done = client.train(*TALKS, "--streaming", "--log_batches", "--output_dir", "run")

    assert done.code == 0, done.err
    assert pairs_of_run(client) == {"train": ("alice/pairs", None), "validation": ("alice/pairs", 30)}
    rows = {row for line in (client.folder / "run/batches-0.jsonl").open() for row in json.loads(line)["rows"][0]}
    assert rows <= set(range(1, 331))
    assert on_disk(client) == []
    assert hub.requests("GET", "*/resolve/*/talks/*.parquet") != []


@pytest.mark.parametrize("streaming", [False, True], ids=["copied", "streamed"])
def test_a_revision_has_its_own_pairs(one_client, hub, pairs, streaming):
    done = one_client.train(*NEWS, "--dataset_revision", "small", *["--streaming"] * streaming, "--output_dir", "run")

    assert done.code == 0, done.err
    train_pairs = None if streaming else 110
    assert pairs_of_run(one_client) == {"train": ("alice/pairs", train_pairs), "validation": ("alice/pairs", 40)}
    asked = {
        request.path.split("/resolve/")[1].split("/")[0] for request in hub.requests("*", "*/resolve/*/news/*.parquet")
    }
    assert asked == {pairs.tags["small"]}


FAULTS = {
    "column": (["--source", "englisch"], ["'englisch'", "'english'", "'spanish'", "'year'"]),
    "configuration": (["--dataset_config_name", "new"], ["'new'", "news", "talks"]),
    "revision": (["--dataset_revision", "smal"], ["alice/pairs", "smal"]),
    "name": (["--train", "alice/pears"], ["alice/pears"]),
    "right to read": (["--train", "bob/pairs"], ["bob/pairs"]),
}


@pytest.mark.parametrize("streaming", [False, True], ids=["copied", "streamed"])
def test_what_is_not_there_is_named_with_what_is(one_client, hub, pairs, streaming):
    script = """
import contextlib, io, sys, json
sys.path.insert(0, sys.argv[1])
import train

for arguments in json.loads(sys.argv[2]):
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()) as written:
        train.main(arguments)
    print(json.dumps(written.getvalue().splitlines()[-1]))
"""
    hub.create("bob/pairs", {"train.parquet": news("train", 110)}, kind="datasets", private=True)
    options = [*NEWS, *["--streaming", "--max_steps", "4"] * streaming, "--output_dir", "run"]
    runs = [[*options, *changed] for changed, _ in FAULTS.values()]

    done = one_client.python(script, ROOT, json.dumps(runs))

    assert done.code == 0, done.err
    messages = [json.loads(line) for line in done.out.splitlines() if line.startswith('"')]  # not datasets' own
    for (_, words), message in zip(FAULTS.values(), messages, strict=True):
        assert message.startswith("train.py: error: ")
        for word in words:
            assert word in message
    assert list(one_client.folder.rglob("*.safetensors")) == []


def test_a_stream_that_breaks_for_good_ends_the_run_with_one_message(one_client, hub, pairs):
    hub.fail("GET", "*/resolve/*/news/train.parquet", HubError(403, "the storage is closed"), times=math.inf)

    done = one_client.train(*NEWS, "--streaming", "--output_dir", "run")

    assert done.code == 1
    assert "Traceback" not in done.err
    assert "train.py: error: alice/pairs" in done.err
    assert "the storage is closed" in done.err
    assert list((one_client.folder / "run").rglob("*.safetensors")) == []
