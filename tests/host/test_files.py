"""Files that survive a crash: the old one or the new one, never a torn one."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from kboot.errors import ActionFailed, DoesNotFit, ExitStatus, KbootError
from kboot.host import files
from kboot.host.os_errors import explain_os_error
from kboot.host.stream import OutFile


def test_a_written_file_has_its_content_and_exactly_its_mode(tmp_path: Path) -> None:
    """The mode is what was asked, whatever the umask."""
    old = os.umask(0o077)
    try:
        files.atomic_write(tmp_path / "a", b"one", mode=0o644)
    finally:
        os.umask(old)

    assert (b"one", 0o644) == ((tmp_path / "a").read_bytes(), (tmp_path / "a").stat().st_mode & 0o777)


def test_writing_again_replaces_the_content_and_leaves_nothing_else(tmp_path: Path) -> None:
    """One name before, one name after."""
    files.atomic_write(tmp_path / "a", b"one")
    files.atomic_write(tmp_path / "a", b"two")

    assert ("two", ["a"]) == ((tmp_path / "a").read_text(), os.listdir(tmp_path))


def test_a_write_that_fails_keeps_the_old_file_and_cleans_up(tmp_path: Path) -> None:
    """A folder cannot be replaced by a file: the folder stays, the temporary file goes."""
    (tmp_path / "a" / "inside").mkdir(parents=True)

    with pytest.raises(KbootError):
        files.atomic_write(tmp_path / "a", b"one")

    assert (["a"], ["inside"]) == (os.listdir(tmp_path), os.listdir(tmp_path / "a"))


def test_a_reader_sees_the_old_or_the_new_file_whenever_the_writer_is_killed(tmp_path: Path) -> None:
    """kill -9 at any moment leaves one of the two contents whole."""
    target = tmp_path / "a"
    size = 300_000
    writer = (
        "import itertools, pathlib, sys\n"
        "from kboot.host.files import atomic_write\n"
        "for n in itertools.count():\n"
        f"    atomic_write(pathlib.Path(sys.argv[1]), bytes([n % 2]) * {size})\n"
        "    print(n, flush=True)\n"
    )
    for rounds in (1, 4):
        child = subprocess.Popen([sys.executable, "-c", writer, str(target)], stdout=subprocess.PIPE)
        assert child.stdout
        for _ in range(rounds):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        child.wait(30)
        child.stdout.close()

        content = target.read_bytes()
        assert (size, 1) == (len(content), len(set(content)))


def test_what_a_killed_writer_left_is_swept_by_age(tmp_path: Path) -> None:
    """Old temporary files go, young ones and everything else stay, and none of them is listed."""
    old, young, other = (tmp_path / name for name in (".kboot-old.tmp", ".kboot-young.tmp", "other.tmp"))
    for path in (old, young, other):
        path.touch()
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))

    assert ("other.tmp",) == files.list_names(tmp_path)
    assert 1 == files.sweep_temps(tmp_path, min_age_s=3600)
    assert {young.name, other.name} == set(os.listdir(tmp_path))


def test_folders_are_made_with_their_parents(tmp_path: Path) -> None:
    """Each new folder has the mode asked; one that is there already keeps its own."""
    (tmp_path / "a").mkdir(mode=0o700)

    files.make_dirs(tmp_path / "a" / "b" / "c", mode=0o750)
    files.make_dirs(tmp_path / "a" / "b" / "c", mode=0o700)

    assert [0o700, 0o750, 0o750] == [(tmp_path / p).stat().st_mode & 0o777 for p in ("a", "a/b", "a/b/c")]


def test_phases_side_by_side_make_the_same_parents(tmp_path: Path) -> None:
    """Nobody fails because another made the parent between two looks at it."""
    rounds, threads = 100, 4
    together = Barrier(threads)

    def make(number: int) -> None:
        for n in range(rounds):
            together.wait(timeout=60)
            files.make_dirs(tmp_path / str(n) / "state" / str(number))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(make, range(threads)))

    assert rounds * threads == len(list(tmp_path.glob("*/state/*")))


def test_a_file_in_the_way_of_a_folder_is_named(tmp_path: Path) -> None:
    """A path that runs through a file is our error, with the path."""
    (tmp_path / "a").touch()

    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(ActionFailed) as caught:
            files.make_dirs(path)
        assert (str(path),) == caught.value.where


def test_a_link_is_replaced_in_one_step(tmp_path: Path) -> None:
    """Over a link, over a file, and where there was nothing."""
    link = tmp_path / "serving"
    for target in ("one", "two"):
        files.replace_link(link, target)
        assert target == os.readlink(link)
    assert ["serving"] == os.listdir(tmp_path)


def test_a_file_on_the_same_disk_is_linked(tmp_path: Path) -> None:
    """No second copy of the bytes, and linking again changes nothing and leaves nothing."""
    (tmp_path / "a").write_bytes(b"shard")

    assert ["link", "link"] == [files.link_or_copy(tmp_path / "a", tmp_path / "b") for _ in range(2)]
    assert files.identity(tmp_path / "a") == files.identity(tmp_path / "b")
    assert {"a", "b"} == set(os.listdir(tmp_path))


def test_a_file_on_another_disk_is_copied(tmp_path: Path) -> None:
    """/dev/shm is another file system than the test's folder."""
    if not Path("/dev/shm").is_dir() or os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system here")
    source = Path("/dev/shm") / f"kboot-test-{os.getpid()}"
    source.write_bytes(b"shard")
    try:
        assert "copy" == files.link_or_copy(source, tmp_path / "b")
    finally:
        source.unlink()
    assert (b"shard", ["b"]) == ((tmp_path / "b").read_bytes(), os.listdir(tmp_path))


