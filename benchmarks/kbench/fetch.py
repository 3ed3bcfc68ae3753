"""How long from nothing to a verified checkpoint, beside what people use today?

Every method receives the same shards from the same nginx on loopback and then knows the SHA-256 of each: kboot while
the bytes land, the others in a second step. Methods take turns within a round; a ratio is a quotient of two times of
the same round, and the median over rounds is reported.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from kbench.document import Document, Value
from kbench.kboot import PROFILE, clean_env, kboot, node_env, tool, version_of, why_left_out, write_profile
from kbench.machine import Cost, fill_page_cache, measure, wait_quiet
from kbench.origin import COMMIT, REPO, Origin, make_checkpoint, serve

TIMEOUT_S = 1800.0
BASELINES = {
    "hf": "vs_hf_download_then_verify",
    "aria2c": "vs_aria2c_then_sha256sum",
    "curl": "vs_curl_then_sha256sum",
}
TLS_BASELINES = {"tls_vs_curl_then_sha256sum": "curl_tls", "tls_fraction_of_limit": "limit_tls"}
CURLS = 4
TRIES = 3
DISTURBED_SHARE = 0.15

Method = Callable[[Origin, Path], Cost]


@dataclass(frozen=True, slots=True)
class Setting:
    """What one benchmark run has decided: the methods it measures, and why others are left out."""

    methods: dict[str, Method]
    left_out: dict[str, str]
    threads: int


def run(asked: argparse.Namespace, work: Path) -> Document:
    """Measure and return the document.

    Raises:
        RuntimeError: nginx or kboot is missing, or a method failed.
    """
    data = origin_folder(asked, work)
    try:
        files = make_checkpoint(data, asked.shards, asked.mib << 20)
        with serve(data, work, files, log_requests=False, workers=asked.origin_workers) as origin:
            setting = _decide(asked, work, origin)
            costs = _rounds(asked, work, origin, setting)
    finally:
        if asked.origin is None:
            shutil.rmtree(data, ignore_errors=True)
    return _document(origin, setting, costs)


def origin_folder(asked: argparse.Namespace, work: Path) -> Path:
    """Return where the served files go: in memory, so that the server's disk is nobody's limit."""
    if asked.origin is not None:
        return Path(asked.origin)
    need = asked.shards * (asked.mib << 20)
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 * need
    return (memory if roomy else work) / f"kboot-bench-{os.getpid()}"


def _decide(asked: argparse.Namespace, work: Path, origin: Origin) -> Setting:
    tools = {"hf": ("hf",), "aria2c": ("aria2c", "sha256sum", "xargs"), "curl": ("curl", "sha256sum", "xargs")}
    methods: dict[str, Method] = {"kboot": _kboot}
    left_out = {}
    for name, method in {"hf": _hf, "aria2c": _aria2c, "curl": _curl}.items():
        if why := why_left_out(name, tools[name], asked.without):
            left_out[BASELINES[name]] = why
        else:
            methods[name] = method
    threads = _best_threads(asked, work, origin)
    methods["limit"] = partial(_inline, threads=threads)
    if origin.tls_url:
        over_tls = {name: methods[name] for name in ("kboot", "curl", "limit") if name in methods}
        methods |= {f"{name}_tls": partial(_over_tls, method) for name, method in over_tls.items()}
    why = left_out.get(BASELINES["curl"], "") if origin.tls_url else "openssl not installed"
    left_out |= {ratio: why for ratio, name in TLS_BASELINES.items() if name not in methods}
    return Setting(methods, left_out, threads)


def _best_threads(asked: argparse.Namespace, work: Path, origin: Origin) -> int:
    """Return the thread count with which the plain loop is fastest, each tried once."""
    cpus = len(os.sched_getaffinity(0))
    took = {}
    for threads in sorted({*(1 << n for n in range(cpus.bit_length())), cpus, 2 * cpus}):
        if threads <= len(origin.shards):
            took[threads] = _one(asked, work, origin, partial(_inline, threads=threads)).wall_s
    return min(took, key=lambda n: took[n])


def _rounds(asked: argparse.Namespace, work: Path, origin: Origin, setting: Setting) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {name: [] for name in setting.methods}
    names = list(setting.methods)
    for number in range(asked.rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            costs[name].append(_one(asked, work, origin, setting.methods[name]))
            print(f"round {number + 1} {name:<7} {costs[name][-1].wall_s:.2f} s", file=sys.stderr, flush=True)
    return costs


def _one(asked: argparse.Namespace, work: Path, origin: Origin, method: Method) -> Cost:
    """Run one method on an empty folder with a full page cache and a quiet machine; again where others disturbed it."""
    tries = TRIES if asked.quiet_s else 1
    for left in reversed(range(tries)):
        cost = _once(asked, work, origin, method)
        if cost.foreign_share < DISTURBED_SHARE or not left:
            break
    return cost


def _once(asked: argparse.Namespace, work: Path, origin: Origin, method: Method) -> Cost:
    out = work / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    os.sync()
    if not asked.no_fill:
        fill_page_cache(work / "junk")
    wait_quiet(asked.quiet_s)
    return method(origin, out)


def _over_tls(method: Method, origin: Origin, out: Path) -> Cost:
    return method(origin.over_tls(), out)


def _kboot(origin: Origin, out: Path) -> Cost:
    write_profile(out, REPO, COMMIT, ("/bin/true",))
    argv = [kboot(), "fetch", "--profile", PROFILE, "--json"]
    env = {**node_env(out, origin.url), **origin.env}
    cost, _ = measure(argv, env, timeout_s=TIMEOUT_S, servers=origin.pids)
    return cost


def _hf(origin: Origin, out: Path) -> Cost:
    hf = tool("hf") or "hf"
    env = clean_env(HF_ENDPOINT=origin.url, HF_HOME=str(out), HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_PROGRESS_BARS="1")
    pinned = [REPO, "--revision", COMMIT]
    got, _ = measure([hf, "download", *pinned], env, timeout_s=TIMEOUT_S, servers=origin.pids)
    proven, said = measure(
        [hf, "cache", "verify", *pinned, "--fail-on-missing-files"], env, timeout_s=TIMEOUT_S, servers=origin.pids
    )
    if str(len(origin.files)) not in said:
        raise RuntimeError(f"hf cache verify looked at other files than the {len(origin.files)} served: {said[-300:]}")
    return got.then(proven)


def _aria2c(origin: Origin, out: Path) -> Cost:
    urls = out / "urls"
    urls.write_text("".join(f"{origin.resolve_url(f.path)}\n  out={f.path}\n" for f in origin.shards))
    argv = [
        tool("aria2c") or "aria2c", "-x16", "-s16", "-j4", "-k1M", "--file-allocation=none", "--quiet",
        "--allow-overwrite=true", "-d", str(out), "-i", str(urls),
    ]  # fmt: skip
    cost, _ = measure(argv, clean_env(), timeout_s=TIMEOUT_S, servers=origin.pids)
    return cost.then(_sha256sum(origin, out))


def _curl(origin: Origin, out: Path) -> Cost:
    names = out / "names"
    names.write_text("".join(f"{f.path}\n" for f in origin.shards))
    script = (
        f'cd "$1" && xargs -a names -P {CURLS} -I NAME curl --fail --silent --show-error --output NAME '
        f"{origin.resolve_url('NAME')}"
    )
    argv = ["sh", "-c", script, "sh", str(out)]
    cost, _ = measure(argv, clean_env(**origin.env), timeout_s=TIMEOUT_S, servers=origin.pids)
    return cost.then(_sha256sum(origin, out))


def _sha256sum(origin: Origin, out: Path) -> Cost:
    """Check every shard with coreutils, one process per CPU."""
    sums = out / "sums"
    sums.mkdir()
    for file in origin.shards:
        (sums / file.path).write_text(f"{file.sha256}  {file.path}\n")
    script = (
        f'cd "$1" && ls sums | xargs -P {len(os.sched_getaffinity(0))} -I NAME sha256sum --check --status sums/NAME'
    )
    cost, _ = measure(["sh", "-c", script, "sh", str(out)], clean_env(), timeout_s=TIMEOUT_S)
    return cost


def _inline(origin: Origin, out: Path, threads: int) -> Cost:
    jobs = out / "jobs"
    jobs.write_text("".join(f"{f.sha256} {origin.resolve_url(f.path)}\n" for f in origin.shards))
    argv = [sys.executable, "-I", str(Path(__file__).with_name("inline.py")), str(jobs), str(out), str(threads)]
    cost, _ = measure(argv, clean_env(**origin.env), timeout_s=TIMEOUT_S, servers=origin.pids)
    return cost


def _document(origin: Origin, setting: Setting, costs: dict[str, list[Cost]]) -> Document:
    size_gb = sum(f.size_bytes for f in origin.shards) / 1e9
    ratios = {
        ratio: median(other.wall_s / own.wall_s for other, own in zip(costs[name], costs["kboot"]))
        for name, ratio in BASELINES.items()
        if name in costs
    }
    for ratio, name in TLS_BASELINES.items():
        if name in costs:
            ratios[ratio] = median(o.wall_s / own.wall_s for o, own in zip(costs[name], costs["kboot_tls"]))
    limits = [limit.wall_s / own.wall_s for limit, own in zip(costs["limit"], costs["kboot"])]
    ratios["fraction_of_limit"] = median(limits)
    figures: dict[str, Value] = {
        "shards": len(origin.shards),
        "size_gb": size_gb,
        "rounds": len(costs["kboot"]),
        "peak_rss_mib": median(c.peak_rss_mib for c in costs["kboot"]),
        "gb_per_s": size_gb / median(c.wall_s for c in costs["kboot"]),
        "limit_is": f"http.client readinto + sha256 + pwrite, {setting.threads} threads, no fsync",
    }
    if "kboot_tls" in costs:
        figures["tls_gb_per_s"] = size_gb / median(c.wall_s for c in costs["kboot_tls"])
    for name, runs in costs.items():
        figures[f"{name}_wall_s"] = median(c.wall_s for c in runs)
        figures[f"{name}_cpu_s_per_gb"] = median(c.cpu_s for c in runs) / size_gb
        figures[f"{name}_origin_cpu_s_per_gb"] = median(c.servers_cpu_s for c in runs) / size_gb
    figures["foreign_cpu_share"] = median(c.foreign_share for runs in costs.values() for c in runs)
    return Document("fetch", ratios, {**figures, **_versions(costs)}, setting.left_out)


def _versions(costs: dict[str, list[Cost]]) -> dict[str, str]:
    programs = {"kboot": (kboot(), "--version"), "hf": (tool("hf") or "hf", "version")}
    programs |= {name: (tool(name) or name, "--version") for name in ("aria2c", "curl", "sha256sum")}
    asked = {n: argv for n, argv in programs.items() if n in costs or (n == "sha256sum" and tool(n))}
    return {f"version_{name}": text for name, text in version_of(asked).items()}
