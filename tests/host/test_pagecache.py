import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from kboot.host import pagecache
from kboot.host.pagecache import Reading, cold_ranges, must_ask, new_buffer, resident_bytes, resident_in

MIB = 1 << 20


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(4 * MIB + 3))
    evict(path)
    if resident_bytes(path) != 0:
        pytest.skip("this file system keeps its files in memory")
    return path


def evict(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def test_what_was_just_written_is_resident(tmp_path: Path) -> None:
    """All bytes, the part of the last page that the file has included."""
    path = tmp_path / "file"
    path.write_bytes(bytes(2 * MIB + 1))

    assert 2 * MIB + 1 == resident_bytes(path)
    assert () == cold_ranges(path, MIB)


def test_reading_a_part_makes_it_resident_and_measuring_does_not(cold: Path) -> None:
    """Measured, read, measured: only what was read came in (and what the kernel read ahead)."""
    assert 0 == resident_bytes(cold)
    assert ((0, MIB), (MIB, 2 * MIB), (2 * MIB, 3 * MIB), (3 * MIB, 4 * MIB), (4 * MIB, 4 * MIB + 3)) == cold_ranges(
        cold, MIB
    )

    with Reading(cold, new_buffer(MIB), 0, MIB) as reading:
        assert MIB == sum(len(data) for data in reading)

    assert MIB <= (resident_bytes(cold) or 0)
    assert (0, MIB) not in cold_ranges(cold, MIB)


def test_reading_to_the_end_leaves_everything_resident(cold: Path) -> None:
    """Bytes come in order, each once, in a buffer smaller than the file."""
    seen = bytearray()
    with Reading(cold, new_buffer(MIB)) as reading:
        for data in reading:
            seen += data

    assert cold.stat().st_size == resident_bytes(cold)
    assert cold.read_bytes() == seen


@pytest.mark.parametrize(
    ("window_kib", "asks"),
    [("128", True), ("1024", False), ("15360", False), (None, False), ("not a number", False)],
)
def test_the_kernel_is_asked_ahead_where_a_small_window_meets_a_network(
    window_kib: str | None, asks: bool, tmp_path: Path
) -> None:
    """A device number without a disk, and a read-ahead window that is known to be small: NFS as it comes, FUSE."""
    if window_kib is not None:
        (tmp_path / "0:49").mkdir()
        (tmp_path / "0:49" / "read_ahead_kb").write_text(f"{window_kib}\n")

    assert asks == must_ask(os.makedev(0, 49), tmp_path)
    assert not must_ask(os.makedev(259, 3), tmp_path)


def test_what_is_asked_for_comes_without_being_read(cold: Path) -> None:
    """Asking ahead brings the pages in, up to where it was asked for."""
    fd = os.open(cold, os.O_RDONLY)
    try:
        assert 2 * MIB <= pagecache._ask_ahead(fd, 0, 2 * MIB)
    finally:
        os.close(fd)

    assert 0 < (resident_in(cold, [(0, 2 * MIB)]) or 0)


def test_a_stretch_is_read_alone(tmp_path: Path) -> None:
    """start and end are kept to the byte."""
    path = tmp_path / "file"
    path.write_bytes(bytes(range(100)))

    with Reading(path, new_buffer(16), 10, 50) as reading:
        assert bytes(range(10, 50)) == b"".join(bytes(data) for data in reading)


def test_a_file_that_gets_shorter_ends_the_reading(tmp_path: Path) -> None:
    """Nobody waits for bytes that are gone."""
    path = tmp_path / "file"
    path.write_bytes(bytes(100))

    with Reading(path, new_buffer(16)) as reading:
        os.truncate(path, 20)
        assert 20 == sum(len(data) for data in reading)


def _both(fd: int) -> tuple[int | None, int | None]:
    return pagecache._cachestat(fd, 0, 4 * MIB + 3), pagecache._mincore(fd, 0, 4 * MIB + 3)


def test_both_ways_of_asking_agree(cold: Path) -> None:
    """Kernels before 6.5 are asked with mincore; on one that knows cachestat the two say the same."""
    with Reading(cold, new_buffer(MIB), MIB, 3 * MIB) as reading:
        assert 2 * MIB == sum(len(data) for data in reading)
    fd = os.open(cold, os.O_RDONLY)
    try:
        if pagecache._cachestat(fd, 0, 4 * MIB + 3) is None:
            pytest.skip("this kernel has no cachestat")
        deadline = time.monotonic() + 60.0  # cachestat counts pages whose read-ahead is still on its way
        while (said := _both(fd)) and said[0] != said[1] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert said[0] == said[1]
    finally:
        os.close(fd)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_residency_of_anothers_file_is_not_guessed(tmp_path: Path) -> None:
    """mincore calls every page of a file resident that the caller may not write: not measured is the answer."""
    path = tmp_path / "file"
    path.write_bytes(bytes(MIB))
    fd = os.open(path, os.O_RDONLY)
    reader, writer = os.pipe()
    if not (pid := os.fork()):
        try:
            os.setuid(65534)
            os.write(writer, repr(pagecache._mincore(fd, 0, MIB)).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    os.close(fd)
    with os.fdopen(reader) as pipe:
        assert "None" == pipe.read()


def test_an_empty_file_is_wholly_resident(tmp_path: Path) -> None:
    """Nothing is cold about no bytes."""
    (tmp_path / "empty").touch()

    assert (0, ()) == (resident_bytes(tmp_path / "empty"), cold_ranges(tmp_path / "empty", MIB))


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """The caller decides what that means."""
    with pytest.raises(FileNotFoundError):
        resident_bytes(tmp_path / "nowhere")


def read_past_cache(path: Path) -> bytes:
    with Reading(path, new_buffer(MIB), past_cache=True) as reading:
        return b"".join(bytes(data) for data in reading)


def test_reading_past_the_cache_leaves_it_as_it_was(cold: Path) -> None:
    """A scrub takes no memory from the engine: what was cold stays cold, what was warm stays warm; all bytes come."""
    assert cold.stat().st_size == len(read_past_cache(cold))
    assert 0 == resident_bytes(cold)

    content = cold.read_bytes()
    warm = resident_bytes(cold)
    assert content == read_past_cache(cold)
    assert warm == resident_bytes(cold)


def test_files_in_memory_can_be_read_past_the_cache_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    """tmpfs has no O_DIRECT on older kernels, and nothing to evict."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(bytes(range(256)) * 5000)
        file.flush()

        assert bytes(range(256)) * 5000 == read_past_cache(Path(file.name))


def test_residency_of_ranges_counts_them_alone(cold: Path) -> None:
    """What was read is asked for, not what is there besides."""
    with open(cold, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # the kernel reads nothing ahead
        os.pread(file.fileno(), MIB, MIB)

    assert MIB == resident_in(cold, [(MIB, 2 * MIB)])
    assert MIB == resident_in(cold, [(MIB, 2 * MIB), (3 * MIB, 4 * MIB)])
    assert 0 == resident_in(cold, [(3 * MIB, 4 * MIB), (4 * MIB, 4 * MIB + 3)])


def test_a_file_of_a_container_layer_is_measured_as_well(tmp_path: Path) -> None:
    """On overlayfs a file is as resident as the layer's own, just written and dropped again."""
    folders = [tmp_path / name for name in ("lower", "upper", "work", "merged")]
    for folder in folders:
        folder.mkdir()
    lower, upper, work, merged = folders
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    if subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, merged], capture_output=True).returncode:
        pytest.skip("cannot mount here")
    try:
        file = merged / "file"
        file.write_bytes(b"x" * 300_000)
        written = resident_bytes(file)
        evict(file)
        dropped, of_the_layer = resident_bytes(file), resident_bytes(upper / "file")
    finally:
        subprocess.run(["umount", merged], check=True)

    assert 300_000 == written
    assert of_the_layer == dropped