def test_any_write_changes_the_identity(tmp_path: Path) -> None:
    """Same size, same mtime: ctime still tells."""
    path = tmp_path / "shard"
    path.write_bytes(b"aaaa")
    before = files.identity(path)
    path.write_bytes(b"bbbb")
    os.utime(path, ns=(before.mtime_ns, before.mtime_ns))

    after = files.identity(path)

    assert (before.size_bytes, before.mtime_ns) == (after.size_bytes, after.mtime_ns)
    assert before != after


def test_identity_follows_links(tmp_path: Path) -> None:
    """A snapshot's link has the identity of the blob behind it."""
    (tmp_path / "blob").write_bytes(b"x")
    (tmp_path / "link").symlink_to("blob")

    assert files.identity(tmp_path / "blob") == files.identity(tmp_path / "link")


def test_a_small_file_that_is_not_small_is_refused(tmp_path: Path) -> None:
    """At the limit it is read, above it is an OSError."""
    (tmp_path / "a").write_bytes(b"12345")

    assert b"12345" == files.read_small(tmp_path / "a", 5)
    with pytest.raises(OSError, match="larger than 4 bytes"):
        files.read_small(tmp_path / "a", 4)


def test_removing_what_is_not_there_is_fine(tmp_path: Path) -> None:
    """Twice is as good as once, for files and folders."""
    (tmp_path / "a").touch()
    (tmp_path / "d" / "e").mkdir(parents=True)
    for _ in range(2):
        files.remove(tmp_path / "a")
        files.remove_tree(tmp_path / "d")

    assert [] == os.listdir(tmp_path)


def test_a_renamed_file_keeps_its_bytes_under_the_new_name(tmp_path: Path) -> None:
    """Across folders of one file system; the target is replaced."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "part").write_bytes(b"proven")
    (tmp_path / "sub" / "blob").write_bytes(b"old")

    files.rename(tmp_path / "part", tmp_path / "sub" / "blob")

    assert (b"proven", ["sub"]) == ((tmp_path / "sub" / "blob").read_bytes(), os.listdir(tmp_path))


@pytest.mark.parametrize(
    ("number", "kind", "code", "status"),
    [
        (errno.ENOSPC, DoesNotFit, "disk-full", ExitStatus.DOES_NOT_FIT),
        (errno.EDQUOT, DoesNotFit, "quota-exceeded", ExitStatus.DOES_NOT_FIT),
        (errno.EACCES, ActionFailed, "permission-denied", ExitStatus.ACTION_FAILED),
        (errno.EPERM, ActionFailed, "permission-denied", ExitStatus.ACTION_FAILED),
        (errno.EROFS, ActionFailed, "read-only-file-system", ExitStatus.ACTION_FAILED),
        (errno.ENOENT, ActionFailed, "path-missing", ExitStatus.ACTION_FAILED),
        (errno.ESTALE, ActionFailed, "storage-error", ExitStatus.ACTION_FAILED),
        (errno.EISDIR, ActionFailed, "path-missing", ExitStatus.ACTION_FAILED),
        (errno.ELOOP, ActionFailed, "path-missing", ExitStatus.ACTION_FAILED),
        (errno.EUCLEAN, ActionFailed, "storage-error", ExitStatus.ACTION_FAILED),
        (errno.EBADMSG, ActionFailed, "storage-error", ExitStatus.ACTION_FAILED),  # huggingface_hub#2193
        (errno.ENOTCONN, ActionFailed, "mount-gone", ExitStatus.ACTION_FAILED),  # s3fs-fuse#1228
        (errno.EHOSTDOWN, ActionFailed, "mount-gone", ExitStatus.ACTION_FAILED),
        (errno.ENOLCK, ActionFailed, "not-supported-there", ExitStatus.ACTION_FAILED),  # huggingface/datasets#2618
        (errno.ENOSYS, ActionFailed, "not-supported-there", ExitStatus.ACTION_FAILED),  # huggingface_hub#2399
        (errno.EFBIG, ActionFailed, "file-too-large", ExitStatus.ACTION_FAILED),
        (errno.EMFILE, ActionFailed, "too-many-open-files", ExitStatus.ACTION_FAILED),
        (errno.EBUSY, ActionFailed, "file-operation-failed", ExitStatus.ACTION_FAILED),
    ],
)
def test_an_errno_becomes_an_error_a_person_can_act_on(
    number: int, kind: type[KbootError], code: str, status: ExitStatus
) -> None:
    """Code, status, what was being done, and where."""
    error = explain_os_error(OSError(number, "x"), "write the ledger", Path("/var/lib/kboot/ledger.db"))

    assert (kind, code, status) == (type(error), error.code, error.status)
    assert error.message.startswith("cannot write the ledger: ")
    assert ("/var/lib/kboot/ledger.db",) == error.where


def test_the_file_system_of_a_memory_disk_has_no_uuid() -> None:
    """Only a block device has one."""
    assert files.fs_uuid(Path("/proc")) is None
    assert files.fs_uuid(Path("/no/such/path")) is None


def test_a_folder_that_its_file_system_will_not_make_is_an_error() -> None:
    """procfs says "no such file" of a new folder although its parent is there: that is said, not tried for ever."""
    with pytest.raises(ActionFailed, match="cannot make the folder"):
        files.make_dirs(Path("/proc/nowhere/at/all"))


def test_a_device_is_never_replaced(tmp_path: Path) -> None:
    """Root says /dev/null for a file that it does not want; a machine without one is broken."""
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this user may make no device")
    with pytest.raises(KbootError) as caught:
        files.atomic_write(device, b"x")
    with pytest.raises(KbootError), OutFile(device, 0o600) as out:
        out.commit()

    assert (str(device),) == caught.value.where
    assert stat.S_ISCHR(device.lstat().st_mode)
    assert ["null"] == os.listdir(tmp_path)
