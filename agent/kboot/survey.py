"""What does doctor look at beyond the facts of a boot, each in a child that it can lose?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import Mode
from kboot.errors import KbootError
from kboot.events import Emit, Notice
from kboot.facts.basic_types import Gap
from kboot.facts.caches import with_scan
from kboot.facts.doctor_types import KeptFacts, MeasuredFacts, UpkeepFacts
from kboot.facts.kept_types import ReclaimFacts
from kboot.facts.measured_types import FirstReads, ReadSample, RotSample
from kboot.facts.types import CacheFacts, NodeFacts
from kboot.facts.upkeep import collect_upkeep
from kboot.host.first_reads import first_reads
from kboot.host.paths import Paths
from kboot.host.probes import ask_in_child
from kboot.host.trial import try_folder
from kboot.host.types import Host
from kboot.kept import ask_reclaim, read_kept
from kboot.profile.node_config import NodeConfig
from kboot.profile.types import Profile
from kboot.store.sample import hash_rate, sample_rot
from kboot.store.store import Store
from kboot.values import dataclass

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Depth:
    """How long a mode looks. A healthy node takes a small part of each bound.

    program_s: one program that is asked. look_s: a process that is stuck. kept_s: all that kboot keeps. hash_s: small
    files. ask_s: who announces the machine's end; 0 = nobody is asked. measure_s: samples; 0 = none.
    """

    program_s: float
    look_s: float
    upkeep_s: float
    kept_s: float
    hash_s: float
    ask_s: float = 0.0
    measure_s: float = 0.0


DEPTHS: Mapping[Mode, Depth] = {
    "quick": Depth(2.0, 0.3, 6.0, 4.0, 0.7),
    "full": Depth(5.0, 5.0, 12.0, 8.0, 4.0, ask_s=4.0, measure_s=8.0),
    "bake": Depth(2.0, 0.3, 6.0, 4.0, 2.0),
    "deep": Depth(10.0, 10.0, 30.0, 20.0, 10.0, ask_s=10.0, measure_s=10.0),
}


@dataclass(frozen=True, slots=True)
class Surveyor:
    """Whom and what for. config: of the node, whose defaults name no token and nobody who announces its end."""

    host: Host
    paths: Paths
    profile: Profile | None
    config: NodeConfig
    depth: Depth
    emit: Emit

    def survey(self, facts: NodeFacts, checkpoint: CheckpointFacts | None, cache_key: str) -> NodeFacts:
        """Return the facts with all that could be seen; what could not is a Gap. cache_key: "" where not known."""
        facts = self._upkeep(facts)
        facts = self._kept(facts, checkpoint)
        if cache_key:
            facts = self._scanned(facts, cache_key)
        if self.depth.measure_s and self.host.live:
            facts = self._measured(facts, checkpoint)
        return facts

    def _upkeep(self, facts: NodeFacts) -> NodeFacts:
        depth, port = self.depth, self.profile.serve.port if self.profile else None
        token = self.config.token_file

        def look() -> tuple[UpkeepFacts, tuple[Gap, ...]]:
            return collect_upkeep(self.host, self.paths, facts, port, token, depth.program_s, depth.look_s)

        found = self._ask("upkeep", "this machine", look, depth.upkeep_s)
        if isinstance(found, Gap):
            return _with_gaps(facts, found)
        return _with_gaps(replace(facts, upkeep=found[0]), *found[1])

    def _kept(self, facts: NodeFacts, checkpoint: CheckpointFacts | None) -> NodeFacts:
        host, paths, hash_s = self.host, self.paths, self.depth.hash_s

        def look() -> KeptFacts:
            return read_kept(host, paths, self.profile, checkpoint, hash_s)

        found = self._ask("kept", str(paths.state), look, self.depth.kept_s)
        kept = KeptFacts() if isinstance(found, Gap) else found
        gaps = [found] if isinstance(found, Gap) else []
        words = self.config.reclaim
        if words and self.depth.ask_s and host.live:
            said: ReclaimFacts | Gap = self._ask(
                "kept.reclaim", "reclaim", lambda: ask_reclaim(words, self.depth.ask_s), self.depth.ask_s + 1
            )
            silent = dict.fromkeys(words, said.reason) if isinstance(said, Gap) else {}
            kept = replace(kept, reclaim=ReclaimFacts(words, "", silent) if isinstance(said, Gap) else said)
        return _with_gaps(replace(facts, kept=kept), *gaps)

    def _scanned(self, facts: NodeFacts, key: str) -> NodeFacts:
        def look() -> CacheFacts:
            return with_scan(facts, self.host, self.paths, key).caches

        found = self._ask("caches", str(self.paths.cache / key), look, self.depth.kept_s)
        return _with_gaps(facts, found) if isinstance(found, Gap) else replace(facts, caches=found)

    def _measured(self, facts: NodeFacts, checkpoint: CheckpointFacts | None) -> NodeFacts:
        def look() -> MeasuredFacts:
            return self._measure(facts, checkpoint)

        found = self._ask("measured.samples", str(self.paths.state), look, self.depth.measure_s + 1)
        return _with_gaps(facts, found) if isinstance(found, Gap) else replace(facts, measured=found)

    def _measure(self, facts: NodeFacts, checkpoint: CheckpointFacts | None) -> MeasuredFacts:
        """Small first reads come before what would bring their blocks nearer."""
        store, part_s = Store(self.paths), self.depth.measure_s / 4
        threads = min(32, len(facts.cpu.allowed) or 1)
        measured = facts.measured
        if checkpoint is not None:
            repo = checkpoint.listing.repo
            here = [f for f in checkpoint.files if f.is_whole and f.file.size_bytes]
            reads = first_reads([store.blob_path(repo, f.file.blob_id) for f in here], _READS, part_s)
            rot = sample_rot(store, repo, here, threads, part_s)
            measured = replace(
                measured,
                first_reads=FirstReads(*reads) if reads else None,
                rot=RotSample(*rot) if rot[0] else None,
            )
        done, seconds = hash_rate(self.profile.verify.threads or threads if self.profile else threads, min(1.0, part_s))
        return replace(measured, hashing=ReadSample(done, seconds, threads), folder=self._trial())

    def _trial(self) -> tuple[str, ...] | None:
        """Return what does not work in the cache folder; None where it is not there yet, or not ours to write."""
        try:
            return try_folder(self.paths.cache) if self.paths.cache.is_dir() else None
        except (KbootError, OSError):
            return None

    def _ask(self, fact: str, source: str, look: Callable[[], _T], timeout_s: float) -> _T | Gap:
        try:
            return ask_in_child(look, timeout_s)
        except (KbootError, OSError) as exc:
            self.emit(Notice("probe.failed", f"{fact} could not be looked at: {exc}"))
            return Gap(fact, source, str(exc))


_READS = 24


def _with_gaps(facts: NodeFacts, *gaps: Gap) -> NodeFacts:
    return replace(facts, gaps=(*facts.gaps, *gaps))
