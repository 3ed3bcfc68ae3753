"""Files below a URL, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from fakes.checkpoints import COMMIT, REPO, listing, make
from fakes.objects import ObjectServer
from kboot.errors import SourceError
from kboot.events import Event, Notice
from kboot.facts.checkpoint import read_checkpoint
from kboot.host.paths import Paths
from kboot.profile.types import CheckpointAsk, FetchAsk, LayoutAsk, Profile
from kboot.sources import open_sources
from kboot.sources.plain import Plain
from kboot.sources.types import Source
from kboot.store.store import Store
from kboot.store.trees import encode_tree

FILES = make()
LISTING = listing(FILES)
SHARD = LISTING.files[-2]


def source_at(url: str) -> Source:
    (source,) = open_sources(CheckpointAsk(repo=REPO, sources=(url,)), FetchAsk(), {})
    return source


def cache_folder(root: str) -> Mapping[str, bytes]:
    """What a web server finds in the folder of a Hugging Face cache."""
    blobs = {f"{root}blobs/{file.blob_id}": FILES[file.path] for file in LISTING.files}
    return {**blobs, f"{root}refs/main": COMMIT.encode(), f"{root}trees/{COMMIT}.json": encode_tree(LISTING)}


def test_the_slash_at_its_end_makes_a_folder_of_a_url() -> None:
    """A mirror speaks like a Hub, and is written without."""
    assert isinstance(source_at("https://files.example/models/k3/"), Plain)
    assert not isinstance(source_at("https://mirror.example/models/k3"), Plain)
    assert not isinstance(source_at("https://mirror.example/"), Plain)


@pytest.mark.parametrize("root", ["m/", "m/models--acme--Tiny-1B/"])
def test_a_served_cache_says_which_files_there_are(root: str) -> None:
    """By branch or by commit; hashes come along, and facts/ says that nobody vouches for them."""
    with ObjectServer(cache_folder(root)) as server:
        source = source_at(f"{server.url}/m/")
        found = [source.list(REPO, "main"), source.list(REPO, COMMIT)]
        data = source.read(REPO, COMMIT, SHARD, 10_000)

    assert [(COMMIT, LISTING.files)] * 2 == [(f.commit, f.files) for f in found]
    assert FILES[SHARD.path] == data
    assert not source.trusted


def test_a_profile_may_name_nothing_but_a_folder(tmp_path: Path) -> None:
    """Then the folder's own listing is taken at its word, and a notice says so."""
    asked = Profile(
        name="t", schema=1, layout=(LayoutAsk(name="a", gpu="none", gpus_per_node=0, engine="demo"),),
        checkpoint=CheckpointAsk(repo=REPO),
    )  # fmt: skip
    told: list[Event] = []
    store = Store(Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc"))
    with ObjectServer(cache_folder("m/")) as server:
        facts = read_checkpoint(asked, store, [source_at(f"{server.url}/m/")], offline=False, emit=told.append)

    assert {f.path for f in LISTING.files} == {f.file.path for f in facts.files}
    assert ["listing.untrusted"] == [e.event for e in told if isinstance(e, Notice)]


def test_plain_files_without_a_listing_only_deliver() -> None:
    """What they are must come from elsewhere, and the error says how."""
    with ObjectServer({f"m/{path}": data for path, data in FILES.items()}) as server:
        source = source_at(f"{server.url}/m/")
        with pytest.raises(SourceError) as caught:
            source.list(REPO, "main")
        data = source.read(REPO, COMMIT, SHARD, 10_000)

    assert "no-trusted-listing" == caught.value.code
    assert FILES[SHARD.path] == data


def test_the_place_of_the_last_file_is_asked_first() -> None:
    """The second file costs one request, wherever files lie."""
    with ObjectServer(cache_folder("m/")) as server:
        source = source_at(f"{server.url}/m/")
        for file in LISTING.files[:2]:
            source.read(REPO, COMMIT, file, 10_000)
        asked = [path for _, path, _ in server.requests]

    assert 4 == len(asked)
    assert [f"m/blobs/{file.blob_id}" for file in LISTING.files[:2]] == asked[2:]


def test_a_server_that_refuses_is_told_from_one_that_lacks_the_file() -> None:
    """403 is about who asks: no other place is tried."""
    with ObjectServer(cache_folder("m/")) as server:
        server.refuse = 403
        with pytest.raises(SourceError) as caught:
            source_at(f"{server.url}/m/").open(REPO, COMMIT, SHARD, 0)

    assert "file-not-found" != caught.value.code
    assert 1 == len(server.requests)
