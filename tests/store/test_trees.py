import json
from pathlib import Path

import pytest

from kboot.checkpoint import Listing, RemoteFile
from kboot.store.trees import decode_tree, encode_tree, pointer_id

COMMIT = "c" * 40
SHARD = RemoteFile("model.safetensors", 9, "a" * 64, "a" * 64, "e" * 64)
CONFIG = RemoteFile("sub/config.json", 2, "b" * 40, None)
LISTING = Listing("acme/Tiny-1B", "main", COMMIT, (SHARD, CONFIG), (("README.md", "no engine reads it"),), "hub")


def decode(data: bytes) -> Listing:
    return decode_tree(data, "acme/Tiny-1B", "main", COMMIT)


def test_a_listing_is_read_back_whole() -> None:
    """Files, hashes, xet hashes and the reasons of what was skipped; the origin says that it came from this disk."""
    read = decode(encode_tree(LISTING))

    assert LISTING.files == read.files
    assert LISTING.skipped == read.skipped
    assert "listing on this disk" == read.origin


def test_the_real_client_reads_the_tree(tmp_path: Path) -> None:
    """huggingface_hub gives back path, size, git id and xet hash of each file."""
    from huggingface_hub import get_cached_repo_tree

    tree = tmp_path / "models--acme--Tiny-1B/trees" / f"{COMMIT}.json"
    tree.parent.mkdir(parents=True)
    tree.write_bytes(encode_tree(LISTING))

    found = get_cached_repo_tree("acme/Tiny-1B", revision=COMMIT, cache_dir=tmp_path)

    assert [
        ("model.safetensors", 9, pointer_id("a" * 64, 9), "e" * 64),
        ("sub/config.json", 2, "b" * 40, None),
    ] == [(f.path, f.size, f.blob_id, f.xet_hash) for f in found]


def test_a_tree_of_the_real_client_is_read() -> None:
    """`hf download` lists LFS files by their pointer; the blob's name is the sha256."""
    files = {
        "model.safetensors": {"size": 9, "blob_id": "d" * 40, "lfs_sha256": "a" * 64, "lfs_size": 9},
        "sub/config.json": {"size": 2, "blob_id": "b" * 40},
    }
    read = decode(json.dumps({"format_version": 1, "files": files}).encode())

    assert (RemoteFile("model.safetensors", 9, "a" * 64, "a" * 64), CONFIG) == read.files
    assert () == read.skipped


def test_a_pointer_has_the_git_id_that_git_gives_it() -> None:
    """The id that `git hash-object` answers for the pointer of a 9.89 GB file."""
    assert "5cd5eb7353a0680578bb31b60e1e449283a15bec" == pointer_id("3" * 64, 9890000000)


def test_a_bad_xet_hash_is_left_out() -> None:
    """hub drops a whole tree for one xet hash that is none."""
    odd = Listing("a/b", "main", COMMIT, (RemoteFile("m.safetensors", 1, "a" * 64, "a" * 64, "xyz"),), (), "hub")

    assert "xet_hash" not in json.loads(encode_tree(odd))["files"]["m.safetensors"]


def test_a_tree_that_lost_a_bit_is_not_believed() -> None:
    """A wrong hash would make every source look wrong for ever; the digest notices."""
    data = encode_tree(LISTING)

    with pytest.raises(ValueError, match="digest"):
        decode(data.replace(b"a" * 64, b"a" * 63 + b"b"))


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"3", b'{"format_version": 2, "files": {}}', b'{"format_version": 1}', b"[" * 100_000,
     b'{"format_version": 1, "files": {"../x": {"size": 1, "blob_id": "' + b"b" * 40 + b'"}}}',
     b'{"format_version": 1, "files": {"x": {"size": -1, "blob_id": "' + b"b" * 40 + b'"}}}',
     b'{"format_version": 1, "files": {"x": {"size": 9223372036854775808, "blob_id": "' + b"b" * 40 + b'"}}}',
     b'{"format_version": 1, "files": {"x": {"size": true, "blob_id": "' + b"b" * 40 + b'"}}}',
     b'{"format_version": 1, "files": {"x": {"size": 1, "blob_id": "../../x"}}}',
     b'{"format_version": 1, "files": {"x": {"size": 1, "blob_id": 3}}}',
     b'{"format_version": 1, "files": {"x": 3}}', b'{"format_version": 1, "files": [1]}',
     b'{"format_version": 1, "files": {"x": {"size": 1, "blob_id": "b", "lfs_sha256": 7, "lfs_size": 1}}}',
     b'{"format_version": 1, "files": {}, "kboot": 3}'],
)  # fmt: skip
def test_what_is_no_tree_is_an_error(data: bytes) -> None:
    """Torn, foreign and hostile files are ValueErrors, whatever they hold."""
    with pytest.raises(ValueError):  # any reason will do
        decode(data)
