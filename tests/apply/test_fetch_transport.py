"""Fetching by hf_transfer and hf_xet: what they bring is proven, and they are never the only way."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from fakes.fetching import ASK, fetch, listing_of, sources_of
from fakes.hub import FakeHub, Flip, Status
from kboot.checkpoint import Listing

HF = replace(ASK, transport="hf_transfer", streams=2)
TOKEN = {"HF_TOKEN": "hf_secretsecret"}


@cache
def large() -> dict[str, bytes]:
    return {"model-1.safetensors": random.Random(3).randbytes(20_000_000), "config.json": b"{}"}


def test_large_files_come_by_hf_transfer_and_are_proven(tmp_path: Path) -> None:
    """Resolved by us with the token, brought by the worker without it; small files come as always."""
    with FakeHub(large(), cdn=True, token="hf_secretsecret") as hub:
        got = fetch(tmp_path, large(), sources_of(hub.url, env=TOKEN), HF)

    assert large() == {path: got.blob(path) for path in large()}
    assert [] == got.leftovers()
    assert {f"hub {hub.url}"} == {o.source for o in got.outcomes}
    assert 0 == sum(e.reused_bytes for e in got.done)
    assert all("authorization" not in r.headers for r in hub.requests if r.origin == "cdn")
    agents = {r.headers.get("user-agent", "") for r in hub.asked("model-1.safetensors") if r.origin == "cdn"}
    assert 1 == len(agents)


def test_wrong_bytes_by_hf_transfer_are_fetched_again_by_http(tmp_path: Path) -> None:
    """The library does not look at what it brings: the hash does, and the file comes the usual way."""
    with FakeHub(large()) as hub:
        hub.fault("model-1.safetensors", *[Flip(0)] * 4)  # our probe, the library's, and its two chunks
        got = fetch(tmp_path, large(), sources_of(hub.url), HF)

    assert large()["model-1.safetensors"] == got.blob("model-1.safetensors")
    assert ["shard-hash-mismatch"] == got.troubles
    assert "source.demoted" not in got.notices


@pytest.mark.parametrize("why", ["token", "failure"])
def test_where_it_cannot_work_http_does(tmp_path: Path, why: str) -> None:
    """A Hub that gives bytes only with the token, or a transfer that fails: fetched by http, and the reason is told."""
    token = "hf_secretsecret" if why == "token" else ""
    with FakeHub(large(), token=token) as hub:
        if why == "failure":
            hub.fault("model-1.safetensors", *[Status(404)] * 1)
        got = fetch(tmp_path, large(), sources_of(hub.url, env=TOKEN if token else {}), HF)

    assert large() == {path: got.blob(path) for path in large()}
    assert ["transport.changed"] == got.notices
    assert [] == got.leftovers()


XET = replace(ASK, transport="hf_xet", streams=2)
# A process of its own: the library starts threads that outlive what they are for.
STORE_IN_CAS = """
import sys
from hf_xet import XetSession
store, *paths = sys.argv[1:]
with XetSession().new_upload_commit(endpoint=store) as commit:
    handles = [commit.start_upload_bytes(open(path, "rb").read()) for path in paths]
print(*(handle.result().xet_info.hash for handle in handles))
"""


def in_cas(folder: Path, hub: FakeHub, files: Mapping[str, bytes]) -> Listing:
    """Put the shards into a content-addressed store on this disk; return the listing that names them there."""
    pytest.importorskip("hf_xet")
    large = [path for path in files if hub.is_lfs(path)]
    for number, path in enumerate(large):
        (folder / str(number)).write_bytes(files[path])
    hub.cas_url = f"local://{folder}/cas"
    argv = [sys.executable, "-c", STORE_IN_CAS, hub.cas_url, *(str(folder / str(n)) for n in range(len(large)))]
    env = {**os.environ, "HF_HOME": str(folder / "home")}
    said = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=100, check=True).stdout
    hub.xet = dict(zip(large, said.split(), strict=True))
    listing = listing_of(files)
    return replace(listing, files=tuple(replace(f, xet_hash=hub.xet.get(f.path)) for f in listing.files))


@pytest.mark.slow
def test_files_of_the_deduplicated_store_come_by_hf_xet_and_are_proven(tmp_path: Path) -> None:
    """The Hub is asked where they are, with the token; not one byte of them comes from it."""
    store, node = tmp_path / "store", tmp_path / "node"
    store.mkdir()
    with FakeHub(large(), token="hf_secretsecret") as hub:
        listing = in_cas(store, hub, large())
        got = fetch(node, listing, sources_of(hub.url, env=TOKEN), XET)
        sent_bytes = hub.sent_bytes

    assert large() == {path: got.blob(path) for path in large()}
    assert ([], []) == (got.leftovers(), got.notices)
    assert len(large()["config.json"]) == sent_bytes


@pytest.mark.slow
def test_another_file_by_hf_xet_is_fetched_again_by_http(tmp_path: Path) -> None:
    """The store gives what its hash names, which is not what the commit lists: the hash decides."""
    store, node = tmp_path / "store", tmp_path / "node"
    store.mkdir()
    other = {**large(), "model-1.safetensors": random.Random(4).randbytes(20_000_000)}
    with FakeHub(large()) as hub:
        listing = in_cas(store, hub, other)
        right = {f.path: f for f in listing_of(large()).files}
        listing = replace(listing, files=tuple(replace(right[f.path], xet_hash=f.xet_hash) for f in listing.files))
        got = fetch(node, listing, sources_of(hub.url), XET)

    assert large() == {path: got.blob(path) for path in large()}
    assert ["shard-hash-mismatch"] == got.troubles


@pytest.mark.parametrize("known", [True, False])
def test_where_hf_xet_cannot_work_http_does(tmp_path: Path, known: bool) -> None:
    """A store that cannot be reached is told; a file that the Hub keeps elsewhere is no trouble at all."""
    with FakeHub(large()) as hub:
        listing = listing_of(large())
        if known:
            hub.xet, hub.cas_url = {"model-1.safetensors": "c" * 64}, f"local://{tmp_path}/nothing"
            listing = replace(listing, files=tuple(replace(f, xet_hash=hub.xet.get(f.path)) for f in listing.files))
        got = fetch(tmp_path / "node", listing, sources_of(hub.url), XET)

    assert large() == {path: got.blob(path) for path in large()}
    assert (["transport.changed"] if known else []) == got.notices
    assert [] == got.leftovers()
