"""Creates a kernel-cache folder with its factors, and marks it complete once an engine reached ready with it."""

from __future__ import annotations

import json
from pathlib import Path

from kboot.apply.outcome import Effect, carry_out
from kboot.host.clock import unix_s
from kboot.host.files import atomic_write, make_dirs
from kboot.host.sharing import engine_dir_mode
from kboot.plan.types import PrepareCache
from kboot.report.types import Outcome
from kboot.store.cache_files import COMPLETE, FACTORS


def prepare_cache(action: PrepareCache) -> Outcome:
    """Create the folder; factors.json is written last, so a folder without it is one that nobody finished making."""
    return carry_out("cache", action, lambda: _prepare(action))


def _prepare(action: PrepareCache) -> Effect:
    folder = Path(action.path)
    make_dirs(folder, engine_dir_mode(folder.parent))
    text = json.dumps(dict(sorted(action.key.factors.items())), indent=2) + "\n"
    atomic_write(folder / FACTORS, text.encode())
    return Effect(after=action.path)


def mark_complete(cache_dir: str) -> None:
    """Record that an engine reached ready with this cache; only then may it be trusted as whole."""
    marker = Path(cache_dir) / COMPLETE
    if not marker.exists():
        atomic_write(marker, f"{unix_s():.3f}\n".encode())
