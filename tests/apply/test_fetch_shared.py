"""Two processes of one node on the same files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import pytest

from cli.cli_run import wait_for
from fakes.checkpoints import paths_in
from fakes.fetching import ASK, listing_of, sources_of
from fakes.hub import REPO, FakeHub
from kboot.apply.fetch import fetch_files
from kboot.apply.fetch_shared import SILENT_S, Owner
from kboot.checkpoint import RemoteFile
from kboot.events import Event, FileProgress, Notice
from kboot.plan.types import FetchFile
from kboot.report.types import Outcome
from kboot.store.partial import Partial
from kboot.store.store import Store

FILES = {f"model-{n:05d}-of-00006.safetensors": Random(n).randbytes(1_000_000 + n) for n in range(1, 7)}
SHARD = "model-00001-of-00006.safetensors"
TESTS = Path(__file__).parents[1]

FETCH = """
import json, sys, threading
from pathlib import Path
from fakes.fetching import fetch, sources_of
from apply.test_fetch_shared import FILES
got = fetch(Path(sys.argv[1]), FILES, sources_of(sys.argv[2]))
print(json.dumps([got.errors, [o.status for o in got.outcomes], got.notices]))
"""


def run_beside(
    folder: Path, hub: FakeHub, when_waiting: object = None, files: dict[str, bytes] | None = None
) -> tuple[tuple[Outcome, ...], list[Event]]:
    """Fetch one shard; call `when_waiting` as soon as it says that it waits for somebody."""
    listing, events = listing_of(files or {SHARD: FILES[SHARD]}), list[Event]()

    def emit(event: Event) -> None:
        events.append(event)
        if isinstance(event, Notice) and event.event == "fetch.waiting" and callable(when_waiting):
            when_waiting()

    store, actions = Store(paths_in(folder)), [FetchFile(file, 0, "test") for file in listing.files]
    stop = threading.Event()
    return fetch_files(actions, listing, sources_of(hub.url), store, ASK, emit, stop, 2), events


def part_of(folder: Path) -> tuple[Store, RemoteFile, Path]:
    """Return the store, the shard, and the place where it grows."""
    store, (file,) = Store(paths_in(folder)), listing_of({SHARD: FILES[SHARD]}).files
    part = store.part_path(REPO, file.blob_id)
    part.parent.mkdir(parents=True)
    return store, file, part


def test_a_file_that_another_process_gives_up_is_fetched_on_from_there(tmp_path: Path) -> None:
    """It is waited for by name; when it lets go, what it had is kept and the rest is fetched."""
    _, file, part = part_of(tmp_path)
    other = Partial(part, file)
    buffer = memoryview(bytearray(FILES[SHARD][:500_000]))
    other.write(buffer, 500_000, 0)
    with FakeHub(FILES) as hub:
        outcomes, events = run_beside(tmp_path, hub, other.close)
        asked = [r.range for r in hub.asked(SHARD)]

    assert ["done"] == [o.status for o in outcomes]
    assert ["bytes=500000-"] == asked
    assert f"process {os.getpid()} fetches {REPO}, too" in next(e.text for e in events if isinstance(e, Notice))


def test_a_file_that_another_process_proved_meanwhile_is_not_fetched(tmp_path: Path) -> None:
    """It got its final name while we waited: nothing is asked, and the outcome says who did it."""
    store, file, part = part_of(tmp_path)
    other = Partial(part, file)
    data = memoryview(bytearray(FILES[SHARD]))
    other.write(data, len(data), 0)

    def admit() -> None:
        other.prove(memoryview(bytearray(1 << 20)))
        other.sync()
        store.admit(listing_of({SHARD: FILES[SHARD]}), file, part, "hub")
        other.forget()

    with FakeHub(FILES) as hub:
        outcomes, events = run_beside(tmp_path, hub, admit)
        asked = hub.asked(SHARD)

    assert [("unchanged", 0)] == [(o.status, o.size_bytes) for o in outcomes]
    assert "another process" in outcomes[0].after
    assert [] == asked
    assert {len(data)} == {e.done_bytes for e in events if isinstance(e, FileProgress)}
    assert not part.exists()


@pytest.mark.parametrize("content", ["right", "wrong"])
def test_a_file_that_has_its_name_but_no_proof_is_hashed_first(tmp_path: Path, content: str) -> None:
    """Its owner was killed before it wrote that down, or another tool put it there: only wrong bytes are fetched."""
    store, file, _ = part_of(tmp_path)
    blob = store.blob_path(REPO, file.blob_id)
    blob.write_bytes(FILES[SHARD] if content == "right" else bytes(file.size_bytes))
    with FakeHub(FILES) as hub:
        outcomes, _ = run_beside(tmp_path, hub)
        asked = hub.asked(SHARD)

    assert ["unchanged" if content == "right" else "done"] == [o.status for o in outcomes]
    assert (0 if content == "right" else 1) == len(asked)
    assert FILES[SHARD] == blob.read_bytes()
    assert "verified" == store.look(REPO, file).state


def test_waiting_does_not_hold_up_other_files(tmp_path: Path) -> None:
    """A file in use waits at the side; the others are fetched, and then it is looked at again."""
    _, file, part = part_of(tmp_path)
    other, left = Partial(part, file), threading.Event()

    def later() -> None:
        threading.Timer(0.5, lambda: (other.close(), left.set())).start()

    with FakeHub(FILES) as hub:
        outcomes, _ = run_beside(tmp_path, hub, later, FILES)

    assert left.is_set()
    assert {"done"} == {o.status for o in outcomes}


def test_who_is_waited_for_is_told_once(tmp_path: Path) -> None:
    """Another process has every file: one line names it, not one a file."""
    store = part_of(tmp_path)[0]
    held = [Partial(store.part_path(REPO, file.blob_id), file) for file in listing_of(FILES).files]

    def later() -> None:
        threading.Timer(0.5, lambda: [part.close() for part in held]).start()

    with FakeHub(FILES) as hub:
        outcomes, events = run_beside(tmp_path, hub, later, FILES)

    assert {"done"} == {o.status for o in outcomes}
    assert [
        f"process {os.getpid()} fetches {REPO}, too: files that it has begun are waited for, the rest is shared"
    ] == [e.text for e in events if isinstance(e, Notice)]


def test_an_owner_without_a_sign_of_life_is_given_up() -> None:
    """B011: waiting is bounded, and begins anew with every byte that its owner gets."""
    owner = Owner("first", 0.0)

    assert owner.gets_on("first", SILENT_S - 1)
    assert owner.gets_on("second", SILENT_S - 0.5)
    assert owner.gets_on("second", 2 * SILENT_S - 1)
    assert not owner.gets_on("second", 2 * SILENT_S)


def start(folder: Path, url: str) -> subprocess.Popen[str]:
    """Fetch everything in a process of its own."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    argv = [sys.executable, "-c", FETCH, str(folder), url]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env)


