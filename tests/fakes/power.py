"""A disk whose power can be cut at any instant: what is on it then, and nothing of what the kernel had in memory.

An ext4 file system on a loop device, whose file lies on btrfs. A copy by reference (FICLONE) of that file is the state
of the device at one instant: whole requests, in an order that the file system allowed. Mounting the copy replays its
journal as after a real cut.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

POOL_BYTES = 4 << 30
DISK_BYTES = 512 << 20


def why_not() -> str:
    """Return why there can be no such disk here; empty when there can."""
    if os.geteuid() != 0:
        return "needs root"
    for tool in ("mkfs.btrfs", "mkfs.ext4", "unshare"):
        if shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is None:
            return f"needs {tool}"
    known = Path("/proc/filesystems").read_text().split()
    return "" if {"btrfs", "ext4"} <= set(known) else "needs a kernel with btrfs and ext4"


class Disk:
    """A mounted disk. Use `new_disk`."""

    def __init__(self, folder: Path, image: Path) -> None:
        self.root = folder
        self.image = image

    def cut(self, name: str) -> Path:
        """Return the device as it is now, as an image of its own."""
        copy = self.image.with_name(name)
        run("cp", "--reflink=always", str(self.image), str(copy))
        return copy


@contextmanager
def pool(folder: Path) -> Iterator[Path]:
    """Give a folder in which files are copied by reference."""
    store, mounted = folder / "pool.img", folder / "pool"
    with open(store, "wb") as file:
        file.truncate(POOL_BYTES)
    run("mkfs.btrfs", "-q", str(store))
    with _mounted(store, mounted):
        yield mounted
    store.unlink()


@contextmanager
def new_disk(where: Path, mounted: Path) -> Iterator[Disk]:
    """Give an empty disk in a pool. It keeps new names and old contents apart: no favours to a writer without fsync."""
    image = where / "disk.img"
    with open(image, "wb") as file:
        file.truncate(DISK_BYTES)
    run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
    with power_on(image, mounted) as disk:
        yield disk


@contextmanager
def power_on(image: Path, mounted: Path) -> Iterator[Disk]:
    """Mount an image; what was in the air when it was cut is replayed from its journal or gone."""
    with _mounted(image, mounted, "noauto_da_alloc"):
        yield Disk(mounted, image)


@contextmanager
def _mounted(image: Path, folder: Path, *options: str) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    run("mount", "-o", ",".join(("loop", *options)), str(image), str(folder))
    try:
        yield
    finally:
        for force in ((), ("--lazy",)):
            with suppress(subprocess.CalledProcessError):
                run("umount", *force, str(folder))
                break


def run(*argv: str) -> None:
    """Run a program that must succeed."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    done = subprocess.run(argv, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, argv, done.stdout, done.stderr)
