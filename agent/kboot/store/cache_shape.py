"""Is a file of a kernel cache whole, judged by its form alone?"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import PurePosixPath

HEAD_BYTES = 1 << 20
"""How much of a file is looked at, at most: all of a JSON file of ordinary size, the header of everything else."""

_ELF = b"\x7fELF"
_ELF_BYTES = 64
_OTHER_OBJECTS = (b"BC\xc0\xde", b"!<arch>\n", b"\xde\xc0\x17\x0b")  # LLVM bitcode, archive, wrapped bitcode
_NEVER_EMPTY = frozenset({".cubin", ".fatbin", ".json", ".llir", ".o", ".ptx", ".so", ".ttgir", ".ttir"})
_READ = frozenset({".cubin", ".json", ".o", ".so"})
_VLLM_TABLE = "vllm_compile_cache.py"  # written in place, and read at every start as one Python dictionary

Read = Callable[[int], bytes]
"""Returns the first bytes of the file, as many as are asked for."""


def is_read(path: str) -> bool:
    """Return whether the form of such a file can be seen in its content; of others only the size is known."""
    return PurePosixPath(path).suffix in _READ or PurePosixPath(path).name == _VLLM_TABLE


def torn(path: str, size_bytes: int, read: Read) -> str:
    """Return what is wrong with a file; empty when its form is whole.

    read: called only where the content says more than the size.

    Raises:
        OSError: read failed.
    """
    suffix = PurePosixPath(path).suffix
    is_table = PurePosixPath(path).name == _VLLM_TABLE
    if size_bytes == 0 and (suffix in _NEVER_EMPTY or is_table):
        return "0 bytes"
    if is_table:
        return _torn_table(size_bytes, read)
    if suffix == ".json":
        return _torn_json(size_bytes, read)
    if suffix in (".so", ".cubin", ".o"):
        return _torn_object(suffix, size_bytes, read)
    return ""


def _torn_json(size_bytes: int, read: Read) -> str:
    data = read(min(size_bytes, HEAD_BYTES))
    if size_bytes > HEAD_BYTES:
        return "" if data.lstrip()[:1] in (b"{", b"[") else "does not begin as JSON"
    try:
        json.loads(data)
    except (ValueError, RecursionError) as exc:
        return f"not JSON: {exc}"[:120]
    return ""


def _torn_table(size_bytes: int, read: Read) -> str:
    data = read(min(size_bytes, HEAD_BYTES)).strip()
    whole = data.startswith(b"{") and (size_bytes > HEAD_BYTES or data.endswith(b"}"))
    return "" if whole else "no whole dictionary"


def _torn_object(suffix: str, size_bytes: int, read: Read) -> str:
    head = read(_ELF_BYTES)
    if not head.startswith(_ELF):
        if suffix == ".o" and head.startswith(_OTHER_OBJECTS):
            return ""
        return "does not begin as ELF" if head.strip(b"\0") else "begins with zeros"
    end = elf_end(head)
    if end is None:
        return f"{size_bytes} bytes, an ELF header cut short"
    return f"{size_bytes} bytes, its ELF header says {end}" if size_bytes < end else ""


def elf_end(head: bytes) -> int | None:
    """Return where the section and program tables of an ELF file end, which linkers write last; None when cut short.

    Format: https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html
    """
    if len(head) < 52:
        return None
    wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
    if wide and len(head) < 64:
        return None
    offsets, sizes = ("QQ", 32) if wide else ("II", 28)
    program_at, section_at = struct.unpack_from(order + offsets, head, sizes)
    program_size, programs, section_size, sections = struct.unpack_from(order + "HHHH", head, 54 if wide else 42)
    return int(max(program_at + program_size * programs, section_at + section_size * sections))
