"""Is the engine's Python compiled in a place that stays, and are the engine's own files in memory? Pure.

Its interpreter starts five times in a row before the first weight. Where nothing was compiled before, as in a container
that starts afresh, that took 103 s of vLLM 0.26 on 32 CPUs; compiled, 47 s.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from kboot.plan.types import CompileBytecode, WarmEngine

if TYPE_CHECKING:
    from kboot.facts.types import EngineFacts, NodeFacts
    from kboot.plan.types import Phase
    from kboot.profile.types import EngineName, LayoutAsk

_MOST_BYTES = 8 << 30  # whatever an environment holds
_IN_PYTHON: frozenset[EngineName] = frozenset({"vllm", "sglang", "tokenspeed"})


def bytecode_dir(facts: NodeFacts, layout: LayoutAsk, root: str) -> str:
    """Return where the engine's compiled files are, below `root`; empty where it has none or there is no root.

    Another folder for every interpreter and set of packages; files inside are told from their sources by time and size.
    """
    engine = facts.engine
    known = engine.name == layout.engine and engine.interpreter and engine.version
    return f"{root}/{_name(engine)}" if root and known and layout.engine in _IN_PYTHON else ""


def plan_bytecode(facts: NodeFacts, folder: str) -> tuple[CompileBytecode, ...]:
    """Return what must be compiled: the engine and what it requires, once for each folder."""
    if not folder or not facts.engine.interpreter or folder.rpartition("/")[2] in facts.caches.bytecode:
        return ()
    why = "each of the engine's processes would compile its imports by itself, one file after the other"
    return (CompileBytecode(facts.engine.interpreter, facts.engine.name, folder, why),)


def plan_engine_files(facts: NodeFacts, folder: str, root: str, budget_bytes: int) -> tuple[WarmEngine, ...]:
    """Return what must be read of the engine's own files: all of them, once after each start of the machine.

    folder: of its compiled Python, which names this very engine; empty for one that is none of Python. root: where it
    is noted that it was done. budget_bytes: of the page cache, for the checkpoint and these.
    """
    name, limit_bytes = folder.rpartition("/")[2], min(_MOST_BYTES, budget_bytes // 4)
    if not folder or not root or not facts.engine.interpreter or name in facts.caches.warmed or limit_bytes <= 0:
        return ()
    why = "not yet since the machine's start; a cold front end reads them page by page"
    return (WarmEngine(facts.engine.interpreter, facts.engine.name, folder, f"{root}/{name}", limit_bytes, why),)


def with_engine_files(phases: tuple[Phase, ...], read: tuple[WarmEngine, ...]) -> tuple[Phase, ...]:
    """Return the phases with the reading of the engine's own files, before the checkpoint's.

    Nothing waits for it: done beside a fetch it held the hand-off up for 8 s, and gained the front end 3.
    """
    if not read:
        return phases
    return tuple(replace(p, actions=(*read, *p.actions), note="") if p.name == "warm" else p for p in phases)


def _name(engine: EngineFacts) -> str:
    told = json.dumps([engine.interpreter, engine.version, sorted(engine.packages.items())])
    return f"{engine.name}{engine.version}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
