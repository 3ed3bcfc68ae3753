"""Fills a new key's folder from the profile's seed, so that a replaced node does not tune and compile again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fakes.caches import FACTORS, KEY, cache_files, content, make_cache
from kboot.apply.cache_export import export_cache
from kboot.apply.cache_seed import Seeding
from kboot.apply.caches import prepare_cache
from kboot.engines.types import CacheKey
from kboot.events import Event, Notice
from kboot.plan.types import PrepareCache
from kboot.report.types import Outcome


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The URL of a folder that holds an archive."""
    folder = tmp_path / "www"
    folder.mkdir()
    export_cache(make_cache(tmp_path / "other"), folder / "a.tar.zst", 1)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def prepare(cache: Path, seed: str, stop: bool = False, **factors: str) -> tuple[Outcome, list[Event]]:
    """Prepare the key's folder from a seed; return the outcome and what was told."""
    told: list[Event] = []
    ended = threading.Event()
    if stop:
        ended.set()
    key = CacheKey(KEY, {**FACTORS, **factors})
    action = PrepareCache(key, str(cache / KEY), "first boot", seed)
    return prepare_cache(action, Seeding({}, told.append, ended)), told


def test_a_seed_comes_over_http(tmp_path: Path, served: str) -> None:
    """A new node has the tuned and compiled kernels of another one before its engine starts."""
    outcome, told = prepare(tmp_path / "cache", f"{served}/a.tar.zst?sig=secret")

    assert ("done", [], f"{served}/a.tar.zst") == (outcome.status, told, outcome.source)
    assert cache_files().keys() == content(tmp_path / "cache" / KEY).keys()
    assert outcome.size_bytes > 3 << 20


def test_a_seed_comes_from_a_path(tmp_path: Path, served: str) -> None:
    """A mounted share is as good."""
    outcome, _ = prepare(tmp_path / "cache", str(tmp_path / "www/a.tar.zst"))

    assert ("done", str(tmp_path / "www/a.tar.zst")) == (outcome.status, outcome.source)
    assert (tmp_path / "cache" / KEY / "complete").exists()


@pytest.mark.parametrize(
    ("seed", "factors", "why"),
    [
        ("/nowhere/a.tar.zst", {}, "path-missing"),
        ("{served}/none.tar.zst", {}, "answers 404"),
        ("http://127.0.0.1:9/a", {}, "refuses connections"),
        ("{served}/a.tar.zst", {"driver": "590.1"}, "driver is 580.82 in it, 590.1 here"),
    ],
)
def test_a_seed_that_cannot_be_used_is_told_and_the_boot_goes_on(
    tmp_path: Path, served: str, seed: str, factors: dict[str, str], why: str
) -> None:
    """The folder is there, empty, and the engine compiles what it needs."""
    outcome, (notice,) = prepare(tmp_path / "cache", seed.format(served=served), **factors)

    assert ("done", "") == (outcome.status, outcome.source)
    assert isinstance(notice, Notice)
    assert ("cache.not_seeded", True) == (notice.event, why in notice.text)
    assert ["factors.json"] == [p.name for p in (tmp_path / "cache" / KEY).iterdir()]


def test_a_kboot_that_is_told_to_stop_leaves_the_seed(tmp_path: Path, served: str) -> None:
    """A long download does not hold up a shutdown."""
    _, (notice,) = prepare(tmp_path / "cache", f"{served}/a.tar.zst", stop=True)

    assert isinstance(notice, Notice)
    assert "interrupted" in notice.text
