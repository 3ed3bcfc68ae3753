"""Are the bytes on this disk those of the commit? The one loop that reads a file through a verifier."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kboot.checkpoint import RemoteFile
from kboot.errors import ActionFailed, VerificationFailed
from kboot.host.files import Identity
from kboot.host.os_errors import explain_os_error
from kboot.host.pagecache import Reading, new_buffer
from kboot.store.verifier import NO_PREFIXES, Prefixes, Verifier, first_difference
from kboot.values import dataclass

BUFFER_BYTES = 512 << 10
"""What is copied from the page cache at once where it is not mapped: small enough to be hashed out of a core's cache.

CPU seconds for a GB on Zen 5, where hashing alone takes 0.490: 64 KiB 0.528, 256 KiB 0.515, 512 KiB 0.515, 1 MiB 0.528,
4 MiB 0.546; eight threads on two cores: 512 KiB 0.570, 4 MiB 0.606. Smaller ones would make many threads wait for the
interpreter.
"""


@dataclass(frozen=True, slots=True)
class Hashed:
    """A file whose every byte was read and is right. identity: the one it had from first to last."""

    identity: Identity
    prefixes: Prefixes


def hash_file(
    path: Path,
    file: RemoteFile,
    on_bytes: Callable[[int], bool] = lambda _: True,
    known: Prefixes = NO_PREFIXES,
    *,
    past_cache: bool = False,
) -> Hashed:
    """Read and hash every byte of `path`.

    on_bytes: told how many bytes were read so far; False stops. known: of the content; says where a wrong file begins
    to be wrong, and takes no part in the verdict. past_cache: read what the disk has, not what memory remembers of it.

    Raises:
        VerificationFailed: the bytes are not the file's, or changed while they were read.
        ActionFailed: code "interrupted", or the disk cannot read them.
    """
    verifier = Verifier(file)
    try:
        with Reading(path, new_buffer(BUFFER_BYTES), past_cache=past_cache) as reading:
            before = reading.identity()
            for data in reading:
                verifier.feed(data)
                if not on_bytes(verifier.fed_bytes):
                    raise ActionFailed("interrupted", f"{file.path}: stopped at {verifier.fed_bytes} bytes")
            after = reading.identity()
    except OSError as exc:
        raise explain_os_error(exc, f"read {file.path}", path) from exc
    try:
        verifier.finish()
    except VerificationFailed as exc:
        if place := first_difference(known, verifier.prefixes, file.size_bytes):
            exc.where = (f"the first difference is in bytes {place[0]} to {place[1]}", *exc.where)
        raise
    if before != after:
        raise VerificationFailed(
            "file-changed-while-read",
            f"{file.path}: another process changed it while it was hashed",
            where=(str(path),),
            hint="nothing but kboot should write below the hub folder: `fuser -v` names who has it open",
        )
    return Hashed(after, verifier.prefixes)
