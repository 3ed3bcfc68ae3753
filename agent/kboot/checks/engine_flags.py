"""Will the engine take its command line, and does it leave itself the time to load?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.launching import launching
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import some
from kboot.errors import KbootError
from kboot.facts.types import NodeFacts
from kboot.plan.cache_stable import key_troubles
from kboot.plan.flags import flag_warnings
from kboot.plan.loading import loading_warnings
from kboot.profile.types import Profile
from kboot.quantities import show_roughly

SPARE = 2.0
"""Loading is not all that an engine does before it answers."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """What would end the engine fails; what slows it or its caches down warns."""
    if unread(facts, "engine"):
        return Finding("unknown", f"the engine could not be looked for ({gap_reason(facts, 'engine')})")
    found = launching(facts, profile, checkpoint)
    if isinstance(found, str) or profile is None:
        return Finding("skip", str(found))
    try:
        doubts = list(flag_warnings(facts.engine, found.layout, found.launch))
    except KbootError as exc:
        return Finding(
            "fail",
            "; ".join((exc.message, *exc.where)),
            wanted="flags and parsers of the installed version",
            why="the engine reads its command line and ends, after everything was fetched",
            hint=exc.hint or "",
        )
    troubles = key_troubles(found.layout, found.launch, facts.engine.version, {}, found.model_path, found.folder)
    doubts += [f"{t.name} {t.says}" for t in troubles if t.refuse]
    doubts += loading_warnings(facts.mounts, profile.warm, found.layout)
    if text := _too_short(facts, profile, checkpoint):
        doubts.append(text)
    if doubts:
        return Finding(
            "warn",
            some(doubts, 3),
            wanted="a command line that the engine knows, and time for what it loads",
            why="the engine is given up while it loads, loads page by page, or compiles anew at every boot",
            hint=f"correct layout {found.layout.name}; `kboot plan --profile {profile.name}` shows the whole line",
        )
    flags = len(found.launch.flags) + sum(arg.startswith("-") for arg in found.layout.args)
    return Finding(
        "ok", f"{' '.join(filter(None, (found.launch.engine, facts.engine.version)))} takes all {flags} flags"
    )


def _too_short(facts: NodeFacts, profile: Profile, checkpoint: CheckpointFacts | None) -> str:
    """Say when the engine's deadline is shorter than reading alone takes, at the rate that was measured."""
    disk = facts.measured.disk
    if checkpoint is None or disk is None or disk.bytes_per_s <= 0:
        return ""
    load_s, limit_s = checkpoint.listing.size_bytes / disk.bytes_per_s, profile.serve.ready_timeout_s
    if limit_s >= SPARE * load_s:
        return ""
    return f"serve.ready_timeout_s is {limit_s}, and reading the checkpoint alone takes {show_roughly(load_s)}"


CHECK = Check(
    id="engine.flags",
    asks="Will the engine take its command line, and does it leave itself the time to load?",
    source="the profile's layout; flags of the installed version; measured rates in mode full",
    modes=ON_A_NODE,
    run=run,
)
