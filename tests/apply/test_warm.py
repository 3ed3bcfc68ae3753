import importlib.util
import os
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

import pytest

from kboot.apply.warm import not_kept, slow_faults, warm_files
from kboot.checkpoint import Listing
from kboot.events import Event, FileDone, Notice
from kboot.host.pagecache import resident_bytes, resident_in
from kboot.plan.types import WarmFile
from kboot.report.types import Outcome
from kboot.store.store import Store

_spec = importlib.util.spec_from_file_location("checkpoints", Path(__file__).parents[1] / "fakes" / "checkpoints.py")
assert _spec and _spec.loader
fake = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fake)

MIB = 1 << 20


@cache
def contents() -> dict[str, bytes]:
    return {f"model-{n}.safetensors": fake.shard({"w": 16 * MIB}, n) for n in range(3)}


@cache
def listed() -> Listing:
    listing: Listing = fake.listing(contents())
    return listing


class Node:
    def __init__(self, folder: Path) -> None:
        self.store = Store(fake.paths_in(folder))
        fake.fetch_all(self.store, listed(), contents())
        self.told: list[Event] = []
        self.stop = threading.Event()

    def blobs(self) -> list[Path]:
        return [self.store.blob_path(listed().repo, f.blob_id) for f in listed().files]

    def warm(self, budget_bytes: int) -> tuple[Outcome, ...]:
        actions = [WarmFile(f, 0, "test") for f in listed().files]
        return warm_files(actions, listed(), self.store, budget_bytes, self.told.append, self.stop)

    def resident(self) -> list[int]:
        return [resident_bytes(blob) or 0 for blob in self.blobs()]


