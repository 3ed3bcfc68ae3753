"""Puts what the machine did before kboot into the report of the first boot after power-on."""

from __future__ import annotations

from dataclasses import replace

from kboot.errors import KbootError
from kboot.events import Emit, Notice
from kboot.host.paths import Paths
from kboot.host.processes import run
from kboot.report.machine import PROPERTIES, machine_spans
from kboot.report.saved import KEPT_BOOTS, change_report, load_reports
from kboot.report.types import BootReport

_TIMEOUT_S = 5.0


def with_power_on(report: BootReport, paths: Paths, emit: Emit) -> BootReport:
    """Return the report with the machine's stages, and keep it so; as it was for a later boot of the same kernel."""
    if report.kernel_start_unix_s is None or _has_earlier(report, paths):
        return report
    spans = machine_spans(_systemd(), report.kernel_start_unix_s, report.started_unix_s)
    if not spans:
        return report

    def whole(now: BootReport) -> BootReport:
        return replace(now, spans=(*spans, *now.spans))

    try:
        return change_report(report, paths, whole)
    except KbootError as exc:
        emit(Notice("report.not_kept", f"{exc.code}: {exc.message}"))
    return whole(report)


def _has_earlier(report: BootReport, paths: Paths) -> bool:
    return any(
        other.what == "boot"
        and bool(other.commit)
        and other.boot_id == report.boot_id
        and other.started_unix_s < report.started_unix_s
        for other in load_reports(paths, KEPT_BOOTS)
    )


def _systemd() -> dict[str, str]:
    """Return the manager's own stages; empty where there is no systemd."""
    try:
        shown = run(("systemctl", "show", *(f"--property={name}" for name in PROPERTIES)), _TIMEOUT_S)
    except OSError:
        return {}
    lines = shown.stdout.decode(errors="replace").splitlines() if shown.status == 0 else []
    return dict(line.split("=", 1) for line in lines if "=" in line)
