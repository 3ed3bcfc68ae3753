"""What does it cost to start kboot, and to go from a prepared node to a running engine?"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

from kbench.document import Document, Value
from kbench.kboot import PROFILE, clean_env, kboot, node_env, write_profile
from kbench.machine import Cost, measure, wait_quiet
from kbench.origin import COMMIT, REPO, Origin, make_checkpoint, serve

TIMEOUT_S = 300.0
SHARDS = 111
SHARD_BYTES = 256 << 10
STARTS_PER_ROUND = 4
"""A start is a few hundredths of a second, so a round has several."""


def run(asked: argparse.Namespace, work: Path) -> Document:
    """Measure and return the document.

    Raises:
        RuntimeError: nginx or kboot is missing, a boot failed, or a boot of a prepared node asked the network.
    """
    wait_quiet(asked.quiet_s)
    version, bare = _starts(asked.rounds)
    files = make_checkpoint(work / "origin", SHARDS, SHARD_BYTES)
    with serve(work / "origin", work, files, log_requests=True) as origin:
        boots, execs, cpu = _boots(asked, work, origin)
    figures: dict[str, Value] = {
        "version_over_bare_python": median(v / b for v, b in zip(version, bare)),
        "version_s": median(version),
        "bare_python_s": median(bare),
        "warm_boot_to_exec_s": median(b + e for b, e in zip(boots, execs)),
        "warm_boot_s": median(boots),
        "exec_s": median(execs),
        "shards": SHARDS,
        "rounds": asked.rounds,
        **{f"{name}_least_cpu_ms": 1000 * min(took) for name, took in cpu.items()},
        **_imports(),
    }
    return Document("startup", {}, figures)


def _starts(rounds: int) -> tuple[list[float], list[float]]:
    """Return wall seconds of `kboot --version` and of `python -c pass`, taken in turns."""
    version: list[float] = []
    bare: list[float] = []
    env = clean_env()
    for _ in range(rounds * STARTS_PER_ROUND + 1):
        for argv, took in (([kboot(), "--version"], version), ([sys.executable, "-c", "pass"], bare)):
            took.append(measure(argv, env, timeout_s=TIMEOUT_S, track_rss=False)[0].wall_s)
    return version[1:], bare[1:]  # the first start reads files and writes bytecode


def _boots(
    asked: argparse.Namespace, work: Path, origin: Origin
) -> tuple[list[float], list[float], dict[str, list[float]]]:
    """Return what commands take on a booted node.

    Wall seconds of `kboot boot` and of `kboot exec` until the engine's command has run, and for each command below the
    CPU seconds of it and its children: the least of them says what it costs on a machine that others use too.
    """
    node = work / "node"
    node.mkdir()
    true = shutil.which("true") or "/bin/true"
    write_profile(node, REPO, COMMIT, (true,))
    env = node_env(node, origin.url)
    profile = ("--profile", PROFILE)
    commands = {
        "warm_boot": ("boot", *profile),
        "exec": ("exec",),
        "exec_command": ("exec", "--", true),
        "fetch_complete": ("fetch", *profile),
        "verify_ledger": ("verify", *profile, "--mode", "ledger"),
        "plan": ("plan", *profile),
        "status": ("status",),
    }
    taken: dict[str, list[Cost]] = {name: [] for name in commands}
    asked_before = 0
    for round_ in range(asked.rounds + 1):
        os.sync()
        wait_quiet(asked.quiet_s)
        for name, words in commands.items():
            taken[name].append(measure([kboot(), *words], env, timeout_s=TIMEOUT_S, track_rss=False)[0])
        if round_ == 0:
            asked_before = origin.requests()
    requests = origin.requests() - asked_before
    if requests:
        raise RuntimeError(f"{requests} requests in {asked.rounds} rounds on a prepared node, none wanted")
    later = {name: costs[1:] for name, costs in taken.items()}  # the first fetches, reads files and writes bytecode
    walls = {name: [cost.wall_s for cost in costs] for name, costs in later.items()}
    return walls["warm_boot"], walls["exec"], {name: [cost.cpu_s for cost in costs] for name, costs in later.items()}


def _imports() -> dict[str, Value]:
    """Return what importing costs in `kboot --version`, and the three dearest modules by their own time."""
    argv = [sys.executable, "-X", "importtime", kboot(), "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=clean_env(), check=False)
    rows = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines() if "|" in line]
    own = {name.strip(): int(us) for us, _, name in rows if us.strip().isdigit()}
    dearest = sorted(own, key=lambda name: -own[name])[:3]
    return {
        "version_modules": len(own),
        "version_import_ms": sum(own.values()) / 1000,
        "version_dearest_imports": ", ".join(f"{name} {own[name] / 1000:.1f} ms" for name in dearest),
    }
