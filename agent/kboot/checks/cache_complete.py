"""Are the kernel caches from boots that reached ready?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import count, some
from kboot.engines.types import is_of_command
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Name what a power cut left torn, and cache folders without a completion mark."""
    if profile is not None and not profile.cache.enabled:
        return Finding("skip", "the profile keeps no kernel caches")
    caches = facts.caches
    commands = {name for name, factors in caches.factors_of.items() if is_of_command(factors)}
    folders = (set(caches.factors_of) - commands) | caches.complete
    if not folders and commands:
        return Finding("ok", f"{count(len(commands), 'cache')} of command lines; no boot has made one")
    if not folders:
        return Finding("skip", "there are none yet: the first boot compiles what it needs and keeps it")
    partial = sorted(folders - caches.complete)
    torn = caches.scan.torn if caches.scan else ()
    if torn:
        return Finding(
            "warn",
            f"{count(len(torn), 'torn file')}: " + some((f"{t.path}: {t.size_bytes} bytes, {t.seen}" for t in torn), 3),
            wanted="whole files",
            why="only requests of one shape may crash the engine, and a restart does not heal it",
            hint="`kboot boot` puts what is torn aside, and the engine builds it again",
        )
    if not partial:
        return Finding("ok", f"{count(len(folders), 'cache')} complete")
    return Finding(
        "warn",
        f"{len(partial)} of {count(len(folders), 'cache')} without a completion mark: {some(partial)}",
        wanted="the mark that a boot reached ready",
        why="the engine compiles what is missing, minutes to hours on a cold node",
        hint="boot once to ready; `kboot cache gc --max-age-days 30` drops those unused so long",
    )


CHECK = Check(
    id="cache.complete",
    asks="Are the kernel caches from boots that reached ready?",
    source="cache/*/factors.json and cache/*/complete in the state folder; the scan of the key's folder",
    modes=EVERYWHERE,
    run=run,
)