def test_two_processes_share_the_work_and_both_end_well(tmp_path: Path) -> None:
    """Started at once on one folder: every file is asked for once, by one of them, and both have everything."""
    with FakeHub(FILES, rate_bytes_s=2_000_000) as hub:
        both = [start(tmp_path, hub.url) for _ in range(2)]
        said = [json.loads(p.communicate(timeout=60)[0]) for p in both]
        asked = {path: len(hub.asked(path)) for path in FILES}

    store, listing = Store(paths_in(tmp_path)), listing_of(FILES)
    assert [[], []] == [errors for errors, _, _ in said]
    assert {"done", "unchanged"} == {status for _, statuses, _ in said for status in statuses}
    assert dict.fromkeys(FILES, 1) == asked
    assert {"verified"} == {local.state for local in store.local(listing)}
    blobs = store.folder(REPO).blobs
    assert {file.blob_id for file in listing.files} == {path.name for path in blobs.iterdir()}


def test_a_killed_process_is_replaced_by_the_one_that_waits(tmp_path: Path) -> None:
    """kill -9 of one of two: the other takes its files over from where they were, by itself."""
    with FakeHub(FILES, rate_bytes_s=400_000) as hub:
        first = start(tmp_path, hub.url)
        wait_for(lambda: len(hub.requests) >= 2, first)
        second = start(tmp_path, hub.url)
        wait_for(lambda: len(hub.requests) >= 4, first)
        os.kill(first.pid, signal.SIGKILL)
        first.communicate()
        errors, _, _ = json.loads(second.communicate(timeout=60)[0])

    assert [] == errors
    assert {"verified"} == {local.state for local in Store(paths_in(tmp_path)).local(listing_of(FILES))}
