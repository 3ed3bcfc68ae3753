"""How does a node's state read as Prometheus metrics? Pure: text exposition format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.report.types import BootReport, WorkerCheck

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES = ("preparing", "waiting", "ready", "degraded", "stopping")


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node at one moment. status: the daemon's status document. report: the last boot that ended.

    engine_ready: whether its engine answers; None where it has no HTTP to ask. verified_unix_s: of the oldest proof of
    a served file. cache_key: "" where none is known; cache_complete: whether an engine became ready with that cache.
    reclaim: what was announced for this machine, empty for nothing. cpu_s, rss_bytes: of the daemon.
    """

    version: str
    now_unix_s: float
    status: Mapping[str, Any]
    report: BootReport | None
    workers: tuple[WorkerCheck, ...]
    engine_ready: bool | None
    verified_unix_s: float | None
    cache_key: str
    cache_complete: bool
    reclaim: str
    cpu_s: float | None
    rss_bytes: int | None


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. samples: labels and value, in the order they are written."""

    name: str
    kind: Literal["gauge", "counter"]
    about: str
    samples: tuple[tuple[Mapping[str, str], float], ...]


def metrics_text(view: NodeView) -> str:
    """Return the node's metrics as a scrape gets them; a metric that nothing is known of is left out."""
    return "".join(line for metric in metrics_of(view) if metric.samples for line in _lines(metric))


def metrics_of(view: NodeView) -> tuple[Metric, ...]:
    """Return every metric of this node."""
    return (*_of_daemon(view), *_of_phases(view.status), *_of_last_boot(view), *_of_serving(view))


def _of_daemon(view: NodeView) -> Iterator[Metric]:
    status = view.status
    labels = {"version": view.version, "profile": str(status.get("profile", ""))}
    state = str(status.get("state", ""))
    yield Metric("kboot_info", "gauge", "This kboot and the profile it boots.", ((labels, 1.0),))
    yield Metric(
        "kboot_state",
        "gauge",
        "1 for the state the daemon is in, 0 for the others.",
        tuple(({"state": each}, float(each == state)) for each in STATES),
    )
    yield _one(
        "kboot_boot_attempt", "Tries at the running boot so far; 0 once it has ended well.", status.get("attempt")
    )
    yield _one("kboot_reclaim_notice", "Whether the end of this machine is announced.", float(bool(view.reclaim)))
    yield _one("kboot_process_cpu_seconds_total", "CPU time of the daemon.", view.cpu_s, kind="counter")
    yield _one("kboot_process_resident_memory_bytes", "Resident memory of the daemon.", view.rss_bytes)


def _of_phases(status: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield how far the running boot is, or was at its end."""
    phases = status.get("phases") or ()
    for name, key, about in (
        ("kboot_phase_seconds", "seconds", "Length of a phase of the running or last boot so far."),
        ("kboot_phase_bytes", "done_bytes", "Bytes a phase has moved or read."),
        ("kboot_phase_wanted_bytes", "total_bytes", "Bytes a phase is to move or read."),
        ("kboot_phase_files_done", "files_done", "Files (shards) that a phase has finished."),
    ):
        yield Metric(name, "gauge", about, tuple(({"phase": p["name"]}, float(p[key])) for p in phases if key in p))
    running = tuple(({"phase": p["name"]}, float(p["status"] == "running")) for p in phases)
    yield Metric("kboot_phase_running", "gauge", "1 while the phase is under way.", running)


def _of_last_boot(view: NodeView) -> Iterator[Metric]:
    report = view.report
    if report is None:
        return
    end_unix_s = report.finished_unix_s if report.ready_unix_s is None else report.ready_unix_s
    good = float(report.status in ("done", "degraded"))
    yield _one("kboot_last_boot_seconds", "Length of the last boot.", end_unix_s - report.started_unix_s)
    yield _one("kboot_last_boot_success", "Whether the last boot prepared the node.", good)
    yield _one("kboot_last_boot_timestamp_seconds", "When the last boot ended.", report.finished_unix_s)
    fetched = sum(o.size_bytes for o in report.outcomes if o.phase == "fetch" and o.status == "done")
    yield _one("kboot_last_boot_fetched_bytes", "Bytes the last boot fetched.", fetched)
    failed = sum(o.status == "failed" for o in report.outcomes)
    yield _one("kboot_last_boot_failed_actions", "Actions of the last boot that failed.", failed)


def _of_serving(view: NodeView) -> Iterator[Metric]:
    yield _one("kboot_engine_ready", "Whether the engine answers its health URL.", view.engine_ready)
    age_s = None if view.verified_unix_s is None else max(0.0, view.now_unix_s - view.verified_unix_s)
    yield _one("kboot_verified_timestamp_seconds", "Oldest proof of a file that is served.", view.verified_unix_s)
    yield _one("kboot_verify_age_seconds", "Time since the oldest proof of a file that is served.", age_s)
    cache = ((({"key": view.cache_key}), float(view.cache_complete)),) if view.cache_key else ()
    about = "Whether an engine became ready with this kernel cache before: a hit for the next start."
    yield Metric("kboot_cache_complete", "gauge", about, cache)
    workers = view.workers
    yield _one("kboot_workers_planned", "Engine workers that were planned.", len(workers) if workers else None)
    found = sum(w.pid is not None for w in workers) if workers else None
    yield _one("kboot_workers_found", "Engine workers that run.", found)
    off = sum(bool(w.findings) for w in workers) if workers else None
    yield _one("kboot_workers_off_plan", "Engine workers that do not have the share that was planned.", off)


def _one(name: str, about: str, value: float | None, *, kind: Literal["gauge", "counter"] = "gauge") -> Metric:
    return Metric(name, kind, about, () if value is None else (({}, float(value)),))


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {_escape(metric.about)}\n"
    yield f"# TYPE {metric.name} {metric.kind}\n"
    for labels, value in metric.samples:
        yield f"{metric.name}{_labels(labels.items())} {_number(value)}\n"


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    pairs = [f'{name}="{_escape(value, quote=True)}"' for name, value in labels]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escape(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
