"""`kboot verify`: is what lies on this disk what the pinned commit says, and can it be mended?"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kboot.apply.outcome import Effect, carry_out
from kboot.apply.run import Tools, run_phase
from kboot.boot import BootOptions, bytes_job, structures_of, tools_of
from kboot.checkpoint import CheckpointFacts, FileState, Listing, LocalFile, RemoteFile, VerifyMode
from kboot.errors import VerificationFailed
from kboot.events import Emit
from kboot.facts.checkpoint import checkpoint_facts
from kboot.host.clock import unix_s
from kboot.host.paths import Paths
from kboot.host.types import Host
from kboot.plan.fetch import plan_verify
from kboot.plan.types import FetchFile, Phase, VerifyFile
from kboot.profile.types import Profile
from kboot.report.claim import verify_claim
from kboot.report.types import Outcome


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was found; claim says how far the proof goes."""

    mode: VerifyMode
    claim: str
    outcomes: tuple[Outcome, ...]
    listing: Listing


def verify_checkpoint(
    profile: Profile,
    host: Host,
    paths: Paths,
    mode: VerifyMode,
    repair: bool,
    offline: bool,
    emit: Emit,
    stop: threading.Event,
) -> VerifyReport:
    """Prove what is on this disk by the mode; with repair, fetch again what is wrong. Needs no network otherwise.

    ledger reads no content: a file whose identity is not the one it had when it was hashed is reported, not hashed.

    Raises:
        KbootError: nothing is known of the commit on this disk, or a repair is asked and no source answers.
    """
    started_unix_s = unix_s()
    asked = replace(profile, verify=replace(profile.verify, mode=mode))
    job = bytes_job(asked, host, paths, BootOptions(offline=offline or not repair), emit)
    tools = tools_of(job, host, paths, emit, stop)
    looked = _look(job.checkpoint, mode, tools)
    structures = structures_of(looked)
    unproven = [f for f in job.checkpoint.files if f.state in _not_right_by(mode)]
    if tools.sources:
        outcomes = (*looked, *_mend([f.file for f in unproven], tools))
    else:
        outcomes = (*looked, *(_by_identity(f, mode) for f in unproven))
    after = checkpoint_facts(job.checkpoint.listing, job.store, profile.name)
    claim = verify_claim(after, started_unix_s, structures)
    return VerifyReport(mode, claim, outcomes, job.checkpoint.listing)


def _look(checkpoint: CheckpointFacts, mode: VerifyMode, tools: Tools) -> tuple[Outcome, ...]:
    """Return an outcome for every file that is whole on this disk; with sources, what is wrong is mended on the way."""
    if mode == "ledger":
        return tuple(_by_identity(f, mode) for f in checkpoint.files if f.state == "verified")
    return run_phase(Phase("verify", (), plan_verify(checkpoint, mode)), tools)[1]


def _not_right_by(mode: VerifyMode) -> frozenset[FileState]:
    """Return the states that no look at the file is needed for."""
    never: frozenset[FileState] = frozenset({"absent", "partial", "damaged"})
    return never | {"present"} if mode == "ledger" else never


def _by_identity(local: LocalFile, mode: VerifyMode) -> Outcome:
    def work() -> Effect:
        if local.state == "verified":
            return Effect("unchanged", after="same identity as when it was hashed")
        raise _not_right(local)

    return carry_out("verify", VerifyFile(local.file, mode, "asked by kboot verify"), work)


def _not_right(local: LocalFile) -> VerificationFailed:
    file = local.file
    if local.state == "present":
        return VerificationFailed(
            "not-proven",
            f"{file.path} has the right size, but {local.why or 'nobody hashed it on this node'}",
            hint="hash it: `kboot verify --mode full`",
        )
    seen = {"absent": "is not on this disk", "damaged": local.why or "has the wrong size"}.get(
        local.state, f"has {local.have_bytes} of {file.size_bytes} bytes"
    )
    return VerificationFailed(
        "file-missing" if local.state != "damaged" else "file-damaged",
        f"{file.path} {seen}",
        hint="get it: `kboot fetch`, or `kboot verify --repair`",
    )


def _mend(wrong: Sequence[RemoteFile], tools: Tools) -> tuple[Outcome, ...]:
    """Fetch the files again; each is proven before it takes the place of the wrong one."""
    actions = tuple(FetchFile(f, 0, "not what the commit says") for f in sorted(wrong, key=lambda f: f.path))
    return run_phase(Phase("fetch", (), actions), tools)[1]
