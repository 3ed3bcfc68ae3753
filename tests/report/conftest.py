"""Makes `report_samples` importable from the tests of this folder, and compares texts with golden files."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with golden/<name>; KBOOT_UPDATE_GOLDEN=1 writes the file instead, to be read before a commit."""

    def compare(name: str, text: str) -> None:
        path = HERE / "golden" / name
        if os.environ.get("KBOOT_UPDATE_GOLDEN"):
            path.write_text(f"{text}\n")
        assert path.read_text() == f"{text}\n"

    return compare
