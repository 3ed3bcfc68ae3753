"""Would the engine map the checkpoint page by page from a file system that answers each page by itself?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kboot.facts.basic_types import Mount
    from kboot.profile.types import LayoutAsk, WarmAsk

LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs"})
MEMORY = frozenset({"tmpfs", "ramfs", "rootfs"})
CONTAINER = frozenset({"overlay", "aufs", "fuse-overlayfs", "fuse.fuse-overlayfs"})
READS_AHEAD = frozenset(
    {
        "--load-format",
        "--model-loader-extra-config",
        "--safetensors-load-strategy",
        "--weight-loader-prefetch-checkpoints",
        "--weight-loader-prefetch-num-threads",
    }
)
"""Flags of vLLM and SGLang with which they do not fault a checkpoint in page by page."""

_MAPS = ("vllm", "sglang")


def loading_warnings(mounts: Iterable[Mount], warm: WarmAsk, layout: LayoutAsk) -> tuple[str, ...]:
    """Return what a load from a network file system would meet, unless kboot warms it or a flag reads ahead."""
    mount = next((m for m in mounts if m.role == "state"), None)
    if mount is None or not mount.fs_type or mount.fs_type in LOCAL | MEMORY | CONTAINER:
        return ()
    if warm.enabled or layout.engine not in _MAPS or READS_AHEAD & {arg.partition("=")[0] for arg in layout.args}:
        return ()
    return (
        f"the checkpoint is on {mount.fs_type} ({mount.device} at {mount.mount_point}), warm.enabled is false and no "
        "flag reads ahead: mapped loading was measured at 29 MB/s so",
    )
