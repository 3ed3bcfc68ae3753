"""Are the bytes on this disk those of the commit? The one loop that reads a file through a verifier."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kboot.checkpoint import RemoteFile
from kboot.errors import ActionFailed, VerificationFailed
from kboot.host.files import Identity, explain_os_error
from kboot.host.pagecache import Reading, new_buffer
from kboot.store.verifier import Verifier

BUFFER_BYTES = 1 << 20


def hash_file(
    path: Path,
    file: RemoteFile,
    buffer: memoryview | None = None,
    on_bytes: Callable[[int], bool] = lambda _: True,
) -> Identity:
    """Read and hash every byte of `path`; return the identity it had from first to last.

    on_bytes: told how many bytes were read so far; False stops.

    Raises:
        VerificationFailed: the bytes are not the file's, or changed while they were read.
        ActionFailed: code "stopped", or the disk cannot read them.
    """
    verifier = Verifier(file)
    try:
        with Reading(path, buffer or new_buffer(BUFFER_BYTES)) as reading:
            before = reading.identity()
            for data in reading:
                verifier.feed(data)
                if not on_bytes(verifier.fed_bytes):
                    raise ActionFailed("stopped", f"{file.path}: stopped at {verifier.fed_bytes} bytes")
            after = reading.identity()
    except OSError as exc:
        raise explain_os_error(exc, f"read {file.path}", path) from exc
    verifier.finish()
    if before != after:
        raise VerificationFailed(
            "file-changed-while-read",
            f"{file.path}: another process changed it while it was hashed",
            where=(str(path),),
            hint="nothing but kboot should write below the hub folder: `fuser -v` names who has it open",
        )
    return after
