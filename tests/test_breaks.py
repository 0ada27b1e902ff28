"""The list of deliberate breaks does not rot: `make test-breaks` tries them, and here is what they stand on."""

import ast
from pathlib import Path

import pytest
from breaks import BREAKS, ROOT

ROOMS = {"corpus", "grammar", "batching", "training", "attention", "hub", "cli"}


@pytest.mark.parametrize("one", BREAKS, ids=lambda one: one.file)
def test_a_break_is_of_code_that_is_there_and_is_still_python(one):
    whole = (ROOT / one.file).read_text(encoding="utf-8")

    assert whole.count(one.before) == 1
    broken = ast.parse(whole.replace(one.before, one.after))
    assert ast.dump(broken) != ast.dump(ast.parse(whole))


@pytest.mark.parametrize("one", BREAKS, ids=lambda one: one.file)
def test_the_tests_of_a_break_are_there(one):
    for test in one.tests.split():
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_there_are_breaks_in_every_room_and_no_two_are_the_same():
    assert len(BREAKS) >= 60
    assert {Path(one.file).parts[1] for one in BREAKS} >= ROOMS
    assert len({(one.file, one.before, one.after) for one in BREAKS}) == len(BREAKS)
    assert {one.file for one in BREAKS} >= {str(path.relative_to(ROOT)) for path in ROOT.glob("tinyseq/*_tinyseq.py")}
