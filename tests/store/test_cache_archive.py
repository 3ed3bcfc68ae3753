"""What is an archive of kernel caches? A tar stream whose first member lists every other one with its SHA-256."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.caches import signed
from kboot.errors import ActionFailed
from kboot.store.cache_archive import (
    END,
    MAX_FILE_BYTES,
    ArchivedFile,
    ArchiveList,
    NotAnArchive,
    can_be_carried,
    carried,
    decode_list,
    encode_header,
    encode_list,
    padding,
    read_header,
)

FILE = ArchivedFile("triton/AB/k.cubin", 10, 1781087915292417000, 0o644, "a" * 64)
LIST = ArchiveList("sm90-vllm0.33.0", {"driver": "580.82"}, 1796020000.0, "0.1.0", (FILE,))


def listed(*files: ArchivedFile, **changes: Any) -> bytes:
    """Return the bytes of a list that may be wrong."""
    document = {**json.loads(encode_list(LIST)), **({"files": [list(f) for f in files]} if files else {}), **changes}
    del document["list_sha256"]
    return signed(document)


def test_a_list_in_which_one_letter_changed_is_refused() -> None:
    """Key and factors are covered by no file's hash; the list has one of its own."""
    with pytest.raises(NotAnArchive, match="damaged"):
        decode_list(encode_list(LIST).replace(b"580.82", b"590.82"))


def test_a_list_is_read_back_and_always_the_same_bytes() -> None:
    """Whatever the order of its factors and files."""
    two = (FILE._replace(path="b"), FILE._replace(path="a"))
    one_way = ArchiveList("k", {"b": "1", "a": "2"}, None, "1", two)
    other_way = ArchiveList("k", {"a": "2", "b": "1"}, None, "1", two[::-1])

    assert LIST == decode_list(encode_list(LIST))
    assert encode_list(one_way) == encode_list(other_way)


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x", "a/../../x", "a/./b", "a//b", "a/", "a\0b", "a\nb", "x" * 256, "/".join(["d"] * 65),
     "factors.json", "complete", "inventory", ".kboot-x/y"],
)  # fmt: skip
def test_a_path_that_leads_out_or_over_kboots_own_files_is_refused(path: str) -> None:
    """Nothing is written outside of the folder, and nothing over what says that it is whole."""
    with pytest.raises(NotAnArchive):
        decode_list(listed(FILE._replace(path=path)))
    assert not can_be_carried(path, 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        listed(schema=2),
        listed(kind="boot"),
        listed(key="../x"),
        listed(key=""),
        listed(key=7),
        listed(factors={"a": 1}),
        listed(factors=[]),
        listed(files=[[1]]),
        listed(files=[["a", 1, 2, 3]]),
        listed(completed_unix_s="yesterday"),
        listed(FILE, FILE),
        listed(FILE._replace(path="b"), FILE._replace(path="a")),
        listed(FILE._replace(path="a"), FILE._replace(path="a/b")),
        listed(FILE._replace(path="a"), FILE._replace(path="a-b"), FILE._replace(path="a/b")),
        listed(FILE._replace(size_bytes=-1)),
        listed(FILE._replace(size_bytes=MAX_FILE_BYTES)),
        listed(FILE._replace(size_bytes=True)),
        listed(FILE._replace(mode=0o4755)),
        listed(FILE._replace(mtime_ns=-5)),
        listed(FILE._replace(sha256="A" * 64)),
        listed(FILE._replace(sha256="")),
    ],
)
def test_a_list_with_anything_impossible_in_it_is_refused(data: bytes) -> None:
    """Set-user-id bits, negative sizes, folders that are files, keys that are paths: status 13 and one sentence."""
    with pytest.raises(NotAnArchive) as caught:
        decode_list(data)

    assert ("archive-not-valid", 13) == (caught.value.code, caught.value.status)


@given(st.binary(max_size=400))
def test_no_bytes_make_the_reader_of_lists_fail_otherwise(data: bytes) -> None:
    """Whatever is in the first member, the answer is a list or the one error."""
    try:
        decode_list(data)
    except ActionFailed as exc:
        assert "archive-not-valid" == exc.code


NAMES = st.lists(
    st.text(st.characters(blacklist_characters="/\0\n", blacklist_categories=("Cs",)), min_size=1, max_size=60).filter(
        lambda part: part not in (".", "..") and len(part.encode()) <= 255
    ),
    min_size=1,
    max_size=12,
).map("/".join)


@given(NAMES, st.integers(0, MAX_FILE_BYTES - 1))
def test_every_header_is_read_back_by_us_and_by_tar(name: str, size_bytes: int) -> None:
    """Short names, names cut at a slash, and names in a record of their own."""
    header = encode_header(name, size_bytes, 0o644, 1781087915)
    member = tarfile.open(fileobj=io.BytesIO(header + END)).next()  # noqa: SIM115

    assert (name, size_bytes) == read_header(io.BytesIO(header).read)
    assert member is not None
    assert (name, size_bytes, 0o644) == (member.name, member.size, member.mode)


def member(kind: bytes) -> bytes:
    """Return a header of another kind that tar itself writes."""
    info = tarfile.TarInfo("x")
    info.type, info.linkname = kind, "/etc/passwd"
    return info.tobuf(tarfile.USTAR_FORMAT)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_links_devices_and_folders_are_no_members(kind: bytes) -> None:
    """Only regular files are taken."""
    with pytest.raises(NotAnArchive, match="no regular file"):
        read_header(io.BytesIO(member(kind)).read)


def test_damaged_headers_are_told() -> None:
    """A flipped bit, a cut block, an endless extended header, one that sets more than a path."""
    header = bytearray(encode_header("a", 1, 0o644, 0))
    header[0] ^= 1
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 20
    extended = tarfile.TarInfo("x")
    extended.pax_headers = {"path": "y", "mtime": "1.5"}
    for data in (bytes(header), b"x" * 100, info.tobuf(), extended.tobuf(tarfile.PAX_FORMAT)):
        with pytest.raises(NotAnArchive):
            read_header(io.BytesIO(data).read)
    assert read_header(io.BytesIO(END).read) is None
    assert [0, 511, 0] == [len(padding(n)) for n in (0, 1, 512)]


def test_what_is_of_one_machine_or_unfinished_does_not_travel() -> None:
    """The probe of GPUs, locks, temporary files, the Hub client's own; the model's code does."""
    paths = [
        "vllm/gpu_p2p_access_cache_for_0,1.json", "torch-extensions/m/lock", "triton/x.lock", "deep_gemm/tmp/k.cu",
        "hf/token", "hf/modules/m.py", "vllm-config/usage_stats.json", "triton/AB/k.cubin", "a/b.tmp.71",
    ]  # fmt: skip
    kept, left = carried((path, 1) for path in paths)

    assert ["hf/modules/m.py", "triton/AB/k.cubin"] == kept
    assert {"locks": 2, "unfinished": 2} == {why: left[why] for why in ("locks", "unfinished")}
    assert len(paths) == len(kept) + sum(left.values())
