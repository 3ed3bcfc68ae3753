import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.store.structure import (
    MAX_HEADER_BYTES,
    Finding,
    Header,
    Index,
    NotValid,
    Problem,
    Tensor,
    check_index,
    dtype_bytes,
    header_end,
    lfs_pointer,
    missing_shards,
    parse_header,
    parse_index,
    recognise,
)

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"3" * 64 + b"\nsize 9890000000\n"


def framed(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def shard(**tensors: tuple[int, int]) -> bytes:
    """BF16 tensors of shape [2, 4] or what the offsets leave."""
    header = {
        name: {"dtype": "BF16", "shape": [(end - start) // 2], "data_offsets": [start, end]}
        for name, (start, end) in tensors.items()
    }
    return framed(json.dumps(header).encode(), bytes(max((end for _, end in tensors.values()), default=0)))


def problem_of(content: bytes, size_bytes: int | None = None) -> str:
    found = parse_header(content, len(content) if size_bytes is None else size_bytes)
    assert isinstance(found, Problem), found
    return found.code


def header_of(content: bytes) -> Header:
    found = parse_header(content, len(content))
    assert isinstance(found, Header), found
    return found


def test_a_header_gives_every_tensor_and_the_length_of_the_data() -> None:
    """dtype, shape and offsets come out as they were written; the data is what the last tensor ends."""
    header = header_of(shard(a=(0, 16), b=(16, 20)))

    assert Header({"a": Tensor("BF16", (8,), 0, 16), "b": Tensor("BF16", (2,), 16, 20)}, 20) == header


def test_only_the_header_is_needed() -> None:
    """header_end says how many bytes to read; the data itself is never looked at."""
    content = shard(a=(0, 16))
    end = header_end(content[:1024], len(content))

    assert isinstance(end, int)
    assert isinstance(parse_header(content[:end], len(content)), Header)
    assert len(content) - 16 == end


def test_a_cut_shard_says_how_many_bytes_are_missing() -> None:
    """B060: 12 of 16 data bytes are not a shard, and the message counts the rest."""
    content = shard(a=(0, 16))[:-4]

    assert Problem("cut", "ends 4 bytes before its last tensor does") == parse_header(content, len(content))


def test_bytes_after_the_last_tensor_are_a_problem() -> None:
    """A shard that is longer than its tensors is not the file that was written."""
    assert "trailing-bytes" == problem_of(shard(a=(0, 16)) + b"x")


def test_an_lfs_pointer_is_recognised_with_the_real_size() -> None:
    """B062: a git clone without git-lfs leaves pointers; both the size and the hash of the real file stand in them."""
    assert Problem(
        "lfs-pointer", f"is a git-lfs pointer of {len(POINTER)} bytes, real size 9890000000"
    ) == parse_header(POINTER, len(POINTER))
    assert ("3" * 64, 9890000000) == lfs_pointer(POINTER)
    assert ("3" * 64, 9890000000) == lfs_pointer(POINTER.replace(b"\n", b"\r\n"))


def test_a_text_in_place_of_a_shard_is_quoted() -> None:
    """A server's refusal that was saved as the file says itself what went wrong; zeros are EricTan7/VeritasPP#2."""
    assert Problem("text", "is a text of 31 bytes: 'Invalid username or password.'") == parse_header(
        b"Invalid username or password.\r\n", 31
    )


@pytest.mark.parametrize(
    ("code", "content"),
    [
        ("torch-zip", b"PK\x03\x04\x00\x00\x08\x08" + bytes(62)),
        ("gguf", b"GGUF\x03\x00\x00\x00" + bytes(24)),
        ("pickle", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + bytes(20)),
        ("gzip", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03" + bytes(20)),
        ("html", b"<!DOCTYPE html><html><body>Sign in to the network</body></html>"),
        ("html", b"\n <HTML><head></head></HTML>"),
        ("html", b"\xef\xbb\xbf<!-- portal -->\n<html><body>Blocked</body></html>"),
        ("xml", b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>'),
        ("xml", b"<Error><Code>ExpiredToken</Code></Error>"),
        ("zeros", bytes(4096)),
        ("text", b"Entry not found"),
        ("text", b"# xet version 0\nfilesize = 12345\nhash = 'abcd'\n"),
        ("text", b"/annex/objects/SHA256E-s12345--abcd.safetensors\n"),
        ("empty", b""),
        ("cut", b"\x10\x00\x00\x00\x00\x00\x00"),
        ("cut", struct.pack("<Q", 100) + b'{"a"'),
        ("header-too-long", struct.pack("<Q", MAX_HEADER_BYTES + 1) + b"{}"),
        ("header-not-json", framed(b"{")),
        ("zeros", framed(b"")),
        ("header-not-json", framed(b"\xff\xfe{}")),
        ("header-not-json", framed(b'{},"__metadata__":{"key":"value"}}      ')),
        ("header-not-json", framed(b"[" * 100_000)),
        ("header-not-json", framed(b'{"a":' * 100_000)),
        ("header-not-json", framed(b'{"a": ' + b"9" * 10_000 + b"}")),
        ("header-not-json", framed(b'{"a": NaN}')),
        ("header-not-json", framed(b'{"a": {}, "a": {}}')),
        ("header-not-valid", framed(b"[1, 2]")),
        ("header-not-valid", framed(b'{"a": 3}')),
        ("header-not-valid", framed(b'{"__metadata__": {"n": 3}}')),
        ("header-not-valid", framed(b'{"a": {"dtype": "U8", "shape": [1], "data_offsets": [true, 1]}}', b"x")),
        ("header-not-valid", framed(b'{"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}}', b"x")),
        ("header-not-valid", framed(b'{"a": {"dtype": "F16", "shape": [1], "data_offsets": [0, 1]}}', b"x")),
        ("header-not-valid", framed(b'{"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 0]}}', b"x")),
        ("offsets-not-tiled", framed(b'{"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}', b"xy")),
    ],
)  # fmt: skip
def test_what_is_no_shard_is_called_by_its_name(code: str, content: bytes) -> None:
    """B063, B064, B068: zip, pickle, GGUF, HTML, empty, cut and hostile headers are told apart, never "too large"."""
    assert code == problem_of(content)


def test_tensors_that_overlap_or_leave_a_gap_are_a_problem() -> None:
    """Every byte of the data belongs to exactly one tensor."""
    assert "offsets-not-tiled" == problem_of(shard(a=(0, 16), b=(14, 20)))
    assert "offsets-not-tiled" == problem_of(shard(a=(0, 16), b=(18, 20)))


@pytest.mark.parametrize("magic", [b"PK\x03\x04", b"\x1f\x8b\x08\x00", b"\x80\x04\x95\x00"])
def test_a_header_as_long_as_a_magic_number_is_a_header(magic: bytes) -> None:
    """The length field may look like a zip's, gzip's or pickle's beginning; the brace after it tells."""
    length = int.from_bytes(magic, "little")
    head = struct.pack("<Q", length) + b'{"a":'

    assert 8 + length == header_end(head, length + 8)


@pytest.mark.parametrize("metadata", ["null", "{}", '{"format": "pt"}'])
def test_metadata_may_be_null_empty_or_absent(metadata: str) -> None:
    """B066: real shards have each of them."""
    tensor = '"a":{"dtype":"BF16","shape":[2,4],"data_offsets":[0,16]}'

    assert 16 == header_of(framed(f'{{"__metadata__":{metadata},{tensor}}}  '.encode(), bytes(16))).data_bytes
    assert 16 == header_of(framed(f"{{{tensor}}}".encode(), bytes(16))).data_bytes


def test_a_dtype_of_the_future_is_not_refused() -> None:
    """Only the sizes of known dtypes are compared; the tiling is checked for all."""
    content = framed(b'{"a": {"dtype": "F3_E1M1", "shape": [8], "data_offsets": [0, 3]}}', bytes(3))

    assert 3 == header_of(content).data_bytes


def test_config_and_code_are_not_judged_as_weights() -> None:
    """Small files are only checked for what nobody's file is: pointers, HTML pages, error documents."""
    assert recognise(b'{"model_type": "tiny"}', 22) is None
    assert recognise(b"PK\x03\x04", 4) is None
    assert "html" == getattr(recognise(b"<html>", 6), "code", None)


@pytest.mark.parametrize("metadata", [{"quantization_level": "4"}, None, {"total_size": 1}])
def test_an_index_without_a_total_size_is_fine(metadata: object) -> None:
    """B058: sizes come from the headers; the metadata of an index may hold anything or be null."""
    index = parse_index(json.dumps({"metadata": metadata, "weight_map": {"a": "s1.safetensors"}}).encode())

    assert ("s1.safetensors",) == index.shards
    assert () == check_index(index, {"s1.safetensors": header_of(shard(a=(0, 16)))})


def test_an_index_without_metadata_is_fine() -> None:
    """B058: absent altogether."""
    assert Index({"a": "s"}) == parse_index(b'{"weight_map": {"a": "s"}}')


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b'{"weight_map": {}}', b'{"weight_map": []}', b'{"weight_map": {"a": 1}}', POINTER,
     b'{"weight_map": {"a": "../s"}}', b'{"weight_map": {"a": "/etc/passwd"}}', b'{"weight_map": {"a": ""}}',
     b'{"weight_map": {"a": "\\ud800"}}', b'{"weight_map": {"a": "\\u001b[2J"}}',
     b'{"weight_map": ' + b"[" * 100_000, b'{"weight_map": {"a": "s", "a": "t"}}'],
)  # fmt: skip
def test_what_is_no_index_is_an_error(data: bytes) -> None:
    """B058: a parse error is never "fine", and a shard never lies outside the folder."""
    with pytest.raises(NotValid):
        parse_index(data)


def test_a_shard_that_the_index_names_must_be_there() -> None:
    """B052, B044: shards 1 and 3 of 3 are not a checkpoint."""
    index = Index({"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-3.safetensors"})

    assert ("m-2.safetensors",) == missing_shards(index, {"m-1.safetensors", "m-3.safetensors"})


def test_a_tensor_that_the_header_lacks_is_named_with_its_shard() -> None:
    """B055: the index maps mtp.fc.weight to a shard that does not have it."""
    index = Index({"a": "s1", "mtp.fc.weight": "s1"})

    (finding,) = check_index(index, {"s1": header_of(shard(a=(0, 16)))})

    assert ("error", "s1", "mtp.fc.weight") == (finding.severity, finding.shard, finding.tensor)


def test_tensors_that_the_index_lacks_are_told_and_what_that_means() -> None:
    """B056: engines may skip a tensor that is not in the index; without a scale they compute wrong numbers."""
    header = header_of(shard(a=(0, 2), a_scale=(2, 4), extra=(4, 6), weight_scale_inv=(6, 8)))

    findings = check_index(Index({"a": "s1"}), {"s1": header})

    assert [("warn", "a_scale"), ("warn", "extra"), ("warn", "weight_scale_inv")] == [
        (f.severity, f.tensor) for f in findings
    ]
    assert ["default" in f.text for f in findings] == [True, False, True]


def test_a_tensor_in_two_shards_is_named_with_the_one_that_the_index_means() -> None:
    """syv-ai/qwen38-27b-rtx3090#123: a shard kept an old tensor; vLLM loads every key, and the last one wins."""
    headers = {"old": header_of(shard(a=(0, 2), b=(2, 4))), "new": header_of(shard(b=(0, 2)))}

    (finding,) = check_index(Index({"a": "old", "b": "new"}), headers)

    assert ("warn", "old", "b") == (finding.severity, finding.shard, finding.tensor)
    assert "tensor 'b' is here too, the index puts it in new: an engine that loads every tensor of a shard may " in (
        finding.text
    )


def test_weights_that_are_no_shard_are_not_judged_by_the_index() -> None:
    """The layers behind an embedding model (2_Dense/) stand in no index."""
    headers = {"s1": header_of(shard(a=(0, 2))), "2_Dense/model.safetensors": header_of(shard(linear=(0, 2)))}

    assert () == check_index(Index({"a": "s1"}), headers)


def test_shards_whose_header_was_not_read_are_not_judged() -> None:
    """A check of one shard says nothing of the others."""
    empty: tuple[Finding, ...] = ()

    assert empty == check_index(Index({"a": "s1", "b": "s2"}), {"s1": header_of(shard(a=(0, 2)))})


def test_bytes_of_a_dtype_are_counted_in_bits() -> None:
    """B070: 7 615 616 512 BF16 elements are 15 231 233 024 bytes, whatever a "total" beside them says."""
    assert 15_231_233_024 == dtype_bytes("BF16", 7_615_616_512)
    assert 8 == dtype_bytes("F4", 16)
    assert 12 == dtype_bytes("F6_E3M2", 16)
    assert dtype_bytes("F3_E1M1", 8) is None


@given(st.dictionaries(st.text(max_size=8).filter(lambda n: n != "__metadata__"), st.integers(0, 50), max_size=8))
def test_what_was_written_is_read_back(sizes: dict[str, int]) -> None:
    """Any set of tensors laid end to end is a header, and comes back whole."""
    at, header, wanted = 0, {}, {}
    for name, size in sizes.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        wanted[name] = Tensor("U8", (size,), at, at + size)
        at += size

    assert Header(wanted, at) == header_of(framed(json.dumps(header).encode(), bytes(at)))


@given(st.dictionaries(st.text(min_size=1, max_size=4), st.integers(1, 9), min_size=1, max_size=4), st.data())
def test_one_byte_more_or_less_never_passes(sizes: dict[str, int], data: st.DataObject) -> None:
    """A file cut anywhere or grown is never taken for a shard."""
    content = shard(**_end_to_end(sizes))
    cut = data.draw(st.integers(0, len(content) - 1))

    assert isinstance(parse_header(content[:cut], cut), Problem)
    assert isinstance(parse_header(content + b"x", len(content) + 1), Problem)


@given(st.binary(max_size=300), st.integers(0, 1 << 64))
def test_no_bytes_are_too_hostile(data: bytes, size_bytes: int) -> None:
    """Any bytes and any size give a verdict, never an exception."""
    framed_data = framed(data)
    for content in (data, framed_data):
        assert isinstance(parse_header(content, max(size_bytes, len(content))), Header | Problem)
        assert isinstance(header_end(content, max(size_bytes, len(content))), int | Problem)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "dtype", "shape", "data_offsets", "__metadata__"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("dimensions", [300, 100_000])
def test_a_shape_of_more_dimensions_than_engines_have_is_not_valid(dimensions: int) -> None:
    """Its elements may be a number of a million digits, which takes minutes to find and cannot be written."""
    header = {"a": {"dtype": "U8", "shape": [1 << 62] * dimensions, "data_offsets": [0, 1]}}

    assert "header-not-valid" == problem_of(framed(json.dumps(header).encode(), b"x"))


@given(JSON)
def test_no_json_is_too_hostile(value: object) -> None:
    """Any JSON as header or index gives a verdict."""
    data = json.dumps(value).encode()
    content = framed(data, b"x")

    assert isinstance(parse_header(content, len(content)), Header | Problem)
    try:
        assert parse_index(data).shards
    except NotValid as exc:
        assert str(exc)


def _end_to_end(sizes: dict[str, int]) -> dict[str, tuple[int, int]]:
    at, offsets = 0, {}
    for name, size in sizes.items():
        offsets[name] = (at, at + 2 * size)
        at += 2 * size
    return offsets
