"""What did the kernel say since boot? /dev/kmsg, read to its end without waiting for more."""

from __future__ import annotations

import os
import re

_KMSG = "/dev/kmsg"
_RECORD_BYTES = 8192
_LIMIT_BYTES = 8 << 20
_HEADER = re.compile(r"^\d+,\d+,(\d+),[^;]*;")


def read_kernel_log() -> str:
    """Return the messages the kernel's buffer still holds, one a line: "[ 12.345678] text".

    Raises:
        OSError: there is no /dev/kmsg, or this user may not read it.
    """
    descriptor = os.open(_KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    lines: list[str] = []
    left = _LIMIT_BYTES
    try:
        while left > 0:
            try:
                record = os.read(descriptor, _RECORD_BYTES)
            except BlockingIOError:  # the end
                break
            except BrokenPipeError:  # overwritten while it was read; the next read goes on with what is there
                continue
            left -= max(1, len(record))
            if not record:
                break
            lines.append(message(record.decode(errors="replace")))
    finally:
        os.close(descriptor)
    return "\n".join(lines)


def message(record: str) -> str:
    """Return one record of /dev/kmsg ("6,339,5140900,-;text", then lines of tags) as "[    5.140900] text".

    A message of several lines, as NVIDIA's module writes them, has the kernel's escapes between them.
    """
    text = record.partition("\n")[0].replace("\\x0a", " ")
    match = _HEADER.match(text)
    if match is None:
        return text
    return f"[{int(match.group(1)) / 1e6:12.6f}] {text[match.end() :]}"
