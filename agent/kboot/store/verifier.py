"""Are these the bytes that the pinned commit lists? Bytes in, verdict out."""

from __future__ import annotations

import hashlib

from kboot.checkpoint import RemoteFile
from kboot.errors import VerificationFailed


class Verifier:
    """Hashes one file as its bytes arrive, in order, and says at the end whether they are the listed ones.

    LFS files are proven by their SHA-256, files kept in git itself by their git blob SHA-1.
    """

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._fed_bytes = 0
        self._over = False
        if file.sha256 is None:
            self._hash = hashlib.sha1(b"blob %d\0" % file.size_bytes, usedforsecurity=False)
        else:
            self._hash = hashlib.sha256(usedforsecurity=False)

    @property
    def fed_bytes(self) -> int:
        """How many bytes were fed; the offset of the next one."""
        return self._fed_bytes

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next bytes.

        Raises:
            VerificationFailed: code "shard-size-mismatch": more than the listing says.
            RuntimeError: the verdict was given already.
        """
        self._still_open()
        size_bytes = memoryview(data).nbytes
        if self._fed_bytes + size_bytes > self._file.size_bytes:
            raise self._wrong_size(f"at least {self._fed_bytes + size_bytes}")
        self._hash.update(data)
        self._fed_bytes += size_bytes

    def so_far(self) -> str:
        """Return the hex digest of what was fed until now; feeding may go on."""
        return self._hash.copy().hexdigest()

    def finish(self) -> None:
        """Give the verdict: returns when the bytes are the listed ones.

        Raises:
            VerificationFailed: code "shard-size-mismatch" or "shard-hash-mismatch".
            RuntimeError: the verdict was given already.
        """
        self._still_open()
        self._over = True
        if self._fed_bytes != self._file.size_bytes:
            raise self._wrong_size(str(self._fed_bytes))
        kind, wanted = wanted_digest(self._file)
        got = self._hash.hexdigest()
        if got != wanted:
            raise VerificationFailed(
                "shard-hash-mismatch",
                f"{self._file.path}: {kind} is {got[:12]}…, the listing says {wanted[:12]}…",
                where=(f"got    {got}", f"wanted {wanted}"),
            )

    def _still_open(self) -> None:
        if self._over:
            raise RuntimeError(f"the verdict on {self._file.path} was given already")

    def _wrong_size(self, got: str) -> VerificationFailed:
        return VerificationFailed(
            "shard-size-mismatch",
            f"{self._file.path}: got {got} bytes, the listing says {self._file.size_bytes}",
        )


def wanted_digest(file: RemoteFile) -> tuple[str, str]:
    """Return the kind of digest that proves a file ("sha256", "git blob sha1") and its hex value."""
    return ("git blob sha1", file.blob_id) if file.sha256 is None else ("sha256", file.sha256)


def prove(file: RemoteFile, data: bytes) -> None:
    """Return when `data` is the file's whole content.

    Raises:
        VerificationFailed: it is not.
    """
    verifier = Verifier(file)
    verifier.feed(data)
    verifier.finish()
