"""What does it cost to carry kernel caches to another node, and to look through them at every boot?

One folder of 20,000 files and 2 GiB, cut from this machine's own shared libraries, which compress like compiled
kernels. kboot exports and imports it with the SHA-256 of every file compared and everything durable; tar and zstd pack
and unpack.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

from kbench.document import Document, Value
from kbench.kboot import clean_env, kboot, node_env, tool, version_of
from kbench.machine import Cost, measure, wait_quiet

TIMEOUT_S = 1800.0
KEY = "bench"
FILES_PER_FOLDER = 20
STEP_RUNS = 7

# Prints what a key of this node holds, as JSON.
_FACTORS = """
import json
from kboot.engines.common import node_factors
from kboot.facts.collect import collect
from kboot.host.paths import find_paths
from kboot.host.real import RealHost
host = RealHost()
print(json.dumps(dict(node_factors(collect(host, find_paths(None, host.environ(), 0), "demo"), "demo"))))
"""
# Prints the milliseconds of each look through the folder: as a boot does it before its plan, and on record after it.
_STEP = """
import sys, time
from pathlib import Path
from kboot.apply.cache_record import engine_factors
from kboot.facts.cache_scan import scan_cache
folder = Path(sys.argv[1])
for _ in range(int(sys.argv[2])):
    started = time.perf_counter()
    scan = scan_cache(folder, "bench")
    engine_factors(folder, scan.factor_files)
    print((time.perf_counter() - started) * 1000)
