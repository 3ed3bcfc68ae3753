"""Everything doctor looks at beyond a boot's facts, in children that it can lose."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from fakes.checkpoints import COMMIT, REPO, fetch_all, listing, make, paths_in
from kboot.events import Event, Notice
from kboot.facts.checkpoint import checkpoint_facts
from kboot.facts.collect import collect
from kboot.facts.doctor_types import MeasuredFacts
from kboot.host.kernel_clock import KernelClock
from kboot.host.real import RealHost
from kboot.host.recorded import RecordedHost
from kboot.profile.node_config import NodeConfig
from kboot.profile.types import CheckpointAsk, LayoutAsk, Profile
from kboot.store.store import Store
from kboot.survey import DEPTHS, Depth, Surveyor

PROFILE = Profile(
    name="tiny",
    schema=1,
    checkpoint=CheckpointAsk(repo=REPO, revision=COMMIT),
    layout=(LayoutAsk(name="cpu", gpu="none", gpus_per_node=0, engine="demo"),),
)
PATIENT = Depth(30.0, 0.1, 60.0, 60.0, 60.0)


def surveyor(host: Any, tmp_path: Path, depth: Depth, seen: list[Event], **config: Any) -> Surveyor:
    """Look at a node whose folders are below tmp_path."""
    return Surveyor(host, paths_in(tmp_path), PROFILE, NodeConfig(**config), depth, seen.append)


def test_a_node_is_looked_at_without_being_changed(tmp_path: Path) -> None:
    """Clock, environment and records are told; nothing is measured where no time is given for it."""
    host, seen = RealHost(), list[Event]()
    facts = replace(collect(host, paths_in(tmp_path)), disks=())
    found = surveyor(host, tmp_path, PATIENT, seen).survey(facts, None, "")

    assert [] == seen
    assert isinstance(found.upkeep.clock, KernelClock | None)
    assert found.upkeep.environ is not None
    assert found.upkeep.port is not None
    assert found.kept.boots == ()
    assert MeasuredFacts() == found.measured
    assert [] == list(tmp_path.iterdir())


def test_samples_are_taken_of_what_is_there(tmp_path: Path) -> None:
    """Hashing is measured anywhere; the cache folder is tried where it exists, and nothing is left in it."""
    files, paths, host = make(), paths_in(tmp_path), RealHost()
    store, wanted = Store(paths), listing(files, revision=COMMIT)
    fetch_all(store, wanted, files)
    paths.cache.mkdir(parents=True)
    depth = replace(PATIENT, measure_s=60.0)
    facts = replace(collect(host, paths), disks=())
    found = surveyor(host, tmp_path, depth, []).survey(facts, checkpoint_facts(wanted, store, "tiny"), "key")

    assert found.measured.hashing is not None
    assert found.measured.hashing.size_bytes > 0
    assert () == found.measured.folder
    assert found.caches.scan is not None
    assert [] == list(paths.cache.iterdir())


def test_whoever_announces_the_end_is_asked_where_there_is_time(tmp_path: Path) -> None:
    """Only in the modes that ask, and only of those that the configuration names."""
    notice = tmp_path / "notice"
    notice.write_text("soon")
    host, words = RealHost(), (f"file:{notice}",)
    facts = replace(collect(host, paths_in(tmp_path)), disks=())
    asks = surveyor(host, tmp_path, replace(PATIENT, ask_s=60.0), [], reclaim=words).survey(facts, None, "")
    quick = surveyor(host, tmp_path, PATIENT, [], reclaim=words).survey(facts, None, "")

    assert asks.kept.reclaim is not None
    assert f"{notice}: soon" == asks.kept.reclaim.said
    assert quick.kept.reclaim is None


class Stuck(RealHost):
    """A machine whose programs and files never answer."""

    def names(self, path: str) -> tuple[str, ...]:
        """Never answer."""
        time.sleep(3600)
        return ()


def test_what_never_answers_is_a_gap_and_costs_its_deadline(tmp_path: Path) -> None:
    """The rest is looked at all the same."""
    seen: list[Event] = []
    facts = replace(collect(RealHost(), paths_in(tmp_path)), disks=())
    depth = replace(PATIENT, upkeep_s=0.2)
    found = surveyor(Stuck(), tmp_path, depth, seen).survey(facts, None, "")

    assert ["upkeep"] == [gap.fact for gap in found.gaps[len(facts.gaps) :]]
    assert found.upkeep.clock is None
    assert found.kept.itself is not None
    assert ["probe.failed"] == [e.event for e in seen if isinstance(e, Notice)]


def test_a_recorded_machine_is_not_measured(tmp_path: Path) -> None:
    """Its disks are elsewhere."""
    host = RecordedHost(tmp_path)
    facts = collect(host, paths_in(tmp_path))
    found = surveyor(host, tmp_path, replace(PATIENT, measure_s=1.0), []).survey(facts, None, "")

    assert MeasuredFacts() == found.measured


def test_quick_mode_measures_nothing_and_asks_nobody() -> None:
    """Its bounds are the shortest; only full and deep take samples."""
    assert {"quick": (0.0, 0.0), "bake": (0.0, 0.0)} == {
        mode: (depth.ask_s, depth.measure_s) for mode, depth in DEPTHS.items() if mode in ("quick", "bake")
    }
    assert all(DEPTHS[mode].measure_s > 0 for mode in ("full", "deep"))
