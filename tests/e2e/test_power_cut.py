"""The power goes at a random instant of a boot: the next boot finishes by itself, from what was proven before."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from booting import free_port
from fakes.checkpoints import remote
from fakes.hub import FakeHub
from fakes.power import Disk, new_disk, pool, power_on, why_not
from kboot.checkpoint import RemoteFile
from kboot.demo.checkpoint import make
from kboot.store.journal import judge, read_pages
from kboot.store.ranges import Ranges

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500), pytest.mark.skipif(bool(why_not()), reason=why_not())]

REPO = "kboot/demo-moe"
WANTED = (".json", ".safetensors")
"""What of the demo's repository is fetched."""
CUTS_WHILE_PREPARING, CUTS_WHILE_SERVING = 18, 6
SERVED_EVERY = 6
DEADLINE_S = 300
STREAMS, RATE_BYTES_S = 4, 3 << 19
"""So slow that what has come is made durable twice before the last byte comes."""
SERVE = ("--serve", "--exit-when-ready")
Contents = dict[RemoteFile, bytes]
NEW_KERNEL = 'mount --bind "$1" /proc/sys/kernel/random/boot_id; shift; exec "$@"'


@dataclass(frozen=True)
class Machine:
    """What stays over a cut: the Hub, its files, and where the images are."""

    folder: Path
    images: Path
    hub: FakeHub

    def boot(self, disk: Disk, number: int, *options: str) -> subprocess.Popen[str]:
        """Start a boot on a disk, in a kernel of its own: another boot id, and a runtime folder with nothing in it."""
        runtime = self.folder / f"run{number}"
        runtime.mkdir()
        boot_id = runtime / "boot_id"
        boot_id.write_text(f"{number:08x}-0000-4000-8000-000000000000\n")
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "HF_ENDPOINT": self.hub.url,
            "KBOOT_STATE_DIR": str(disk.root / "state"),
            "KBOOT_RUNTIME_DIR": str(runtime),
            "KBOOT_CONFIG_DIR": str(self.folder / "etc"),
        }
        kboot = [sys.executable, "-m", "kboot", "boot", "--profile", "demo", "--json", *options]
        kboot += ["--set", f"serve.port={free_port()}"]
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", NEW_KERNEL, "sh", str(boot_id), *kboot],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def finish(self, boot: subprocess.Popen[str]) -> tuple[int, str]:
        """Return a boot's status, and its report's."""
        out, _ = boot.communicate(timeout=DEADLINE_S)
        return boot.returncode, json.loads(out).get("status", out)


@pytest.fixture
def images(tmp_path: Path) -> Iterator[Path]:
    """A folder for disks and what is left of them."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(pool(tmp_path))
        except subprocess.CalledProcessError as exc:
            pytest.skip(f"cannot mount here: {exc.stderr.strip()}")
        yield folder


@pytest.fixture
def machine(tmp_path: Path, images: Path) -> Iterator[Machine]:
    """A Hub with two shards of 40 MiB, large enough to be cut in the middle."""
    checkpoint = make(tmp_path / "data", 2, 40)
    wanted = [path for path in checkpoint.folder.iterdir() if path.suffix in WANTED or path.name == "LICENSE"]
    files = {path.name: path.read_bytes() for path in wanted}
    with FakeHub(files, repo=REPO, rate_bytes_s=RATE_BYTES_S) as hub:
        yield Machine(tmp_path, images, hub)


def whole(disk: Disk, contents: Contents) -> set[str]:
    """Return the files that have their final name; each must be all of what it says it is."""
    found = set()
    for file, content in contents.items():
        blob = disk.root / f"state/hub/models--kboot--demo-moe/blobs/{file.blob_id}"
        if blob.exists():
            right = content == blob.read_bytes()  # no assertion on megabytes: pytest would show them
            assert right, f"{file.path} is wrong"
            found.add(file.path)
    return found


def published(disk: Disk, files: dict[str, bytes]) -> bool:
    """Return whether an engine could be started from the serving path; then every file of it is right."""
    model = disk.root / "state/models/demo"
    if not model.exists():
        return False
    assert sorted(files) == sorted(path.name for path in model.iterdir())
    return all((model / path).read_bytes() == content for path, content in files.items())


def durable(disk: Disk, contents: Contents) -> dict[str, Ranges]:
    """Return what each partial's journal says is on the disk, to a kernel that has nothing in memory."""
    kept = {}
    for file in contents:
        for part in (disk.root / "state/hub/models--kboot--demo-moe").rglob(f"{file.blob_id}*"):
            if not part.name.endswith("-journal") and (pages := read_pages(part)):
                kept[file.path] = judge(pages, file, part.stat().st_ino, part.stat().st_size, "another").ranges
    return kept