@pytest.fixture
def cold(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    for blob in node.blobs():
        fd = os.open(blob, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    if any(node.resident()):
        pytest.skip("this file system keeps its files in memory")
    return node


def is_warm(resident: int, size: int) -> bool:
    """Whether all but a few pages are there: a machine that is short of memory may take some back at any moment."""
    return size * 0.98 <= resident <= size


def test_cold_files_are_read_and_measured(cold: Node) -> None:
    """Before and after are what the kernel says, not what was read."""
    outcomes = cold.warm(1 << 40)

    sizes = [f.size_bytes for f in listed().files]
    assert all(map(is_warm, cold.resident(), sizes))
    assert ["done"] * 3 == [o.status for o in outcomes]
    assert [f"0 of {size} bytes in the page cache" for size in sizes] == [o.before for o in outcomes]
    assert all(is_warm(int(o.after.split()[0]), size) for o, size in zip(outcomes, sizes))
    assert sizes == [o.size_bytes for o in outcomes]
    assert 3 == len([e for e in cold.told if isinstance(e, FileDone)])


def test_only_what_this_nodes_ranks_load_is_read(cold: Node) -> None:
    """Four of sixteen MiB, in two stretches; before and after are about those."""
    ranges = ((0, 2 * MIB), (8 * MIB, 10 * MIB))
    action = WarmFile(listed().files[0], 0, "test", ranges)
    (outcome,) = warm_files([action], listed(), cold.store, 1 << 40, cold.told.append, cold.stop)

    assert (4 * MIB, f"0 of {4 * MIB} bytes in the page cache") == (outcome.size_bytes, outcome.before)
    assert is_warm(resident_in(cold.blobs()[0], ranges) or 0, 4 * MIB)
    assert [0, 0] == cold.resident()[1:]
    again = (warm_files([action], listed(), cold.store, 1 << 40, cold.told.append, cold.stop)[0] for _ in range(20))
    assert any(outcome.size_bytes < MIB for outcome in again), "what is there is not read again"


def test_warm_files_are_not_read_again(cold: Node) -> None:
    """A later pass has nothing to do, once the machine takes no page back in between."""
    passes = ([(o.status, o.size_bytes) for o in cold.warm(1 << 40)] for _ in range(20))

    assert [("unchanged", 0)] * 3 in passes


def test_only_what_is_not_resident_is_read(cold: Node) -> None:
    """Half of a file that is there already costs nothing, and the bytes are those that were missing."""
    with cold.blobs()[0].open("rb") as blob:
        os.posix_fadvise(blob.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # the kernel reads nothing ahead
        os.pread(blob.fileno(), 9 * MIB, 0)
    there = cold.resident()[0]

    outcome = cold.warm(1 << 40)[0]

    assert 9 * MIB <= there < listed().files[0].size_bytes
    assert listed().files[0].size_bytes - there <= outcome.size_bytes <= listed().files[0].size_bytes - 8 * MIB
    assert is_warm(cold.resident()[0], listed().files[0].size_bytes)


def test_a_file_that_was_almost_warm_is_not_taken_for_one_that_does_not_stay(cold: Node) -> None:
    """One page was cold: its whole window is read, that page counts as read, and memory holds all of it."""
    cold.warm(1 << 40)
    cold.told.clear()
    fd = os.open(cold.blobs()[0], os.O_RDONLY)
    os.posix_fadvise(fd, 0, 4096, os.POSIX_FADV_DONTNEED)
    os.close(fd)

    outcomes = cold.warm(1 << 40)

    assert ("done", True) == (outcomes[0].status, 0 < outcomes[0].size_bytes < 8 * MIB)
    assert [] == [e for e in cold.told if isinstance(e, Notice)]


def test_the_budget_ends_the_reading(cold: Node) -> None:
    """Not more than the memory for it is read, whichever thread comes first."""
    outcomes = cold.warm(20 * MIB)

    assert 20 * MIB == sum(o.size_bytes for o in outcomes)
    assert sum(f.size_bytes for f in listed().files) > sum(cold.resident())


def test_without_memory_for_it_nothing_is_read(cold: Node) -> None:
    """Every file is skipped with the reason."""
    outcomes = cold.warm(0)

    assert {("skipped", "the memory for warming is used up")} == {(o.status, o.reason) for o in outcomes}
    assert [0, 0, 0] == cold.resident()


def test_once_stopped_nothing_more_is_read(cold: Node) -> None:
    """SIGTERM does not wait for a terabyte."""
    cold.stop.set()

    assert {"skipped"} == {o.status for o in cold.warm(1 << 40)}


def test_a_file_that_is_gone_fails_alone(cold: Node) -> None:
    """The others are warmed."""
    cold.blobs()[1].unlink()

    outcomes = cold.warm(1 << 40)

    assert ["done", "failed", "done"] == [o.status for o in outcomes]
    assert outcomes[1].error is not None
    assert "path-missing" == outcomes[1].error.code


IN_A_SMALL_CGROUP = """
import os, sys, pathlib
group, source, folder = map(pathlib.Path, sys.argv[1:])
import importlib.util
spec = importlib.util.spec_from_file_location("test_warm", source)
test_warm = importlib.util.module_from_spec(spec)
spec.loader.exec_module(test_warm)
store = test_warm.Store(test_warm.fake.paths_in(folder))
node = object.__new__(test_warm.Node)
node.store, node.told, node.stop = store, [], test_warm.threading.Event()
test_warm.listed()  # made before there is a limit
(group / "cgroup.procs").write_text(str(os.getpid()))
outcomes = node.warm(1 << 40)
print([e.event for e in node.told if hasattr(e, "event")], [o.status for o in outcomes])
"""


@pytest.fixture
def small_cgroup(request: pytest.FixtureRequest):
    """A memory cgroup of 32 MiB; skipped where this process may not make one."""
    for root, limit in (
        (Path("/sys/fs/cgroup"), "memory.max"),
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    ):
        group = root / f"kboot-test-{os.getpid()}"
        if not (root / "cgroup.procs").exists():
            continue
        try:
            group.mkdir()
            request.addfinalizer(group.rmdir)
            (group / limit).write_text(str(32 * MIB))
        except OSError:
            continue
        return group
    pytest.skip("no memory cgroup can be made here")


def test_a_memory_limit_that_defeats_warming_is_noticed(cold: Node, tmp_path: Path, small_cgroup: Path) -> None:
    """With 32 MiB of memory 48 MiB do not stay: it is measured and said, instead of reading on and evicting."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_SMALL_CGROUP, str(small_cgroup), __file__, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "warm.not_kept" in done.stdout, done.stderr


def test_a_file_system_with_a_cache_of_its_own_is_not_taken_for_a_lack_of_memory() -> None:
    """openzfs/zfs#15010: what ZFS keeps is in no page cache, so that nothing of a file seems to stay."""
    assert "cache of its own (ZFS" in not_kept("a", 48 * MIB, 0).text
    assert "cache of its own" not in not_kept("a", 48 * MIB, 16 * MIB).text


def test_mapping_that_crawls_is_told_with_its_time() -> None:
    """28 MiB/s of a network file system whose large reads give GB/s; a disk that is slow in both says nothing."""
    told = slow_faults(1 << 40, 2e9, 28 * MIB)

    assert told is not None and "warm.slow_faults" == told.event
    assert "10 h" in told.text and "prefetch" in told.text
    assert slow_faults(1 << 40, 30 * MIB, 28 * MIB) is None
    assert slow_faults(1 << 40, 2e9, 900 * MIB) is None
