"""What may be trusted of a part that lies on the disk, and who else has it open?"""

from __future__ import annotations

from pathlib import Path

from kboot.checkpoint import RemoteFile
from kboot.errors import ActionFailed
from kboot.host import files
from kboot.host.blocks import BlockFile, boot_id
from kboot.host.locks import flock_holder
from kboot.store.journal import Trusted, judge, read_pages
from kboot.store.ranges import clip, prefix, total
from kboot.values import dataclass

_RENAMES = 10  # how often a part may be renamed under our hands before somebody else is said to have it


class PartialInUse(ActionFailed):
    """Another process is fetching the file. owner: "process 71"; "another process" where the kernel does not say."""

    def __init__(self, path: Path, file: RemoteFile, pid: int | None) -> None:
        self.owner = "another process" if pid is None else f"process {pid}"
        super().__init__(
            "partial-in-use",
            f"{self.owner} is fetching {file.path}",
            where=(str(path),),
            hint="wait for it, or stop it; what it fetched stays",
        )


@dataclass(frozen=True, slots=True)
class Found:
    """What was under the partial's name before. discarded: why it was not used; empty when it was or was not there."""

    reused_bytes: int
    discarded: str


def open_alone(path: Path, file: RemoteFile) -> BlockFile:
    """Open a part and keep other processes from it until it is closed.

    Raises:
        PartialInUse: another process has it.
    """
    for _ in range(_RENAMES):
        blocks = BlockFile(path)
        if blocks.try_lock():
            if blocks.is_named:
                return blocks
            # It got its final name between opening and locking: what is open now is a proven blob.
            blocks.close()
            continue
        blocks.close()
        break
    raise PartialInUse(path, file, flock_holder(path))


def have_bytes(part: Path, file: RemoteFile) -> int:
    """Return how much of a partial a fetch would build on; 0 when it would begin again. Reads only the journal."""
    try:
        identity = files.identity(part)
    except OSError:
        return 0
    return trust(part, file, identity.inode, identity.size_bytes, boot_id())[1].reused_bytes


def trust(part: Path, file: RemoteFile, inode: int, length_bytes: int, running: str) -> tuple[Trusted, Found]:
    """Return what may be built on, and why nothing may. running: the boot_id of this kernel."""
    trusted, why = _trust(part, file, inode, length_bytes, running)
    return trusted, Found(total(trusted.ranges), why)


def promise_of(trusted: Trusted) -> tuple[int, str] | None:
    """Return how many first bytes there are and what they must hash to; None where nothing is known of the front."""
    if 0 < trusted.hashed_bytes <= prefix(trusted.ranges):
        return trusted.hashed_bytes, trusted.digest
    return None


def _trust(part: Path, file: RemoteFile, inode: int, length_bytes: int, running: str) -> tuple[Trusted, str]:
    if length_bytes == 0:
        return Trusted(), ""
    if length_bytes > file.size_bytes:
        return Trusted(), f"it has {length_bytes} bytes, the listing says {file.size_bytes}"
    pages = read_pages(part)
    if pages is None:
        # Another downloader's: written from the front, nothing known of it but its length. Its hash will tell.
        return Trusted(clip(((0, length_bytes),), file.size_bytes)), ""
    trusted = judge(pages, file, inode, length_bytes, running)
    return trusted, "" if trusted.ranges else "its journal vouches for no byte of it"
