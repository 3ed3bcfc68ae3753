"""`kboot status`: what does the running boot do, or how did the last one end?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kboot.cli.edge import Finished
from kboot.cli.options import Command, Common, Node, common_options, open_node, painter, say_beside, show
from kboot.errors import ExitStatus, KbootError

if TYPE_CHECKING:
    from kboot.facts.process import Scope
    from kboot.handoff import HandoffRecord
    from kboot.report.saved import RunningBoot
    from kboot.report.types import BootReport, WorkerCheck

_TIMEOUT_S = 3.0
_ENGINE_S = 2.0
_GOOD = frozenset({"ready", "standby", "done", "running", "serving", "preparing", "waiting", "none"})


@click.command(
    "status",
    cls=Command,
    examples=(
        ("kboot status", "how far the running boot is, or how the last one ended"),
        ("kboot status --json", "the same for a program"),
    ),
    statuses=(
        (ExitStatus.DONE, "running, serving, ready, or no boot yet"),
        (ExitStatus.DEGRADED, "the boot is degraded, failed, or its process died"),
        (ExitStatus.PROFILE, "the configuration file is not valid"),
    ),
)
@common_options
def command(common: Common) -> None:
    """Show the running or last boot of this node; changes nothing."""
    from kboot.report.text_status import status_text

    node = open_node(common)
    doc = with_workers(find_status(node), node)
    show(common, lambda: status_text(doc, paint=painter(node)), lambda: doc)
    if doc["state"] not in _GOOD:
        raise Finished(ExitStatus.DEGRADED)


def find_status(node: Node) -> Mapping[str, Any]:
    """Return the status document: the daemon's answer, else of the running boot, else of the last one."""
    from kboot.report.document import document
    from kboot.report.saved import is_alive, read_boot, read_progress

    asked = _ask_daemon(node)
    if asked is not None:
        return asked
    running = read_progress(node.paths)
    if running is not None:
        return _of_running(running, is_alive(running, node.host))
    report = read_boot(node.paths)
    if report is not None:
        return _of_report(report)
    text = "no boot of this node since its kernel started; `kboot boot` or kboot.service makes one"
    return document("status", {"source": "none", "profile": node.config.profile, "state": "none", "text": text})


def with_workers(doc: Mapping[str, Any], node: Node) -> Mapping[str, Any]:
    """Return the document with the engine of the record and its workers, as they are now, or were when it answered."""
    from kboot.apply.handoff import read_handoff
    from kboot.apply.pin import live_workers
    from kboot.facts.process import ENGINE_UNIT, Tree, Unit
    from kboot.report.render_json import workers_json
    from kboot.report.saved import read_boot

    report = read_boot(node.paths)
    known = report.workers if report is not None else ()
    scopes: list[Scope] = [Tree(doc["pid"])] if doc.get("pid") else []
    scopes.append(Unit(ENGINE_UNIT))
    try:
        record = read_handoff(node.paths)
    except KbootError:  # not written yet, or not ours to read
        found: tuple[WorkerCheck, ...] = ()
        engine = None
    else:
        engine = _engine_json(record, node, scopes)
        env = dict(record.env)
        found = live_workers(record.workers, record.worker_titles, env, node.host, scopes, known, say_beside)
    if doc["state"] == "standby":  # an engine that nobody has started yet is not off its plan
        return {**doc, "engine": engine, "workers": []}
    gone = engine is not None and engine["answers"] is False
    at_answer = known if doc["state"] == "serving" or (doc.get("source") == "history" and not gone) else ()
    return {**doc, "engine": engine, "workers": workers_json(found or at_answer)}


def _engine_json(record: HandoffRecord, node: Node, scopes: Sequence[Scope]) -> Mapping[str, Any]:
    """Return the record's engine.

    answers: None where it has nothing to ask on this node, this is a recorded one, or it is not to be seen who answers;
    by: who answers in the engine's place, or might.
    """
    from kboot.apply.answering import answering

    said = answering(record, node.host, _ENGINE_S, scopes)
    return {"name": record.engine, "url": record.health_url, "answers": said.answers, "by": said.by}


def _ask_daemon(node: Node) -> Mapping[str, Any] | None:
    """Return the daemon's answer; None where none runs, or none answers."""
    from kboot.host.files import exists

    if not node.host.live or not exists(node.paths.socket):
        return None
    from kboot.host.inbox import ask

    try:
        answer = ask(node.paths.socket, {"ask": "status"}, _TIMEOUT_S)
    except KbootError as exc:
        click.echo(f"kboot: the daemon does not answer: {exc.message}", err=True)
        return None
    return {**answer, "source": "daemon"} if answer.get("kind") == "status" else None


def _of_running(running: RunningBoot, alive: bool) -> Mapping[str, Any]:
    from kboot.quantities import show_time
    from kboot.report.document import document

    phases = {p["name"]: p["status"] for p in running.progress.get("phases", ())}
    holds = phases.get("standby") == "running"
    state = "serving" if phases.get("serve") == "done" else "standby" if holds else "running"
    died = f"its process {running.pid} ended without a report, last seen {show_time(running.updated_unix_s)}"
    return document(
        "status",
        {
            "source": "boot",
            "profile": running.profile,
            "state": state if alive else "died",
            "text": _running_text(running.pid, holds) if alive else died,
            "boot_id": running.boot_id,
            "pid": running.pid,
            "started_unix_s": running.started_unix_s,
            "updated_unix_s": running.updated_unix_s,
            "error": None,
            **running.progress,
        },
    )


def _running_text(pid: int, holds: bool) -> str:
    return f"pid {pid}{'; warm, not serving: `kboot live` starts its engine' if holds else ''}"


def _of_report(report: BootReport) -> Mapping[str, Any]:
    from kboot.quantities import show_seconds
    from kboot.report.document import document, plain

    end = report.finished_unix_s if report.ready_unix_s is None else report.ready_unix_s
    took = show_seconds(end - report.started_unix_s)
    return document(
        "status",
        {
            "source": "history",
            "what": report.what,
            "profile": report.profile,
            "state": report.status,
            "text": f"{_whose(report)} {took}; `kboot timeline` shows where it went",
            "boot_id": report.boot_id,
            "commit": report.commit,
            "started_unix_s": report.started_unix_s,
            "finished_unix_s": report.finished_unix_s,
            "ready_unix_s": report.ready_unix_s,
            "verify_claim": report.verify_claim,
            "error": plain(report.error),
            "phases": [
                # What a phase that did not end had before it is not on record.
                {"name": s.name, "status": s.status, "done_bytes": s.size_bytes}
                | {"total_bytes": s.size_bytes if s.status == "done" else 0}
                for s in report.spans
                if s.lane == "kboot"
            ],
        },
    )


def _whose(report: BootReport) -> str:
    run = "the last boot" if report.what == "boot" else "the last run, about the bytes alone,"
    ended = {"failed": "failed after", "interrupted": "was interrupted after"}
    return f"{run} {ended.get(report.status, 'took')}"
