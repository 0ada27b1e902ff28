"""The design is what the pages say: no circles of imports, files of a length to read, all of them in the tour."""

import ast
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path.relative_to(ROOT) for path in (ROOT / "tinyseq").rglob("*.py"))
LONGEST = {"tinyseq/modeling_tinyseq.py": 900, "tinyseq/grammar/lexicon.py": 600, "train.py": 300}


def imported(path):
    """The files of the package that a file imports, at its top or in a function."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = path.parents[node.level - 1] if node.level else Path()
            module = base / (node.module or "").replace(".", "/")
            names = [module / alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            module, names = None, [Path(alias.name.replace(".", "/")) for alias in node.names]
        else:
            continue
        for name in names:  # a module of that name, or a name in a module
            candidates = [name.with_suffix(".py"), name / "__init__.py"]
            if module is not None:
                candidates += [module.with_suffix(".py"), module / "__init__.py"]
            found |= set([file for file in candidates if file in FILES][:1])
    return found - {path}


def test_no_two_files_import_each_other_by_whatever_way():
    graph = {path: imported(path) for path in FILES}
    assert graph[Path("tinyseq/training/run.py")] >= {Path("tinyseq/training/options.py"), Path("tinyseq/hub/card.py")}
    list(graphlib.TopologicalSorter(graph).static_order())  # names a circle, if there is one


def test_data_flow_one_way_through_the_rooms():
    """A room imports from those before it; what comes later may be taken by a function only when it is called."""
    order = ["grammar", "corpus", "batching", "hub", "training"]
    for path in FILES:
        room = path.parts[1]
        if room in order:
            later = {file.parts[1] for file in imported(path)} & {*order[order.index(room) + 1 :], "cli", "attention"}
            assert later <= ({"attention"} if path.name == "log.py" else set()), path  # which draws a curve


@pytest.mark.parametrize("path", [*FILES, Path("train.py")], ids=str)
def test_a_file_can_be_held_in_the_head(path):
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LONGEST.get(path.as_posix(), 500)


def test_the_loop_of_train_py_is_a_page():
    tree = ast.parse((ROOT / "train.py").read_text(encoding="utf-8"))
    lengths = {node.name: node.end_lineno - node.lineno + 1 for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert lengths["train"] <= 80


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/overview.md"])
def test_the_tour_and_the_overview_name_every_file(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = [path for path in [*FILES, Path("train.py")] if path.name not in ("__init__.py", "__main__.py")]
    assert [str(path) for path in named if f"`{path.as_posix()}`" not in text] == []


@pytest.mark.parametrize("room", sorted({path.parent for path in FILES}), ids=str)
def test_each_room_says_what_it_is_for(room):
    docstring = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8")))
    assert docstring
