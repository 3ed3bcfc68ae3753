"""A recorded tree that somebody else made: whatever is in it, every command answers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from cli_run import Kboot

from kboot.checkpoint import Listing, RemoteFile
from kboot.store.trees import encode_tree

COMMIT = "c" * 40
REPO = "var/lib/kboot/hub/models--kboot--demo-moe"
PIPES = (
    *("proc/meminfo", "proc/cpuinfo", "proc/stat", "proc/self/mountinfo", "proc/self/limits"),
    *("etc/hostname", "etc/os-release", "etc/fstab", "etc/machine-id", "etc/kboot/env"),
    *("sys/block/nvme0n1/size", "dmesg.txt", "disk_space.json", "programs.json"),
    *("var/lib/kboot/ledger.db", "var/lib/kboot/node.key", "var/lib/kboot/history/20260101T000000.0-x.json"),
    *("run/kboot/boot.json", "run/kboot/handoff.json", "run/kboot/progress.json"),
    *(f"{REPO}/blobs/{'a' * 64}", f"{REPO}/blobs/{'b' * 40}"),
)
COMMANDS = (
    ("doctor", "--profile", "demo"),
    ("facts",),
    ("status",),
    ("timeline",),
    ("cache", "status"),
    ("verify", "--profile", "demo", "--mode", "full"),
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Pipes in place of files, lists and JSON without end, names that are no text."""
    root = tmp_path / "tree"
    for name in PIPES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(root / name)
    files = {
        "sys/devices/system/cpu/online": "0-99999999999",
        "sys/devices/system/node/online": "0-99999999999",
        "nvml.json": "[" * 200_000,
        "clock.json": '{"a":' * 200_000,
        f"{REPO}/refs/main": COMMIT,
        "var/lib/kboot/cache/k/factors.json": "[" * 200_000,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    os.mkdir(os.fsencode(root / "sys/devices/system/cpu") + b"/\xff")
    wanted = (RemoteFile("config.json", 5, "b" * 40, None), RemoteFile("model.safetensors", 100, "a" * 64, "a" * 64))
    listing = Listing("kboot/demo-moe", "main", COMMIT, wanted, (), "memory")
    (root / REPO / "trees").mkdir()
    (root / REPO / "trees" / f"{COMMIT}.json").write_bytes(encode_tree(listing))
    return root


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_answers(kboot: Kboot, hostile: Path, words: tuple[str, ...]) -> None:
    """With a documented status, never as a bug of kboot's, and before the test's own deadline."""
    ran = kboot(*words, "--root", str(hostile))

    assert ran.status in (0, 3, 4, 11, 12, 13)
    assert "Traceback" not in ran.err
    assert "bug in kboot" not in ran.err


def test_half_a_character_in_a_name_is_printed(kboot: Kboot, tmp_path: Path) -> None:
    """A lone surrogate in a GPU's name would end in a UnicodeEncodeError where it is shown."""
    gpu = {"index": 0, "name": "NVIDIA \ud800 H200", "uuid": "GPU-0", "bus_id": "00000000:0A:00.0", "cc": "9.0"}
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/nvml.json").write_text(json.dumps({"nvml_init": "OK", "driver": "580", "gpus": [gpu]}))

    for words in (("facts",), ("doctor",)):
        ran = kboot(*words, "--root", str(tmp_path / "tree"))
        assert ran.status in (0, 3, 4)
        assert "bug in kboot" not in ran.err
    assert "NVIDIA ? H200" in kboot("facts", "--json", "--root", str(tmp_path / "tree")).out
