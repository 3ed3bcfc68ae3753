"""What is wrong with this node?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from kboot.apply.phase import ended_by, phase_of
from kboot.checkpoint import CheckpointFacts
from kboot.checks.every import CHECKS
from kboot.checks.fixes import does, undoes
from kboot.checks.launching import cache_key
from kboot.checks.types import STATUSES, Check, Finding, Mode, Status
from kboot.errors import ExitStatus, UsageError
from kboot.events import Emit, PhaseFinished, PhaseStarted, unheard
from kboot.facts.render import facts_to_json
from kboot.facts.types import NodeFacts
from kboot.host.clock import monotonic_s, unix_s
from kboot.host.paths import Paths
from kboot.host.probes import within
from kboot.host.types import Host
from kboot.inquiry import Inquiry, Patient, inquire
from kboot.outreach import REACHES, reach_out
from kboot.probing import BUDGETS, Budget, probe_checkpoint, probe_facts, probe_rates
from kboot.profile.node_config import NodeConfig
from kboot.profile.types import Profile
from kboot.quantities import show_time
from kboot.report.evidence import evidence
from kboot.report.examinations import Examination, Since
from kboot.report.private_names import private_names
from kboot.survey import DEPTHS, Surveyor
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """One check and what it found."""

    check: Check
    finding: Finding


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """One run. findings: in the order of CHECKS. hostname: "" and facts: None where the facts could not be read."""

    mode: Mode
    profile: str
    hostname: str
    started_unix_s: float
    seconds: float
    findings: tuple[Answer, ...]
    facts: NodeFacts | None = None

    @property
    def counts(self) -> Mapping[Status, int]:
        """Return how many findings there are of each status, zeros included."""
        counted = Counter(a.finding.status for a in self.findings)
        return {status: counted[status] for status in STATUSES}

    @property
    def exit_status(self) -> ExitStatus:
        """Return 4 with a fail, 3 with a warning or an unknown, else 0."""
        counts = self.counts
        if counts["fail"]:
            return ExitStatus.DOCTOR_FAILED
        return ExitStatus.DEGRADED if counts["warn"] or counts["unknown"] else ExitStatus.DONE


def run_doctor(
    host: Host,
    paths: Paths,
    profile: Profile | None,
    mode: Mode,
    only: Sequence[str],
    emit: Emit,
    budget: Budget | None = None,
    skip: Sequence[str] = (),
    config: NodeConfig | None = None,
) -> DoctorReport:
    """Ask every check of a mode and return the answers; changes nothing. Only modes full and deep use the network.

    only, skip: check ids, or patterns of them ("gpu.*"); empty = all, none. budget: None = the mode's. What cannot be
    read in time makes checks answer unknown, so the run ends within its budget on a node in any state. config: of the
    node; None = all defaults.

    Raises:
        UsageError: `only` or `skip` names no check of this mode.
    """
    checks = select_checks(mode, only, skip)
    budget = budget or BUDGETS[mode]
    started_s, started_unix_s = monotonic_s(), unix_s()
    emit(PhaseStarted("doctor", len(checks), 0))
    with within(budget.total_s):
        inquiry = Inquiry(host, paths, frozenset(check.id for check in checks), emit)
        try:
            found = _read(inquiry, profile, mode, budget, config or NodeConfig())
        except BaseException as exc:
            emit(PhaseFinished("doctor", ended_by(exc), monotonic_s() - started_s, 0))
            raise
        finally:
            inquiry.end()
    if isinstance(found, Finding):
        known, answers = None, tuple(Answer(check, found) for check in checks)
    else:
        known, checkpoint = found
        answers = tuple(Answer(check, _ask(check, known, profile, checkpoint)) for check in checks)
    report = DoctorReport(
        mode=mode,
        profile=profile.name if profile else "",
        hostname=known.os.hostname if known else "",
        started_unix_s=started_unix_s,
        seconds=monotonic_s() - started_s,
        findings=answers,
        facts=known,
    )
    emit(PhaseFinished("doctor", _WORD[report.exit_status], report.seconds, 0))
    return report


def _read(
    inquiry: Inquiry, profile: Profile | None, mode: Mode, budget: Budget, config: NodeConfig
) -> tuple[NodeFacts, CheckpointFacts | None] | Finding:
    """Return all that the checks judge; where not even the facts can be had, the finding that every check then has."""
    host, paths, emit = inquiry.host, inquiry.paths, inquiry.emit
    measures = bool(budget.measure_s)
    if not measures:
        inquiry.begin(budget.facts_s + budget.cuda_s)
    told = emit if measures else unheard  # what ends within two seconds has no phases
    with phase_of(told, "facts"):
        facts = probe_facts(host, paths, profile, budget, emit)
    if isinstance(facts, Finding):
        return facts
    with phase_of(told, "files"):
        checkpoint, gaps = probe_checkpoint(paths, profile, budget, emit)
    known = replace(facts, gaps=(*facts.gaps, *gaps))
    patient = Patient(budget.cuda_s, budget.checkpoint_s, measures)
    with phase_of(told, "cuda"):
        known = inquire(inquiry, known, profile, checkpoint, patient)
    with phase_of(told, "sources"):
        known = reach_out(inquiry, known, profile, checkpoint, config.token_file, REACHES[mode])
    surveyor = Surveyor(host, paths, profile, config, DEPTHS[mode], emit)
    with phase_of(told, "upkeep"):
        known = surveyor.survey(known, checkpoint, _key_name(known, profile, checkpoint))
    if host.live and measures and checkpoint is not None and inquiry.wants("disk.rate"):
        with phase_of(told, "disk"):
            known = probe_rates(paths, known, checkpoint, budget, emit)
    return known, checkpoint


_WORD = {ExitStatus.DONE: "done", ExitStatus.DEGRADED: "degraded", ExitStatus.DOCTOR_FAILED: "failed"}


def _key_name(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> str:
    """Return the name of the kernel cache that a boot would use; "" where that is not known."""
    key = cache_key(facts, profile, checkpoint)
    return "" if isinstance(key, str) else key.name


def select_checks(mode: Mode, only: Sequence[str], skip: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return the checks of a mode that are asked for, less those to skip, in the order of CHECKS.

    Raises:
        UsageError: a name matches no check, or none of this mode.
    """
    in_mode = tuple(check for check in CHECKS if mode in check.modes)
    for name in (*only, *skip):
        if not any(fnmatchcase(check.id, name) for check in in_mode):
            raise _unknown_check(name, mode)
    asked = only or ("*",)
    return tuple(check for check in in_mode if _named(check, asked) and not _named(check, skip))


