"""`kboot verify`: is what lies on this disk what the pinned commit says, and can it be mended?"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from kboot.apply.outcome import Effect, carry_out
from kboot.apply.pace import FULL_PACE, Pace
from kboot.apply.run import Tools, run_phase
from kboot.boot import structures_of
from kboot.checkpoint import CheckpointFacts, FileState, Listing, LocalFile, RemoteFile, VerifyMode
from kboot.errors import SourceError, VerificationFailed
from kboot.events import Emit
from kboot.host.clock import unix_s
from kboot.host.paths import Paths
from kboot.host.types import Host
from kboot.job import Job, bytes_job, tools_of
from kboot.options import BootOptions
from kboot.plan.fetch import plan_verify
from kboot.plan.types import FetchFile, Phase, VerifyFile
from kboot.profile.types import Profile
from kboot.report.claim import verify_claim
from kboot.report.types import Outcome
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was found; claim says how far the proof goes.

    oldest_hash_unix_s: when the file was hashed whose last hash is the longest ago; None where one was never hashed.
    """

    mode: VerifyMode
    claim: str
    outcomes: tuple[Outcome, ...]
    listing: Listing
    oldest_hash_unix_s: float | None


def verify_checkpoint(
    profile: Profile,
    host: Host,
    paths: Paths,
    mode: VerifyMode,
    repair: bool,
    offline: bool,
    emit: Emit,
    stop: threading.Event,
    pace: Pace = FULL_PACE,
    min_age_s: float = 0.0,
) -> VerifyReport:
    """Prove what is on this disk by the mode; with repair, fetch again what is wrong. Needs no network otherwise.

    ledger reads no content: a file whose identity is not the one it had when it was hashed is reported, not hashed.
    The file whose last hash is the longest ago comes first, so that a run that was stopped goes on with the next one.
    min_age_s: files hashed less long ago are left at that.

    Raises:
        KbootError: nothing is known of the commit on this disk, or a repair is asked and no source answers.
    """
    started_unix_s = unix_s()
    asked = replace(profile, verify=replace(profile.verify, mode=mode))
    job = _job(asked, host, paths, BootOptions(offline=offline or not repair), emit, stop)
    sources = job.sources if repair else ()  # a copy on this disk is one, too, and nobody asked for its bytes
    tools = replace(tools_of(job, host, paths, emit, stop), pace=pace, sources=sources)
    looked = _look(_due(job.checkpoint, started_unix_s, min_age_s), mode, profile.name, tools)
    structures = structures_of(looked)
    unproven = [f for f in job.checkpoint.files if f.state in _not_right_by(mode)]
    if tools.sources:
        outcomes = (*looked, *_mend([f.file for f in unproven], tools))
    else:
        outcomes = (*looked, *(_by_identity(f, mode, profile.name) for f in unproven))
    files = job.store.local(job.checkpoint.listing)
    claim = verify_claim(files, started_unix_s, unix_s(), structures)
    return VerifyReport(mode, claim, outcomes, job.checkpoint.listing, _oldest(files))


def _job(profile: Profile, host: Host, paths: Paths, options: BootOptions, emit: Emit, stop: threading.Event) -> Job:
    """Return what there is to look at; a commit that this disk does not know is told in the words of a verification."""
    try:
        return bytes_job(profile, host, paths, options, emit, stop)
    except SourceError as exc:
        if exc.code != "checkpoint-unknown":
            raise
        ask = profile.checkpoint
        laid = any(origin.startswith("--set") for origin in profile.origin.values())
        same = ", with the same `--set`" if laid else ""
        raise SourceError(
            exc.code,
            f"nothing is known of {ask.repo} at {ask.revision} on this disk; verify asks no source for what to expect",
            hint=f"`kboot fetch --profile {profile.name}` gets it and proves it{same}",
        ) from exc


def _due(checkpoint: CheckpointFacts, now_unix_s: float, min_age_s: float) -> CheckpointFacts:
    """Return the facts with the files that a verification is to look at, the one least recently hashed first.

    A file that nobody hashed is due, and one of a time that is still to come: nobody knows how long ago that was.
    """
    hashed = {f.file.path: f.verified_unix_s or 0.0 for f in checkpoint.files}
    known = {path: 0.0 if at > now_unix_s else at for path, at in hashed.items()}
    files = [f for f in checkpoint.files if not (at := known[f.file.path]) or now_unix_s - at >= min_age_s]
    return replace(checkpoint, files=tuple(sorted(files, key=lambda f: (known[f.file.path], f.file.path))))


def _oldest(files: Sequence[LocalFile]) -> float | None:
    moments = [f.verified_unix_s for f in files]
    return None if None in moments else min((m for m in moments if m is not None), default=None)


def _look(checkpoint: CheckpointFacts, mode: VerifyMode, profile: str, tools: Tools) -> tuple[Outcome, ...]:
    """Return an outcome for every file that is here, whole or in part; with sources, what is wrong is mended."""
    if mode == "ledger":
        return tuple(_by_identity(f, mode, profile) for f in checkpoint.files if f.state in ("verified", "shared"))
    return run_phase(Phase("verify", (), plan_verify(checkpoint, mode)), tools)[1]


def _not_right_by(mode: VerifyMode) -> frozenset[FileState]:
    """Return the states that no look at the file is needed for."""
    never: frozenset[FileState] = frozenset({"absent", "partial", "damaged"})
    return never | {"present"} if mode == "ledger" else never


def _by_identity(local: LocalFile, mode: VerifyMode, profile: str) -> Outcome:
    def work() -> Effect:
        if local.state == "verified":
            return Effect("unchanged", after="same identity as when it was hashed")
        if local.state == "shared":
            return Effect("unchanged", after=f"unchanged since; {local.why}")
        raise _not_right(local, profile)

    return carry_out("verify", VerifyFile(local.file, mode, "asked by kboot verify"), work)


def _not_right(local: LocalFile, profile: str) -> VerificationFailed:
    file = local.file
    if local.state == "present":
        return VerificationFailed(
            "not-proven",
            f"{file.path} has the right size, but {local.why or 'nobody hashed it on this node'}",
            hint=f"hash it: `kboot verify --profile {profile} --mode full`",
        )
    seen = {"absent": "is not on this disk", "damaged": "has the wrong size"}.get(
        local.state, f"has {local.have_bytes} of {file.size_bytes} bytes"
    )
    return VerificationFailed(
        "file-missing" if local.state != "damaged" else "file-damaged",
        f"{file.path}: {local.why}" if local.why else f"{file.path} {seen}",
        hint=f"get it: `kboot fetch --profile {profile}`, or `kboot verify --profile {profile} --repair`",
    )


def _mend(wrong: Sequence[RemoteFile], tools: Tools) -> tuple[Outcome, ...]:
    """Fetch the files again; each is proven before it takes the place of the wrong one."""
    actions = tuple(FetchFile(f, 0, "not what the commit says") for f in sorted(wrong, key=lambda f: f.path))
    return run_phase(Phase("fetch", (), actions), tools)[1]
