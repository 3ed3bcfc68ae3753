"""What the cgroups allow, in both versions and in containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.facts.cgroup import allowed_cpus, memory_left_bytes, memory_limit_bytes, quota_cpus, throttling
from kboot.facts.reader import Reader
from kboot.facts.types import Throttling
from kboot.host.recorded import RecordedHost

V2_MOUNT = "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"


def reader(root: Path, files: dict[str, str]) -> Reader:
    """Write the files and return a reader of them."""
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text + "\n")
    return Reader(RecordedHost(root))


def test_the_tightest_value_on_the_path_holds(tmp_path: Path) -> None:
    """Version 2: a parent's limit binds though the leaf has a wider one."""
    top = "/sys/fs/cgroup"
    found = reader(
        tmp_path,
        {
            "/proc/self/cgroup": "0::/kubepods/pod1/main",
            "/proc/self/mountinfo": V2_MOUNT,
            f"{top}/kubepods/cpuset.cpus.effective": "0-15",
            f"{top}/kubepods/pod1/cpuset.cpus.effective": "8-23",
            f"{top}/kubepods/pod1/cpu.max": "150000 100000",
            f"{top}/kubepods/pod1/main/cpu.max": "400000 100000",
            f"{top}/kubepods/memory.max": "1000000",
            f"{top}/kubepods/pod1/main/memory.max": "max",
        },
    )

    assert (frozenset(range(8, 16)), 1.5, 1000000) == (
        allowed_cpus(found),
        quota_cpus(found),
        memory_limit_bytes(found),
    )


def test_no_more_than_memory_high_is_of_use(tmp_path: Path) -> None:
    """kubernetes#2570 and MemoryHigh= of a unit: above it every allocation waits until something else was given up."""
    top = "/sys/fs/cgroup/pod"
    limits = {f"{top}/memory.max": "8000000", f"{top}/memory.high": "6400000"}
    where = {"/proc/self/cgroup": "0::/pod", "/proc/self/mountinfo": V2_MOUNT}

    assert 6400000 == memory_limit_bytes(reader(tmp_path / "a", where | limits))
    assert 8000000 == memory_limit_bytes(reader(tmp_path / "b", where | limits | {f"{top}/memory.high": "max"}))


def test_files_in_memory_count_against_the_limit_and_page_cache_does_not(tmp_path: Path) -> None:
    """kubernetes/website#36453: weights in an emptyDir in memory are the pod's, though no process shows them."""
    top = "/sys/fs/cgroup"
    where = {"/proc/self/cgroup": "0::/pod/main", "/proc/self/mountinfo": V2_MOUNT}
    pod = {
        f"{top}/pod/memory.max": "1000",
        f"{top}/pod/memory.current": "900",
        f"{top}/pod/memory.stat": "file 750\nshmem 600\nactive_file 50\ninactive_file 100\nslab_reclaimable 10",
    }
    main = {f"{top}/pod/main/memory.max": "400", f"{top}/pod/main/memory.current": "60"}

    full = {f"{top}/pod/main/memory.current": "500"}

    found = reader(tmp_path / "a", where | pod | main)
    assert (400, 260) == (memory_limit_bytes(found), memory_left_bytes(found))
    assert 340 == memory_left_bytes(reader(tmp_path / "b", where | main))
    assert 0 == memory_left_bytes(reader(tmp_path / "c", where | main | full))
    assert memory_left_bytes(reader(tmp_path / "d", where)) is None


