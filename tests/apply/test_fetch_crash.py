"""Kill -9 during a fetch: at every step that changes the disk, and at hundreds of random moments."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fakes.checkpoints import framed, paths_in
from fakes.fetching import ASK, listing_of
from fakes.hub import REPO
from kboot.apply.fetch import fetch_files
from kboot.apply.verify import verify_files
from kboot.checkpoint import RemoteFile
from kboot.host import files
from kboot.host.blocks import boot_id
from kboot.plan.types import FetchFile, VerifyFile
from kboot.report.types import Outcome
from kboot.sources.local import Local
from kboot.store.part_trust import trust
from kboot.store.ranges import Ranges, subtract, total
from kboot.store.store import Store

MIB = 1 << 20
STEPS = {
    "chmod", "close", "copy_file_range", "execute", "executemany", "fdatasync", "fsync", "ftruncate", "link", "mkdir",
    "open", "pwrite", "rename", "replace", "symlink", "unlink",
}  # fmt: skip
KILLS = 500


def shard(size: int, seed: int) -> bytes:
    """Return a safetensors file of random bytes."""
    header = f'{{"w":{{"dtype":"U8","shape":[{size}],"data_offsets":[0,{size}]}}}}'.encode()
    return framed(header, random.Random(seed).randbytes(size))


FILES = {
    "model-00001-of-00002.safetensors": shard(17 * MIB, 1),
    "model-00002-of-00002.safetensors": shard(5 * MIB, 2),
    "config.json": b'{"model_type": "tiny"}',
}
LISTING = listing_of(FILES)
LARGE = LISTING.files[1]


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder that the bytes come from."""
    folder = tmp_path_factory.mktemp("origin")
    for path, content in FILES.items():
        (folder / path).write_bytes(content)
    return str(folder)


class Counted(Local):
    """A folder that counts the bytes it was asked for."""

    asked_bytes = 0

    def open(self, repo: str, commit: str, file: RemoteFile, start: int, end: int | None = None):  # type: ignore[no-untyped-def]
        self.asked_bytes += (file.size_bytes if end is None else end) - start
        return super().open(repo, commit, file, start, end)


def quiet(_: object) -> None:
    """Tell nobody."""


def fetch(folder: Path, source: Local) -> tuple[Outcome, ...]:
    """Do what a boot does: prove what has its name already, fetch the rest."""
    store, stop = Store(paths_in(folder)), threading.Event()
    states = {local.file: local.state for local in store.local(LISTING)}
    hashed = [VerifyFile(file, "full", "test") for file, state in states.items() if state == "present"]
    verify_files(hashed, LISTING, store, 1, quiet, stop)
    actions = [FetchFile(local.file, 0, "test") for local in store.local(LISTING) if local.state != "verified"]
    outcomes = fetch_files(actions, LISTING, [source], store, ASK, quiet, stop, 2)
    store.ledger.close()
    return outcomes


def die_before_step(number: int) -> None:
    """Arm this process and its threads to be killed just before the n-th change of the disk."""
    left, lock = number, threading.Lock()

    def watch(_frame: object, event: str, function: object) -> None:
        nonlocal left
        if event == "c_call" and getattr(function, "__name__", "") in STEPS:
            with lock:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(watch)
    sys.setprofile(watch)


def start(work: Callable[[], object]) -> int:
    """Run `work` in a process of its own; return its pid."""
    if pid := os.fork():
        return pid
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


@dataclass(frozen=True)
class Kept:
    """What a next run would build on: ranges of each file, the whole of it where it is verified."""

    ranges: dict[str, Ranges]

    @property
    def size_bytes(self) -> int:
        return sum(total(ranges) for ranges in self.ranges.values())


def kept(folder: Path) -> Kept:
    """Look what is there, and compare every byte that would be trusted with the right one."""
    store, ranges = Store(paths_in(folder)), {}
    for local in store.local(LISTING):
        file, content = local.file, FILES[local.file.path]
        blob, part = store.blob_path(REPO, file.blob_id), store.part_path(REPO, file.blob_id)
        if local.state == "verified":
            assert content == blob.read_bytes(), "a wrong file is trusted"
            ranges[file.path] = ((0, file.size_bytes),)
        elif local.state == "present" and content == blob.read_bytes():
            ranges[file.path] = ((0, file.size_bytes),)  # it is hashed first, and not fetched
        else:
            ranges[file.path] = trusted(part, file, content)
    return Kept(ranges)


def trusted(part: Path, file: RemoteFile, content: bytes) -> Ranges:
    try:
        found = files.identity(part)
    except OSError:
        return ()
    judged, _ = trust(part, file, found.inode, found.size_bytes, boot_id())
    with open(part, "rb") as data:
        for start, end in judged.ranges:
            data.seek(start)
            read = data.read(end - start)
            right = len(read) == end - start and content.startswith(read, start)
            assert right, f"wrong bytes are trusted in {start}-{end} of {file.path}"
    return judged.ranges


