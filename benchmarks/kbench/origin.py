"""A Hub on loopback made of nginx alone: static answers for the API, headers from maps, bytes by sendfile."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

REPO = "bench/model"
COMMIT = hashlib.sha1(b"kboot benchmark").hexdigest()
START_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class ServedFile:
    """sha256: of files kept in large file storage; "" for small ones, which their git blob id names."""

    path: str
    size_bytes: int
    sha256: str
    git_oid: str

    @property
    def etag(self) -> str:
        """Return the unquoted entity tag the Hub gives."""
        return self.sha256 or self.git_oid


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server runs. inside: words before a command line that run it where its address is; empty = here."""

    address: str = "127.0.0.1"
    inside: tuple[str, ...] = ()


HERE = Place()
_SENT = re.compile(r'" \d{3} (\d+) "')  # of nginx's combined log


@dataclass(frozen=True, slots=True)
class Origin:
    """A running server. pids: of nginx, for its CPU time. log: one line for each request.

    tls_url: the same over TLS; "" where openssl is missing. env: what its clients need beyond their own.
    """

    url: str
    files: tuple[ServedFile, ...]
    pids: tuple[int, ...]
    log: Path
    tls_url: str = ""
    env: Mapping[str, str] = field(default_factory=dict)

    def over_tls(self) -> Origin:
        """Return the same server as its clients see it over TLS."""
        return replace(self, url=self.tls_url)

    @property
    def shards(self) -> tuple[ServedFile, ...]:
        """Return the large files."""
        return tuple(f for f in self.files if f.sha256)

    def resolve_url(self, path: str) -> str:
        """Return where one file's bytes are."""
        return f"{self.url}/{REPO}/resolve/{COMMIT}/{path}"

    def sent_bytes(self) -> int:
        """Return how many bytes of bodies were sent so far; needs the log."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return sum(int(found[1]) for line in lines if (found := _SENT.search(line)))

    def requests(self) -> int:
        """Return how many requests were answered so far."""
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


def make_checkpoint(folder: Path, shards: int, shard_bytes: int) -> tuple[ServedFile, ...]:
    """Write a checkpoint of random bytes in valid safetensors files with an index; every shard is different."""
    folder.mkdir(parents=True, exist_ok=True)
    noise = memoryview(os.urandom(min(shard_bytes, 64 << 20)))
    weight_map, files = {}, []
    for number in range(1, shards + 1):
        name = f"model-{number:05d}-of-{shards:05d}.safetensors"
        weight_map[f"model.layers.{number}.weight"] = name
        files.append(_write_shard(folder / name, f"model.layers.{number}.weight", shard_bytes, noise))
    index = {"metadata": {"total_size": shards * shard_bytes}, "weight_map": weight_map}
    texts = {"config.json": {"model_type": "bench"}, "model.safetensors.index.json": index}
    for name, content in texts.items():
        data = json.dumps(content).encode()
        (folder / name).write_bytes(data)
        files.append(ServedFile(name, len(data), "", hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()))
    return tuple(sorted(files, key=lambda f: f.path))


def _write_shard(path: Path, tensor: str, body_bytes: int, noise: memoryview) -> ServedFile:
    entry = {tensor: {"dtype": "U8", "shape": [body_bytes], "data_offsets": [0, body_bytes]}}
    text = json.dumps(entry).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for piece in _pieces(len(text).to_bytes(8, "little") + text, body_bytes, noise):
            file.write(piece)
            digest.update(piece)
    size = 8 + len(text) + body_bytes
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest.hexdigest()}\nsize {size}\n".encode()
    oid = hashlib.sha1(b"blob %d\0" % len(pointer) + pointer).hexdigest()
    return ServedFile(path.name, size, digest.hexdigest(), oid)


def _pieces(header: bytes, body_bytes: int, noise: memoryview) -> Iterator[bytes | memoryview]:
    yield header
    while body_bytes > 0:
        piece = noise[:body_bytes]
        yield piece
        body_bytes -= len(piece)


@contextmanager
def serve(
    data: Path, work: Path, files: tuple[ServedFile, ...], *, log_requests: bool, place: Place = HERE, workers: int = 1
) -> Iterator[Origin]:
    """Run nginx, with so many workers, over a checkpoint until the block is left.

    Raises:
        RuntimeError: nginx is not installed, or did not answer in time.
    """
    nginx = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if nginx is None:
        raise RuntimeError("nginx is not installed; the origin needs it (Debian: apt-get install nginx-light)")
    port, certificate = _free_port(), _make_certificate(work)
    tls_port = _free_port() if certificate else 0
    _write_api(work, files)
    config = work / "nginx.conf"
    config.write_text(_config(data, work, files, (port, tls_port), log_requests, place.address, workers))
    server = subprocess.Popen(
        [*place.inside, nginx, "-p", str(work), "-e", str(work / "error.log"), "-c", str(config)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait_until_answers(f"http://{place.address}:{port}/api/models/{REPO}", server, work, place.inside)
        tls_url = f"https://127.0.0.1:{tls_port}" if certificate else ""
        env = {name: str(certificate) for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE")} if certificate else {}
        yield Origin(f"http://{place.address}:{port}", files, _family(server.pid), work / "access.log", tls_url, env)
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _make_certificate(work: Path) -> Path | None:
    """Make a key and a certificate for this run; None where openssl is missing."""
    if shutil.which("openssl") is None:
        return None
    certificate = work / "tls.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", str(work / "tls.key"), "-out", str(certificate),
        ],
        check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip
    return certificate


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_answers(url: str, server: subprocess.Popen[bytes], work: Path, inside: tuple[str, ...]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        if _answers(url, inside):
            return
        time.sleep(0.05)
    log = work / "error.log"
    raise RuntimeError(f"nginx does not answer: {log.read_text().strip()[-400:] if log.exists() else 'no error log'}")


def _answers(url: str, inside: tuple[str, ...]) -> bool:
    if inside:
        asking = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=1)"
        argv = [*inside, sys.executable, "-I", "-c", asking, url]
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0
    try:
        urllib.request.urlopen(url, timeout=1).close()
    except OSError:
        return False
    return True


def _family(pid: int) -> tuple[int, ...]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return (pid, *map(int, children.read_text().split())) if children.exists() else (pid,)


def _write_api(work: Path, files: tuple[ServedFile, ...]) -> None:
    info = {
        "_id": "0", "id": REPO, "modelId": REPO, "sha": COMMIT, "private": False, "gated": False, "disabled": False,
        "tags": [], "downloads": 0, "likes": 0, "siblings": [{"rfilename": f.path} for f in files],
    }  # fmt: skip
    (work / "info.json").write_text(json.dumps(info))
    (work / "tree.json").write_text(json.dumps([_tree_entry(f) for f in files]))


def _tree_entry(file: ServedFile) -> Mapping[str, object]:
    entry: dict[str, object] = {"type": "file", "oid": file.git_oid, "size": file.size_bytes, "path": file.path}
    if file.sha256:
        entry["lfs"] = {"oid": file.sha256, "size": file.size_bytes, "pointerSize": 135}
    return entry


def _config(
    data: Path, work: Path, files: tuple[ServedFile, ...], ports: tuple[int, int], log_requests: bool, address: str,
    workers: int,
) -> str:  # fmt: skip
    etags = "".join(f'    "{f.path}" \'"{f.etag}"\';\n' for f in files)
    linked = "".join(f'    "{f.path}" \'"{f.sha256}"\';\n' for f in files if f.sha256)
    sizes = "".join(f'    "{f.path}" "{f.size_bytes}";\n' for f in files if f.sha256)
    temp = "".join(f"  {kind}_temp_path {work}/tmp;\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    plain, secure = ports
    spread = " reuseport" if workers > 1 else ""  # else the worker that was idle last gets most connections
    tls = (
        f"listen {address}:{secure} ssl{spread}; ssl_certificate {work}/tls.pem; ssl_certificate_key {work}/tls.key;\n"
        "    ssl_protocols TLSv1.3;"
    )
    return f"""{"user root;" if os.geteuid() == 0 else ""}
