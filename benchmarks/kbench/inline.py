"""The least a verified download can cost in Python: readinto, sha256, pwrite on a few threads. A program of its own.

inline.py LIST FOLDER THREADS: LIST has "sha256 URL" lines. One connection per thread, one buffer, no retry, no
resume, no fsync: nothing a real client may leave out, so it serves as the limit.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import queue
import ssl
import sys
import threading
from urllib.parse import urlsplit

BUFFER_BYTES = 4 << 20


def receive(connection: http.client.HTTPConnection, url: str, target: str, buffer: memoryview) -> str:
    """Return the sha256 of what was written."""
    connection.request("GET", urlsplit(url).path)
    reply = connection.getresponse()
    if reply.status != 200:
        raise RuntimeError(f"{url}: HTTP {reply.status}")
    digest, offset = hashlib.sha256(), 0
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        while count := reply.readinto(buffer):
            digest.update(buffer[:count])
            os.pwrite(fd, buffer[:count], offset)
            offset += count
    finally:
        os.close(fd)
    return digest.hexdigest()


def connect(origin: str) -> http.client.HTTPConnection:
    """Return a connection that is made when it is first used; over TLS with the system's roots, or SSL_CERT_FILE."""
    parts = urlsplit(origin)
    if parts.scheme == "https":
        return http.client.HTTPSConnection(parts.netloc, context=ssl.create_default_context())
    return http.client.HTTPConnection(parts.netloc)


def work(origin: str, jobs: queue.SimpleQueue[tuple[str, str]], folder: str, failures: list[str]) -> None:
    """Receive files until none is left."""
    connection = connect(origin)
    buffer = memoryview(bytearray(BUFFER_BYTES))
    while True:
        try:
            wanted, url = jobs.get_nowait()
        except queue.Empty:
            connection.close()
            return
        try:
            found = receive(connection, url, os.path.join(folder, os.path.basename(url)), buffer)
        except (OSError, http.client.HTTPException, RuntimeError) as exc:
            failures.append(str(exc))
            return
        if found != wanted:
            failures.append(f"{url}: {found}, wanted {wanted}")


def main(argv: list[str]) -> int:
    """Return 1 when any file is not the wanted one."""
    jobs: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    failures: list[str] = []
    origin = ""
    with open(argv[1]) as lines:
        for line in lines:
            wanted, url = line.split()
            origin = url
            jobs.put((wanted, url))
    threads = [threading.Thread(target=work, args=(origin, jobs, argv[2], failures)) for _ in range(int(argv[3]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
