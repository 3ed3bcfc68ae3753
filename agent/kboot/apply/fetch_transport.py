"""Who else may bring a whole file, where the profile asks for it? Its bytes are proven like all others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal, assert_never

from kboot.checkpoint import Listing, RemoteFile
from kboot.errors import KbootError
from kboot.events import Emit, FileProgress, Notice
from kboot.host import files
from kboot.sources import hf_transfer, hf_xet
from kboot.sources.types import HasLinks, IsHub, Source
from kboot.store.journal import journal_path
from kboot.store.part_trust import PartialInUse, open_alone
from kboot.store.sweep import TRANSFER_SUFFIX

WORTH_BYTES = 8 << 20
"""Below this a process of its own costs more than it brings."""

TransportName = Literal["hf_transfer", "hf_xet"]
_Carry = Callable[[Path, Callable[[int], None]], None]


class Transport:
    """Brings files that are not here at all, each by a worker process."""

    def __init__(
        self, name: TransportName, listing: Listing, stall_timeout_s: float, emit: Emit, stop: threading.Event
    ) -> None:
        self._name = name
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
        carry = self._carrier(source, file) if file.size_bytes >= WORTH_BYTES else None
        if carry is None:
            return False
        try:
            with open_alone(part, file) as begun:
                if begun.size_bytes:
                    return False
                self._transfer(carry, file, part)
        except PartialInUse:
            raise
        except KbootError as exc:
            if not self._stop.is_set():
                text = f"{file.path} is fetched by http instead of {self._name}: {exc.message}"
                self._emit(Notice("transport.changed", text))
            return False
        return True

    def _carrier(self, source: Source, file: RemoteFile) -> _Carry | None:
        """Return what brings the file from this source; None where it cannot be had so."""
        repo, commit, stall_s, stop = self._listing.repo, self._listing.commit, self._stall_timeout_s, self._stop
        match self._name:
            case "hf_transfer" if isinstance(source, HasLinks):
                links = source
                return lambda apart, tell: hf_transfer.transfer(
                    links.direct_link(repo, commit, file), apart, stall_s, stop, tell
                )
            case "hf_xet" if isinstance(source, IsHub) and file.xet_hash:
                access = source.access()
                return lambda apart, tell: hf_xet.transfer(access, repo, commit, file, apart, stall_s, stop, tell)
            case "hf_transfer" | "hf_xet":
                return None
            case other:
                assert_never(other)

    def _transfer(self, carry: _Carry, file: RemoteFile, part: Path) -> None:
        apart = transfer_path(part)
        files.remove(apart)
        carry(apart, lambda n: self._tell(file, n))
        files.remove(journal_path(part))  # an old one would speak of another file
        files.rename(apart, part)

    def _tell(self, file: RemoteFile, done_bytes: int) -> None:
        self._emit(FileProgress("fetch", file.path, min(done_bytes, file.size_bytes), file.size_bytes))


def transfer_path(part: Path) -> Path:
    """Return where another transport writes: it may remove its file when it fails, and knows no lock."""
    return part.with_name(part.name + TRANSFER_SUFFIX)
