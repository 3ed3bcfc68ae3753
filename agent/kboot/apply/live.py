"""Lets a node that stands by serve: says so, starts the engine's service, and waits until the engine answers."""

from __future__ import annotations

from contextlib import suppress

from kboot.apply.answering import answering
from kboot.apply.handoff import read_handoff, require_valid
from kboot.apply.reclaim import drain_engine
from kboot.apply.standby import go_live, stand_by
from kboot.errors import ActionFailed, KbootError, NotReady
from kboot.facts.process import ENGINE_UNIT, Tree
from kboot.handoff import HandoffRecord
from kboot.host.clock import monotonic_s, sleep_s
from kboot.host.inbox import ask as ask_daemon
from kboot.host.os_errors import explained
from kboot.host.paths import Paths
from kboot.host.processes import run
from kboot.host.types import Host
from kboot.quantities import show_seconds
from kboot.report.saved import is_alive, read_boot, read_progress
from kboot.values import dataclass

_START_S = 60.0
_STOP_S = 120.0
_ASK_S = 5.0
_LOOK_S = 0.2
_DAEMON_S = 3.0
_NOTHING_STARTS = frozenset({"failed", "inactive"})


@dataclass(frozen=True, slots=True)
class Answered:
    """How the engine's start went. seconds: from the word to the answer."""

    seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class Going:
    """A node that was told to serve. held: the `kboot boot --serve` that starts its engine; None where none does."""

    record: HandoffRecord
    held: int | None


def begin_serving(paths: Paths, host: Host, configured: bool) -> Going:
    """Say that this node may serve, and start the engine's service where no `kboot boot` holds.

    configured: the node's configuration says that it stands by.

    Raises:
        ActionFailed: nothing stands by here, there is no record that holds, or the service does not start.
    """
    if not configured and not _has_held(paths, host):
        raise _not_standing_by()
    record = read_handoff(paths)
    require_valid(record, host)
    held = boot_with_engine(paths, host)
    with explained("say that this node is live", paths.live):
        go_live(paths, host)
    if held is None and _has_systemd(host):
        _start_service()
    _tell_daemon(paths)
    return Going(record, held)


def boot_with_engine(paths: Paths, host: Host) -> int | None:
    """Return the process of the `kboot boot --serve` that has the engine here, or holds; None where there is none."""
    running = read_progress(paths)
    if running is None or not is_alive(running, host):
        return None
    has = {"standby", "serve"} & {p["name"] for p in running.progress.get("phases", ())}
    return running.pid if has else None


def nobody_starts(paths: Paths, host: Host) -> bool:
    """Return whether neither a boot nor a service starts the engine here: then somebody has to say `kboot exec`."""
    return boot_with_engine(paths, host) is None and not _has_systemd(host)


def answer_of(going: Going, paths: Paths, host: Host) -> Answered:
    """Wait until the engine answers.

    Raises:
        NotReady: it does not in its time, or nothing that could start it is left.
    """
    began_s, record, asked = monotonic_s(), going.record, 0
    scopes = () if going.held is None else (Tree(going.held),)
    if record.health_url is None:
        return Answered(0.0, f"{record.engine} was started; it has nothing to ask on this node")
    while (said := answering(record, host, _ASK_S, scopes)).answers is False:
        took_s = monotonic_s() - began_s
        if why := _why_never(going, paths, host):
            raise NotReady("engine-ended", f"{record.engine} will not answer: {why}", where=(record.health_url,))
        if took_s > record.ready_timeout_s:
            raise NotReady(
                "engine-not-ready",
                f"{record.engine} did not answer in {took_s:.0f} s, wanted {record.ready_timeout_s} s at most",
                where=(record.health_url, *((f"the port is {said.by}",) if said.by else ())),
                hint=f"`journalctl -u {ENGINE_UNIT}` or {paths.engine_log} says how far it is",
            )
        asked += 1
        sleep_s(_LOOK_S)
    seconds = monotonic_s() - began_s
    when = f"after {show_seconds(seconds)}" if asked else "already"
    return Answered(seconds, f"{record.engine} answers {when}: {record.health_url}")


def stop_serving(paths: Paths, host: Host, configured: bool) -> str:
    """Stop the engine's service and stand by again; return how it went, in words.

    Raises:
        ActionFailed: nothing stands by here, this user may not do it, or the engine belongs to no service.
    """
    if not configured and not _has_held(paths, host):
        raise _not_standing_by()
    stand_by(paths)
    if (pid := boot_with_engine(paths, host)) is not None and not is_held(paths, host):
        raise ActionFailed(
            "engine-without-service",
            f"the engine belongs to no service: process {pid}, a `kboot boot --serve`, has it, and it goes on serving",
            hint=f"`kill {pid}` ends both; the next `kboot boot --serve{'' if configured else ' --standby'}` holds",
        )
    said = drain_engine(_STOP_S) if _has_systemd(host) else "there is no systemd, so no engine of a service"
    _tell_daemon(paths)
    return f"this node stands by; {said}"


def is_held(paths: Paths, host: Host) -> bool:
    """Return whether a `kboot boot --serve` holds at "warm, not serving"."""
    return _standby_of_boot(paths, host) == "running"


def _has_held(paths: Paths, host: Host) -> bool:
    """Return whether a `kboot boot --serve` holds, or did until `kboot live` was said: its engine is the one meant."""
    return _standby_of_boot(paths, host) is not None


def _standby_of_boot(paths: Paths, host: Host) -> str | None:
    """Return how the standby of the running boot stands; None where no boot runs, or it has not stood by."""
    running = read_progress(paths)
    if running is None or not is_alive(running, host):
        return None
    return next((str(p["status"]) for p in running.progress.get("phases", ()) if p["name"] == "standby"), None)


def _not_standing_by() -> ActionFailed:
    return ActionFailed(
        "not-standing-by",
        "this node does not stand by: its engine starts by itself",
        hint="`standby = true` in kboot.toml, or `kboot boot --serve --standby`, makes it wait",
    )


def _start_service() -> None:
    """Start the engine's service."""
    with suppress(FileNotFoundError):
        started = run(("systemctl", "start", ENGINE_UNIT), _START_S)
        if started.status != 0:
            said = " ".join(started.stderr.decode(errors="replace").split())
            raise ActionFailed("engine-not-started", f"systemd does not start {ENGINE_UNIT}: {said}")


def _has_systemd(host: Host) -> bool:
    """Return whether systemd is the init of this machine, as sd_booted(3) tells it."""
    return host.exists("/run/systemd/system")


def _why_never(going: Going, paths: Paths, host: Host) -> str:
    """Return why nothing can be waited for; empty while something may still start the engine."""
    running = read_progress(paths)
    if running is not None:
        return "" if is_alive(running, host) else "the `kboot boot` that held has ended"
    if going.held is not None:  # it took its progress with it, and left how it ended
        report = read_boot(paths)
        said = f": {report.error.message}" if report is not None and report.error is not None else ""
        return f"the `kboot boot` that held has ended{said}"
    with suppress(OSError):
        state = run(("systemctl", "is-active", ENGINE_UNIT), _START_S).stdout.decode().strip()
        return f"{ENGINE_UNIT} is {state}" if state in _NOTHING_STARTS else ""
    return ""


def _tell_daemon(paths: Paths) -> None:
    """Make the daemon look at once, where one runs: systemd then shows what is so."""
    with suppress(KbootError):
        ask_daemon(paths.socket, {"ask": "status"}, _DAEMON_S)
