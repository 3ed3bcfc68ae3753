"""What brings one file by hf_transfer? A process of its own: the library holds the interpreter until the last byte.

Reads {"parent", "url", "path", "connections", "chunk_bytes"} as JSON from its input, for a signed link must not stand
in a command line. Ends with 0 when the file is there, with 1 and one line of why when it is not. Nothing is hashed.
"""

from __future__ import annotations

import json
import sys

from kboot import __version__
from kboot.sources.secrets import mask
from kboot.sources.worker_life import end_with_parent

_FAILURES = 3  # chunks that may be tried again at once
_TRIES = 5


def main() -> int:
    """Do what the input says."""
    ask = json.load(sys.stdin)
    if not end_with_parent(ask["parent"]):
        return 1
    import hf_transfer  # type: ignore[import-untyped]

    try:
        hf_transfer.download(
            url=ask["url"],
            filename=ask["path"],
            max_files=ask["connections"],
            chunk_size=ask["chunk_bytes"],
            parallel_failures=_FAILURES,
            max_retries=_TRIES,
            headers={"user-agent": f"kboot/{__version__}"},
        )
    except Exception as exc:  # noqa: BLE001 - the library raises bare exceptions
        sys.stderr.write(mask(str(exc).partition("\n")[0][:300]) + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
