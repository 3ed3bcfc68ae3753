"""How do doctor's findings read: what is wrong first, each with what was wanted, why it matters and the fix? Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kboot.report.render_text import Paint, Style, join, no_paint, width_now, wrap

if TYPE_CHECKING:
    from kboot.checks.types import Check, Finding, Status

_ORDER: tuple[Status, ...] = ("fail", "unknown", "warn", "ok", "skip")
_STYLE_OF: dict[Status, Style] = {"fail": "bad", "unknown": "warn", "warn": "warn", "ok": "good", "skip": "faint"}
_ID = 22
"""The longest id there is."""
_NARROW = 72

_NOTHING: Mapping[str, str] = {}


def doctor_text(
    findings: Sequence[tuple[Check, Finding]],
    summary: str,
    *,
    verbose: bool = False,
    paint: Paint = no_paint,
    before: Mapping[str, str] = _NOTHING,
) -> str:
    """Return the findings, worst first; verbose: the source of each, and skipped checks one by one.

    before: check → what it said at an earlier boot.
    """
    lines: list[str] = []
    skipped = [check.id for check, finding in findings if finding.status == "skip"]
    for status in _ORDER:
        for check, finding in findings:
            if finding.status == status and (status != "skip" or verbose):
                lines += _finding(check, finding, verbose, paint, before.get(check.id, ""))
    if skipped and not verbose:
        lines += wrap(f"{', '.join(skipped)} (`-v` says why)", "skip     ")
    return join([*lines, "", *wrap(summary)])


def _finding(check: Check, finding: Finding, verbose: bool, paint: Paint, before: str) -> list[str]:
    """Return one finding: status and id, what was seen, and for a bad one all that helps."""
    if width_now() < _NARROW:  # beside ids there is no room for sentences
        first, *rest = wrap(f"{check.id}: {finding.seen}", f"{finding.status:<8} ")
    else:
        first, *rest = wrap(finding.seen, f"{finding.status:<8} {check.id:<{_ID}}  ")
    lines = [paint(finding.status, _STYLE_OF[finding.status]) + first[len(finding.status) :], *rest]
    bad = finding.status in ("fail", "warn", "unknown")
    details = [("before", before), ("wanted", finding.wanted), ("why", finding.why), ("fix", finding.hint)]
    details = details if bad else []
    if verbose:
        details.append(("source", finding.source or check.source))
    for name, text in details:
        if text:
            lines += wrap(text, f"{'':<9}{name:<7} ")
    return lines


def checks_text(checks: Sequence[Check], *, verbose: bool = False) -> str:
    """Return what checks ask, a line each in the order they are shown; verbose: and where they read it."""
    lines: list[str] = []
    for check in checks:
        lines += wrap(check.asks, f"{check.id:<{_ID}}  ")
        if verbose:
            lines += wrap(check.source, f"{'':<{_ID}}  source  ")
    return join(lines)
