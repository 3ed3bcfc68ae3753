"""How does a bake read: what is in the image, what is not, and what was taken out of it? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kboot.checks.words import count
from kboot.plan.seal import TakeAway, describe_seal
from kboot.quantities import show_bytes, show_rate, show_seconds
from kboot.report.document import plain
from kboot.report.render_json import outcome_json
from kboot.report.render_text import Paint, error_text, join, no_paint, table, wrap
from kboot.report.sealed import SealReport
from kboot.report.types import Outcome
from kboot.store.baked import Baked

if TYPE_CHECKING:
    from kboot.errors import KbootError

_QUIET = frozenset({"fetch", "verify"})


def bake_text(
    baked: Baked | None,
    outcomes: Sequence[Outcome],
    fits: Sequence[str],
    doctor: str,
    seconds: float,
    *,
    verbose: bool = False,
    paint: Paint = no_paint,
) -> str:
    """Return what was done for an image, and what is in it. doctor: its summary; empty where it was not asked."""
    failed = [o.error for o in outcomes if o.error is not None]
    lines = [_headline(baked, failed, seconds, paint)]
    lines += table(_rows(baked, outcomes)) if baked else []
    for title, texts in (("fit", fits), ("doctor", (doctor,) if doctor else ())):
        lines += ["", paint(title, "faint"), *(line for text in texts for line in wrap(text, "  "))] if texts else []
    shown = [o for o in outcomes if o.error is None and (verbose or o.phase not in _QUIET)]
    if shown:
        lines += ["", paint("done", "faint"), *table([(o.title, o.after) for o in shown])]
    if baked is not None:
        lines += _pairs("not in the image", baked.left_out, paint)
        lines += _pairs("left to the first boot", baked.deferred, paint)
    return join([*lines, *_failures(failed, verbose, paint)])


def seal_text(report: SealReport, *, paint: Paint = no_paint) -> str:
    """Return what was taken out of a tree, or would be, each thing with why; and what was not looked at."""
    actions, searched = report.actions, report.searched
    if report.dry_run:
        head = f"sealing would change {count(len(actions), 'thing')}; nothing was done"
    else:
        head = paint("sealed", "good") if report.sealed else paint("not sealed", "bad")
        head += f": {count(len(actions), 'thing')} taken out" if actions else ": nothing of the builder was in it"
    lines = [head, *table([(describe_seal(action), action.reason) for action in actions])]
    for title, of in (("must be taken away by hand", True), ("stays", False)):
        rows = [(f"/{r.path}", r.why) for r in report.remains if r.blocks is of]
        lines += ["", paint(title, "bad" if of else "faint"), *table(rows)] if rows else []
    looked = f"searched for secrets: {count(searched.files, 'file')}, {show_bytes(searched.size_bytes)}; not searched:"
    rows = [(str(number), why) for why, number in searched.passed.items()]
    lines += ["", paint(looked, "faint"), *(table(rows) or ["  nothing"])]
    return join(lines)


def bake_document(
    baked: Baked | None, outcomes: Sequence[Outcome], fits: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Return the part of `kboot bake --json` that is about what was prepared."""
    return {
        "digest": baked.digest if baked else "",
        "manifest": plain(baked) if baked else None,
        "deferred": [name for name, _ in baked.deferred] if baked else [],
        "left_out": [name for name, _ in baked.left_out] if baked else [],
        "fits": list(fits),
        "seconds": round(seconds, 3),
        "outcomes": [outcome_json(o) for o in outcomes],
    }


def seal_document(report: SealReport) -> dict[str, Any]:
    """Return the part of `kboot bake --json` that is about what was taken out."""
    return {
        "dry_run": report.dry_run,
        "sealed": report.sealed,
        "found": len(report.actions),
        "actions": [
            {
                "path": f"/{a.path}",
                "does": describe_seal(a),
                "reason": a.reason,
                "wiped": isinstance(a, TakeAway) and a.wipe,
            }
            for a in report.actions
        ],
        "reported": [{"path": f"/{r.path}", "why": r.why, "blocks": r.blocks} for r in report.remains],
        "searched": plain(report.searched),
        "outcomes": [outcome_json(o) for o in report.outcomes],
    }


def _failures(failed: Sequence[KbootError], verbose: bool, paint: Paint) -> Iterator[str]:
    """Yield one failure of each kind, or all: when a source is gone or a run is stopped, every file fails alike."""
    for code in dict.fromkeys(error.code for error in failed):
        alike = [error for error in failed if error.code == code]
        for error in alike if verbose else alike[:1]:
            yield from ("", error_text(error, paint))
        if not verbose and len(alike) > 1:
            yield f"  {count(len(alike) - 1, 'more step')} failed so; `-v` shows each"


def _headline(baked: Baked | None, failed: Sequence[KbootError], seconds: float, paint: Paint) -> str:
    took = f"in {show_seconds(seconds)}"
    if baked is None and any(error.code == "interrupted" for error in failed):
        return f"{paint('bake', 'strong')}: {paint('interrupted', 'bad')} after {show_seconds(seconds)}"
    if baked is None:
        return f"{paint('bake', 'strong')}: {paint('failed', 'bad')} {took}, {count(len(failed), 'step')} failed"
    return f"{paint(f'image of {baked.profile}', 'strong')}: {paint('prepared', 'good')} {took}"


def _rows(baked: Baked, outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    fetched = [o for o in outcomes if o.phase == "fetch" and o.status == "done"]
    moved, took_s = sum(o.size_bytes for o in fetched), _span_s(fetched)
    size_bytes = sum(file.size_bytes for file in baked.files)
    caches = [f"{c.key} ({count(c.files, 'file')}, {show_bytes(c.size_bytes)})" for c in baked.caches]
    return [
        ("image id", baked.digest),
        ("made for", ", ".join(t.layout for t in baked.targets)),
        ("checkpoint", f"{baked.repo} at {baked.commit[:12]}"),
        ("proven files", f"{count(len(baked.files), 'file')}, {show_bytes(size_bytes)}"),
        ("fetched now", f"{show_bytes(moved)}, {show_rate(moved, took_s)}".removesuffix(", ")),
        ("kernel caches", ", ".join(caches) or "none"),
        ("units", ", ".join(baked.units) or "none"),
    ]


def _span_s(outcomes: Sequence[Outcome]) -> float:
    if not outcomes:
        return 0.0
    return max(o.start_unix_s + o.seconds for o in outcomes) - min(o.start_unix_s for o in outcomes)


def _pairs(title: str, pairs: Sequence[tuple[str, str]], paint: Paint) -> list[str]:
    return ["", paint(title, "faint"), *table(pairs)] if pairs else []
