"""What a run says of a source that it waits for, and what is said where nobody waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from booting import AskedHost, Node, profile
from fakes.checkpoints import shard
from fakes.hub import COMMIT, REPO, FakeHub, Status
from kboot.apply.reach import refuse_to_wait, sources_of
from kboot.errors import SourceError
from kboot.events import Event, Notice
from kboot.host.paths import Paths
from kboot.profile.types import CheckpointAsk
from kboot.store.store import Store


def test_a_run_tells_why_it_waits_and_for_how_long(tmp_path: Path) -> None:
    """One notice for each wait, from which an operator knows that nothing hangs."""
    said: list[Event] = []
    asked = profile(checkpoint=CheckpointAsk(repo=REPO, sources=("hub",)))
    store = Store(Paths(tmp_path, tmp_path, tmp_path), said.append)
    with FakeHub({"config.json": b"{}"}) as hub:
        hub.api_status = [Status(429, {"Retry-After": "0"})]
        (source,) = sources_of(asked, AskedHost({"HF_ENDPOINT": hub.url}), "", said.append, store)
        assert COMMIT == source.list(REPO, "main").commit

    (notice,) = [event for event in said if isinstance(event, Notice)]
    assert "source.waiting" == notice.event
    assert "429" in notice.text and notice.text.endswith("; asking again in 0.50 s")


def test_a_node_with_the_whole_commit_does_not_wait_for_a_source_that_is_away(tmp_path: Path) -> None:
    """It asks once what the branch stands for, says that nobody answers, and goes on with what is here."""
    asked = profile(checkpoint=CheckpointAsk(repo=REPO, sources=("hub",)))
    only = frozenset({"fetch", "publish"})
    with FakeHub({"config.json": b"{}", "model.safetensors": shard({"w": 64})}) as hub:
        assert "done" == Node(tmp_path, hub.url).boot(asked, only=only).status
    away = Node(tmp_path, hub.url)

    assert "done" == away.boot(asked, only=only).status
    assert "is whole on this disk and is used" in away.notices()["checkpoint.local_copy"]
    assert "source.waiting" not in away.notices()


def test_a_node_with_the_whole_commit_does_not_need_a_token_that_is_none(tmp_path: Path) -> None:
    """What is wrong with the token is told, and no source is asked."""
    asked = profile(checkpoint=CheckpointAsk(repo=REPO, sources=("hub",)))
    only = frozenset({"fetch", "publish"})
    with FakeHub({"config.json": b"{}", "model.safetensors": shard({"w": 64})}) as hub:
        assert "done" == Node(tmp_path, hub.url).boot(asked, only=only).status
    (tmp_path / "token").write_text('"hf_quoted"')
    later = Node(tmp_path, hub.url)

    assert "done" == later.boot(asked, only=only, token_file=str(tmp_path / "token")).status
    assert "it has quotes" in later.notices()["source.no_token"]


def test_a_node_that_lacks_a_file_waits_for_the_source(tmp_path: Path) -> None:
    """Nothing can be done without an answer: it is asked again."""
    asked = profile(checkpoint=CheckpointAsk(repo=REPO, sources=("hub",)))
    with FakeHub({"config.json": b"{}"}) as hub:
        url = hub.url
    lacking = Node(tmp_path, url)

    with pytest.raises(SourceError):
        lacking.boot(asked, only=frozenset({"fetch"}))
    assert "source.waiting" in lacking.notices()


def test_who_does_not_wait_is_told_why_he_would() -> None:
    """The reason alone: nobody asks again."""
    with pytest.raises(SourceError) as caught:
        refuse_to_wait("the Hub allows no more", 210.0)

    assert ("source-not-reachable", "the Hub allows no more") == (caught.value.code, caught.value.message)
