"""What a check asks and how it answers. Values only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from kboot.checkpoint import CheckpointFacts
from kboot.checks.fixes import Fix
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.values import dataclass

Status = Literal[
    "ok",
    "warn",  # boot works, but slower or less safely than it could
    "fail",  # boot would not work, or an engine started now would serve something wrong
    "skip",  # does not apply to this node or profile; `seen` says why
    "unknown",  # could not be read; never counts as ok
]
STATUSES: tuple[Status, ...] = ("ok", "warn", "fail", "skip", "unknown")

Mode = Literal[
    "quick",  # under two seconds, reads only
    "full",  # under a minute, adds measured rates
    "bake",  # a host that prepares images: no GPU expected, and its CPUs are not those that will serve
    "deep",  # adds vendor diagnostics where they are installed
]
MODES: tuple[Mode, ...] = ("quick", "full", "bake", "deep")
ON_A_NODE: frozenset[Mode] = frozenset({"quick", "full", "deep"})
EVERYWHERE: frozenset[Mode] = frozenset(MODES)


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to one check.

    seen: one sentence with the numbers; read alone it tells an operator what was seen and what was wanted.
    wanted: the value or bound that would be ok. why: what breaks or how much slower, for this boot.
    hint: the exact command or file that changes it. source: where it was read, where that differs from the check's own.
    fixes: what doctor may do about it by itself, when it is asked to.
    """

    status: Status
    seen: str
    wanted: str = ""
    why: str = ""
    hint: str = ""
    source: str = ""
    fixes: tuple[Fix, ...] = ()


Run = Callable[[NodeFacts, Profile | None, CheckpointFacts | None], Finding]


@dataclass(frozen=True, slots=True)
class Check:
    """One question of doctor.

    id: stable, "group.name". source: where its facts are read. run: pure, and it never raises for a bad node or for
    facts that are missing. Without a profile it judges the node alone; without a checkpoint nothing of the pinned
    commit is known on this disk.
    """

    id: str
    asks: str
    source: str
    modes: frozenset[Mode]
    run: Run
