"""Gives to the others, through the profile's seed, what this node's engine has compiled and tuned, before it goes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from kboot.apply.cache_export import carried_paths, export_cache
from kboot.apply.cache_import import listing_of
from kboot.apply.cache_seed import S3_SCHEME, open_seed
from kboot.apply.handoff import read_handoff
from kboot.apply.reclaim import drain_engine
from kboot.errors import KbootError
from kboot.host.clock import monotonic_s
from kboot.host.files import remove
from kboot.host.paths import Paths
from kboot.profile.types import Profile
from kboot.quantities import show_bytes
from kboot.sources.s3_object import put_object

_MARGIN_S = 2.0
"""Of the window, for ending in order when the archive is not written by then."""
_LEAST_S = 1.0
_PARKED = ".kboot-push.tmp"  # swept by a later boot, should this one not come to it


def leaving(load: Callable[[], Profile], paths: Paths, cpus: int, env: Mapping[str, str]) -> Callable[[float], str]:
    """Return what is done in the window that a machine which is taken away leaves: the engine first, then its caches.

    load: the profile, whose seed may have changed since the boot. env: credentials of an object store are in it.
    """

    def leave(window_s: float) -> str:
        deadline_s = monotonic_s() + window_s
        said = drain_engine(window_s)
        left_s = deadline_s - monotonic_s() - _MARGIN_S
        try:
            pushed = push_cache(load().cache.seed, paths, cpus, env, left_s)
        except KbootError as exc:
            pushed = f"its kernel cache stays here: {exc.message}"
        return f"{said}; {pushed}" if pushed else said

    return leave


def push_cache(seed: str, paths: Paths, cpus: int, env: Mapping[str, str], window_s: float) -> str:
    """Write the archive of the cache that this node serves with to its seed, if the seed lacks something of it.

    Only a path or s3:// address with {key} in it is written: another one is that of other caches too. Returns how it
    went, in words; empty where there is no seed. The seed is there, whole, or as it was before.

    Raises:
        KbootError: no engine has been ready with the cache, the disk says no, or the window was too short.
    """
    if not seed:
        return ""
    in_store = seed.startswith(S3_SCHEME)
    if ("://" in seed and not in_store) or "{key}" not in seed:
        return "its kernel cache stays here: the seed is no path or s3:// address of its own for each key"
    if window_s < _LEAST_S:
        return "its kernel cache stays here: the engine has taken all of the time"
    record = read_handoff(paths)
    folder, target = Path(record.cache_dir), seed.replace("{key}", record.cache_key)
    if _holds(target, carried_paths(folder), env):
        return f"the seed of its kernel cache is complete: {target}"
    archive = paths.state / _PARKED if in_store else Path(target)
    stop = threading.Event()
    timer = threading.Timer(window_s, stop.set)
    timer.daemon = True
    timer.start()
    try:
        done = export_cache(folder, archive, cpus, stop=stop)
        if in_store:
            put_object(target, env, archive)
    finally:
        timer.cancel()
        if in_store:
            remove(archive)
    return f"its kernel cache is in its seed: {done.files} files, {show_bytes(done.archive_bytes)} at {target}"


def _holds(seed: str, paths: frozenset[str], env: Mapping[str, str]) -> bool:
    """Return whether an archive has all of these files; one that is not there or cannot be read has none."""
    with suppress(KbootError), open_seed(seed, env) as stream:
        return paths <= {file.path for file in listing_of(stream).files}
    return False
