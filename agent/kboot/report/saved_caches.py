"""What is kept of the kernel caches of each boot? One manifest beside the reports, and the last one in its folder."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from kboot.errors import UsageError
from kboot.host.files import atomic_write, file_names, make_dirs, read_small, remove
from kboot.host.paths import Paths
from kboot.jsontext import parse_json
from kboot.report.cache_manifest import CacheManifest, manifest_document, manifest_from_json
from kboot.report.document import dumps
from kboot.store.cache_files import MANIFEST

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
        remove(folder / name)


def load_manifest(path: Path) -> CacheManifest | None:
    """Return the manifest in a file; None when there is none that can be read."""
    try:
        return manifest_from_json(parse_json(read_small(path, _LIMIT_BYTES)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def load_manifests(paths: Paths, limit: int = KEPT) -> tuple[CacheManifest, ...]:
    """Return the newest manifests, newest first."""
    found = (load_manifest(_folder(paths) / name) for name in _names(paths)[:limit])
    return tuple(manifest for manifest in found if manifest is not None)


def choose_manifest(manifests: tuple[CacheManifest, ...], asked: str) -> CacheManifest:
    """Return the boot that is meant: 0 is the last, 1 the one before; else the beginning of its boot id or time.

    Raises:
        UsageError: none fits, or several do.
    """
    if asked.isdigit() and int(asked) < len(manifests):
        return manifests[int(asked)]
    found = [m for m in manifests if m.boot_id.startswith(asked) or _stamp(m).startswith(asked)]
    if len(found) == 1:
        return found[0]
    raise UsageError(
        "no-such-boot" if not found else "which-boot",
        f"{len(found)} boots on record fit {asked!r}, wanted one",
        where=tuple(f"{n}: {_stamp(m)} {m.profile}, boot {m.boot_id[:8]}" for n, m in enumerate(manifests[:10])),
        hint="a number counts back from the last boot, 0; or give the beginning of a time or boot id",
    )


def _folder(paths: Paths) -> Path:
    return paths.history / "caches"


def _names(paths: Paths) -> list[str]:
    return [name for name in reversed(file_names(_folder(paths))) if name.endswith(".json")]


def _stamp(manifest: CacheManifest) -> str:
    return datetime.fromtimestamp(manifest.started_unix_s, UTC).strftime("%Y%m%dT%H%M%S")


def _name(manifest: CacheManifest) -> str:
    moment = datetime.fromtimestamp(manifest.started_unix_s, UTC).strftime("%Y%m%dT%H%M%S.%f")
    return f"{moment}-{re.sub(r'[^A-Za-z0-9._-]', '_', manifest.profile)}.json"
