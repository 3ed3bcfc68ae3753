"""Only files are read as files."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from pathlib import Path

import pytest

from kboot.host.files import read_small, replace_link
from kboot.host.pagecache import Reading, new_buffer
from kboot.host.plain_file import open_plain
from kboot.host.real import RealHost
from kboot.host.recorded import RecordedHost


def test_a_pipe_that_nobody_writes_to_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Opened as a file it would block for ever; here it is an error, on this machine and in a recorded tree."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for read in (
        lambda: open_plain(pipe),
        lambda: read_small(pipe, 100),
        lambda: RealHost().read_text(str(pipe)),
        lambda: Reading(pipe, new_buffer(4096)),
        lambda: RecordedHost(tmp_path).read_text("/pipe"),
    ):
        with pytest.raises(OSError, match="is not a file") as caught:
            read()
        assert errno.EINVAL == caught.value.errno


def test_a_folder_and_a_socket_are_no_files(tmp_path: Path) -> None:
    """Each with the errno that says so."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        with pytest.raises(OSError):
            open_plain(tmp_path / "s")
    with pytest.raises(IsADirectoryError):
        open_plain(tmp_path)


def test_what_the_shell_opened_is_read_as_it_is() -> None:
    """`--config <(…)` names /dev/fd/N, which is a pipe."""
    reader, writer = os.pipe()
    os.write(writer, b"profile = 'demo'")
    os.close(writer)

    assert b"profile = 'demo'" == read_small(Path(f"/dev/fd/{reader}"), 100)
    os.close(reader)


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs /dev/shm")
def test_a_folder_in_dev_shm_is_like_any_other() -> None:
    """State may be kept in memory: a link there is replaced, and a pipe is no file."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        (folder / "link").symlink_to("old")
        replace_link(folder / "link", "new")
        os.mkfifo(folder / "pipe")
        with pytest.raises(OSError, match="is not a file"):
            open_plain(folder / "pipe")

        assert "new" == os.readlink(folder / "link")


def test_files_of_the_kernel_are_files() -> None:
    """procfs and sysfs give regular files."""
    assert RealHost().read_text("/proc/sys/kernel/ostype") == "Linux"