assert not scan.torn and not scan.looked_at, scan
"""


def run(asked: argparse.Namespace, work: Path) -> Document:
    """Measure and return the document.

    Raises:
        RuntimeError: kboot is missing, or a method failed.
    """
    source = work / "state/cache" / KEY
    size_bytes = make_tree(source, asked.files, asked.tree_mib << 20)
    _complete(source)
    has_tar = tool("tar") is not None and tool("zstd") is not None
    costs: dict[str, list[Cost]] = {"kboot": [], **({"tar": [], "tar_synced": []} if has_tar else {})}
    archive_bytes = 0
    for number in range(asked.rounds):
        methods = ("kboot", "tar") if number % 2 == 0 else ("tar", "kboot")
        for name in methods if has_tar else ("kboot",):
            out = _empty(work)
            wait_quiet(asked.quiet_s)
            if name == "kboot":
                costs["kboot"].append(_kboot(work, source, out))
                archive_bytes = (out / "a.tar.zst").stat().st_size
            else:
                plain, synced = _tar(source, out)
                costs["tar"].append(plain)
                costs["tar_synced"].append(synced)
            print(f"round {number + 1} {name:<6} {costs[name][-1].wall_s:.2f} s", file=sys.stderr, flush=True)
    wait_quiet(asked.quiet_s)
    steps_ms = _steps(work, source)
    return _document(asked, costs, size_bytes, archive_bytes, steps_ms)


def make_tree(top: Path, files: int, size_bytes: int) -> int:
    """Write the files, of sizes as compile caches have them (many small, few large); return their sum."""
    dice = random.Random(1)
    stock = _stock(64 << 20)
    shares = [dice.lognormvariate(0, 1) for _ in range(files)]
    total = 0
    for number, share in enumerate(shares):
        size = min(len(stock) // 2, max(200, int(size_bytes * share / sum(shares))))
        start = dice.randrange(len(stock) - size)
        folder = top / ("triton", "deep_gemm", "inductor")[number % 3] / f"{number // FILES_PER_FOLDER:052x}"
        folder.mkdir(parents=True, exist_ok=True)
        suffix = (".bin", ".ptx", ".py")[number % 3]
        (folder / f"kernel_{number}{suffix}").write_bytes(number.to_bytes(16) + stock[start : start + size - 16])
        total += size
    return total


def _stock(size_bytes: int) -> bytes:
    """Return object code of this machine."""
    parts: list[bytes] = []
    have = 0
    for path in sorted(Path(sys.prefix).rglob("*.so")) + sorted(Path(os.__file__).parent.rglob("*.so")):
        if have >= size_bytes:
            break
        parts.append(path.read_bytes())
        have += len(parts[-1])
    return b"".join(parts)[:size_bytes] or os.urandom(size_bytes)


def _complete(source: Path) -> None:
    """Make the folder one that an engine was ready with on this node."""
    from kboot.store.cache_files import write_inventory

    done = subprocess.run([sys.executable, "-c", _FACTORS], capture_output=True, text=True, env=clean_env(), check=True)
    (source / "factors.json").write_text(done.stdout)
    json.loads(done.stdout)
    paths = [p for p in source.rglob("*") if p.is_file() and p.parent != source]
    write_inventory(source, [(str(p.relative_to(source)), p.stat().st_size, p.stat().st_mtime_ns) for p in paths])
    (source / "complete").write_text("1796020000.000\n")


def _empty(work: Path) -> Path:
    """Return an empty folder on the same disk, with nothing left to write from what was there before."""
    out = work / "out"
    shutil.rmtree(out, ignore_errors=True)
    (out / "etc").mkdir(parents=True)
    os.sync()
    return out


def _kboot(work: Path, source: Path, out: Path) -> Cost:
    """Export from the node that has the cache, import on one that has none."""
    archive = str(out / "a.tar.zst")
    packed, _ = measure(
        [kboot(), "cache", "export", archive, "--key", KEY], node_env(work, "http://127.0.0.1:9"), timeout_s=TIMEOUT_S
    )
    taken, _ = measure([kboot(), "cache", "import", archive], node_env(out, "http://127.0.0.1:9"), timeout_s=TIMEOUT_S)
    if sum(1 for p in (out / "state/cache" / KEY).rglob("kernel_*")) != sum(1 for p in source.rglob("kernel_*")):
        raise RuntimeError("the imported cache has not every file")
    return packed.then(taken)


def _tar(source: Path, out: Path) -> tuple[Cost, Cost]:
    """Pack and unpack; return the cost as it is, and with what is written made durable."""
    archive, target = out / "a.tar.zst", out / "target"
    target.mkdir()
    tar = tool("tar") or "tar"
    flush = ["sync", "-f", str(out)]
    packed, _ = measure([tar, "--zstd", "-cf", str(archive), "-C", str(source), "."], clean_env(), timeout_s=TIMEOUT_S)
    packed_flushed, _ = measure(flush, clean_env(), timeout_s=TIMEOUT_S)
    taken, _ = measure([tar, "--zstd", "-xf", str(archive), "-C", str(target)], clean_env(), timeout_s=TIMEOUT_S)
    taken_flushed, _ = measure(flush, clean_env(), timeout_s=TIMEOUT_S)
    return packed.then(taken), packed.then(packed_flushed).then(taken).then(taken_flushed)


def _steps(work: Path, source: Path) -> list[float]:
    _, printed = measure(
        [sys.executable, "-c", _STEP, str(source), str(STEP_RUNS)],
        node_env(work, "http://127.0.0.1:9"),
        timeout_s=TIMEOUT_S,
        track_rss=False,
    )
    return [float(line) for line in printed.split()]


def _document(
    asked: argparse.Namespace, costs: dict[str, list[Cost]], size_bytes: int, archive_bytes: int, steps_ms: list[float]
) -> Document:
    own = costs["kboot"]
    ratios = {
        ratio: median(other.wall_s / mine.wall_s for other, mine in zip(costs[name], own))
        for name, ratio in (("tar", "vs_tar_zstd"), ("tar_synced", "vs_tar_zstd_synced"))
        if name in costs
    }
    left_out = {} if ratios else dict.fromkeys(("vs_tar_zstd", "vs_tar_zstd_synced"), "tar or zstd not installed")
    figures: dict[str, Value] = {
        "files": asked.files,
        "size_gb": size_bytes / 1e9,
        "archive_gb": archive_bytes / 1e9,
        "rounds": len(own),
        f"warm_step_{asked.files}_files_ms": median(steps_ms),
        "peak_rss_mib": median(c.peak_rss_mib for c in own),
        "foreign_cpu_share": median(c.foreign_share for runs in costs.values() for c in runs),
    }
    for name, runs in costs.items():
        figures[f"{name}_wall_s"] = median(c.wall_s for c in runs)
        figures[f"{name}_cpu_s_per_gb"] = median(c.cpu_s for c in runs) / (size_bytes / 1e9)
    programs = {"kboot": (kboot(), "--version")}
    programs |= {name: (tool(name) or name, "--version") for name in ("tar", "zstd") if tool(name)}
    figures |= {f"version_{name}": text for name, text in version_of(programs).items()}
    return Document("cache", ratios, figures, left_out)
