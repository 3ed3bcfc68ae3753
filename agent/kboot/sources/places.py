"""Where may a file of a checkpoint lie below a folder, a base URL or a bucket's prefix? Pure."""

from __future__ import annotations

import json
from collections.abc import Callable

from kboot.checkpoint import RemoteFile, is_commit
from kboot.errors import SourceError
from kboot.jsontext import MOST_VALUES, count_values
from kboot.sources.entries import Entry, Lfs, to_files
from kboot.sources.types import Found

_TREE_LIMIT_BYTES = 256 << 20
_REF_LIMIT_BYTES = 256


def repo_folder(repo: str) -> str:
    """Return the name of a repository's folder in a Hugging Face cache."""
    return f"models--{repo.replace('/', '--')}"


def places_of(repo: str, commit: str, file: RemoteFile) -> tuple[str, ...]:
    """Return the paths under which the file may be: plain files, a snapshot, a repository's cache, a whole cache."""
    folder = repo_folder(repo)
    return (
        file.path,
        f"snapshots/{commit}/{file.path}",
        f"blobs/{file.blob_id}",
        f"{folder}/snapshots/{commit}/{file.path}",
        f"{folder}/blobs/{file.blob_id}",
    )


def listing_there(name: str, repo: str, revision: str, small: Callable[[str, int], bytes]) -> Found:
    """Return what refs/ and trees/ say of a revision. small: gives a file whole, of so many bytes at most; b"" = none.

    Raises:
        SourceError: "no-trusted-listing": they say nothing; and what small() and files_of_tree() raise.
    """
    for root in ("", f"{repo_folder(repo)}/"):
        commit = revision
        if not is_commit(revision):
            commit = small(f"{root}refs/{revision}", _REF_LIMIT_BYTES).decode("ascii", "replace").strip()
        if is_commit(commit) and (tree := small(f"{root}trees/{commit}.json", _TREE_LIMIT_BYTES)):
            return Found(repo, commit, files_of_tree(tree))
    raise SourceError(
        "no-trusted-listing",
        f"{name} has no refs/ and trees/ that say which files {repo} has at {revision}",
        hint='name "hub" among the sources, or put the folder of a Hugging Face cache there as it is',
    )


def files_of_tree(data: bytes) -> tuple[RemoteFile, ...]:
    """Return the files of a trees/<commit>.json, as huggingface_hub and kboot write them, sorted by path.

    Raises:
        SourceError: "listing-not-valid", "listing-without-hashes".
    """
    try:
        if count_values(data) > MOST_VALUES:
            raise ValueError(f"more than {MOST_VALUES} values")
        tree = json.loads(data)
        if tree["format_version"] != 1:
            raise ValueError(f"format_version is {tree['format_version']!r}, known is 1")
        entries = [_entry(path, entry) for path, entry in tree["files"].items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise SourceError("listing-not-valid", f"the listing there is no tree of a commit: {exc}") from exc
    return to_files(entries)


def _entry(path: str, entry: dict[str, object]) -> Entry:
    sha256 = entry.get("lfs_sha256")
    lfs = Lfs(sha256, entry.get("lfs_size")) if sha256 else None
    return Entry(path, entry["size"], entry["blob_id"], lfs, entry.get("xet_hash"))
