"""How long does it take to know whether 1,561 GB fit, from this disk and from a Hub?"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from statistics import median

from kbench.document import Document, Value
from kbench.kboot import clean_env, kboot, node_env
from kbench.machine import measure, wait_quiet
from kbench.origin import REPO, Origin, ServedFile, serve

TIMEOUT_S = 300.0
LARGE_BYTES = 10 << 20
"""Larger files are kept in large file storage, as on the Hub."""
HEADERS = """
import sys, time
from kboot.profile.types import CheckpointAsk, FetchAsk
from kboot.sources import list_checkpoint, open_sources
from kboot.sources.headers import remote_headers
ask = CheckpointAsk(repo=sys.argv[2])
sources = open_sources(ask, FetchAsk(), {"HF_ENDPOINT": sys.argv[1]})
found, source = list_checkpoint(sources, ask.repo, ask.revision)
files = [f for f in found.files if f.path.endswith(".safetensors")]
start = time.perf_counter()
size = sum(len(h.json) for h in remote_headers(source, found.repo, found.commit, files))
print(time.perf_counter() - start, len(files), size)
"""


def run(asked: argparse.Namespace, work: Path) -> Document:
    """Measure and return the document.

    Raises:
        RuntimeError: nginx or kboot is missing, or the answer is not that of 1,561 GB.
    """
    folder = work / "giant"
    measure([sys.executable, "-m", "kboot.demo.giant", str(folder)], clean_env(), timeout_s=TIMEOUT_S)
    figures: dict[str, Value] = {**_local(asked, folder), "rounds": asked.rounds}
    files = _served(folder)
    with serve(folder, work, files, log_requests=True) as origin:
        figures |= _remote(asked, work, origin)
    return Document("fit", {}, figures)


def _local(asked: argparse.Namespace, folder: Path) -> dict[str, Value]:
    """Return what `kboot fit FOLDER` takes, and how large the folder is and seems."""
    argv = [kboot(), "fit", str(folder), "--json"]
    costs = []
    for _ in range(asked.rounds + 1):
        wait_quiet(asked.quiet_s)
        cost, printed = measure(argv, clean_env(), timeout_s=TIMEOUT_S)
        costs.append(cost)
    document = json.loads(printed)
    if round(document["weights_bytes"] / 1e9) != 1561 or not document["fits"]:
        raise RuntimeError(f"kboot fit says {document['weights_bytes']} bytes, wanted 1,561 GB that fit")
    stats = [path.stat() for path in folder.iterdir()]
    warm = costs[1:]  # the first run compiles bytecode
    return {
        "fit_1561_gb_s": median(cost.wall_s for cost in warm),
        "fit_1561_gb_cpu_s": median(cost.cpu_s for cost in warm),
        "fit_1561_gb_peak_rss_mib": max(cost.peak_rss_mib for cost in warm),
        "apparent_gb": sum(stat.st_size for stat in stats) / 1e9,
        "on_disk_mib": sum(stat.st_blocks * 512 for stat in stats) / 2**20,
    }


def _remote(asked: argparse.Namespace, work: Path, origin: Origin) -> dict[str, Value]:
    """Return what the headers of 111 shards take from a server, alone and in `kboot fit REPO`."""
    node = work / "node"
    node.mkdir()
    env = node_env(node, origin.url)
    headers, fits, requests = [], [], 0
    for _ in range(asked.rounds):
        wait_quiet(asked.quiet_s)
        before = origin.requests()
        _, printed = measure([sys.executable, "-c", HEADERS, origin.url, REPO], clean_env(), timeout_s=TIMEOUT_S)
        seconds, shards, size = printed.split()
        headers.append(float(seconds))
        requests = origin.requests() - before
        fits.append(measure([kboot(), "fit", REPO, "--json"], env, timeout_s=TIMEOUT_S)[0].wall_s)
    return {
        "headers_remote_s": median(headers),
        "headers_remote_shards": int(shards),
        "headers_remote_mib": int(size) / 2**20,
        "headers_remote_requests": requests,
        "fit_remote_s": median(fits),
    }


def _served(folder: Path) -> tuple[ServedFile, ...]:
    """Return the files as a Hub lists them; nobody hashes 1,561 GB of holes, so shards have hashes of their names."""
    found = []
    for path in sorted(folder.iterdir()):
        data = path.name.encode() if path.suffix == ".safetensors" else path.read_bytes()
        size, large = path.stat().st_size, path.stat().st_size > LARGE_BYTES
        oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        found.append(ServedFile(path.name, size, hashlib.sha256(data).hexdigest() if large else "", oid))
    return tuple(found)
