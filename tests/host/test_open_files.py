import os
from pathlib import Path

from kboot.host.open_files import may_be_open_elsewhere, open_in


def test_only_files_that_are_open_are_named(tmp_path: Path) -> None:
    """By any process that can be seen, this one included; closed again, they are free."""
    (tmp_path / "idle").touch()
    with (tmp_path / "busy").open("wb"):
        assert {"busy"} == open_in(tmp_path)
    assert frozenset() == open_in(tmp_path)


def test_files_of_another_process_are_seen_through_a_linked_folder(tmp_path: Path) -> None:
    """The kernel names the real path; the folder may be given by a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    reader, writer = os.pipe()
    fd = os.open(tmp_path / "real/part", os.O_CREAT | os.O_WRONLY)
    if not (pid := os.fork()):
        os.close(writer)
        os.read(reader, 1)  # holds fd until the parent lets go
        os._exit(0)
    os.close(fd)

    assert {"part"} == open_in(tmp_path / "link")

    os.close(writer)
    os.waitpid(pid, 0)
    assert frozenset() == open_in(tmp_path / "link")


def test_an_own_file_on_a_local_disk_has_no_hidden_owner(tmp_path: Path) -> None:
    """Every process that could have it open can be seen."""
    (tmp_path / "part").touch()

    assert not may_be_open_elsewhere(tmp_path / "part")
