"""Loading from a file system that answers each page by itself."""

from __future__ import annotations

import pytest

from kboot.facts.types import Mount
from kboot.plan.loading import loading_warnings
from kboot.profile.types import EngineName, LayoutAsk, WarmAsk

COLD = WarmAsk(enabled=False)


def mounts(fs_type: str) -> tuple[Mount, ...]:
    """Return the state folder on a file system of this type."""
    return (Mount("state", "/mnt/models", "/mnt/models", fs_type, "10.0.0.1@tcp:/fsx", False, 1, 1, 1),)


def layout(*args: str, engine: EngineName = "vllm") -> LayoutAsk:
    """Return a layout with more on its command line."""
    return LayoutAsk(name="8x", gpu="H200", gpus_per_node=8, engine=engine, args=args)


def test_a_cold_mapped_load_from_lustre_is_warned_of() -> None:
    """B105: with the file system, where it is from, and what was measured."""
    (text,) = loading_warnings(mounts("lustre"), COLD, layout())

    assert "on lustre (10.0.0.1@tcp:/fsx at /mnt/models)" in text
    assert "29 MB/s" in text


@pytest.mark.parametrize(
    ("fs_type", "warm", "asked"),
    [
        ("lustre", WarmAsk(), layout()),  # kboot reads it in order first
        ("lustre", COLD, layout("--safetensors-load-strategy=prefetch")),
        ("nfs4", COLD, layout("--load-format", "runai_streamer")),
        ("nfs4", COLD, layout(engine="command")),  # nobody knows how it loads
        ("ext2", COLD, layout()),
        ("ext4", COLD, layout()),
        ("tmpfs", COLD, layout()),
        ("", COLD, layout()),
    ],
)
def test_what_does_not_crawl_is_not_warned_of(fs_type: str, warm: WarmAsk, asked: LayoutAsk) -> None:
    """Warmed, read ahead, local, or not known."""
    assert () == loading_warnings(mounts(fs_type), warm, asked)


def test_no_mount_is_no_warning() -> None:
    """What was not read is another's finding."""
    assert () == loading_warnings((), COLD, layout())
