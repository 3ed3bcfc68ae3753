"""How do other programs watch this node? `/metrics`, `/livez` and `/readyz` on a local port, and metrics in a file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kboot import __version__
from kboot.apply.answering import answering
from kboot.apply.handoff import read_handoff
from kboot.errors import KbootError
from kboot.events import Emit, Notice
from kboot.handoff import HandoffRecord
from kboot.host.clock import unix_s
from kboot.host.files import atomic_write
from kboot.host.myself import own_use
from kboot.host.pages import Page, PageServer
from kboot.host.paths import Paths
from kboot.host.types import Host
from kboot.report.metrics import CONTENT_TYPE, NodeView, metrics_text
from kboot.report.saved import read_boot
from kboot.values import dataclass

FILE_EVERY_S = 30.0

_ENGINE_S = 2.0
_ALIVE_S = 5.0


@dataclass(frozen=True, slots=True)
class Source:
    """What the daemon tells of itself; called from any thread.

    status: its status document. alive: whether its loop turns, asked for so many seconds. reclaim: what is announced
    for this machine, empty for nothing.
    """

    status: Callable[[], Mapping[str, Any]]
    alive: Callable[[float], bool]
    reclaim: Callable[[], str]


class Monitor:
    """Serves what a Source tells. Use: `begin`, in the end `end`."""

    def __init__(self, source: Source, host: Host, paths: Paths, emit: Emit, port: int, file: str) -> None:
        """Note what is wanted. port: 0 = none. file: absolute, ends in .prom for node_exporter; empty = none."""
        self._source, self._host, self._paths, self._emit = source, host, paths, emit
        self._port, self._file = port, file
        self._server: PageServer | None = None
        self._stop = threading.Event()
        self._refused = False

    def begin(self) -> None:
        """Begin to answer and to write; a port that cannot be had is said, and keeps no node from its work."""
        if self._port:
            try:
                self._server = PageServer(self._port, self.page)
            except KbootError as exc:
                self._emit(Notice("metrics.not_served", f"{exc.code}: {exc.message} ({', '.join(exc.where)})"))
        if self._file:
            threading.Thread(target=self._write_on, name="metrics", daemon=True).start()

    def end(self) -> None:
        """Stop answering; the file keeps what was written last."""
        self._stop.set()
        if self._server is not None:
            self._server.close()

    def page(self, path: str) -> Page:
        """Return the page of a path."""
        match path:
            case "/metrics":
                return Page(200, self.metrics(), CONTENT_TYPE)
            case "/livez":
                alive = self._source.alive(_ALIVE_S)
                return (
                    Page(200, "ok\n") if alive else Page(503, f"the daemon's loop stood still for {_ALIVE_S:.0f} s\n")
                )
            case "/readyz":
                why = self.why_not_ready()
                return Page(503, f"{why}\n") if why else Page(200, "ok\n")
            case _:
                return Page(404, "there are /metrics, /livez and /readyz\n")

    def metrics(self) -> str:
        """Return this node's metrics now."""
        record = self._record()
        cpu_s, rss_bytes = own_use()
        report = read_boot(self._paths)
        key = record.cache_key if record else ""
        return metrics_text(
            NodeView(
                version=__version__,
                now_unix_s=unix_s(),
                status=self._source.status(),
                report=report,
                workers=report.workers if report else (),
                engine_ready=self._answers(record),
                verified_unix_s=record.verified_unix_s if record else None,
                cache_key=key,
                cache_complete=bool(key) and (self._paths.cache / key / "complete").exists(),
                reclaim=self._source.reclaim(),
                cpu_s=cpu_s,
                rss_bytes=rss_bytes,
            )
        )

    def why_not_ready(self) -> str:
        """Return why no request should be sent to this node; empty when it serves."""
        if notice := self._source.reclaim():
            return f"this machine will be taken away: {notice}"
        status = self._source.status()
        if status["state"] not in ("ready", "degraded"):
            return f"{status['state']}: {status['text']}"
        if self._answers(self._record()) is False:
            return "the node is prepared, and the engine does not answer"
        return ""

    def _record(self) -> HandoffRecord | None:
        with suppress(KbootError):
            return read_handoff(self._paths)
        return None

    def _answers(self, record: HandoffRecord | None) -> bool | None:
        """Return whether the engine answers; None where that cannot be known on this node."""
        return False if record is None else answering(record, self._host, _ENGINE_S).answers

    def _write_on(self) -> None:
        while True:
            self.write_file()
            if self._stop.wait(FILE_EVERY_S):
                return

    def write_file(self) -> None:
        """Write the metrics down; trouble is said once, until it works again."""
        try:
            atomic_write(Path(self._file), self.metrics().encode())
            self._refused = False
        except KbootError as exc:
            if not self._refused:
                self._emit(Notice("metrics.not_written", f"{exc.code}: {exc.message}"))
            self._refused = True
