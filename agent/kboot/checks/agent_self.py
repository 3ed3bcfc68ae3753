"""Does kboot itself work as it should?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_roughly

FLAPS = 3


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Its own service restarts and versions say so."""
    itself = facts.kept.itself
    if itself is None:
        return Finding("unknown", f"its records could not be looked at ({gap_reason(facts, 'kept')})")
    services = facts.upkeep.services
    units = services.kboot if services else ()
    barked = [u for u in units if u.result == "watchdog"]
    ill = [u for u in units if u.result not in ("", "success") or u.restarts >= FLAPS]
    if ill:
        return Finding(
            "warn",
            some(f"{u.name} is {u.active}, its last end was {u.result!r}, {count(u.restarts, 'restart')}" for u in ill),
            wanted="active, ended by nobody",
            why="its loop hung and systemd ended it" if barked else "nobody watches the engine while it is away",
            hint=f"`journalctl -u {ill[0].name} -b`; `kboot status`",
        )
    if itself.died_at_s is not None:
        return Finding(
            "warn",
            f"a boot that began {show_roughly(facts.collected_unix_s - itself.died_at_s)} ago ended without a word",
            wanted="a report of every boot",
            why="it was killed, perhaps for memory; what it had proven is kept",
            hint="`journalctl -k | grep -i -e oom -e killed`; then `kboot boot`",
        )
    if itself.prepared_by and itself.prepared_by != itself.version:
        return Finding(
            "warn",
            f"this is kboot {itself.version}, the node was prepared by {itself.prepared_by}",
            wanted="one version",
            why="what runs is the version that was there before; it goes on until it is restarted",
            hint="`systemctl restart kboot.service` prepares the node anew, in seconds",
        )
    return Finding("ok", f"kboot {itself.version}{', its services are sound' if units else ''}")


CHECK = Check(
    id="agent.self",
    asks="Does kboot itself work as it should?",
    source="systemctl show kboot.service; handoff.json and progress.json in the runtime folder",
    modes=EVERYWHERE,
    run=run,
)
