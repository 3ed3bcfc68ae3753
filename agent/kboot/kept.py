"""What did kboot keep on this disk from earlier boots, and is it what a boot can build on?"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from kboot import __version__
from kboot.apply.handoff import read_handoff
from kboot.apply.license import read_terms
from kboot.apply.license import status as license_status
from kboot.checkpoint import CheckpointFacts, LocalFile, RemoteFile
from kboot.errors import KbootError, VerificationFailed
from kboot.facts.doctor_types import KeptFacts
from kboot.facts.kept_types import (
    IndexFacts,
    PastBoot,
    ReclaimFacts,
    SelfFacts,
    SmallFile,
    TermsFacts,
)
from kboot.facts.locks import collect_locks
from kboot.host.clock import monotonic_s, unix_s
from kboot.host.files import read_small
from kboot.host.paths import Paths
from kboot.host.types import Host
from kboot.profile.types import Profile
from kboot.report.saved import is_alive, load_reports, read_progress
from kboot.report.types import BootReport
from kboot.store.layout import dangling_links
from kboot.store.selection import LIMIT_INDEX_BYTES, find_index
from kboot.store.store import Store
from kboot.store.structure import NotValid, parse_index
from kboot.store.verifier import prove

BOOTS = 40
"""Earlier boots that the last one is compared with."""

_SMALL_BYTES = 64 << 20
_MOST_BYTES = 256 << 20
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


def read_kept(
    host: Host, paths: Paths, profile: Profile | None, checkpoint: CheckpointFacts | None, hash_s: float
) -> KeptFacts:
    """Return what is there. hash_s: how long small files of the checkpoint are hashed; the rest is not looked at.

    Raises:
        KbootError: a folder of kboot may not be read.
    """
    reports = load_reports(paths, BOOTS)
    store = Store(paths)
    return KeptFacts(
        index=_index(store, checkpoint) if checkpoint else None,
        small=_small_files(store, checkpoint, hash_s) if checkpoint else None,
        dangling=dangling_links(Path(checkpoint.snapshot_path)) if checkpoint else (),
        locks=collect_locks(host, paths, unix_s()),
        terms=_terms(store, profile, checkpoint, paths) if profile else None,
        boots=tuple(_past(report) for report in reports if report.what == "boot"),
        newest_unix_s=max((r.finished_unix_s for r in reports), default=None),
        itself=_itself(host, paths),
    )


def ask_reclaim(words: Sequence[str], timeout_s: float) -> ReclaimFacts:
    """Ask those that the configuration names whether this machine ends; what takes too long is silent.

    Raises:
        ProfileError: a word names no source.
    """
    from kboot.apply.reclaim import notice_sources  # and the network's modules with it, which quick mode does without

    deadline_s = monotonic_s() + timeout_s
    said, silent = "", {}
    for word, asked in notice_sources(words):
        if monotonic_s() >= deadline_s:
            silent[word] = f"not asked: the others took {timeout_s:g} s"
            continue
        try:
            said = said or asked()
        except (OSError, ValueError) as exc:
            silent[word] = str(exc)
    return ReclaimFacts(tuple(words), said, silent)


def _index(store: Store, checkpoint: CheckpointFacts) -> IndexFacts | None:
    listing = checkpoint.listing
    file = find_index(listing.files)
    if file is None:
        return None
    data = store.read_proven(listing.repo, file, LIMIT_INDEX_BYTES)
    if data is None:
        return IndexFacts(file.path, problem="it is not on this disk, or not what the commit lists")
    try:
        return IndexFacts(file.path, parse_index(data).shards)
    except NotValid as exc:
        return IndexFacts(file.path, problem=str(exc))


def _small_files(store: Store, checkpoint: CheckpointFacts, hash_s: float) -> tuple[SmallFile, ...]:
    """Hash everything but the weights: a wrong tokenizer or chat template makes wrong answers and no error."""
    deadline_s, left_bytes = monotonic_s() + hash_s, _MOST_BYTES
    found = []
    for local in sorted(checkpoint.files, key=lambda f: f.file.size_bytes):
        file = local.file
        if file.path.endswith(_WEIGHTS):
            continue
        if local.state == "absent":
            found.append(SmallFile(file.path, "absent"))
        elif file.size_bytes > min(_SMALL_BYTES, left_bytes) or monotonic_s() >= deadline_s:
            found.append(SmallFile(file.path, "not-looked-at", "too much to hash now"))
        else:
            left_bytes -= file.size_bytes
            found.append(_small_file(store, checkpoint.listing.repo, local, file))
    return tuple(sorted(found, key=lambda s: s.path))


def _small_file(store: Store, repo: str, local: LocalFile, file: RemoteFile) -> SmallFile:
    try:
        prove(file, read_small(store.blob_path(repo, file.blob_id), _SMALL_BYTES))
    except FileNotFoundError:
        return SmallFile(file.path, "absent", local.why)
    except OSError as exc:
        return SmallFile(file.path, "not-looked-at", exc.strerror or str(exc))
    except VerificationFailed as exc:
        return SmallFile(file.path, "wrong", exc.message)
    return SmallFile(file.path, "right")


def _terms(store: Store, profile: Profile, checkpoint: CheckpointFacts | None, paths: Paths) -> TermsFacts:
    text = read_terms(profile, checkpoint.listing, store, ()) if checkpoint else None
    state = license_status(profile, paths, None if text is None else hashlib.sha256(text).hexdigest())
    return TermsFacts(state.passes, state.status, state.why)


def _past(report: BootReport) -> PastBoot:
    ready_s = None if report.ready_unix_s is None else report.ready_unix_s - report.started_unix_s
    return PastBoot(
        boot_id=report.boot_id,
        profile=report.profile,
        started_unix_s=report.started_unix_s,
        status=report.status,
        ready_s=ready_s,
        seconds={f"{s.lane}: {s.name}": s.seconds for s in report.spans if s.lane != "machine" and s.status == "done"},
        changed={"commit": report.commit, "cache key": report.cache_key, "verify mode": report.verify_mode},
    )


def _itself(host: Host, paths: Paths) -> SelfFacts:
    running = read_progress(paths)
    died = running is not None and not is_alive(running, host)
    try:
        prepared_by = read_handoff(paths).kboot_version
    except KbootError:  # none, another version's, or not ours to read
        prepared_by = ""
    return SelfFacts(__version__, prepared_by, running.started_unix_s if running is not None and died else None)