def test_version_1_has_a_folder_for_each_controller(tmp_path: Path) -> None:
    """Mount points come from mountinfo; -1 and the largest number are no limits."""
    found = reader(
        tmp_path,
        {
            "/proc/self/cgroup": "4:memory:/job\n3:cpuset:/job\n2:cpu,cpuacct:/job\n0::/",
            "/proc/self/mountinfo": "33 31 0:30 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
            "34 31 0:31 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n"
            "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory",
            "/cg/cpu/cpu.cfs_quota_us": "-1",
            "/cg/cpu/cpu.cfs_period_us": "100000",
            "/cg/cpu/job/cpu.cfs_quota_us": "250000",
            "/cg/cpu/job/cpu.cfs_period_us": "100000",
            "/cg/cpuset/job/cpuset.effective_cpus": "2-3",
            "/cg/memory/job/memory.limit_in_bytes": "9223372036854771712",
            "/cg/memory/memory.limit_in_bytes": "68719476736",
            "/cg/memory/memory.usage_in_bytes": "34359738368",
            "/cg/memory/memory.stat": "active_file 7\ntotal_active_file 8589934592\ntotal_inactive_file 8589934592",
        },
    )

    assert (frozenset({2, 3}), 2.5, 64 << 30) == (allowed_cpus(found), quota_cpus(found), memory_limit_bytes(found))
    assert 48 << 30 == memory_left_bytes(found)


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/docker/abc", "/docker/abc"),  # no namespace: the path is the host's, the mount starts at our cgroup
        ("/", "/"),  # a cgroup namespace
        ("/../..", "/../../init.scope"),  # a mount and a path told from another namespace
        ("/docker/abc", "/"),
    ],
)
def test_a_container_reads_what_its_mount_shows(tmp_path: Path, root: str, path: str) -> None:
    """However path and mount are told, the limit at the mount's top is ours."""
    found = reader(
        tmp_path,
        {
            "/proc/self/cgroup": f"0::{path}",
            "/proc/self/mountinfo": f"30 22 0:26 {root} /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
            "/sys/fs/cgroup/memory.max": "1000000",
        },
    )

    assert 1000000 == memory_limit_bytes(found)


def test_a_path_below_the_mounts_root_is_read_below_the_mount(tmp_path: Path) -> None:
    """/docker/abc/leaf under a mount of /docker/abc is /leaf."""
    found = reader(
        tmp_path,
        {
            "/proc/self/cgroup": "0::/docker/abc/leaf",
            "/proc/self/mountinfo": "30 22 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
            "/sys/fs/cgroup/leaf/memory.max": "5",
        },
    )

    assert 5 == memory_limit_bytes(found)


def test_no_cgroup_files_mean_no_limit(tmp_path: Path) -> None:
    """A machine without controllers limits nothing; that is no gap."""
    found = reader(tmp_path, {})

    assert (None, None, None, ()) == (allowed_cpus(found), quota_cpus(found), memory_limit_bytes(found), found.gaps)


def test_a_malformed_cpuset_is_a_gap(tmp_path: Path) -> None:
    """What cannot be understood limits nothing and is told."""
    found = reader(tmp_path, {"/sys/fs/cgroup/cpuset.cpus.effective": "all", "/sys/fs/cgroup/cpu.max": "some"})

    assert (None, None) == (allowed_cpus(found), quota_cpus(found))
    assert ["cpu.allowed"] == [gap.fact for gap in found.gaps]


def test_the_cgroup_that_was_stopped_longest_is_named(tmp_path: Path) -> None:
    """Version 2: a pod's quota stops the container in it, whose own file says nothing of that."""
    top = "/sys/fs/cgroup"
    found = reader(
        tmp_path,
        {
            "/proc/self/cgroup": "0::/kubepods/pod1/main",
            "/proc/self/mountinfo": V2_MOUNT,
            f"{top}/cpu.stat": "usage_usec 5",
            f"{top}/kubepods/pod1/cpu.stat": "usage_usec 9\nnr_periods 400\nnr_throttled 100\nthrottled_usec 2500000",
            f"{top}/kubepods/pod1/main/cpu.stat": "usage_usec 9\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0",
        },
    )

    assert Throttling(f"{top}/kubepods/pod1", 400, 100, 2.5) == throttling(found)


def test_version_1_counts_nanoseconds_and_any_process_can_be_asked_about(tmp_path: Path) -> None:
    """cpu.stat of pid 77's cgroup; a machine without the controller says nothing."""
    found = reader(
        tmp_path,
        {
            "/proc/77/cgroup": "3:cpu,cpuacct:/box",
            "/sys/fs/cgroup/cpu/box/cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 1500000000",
        },
    )

    assert Throttling("/sys/fs/cgroup/cpu/box", 10, 4, 1.5) == throttling(found, 77)
    assert throttling(reader(tmp_path / "other", {})) is None
