"""A Hub on loopback for any checkpoint folder: what kboot fetches and verifies from, on a node without a network.

    python -m gpubench.hub --folder DIR --port-file FILE

Hashes the folder once, then serves it as kboot's demo Hub serves its own, from several processes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kboot.demo.checkpoint import Checkpoint, File
from kboot.demo.hub import HUB_ADDRESS, Hub, listen

_LFS = (".safetensors", ".bin")
_PIECE_BYTES = 8 << 20


def read_folder(folder: Path, threads: int) -> Checkpoint:
    """Hash every file of a folder and return it as one commit."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    with ThreadPoolExecutor(threads) as pool:
        files = tuple(pool.map(lambda path: _file(folder, path), paths))
    commit = hashlib.sha1("".join(f"{f.path} {f.oid}\n" for f in files).encode()).hexdigest()
    return Checkpoint(folder, commit, files)


def _file(folder: Path, path: Path) -> File:
    name, size = str(path.relative_to(folder)), path.stat().st_size
    if not name.endswith(_LFS):
        return File(name, size, _git_oid(path.read_bytes()), None)
    found = hashlib.sha256()
    buffer = bytearray(_PIECE_BYTES)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            found.update(memoryview(buffer)[:count])
    sha256 = found.hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
    return File(name, size, _git_oid(pointer.encode()), sha256)


def _git_oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--repo", default="kboot/synthetic-moe")
    parser.add_argument("--port-file", type=Path, required=True, help="written with the endpoint once it listens")
    parser.add_argument("--processes", type=int, default=8)
    asked = parser.parse_args()
    checkpoint = read_folder(asked.folder, min(16, os.cpu_count() or 1))
    servers = listen(Hub(asked.repo, checkpoint), 0)
    line = {"endpoint": f"http://{HUB_ADDRESS}:{servers[0].server_port}", "repo": asked.repo}
    stop = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    children = []
    for _ in range(asked.processes - 1):  # all accept on the same sockets
        child = os.fork()
        if child == 0:
            break
        children.append(child)
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    if len(children) == asked.processes - 1:
        temp = asked.port_file.with_name(f"{asked.port_file.name}.tmp")
        temp.write_text(json.dumps({**line, "commit": checkpoint.commit}))
        temp.replace(asked.port_file)
    signal.sigwait(stop)
    for child in children:
        os.kill(child, signal.SIGTERM)
    return 0


if __name__ == "__main__":
    sys.exit(main())