def _named(check: Check, names: Sequence[str]) -> bool:
    return any(fnmatchcase(check.id, name) for name in names)


def bundle(report: DoctorReport, text: str) -> bytes:
    """Return the evidence of a run for a ticket: a .tar.gz without secrets, addresses and the node's names.

    text: the findings as a person reads them.
    """
    documents: dict[str, object] = {"doctor.json": to_json(report)}
    if report.facts is not None:
        documents["facts.json"] = facts_to_json(report.facts)
    names = private_names(report.facts) if report.facts is not None else ()
    return evidence(documents, {"doctor.txt": text}, names, report.started_unix_s)


def to_json(report: DoctorReport, since: Since | None = None) -> dict[str, object]:
    """Return the report as `kboot doctor --json` prints it; ids are stable. since: what it was compared with."""
    before = since.news if since else {}
    return {
        "schema": 1,
        "kind": "doctor",
        "mode": report.mode,
        "profile": report.profile,
        "hostname": report.hostname,
        "boot_id": report.facts.os.boot_id if report.facts else "",
        "started_unix_s": report.started_unix_s,
        "seconds": round(report.seconds, 3),
        "exit_status": int(report.exit_status),
        "counts": dict(report.counts),
        "findings": [_finding_json(answer, before.get(answer.check.id, "")) for answer in report.findings],
        "since": None if since is None else _since_json(since),
    }


def checks_to_json(checks: Sequence[Check], mode: Mode) -> dict[str, object]:
    """Return what checks ask, as `kboot doctor --list --json` prints it."""
    listed = [{"id": c.id, "asks": c.asks, "source": c.source, "modes": sorted(c.modes)} for c in checks]
    return {"schema": 1, "kind": "doctor-checks", "mode": mode, "checks": listed}


def summary(report: DoctorReport, since: Since | None = None) -> str:
    """Return one line for a ticket: "doctor quick on node7: 1 fail (gpu.count), 2 warn (…), 15 ok, 6 skip; 0.4 s"."""
    parts = []
    for status in ("fail", "warn", "unknown", "ok", "skip"):
        ids = [a.check.id for a in report.findings if a.finding.status == status]
        if ids:
            named = f" ({', '.join(ids)})" if status in ("fail", "warn", "unknown") else ""
            parts.append(f"{len(ids)} {status}{named}")
    found = ", ".join(parts) or "nothing"
    if since is not None:
        gone = f"; gone since: {', '.join(since.gone)}" if since.gone else ""
        found += f" new since {_when(since.then)}, {since.as_before} as before{gone}"
    return f"doctor {report.mode} on {report.hostname or 'this node'}: {found}; {report.seconds:.1f} s"


def _when(then: Examination) -> str:
    return f"boot {then.boot_id[:8]}" if then.boot_id else show_time(then.started_unix_s)


def _ask(check: Check, facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Return a check's answer; one that breaks is reported as unknown, so that the others are still heard."""
    run: Callable[[NodeFacts, Profile | None, CheckpointFacts | None], Finding] = check.run
    try:
        return run(facts, profile, checkpoint)
    except Exception as exc:  # noqa: BLE001 - a bug in one check must not hide a sick node
        return Finding("unknown", f"the check itself failed, a bug in kboot: {type(exc).__name__}: {exc}")


def _since_json(since: Since) -> dict[str, object]:
    then = since.then
    return {
        "boot_id": then.boot_id,
        "mode": then.mode,
        "started_unix_s": then.started_unix_s,
        "as_before": since.as_before,
        "gone": list(since.gone),
    }


def _finding_json(answer: Answer, before: str) -> dict[str, object]:
    finding = answer.finding
    return {
        "id": answer.check.id,
        "status": finding.status,
        "asks": answer.check.asks,
        "seen": finding.seen,
        "wanted": finding.wanted,
        "source": finding.source or answer.check.source,
        "why": finding.why,
        "hint": finding.hint,
        "fixes": [{"does": does(fix), "undo": undoes(fix)} for fix in finding.fixes],
        "before": before,
    }


def _unknown_check(name: str, mode: Mode) -> UsageError:
    ids = [check.id for check in CHECKS]
    if any(fnmatchcase(each, name) for each in ids):
        modes = sorted({m for check in CHECKS if fnmatchcase(check.id, name) for m in check.modes})
        return UsageError(
            "check-not-in-mode",
            f"check {name!r} is not part of mode {mode}",
            hint=f"its modes: {', '.join(modes)}",
        )
    near = get_close_matches(name, ids, n=3)
    return UsageError(
        "check-unknown",
        f"there is no check {name!r}",
        hint=f"near: {', '.join(near)}" if near else f"`kboot doctor --mode {mode} --list` shows those there are",
    )
