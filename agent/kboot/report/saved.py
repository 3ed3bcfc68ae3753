"""What is kept of a boot, while it runs and afterwards? Files that a crash leaves whole."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kboot.errors import (
    ActionFailed,
    DoesNotFit,
    ExitStatus,
    FactMissing,
    KbootError,
    LicenseNotAccepted,
    NotReady,
    ProfileError,
    SourceError,
    UsageError,
    VerificationFailed,
)
from kboot.host.clock import unix_s
from kboot.host.files import atomic_write, file_names, make_dirs, read_small, remove
from kboot.host.os_errors import explain_os_error
from kboot.jsontext import parse_json
from kboot.report.document import document, plain
from kboot.report.kept_order import moment_name, newest_first
from kboot.report.render_json import boot_document
from kboot.report.types import BootReport, Outcome, RunKind, Span, WorkerCheck
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.events import Emit
    from kboot.host.paths import Paths
    from kboot.host.types import Host
    from kboot.report.progress import ProgressView

KEPT_BOOTS = 200
_CHANGES = threading.Lock()
_LIMIT_BYTES = 64 << 20
_KINDS: tuple[RunKind, ...] = ("boot", "bytes")
_ERRORS: Mapping[int, type[KbootError]] = {
    int(kind.status): kind
    for kind in (
        UsageError,
        ProfileError,
        FactMissing,
        VerificationFailed,
        ActionFailed,
        NotReady,
        DoesNotFit,
        LicenseNotAccepted,
        SourceError,
    )
}


@dataclass(frozen=True, slots=True)
class RunningBoot:
    """A boot under way, as its process wrote it down. progress: a ProgressView as JSON has it.

    process: what tells that process from a later one of the same number (its start, in clock ticks).
    """

    boot_id: str
    profile: str
    pid: int
    process: str
    started_unix_s: float
    updated_unix_s: float
    progress: Mapping[str, Any]


def save_report(report: BootReport, paths: Paths) -> Path:
    """Keep the report in the history (KEPT_BOOTS of them) and as the last boot; return its file.

    A run about the bytes alone does not take the place of a boot.

    Raises:
        KbootError: a folder or file cannot be written.
    """
    text = _encode(boot_document(report))
    make_dirs(paths.history)
    make_dirs(paths.runtime)
    path = paths.history / _name(report)
    atomic_write(path, text)
    last = read_boot(paths) if report.what == "bytes" else None
    if last is None or last.what == "bytes":
        atomic_write(paths.boot, text)
    for name in _history(paths)[KEPT_BOOTS:]:
        if name != path.name:  # its clock was set back meanwhile
            remove(paths.history / name)
    return path


def save_refusal(report: BootReport, paths: Paths) -> Path:
    """Keep the report of a run that did nothing; a daemon that tries again and again leaves one, not all of them.

    Raises:
        KbootError: a folder or file cannot be written.
    """
    last = next(iter(load_reports(paths, 1)), None)
    path = save_report(report, paths)
    if last is not None and _name(last) != path.name and _refusal(last) == _refusal(report):
        remove(paths.history / _name(last))
    return path


def _refusal(report: BootReport) -> tuple[str, ...] | None:
    """Return what tells a refusal from others; None for a run that did something."""
    if report.error is None or report.outcomes:
        return None
    return report.what, report.boot_id, report.profile, report.error.code, report.error.message


def keep_report(report: BootReport, paths: Paths, emit: Emit) -> None:
    """Save the report; where the disk does not take it, a notice says so and the boot goes on: it is no less done."""
    try:
        save_report(report, paths)
    except KbootError as exc:
        from kboot.events import Notice

        emit(Notice("report.not_saved", f"this boot is not on record: {exc.message} ({', '.join(exc.where)})"))


def change_report(report: BootReport, paths: Paths, change: Callable[[BootReport], BootReport]) -> BootReport:
    """Return a boot's report with a change, and keep it so; what others of this process changed meanwhile stays.

    A later boot's report stays the last one.

    Raises:
        KbootError: it may not be read, or cannot be written.
    """
    with _CHANGES:
        last = read_boot(paths)
        if last is not None and last.started_unix_s == report.started_unix_s:
            report = last
        changed = change(report)
        if last is None or last.started_unix_s <= report.started_unix_s:
            save_report(changed, paths)
        return changed


def load_reports(paths: Paths, limit: int) -> tuple[BootReport, ...]:
    """Return the newest reports, newest first; files that are not reports are left out.

    Raises:
        KbootError: they may not be read.
    """
    found: list[BootReport] = []
    for name in _history(paths):
        if len(found) >= limit:
            break
        report = _load(paths.history / name)
        if isinstance(report, BootReport):
            found.append(report)
    return tuple(found)


def write_progress(running: RunningBoot, paths: Paths, what: RunKind = "boot") -> None:
    """Write down where the running boot stands, beside boot.json, which stays that of the last boot that ended.

    A run about the bytes alone has a file of its own: a boot may serve meanwhile. Not durable: nothing runs after a
    power cut, and no boot waits for the disk once a second.

    Raises:
        KbootError: the runtime folder cannot be written.
    """
    make_dirs(paths.runtime)
    atomic_write(_progress(paths, what), _encode(document("boot-progress", plain(running))), durable=False)


def clear_progress(paths: Paths, what: RunKind = "boot") -> None:
    """Say that no such run is under way: its report is saved, or there will be none."""
    remove(_progress(paths, what))


def read_progress(paths: Paths) -> RunningBoot | None:
    """Return the boot that is running, or was when its process ended without a word; else the run about the bytes.

    Raises:
        KbootError: that may not be read.
    """
    found = (_load(_progress(paths, what)) for what in _KINDS)
    return next((running for running in found if isinstance(running, RunningBoot)), None)


def read_boot(paths: Paths) -> BootReport | None:
    """Return the last boot of this kernel that ended; None when there is none, or none that makes sense.

    Raises:
        KbootError: it may not be read.
    """
    found = _load(paths.boot)
    return found if isinstance(found, BootReport) else None


def process_mark(host: Host, pid: int | Literal["self"]) -> tuple[int, str]:
    """Return a process's number and its start in clock ticks, which tells it from a later one of that number.

    (0, "") when there is no such process. Source: /proc/PID/stat, fields 1 and 22.
    """
    try:
        number, _, rest = host.read_text(f"/proc/{pid}/stat").partition(" ")
        return int(number), rest.rpartition(")")[2].split()[19]
    except (OSError, ValueError, IndexError):
        return 0, ""


def is_alive(running: RunningBoot, host: Host) -> bool:
    """Return whether the process that wrote the progress still runs."""
    return running.pid > 0 and process_mark(host, running.pid) == (running.pid, running.process)


def progress_json(view: ProgressView) -> dict[str, Any]:
    """Return a view for RunningBoot.progress."""
    return dict(plain(view))


def report_from_json(doc: Mapping[str, Any]) -> BootReport:
    """Return the report a boot document holds.

    Raises:
        KeyError, TypeError, ValueError: it is not such a document.
    """
    return BootReport(
        boot_id=str(doc["boot_id"]),
        profile=str(doc["profile"]),
        commit=str(doc["commit"]),
        status=doc["status"],
        started_unix_s=float(doc["started_unix_s"]),
        finished_unix_s=float(doc["finished_unix_s"]),
        kernel_start_unix_s=_optional(doc["kernel_start_unix_s"]),
        ready_unix_s=_optional(doc["ready_unix_s"]),
        verify_mode=str(doc["verify_mode"]),
        verify_claim=str(doc["verify_claim"]),
        cache_key=str(doc["cache_key"]),
        spans=tuple(_span(s) for s in doc["spans"]),
        outcomes=tuple(_outcome(o) for o in doc["outcomes"]),
        warnings=tuple(str(w) for w in doc["warnings"]),
        error=_error(doc["error"]),
        workers=tuple(_worker(w) for w in doc.get("workers", ())),
        gpu_class=str(doc.get("gpu_class", "")),
        gpus=int(doc.get("gpus", 0)),
        what="bytes" if doc.get("what") == "bytes" else "boot",
    )


def _load(path: Path) -> RunningBoot | BootReport | None:
    try:
        doc = parse_json(read_small(path, _LIMIT_BYTES))
        if doc["kind"] == "boot":
            return report_from_json(doc)
        if doc["kind"] == "boot-progress":
            return RunningBoot(**{name: doc[name] for name in RunningBoot.__slots__})
    except PermissionError as exc:
        raise explain_os_error(exc, "read the boot's record", path) from exc
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None


def _progress(paths: Paths, what: RunKind) -> Path:
    return paths.runtime / ("progress.json" if what == "boot" else f"progress-{what}.json")


def _history(paths: Paths) -> list[str]:
    """Return the names of kept reports, newest first."""
    return newest_first((n for n in file_names(paths.history) if n.endswith(".json")), moment_name(unix_s()))


def _name(report: BootReport) -> str:
    profile = re.sub(r"[^A-Za-z0-9._-]", "_", report.profile)
    return f"{moment_name(report.started_unix_s)}-{profile}.json"


def _encode(doc: Mapping[str, Any]) -> bytes:
    return json.dumps(doc, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _optional(value: Any) -> float | None:
    return None if value is None else float(value)


def _span(doc: Mapping[str, Any]) -> Span:
    return Span(**{name: doc[name] for name in Span.__slots__})


def _worker(doc: Mapping[str, Any]) -> WorkerCheck:
    lists = {name: tuple(doc[name]) for name in ("planned_cpus", "found_cpus", "findings")}
    return WorkerCheck(**{**{name: doc[name] for name in WorkerCheck.__slots__}, **lists})


def _outcome(doc: Mapping[str, Any]) -> Outcome:
    fields = {name: doc[name] for name in Outcome.__slots__}
    return Outcome(**{**fields, "error": _error(fields["error"])})


def _error(doc: Mapping[str, Any] | None) -> KbootError | None:
    if doc is None:
        return None
    kind = _ERRORS.get(int(doc["status"]), KbootError)
    error = kind(str(doc["code"]), str(doc["message"]), where=tuple(doc["where"]), hint=doc["hint"])
    if int(doc["status"]) in {int(s) for s in ExitStatus}:
        error.status = ExitStatus(int(doc["status"]))
    return error
