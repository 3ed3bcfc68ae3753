"""Fetching by hf_transfer: faster or not, what it brings is proven, and it is never the only way."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.fetching import ASK, fetch, sources_of
from fakes.hub import FakeHub, Flip, Status

HF = replace(ASK, transport="hf_transfer", streams=2)
LARGE = {"model-1.safetensors": random.Random(3).randbytes(20_000_000), "config.json": b"{}"}
TOKEN = {"HF_TOKEN": "hf_secretsecret"}


def test_large_files_come_by_hf_transfer_and_are_proven(tmp_path: Path) -> None:
    """Resolved by us with the token, brought by the worker without it; small files come as always."""
    with FakeHub(LARGE, cdn=True, token="hf_secretsecret") as hub:
        got = fetch(tmp_path, LARGE, sources_of(hub.url, env=TOKEN), HF)

    assert LARGE == {path: got.blob(path) for path in LARGE}
    assert [] == got.leftovers()
    assert {f"hub {hub.url}"} == {o.source for o in got.outcomes}
    assert 0 == sum(e.reused_bytes for e in got.done)
    assert all("authorization" not in r.headers for r in hub.requests if r.origin == "cdn")
    agents = {r.headers.get("user-agent", "") for r in hub.asked("model-1.safetensors") if r.origin == "cdn"}
    assert 1 == len(agents)


def test_wrong_bytes_by_hf_transfer_are_fetched_again_by_http(tmp_path: Path) -> None:
    """The library does not look at what it brings: the hash does, and the file comes the usual way."""
    with FakeHub(LARGE) as hub:
        hub.fault("model-1.safetensors", *[Flip(0)] * 4)  # our probe, the library's, and its two chunks
        got = fetch(tmp_path, LARGE, sources_of(hub.url), HF)

    assert LARGE["model-1.safetensors"] == got.blob("model-1.safetensors")
    assert ["shard-hash-mismatch"] == got.troubles
    assert "source.demoted" not in got.notices


@pytest.mark.parametrize("why", ["token", "failure"])
def test_where_it_cannot_work_http_does(tmp_path: Path, why: str) -> None:
    """A Hub that gives bytes only with the token, or a transfer that fails: fetched by http, and the reason is told."""
    token = "hf_secretsecret" if why == "token" else ""
    with FakeHub(LARGE, token=token) as hub:
        if why == "failure":
            hub.fault("model-1.safetensors", *[Status(404)] * 1)
        got = fetch(tmp_path, LARGE, sources_of(hub.url, env=TOKEN if token else {}), HF)

    assert LARGE == {path: got.blob(path) for path in LARGE}
    assert ["transport.changed"] == got.notices
    assert [] == got.leftovers()
