"""Where files of a checkpoint may lie, and what a listing beside them says."""

from __future__ import annotations

import json

import pytest

from fakes.checkpoints import listing, make, remote
from kboot.errors import SourceError
from kboot.sources.places import files_of_tree, places_of, repo_folder
from kboot.store.trees import encode_tree

COMMIT = "c" * 40


def test_every_layout_is_a_place() -> None:
    """Plain files first, then a snapshot, a repository's cache, a whole cache."""
    file = remote("sub/a.safetensors", b"x")

    assert (
        "sub/a.safetensors",
        f"snapshots/{COMMIT}/sub/a.safetensors",
        f"blobs/{file.blob_id}",
        f"models--org--m/snapshots/{COMMIT}/sub/a.safetensors",
        f"models--org--m/blobs/{file.blob_id}",
    ) == places_of("org/m", COMMIT, file)
    assert "models--org--m" == repo_folder("org/m")


def test_the_tree_that_kboot_writes_is_the_listing_it_reads() -> None:
    """What a served cache folder says is what its owner had."""
    wanted = listing(make())

    assert wanted.files == files_of_tree(encode_tree(wanted))


@pytest.mark.parametrize(
    "tree",
    [
        b"<html>",
        b"[]",
        b'{"format_version": 2, "files": {}}',
        b'{"format_version": 1, "files": {"a": {"size": 1}}}',
        b'{"format_version": 1, "files": {"a": {"size": -1, "blob_id": "' + b"a" * 40 + b'"}}}',
        b'{"format_version": 1, "files": {"../a": {"size": 1, "blob_id": "' + b"a" * 40 + b'"}}}',
        b'{"format_version": 1, "files": {}, "kboot": [' + b"{}," * (1 << 20) + b"{}]}",
        json.dumps({"format_version": 1, "files": {"a": {"size": 1 << 40, "blob_id": "a" * 40}}}).encode(),
    ],
)
def test_a_tree_that_is_none_is_refused(tree: bytes) -> None:
    """No JSON, another version, no hashes, a path out of its folder, a million values, a large file without SHA-256."""
    with pytest.raises(SourceError) as caught:
        files_of_tree(tree)

    assert caught.value.code in ("listing-not-valid", "listing-without-hashes")
