"""How is a whole file brought by hf_transfer?"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from kboot.sources import worker
from kboot.sources.secrets import without_query

CONNECTIONS = 8
CHUNK_BYTES = 16 << 20


def transfer(
    url: str, path: Path, stall_timeout_s: float, stop: threading.Event, on_bytes: Callable[[int], None]
) -> None:
    """Bring what `url` gives to `path`. The bytes are unproven.

    url: gives the bytes without a token, for the library would pass one on to whoever it is redirected to.

    Raises:
        SourceError: see worker.bring.
    """
    ask = {"url": url, "connections": CONNECTIONS, "chunk_bytes": CHUNK_BYTES}
    worker.bring("hf_transfer", ask, path, stall_timeout_s, stop, on_bytes, without_query(url))
