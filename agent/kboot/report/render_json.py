"""What do the `--json` documents of boots and timelines hold? Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kboot.report.document import Document, document, plain

if TYPE_CHECKING:
    from kboot.checkpoint import Listing
    from kboot.report.timeline import Comparison, Step, Timeline
    from kboot.report.types import BootReport, Outcome, Span, WorkerCheck


def listing_json(listing: Listing) -> dict[str, Any]:
    """Return what a listing says, without its files (each action carries its own)."""
    return {
        "repo": listing.repo,
        "revision": listing.revision,
        "commit": listing.commit,
        "files": len(listing.files),
        "size_bytes": listing.size_bytes,
        "skipped": [{"path": path, "reason": reason} for path, reason in listing.skipped],
        "origin": listing.origin,
    }


def boot_document(report: BootReport) -> Document:
    """Return one boot, whole; `report.saved` reads it back."""
    return document(
        "boot",
        {
            "what": report.what,
            "boot_id": report.boot_id,
            "profile": report.profile,
            "commit": report.commit,
            "status": report.status,
            "started_unix_s": report.started_unix_s,
            "finished_unix_s": report.finished_unix_s,
            "kernel_start_unix_s": report.kernel_start_unix_s,
            "ready_unix_s": report.ready_unix_s,
            "verify_mode": report.verify_mode,
            "verify_claim": report.verify_claim,
            "cache_key": report.cache_key,
            "gpu_class": report.gpu_class,
            "gpus": report.gpus,
            "spans": [span_json(s) for s in report.spans],
            "outcomes": [outcome_json(o) for o in report.outcomes],
            "warnings": list(report.warnings),
            "workers": workers_json(report.workers),
            "error": plain(report.error),
        },
    )


def workers_json(workers: Iterable[WorkerCheck]) -> list[dict[str, Any]]:
    """Return each worker, planned and found, with the part of its time that it waited for a CPU."""
    return [{**plain(w), "wait_share": w.wait_share} for w in workers]


def timeline_document(timeline: Timeline) -> Document:
    """Return the boot's timeline: spans, critical path, comparison. Times are Unix seconds and seconds."""
    report = timeline.report
    return document(
        "timeline",
        {
            "what": report.what,
            "boot_id": report.boot_id,
            "profile": report.profile,
            "commit": report.commit,
            "status": report.status,
            "verify_claim": report.verify_claim,
            "start_unix_s": timeline.start_unix_s,
            "kernel_start_unix_s": report.kernel_start_unix_s,
            "started_unix_s": report.started_unix_s,
            "ready_unix_s": report.ready_unix_s,
            "end_unix_s": timeline.end_unix_s,
            "total_s": timeline.total_s,
            "spans": [{**span_json(s), "critical": timeline.is_critical(s)} for s in timeline.spans],
            "critical_path": [step_json(s) for s in timeline.critical],
            "longest": [step_json(s) for s in timeline.longest[:5]],
            "next_boot_saves_s": timeline.next_boot_saves_s,
            "comparison": _comparison_json(timeline.comparison),
            "warnings": list(report.warnings),
            "workers": workers_json(report.workers),
            "error": plain(report.error),
        },
    )


def span_json(span: Span) -> dict[str, Any]:
    """Return a span with its length."""
    return {**plain(span), "seconds": span.seconds}


def step_json(step: Step) -> dict[str, Any]:
    """Return a step of the critical path with its length."""
    return {**plain(step), "seconds": step.seconds}


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """Return what became of one action."""
    return dict(plain(outcome))


def _comparison_json(comparison: Comparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {
        "boots": comparison.boots,
        "total_s": comparison.total_s,
        "median_s": comparison.median_s,
        "p95_s": comparison.p95_s,
        "phases": [{**plain(c), "slower_s": c.slower_s} for c in comparison.phases],
        "regression": plain(comparison.regression),
    }