def check_nothing_lost(before: Kept, after: Kept) -> None:
    for path, ranges in after.ranges.items():
        lost = before.ranges[path]
        for start, end in ranges:
            lost = subtract(lost, start, end)
        assert () == lost, f"{path}: {lost} was here before"


def check_next_run_finishes(folder: Path, origin: str) -> None:
    """It needs nobody's help, asks for nothing that is here, and leaves nothing behind."""
    here, source = kept(folder), Counted(origin)
    assert all(o.error is None for o in fetch(folder, source))
    assert LISTING.size_bytes - here.size_bytes == source.asked_bytes
    store = Store(paths_in(folder))
    assert {"verified"} == {local.state for local in store.local(LISTING)}
    assert all(FILES[f.path] == store.blob_path(REPO, f.blob_id).read_bytes() for f in LISTING.files)
    store.sweep(REPO)
    assert {f.blob_id for f in LISTING.files} == {p.name for p in store.folder(REPO).blobs.iterdir()}


def kill_at_steps(folder: Path, origin: str, stride: int, prepare: Callable[[Path], None]) -> Iterator[Path]:
    """Kill a fetch before its first step, its second, …; yield each folder as it was left, until one run is through."""
    for step in range(1, 2000, stride):
        each = folder / str(step)
        prepare(each)

        def run(each: Path = each, step: int = step) -> None:
            die_before_step(step)
            fetch(each, Local(origin))

        status = os.waitpid(start(run), 0)[1]
        yield each
        shutil.rmtree(each)
        if status == 0:
            return
        assert signal.SIGKILL == os.WTERMSIG(status)
    raise AssertionError("the run has more steps than were tried")


@pytest.mark.parametrize("stride", [23, pytest.param(6, marks=pytest.mark.slow)])
def test_killed_before_any_step_of_a_fetch_no_byte_is_lost_and_none_is_wrong(
    memory_path: Path, origin: str, stride: int
) -> None:
    """What would be trusted is right; the next run asks for exactly the rest, and ends with every file proven."""
    killed = 0
    for folder in kill_at_steps(memory_path, origin, stride, lambda folder: None):
        check_next_run_finishes(folder, origin)
        killed += 1

    assert killed > 150 // stride


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory, origin: str) -> Path:
    """A node with everything, one byte of which is wrong in the middle of the large file, and that is known."""
    folder = tmp_path_factory.mktemp("damaged")
    fetch(folder, Local(origin))
    store, stop = Store(paths_in(folder)), threading.Event()
    with open(store.blob_path(REPO, LARGE.blob_id), "r+b") as blob:
        blob.seek(9 * MIB)
        blob.write(bytes([FILES[LARGE.path][9 * MIB] ^ 1]))
    verify_files([VerifyFile(LARGE, "full", "test")], LISTING, store, 1, quiet, stop)
    store.ledger.close()
    return folder


@pytest.mark.parametrize("stride", [23, pytest.param(3, marks=pytest.mark.slow)])
def test_killed_before_any_step_of_a_repair_the_damaged_file_or_the_whole_one_is_there(
    memory_path: Path, origin: str, damaged: Path, stride: int
) -> None:
    """Never neither, never another: and the next run ends with every file proven."""
    wrong = Store(paths_in(damaged)).blob_path(REPO, LARGE.blob_id).read_bytes()

    def prepare(folder: Path) -> None:
        shutil.copytree(damaged, folder, symlinks=True)
        store = Store(paths_in(folder))  # the copies have other inodes: what is known of them is written down anew
        for file in LISTING.files:
            mark = store.mark(store.blob_path(REPO, file.blob_id))
            store.record(LISTING, file, mark, "damaged" if file == LARGE else "fetch", "test")
        store.ledger.close()

    killed = 0
    for folder in kill_at_steps(memory_path, origin, stride, prepare):
        store = Store(paths_in(folder))
        assert store.blob_path(REPO, LARGE.blob_id).read_bytes() in (wrong, FILES[LARGE.path])
        assert all(o.error is None for o in fetch(folder, Local(origin)))
        assert FILES[LARGE.path] == store.blob_path(REPO, LARGE.blob_id).read_bytes()
        assert {"verified"} == {local.state for local in store.local(LISTING)}
        killed += 1

    assert killed > 50 // stride


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_at_random_moments_again_and_again_every_run_goes_on_where_the_last_was(
    memory_path: Path, origin: str
) -> None:
    """500 kills: after each, all that was trusted before still is, and it is right; then one run finishes."""
    dice, kills, number = random.Random(11), 0, 0
    while kills < KILLS:
        number += 1
        folder = memory_path / str(number)
        before, dies = kept(folder), True
        while dies and kills < KILLS:
            pid = start(lambda folder=folder: fetch(folder, Local(origin)))
            time.sleep(dice.uniform(0.0, 0.06))
            os.kill(pid, signal.SIGKILL)
            dies = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
            kills += dies
            after = kept(folder)
            check_nothing_lost(before, after)
            before = after
        check_next_run_finishes(folder, origin)
        shutil.rmtree(folder)

    assert number > 1
