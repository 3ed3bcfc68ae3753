"""How does the running or last boot read: what runs, how far it is, and whether anybody still works on it? Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kboot.checks.words import count
from kboot.quantities import show_bytes, show_outlook, show_time
from kboot.report.render_text import Paint, Style, join, no_paint, table, wrap
from kboot.report.workers import workers_text

_STYLE_OF: Mapping[str, Style] = {
    "running": "good",
    "ready": "good",
    "serving": "good",
    "standby": "good",
    "done": "good",
    "degraded": "warn",
    "waiting": "warn",
    "preparing": "good",
}


def status_text(doc: Mapping[str, Any], *, paint: Paint = no_paint) -> str:
    """Return a status document (see `kboot status --json`) for a person."""
    state = str(doc["state"])
    about = f"{doc['profile']}: " if doc.get("profile") else ""
    word = "not prepared" if state == "none" else state
    lines = [f"{paint(about, 'strong')}{paint(word, _STYLE_OF.get(state, 'bad'))}"]
    if doc.get("text"):
        lines += wrap(str(doc["text"]), "  ")
    if doc.get("reclaim"):
        lines += wrap(f"this machine will be taken away: {doc['reclaim']}", f"  {paint('announced', 'bad')} ")
    lines += _engine(doc.get("engine")) if not _is_to_come(doc, state) else []
    if doc.get("started_unix_s"):
        lines += wrap(f"started {show_time(doc['started_unix_s'])}", "  ")
    lines += table([_phase_row(p) for p in doc.get("phases") or ()])
    lines += workers_text(doc.get("workers") or (), paint=paint)
    if doc.get("eta_s") is not None:
        goal = str(doc.get("eta_of") or "serving")
        lines += wrap(show_outlook(float(doc["eta_s"]), goal, str(doc["eta_basis"])), "  ")
    lines += _failed(doc.get("failed") or (), paint)
    if doc.get("error"):
        error = doc["error"]
        lines += wrap(f"{error['code']}: {error['message']}", "  ")
        lines += wrap(str(error["hint"]), "  hint: ") if error.get("hint") else []
    return join(lines)


def _is_to_come(doc: Mapping[str, Any], state: str) -> bool:
    """Return whether it is no wonder that nothing answers: the node holds, or its boot has not come to the engine."""
    engine, phases = doc.get("engine") or {}, {str(p["name"]) for p in doc.get("phases") or ()}
    silent = engine.get("answers") is False and not engine.get("by")
    return state == "standby" or (silent and state in ("running", "preparing") and "serve" not in phases)


def _engine(engine: Mapping[str, Any] | None) -> list[str]:
    """Return whether the engine answers, or who does in its place; nothing where it cannot be asked."""
    if engine is None:
        return []
    name, url, by = engine["name"], engine["url"], engine.get("by")
    match engine.get("answers"):
        case None:
            text = f"{url} answers; whether that is {name} is not known: it is {by}" if by else ""
        case True:
            text = f"{name} answers at {url}"
        case _:
            text = f"{name} does not answer at {url}" + (f": that port is {by}" if by else "")
    return wrap(text, "  ") if text else []


def _phase_row(phase: Mapping[str, Any]) -> tuple[str, str, str]:
    total, done = int(phase.get("total_bytes") or 0), int(phase.get("done_bytes") or 0)
    if (phase["name"], phase["status"]) == ("meet", "running"):
        return "meet", "running", "waits for the other nodes: `kboot fleet status` shows each"
    size = f"{show_bytes(done)} of {show_bytes(total)}" if total else show_bytes(done) if done else ""
    files = count(int(phase["files_done"]), "file") if phase.get("files_done") else ""
    return str(phase["name"]), str(phase["status"]), "  ".join(p for p in (size, files) if p)


def _failed(troubles: Sequence[Mapping[str, Any]], paint: Paint) -> list[str]:
    lines = []
    for trouble in troubles:
        lines.append(f"  {paint('failed', 'bad')} {trouble['path']}")
        lines += wrap(f"{trouble['code']}: {trouble['message']}", "    ")
    return lines
