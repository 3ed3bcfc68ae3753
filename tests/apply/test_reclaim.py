"""Whether the end of a machine is announced, by files and commands."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kboot.apply.reclaim import NoticeWatch, drain_engine, notice_sources
from kboot.errors import ProfileError
from kboot.events import Event, Notice


def ask(word: str) -> str:
    ((_, asked),) = notice_sources((word,))
    return asked()


def test_a_file_is_a_notice_as_soon_as_it_exists(tmp_path: Path) -> None:
    """What it holds is the reason."""
    file = tmp_path / "leave"
    assert "" == ask(f"file:{file}")
    file.write_text("maintenance\nat noon\n")

    assert f"{file}: maintenance at noon" == ask(f"file:{file}")


def test_a_command_says_yes_with_status_0() -> None:
    """Its output is the reason; any other status is no."""
    assert "command" not in ask("command:false")
    assert "" == ask("command:false")
    assert "echo drained by ops: drained by ops" == ask("command:echo drained by ops")


@pytest.mark.parametrize("word", ["", "aws2", "aws=ftp://x", "file:relative", "command:", "gcp:x"])
def test_an_unknown_source_is_refused_with_those_there_are(word: str) -> None:
    """A typing error must not mean that nobody watches."""
    with pytest.raises(ProfileError) as caught:
        notice_sources((word,))

    assert "aws, aws-rebalance, azure, gcp" in str(caught.value.hint)


def test_the_first_notice_is_told_once_and_ends_the_watch(tmp_path: Path) -> None:
    """A source that cannot tell is named once, however often it is asked."""
    said: list[str] = []
    seen: list[Event] = []
    told, asked_often = threading.Event(), threading.Event()
    file = tmp_path / "leave"

    def on_notice(text: str) -> None:
        said.append(text)
        told.set()

    count = tmp_path / "count"
    words = ("gcp=http://127.0.0.1:9", f"command:sh -c 'echo x >> {count}; exit 1'", f"file:{file}")
    watch = NoticeWatch(words, seen.append, on_notice, poll_s=0.01)
    watch.begin()
    while not count.exists() or count.read_text().count("x") < 3:
        asked_often.wait(0.01)
    file.write_text("spot")

    assert told.wait(30)
    watch.end()
    assert [f"{file}: spot"] == said
    assert ["reclaim.unknown", "reclaim.announced"] == [e.event for e in seen if isinstance(e, Notice)]


def test_without_sources_nothing_runs() -> None:
    """A node that names nobody has no thread for it."""
    before = threading.active_count()
    NoticeWatch((), lambda _: None, lambda _: None).begin()

    assert before == threading.active_count()


def test_without_a_service_manager_there_is_nothing_to_drain() -> None:
    """It is said, within the time, and nothing raised."""
    assert "engine" in drain_engine(5.0)
