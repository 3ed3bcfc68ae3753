"""Waits for a fleet whose nodes appear one by one, as pods behind a name do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kboot.events import Emit, Notice
from kboot.host.clock import monotonic_s
from kboot.plan.group import is_whole

if TYPE_CHECKING:
    from kboot.facts.fleet_types import FleetFacts
    from kboot.profile.types import FleetAsk

GROWS = frozenset({"dns", "kubernetes"})
"""Ways of finding nodes by which they appear one by one, and go."""


def whole_fleet(
    look: Callable[[], FleetFacts],
    ask: FleetAsk,
    found: FleetFacts,
    nodes: int,
    emit: Emit,
    stop: threading.Event,
    again_s: float = 2.0,
) -> FleetFacts:
    """Return the fleet when it can be divided into groups of `nodes`, else as it was seen last.

    found: as it was seen first. look: sees it again. A resolver is asked until `start_timeout_s` is over; what other
    lists say does not change by waiting.
    """
    if ask.discovery not in GROWS or nodes == 1:
        return found
    deadline_s = monotonic_s() + ask.start_timeout_s
    seen = -1
    while not is_whole(found, nodes) and monotonic_s() < deadline_s:
        if len(found.nodes) != seen:
            seen = len(found.nodes)
            emit(Notice("fleet.incomplete", f"{found.found_by or ask.dns} gives {seen} nodes, {nodes} are wanted"))
        if stop.wait(min(again_s, max(0.0, deadline_s - monotonic_s()))):
            break
        found = look()
    return found
