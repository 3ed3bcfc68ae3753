"""What is kept of the kernel caches of each boot? One manifest beside the reports, and the last one in its folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kboot.host.clock import unix_s
from kboot.host.files import atomic_write, file_names, make_dirs, read_small, remove
from kboot.jsontext import parse_json
from kboot.report.cache_manifest import CacheManifest, manifest_document, manifest_from_json
from kboot.report.document import dumps
from kboot.report.kept_order import moment_name, newest_first
from kboot.store.cache_files import MANIFEST

if TYPE_CHECKING:
    from kboot.host.paths import Paths

KEPT = 200
_LIMIT_BYTES = 64 << 20


def save_manifest(manifest: CacheManifest, paths: Paths) -> None:
    """Keep the manifest in the history (KEPT of them) and in its key's folder.

    Raises:
        KbootError: a folder or file cannot be written.
    """
    text = dumps(manifest_document(manifest)).encode() + b"\n"
    folder = _folder(paths)
    make_dirs(folder)
    atomic_write(paths.cache / manifest.key / MANIFEST, text)
    atomic_write(folder / _name(manifest), text)
    for name in _names(paths)[KEPT:]:
        if name != _name(manifest):  # its clock was set back meanwhile
            remove(folder / name)


def load_manifest(path: Path) -> CacheManifest | None:
    """Return the manifest in a file; None when there is none that can be read."""
    try:
        return manifest_from_json(parse_json(read_small(path, _LIMIT_BYTES)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def load_manifests(paths: Paths) -> tuple[CacheManifest, ...]:
    """Return the newest manifests, newest first."""
    found = (load_manifest(_folder(paths) / name) for name in _names(paths)[:KEPT])
    return tuple(manifest for manifest in found if manifest is not None)


def _folder(paths: Paths) -> Path:
    return paths.history / "caches"


def _names(paths: Paths) -> list[str]:
    return newest_first((n for n in file_names(_folder(paths)) if n.endswith(".json")), moment_name(unix_s()))


def _name(manifest: CacheManifest) -> str:
    return f"{moment_name(manifest.started_unix_s)}-{re.sub(r'[^A-Za-z0-9._-]', '_', manifest.profile)}.json"
