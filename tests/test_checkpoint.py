"""A folder is there whole or not at all."""

import pytest

from tinyseq.checkpoint import save_whole


def test_a_failed_write_leaves_the_folder_before_it_and_nothing_else(tmp_path):
    save_whole(tmp_path / "best", lambda folder: (folder / "weights").write_text("old"))

    def fail(folder):
        (folder / "weights").write_text("half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        save_whole(tmp_path / "best", fail)
    assert (tmp_path / "best" / "weights").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_a_second_save_replaces_every_file_of_the_first(tmp_path):
    save_whole(tmp_path / "run" / "best", lambda folder: (folder / "old").write_text("1"))
    save_whole(tmp_path / "run" / "best", lambda folder: (folder / "new").write_text("2"))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["best"]
    assert [path.name for path in (tmp_path / "run" / "best").iterdir()] == ["new"]


def test_remains_of_a_killed_write_are_cleared_away(tmp_path):
    (tmp_path / ".best.writing").mkdir()
    (tmp_path / ".best.writing" / "half").write_text("half")
    save_whole(tmp_path / "best", lambda folder: (folder / "weights").write_text("whole"))
    assert [path.name for path in (tmp_path / "best").iterdir()] == ["weights"]
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
