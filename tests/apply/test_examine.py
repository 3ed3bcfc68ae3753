"""Doctor in a child of the daemon, once after each boot."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kboot.apply.examine import Examiner
from kboot.events import Event, Notice

DEADLINE_S = 60.0
NICE = 1


class Heard:
    """Notices, and a way to wait for one."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._said = threading.Semaphore(0)

    def __call__(self, event: Event) -> None:
        assert isinstance(event, Notice)
        self.texts.append(f"{event.event}: {event.text}")
        self._said.release()

    def wait(self) -> str:
        """Return the next notice."""
        assert self._said.acquire(timeout=DEADLINE_S)
        return self.texts[-1]


def step_back(nice: int) -> None:
    """As an idle thread does, and a machine under load still comes to it in time."""
    os.setpriority(os.PRIO_PROCESS, 0, nice)


@contextmanager
def examining(argv: tuple[str, ...], heard: Heard, answers: Callable[[], bool]) -> Iterator[Examiner]:
    examiner = Examiner(argv, heard, answers, look_s=0.01, step_back=lambda: step_back(NICE))
    examiner.begin()
    try:
        yield examiner
    finally:
        examiner.end()


def program(text: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", text)


def test_doctor_looks_once_the_engine_answers_behind_everybody_else(tmp_path: Path) -> None:
    """Not before; at the priority of the thread that waits; again after the next boot."""
    mark, heard, serves, asked = tmp_path / "mark", Heard(), threading.Event(), threading.Semaphore(0)

    def answers() -> bool:
        asked.release()
        return serves.is_set()

    text = f"import os; open({str(mark)!r}, 'a').write(f'{{os.nice(0)}};')"
    with examining(program(text), heard, answers) as examiner:
        examiner.offer()
        assert asked.acquire(timeout=DEADLINE_S)
        assert asked.acquire(timeout=DEADLINE_S)
        assert not mark.exists()
        serves.set()
        assert heard.wait().startswith("doctor.kept: ")
        examiner.offer()
        heard.wait()

    assert f"{NICE};{NICE};" == mark.read_text()


@pytest.mark.parametrize("status", [0, 3, 4])
def test_a_sick_node_is_kept_as_well(status: int) -> None:
    """Doctor's own statuses say how the node is; it ran all the same."""
    heard = Heard()
    with examining(program(f"raise SystemExit({status})"), heard, lambda: True) as examiner:
        examiner.offer()
        assert heard.wait().startswith("doctor.kept: ")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (program("raise SystemExit(10)"), "doctor ended with status 10; nothing is kept of it"),
        (("/nowhere/kboot",), "what doctor finds is not kept with this boot: No such file or directory"),
    ],
)
def test_a_doctor_that_cannot_run_is_told_and_no_more(argv: tuple[str, ...], said: str) -> None:
    """The daemon goes on, and the next boot tries again."""
    heard = Heard()
    with examining(argv, heard, lambda: True) as examiner:
        for _ in range(2):
            examiner.offer()
            assert f"doctor.not_run: {said}" == heard.wait()


def test_one_that_waits_for_an_engine_ends_at_once() -> None:
    """Nothing is started then."""
    heard = Heard()
    examiner = Examiner(program("raise SystemExit(0)"), heard, lambda: False, look_s=DEADLINE_S)
    examiner.begin()
    examiner.offer()
    examiner.end()

    assert "examine" not in {thread.name for thread in threading.enumerate()}
    assert [] == heard.texts
