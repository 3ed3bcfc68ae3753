import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kboot.errors import KbootError
from kboot.host.blocks import BlockFile, boot_id


def test_writes_and_reads_at_offsets(tmp_path: Path) -> None:
    """Bytes land where they were put; reading beyond the end gives fewer."""
    with BlockFile(tmp_path / "f") as blocks:
        blocks.write(memoryview(b"world"), 6)
        blocks.write(memoryview(b"hello "), 0)
        blocks.push(0, 11)
        blocks.settle(0, 11)
        blocks.sync()
        buffer = memoryview(bytearray(20))
        n = blocks.read_into(buffer, 0)

    assert b"hello world" == bytes(buffer[:n])


def test_others_may_read_it_whatever_the_umask(tmp_path: Path) -> None:
    """open-webui#27654: root fetches with umask 077, and the engine runs as a user of its own."""
    before = os.umask(0o077)
    try:
        BlockFile(tmp_path / "f").close()
    finally:
        os.umask(before)

    assert 0o644 == (tmp_path / "f").stat().st_mode & 0o777


def test_reserved_room_does_not_count_as_written(tmp_path: Path) -> None:
    """The length says how far bytes were written, whatever is reserved beyond."""
    with BlockFile(tmp_path / "f") as blocks:
        reserved = blocks.reserve(1 << 20)
        blocks.write(memoryview(b"x"), 9)

        assert 10 == blocks.size_bytes
        assert not reserved or blocks.taken_bytes >= 1 << 20
        blocks.truncate(10)
        assert 1 << 20 > blocks.taken_bytes


def test_a_file_in_memory_is_known(tmp_path: Path) -> None:
    """As its file system's type says, which a mount of another one does not change."""
    types = {line.split()[1]: line.split()[2] for line in Path("/proc/mounts").read_text().splitlines()}
    if types.get("/dev/shm") != "tmpfs" or not os.access("/dev/shm", os.W_OK):
        pytest.skip("no file system in memory here")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory, BlockFile(Path(memory) / "f") as blocks:
        assert blocks.is_in_memory
    mounts = [mount for mount in types if tmp_path.is_relative_to(mount)]
    with BlockFile(tmp_path / "f") as blocks:
        assert (types[max(mounts, key=len)] in ("tmpfs", "ramfs")) == blocks.is_in_memory


def test_room_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Reserving more than any file may have says what was wanted and where."""
    with BlockFile(tmp_path / "f") as blocks, pytest.raises(KbootError) as caught:
        blocks.reserve(1 << 62)

    assert str(1 << 62) in caught.value.message
    assert (str(tmp_path / "f"),) == caught.value.where


def test_a_lock_is_one_holders(tmp_path: Path) -> None:
    """While one open file has the lock another gets none; closing frees it."""
    with BlockFile(tmp_path / "f") as one, BlockFile(tmp_path / "f") as other:
        assert one.try_lock()
        assert not other.try_lock()
        one.close()
        assert other.try_lock()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A symbolic link under the partial's name is refused: it could lead anywhere."""
    (tmp_path / "f").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(KbootError):
        BlockFile(tmp_path / "f")
    assert not (tmp_path / "elsewhere").exists()


def test_boot_id_is_the_kernels() -> None:
    """The same kernel gives the same id."""
    assert boot_id() == boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_a_file_that_was_renamed_or_removed_meanwhile_is_noticed(tmp_path: Path) -> None:
    """Between opening and locking, another process may give a part its final name: that must not be written to."""
    path = tmp_path / "x.part"
    with BlockFile(path) as renamed, BlockFile(path) as again:
        assert renamed.is_named and again.is_named
        path.rename(tmp_path / "x")
        assert not renamed.is_named
        path.touch()
        assert not again.is_named


LETTING_GO_FAILS = """
import os, sys
from pathlib import Path
from kboot.host.blocks import BlockFile
path = Path(sys.argv[1])
blocks = BlockFile(path)
assert blocks.try_lock()
blocks.write(memoryview(b"bytes"), 0)
blocks.sync()
links = {fd: os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
(mine,) = [fd for fd, target in links.items() if target == os.path.realpath(path)]
os.close(int(mine))  # from here on the kernel answers its close with an error
blocks.close()
"""


def test_a_file_system_that_fails_at_letting_go_loses_nothing(tmp_path: Path) -> None:
    """B013: on some mounts the release of a lock fails after all is written and synced; the file counts."""
    path = tmp_path / "x.part"
    subprocess.run([sys.executable, "-c", LETTING_GO_FAILS, str(path)], timeout=60, check=True)

    assert b"bytes" == path.read_bytes()