daemon off; worker_processes {workers}; pid {work}/nginx.pid; error_log {work}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log {f"{work}/access.log" if log_requests else "off"};
  sendfile on; tcp_nopush on; keepalive_requests 1000000; default_type application/octet-stream;
  map_hash_bucket_size 256; map_hash_max_size 65536;
{temp}  map $file_path $etag_of {{
    default "";
{etags}  }}
  map $file_path $linked_etag_of {{
    default "";
{linked}  }}
  map $file_path $linked_size_of {{
    default "";
{sizes}  }}
  server {{
    listen {address}:{plain}{spread}; {tls if secure else ""}
    location ~ ^/api/models/{REPO}(/revision/(main|{COMMIT}))?$ {{
      default_type application/json; alias {work}/info.json;
    }}
    location ~ ^/api/models/{REPO}/tree/(main|{COMMIT})$ {{
      default_type application/json; alias {work}/tree.json;
    }}
    location ~ ^/{REPO}/resolve/(?:main|{COMMIT})/(?<file_path>.+)$ {{
      etag off; if_modified_since off;
      add_header ETag $etag_of; add_header X-Repo-Commit {COMMIT};
      add_header X-Linked-Etag $linked_etag_of; add_header X-Linked-Size $linked_size_of;
      alias {data}/$file_path;
    }}
    location / {{ return 404; }}
  }}
}}
"""