def asked_for(hub: FakeHub, path: str, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a file that were asked of the Hub."""
    for request in hub.asked(path):
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", request.range)
        yield (int(found[1]), int(found[2]) + 1 if found[2] else size) if found else (0, size)


def again(machine: Machine, kept: dict[str, Ranges], proven: set[str]) -> list[str]:
    """Return what was asked of the Hub although the disk had it, proven."""
    files = machine.hub.files
    asked = {path: list(asked_for(machine.hub, path, len(content))) for path, content in files.items()}
    twice = [path for path in proven if asked[path]]
    for path, ranges in kept.items():
        twice += [f"{path} {a}-{b}" for a, b in asked[path] for start, end in ranges if a < end and start < b]
    return twice


def cuts_of_a_boot(machine: Machine, disk: Disk, count: int, dice: random.Random, *options: str) -> list[Path]:
    """Boot, cut the power again and again meanwhile, and return one cut at random of each n-th of the time.

    A machine that is too slow for so many cuts gives fewer of them.
    """
    number = dice.randrange(1, 1 << 30)
    boot = machine.boot(disk, number, *options)
    taken: list[Path] = []
    while boot.poll() is None:
        time.sleep(dice.uniform(0.0, 0.1))  # a random instant, not a wait for anything
        taken.append(disk.cut(f"{number}-{len(taken)}.img"))
    assert (0, "done") == machine.finish(boot)
    count = min(count, len(taken))
    edges = [len(taken) * n // count for n in range(count + 1)]
    chosen = [taken[dice.randrange(first, last)] for first, last in pairwise(edges)]
    for image in set(taken) - set(chosen):
        image.unlink()
    return chosen


def test_a_write_without_fsync_is_lost_here(images: Path, tmp_path: Path) -> None:
    """The disk is worth its name: a renamed file that nobody synced is empty after a cut, a synced one is whole."""
    with new_disk(images, tmp_path / "disk") as disk:
        for name, sync in (("lazy", False), ("careful", True)):
            with open(disk.root / f"{name}.new", "wb") as file:
                file.write(b"x" * (1 << 20))
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            os.rename(disk.root / f"{name}.new", disk.root / name)
        folder = os.open(disk.root, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        image = disk.cut("cut.img")
    with power_on(image, tmp_path / "again") as after:
        sizes = {path.name: path.stat().st_size for path in after.root.iterdir() if path.is_file()}

    assert {"lazy": 0, "careful": 1 << 20} == sizes


def test_a_boot_finishes_after_a_cut_at_any_instant(machine: Machine, tmp_path: Path) -> None:
    """Whatever a cut leaves: no wrong file under a final name, no proven byte fetched again, and the boot is done."""
    dice = random.Random(20261130)
    files = machine.hub.files
    contents = {remote(path, content): content for path, content in files.items()}
    slow = "--set", f"fetch.streams={STREAMS}"
    with new_disk(machine.images, tmp_path / "disk") as disk:
        cuts = cuts_of_a_boot(machine, disk, CUTS_WHILE_PREPARING, dice, *slow)
        cuts += cuts_of_a_boot(machine, disk, CUTS_WHILE_SERVING, dice, *SERVE)
    machine.hub.rate_bytes_s = 0
    stages = []
    for number, image in enumerate(cuts, 1):
        with power_on(image, tmp_path / "again") as disk:
            proven, ready, kept = whole(disk, contents), published(disk, files), durable(disk, contents)
            partly = sum(end - start for ranges in kept.values() for start, end in ranges)
            stages.append((len(proven), ready, partly))
            machine.hub.requests.clear()
            boot = machine.boot(disk, number, *(() if number % SERVED_EVERY else SERVE))
            assert (0, "done") == machine.finish(boot), f"after cut {number} of {stages}"
            assert [] == again(machine, kept, proven), f"after cut {number} of {stages}"
            assert (set(files), True) == (whole(disk, contents), published(disk, files))
        image.unlink()
    found, ready_before, parts = (set(column) for column in zip(*stages))

    # The cuts came at different stages: before the first file and after the last, with and without parts.
    assert {False, True} == ready_before
    assert len(found) > 1, stages
    assert max(parts) > 0, stages
