"""Does systemd read kboot's environment files as they were meant?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.env_settings import no_environment
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """EnvironmentFile= is no shell: no export, no $NAME, no comment behind a value."""
    lines = facts.upkeep.env_files
    if lines is None:
        return no_environment(facts)
    if not lines:
        return Finding("ok", "no line that a shell would read otherwise")
    return Finding(
        "warn",
        some((f"{e.path}:{e.line}: {e.says}" for e in lines), 3),
        wanted="NAME=value, quotes around the whole value where it has blanks",
        why="the services run with other values than the file seems to say",
        hint=f"correct line {lines[0].line} of {lines[0].path}; "
        "`systemctl show -p Environment kboot.service` and systemd.exec(5) say what counts",
    )


CHECK = Check(
    id="env.files",
    asks="Does systemd read kboot's environment files as they were meant?",
    source="env and engine.env in the configuration folder",
    modes=EVERYWHERE,
    run=run,
)
