"""Kill -9 at every step between a proven part and a published checkpoint."""

import importlib.util
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kboot.apply.publish import publish
from kboot.apply.verify import verify_files
from kboot.plan.types import PublishCheckpoint, VerifyFile
from kboot.store.store import Store

_spec = importlib.util.spec_from_file_location("checkpoints", Path(__file__).parents[1] / "fakes" / "checkpoints.py")
assert _spec and _spec.loader
fake = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fake)

FILES = fake.make(shards=1)
LISTING = fake.listing(FILES)
OLD = fake.listing({"config.json": b"{}", "model.safetensors": fake.shard({"w": 8})}, commit="0" * 40)
OLD_FILES = {"config.json": b"{}", "model.safetensors": fake.shard({"w": 8})}
STEPS = {"open", "write", "fsync", "replace", "rename", "unlink", "mkdir", "symlink", "chmod", "fchmod", "close",
         "execute", "executemany"}  # fmt: skip


def quiet(_: object) -> None:
    pass


def prepare(folder: Path) -> None:
    """An older checkpoint is published; the parts of the new one are complete; one wrong blob lies in the way."""
    store = Store(fake.paths_in(folder))
    fake.fetch_all(store, OLD, OLD_FILES)
    assert "done" == publish(PublishCheckpoint(OLD, str(model_path(store)), "test"), store, quiet).status
    for file in LISTING.files:
        store.part_path(LISTING.repo, file.blob_id).write_bytes(FILES[file.path])
    wrong = next(file for file in LISTING.files if file.path == "config.json")
    store.blob_path(LISTING.repo, wrong.blob_id).write_bytes(b"x" * wrong.size_bytes)


def model_path(store: Store) -> Path:
    return store.paths.models / "tiny"


def admit_and_publish(folder: Path) -> None:
    """What a boot does once every byte is proven; what an earlier one did already is not done again."""
    store = Store(fake.paths_in(folder))
    for file in LISTING.files:
        part = store.part_path(LISTING.repo, file.blob_id)
        if part.exists():
            store.admit(LISTING, file, part, "memory")
    unproven = [VerifyFile(f.file, "full", "test") for f in store.local(LISTING) if f.state == "present"]
    verify_files(unproven, LISTING, store, 1, quiet, threading.Event())
    outcome = publish(PublishCheckpoint(LISTING, str(model_path(store)), "test"), store, quiet)
    assert outcome.error is None


def in_child(work: Callable[[], None], before: Callable[[], None] = lambda: None) -> int:
    """Run `work` in a process of its own; return its wait status."""
    if not (pid := os.fork()):
        status = 1
        try:
            before()
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]


def die_before_step(number: int) -> Callable[[], None]:
    """Arm the process to be killed just before its n-th change of the disk."""
    left = number

    def watch(_frame: object, event: str, function: object) -> None:
        nonlocal left
        if event == "c_call" and getattr(function, "__name__", "") in STEPS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return lambda: sys.setprofile(watch)


def check_nothing_wrong_is_trusted(folder: Path) -> None:
    store = Store(fake.paths_in(folder))
    for local in store.local(LISTING):
        blob = store.blob_path(LISTING.repo, local.file.blob_id)
        part = store.part_path(LISTING.repo, local.file.blob_id)
        content = FILES[local.file.path]
        assert content in [path.read_bytes() for path in (blob, part) if path.exists()], "a verified byte was lost"
        if local.state == "verified":
            assert content == blob.read_bytes()
    served = {OLD.commit: OLD_FILES, LISTING.commit: FILES}[store.commit_at(model_path(store))]
    assert served == {path: (model_path(store) / path).read_bytes() for path in served}


def check_next_run_finishes(folder: Path) -> None:
    assert 0 == in_child(lambda: admit_and_publish(folder))
    store = Store(fake.paths_in(folder))
    assert {"verified"} == {local.state for local in store.local(LISTING)}
    assert store.is_published(LISTING, model_path(store))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_before_any_step_nothing_is_lost_and_nothing_wrong_is_trusted(memory_path: Path, stride: int) -> None:
    """At each step: the serving path leads to a whole checkpoint, no proven byte is gone, the next run finishes."""
    killed = 0
    for step in range(1, 400, stride):
        folder = memory_path / str(step)
        prepare(folder)
        status = in_child(lambda folder=folder: admit_and_publish(folder), die_before_step(step))
        check_nothing_wrong_is_trusted(folder)
        check_next_run_finishes(folder)
        if status == 0:
            break
        assert signal.SIGKILL == os.WTERMSIG(status)
        killed += 1

    assert 0 == status, "the run has more steps than were tried"
    assert killed > 80 // stride


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_at_any_time_the_same_holds(memory_path: Path) -> None:
    """Kills at random instants, so also inside SQLite and the kernel."""
    dice = random.Random(7)
    for round_ in range(60):
        folder = memory_path / str(round_)
        prepare(folder)
        if not (pid := os.fork()):
            try:
                admit_and_publish(folder)
            finally:
                os._exit(0)
        time.sleep(dice.uniform(0.0, 0.04))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        check_nothing_wrong_is_trusted(folder)
        check_next_run_finishes(folder)
