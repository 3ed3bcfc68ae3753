"""Headers of safetensors files, of this disk and of a Hub."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from fakes import checkpoints
from fakes.hub import COMMIT, REPO, Cut, FakeHub, Status
from kboot.checkpoint import RemoteFile
from kboot.errors import FactMissing, SourceError
from kboot.profile.types import CheckpointAsk, FetchAsk
from kboot.sources import open_sources
from kboot.sources.headers import local_headers, remote_headers
from kboot.sources.types import Source


def source_of(hub: FakeHub) -> Source:
    """Return the Hub as a source."""
    (found,) = open_sources(CheckpointAsk(repo=REPO), FetchAsk(), {"HF_ENDPOINT": hub.url})
    return found


def shards(count: int, tensors: int = 3) -> dict[str, bytes]:
    """Return so many shards, each with tensors of its own."""
    return {
        f"model-{n:05d}.safetensors": checkpoints.shard({f"layers.{n}.{t}.weight": 100 for t in range(tensors)})
        for n in range(count)
    }


def remotes(files: dict[str, bytes]) -> list[RemoteFile]:
    """Return the files as a listing has them."""
    return [checkpoints.remote(path, files[path]) for path in sorted(files)]


def test_only_the_beginning_of_a_sparse_file_is_read(tmp_path: Path) -> None:
    """A file of 14 GB with a header and a hole: the header, and how much lies behind it."""
    text = b'{"a":{"dtype":"U8","shape":[14000000000],"data_offsets":[0,14000000000]}}'
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + 14 * 10**9)

    assert [("a", text, 14 * 10**9)] == list(local_headers([("a", path)]))


def test_many_local_headers_come_in_order(tmp_path: Path) -> None:
    """More files than readers."""
    files = shards(40)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)

    assert sorted(files) == [h.path for h in local_headers([(name, tmp_path / name) for name in sorted(files)])]


@pytest.mark.parametrize("data", [b"", b"\x08\0\0\0", b"<html>no</html>" * 9, b"\xff" * 64, (9).to_bytes(8, "little")])
def test_what_is_no_safetensors_file_is_named(tmp_path: Path, data: bytes) -> None:
    """Empty, cut, another format, or a length beyond the file."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)

    with pytest.raises(FactMissing, match=r"x\.safetensors is no safetensors file"):
        list(local_headers([("x.safetensors", path)]))


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    """The error says which and where."""
    with pytest.raises(FactMissing, match="gone: No such file") as caught:
        list(local_headers([("gone", tmp_path / "gone")]))

    assert (str(tmp_path / "gone"),) == caught.value.where


@pytest.mark.timeout(20)
def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe would be opened until somebody writes to it."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(FactMissing, match="pipe: is not a file"):
        list(local_headers([("pipe", tmp_path / "pipe")]))


def test_111_remote_headers_are_one_range_each() -> None:
    """No data is asked for, and every file is asked once."""
    files = shards(111)
    with FakeHub(files) as hub:
        found = list(remote_headers(source_of(hub), REPO, COMMIT, remotes(files)))
        asked = [r for r in hub.requests if ".safetensors" in r.path]

    assert sorted(files) == [h.path for h in found]
    assert [len(files[h.path]) - 8 - len(h.json) for h in found] == [h.data_bytes for h in found]
    resolved = [r for r in asked if "/resolve/" in r.path]
    assert 111 == len(resolved)
    assert all("range" in {name.lower() for name in r.headers} for r in asked)


def test_a_header_longer_than_the_others_is_asked_for_once_more() -> None:
    """The first file says what to expect; one with a thousand tensors needs a second range."""
    files = {**shards(3), "model-99999.safetensors": checkpoints.shard({f"very.long.name.{n}": 1 for n in range(1000)})}
    with FakeHub(files) as hub:
        found = list(remote_headers(source_of(hub), REPO, COMMIT, remotes(files)))
        asked = [r for r in hub.requests if "99999" in r.path and "/resolve/" in r.path]

    assert files["model-99999.safetensors"][8 : 8 + len(found[-1].json)] == found[-1].json
    assert 2 == len(asked)


def test_a_cut_answer_is_asked_for_again() -> None:
    """One try that fails is no failure."""
    files = shards(2)
    with FakeHub(files) as hub:
        hub.fault("model-00001.safetensors", Cut(20))

        assert 2 == len(list(remote_headers(source_of(hub), REPO, COMMIT, remotes(files))))


def test_a_wait_for_headers_ends_when_kboot_is_told_to_stop() -> None:
    """However long the server asks everybody to wait."""
    files, stop = shards(2), threading.Event()
    with FakeHub(files) as hub:
        hub.fault("model-00001.safetensors", *[Status(429, {"Retry-After": "250"})] * 9)
        threading.Timer(0.2, stop.set).start()
        with pytest.raises(SourceError) as caught:
            list(remote_headers(source_of(hub), REPO, COMMIT, remotes(files), stop))

    assert "interrupted" == caught.value.code


def test_a_refusal_is_the_sources() -> None:
    """401 ends the reading with the source's own words."""
    files = shards(2)
    with FakeHub(files) as hub:
        hub.fault("model-00000.safetensors", *[Status(401)] * 9)

        with pytest.raises(SourceError):
            list(remote_headers(source_of(hub), REPO, COMMIT, remotes(files)))


def test_no_files_ask_nothing() -> None:
    """An empty list needs no source."""
    with FakeHub({}) as hub:
        assert [] == list(remote_headers(source_of(hub), REPO, COMMIT, []))
        assert [] == hub.requests
