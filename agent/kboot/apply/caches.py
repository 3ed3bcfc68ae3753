"""Creates a kernel-cache folder with its factors, and marks it complete once an engine reached ready with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from kboot.apply.outcome import Effect, carry_out
from kboot.events import Notice
from kboot.host.clock import unix_s
from kboot.host.files import atomic_write, make_dirs
from kboot.host.sharing import engine_dir_mode, require_engines
from kboot.host.trial import try_folder
from kboot.store.cache_files import COMPLETE, FACTORS

if TYPE_CHECKING:
    from kboot.apply.cache_seed import Seeding
    from kboot.plan.types import PrepareCache
    from kboot.report.types import Outcome


def prepare_cache(action: PrepareCache, seeding: Seeding | None = None) -> Outcome:
    """Create the folder, from its seed where there is one; a seed that cannot be used is told, and is no failure.

    seeding: None leaves the seed alone.
    """
    return carry_out("cache", action, lambda: _prepare(action, seeding))


def _prepare(action: PrepareCache, seeding: Seeding | None) -> Effect:
    """Write factors.json last, so that a folder without it is one that nobody finished making."""
    if action.seed and seeding is not None and (effect := _seeded(action, seeding)):
        return effect
    folder = Path(action.path)
    make_dirs(folder, engine_dir_mode(folder.parent))
    require_engines(folder)
    _try_place(folder, seeding)
    text = json.dumps(dict(sorted(action.key.factors.items())), indent=2) + "\n"
    atomic_write(folder / FACTORS, text.encode())
    return Effect(after=action.path)


def _seeded(action: PrepareCache, seeding: Seeding) -> Effect | None:
    """Fill the folder from the seed; None, and a notice, where it cannot be used."""
    from kboot.apply.cache_import import Imported
    from kboot.apply.cache_seed import seed_cache, seed_name

    seeded = seed_cache(action, seeding)
    if isinstance(seeded, Imported) and seeded.key == action.key.name:
        return Effect(after=action.path, size_bytes=seeded.size_bytes, source=seed_name(action.seed))
    why = f"it is of key {seeded.key}" if isinstance(seeded, Imported) else f"{seeded.code}: {seeded.message}"
    seeding.emit(Notice("cache.not_seeded", f"{seed_name(action.seed)} is not used: {why}"))
    return None


def _try_place(folder: Path, seeding: Seeding | None) -> None:
    """Say what of the place does not keep caches as they must be kept; a boot goes on with it."""
    if seeding is not None:
        for fault in try_folder(folder):
            seeding.emit(Notice("cache.place", f"{folder.parent} does not keep kernel caches well: {fault}"))


def mark_complete(cache_dir: str) -> None:
    """Record that an engine reached ready with this cache; only then may it be trusted as whole."""
    marker = Path(cache_dir) / COMPLETE
    if not marker.exists():
        atomic_write(marker, f"{unix_s():.3f}\n".encode())
