"""A data set of a repository as a stream: shards in the order of seed and pass, whole in every worker of a loader."""

import io
import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hubserver import HubError

STREAM = """
import json, sys
from tinyseq.corpus.loading import stream_corpus

def stream(**options):
    return stream_corpus("alice/shards", source="en", target="es", **options)

def show(pairs):
    print("result", json.dumps(list(pairs)))
"""
ROWS = [5, 1, 4, 2, 3]  # of each shard; the second row of a shard, where there is one, has no target


def result(done):
    """What the script has shown; `datasets` may write lines of its own."""
    assert done.code == 0, done.err
    return [json.loads(line.removeprefix("result ")) for line in done.out.splitlines() if line.startswith("result ")]


@pytest.fixture
def shards(hub):
    """A private data set of five Parquet files."""
    files = {}
    for shard, number in enumerate(ROWS):
        rows = [{"id": 7, "en": f"{shard} {row}", "es": None if row == 1 else f"t {row}"} for row in range(number)]
        file = io.BytesIO()
        pq.write_table(
            pa.Table.from_pylist(rows, schema=pa.schema({"id": pa.int64(), "en": pa.string(), "es": pa.string()})),
            file,
            row_group_size=2,
        )
        files[f"data/train-{shard:05}-of-00005.parquet"] = file.getvalue()
    return hub.create("alice/shards", files, kind="datasets", private=True)


def test_shards_of_a_repository_come_whole_in_an_order_of_seed_and_pass(one_client, shards):
    script = (
        STREAM
        + """
show([[list(stream(seed=seed).pairs(epoch)) for epoch in range(3)] for seed in (1, 2)])
one = stream(seed=1)
show([list(one.pairs(epoch)) for epoch in (2, 0, 1)])
show([one.report.rows, one.report.counts, one.report.places["target side blank"]])
"""
    )
    by_seed, again, (rows, counts, places) = result(one_client.python(script))

    orders = set()
    for pairs in (pairs for passes in by_seed for pairs in passes):
        order = list(dict.fromkeys(source.split()[0] for _, source, _ in pairs))
        expected, row_of_pass = [], 0
        for shard in order:
            for row in range(ROWS[int(shard)]):
                row_of_pass += 1
                if row != 1:
                    expected.append([row_of_pass, f"{shard} {row}", f"t {row}"])
        assert pairs == expected
        assert sorted(order) == list("01234")
        orders.add(tuple(order))
    assert len(orders) > 3
    assert again == [by_seed[0][epoch] for epoch in (2, 0, 1)]
    assert (rows, counts) == (45, {"target side blank": 12})
    assert all(place.startswith("alice/shards train shard ") and place.endswith(" row 2") for place in places)


def test_a_pass_from_a_row_on_gives_its_rest_and_nothing_is_left_on_the_disk(one_client, shards):
    script = (
        STREAM
        + """
one = stream(seed=3)
show(one.pairs(1))
show([list(one.pairs(1, skip)) for skip in range(17)])
"""
    )
    whole, rests = result(one_client.python(script))

    assert len(whole) == 11
    assert rests == [[pair for pair in whole if pair[0] > skip] for skip in range(17)]
    assert [path for path in one_client.hf_home.rglob("*") if path.suffix in (".arrow", ".parquet")] == []


def test_each_worker_of_a_loader_gets_the_whole_stream(one_client, shards):
    script = (
        STREAM
        + """
import torch

class Rows(torch.utils.data.IterableDataset):
    def __iter__(self):
        return one.pairs(2, skip=3)

one = stream(seed=5)
show(one.pairs(2, skip=3))  # the connections of this process are open when the workers are forked
show(torch.utils.data.DataLoader(Rows(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60))
"""
    )
    expected, got = result(one_client.python(script))

    assert len(expected) >= 7
    assert sorted(got) == sorted(expected * 2)


def test_a_shard_that_cannot_be_had_ends_the_pass_with_its_name(one_client, hub, shards):
    script = (
        STREAM
        + """
one = stream(seed=1)
try:
    show(one.pairs())
except ValueError as error:
    show([str(error)])
"""
    )
    hub.fail("GET", "*/resolve/*/train-00002-*.parquet", HubError(403, "the storage is closed"), times=math.inf)

    ((message,),) = result(one_client.python(script))

    assert message.startswith("alice/shards train shard 3: `datasets` cannot read it: ")
    assert "the storage is closed" in message


def test_what_is_not_there_is_refused_before_the_first_pass(one_client, shards):
    script = (
        STREAM
        + """
for options in ({"split": "test"}, {"revision": "v9"}, {"drop": ["duplicate"]}):
    try:
        stream(**options)
    except ValueError as error:
        show([str(error)])
"""
    )
    (split,), (revision,), (drop,) = result(one_client.python(script))

    assert "alice/shards: split='test' is not there; found 'train'" in split
    assert "v9" in revision
    assert "drop='duplicate' is not for a stream" in drop


def test_the_command_corpus_reports_on_a_data_set_and_its_revision(one_client, hub, shards):
    shards.tags["v1"] = shards.find("main").id
    sides = ("--source", "en", "--target", "es")

    done = one_client.tinyseq("corpus", "alice/shards", *sides, "--dataset_revision", "v1", "--json")
    missing = one_client.tinyseq("corpus", "alice/shards", *sides, "--dataset_revision", "v9")

    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["pairs"], found["report"]["rows"]) == (11, 15)
    assert found["report"]["reasons"]["target side blank"]["dropped"] == 4
    assert (missing.code, missing.out) == (2, "")
    assert "v9" in missing.err.splitlines()[-1]
    assert "Traceback" not in missing.err
