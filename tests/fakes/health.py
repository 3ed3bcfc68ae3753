"""A process of its own that answers on a port as an engine's health does: 503, and 200 once it is told to be ready."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

_PROGRAM = """
import http.server, pathlib, sys
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if pathlib.Path(sys.argv[1]).exists() else 503)
        self.end_headers()
    def log_message(self, *_):
        pass
with http.server.HTTPServer(("127.0.0.1", 0), Health) as server:
    print(server.server_port, flush=True)
    server.serve_forever()
"""


@dataclass(frozen=True, slots=True)
class Health:
    """pid: of the process. is_ready(): lets it answer 200, or no longer."""

    url: str
    pid: int
    mark: Path

    def is_ready(self, ready: bool) -> None:
        """Let it answer 200, or 503 again."""
        self.mark.touch() if ready else self.mark.unlink(missing_ok=True)


@contextmanager
def health(env: Mapping[str, str]) -> Iterator[Health]:
    """Run one, started with these variables besides this process's."""
    with TemporaryDirectory() as folder:
        mark = Path(folder, "ready")
        argv = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(mark)]
        with subprocess.Popen(argv, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                port = int(process.stdout.readline())
                yield Health(f"http://127.0.0.1:{port}/health", process.pid, mark)
            finally:
                process.kill()
