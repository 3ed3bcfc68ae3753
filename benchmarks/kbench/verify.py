"""How near to the hashing rate of the cores is a verification, and how near to the disk's rate when it is cold?

One node with a fetched checkpoint. Methods take turns within a round; a ratio is a quotient of two measurements of the
same round, and the median over rounds is reported.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from kbench.document import Document, Value
from kbench.kboot import PROFILE, clean_env, kboot, node_env, tool, version_of, why_left_out, write_profile
from kbench.machine import fill_page_cache, measure, wait_quiet
from kbench.origin import COMMIT, REPO, Origin, make_checkpoint, serve

TIMEOUT_S = 1800.0
LEDGER_SHARDS = 111
LEDGER_SHARD_BYTES = 64 << 10
LEDGER_CALLS = 20
SPEED_S = 2
READERS = 4
BUFFER_BYTES = 1 << 20
PLAIN_BUFFER_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Node:
    """A node that has the checkpoint. env: of its commands. blobs: the shards on its disk."""

    env: dict[str, str]
    blobs: tuple[Path, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Pass:
    """One `kboot verify --mode full`: the whole command, and the time from the first byte to the last hash.

    peak_rss_mib: 0 where it was not sampled.
    """

    wall_s: float
    pass_s: float
    cpu_s: float
    peak_rss_mib: float


def run(asked: argparse.Namespace, work: Path) -> Document:
    """Measure and return the document.

    Raises:
        RuntimeError: nginx or kboot is missing, or a command failed.
    """
    files = make_checkpoint(work / "origin", asked.shards, asked.mib << 20)
    with serve(work / "origin", work, files, log_requests=False) as origin:
        node = _fetched(work / "node", origin)
        why_no_hf = why_left_out("hf", ("hf",), asked.without)
        hf = None if why_no_hf else tool("hf")
        rounds = [_round(asked, node, origin, hf, work / "junk") for _ in range(asked.rounds)]
        peak_rss_mib = _verify(node, track_rss=True).peak_rss_mib
    shutil.rmtree(work / "origin", ignore_errors=True)
    shutil.rmtree(work / "node", ignore_errors=True)
    return _document(node, rounds, (hf, why_no_hf), {"peak_rss_mib": peak_rss_mib, **_ledger(work / "ledger")})


def _fetched(folder: Path, origin: Origin) -> Node:
    folder.mkdir()
    write_profile(folder, REPO, COMMIT, ("/bin/true",))
    env = node_env(folder, origin.url)
    measure([kboot(), "fetch", "--profile", PROFILE, "--json"], env, timeout_s=TIMEOUT_S, track_rss=False)
    names = {f.sha256 for f in origin.shards}
    blobs = tuple(sorted(p for p in (folder / "state").rglob("*") if p.name in names))
    if len(blobs) != len(names):
        raise RuntimeError(f"the fetch left {len(blobs)} of {len(names)} shards")
    os.sync()
    return Node(env, blobs, sum(p.stat().st_size for p in blobs))


def _round(asked: argparse.Namespace, node: Node, origin: Origin, hf: str | None, junk: Path) -> dict[str, float]:
    found: dict[str, float] = {}

    def make_cold() -> None:
        _evict(node.blobs)
        if not asked.no_fill:
            fill_page_cache(junk)

    def quietly(name: str, work: Callable[[], float]) -> None:
        wait_quiet(asked.quiet_s)
        found[name] = work()
        print(f"{name:<10} {found[name]:.3f}", file=sys.stderr, flush=True)

    quietly("limit_gb_s", _limit_gb_s)
    _read(node.blobs)
    wait_quiet(asked.quiet_s)
    warm = _verify(node)
    found |= {"warm_wall_s": warm.wall_s, "warm_pass_s": warm.pass_s, "cpu_s": warm.cpu_s}
    print(f"kboot      {warm.wall_s:.3f} s, pass {warm.pass_s:.3f} s", file=sys.stderr, flush=True)
    _read(node.blobs)
    quietly("plain_s", lambda: _plain_loop(node))
    if hf:
        _read(node.blobs)
        quietly("hf_wall_s", lambda: _hf_verify(hf, node, origin))
    make_cold()
    wait_quiet(asked.quiet_s)
    found["disk_s"], found["disk_cpu_s"] = _cold_read(node)
    make_cold()
    quietly("cold_pass_s", lambda: _verify(node).pass_s)
    return found


def _verify(node: Node, *, track_rss: bool = False) -> Pass:
    """Run it; sampling the memory of processes takes a few per cent of two CPUs, so that no timed run does it."""
    argv = [kboot(), "verify", "--profile", PROFILE, "--mode", "full", "--json"]
    cost, printed = measure(argv, node.env, timeout_s=TIMEOUT_S, track_rss=track_rss)
    document = json.loads(printed)
    outcomes = [o for o in document["outcomes"] if o["size_bytes"]]
    began = min(o["start_unix_s"] for o in outcomes)
    ended = max(o["start_unix_s"] + o["seconds"] for o in outcomes)
    if sum(o["size_bytes"] for o in outcomes) < node.size_bytes:
        raise RuntimeError("kboot verify read less than the checkpoint")
    return Pass(cost.wall_s, ended - began, cost.cpu_s, cost.peak_rss_mib)


def _hf_verify(hf: str, node: Node, origin: Origin) -> float:
    env = clean_env(
        HF_ENDPOINT=origin.url, HF_HUB_CACHE=str(node.blobs[0].parents[2]), HF_HUB_DISABLE_PROGRESS_BARS="1"
    )
    argv = [hf, "cache", "verify", REPO, "--revision", COMMIT, "--fail-on-missing-files"]
    cost, said = measure(argv, env, timeout_s=TIMEOUT_S, servers=origin.pids, track_rss=False)
    if str(len(origin.files)) not in said:
        raise RuntimeError(f"hf cache verify looked at other files than the {len(origin.files)} served: {said[-300:]}")
    return cost.wall_s


def _limit_gb_s() -> float:
    """Return what all cores hash together, from memory: by openssl where it is, else by hashlib on threads."""
    cpus = len(os.sched_getaffinity(0))
    if openssl := tool("openssl"):
        argv = [
            openssl,
            "speed",
            "-seconds",
            str(SPEED_S),
            "-bytes",
            str(1 << 20),
            "-multi",
            str(cpus),
            "-evp",
            "sha256",
        ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=clean_env(), check=False)
        rates = re.findall(r"sha256 +([\d.]+)k", done.stdout, re.IGNORECASE)
        if rates:
            return float(rates[-1]) * 1000 / 1e9
    block, until = memoryview(bytearray(1 << 20)), time.monotonic() + SPEED_S

    def work(_: int) -> int:
        digest, blocks = hashlib.sha256(), 0
        while time.monotonic() < until:
            digest.update(block)
            blocks += 1
        return blocks

    with ThreadPoolExecutor(cpus) as pool:
        return sum(pool.map(work, range(cpus))) * (1 << 20) / SPEED_S / 1e9


def _plain_loop(node: Node) -> float:
    """Return the seconds in which the same files are hashed by the least that Python can do: readinto, update."""

    def work(path: Path) -> str:
        buffer, digest = memoryview(bytearray(PLAIN_BUFFER_BYTES)), hashlib.sha256()
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                digest.update(buffer[:count])
        return digest.hexdigest()

    began = time.monotonic()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        if [path.name for path in node.blobs] != list(pool.map(work, node.blobs)):
            raise RuntimeError("a shard is not what its name says")
    return time.monotonic() - began


def _read(blobs: Sequence[Path]) -> None:
    """Read every byte into the page cache, several files at once."""

    def work(path: Path) -> None:
        buffer = bytearray(BUFFER_BYTES)
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            while file.readinto(buffer):
                pass

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(work, blobs))


def _evict(blobs: Sequence[Path]) -> None:
    for path in blobs:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _cold_read(node: Node) -> tuple[float, float]:
    """Return wall and CPU seconds of reading everything from the disk and doing nothing with it."""
    before, began = time.process_time(), time.monotonic()
    _read(node.blobs)
    return time.monotonic() - began, time.process_time() - before


def _ledger(folder: Path) -> dict[str, Value]:
    """Return how long the ledger takes to vouch for 111 files: the call, and the whole command."""
    from kboot.apply.verify import ledger_check
    from kboot.host.paths import Paths
    from kboot.store.store import Store

    folder.mkdir()
    files = make_checkpoint(folder / "origin", LEDGER_SHARDS, LEDGER_SHARD_BYTES)
    with serve(folder / "origin", folder, files, log_requests=False) as origin:
        node = _fetched(folder / "node", origin)
    state = folder / "node"
    took = []
    for _ in range(LEDGER_CALLS):
        began = time.perf_counter()
        store = Store(Paths(state / "state", state / "run", state / "etc"))
        listing = store.known_listing(REPO, COMMIT)
        if listing is None or ledger_check(listing, store):
            raise RuntimeError("the ledger does not vouch for what was just fetched")
        took.append(time.perf_counter() - began)
        store.ledger.close()
    argv = [kboot(), "verify", "--profile", PROFILE, "--mode", "ledger", "--json"]
    command = [measure(argv, node.env, timeout_s=60, track_rss=False)[0].wall_s for _ in range(5)]
    return {"ledger_111_files_ms": median(took) * 1000, "ledger_111_files_command_ms": median(command) * 1000}


def _cold_limit_gb_s(found: dict[str, float], gb: float) -> float:
    """Return the slower of the disk, and of CPUs that have to read what they hash."""
    cpus = len(os.sched_getaffinity(0))
    cpu_s_per_gb = cpus / found["limit_gb_s"] + found["disk_cpu_s"] / gb
    return min(gb / found["disk_s"], cpus / cpu_s_per_gb)


def _document(
    node: Node, rounds: Sequence[dict[str, float]], compared: tuple[str | None, str], once: dict[str, Value]
) -> Document:
    hf, why_no_hf = compared
    gb = node.size_bytes / 1e9

    def typical(of: Callable[[dict[str, float]], float]) -> float:
        return median(of(found) for found in rounds)

    ratios = {
        "fraction_of_limit": typical(lambda r: gb / r["warm_pass_s"] / r["limit_gb_s"]),
        "fraction_of_plain_loop": typical(lambda r: r["plain_s"] / r["warm_pass_s"]),
        "cold_fraction_of_disk": typical(lambda r: r["disk_s"] / r["cold_pass_s"]),
        "cold_fraction_of_disk_or_hash": typical(
            lambda r: gb / r["cold_pass_s"] / min(gb / r["disk_s"], r["limit_gb_s"])
        ),
        "cold_fraction_of_limit": typical(lambda r: gb / r["cold_pass_s"] / _cold_limit_gb_s(r, gb)),
    }
    left_out = {}
    if hf:
        ratios["vs_hf_cache_verify"] = typical(lambda r: r["hf_wall_s"] / r["warm_wall_s"])
    else:
        left_out["vs_hf_cache_verify"] = why_no_hf
    by_openssl = tool("openssl") is not None
    figures: dict[str, Value] = {
        "shards": len(node.blobs),
        "size_gb": gb,
        "rounds": len(rounds),
        "limit_is": f"{'openssl speed -multi' if by_openssl else 'hashlib threads'}: SHA-256 in memory, all CPUs",
        "limit_gb_per_s": typical(lambda r: r["limit_gb_s"]),
        "warm_gb_per_s": typical(lambda r: gb / r["warm_pass_s"]),
        "warm_command_s": typical(lambda r: r["warm_wall_s"]),
        "cpu_s_per_gb": typical(lambda r: r["cpu_s"] / gb),
        "plain_loop_gb_per_s": typical(lambda r: gb / r["plain_s"]),
        "cold_gb_per_s": typical(lambda r: gb / r["cold_pass_s"]),
        "disk_gb_per_s": typical(lambda r: gb / r["disk_s"]),
        "disk_cpu_s_per_gb": typical(lambda r: r["disk_cpu_s"] / gb),
        "cold_limit_gb_per_s": typical(lambda r: _cold_limit_gb_s(r, gb)),
        **once,
    }
    if hf:
        figures["hf_command_s"] = typical(lambda r: r["hf_wall_s"])
    programs = {"kboot": (kboot(), "--version"), **({"hf": (hf, "version")} if hf else {})}
    programs |= {"openssl": (tool("openssl") or "", "version")} if by_openssl else {}
    return Document(
        "verify", ratios, {**figures, **{f"version_{k}": v for k, v in version_of(programs).items()}}, left_out
    )
