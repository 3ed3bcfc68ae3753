"""What kboot keeps from one boot to the next, as doctor sees it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.checkpoints import COMMIT, INDEX, REPO, fetch_all, listing, make, paths_in
from kboot import __version__
from kboot.apply.license import accept
from kboot.checkpoint import CheckpointFacts
from kboot.errors import ProfileError
from kboot.facts.checkpoint import checkpoint_facts
from kboot.facts.doctor_types import KeptFacts
from kboot.facts.kept_types import IndexFacts, ReclaimFacts, SelfFacts, SmallFile, TermsFacts
from kboot.host.paths import Paths
from kboot.host.real import RealHost
from kboot.kept import ask_reclaim, read_kept
from kboot.profile.types import CheckpointAsk, LayoutAsk, LicenseAsk, Profile
from kboot.report.saved import RunningBoot, save_report, write_progress
from kboot.report.types import BootReport, Span
from kboot.store.store import Store

PROFILE = Profile(
    name="tiny",
    schema=1,
    checkpoint=CheckpointAsk(repo=REPO, revision=COMMIT),
    layout=(LayoutAsk(name="cpu", gpu="none", gpus_per_node=0, engine="demo"),),
)
T0 = 1_800_000_000.0


def fetched(tmp_path: Path, extra: dict[str, bytes] | None = None) -> tuple[Paths, Store, CheckpointFacts]:
    """Put a small checkpoint on a disk, linked as an engine reads it."""
    files = {**make(), **(extra or {})}
    paths = paths_in(tmp_path)
    store, wanted = Store(paths), listing(files, revision=COMMIT)
    fetch_all(store, wanted, files)
    for file in wanted.files:
        store.link(wanted, file)
    return paths, store, checkpoint_facts(wanted, store, PROFILE.name)


def kept(paths: Paths, checkpoint: CheckpointFacts | None = None, profile: Profile | None = None) -> KeptFacts:
    """Look at it."""
    return read_kept(RealHost(), paths, profile, checkpoint, 60.0)


def test_a_new_node_keeps_nothing(tmp_path: Path) -> None:
    """No report, no lock, no record; only kboot itself."""
    assert KeptFacts(locks=(), boots=(), itself=SelfFacts(__version__)) == kept(paths_in(tmp_path))
    assert [] == list(tmp_path.iterdir())


def test_the_index_and_the_small_files_are_read(tmp_path: Path) -> None:
    """The index names its shards; what is no weight was hashed just now."""
    paths, _, checkpoint = fetched(tmp_path)
    found = kept(paths, checkpoint)

    assert IndexFacts(INDEX, tuple(f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3))) == found.index
    assert (SmallFile("config.json", "right"), SmallFile(INDEX, "right")) == found.small
    assert () == found.dangling


def test_a_configuration_that_was_changed_is_wrong(tmp_path: Path) -> None:
    """Same size, other bytes; the finding names the hash."""
    paths, store, checkpoint = fetched(tmp_path)
    config = next(f for f in checkpoint.listing.files if f.path == "config.json")
    blob = store.blob_path(REPO, config.blob_id)
    blob.write_bytes(blob.read_bytes().replace(b"tiny", b"tinY"))
    (found, _) = kept(paths, checkpoint).small or ()

    assert ("config.json", "wrong") == (found.path, found.state)
    assert "git blob sha1" in found.why


def test_files_that_are_not_here_and_links_that_dangle(tmp_path: Path) -> None:
    """B046: the link is there, what it leads to is not."""
    paths, store, checkpoint = fetched(tmp_path)
    config = next(f for f in checkpoint.listing.files if f.path == "config.json")
    store.blob_path(REPO, config.blob_id).unlink()
    found = kept(paths, checkpoint_facts(checkpoint.listing, store, PROFILE.name))

    assert ("config.json",) == found.dangling
    assert SmallFile("config.json", "absent") in (found.small or ())


def test_terms_are_compared_with_the_text_of_the_commit(tmp_path: Path) -> None:
    """Not accepted, then accepted for this text."""
    paths, _, checkpoint = fetched(tmp_path, {"LICENSE": b"You may.\n"})
    profile = replace(PROFILE, license=LicenseAsk(name="Terms", accept_required=True))
    before = kept(paths, checkpoint, profile).terms
    accept(profile, b"You may.\n", COMMIT, "ops", paths)
    after = kept(paths, checkpoint, profile).terms

    sha = hashlib.sha256(b"You may.\n").hexdigest()[:12]
    assert TermsFacts(False, "missing", "nobody accepted Terms on this node") == before
    assert TermsFacts(True, "accepted", f"accepted by ops, sha256 {sha}…") == after
    assert TermsFacts(True, "not-needed", "the profile asks for no acceptance") == kept(paths, None, PROFILE).terms


def report(number: int) -> BootReport:
    """A boot that was ready after 300 seconds."""
    start = T0 + 86400 * number
    return BootReport(
        boot_id=f"b{number}",
        profile="tiny",
        commit=COMMIT,
        status="done",
        started_unix_s=start,
        finished_unix_s=start + 310,
        kernel_start_unix_s=start - 20,
        ready_unix_s=start + 300,
        verify_mode="ledger",
        verify_claim="",
        cache_key="key",
        spans=(
            Span("kernel", "machine", start - 20, start),
            Span("fetch", "kboot", start, start + 5),
            Span("load model", "engine", start + 5, start + 290),
            Span("warm up", "engine", start + 290, start + 300, status="unfinished"),
        ),
        outcomes=(),
        warnings=(),
        error=None,
    )


def test_earlier_boots_are_told_newest_first(tmp_path: Path) -> None:
    """With the phases that ended, by lane and name, and when this node last wrote anything down."""
    paths = paths_in(tmp_path)
    for number in range(3):
        save_report(report(number), paths)
    found = kept(paths)

    assert ["b2", "b1", "b0"] == [b.boot_id for b in found.boots or ()]
    newest = (found.boots or ())[0]
    assert (300.0, {"kboot: fetch": 5.0, "engine: load model": 285.0}) == (newest.ready_s, newest.seconds)
    assert {"commit": COMMIT, "cache key": "key", "verify mode": "ledger"} == newest.changed
    assert T0 + 2 * 86400 + 310 == found.newest_unix_s


def test_a_boot_that_ended_without_a_word_is_known(tmp_path: Path) -> None:
    """Its progress stands there, and its process is gone."""
    paths = paths_in(tmp_path)
    write_progress(RunningBoot("b0", "tiny", 4_194_305, "1", T0, T0 + 5, {}), paths)

    assert SelfFacts(__version__, died_at_s=T0) == kept(paths).itself


def test_those_who_announce_the_end_are_asked(tmp_path: Path) -> None:
    """A file that exists is a notice; a command that fails tells nothing; after the deadline nobody is asked."""
    notice = tmp_path / "notice"
    words = (f"file:{notice}", "command:false")
    assert ReclaimFacts(words) == ask_reclaim(words, 60.0)

    notice.write_text("terminate at 12:00\n")
    assert f"{notice}: terminate at 12:00" == ask_reclaim(words, 60.0).said
    assert dict.fromkeys(words, "not asked: the others took 0 s") == ask_reclaim(words, 0.0).silent
    with pytest.raises(ProfileError):
        ask_reclaim(("nobody",), 60.0)
