"""Would an image of this disk carry what belongs to one machine?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Nodes with one machine id get one address; a key or token in an image is everybody's."""
    found = facts.upkeep.identity
    if found is None:
        return Finding("unknown", f"the files could not be looked at ({gap_reason(facts, 'upkeep')})")
    if not found:
        return Finding("ok", "no machine id, host key, token or record of this machine")
    return Finding(
        "fail",
        f"{count(len(found), 'path')} of this machine alone: {some(found, 5)}",
        wanted="an empty /etc/machine-id, no host keys, tokens, node key or records",
        why="every node started from the image is taken for the same machine, and whoever has it has the secrets",
        hint="`kboot bake --finish --this-machine` takes them out, as the last step of the image",
    )


CHECK = Check(
    id="sec.machine_id_bake",
    asks="Would an image of this disk carry what belongs to one machine?",
    source="/etc/machine-id, /etc/ssh, token files, the state folder",
    modes=frozenset({"bake"}),
    run=run,
)
