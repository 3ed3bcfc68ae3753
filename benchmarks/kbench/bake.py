"""How soon is a node that was started from an image at its hand-off, beside reading its checkpoint once?

An image is baked and sealed; then, in turns, all files are read from the disk and nothing is done with them, and a node
boots for the first time from a cold disk, with nobody to ask. The samples of `verify.image = "bake"` stand beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from kbench.document import Document, Value
from kbench.kboot import PROFILE, kboot, node_env, write_profile
from kbench.machine import fill_page_cache, measure, wait_quiet
from kbench.origin import COMMIT, REPO, make_checkpoint, serve

TIMEOUT_S = 1800.0
READERS = 8
BUFFER_BYTES = 1 << 20
NOBODY = "http://127.0.0.1:9"  # discard: nobody listens


def run(asked: argparse.Namespace, work: Path) -> Document:
    """Measure and return the document.

    Raises:
        RuntimeError: nginx or kboot is missing, a command failed, or a boot asked for bytes.
    """
    node = work / "node"
    node.mkdir()
    write_profile(node, REPO, COMMIT, ("/bin/true",))
    files = make_checkpoint(work / "origin", asked.shards, asked.mib << 20)
    with serve(work / "origin", work, files, log_requests=False) as origin:
        baked, _ = measure(
            [kboot(), "bake", "--profile", PROFILE, "--json"],
            node_env(node, origin.url),
            timeout_s=TIMEOUT_S,
            track_rss=False,
        )
    shutil.rmtree(work / "origin")
    image = work / "image"
    (image / "etc").mkdir(parents=True)
    (image / "var/lib").mkdir(parents=True)
    (node / "state").rename(image / "var/lib/kboot")
    env = node_env(node, NOBODY)
    measure([kboot(), "bake", "--finish", "--root", str(image)], env, timeout_s=TIMEOUT_S, track_rss=False)
    state = image / "var/lib/kboot"
    blobs = [path for path in sorted(state.glob("hub/*/blobs/*")) if path.is_file()]
    shutil.copy(state / "ledger.db", work / "ledger.db")  # as it goes out
    env["KBOOT_STATE_DIR"] = str(state)
    rounds = [_round(asked, work, env, state, blobs) for _ in range(asked.rounds)]
    figures: dict[str, Value] = {
        "checkpoint_bytes": sum(path.stat().st_size for path in blobs),
        "bake_s": baked.wall_s,
        **{name: median(r[name] for r in rounds) for name in rounds[0]},
        "rounds": asked.rounds,
    }
    shutil.rmtree(image)
    return Document(
        "bake",
        {
            "handoff_over_reading_once": median(r["handoff_s"] / r["read_s"] for r in rounds),
            "sampled_handoff_over_reading_once": median(r["sampled_handoff_s"] / r["read_s"] for r in rounds),
        },
        figures,
    )


def _round(
    asked: argparse.Namespace, work: Path, env: dict[str, str], state: Path, blobs: Sequence[Path]
) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, more in (("read_s", None), ("handoff_s", ()), ("sampled_handoff_s", ("--set", "verify.image=bake"))):
        _as_it_goes_out(state, Path(env["KBOOT_RUNTIME_DIR"]), work / "ledger.db")
        _evict(blobs)
        if not asked.no_fill:
            fill_page_cache(work / "junk")
        wait_quiet(asked.quiet_s)
        found[name] = _read(blobs) if more is None else _first_boot(env, more)
        print(f"{name:<18} {found[name]:.3f}", file=sys.stderr, flush=True)
    return found


def _as_it_goes_out(state: Path, runtime: Path, ledger: Path) -> None:
    """Make the state folder that of a node which never booted."""
    shutil.rmtree(runtime, ignore_errors=True)
    shutil.rmtree(state / "history", ignore_errors=True)
    for name in ("image.json", "node.key", "ledger.db-wal", "ledger.db-shm"):
        (state / name).unlink(missing_ok=True)
    shutil.copy(ledger, state / "ledger.db")


def _first_boot(env: dict[str, str], more: Sequence[str]) -> float:
    """Return the seconds from the boot's begin to its hand-off record."""
    argv = [kboot(), "boot", "--profile", PROFILE, "--json", "--skip", "warm", *more]
    _, printed = measure(argv, env, timeout_s=TIMEOUT_S, track_rss=False)
    report = json.loads(printed)
    handoff = next(span for span in report["spans"] if span["name"] == "handoff")
    if any(o["phase"] == "fetch" for o in report["outcomes"]):
        raise RuntimeError("the boot from an image fetched something")
    return float(handoff["end_unix_s"] - report["started_unix_s"])


def _evict(blobs: Sequence[Path]) -> None:
    for path in blobs:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read(blobs: Sequence[Path]) -> float:
    def work(path: Path) -> None:
        buffer = bytearray(BUFFER_BYTES)
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            while file.readinto(buffer):
                pass

    began = time.monotonic()
    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(work, blobs))
    return time.monotonic() - began
