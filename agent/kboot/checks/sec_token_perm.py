"""Can other users of this machine read a token or key?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.facts.upkeep_types import Readable
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """A Hub token opens what its owner may download; the node's key signs what an engine starts."""
    readable = facts.upkeep.readable
    if readable is None:
        return Finding("unknown", f"the files could not be looked at ({gap_reason(facts, 'upkeep')})")
    if not readable:
        return Finding("ok", "no token, key or socket of kboot is open to every user")
    key = any(r.what.startswith("key") for r in readable)
    return Finding(
        "fail" if key else "warn",
        some(f"{r.what}: {r.where}{f' ({r.says})' if r.says else ''}" for r in readable),
        wanted="mode 0600, and no token in a command line",
        why="any user could start another engine as this node" if key else "any user can take it and use it elsewhere",
        hint=_hint(readable[0]),
    )


def _hint(first: Readable) -> str:
    if first.where.startswith("process "):
        return f"give it to {first.where} by a file (LoadCredential=, token_file in kboot.toml), and make a new token"
    return f"`chmod 600 {first.where}`; make a new token if others may have seen it"


CHECK = Check(
    id="sec.token_perm",
    asks="Can other users of this machine read a token or key?",
    source="modes of token files, configuration, key and socket; /proc/*/{cmdline,environ}",
    modes=EVERYWHERE,
    run=run,
)
