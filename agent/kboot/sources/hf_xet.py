"""How is a whole file brought from the Hub's content-addressed store, where only chunks nobody else has are stored?"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from kboot.checkpoint import RemoteFile
from kboot.sources import worker
from kboot.sources.types import HubAccess


def transfer(
    access: HubAccess,
    repo: str,
    commit: str,
    file: RemoteFile,
    path: Path,
    stall_timeout_s: float,
    stop: threading.Event,
    on_bytes: Callable[[int], None],
) -> None:
    """Bring a file to `path`, by huggingface_hub and its hf_xet. The bytes are unproven: nobody else hashes them.

    The library keeps nothing of its own: each file is fetched once on a node, and a cache of chunks would double it.

    Raises:
        SourceError: see worker.bring.
    """
    ask = {
        "endpoint": access.endpoint,
        "token": access.token,
        "repo": repo,
        "commit": commit,
        "file": file.path,
        "size_bytes": file.size_bytes,
    }
    with tempfile.TemporaryDirectory(prefix="kboot-xet-", ignore_cleanup_errors=True) as home:
        env = {
            "HF_HOME": home,
            "HF_HUB_OFFLINE": "",
            "HF_HUB_DISABLE_XET": "",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_XET_HIGH_PERFORMANCE": "1",
            "HF_XET_CHUNK_CACHE_SIZE_BYTES": "0",
        }
        worker.bring("hf_xet", ask, path, stall_timeout_s, stop, on_bytes, f"{file.path} of {repo}", env)
