"""The worker process of hf_transfer, against a real server."""

from __future__ import annotations

import random
import threading
from functools import cache
from pathlib import Path

import pytest

from fakes.hub import COMMIT, REPO, FakeHub, Stall, Status
from kboot.errors import SourceError
from kboot.sources.hf_transfer import transfer

NAME = "a.safetensors"
PATH = f"/{REPO}/resolve/{COMMIT}/{NAME}"


@cache
def contents() -> dict[str, bytes]:
    return {NAME: random.Random(5).randbytes(20_000_000)}


def test_a_file_is_brought_in_ranges(tmp_path: Path) -> None:
    """The worker brings the whole file by several requests."""
    target = tmp_path / NAME
    with FakeHub(contents()) as hub:
        transfer(hub.url + PATH, target, 30.0, threading.Event(), lambda _n: None)

    assert contents()[NAME] == target.read_bytes()
    assert 2 <= len(hub.requests)


def failure(tmp_path: Path, hub: FakeHub, stall_s: float = 30.0, stop: threading.Event | None = None) -> SourceError:
    target = tmp_path / NAME
    with pytest.raises(SourceError) as caught:
        transfer(hub.url + PATH + "?sig=secret", target, stall_s, stop or threading.Event(), lambda _n: None)
    assert not target.exists()
    return caught.value


def test_a_refusal_is_one_error(tmp_path: Path) -> None:
    """What the library raised is passed on in one line, without the link's signature."""
    with FakeHub(contents()) as hub:
        hub.every_file = Status(404)
        error = failure(tmp_path, hub)

    assert ("transport-failed", True) == (error.code, error.retry)
    assert "404" in error.message
    assert "secret" not in str(error.to_json())


def test_silence_ends_the_worker(tmp_path: Path) -> None:
    """A worker that brings nothing for the stall timeout is ended, and its file is removed."""
    with FakeHub(contents()) as hub:
        hub.every_file = Stall(0)
        error = failure(tmp_path, hub, stall_s=1.0)

    assert "brought nothing for 1 s" in error.message


def test_a_stop_ends_the_worker(tmp_path: Path) -> None:
    """A worker that is being waited for goes when kboot is told to stop."""
    stop = threading.Event()
    with FakeHub(contents()) as hub:
        hub.every_file = Stall(0)
        threading.Timer(0.3, stop.set).start()
        error = failure(tmp_path, hub, stop=stop)

    assert "interrupted" == error.code
