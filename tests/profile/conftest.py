"""What every test of profiles starts from: an empty operator's folder, and a smallest profile."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kboot.host.paths import Paths

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A node whose operator wrote nothing."""
    return Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
