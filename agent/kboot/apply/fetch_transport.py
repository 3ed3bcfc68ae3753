"""Who else may bring a whole file? hf_transfer, where the profile asks for it; its bytes are proven like all others."""

from __future__ import annotations

import threading
from pathlib import Path

from kboot.checkpoint import Listing, RemoteFile
from kboot.errors import KbootError
from kboot.events import Emit, FileProgress, Notice
from kboot.host import files
from kboot.sources.hf_transfer import transfer
from kboot.sources.types import HasLinks, Source
from kboot.store.journal import journal_path
from kboot.store.partial import PartialInUse, open_alone
from kboot.store.sweep import TRANSFER_SUFFIX

WORTH_BYTES = 8 << 20
"""Below this a process of its own costs more than it brings."""


class HfTransfer:
    """Brings files that are not here at all, each by a worker process."""

    def __init__(self, listing: Listing, stall_timeout_s: float, emit: Emit, stop: threading.Event) -> None:
        self._listing = listing
        self._stall_timeout_s = stall_timeout_s
        self._emit = emit
        self._stop = stop

    def bring(self, source: Source, file: RemoteFile, part: Path) -> bool:
        """Bring a whole file to the place of its partial; False when it is to be fetched in the usual way.

        A failure is told and costs nothing but its time.

        Raises:
            PartialInUse: another process is fetching the file.
        """
        if file.size_bytes < WORTH_BYTES or not isinstance(source, HasLinks):
            return False
        try:
            with open_alone(part, file) as begun:
                if begun.size_bytes:
                    return False
                link = source.direct_link(self._listing.repo, self._listing.commit, file)
                self._transfer(link, file, part)
        except PartialInUse:
            raise
        except KbootError as exc:
            if not self._stop.is_set():
                text = f"{file.path} is fetched by http instead of hf_transfer: {exc.message}"
                self._emit(Notice("transport.changed", text))
            return False
        return True

    def _transfer(self, link: str, file: RemoteFile, part: Path) -> None:
        apart = transfer_path(part)
        files.remove(apart)
        transfer(link, apart, self._stall_timeout_s, self._stop, lambda n: self._tell(file, n))
        files.remove(journal_path(part))  # an old one would speak of another file
        files.rename(apart, part)

    def _tell(self, file: RemoteFile, done_bytes: int) -> None:
        self._emit(FileProgress("fetch", file.path, min(done_bytes, file.size_bytes), file.size_bytes))


def transfer_path(part: Path) -> Path:
    """Return where hf_transfer writes: it removes its file when it fails, and knows no lock."""
    return part.with_name(part.name + TRANSFER_SUFFIX)
