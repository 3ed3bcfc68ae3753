"""How is a file of any size written so that its name means a whole one, and read without holding it?"""

from pathlib import Path

import pytest

from kboot.errors import ActionFailed
from kboot.host.stream import OutFile, open_to_read


def test_a_file_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    """Until commit the old one is there; afterwards the new one, and nothing else is left."""
    target = tmp_path / "a"
    target.write_text("old")
    with OutFile(target) as out:
        out.write(b"new")
        assert "old" == target.read_text()
        assert 3 == out.commit()

    assert ["a"] == [p.name for p in tmp_path.iterdir()]
    assert "new" == target.read_text()


def test_without_commit_nothing_is_left(tmp_path: Path) -> None:
    """An error on the way leaves the old file alone."""
    with pytest.raises(KeyError), OutFile(tmp_path / "a") as out:
        out.write(b"half")
        raise KeyError
    assert [] == list(tmp_path.iterdir())


def test_a_missing_folder_or_file_is_said(tmp_path: Path) -> None:
    """Ours, with the path, not a traceback."""
    with pytest.raises(ActionFailed), OutFile(tmp_path / "none/a"):
        pass
    with pytest.raises(ActionFailed):
        open_to_read(tmp_path / "none")
    (tmp_path / "a").write_bytes(b"ab")
    with open_to_read(tmp_path / "a") as file:
        assert b"ab" == file.read(5)
