"""What `kboot live` waits for, and when there is nothing left to wait for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fakes.records import RECORD
from kboot.apply.live import Going, answer_of
from kboot.errors import NotReady
from kboot.host.paths import Paths
from kboot.host.real import RealHost
from kboot.report.saved import save_report
from kboot.report.types import BootReport

GONE = 4194305  # no process has so high a number
REPORT = BootReport("b", "p", "c" * 40, "failed", 1.0, 2.0, None, None, "full", "", "key", (), (), (), None)


def test_an_engine_that_died_with_its_boot_is_not_waited_for(tmp_path: Path) -> None:
    """The boot that held has ended and says why; the engine's whole patience is not used up."""
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    died = NotReady("engine-died", "demo was ended by signal 9 after 2 s, before it answered")
    save_report(replace(REPORT, error=died), paths)
    record = replace(RECORD, health_url="http://127.0.0.1:1/health")

    with pytest.raises(NotReady, match="held has ended: demo was ended by signal 9") as caught:
        answer_of(Going(record, GONE), paths, RealHost())
    assert "engine-ended" == caught.value.code


def test_an_engine_without_an_address_is_not_asked(tmp_path: Path) -> None:
    """A node of a group that has nothing to answer on is live once it was told to."""
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")

    assert "nothing to ask on this node" in answer_of(Going(RECORD, None), paths, RealHost()).text
