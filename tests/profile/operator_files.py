"""Files an operator writes, for tests of profiles."""

from __future__ import annotations

from pathlib import Path

from kboot.host.paths import Paths

SMALLEST = """\
schema = 1
[checkpoint]
repo = "org/small"
[[layout]]
name = "two"
gpu = "none"
gpus_per_node = 0
engine = "demo"
"""


def write_profile(paths: Paths, name: str, text: str | bytes = SMALLEST) -> Path:
    """Write `<config>/profiles/<name>`; the name carries its suffix or folder."""
    path = paths.config / "profiles" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path
