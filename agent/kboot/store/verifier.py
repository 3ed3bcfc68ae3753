"""Are these the bytes that the pinned commit lists? Bytes in, verdict out."""

from __future__ import annotations

import hashlib

from kboot.checkpoint import RemoteFile
from kboot.errors import VerificationFailed
from kboot.values import dataclass

RANGE_BYTES = 16 << 20
"""How finely a wrong place is found: what is fetched again when one bit of a shard is wrong."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What the beginnings of a proven content hash to: after step_bytes, after twice as many, and so on.

    They are by-products of the one SHA-256 over the file, so that they cost nothing (ADR 10), and tell which range of a
    copy is wrong. They never prove a file: its SHA-256 does.
    """

    step_bytes: int
    digests: tuple[bytes, ...]


NO_PREFIXES = Prefixes(RANGE_BYTES, ())


class WrongRange(VerificationFailed):
    """Bytes [start, end) are not those of the content that was proven before."""

    def __init__(self, file: RemoteFile, start: int, end: int) -> None:
        super().__init__("range-mismatch", f"{file.path}: bytes {start} to {end} are not those of the commit")
        self.start = start
        self.end = end


class Verifier:
    """Hashes one file as its bytes arrive, in order, and says at the end whether they are the listed ones.

    LFS files are proven by their SHA-256, files kept in git itself by their git blob SHA-1.

    known: what is known of the content's beginnings. With it, a wrong range is told as soon as it is over, and the
    hashing goes on at the beginning of that range, with other bytes.
    """

    def __init__(self, file: RemoteFile, known: Prefixes = NO_PREFIXES) -> None:
        self._file = file
        self._known = known.digests
        self._step_bytes = known.step_bytes
        self._fed_bytes = 0
        self._over = False
        self._prefixes: list[bytes] = []
        if file.sha256 is None:
            self._hash = hashlib.sha1(b"blob %d\0" % file.size_bytes, usedforsecurity=False)
        else:
            self._hash = hashlib.sha256(usedforsecurity=False)
        self._before = self._hash.copy()  # at the beginning of the present range

    @property
    def fed_bytes(self) -> int:
        """How many bytes were fed; the offset of the next one."""
        return self._fed_bytes

    @property
    def prefixes(self) -> Prefixes:
        """What the beginnings fed so far hash to."""
        return Prefixes(self._step_bytes, tuple(self._prefixes))

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next bytes.

        Raises:
            VerificationFailed: code "shard-size-mismatch": more than the listing says.
            WrongRange: they are not what is known; the next bytes to feed are those from its start on.
            RuntimeError: the verdict was given already.
        """
        self._still_open()
        view = memoryview(data)
        if self._fed_bytes + view.nbytes > self._file.size_bytes:
            raise self._wrong_size(f"at least {self._fed_bytes + view.nbytes}")
        while view.nbytes:
            room = self._step_bytes - self._fed_bytes % self._step_bytes
            self._hash.update(view[:room])
            self._fed_bytes += min(room, view.nbytes)
            if view.nbytes >= room:
                self._end_range()
            view = view[room:]

    def so_far(self) -> str:
        """Return the hex digest of what was fed until now; feeding may go on."""
        return self._hash.copy().hexdigest()

    def finish(self) -> None:
        """Give the verdict: returns when the bytes are the listed ones.

        Raises:
            VerificationFailed: code "shard-size-mismatch" or "shard-hash-mismatch".
            WrongRange: all but the last range are what is known.
            RuntimeError: the verdict was given already.
        """
        self._still_open()
        if self._fed_bytes != self._file.size_bytes:
            self._over = True
            raise self._wrong_size(str(self._fed_bytes))
        kind, wanted = wanted_digest(self._file)
        got = self._hash.hexdigest()
        if got == wanted:
            self._over = True
            return
        whole_ranges = self._file.size_bytes // self._step_bytes
        if self._known and len(self._known) == whole_ranges and self._fed_bytes % self._step_bytes:
            raise self._go_back(whole_ranges * self._step_bytes)
        self._over = True
        raise VerificationFailed(
            "shard-hash-mismatch",
            f"{self._file.path}: {kind} is {got[:12]}…, the listing says {wanted[:12]}…",
            where=(f"got    {got}", f"wanted {wanted}"),
        )

    def doubt(self) -> None:
        """Go by the verdict on the whole file alone from here on."""
        self._known = ()

    def _end_range(self) -> None:
        number = self._fed_bytes // self._step_bytes - 1
        digest = self._hash.copy().digest()
        if number < len(self._known) and digest != self._known[number]:
            raise self._go_back(number * self._step_bytes)
        self._prefixes.append(digest)
        self._before = self._hash.copy()

    def _go_back(self, start: int) -> WrongRange:
        end, self._fed_bytes = self._fed_bytes, start
        self._hash = self._before.copy()
        return WrongRange(self._file, start, end)

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


def first_difference(known: Prefixes, found: Prefixes, size_bytes: int) -> tuple[int, int] | None:
    """Return the first range [start, end) in which a file differs from the proven content; None where none is known."""
    if not known.digests or known.step_bytes != found.step_bytes:
        return None
    step = known.step_bytes
    pairs = enumerate(zip(known.digests, found.digests))
    number = next((n for n, (a, b) in pairs if a != b), min(len(known.digests), len(found.digests)))
    return number * step, min((number + 1) * step, size_bytes)


def prove(file: RemoteFile, data: bytes) -> None:
    """Return when `data` is the file's whole content.

    Raises:
        VerificationFailed: it is not.
    """
    verifier = Verifier(file)
    verifier.feed(data)
    verifier.finish()
