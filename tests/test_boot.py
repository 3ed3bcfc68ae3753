"""One boot, from what is asked to what was done: on this machine, against a Hub on loopback."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from booting import Node, profile
from cli.cli_run import hub
from fakes.hub import FakeHub, Status
from kboot.apply.handoff import read_handoff, require_valid
from kboot.boot import boot, warm_again
from kboot.errors import ActionFailed, DoesNotFit, ExitStatus, LicenseNotAccepted, SourceError
from kboot.events import Event, FileDone, FileProgress, Notice, PhaseFinished
from kboot.host.files import make_dirs
from kboot.host.locks import lock_file
from kboot.host.pagecache import resident_bytes
from kboot.options import BootOptions
from kboot.profile.types import CheckpointAsk, FetchAsk, LayoutAsk, LicenseAsk, VerifyAsk, WarmAsk
from kboot.report.saved import load_reports, read_boot

SHARD = "model-00003-of-00006.safetensors"
NOBODY = "http://127.0.0.1:9"  # discard: nobody listens


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo Hub with six shards."""
    with hub(tmp_path_factory.mktemp("hub")) as url:
        yield url


@pytest.fixture
def node(tmp_path: Path, endpoint: str) -> Node:
    """A node nobody has booted yet."""
    return Node(tmp_path, endpoint)


@pytest.fixture
def booted(node: Node) -> Node:
    """A node after its first boot."""
    report = node.boot()
    assert ("done", None) == (report.status, report.error)
    node.seen.clear()
    return node


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder with size and mtime."""
    return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in folder.rglob("*") if not p.is_dir()}


def test_a_first_boot_fetches_proves_publishes_and_leaves_a_record_that_holds(node: Node) -> None:
    """From nothing to a signed record: every file hashed in this run, the serving path in place."""
    report = node.boot()
    record = read_handoff(node.paths)

    assert ("done", None) == (report.status, report.error)
    assert "hashed in this run" in report.verify_claim
    assert {"plan", "fetch", "publish", "cache", "handoff"} <= {s.name for s in report.spans}
    assert (node.paths.models / "demo" / SHARD).is_file()
    require_valid(record, node.host)


def test_a_second_boot_of_a_good_node_has_nothing_to_do_and_says_why(booted: Node) -> None:
    """The plan is empty, each phase says why, and what is claimed is what the ledger knows."""
    plan = booted.plan()
    report = booted.boot()

    assert () == plan.actions
    assert all(phase.note for phase in plan.phases)
    assert () == report.outcomes
    assert "unchanged since they were hashed" in report.verify_claim


def test_a_pinned_commit_that_is_whole_asks_nobody(booted: Node) -> None:
    """B018: the second boot of a pinned commit works with every request refused."""
    commit = read_handoff(booted.paths).commit
    pinned = profile(checkpoint=CheckpointAsk(repo="kboot/demo-moe", revision=commit))
    booted.endpoint = NOBODY
    report = booted.boot(pinned)

    assert "done" == report.status
    assert [] == [e for e in booted.seen if isinstance(e, FileDone) and e.phase == "fetch"]


def test_an_unreachable_hub_does_not_stop_a_node_that_has_everything(booted: Node) -> None:
    """A branch that cannot be asked for is the commit it last stood for, and a notice says so."""
    booted.endpoint = NOBODY
    report = booted.boot()

    assert "done" == report.status
    assert any("demo-moe" in text for text in booted.notices().values())


def test_an_unreachable_hub_stops_a_node_that_has_nothing(node: Node) -> None:
    """Nothing is there and nobody answers: the source's error, exit status 17."""
    node.endpoint = NOBODY
    with pytest.raises(SourceError) as caught:
        node.boot()

    assert 17 == caught.value.status
    assert {"plan": "failed"} == node.endings()


