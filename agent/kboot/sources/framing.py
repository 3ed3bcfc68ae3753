"""Which bytes of a file does this answer carry? Nothing is taken on faith that a header contradicts. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kboot.errors import SourceError
from kboot.sources.secrets import mask
from kboot.values import dataclass

MOST_ASKED_BYTES = 16 << 30
"""What is asked for at once. The Hub's CDN answers 400 where some tens of GB are wanted in one go (xet-core#592)."""

_NUMBER = r"[0-9]{1,18}"  # Python refuses to read numbers of thousands of digits, and takes some signs for digits
_CONTENT_RANGE = re.compile(rf"bytes ({_NUMBER})-({_NUMBER})/({_NUMBER}|\*)")
_UNSATISFIED = re.compile(rf"bytes \*/({_NUMBER})")


@dataclass(frozen=True, slots=True)
class Frame:
    """start: offset of the first byte in the file. size_bytes: how many follow; None = until the connection ends.

    total_bytes: size of the whole file as told; None when not told.
    """

    start: int
    size_bytes: int | None
    total_bytes: int | None


def header_number(text: str) -> int | None:
    """Return the whole number that a header gives; None where it gives none."""
    found = re.fullmatch(_NUMBER, text.strip())
    return int(found[0]) if found else None


def end_of_request(start: int, end: int, size_bytes: int) -> int | None:
    """Return where a request for [start, end) of a file of size_bytes is to end; None = where the file does."""
    if end - start > MOST_ASKED_BYTES:
        return start + MOST_ASKED_BYTES
    return None if end == size_bytes else end


def range_header(start: int, end: int | None) -> dict[str, str]:
    """Return the header that asks for [start, end); none for a whole file."""
    if start == 0 and end is None:
        return {}
    return {"Range": f"bytes={start}-" if end is None else f"bytes={start}-{end - 1}"}


def frame(status: int, headers: Mapping[str, str], start: int, end: int | None, size_bytes: int) -> Frame:
    """Return what an answer to a request for [start, end) of a file of size_bytes carries.

    headers: names in lower case. A 200 to a range carries the file from byte 0: allowed, the reader skips.

    Raises:
        SourceError: the answer is of another file or another range, or its bytes were transformed on the way.
    """
    encoding = headers.get("content-encoding", "identity").strip().lower()
    transfer = headers.get("transfer-encoding", "chunked").strip().lower()
    if encoding not in ("", "identity") or transfer != "chunked":
        raise _lie("transformed-body", f"the body comes as {mask((encoding or transfer)[:40])}, wanted as it is")
    length = _length(headers)
    if status == 206:
        return _partial(headers, length, start, size_bytes if end is None else end, size_bytes)
    if status == 416:
        raise _unsatisfied(headers, start, size_bytes)
    if length is not None and length != size_bytes:
        raise _lie("size-mismatch", f"the file has {length} bytes there, the listing says {size_bytes}")
    return Frame(0, length, length)


def _partial(headers: Mapping[str, str], length: int | None, start: int, end: int, size_bytes: int) -> Frame:
    value = headers.get("content-range", "")
    found = _CONTENT_RANGE.fullmatch(value.strip())
    if not found:
        raise _lie("range-lie", f"206 with Content-Range {value!r}, wanted bytes {start}-{end - 1}")
    first, last = int(found[1]), int(found[2])
    total = None if found[3] == "*" else int(found[3])
    if total not in (None, size_bytes):
        raise _lie("size-mismatch", f"the file has {total} bytes there, the listing says {size_bytes}")
    if first != start or not first <= last < end:
        raise _lie("range-lie", f"206 with Content-Range {value!r}, wanted bytes {start}-{end - 1}")
    if length not in (None, last - first + 1):
        raise _lie("range-lie", f"206 with Content-Range {value!r} and {length} bytes of body")
    return Frame(first, last - first + 1, total)


def _unsatisfied(headers: Mapping[str, str], start: int, size_bytes: int) -> SourceError:
    found = _UNSATISFIED.fullmatch(headers.get("content-range", "").strip())
    if found and int(found[1]) != size_bytes:
        return _lie("size-mismatch", f"the file has {found[1]} bytes there, the listing says {size_bytes}")
    return SourceError("range-refused", f"416 for bytes from {start} of {size_bytes}", retry=True)


def _length(headers: Mapping[str, str]) -> int | None:
    return header_number(headers.get("content-length", ""))


def _lie(code: str, message: str) -> SourceError:
    return SourceError(code, message)
