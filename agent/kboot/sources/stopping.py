"""How does a process that was told to stop stop waiting for its sources?"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kboot.errors import SourceError
from kboot.sources.types import Source

_LOOK_S = 0.2


def stopped() -> SourceError:
    """Return the error of a question whose answer nobody waits for any more."""
    return SourceError("interrupted", "kboot was told to stop while it waited for the source")


@contextmanager
def interrupted_by(stop: threading.Event | None, sources: Sequence[Source]) -> Iterator[None]:
    """Interrupt the sources when `stop` is set while the block runs; None: nothing stops it."""
    if stop is None or not sources:
        yield
        return
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            if stop.wait(_LOOK_S):
                for source in sources:
                    source.interrupt()
                return

    threading.Thread(target=look, name="stopping", daemon=True).start()
    try:
        yield
    finally:
        over.set()