def damage(blob: Path) -> None:
    """Change the last byte behind the ledger's back, and put mtime back."""
    before = blob.stat()
    with open(blob, "r+b") as file:
        file.seek(before.st_size - 1)
        last = file.read(1)
        file.seek(before.st_size - 1)
        file.write(bytes([last[0] ^ 1]))
    os.utime(blob, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_changed_shard_is_found_by_its_hash_and_mended_in_the_same_boot(booted: Node) -> None:
    """ctime tells, the hash decides, one file is fetched; the report is done, and says what was wrong."""
    damage(booted.blob(SHARD))
    report = booted.boot()
    fetched = [e.path for e in booted.seen if isinstance(e, FileDone) and e.phase == "fetch"]
    (verified,) = (o for o in report.outcomes if o.phase == "verify")

    assert ("done", None) == (report.status, report.error)
    assert [SHARD] == fetched
    assert ("fetched again and proven", None) == (verified.after, verified.error)
    assert "sha256 is" in verified.before
    assert [verified.before in warning for warning in report.warnings if "damage" in warning] == [True]
    assert SHARD in booted.notices()["file.damaged"]
    assert "hashed in this run" in report.verify_claim
    require_valid(read_handoff(booted.paths), booted.host)
    assert () == booted.boot().outcomes


def test_a_changed_shard_without_a_source_stops_the_boot(booted: Node) -> None:
    """Nobody can be asked: status 12 with the file's hashes, and the boot after that, with a source, mends it."""
    damage(booted.blob(SHARD))
    offline = booted.boot(offline=True)
    alone = booted.boot()

    assert ("failed", 12) == (offline.status, offline.error and offline.error.status)
    assert "done" == alone.status
    assert [] == [w for w in offline.warnings if "damage" in w]


def test_a_deleted_shard_is_fetched_again_and_only_that(booted: Node) -> None:
    """One file is gone: one file is fetched, and the record is written anew."""
    booted.blob(SHARD).unlink()
    report = booted.boot()

    assert "done" == report.status
    assert [SHARD] == [e.path for e in booted.seen if isinstance(e, FileDone) and e.phase == "fetch"]
    assert "handoff" in {o.phase for o in report.outcomes}


@pytest.mark.parametrize("mode", ["quick", "full"])
def test_the_profile_says_how_far_the_gate_looks(booted: Node, mode: str) -> None:
    """Mode quick looks at the structure of every file, mode full hashes every byte again."""
    report = booted.boot(profile(verify=VerifyAsk(mode=mode)))  # type: ignore[arg-type]

    assert "done" == report.status
    assert ("structure of" if mode == "quick" else "hashed in this run") in report.verify_claim


def test_a_licence_must_be_accepted_before_the_first_byte(node: Node) -> None:
    """Exit status 16, nothing fetched; the plan still shows, with a warning."""
    asked = profile(license=LicenseAsk(name="Terms", accept_required=True))
    plan = node.plan(asked)
    with pytest.raises(LicenseNotAccepted):
        node.boot(asked)

    assert any("boot will refuse" in warning for warning in plan.warnings)
    assert not list(node.paths.hub.rglob("*.safetensors"))


def test_a_layout_for_gpus_this_machine_lacks_is_refused_before_the_first_byte(node: Node) -> None:
    """8x B300 on a machine without GPUs: exit status 15, and what was found."""
    asked = profile(layout=(LayoutAsk(name="b300", gpu="B300", gpus_per_node=8),))
    with pytest.raises(DoesNotFit) as caught:
        node.boot(asked)

    assert 15 == caught.value.status


def test_fetch_alone_needs_no_layout(node: Node) -> None:
    """A builder without GPUs fetches a model for machines that have them."""
    asked = profile(layout=(LayoutAsk(name="b300", gpu="B300", gpus_per_node=8),))
    report = node.boot(asked, only=frozenset({"fetch", "verify", "publish"}))

    assert "done" == report.status
    assert (node.paths.models / "demo" / SHARD).is_file()
    assert not node.paths.handoff.exists()


def test_two_boots_at_once_are_one(node: Node) -> None:
    """While another process prepares the node, a boot names it and waits, and ends when it is told to stop."""
    make_dirs(node.paths.runtime)

    def stop_when_waiting(event: Event) -> None:
        if isinstance(event, Notice) and event.event == "boot.waiting":
            node.seen.append(event)
            node.stop.set()

    with lock_file(node.paths.runtime / "boot.lock", 0), pytest.raises(ActionFailed) as caught:
        boot(profile(), node.host, node.paths, BootOptions(), stop_when_waiting, node.stop)

    assert ("locked", 130) == (caught.value.code, caught.value.status)
    assert f"pid {os.getpid()}" in node.notices()["boot.waiting"]


def test_a_boot_that_waited_finds_everything_done(booted: Node) -> None:
    """The lock's holder ends: the other boot goes on by itself, with nothing left to fetch."""
    held = lock_file(booted.paths.runtime / "boot.lock", 0)
    held.acquire()

    def let_go(event: Event) -> None:
        booted.seen.append(event)
        if isinstance(event, Notice) and event.event == "boot.waiting":
            held.release()

    report = boot(profile(), booted.host, booted.paths, BootOptions(), let_go, booted.stop)

    assert ("done", ()) == (report.status, report.outcomes)
    assert "boot.waiting" in booted.notices()


def test_a_stopped_boot_is_interrupted_and_goes_on_later(node: Node) -> None:
    """Stop before the first byte: status interrupted, exit status 130 at the edge; the next boot finishes."""

    def emit(event: Event) -> None:
        if isinstance(event, PhaseFinished) and event.phase == "plan":
            node.stop.set()

    stopped = boot(profile(), node.host, node.paths, BootOptions(), emit, node.stop)
    node.stop.clear()

    assert "interrupted" == stopped.status
    assert "done" == node.boot().status


def test_a_boot_that_was_stopped_before_its_engine_started_is_interrupted(booted: Node) -> None:
    """Nothing was to be prepared, so nothing of that was left undone: the engine was, and status 0 would promise it."""

    def emit(event: Event) -> None:
        if isinstance(event, PhaseFinished) and event.phase == "plan":
            booted.stop.set()

    options = BootOptions(serve=True, exit_when_ready=True)
    stopped = boot(profile(), booted.host, booted.paths, options, emit, booted.stop)

    assert ("interrupted", None) == (stopped.status, stopped.ready_unix_s)
    assert "interrupted" == load_reports(booted.paths, 1)[0].status


def test_a_phase_that_was_stopped_is_interrupted_not_failed(node: Node) -> None:
    """Stop at the first file: what is told of the fetch and what is kept of it say so; what comes after is left."""

    def emit(event: Event) -> None:
        node.seen.append(event)
        if isinstance(event, FileProgress | FileDone):
            node.stop.set()

    slow = profile(fetch=FetchAsk(max_rate_mib_s=1))
    report = boot(slow, node.host, node.paths, BootOptions(), emit, node.stop)

    assert "interrupted" == node.endings()["fetch"]
    assert ["interrupted"] == [s.status for s in report.spans if s.name == "fetch"]
    assert {"skipped"} == {o.status for o in report.outcomes if o.phase == "publish"}


def test_a_failed_warm_only_degrades(booted: Node) -> None:
    """Phases that only make serving faster never stop a boot: the report is kept and the record stays."""
    report = booted.boot(profile(warm=WarmAsk(enabled=False)))

    assert "done" == report.status
    require_valid(read_handoff(booted.paths), booted.host)


def chilled(node: Node) -> set[str]:
    """Put the shards out of the page cache; return those that left it."""
    blobs = {path.name: path.resolve() for path in (node.paths.models / "demo").glob("*.safetensors")}
    for blob in blobs.values():
        with blob.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    cold = {name for name, blob in blobs.items() if resident_bytes(blob) == 0}
    if not cold:
        pytest.skip("this file system keeps every page")
    return cold


def test_a_warming_that_was_stopped_is_an_interruption(booted: Node) -> None:
    """Stop at the first file that is warm: the others are left, and what was asked is not done."""
    if len(chilled(booted)) < 6:
        pytest.skip("with so few files none is left")

    def emit(event: Event) -> None:
        if isinstance(event, FileDone):
            booted.stop.set()

    options = BootOptions(only=frozenset({"warm"}), offline=True)

    assert "interrupted" == boot(profile(), booted.host, booted.paths, options, emit, booted.stop).status


def test_an_engine_of_its_own_may_start_before_the_weights_are_warm(booted: Node) -> None:
    """The node is prepared and on record so when that is told; what was read after that is in the report as well."""
    cold, seen = chilled(booted), len(booted.seen)
    told: list[tuple[bool, set[str]]] = []

    def prepared() -> None:
        require_valid(read_handoff(booted.paths), booted.host)
        last = read_boot(booted.paths)
        told.append((last is not None and last.status == "done", {o.phase for o in last.outcomes} if last else set()))

    asked, emit, stop = profile(), booted.seen.append, booted.stop
    report = boot(asked, booted.host, booted.paths, BootOptions(), emit, stop, on_prepared=prepared)

    assert [True] == [done for done, _ in told]
    assert not any("warm" in phases for _, phases in told)
    assert cold <= {event.path for event in booted.seen[seen:] if isinstance(event, FileDone)}
    assert report == read_boot(booted.paths)
    assert "warm" in {o.phase for o in report.outcomes}


def test_what_the_kernel_took_back_is_warmed_again_without_a_record(booted: Node) -> None:
    """Each shard that is cold is read; nobody is asked, and the last boot stays the last one."""
    cold = chilled(booted)
    before, last = len(booted.seen), read_boot(booted.paths)
    offline = replace(booted, endpoint="http://127.0.0.1:9")
    warm_again(profile(), offline.host, booted.paths, booted.seen.append, booted.stop)

    assert cold <= {event.path for event in booted.seen[before:] if isinstance(event, FileDone)}
    assert last == read_boot(booted.paths)


def test_every_boot_is_kept(booted: Node) -> None:
    """The history has each boot, newest first, with its events' phases."""
    booted.boot()

    assert ["done", "done"] == [r.status for r in load_reports(booted.paths, 10)]
    assert "plan" in {e.phase for e in booted.seen if isinstance(e, PhaseFinished)}


def test_a_new_profile_digest_makes_a_new_record(booted: Node) -> None:
    """The record names the profile it was made from: another digest is a reason to write it again."""
    plan = booted.plan(replace(profile(), digest="another"))
    handoff = next(p for p in plan.phases if p.name == "handoff")

    assert 1 == len(handoff.actions)
    assert "profile" in handoff.actions[0].reason


def test_a_boot_that_is_refused_is_on_record(node: Node) -> None:
    """The licence, as any refusal of the plan, leaves a failed boot with its error: status and timeline show it."""
    asked = profile(license=LicenseAsk(name="Terms", accept_required=True))
    with pytest.raises(LicenseNotAccepted) as refused:
        node.boot(asked)
    report = read_boot(node.paths)

    assert report is not None
    assert ("failed", "boot", "demo") == (report.status, report.what, report.profile)
    assert isinstance(report.error, LicenseNotAccepted)
    assert refused.value.code == report.error.code
    assert [report] == [replace(r, error=report.error) for r in load_reports(node.paths, 5)]


def test_a_fetch_leaves_the_last_boot_alone(booted: Node) -> None:
    """A fetch that finds nothing to do is on record as what it is, behind the boot."""
    fetched = booted.boot(only=frozenset({"fetch", "verify", "publish"}))
    last = read_boot(booted.paths)

    assert last is not None
    assert ("bytes", "boot") == (fetched.what, last.what)
    assert ["bytes", "boot"] == [r.what for r in load_reports(booted.paths, 5)]


@pytest.mark.parametrize("options", [{"only": frozenset({"fetch"})}, {}])
def test_a_boot_that_waits_for_its_listing_can_be_stopped(tmp_path: Path, options: dict[str, Any]) -> None:
    """The Hub says "in 200 s"; told to stop, fetch and boot end without that wait, as interrupted."""
    with FakeHub({"config.json": b"{}"}, repo="kboot/demo-moe") as limiting:
        limiting.api_status = [Status(429, {"Retry-After": "200"})]
        waiting = Node(tmp_path, limiting.url)
        threading.Timer(0.5, waiting.stop.set).start()
        with pytest.raises(SourceError) as caught:
            waiting.boot(**options)

    assert ExitStatus.INTERRUPTED == caught.value.status
    assert {"plan": "interrupted"} == waiting.endings()


def test_a_boot_whose_report_cannot_be_kept_is_still_done(node: Node) -> None:
    """The history's place is taken by a file: the boot is done and says that it is not on record."""
    make_dirs(node.paths.state)
    node.paths.history.write_text("")
    report = node.boot()

    assert "done" == report.status
    assert str(node.paths.history) in node.notices()["report.not_saved"]
