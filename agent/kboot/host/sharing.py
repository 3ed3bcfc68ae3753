"""Who besides this process must get at a file? On an installed node the engine's group; elsewhere nobody.

An installed node runs the engine as a user of its own, of the group that /var/lib/kboot and /run/kboot belong to. Those
folders are set-group-id, which gives everything in them that group and is how they are recognised here.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def secret_mode(folder: Path) -> int:
    """Return the mode for a key or record in `folder`: 0600, or 0640 where the engine's group owns the folder."""
    return 0o640 if _shared(folder) else 0o600


def engine_dir_mode(folder: Path) -> int:
    """Return the mode for a folder below `folder` that the engine writes: 0755, or 0770 for the engine's group."""
    return 0o770 if _shared(folder) else 0o755


def _shared(folder: Path) -> bool:
    try:
        return bool(os.stat(folder).st_mode & stat.S_ISGID)
    except OSError:
        return False
