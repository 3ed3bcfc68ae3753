"""Is a file of a kernel cache whole, judged by its form alone?"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.store.cache_shape import HEAD_BYTES, elf_end, is_read, torn


def judged(path: str, data: bytes) -> str:
    """Judge a file that holds these bytes."""
    return torn(path, len(data), lambda size: data[:size])


def elf(size_bytes: int = 4096) -> bytes:
    """A 64-bit little-endian object whose section table ends at its last byte, as compilers write them."""
    sections = 4
    head = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 1, 190, 1, 0, 0, size_bytes - 64 * sections, 0, 64, 0, 0, 64, sections, 3)
    return head + b"k" * (size_bytes - len(head))


def test_b114_an_empty_or_cut_json_is_torn() -> None:
    """B114: 0 bytes and `{"child_paths": {` are torn, `{"child_paths": {}}` is whole."""
    assert ["0 bytes", True, ""] == [
        judged("triton/AAAA/__grp__k.json", b""),
        judged("triton/BBBB/__grp__k.json", b'{"child_paths": {').startswith("not JSON"),
        judged("triton/CCCC/__grp__k.json", b'{"child_paths": {}}'),
    ]


@pytest.mark.parametrize("name", ["k.cubin", "k.so", "k.o"])
def test_an_object_is_whole_up_to_its_section_table(name: str) -> None:
    """One byte less than the header says is torn, whatever the machine it is for."""
    assert "" == judged(name, elf())
    assert "4095 bytes, its ELF header says 4096" == judged(name, elf()[:-1])


def test_what_a_power_cut_leaves_is_torn() -> None:
    """Zeros in place of content, half a header, text in place of an object."""
    assert "begins with zeros" == judged("k.cubin", bytes(5000))
    assert "40 bytes, an ELF header cut short" == judged("k.so", elf()[:40])
    assert "does not begin as ELF" == judged("k.so", b"INPUT(libx.so)")
    assert ["0 bytes"] * 5 == [judged(name, b"") for name in ("a.ptx", "a.ttir", "a.llir", "a.ttgir", "a.fatbin")]


def test_vllms_table_of_what_it_compiled_is_whole_or_torn() -> None:
    """B114 of another writer: the engine reads it as a dictionary before anything else, and ends where it is none."""
    path = "vllm/torch_compile_cache/0123456789/rank_0_0/backbone/vllm_compile_cache.py"
    table = b"{   (None, 0, 'inductor'): ('artifact_0', 'artifact_0')}"

    assert "" == judged(path, table)
    assert ["no whole dictionary"] * 2 == [judged(path, table[:-9]), judged(path, bytes(80))]
    assert "0 bytes" == judged(path, b"")
    assert is_read(path)


def test_other_forms_of_objects_and_empty_python_files_are_whole() -> None:
    """Archives and LLVM bitcode end in .o as well; __init__.py is empty on purpose; of other files nothing is known."""
    assert [""] * 5 == [
        judged("a.o", b"!<arch>\nxx"),
        judged("a.o", b"BC\xc0\xde1234"),
        judged("a/__init__.py", b""),
        judged("a/model", b""),
        judged("a.lock", b""),
    ]
    assert [False, True] == [is_read("a/__init__.py"), is_read("a.json")]


def test_a_large_json_is_judged_by_its_beginning() -> None:
    """More than 1 MiB is not read at every boot."""
    large = json.dumps({"x": "y" * HEAD_BYTES}).encode()

    assert "" == judged("t.json", large)
    assert "does not begin as JSON" == judged("t.json", bytes(HEAD_BYTES + 1))


def test_a_real_library_is_whole_and_cut_it_is_torn() -> None:
    """What this machine's own linker made."""
    library = next(Path("/usr/lib").rglob("libc.so.6"), None)
    if library is None:
        pytest.skip("no C library below /usr/lib")
    data = library.read_bytes()

    assert len(data) >= (elf_end(data[:64]) or 0) > 64
    assert "" == judged("libc.so", data)
    assert judged("libc.so", data[: len(data) // 2])


@given(st.binary(max_size=200), st.sampled_from(["a.json", "a.so", "a.o", "a.cubin", "a.ptx", "a"]))
def test_no_bytes_make_it_fail(data: bytes, name: str) -> None:
    """Whatever lies in a cache, the answer is a sentence or nothing."""
    assert isinstance(judged(name, data), str)
    assert isinstance(judged(name, b"\x7fELF" + data), str)
