"""How long until every one of N nodes holds a verified copy, when all of them share one line to the origin?

The nodes are network namespaces of this machine behind a switch of their own; only the origin's line is limited. So
what is compared is how often the bytes pass that line, and what the nodes cost each other on the CPUs they share.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from kbench.document import Document, Value
from kbench.fetch import origin_folder
from kbench.kboot import PROFILE, clean_env, kboot, node_env, tool, version_of, why_left_out, write_profile
from kbench.machine import busy_s, fill_page_cache, wait_quiet
from kbench.origin import COMMIT, REPO, Origin, Place, make_checkpoint, serve

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from fakes.cluster import Cluster, why_not  # the network is that of the tests

TIMEOUT_S = 3600.0
RATIOS = {"hf": "vs_independent_hf_downloads", "chain": "vs_one_seed_then_rsync_chain"}


@dataclass(frozen=True, slots=True)
class Field:
    """Where a run takes place: hosts 1 to `nodes`, each with a folder of its own."""

    cluster: Cluster
    origin: Origin
    out: Path
    nodes: int

    def folder(self, node: int) -> Path:
        """Return a node's folder."""
        return self.out / f"n{node}"

    def start(self, node: int, argv: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a program on a node."""
        return self.cluster.start(node, argv, env)


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took. copies: bytes that the origin sent ÷ size. cpu_s: of the whole machine, meanwhile."""

    wall_s: float
    copies: float
    cpu_s: float


Method = Callable[[Field], None]


def run(asked: argparse.Namespace, work: Path) -> Document:
    """Measure and return the document.

    Raises:
        RuntimeError: namespaces, nginx or kboot are missing, or a method failed.
    """
    if reason := why_not():
        raise RuntimeError(f"no hosts can be made here: {reason}")
    data = origin_folder(asked, work)
    try:
        files = make_checkpoint(data, asked.shards, asked.fleet_mib << 20)
        with Cluster(asked.nodes + 1) as cluster:
            place = Place(cluster.address(0), cluster.inside(0))
            with serve(data, work, files, log_requests=True, place=place) as origin:
                cluster.limit(0, asked.mbit)
                methods, left_out = _methods(asked.without)
                runs = _rounds(asked, work, Field(cluster, origin, work / "out", asked.nodes), methods)
    finally:
        if asked.origin is None:
            shutil.rmtree(data, ignore_errors=True)
    return _document(asked, origin, runs, left_out)


def _methods(without: Sequence[str]) -> tuple[dict[str, Method], dict[str, str]]:
    methods: dict[str, Method] = {"one": _one, "fleet": _fleet}
    left_out = {}
    needs = {"hf": ("hf",), "chain": ("hf", "rsync", "sha256sum", "xargs")}
    for name, method in {"hf": _hf, "chain": _chain}.items():
        if why := why_left_out(name, needs[name], without):
            left_out[RATIOS[name]] = why
        else:
            methods[name] = method
    return methods, left_out


def _rounds(asked: argparse.Namespace, work: Path, field: Field, methods: Mapping[str, Method]) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {name: [] for name in methods}
    names = list(methods)
    for number in range(asked.rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            runs[name].append(_measure(asked, work, field, methods[name]))
            last = runs[name][-1]
            said = f"round {number + 1} {name:<6} {last.wall_s:.2f} s, {last.copies:.2f} copies"
            print(said, file=sys.stderr, flush=True)
    return runs


def _measure(asked: argparse.Namespace, work: Path, field: Field, method: Method) -> Run:
    shutil.rmtree(field.out, ignore_errors=True)
    for node in range(1, field.nodes + 1):
        field.folder(node).mkdir(parents=True)
    os.sync()
    if not asked.no_fill:
        fill_page_cache(work / "junk")
    wait_quiet(asked.quiet_s)
    sent, busy, began = field.origin.sent_bytes(), busy_s(), time.monotonic()
    method(field)
    wall_s = time.monotonic() - began
    size = sum(f.size_bytes for f in field.origin.files)
    return Run(wall_s, (field.origin.sent_bytes() - sent) / size, busy_s() - busy)


def _one(field: Field) -> None:
    """One node alone: what the line allows."""
    _finish([_kboot(field, 1)])


def _fleet(field: Field) -> None:
    key = field.out / "fleet.key"
    key.write_text(os.urandom(32).hex())
    key.chmod(0o600)
    peers = ", ".join(f'"{field.cluster.address(node)}"' for node in range(1, field.nodes + 1))
    section = f'\n[fleet]\ndiscovery = "static"\npeers = [{peers}]\nkey_file = "{key}"\n'
    _finish([_kboot(field, node, section) for node in range(1, field.nodes + 1)])


def _kboot(field: Field, node: int, section: str = "") -> subprocess.Popen[str]:
    folder = field.folder(node)
    profile = write_profile(folder, REPO, COMMIT, ("/bin/true",))
    profile.write_text(profile.read_text() + section)
    argv = [kboot(), "fetch", "--profile", PROFILE, "--json"]
    return field.start(node, argv, node_env(folder, field.origin.url))


def _hf(field: Field) -> None:
    """Every node for itself, at once; each verifies what it has."""
    _finish([_download(field, node) for node in range(1, field.nodes + 1)])


def _download(field: Field, node: int) -> subprocess.Popen[str]:
    home = field.folder(node)
    off = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    env = clean_env(HF_ENDPOINT=field.origin.url, HF_HOME=str(home / "hf"), **off)
    flat, pinned = home / "flat", f"{REPO} --revision {COMMIT}"
    script = f'"$1" download {pinned} --local-dir {flat} && {_verify(field, flat)}'
    return field.start(node, ["sh", "-ec", script, "sh", tool("hf") or "hf"], env)


def _chain(field: Field) -> None:
    """Node 1 downloads; node 2 copies from it, node 3 from node 2, and so on; each verifies while the next copies."""
    _finish([_download(field, 1)])
    servers, verifying = [], []
    for node in range(2, field.nodes + 1):
        servers.append(_rsync_server(field, node - 1))
        target = field.folder(node) / "flat"
        source = f"rsync://{field.cluster.address(node - 1)}:8730/flat/"
        patient = 'until rsync --archive --whole-file --exclude=.cache "$1" "$2"; do sleep 0.1; done'
        _finish([field.start(node, ["timeout", "600", "sh", "-c", patient, "sh", source, f"{target}/"], clean_env())])
        verifying.append(field.start(node, ["sh", "-ec", _verify(field, target)], clean_env()))
    _finish(verifying)
    for server in servers:
        server.terminate()
        server.wait(10)


def _rsync_server(field: Field, node: int) -> subprocess.Popen[str]:
    folder = field.folder(node)
    config = folder / "rsyncd.conf"
    config.write_text(f"use chroot = no\n[flat]\npath = {folder}/flat\nread only = yes\nuid = root\ngid = root\n")
    argv = [tool("rsync") or "rsync", "--daemon", "--no-detach", f"--config={config}", "--port=8730"]
    return field.start(node, argv, clean_env())


def _verify(field: Field, folder: Path) -> str:
    sums = field.out / "sums"
    if not sums.exists():
        sums.mkdir()
        for file in field.origin.shards:
            (sums / file.path).write_text(f"{file.sha256}  {file.path}\n")
    return f"cd {folder} && ls {sums} | xargs -P 2 -I NAME sha256sum --check --status {sums}/NAME"


def _finish(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        out, err = process.communicate(timeout=TIMEOUT_S)
        if process.returncode:
            said = " ".join((err or out).split())[-500:]
            raise RuntimeError(f"{' '.join(map(str, process.args))[:80]}: exit status {process.returncode}: {said}")


def _document(
    asked: argparse.Namespace, origin: Origin, runs: Mapping[str, list[Run]], left_out: Mapping[str, str]
) -> Document:
    fleet = runs["fleet"]
    ratios = {
        RATIOS[name]: median(other.wall_s / own.wall_s for other, own in zip(runs[name], fleet, strict=True))
        for name in RATIOS
        if name in runs
    }
    words = {8: "eight"}.get(asked.nodes, str(asked.nodes))
    figures: dict[str, Value] = {
        f"{words}_nodes_over_one": median(f.wall_s / o.wall_s for f, o in zip(fleet, runs["one"], strict=True)),
        "origin_copies": median(f.copies for f in fleet),
        "origin_copies_most": max(f.copies for f in fleet),
        "nodes": asked.nodes,
        "origin_mbit_per_s": asked.mbit,
        "size_gb": sum(f.size_bytes for f in origin.files) / 1e9,
        "rounds": len(fleet),
    }
    for name, done in runs.items():
        figures[f"{name}_wall_s"] = median(r.wall_s for r in done)
        figures[f"{name}_copies"] = median(r.copies for r in done)
        figures[f"{name}_machine_cpu_s"] = median(r.cpu_s for r in done)
    programs = {"kboot": (kboot(), "--version")}
    programs |= {n: (tool(n) or n, a) for n, a in {"hf": "version", "rsync": "--version"}.items() if tool(n)}
    return Document("fleet", ratios, {**figures, **_named(version_of(programs))}, dict(left_out))


def _named(versions: Mapping[str, str]) -> dict[str, str]:
    return {f"version_{name}": text for name, text in versions.items()}
