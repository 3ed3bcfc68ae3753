"""A recorded tree answers like a machine, and like no other machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kboot.host.kernel_clock import KernelClock
from kboot.host.recorded import RecordedHost
from kboot.host.types import DiskSpace, Printed


def tree(root: Path, files: dict[str, str]) -> RecordedHost:
    """Write the files and return a host that reads them."""
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return RecordedHost(root)


def test_files_are_read_below_the_root(tmp_path: Path) -> None:
    """An absolute path of the machine is one of the tree; trailing newlines go."""
    host = tree(tmp_path, {"/sys/devices/system/cpu/online": "0-3\n"})

    assert "0-3" == host.read_text("/sys/devices/system/cpu/online")
    assert ("cpu",) == host.names("/sys/devices/system")
    assert (True, False) == (host.exists("/sys"), host.exists("/etc/passwd"))


def test_no_path_leaves_the_root(tmp_path: Path) -> None:
    """Neither '..' nor links, relative or absolute, reach a file outside."""
    root = tmp_path / "root"
    (tmp_path / "secret").write_text("outside")
    host = tree(root, {"/etc/x": "inside", "/secret": "the tree's own"})
    (root / "up").symlink_to("../../secret")
    (root / "etc" / "abs").symlink_to("/secret")
    (root / "folder").symlink_to(tmp_path)

    for path in ("/../secret", "/etc/../../secret", "/up", "/etc/abs"):
        assert "the tree's own" == host.read_text(path)
    with pytest.raises(FileNotFoundError):
        host.read_text("/folder/secret")


def test_a_link_in_the_path_is_followed_inside_the_tree(tmp_path: Path) -> None:
    """/var/lib/kboot may be a link to another disk, of the recorded machine."""
    host = tree(tmp_path, {"/mnt/nvme/kboot/x": "here"})
    (tmp_path / "var/lib").mkdir(parents=True)
    (tmp_path / "var/lib/kboot").symlink_to("/mnt/nvme/kboot")

    assert ("here", "/mnt/nvme/kboot") == (host.read_text("/var/lib/kboot/x"), host.link_target("/var/lib/kboot"))


def test_a_link_to_itself_ends(tmp_path: Path) -> None:
    """A loop is an OSError, as on a machine."""
    host = tree(tmp_path, {})
    (tmp_path / "loop").symlink_to("/loop")

    with pytest.raises(OSError, match="symbolic links"):
        host.read_text("/loop")
    assert not host.exists("/loop")


def test_our_paths_lose_the_root(tmp_path: Path) -> None:
    """What find_paths gives below --root is asked by the machine's own name."""
    host = RecordedHost(tmp_path)

    assert "/var/lib/kboot" == host.machine_path(tmp_path / "var/lib/kboot")
    assert "/elsewhere" == host.machine_path(Path("/elsewhere"))


def test_what_a_tree_does_not_say_is_an_os_error(tmp_path: Path) -> None:
    """Nothing is guessed; a user id is 0 and a missing nvml.json a machine without a driver."""
    host = tree(tmp_path, {"/proc/self/status": "Name:\tcat\n"})

    for ask in (host.affinity, host.hostname, host.limits, lambda: host.disk_space("/"), lambda: host.names("/no")):
        with pytest.raises(OSError):
            ask()
    assert (False, 0, {}) == (host.live, host.uid(), dict(host.environ()))
    assert {"nvml_init": "LIBRARY_NOT_FOUND"} == host.nvml(1)


def test_affinity_uid_and_limits_come_from_proc_self(tmp_path: Path) -> None:
    """The kernel's own forms; unlimited is None."""
    host = tree(
        tmp_path,
        {
            "/proc/self/status": "Uid:\t1000\t1001\t1000\t1000\nCpus_allowed_list:\t4-6,9\n",
            "/proc/self/limits": "Limit Soft Limit Hard Limit Units\n"
            "Max open files            1024                 524288               files     \n"
            "Max locked memory         8388608              unlimited            bytes     \n",
            "/proc/sys/kernel/hostname": "node-7\n",
        },
    )

    assert frozenset({4, 5, 6, 9}) == host.affinity()
    assert (1001, "node-7") == (host.uid(), host.hostname())
    assert {"nofile": (1024, 524288), "memlock": (8388608, None)} == dict(host.limits())


def test_disk_space_is_that_of_the_nearest_parent_recorded(tmp_path: Path) -> None:
    """The table has mount points; a path below counts by its mount."""
    table = {"/": {"total": 9, "free": 8, "inodes": 7}, "/mnt/nvme": {"total": 6, "free": 5, "inodes": 4}}
    host = tree(tmp_path, {"/disk_space.json": json.dumps(table)})

    assert DiskSpace(6, 5, 4) == host.disk_space("/mnt/nvme/kboot/hub")
    assert DiskSpace(9, 8, 7) == host.disk_space("/mnt/nvme2")


@pytest.mark.parametrize("text", ["{", "[]", "1"])
def test_a_broken_nvml_file_is_an_os_error(tmp_path: Path, text: str) -> None:
    """It names the file."""
    with pytest.raises(OSError, match=r"nvml\.json"):
        tree(tmp_path, {"/nvml.json": text}).nvml(1)


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    """Bytes that are no text do no harm."""
    host = tree(tmp_path, {"/a": "12345"})
    (tmp_path / "b").write_bytes(b"\xff1")

    assert ("123", "\ufffd1") == (host.read_text("/a", 3), host.read_text("/b"))
    assert os.fspath(tmp_path / "a") == os.fspath(host.locate("/a"))


def test_programs_and_the_clock_answer_as_they_did(tmp_path: Path) -> None:
    """By the whole command line; one that was not run then is as if it were not installed."""
    programs = {"smartctl -j /dev/sda": {"status": 4, "text": "{}"}, "nvme list": "text"}
    files = {"programs.json": json.dumps(programs), "clock.json": '{"synchronised": true, "error_s": 0.25}'}
    host = tree(tmp_path, files)

    assert Printed(4, "{}") == host.program(("smartctl", "-j", "/dev/sda"), 1.0)
    assert KernelClock(True, 0.25) == host.clock()
    with pytest.raises(FileNotFoundError):
        host.program(("smartctl", "-j", "/dev/sdb"), 1.0)
    with pytest.raises(OSError, match="wants a number status and a text"):
        host.program(("nvme", "list"), 1.0)
    with pytest.raises(FileNotFoundError):
        RecordedHost(tmp_path / "none").clock()


def test_names_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    """Nothing could print them."""
    (tmp_path / "sys").mkdir()
    os.mkdir(os.fsencode(tmp_path / "sys") + b"/\xff")
    (tmp_path / "sys" / "é").mkdir()

    assert ("é",) == RecordedHost(tmp_path).names("/sys")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"gpus": "\\ud800"}'])
def test_hostile_json_is_an_answer_or_an_os_error(tmp_path: Path, text: str) -> None:
    """Nothing that a file says ends in another exception, now or where it is printed."""
    host = tree(tmp_path, {"nvml.json": text})
    if text.startswith("["):
        with pytest.raises(OSError, match="nested too deep"):
            host.nvml(1.0)
    else:
        assert {"gpus": "?"} == host.nvml(1.0)
