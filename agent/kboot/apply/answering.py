"""Who answers on the engine's port: the engine that this node's record describes, or somebody else's process?"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from kboot.apply.handoff import read_handoff
from kboot.errors import KbootError
from kboot.facts.process import ENGINE_UNIT, Scope, Unit, pids_of
from kboot.handoff import HandoffRecord
from kboot.host.environs import environ_has
from kboot.host.http import ask, held_by
from kboot.host.listeners import is_listened, listeners
from kboot.host.paths import Paths
from kboot.host.types import Host
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Answering:
    """answers: the engine does; None where it has nothing to ask, or this user may not see who it is.

    by: who answers in its place, or might; empty where the engine is known to, or nobody does.
    """

    answers: bool | None
    by: str = ""


def answering(record: HandoffRecord, host: Host, timeout_s: float, scopes: Sequence[Scope] = ()) -> Answering:
    """Ask the engine's address, and find out whose process it is that answers.

    It is the engine's where it is in the engine's service, in one of these scopes, or was started with all that the
    record sets in its environment.
    """
    url = record.health_url
    if url is None or not host.live:
        return Answering(None)
    if not ask(url, timeout_s).ok:
        return Answering(False)
    port = urlsplit(url).port or 80
    holders = listeners(port)
    if not holders:
        return Answering(None, "a process of another user" if is_listened(port) else "a process elsewhere")
    ours = {pid for scope in (Unit(ENGINE_UNIT), *scopes) for pid in pids_of(host, scope)}
    proven = [True if pid in ours else _is_started_so(pid, record) for pid in holders]
    if True in proven:
        return Answering(True)
    return Answering(None if None in proven else False, held_by(holders[0]))


def engine_answers(host: Host, paths: Paths, timeout_s: float = 5.0) -> bool:
    """Return whether the engine of this node's record serves, as far as this user may see; False without a record."""
    try:
        record = read_handoff(paths)
    except KbootError:
        return False
    return answering(record, host, timeout_s).answers is not False


def engine_is_seen_to_answer(host: Host, paths: Paths, timeout_s: float = 1.0) -> bool:
    """Return whether the engine of this node's record is known to serve; False where there is nothing to ask."""
    try:
        return answering(read_handoff(paths), host, timeout_s).answers is True
    except KbootError:
        return False


def _is_started_so(pid: int, record: HandoffRecord) -> bool | None:
    """Return whether a process was given what the record sets; None where that cannot be known."""
    return environ_has(pid, tuple(f"{name}={value}" for name, value in record.env)) if record.env else None
