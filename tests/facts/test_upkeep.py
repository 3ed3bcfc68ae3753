"""What doctor reads of a machine beyond what a boot needs."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.facts.collect import collect
from kboot.facts.doctor_types import UpkeepFacts
from kboot.facts.types import NodeFacts
from kboot.facts.upkeep import FAILED_UNITS, OUR_UNITS, collect_upkeep
from kboot.facts.upkeep_types import (
    CdiSpec,
    Discard,
    EnvSetting,
    PortState,
    Readable,
    Services,
    UnitState,
)
from kboot.host.kernel_clock import KernelClock
from kboot.host.paths import Paths, find_paths
from kboot.host.real import RealHost
from kboot.host.recorded import RecordedHost

SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
ROOT_ON_NVME = "22 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw,discard=async\n"
SYSTEMD = {
    shlex.join(FAILED_UNITS): {
        "status": 0,
        "text": "nvidia-fabricmanager.service loaded failed failed NVIDIA fabric manager\n"
        "data.mount                   loaded failed failed /data\n",
    },
    shlex.join(OUR_UNITS): {
        "status": 0,
        "text": "Id=kboot.service\nLoadState=loaded\nActiveState=active\nResult=success\nNRestarts=2\n\n"
        "Id=kboot-engine.service\nLoadState=not-found\nActiveState=inactive\nResult=success\nNRestarts=0\n",
    },
}


def read(root: Path, files: dict[str, str | bytes], port: int | None = None) -> UpkeepFacts:
    """Return what is found on a recorded machine."""
    for name, content in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    host, paths = RecordedHost(root), find_paths(root, {}, 0)
    facts = collect(host, paths)
    found, gaps = collect_upkeep(host, paths, facts, port, "", 1.0, 0.1)
    assert () == gaps
    return found


def test_an_empty_recording_says_nothing(tmp_path: Path) -> None:
    """Nothing is guessed, and nothing of it is a gap: nobody asked that machine."""
    assert UpkeepFacts(readable=(), identity=()) == read(tmp_path, {}, port=8000)


def test_services_clock_secure_boot_and_cdi(tmp_path: Path) -> None:
    """Each from where the machine tells it; units that are not installed are left out."""
    found = read(
        tmp_path,
        {
            "run/systemd/system/x": "",
            "programs.json": json.dumps(SYSTEMD),
            "clock.json": '{"synchronised": false, "error_s": 16}',
            SECURE_BOOT: b"\x06\x00\x00\x00\x01",
            "sys/kernel/security/lockdown": "none [integrity] confidentiality\n",
            "sys/module/ext4/refcnt": "1",
            "etc/cdi/nvidia.yaml": "  - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15\n",
            "var/run/cdi/other.yaml": "kind: example.com/device\n",
        },
    )

    assert (
        Services(("data.mount", "nvidia-fabricmanager.service"), (UnitState("kboot.service", "active", "success", 2),))
        == found.services
    )
    assert KernelClock(synchronised=False, error_s=16.0) == found.clock
    assert (True, "integrity", False) == (found.secure_boot, found.lockdown, found.nvidia_module)
    assert (CdiSpec("/etc/cdi/nvidia.yaml", "570.86.15"),) == found.cdi


@pytest.mark.parametrize(
    ("discard", "options", "timer", "expected"),
    [
        ("0", "rw", False, Discard(supported=False, mounted=False, timer=False)),
        ("2199023255040", "rw,discard=async", False, Discard(supported=True, mounted=True, timer=False)),
        ("2199023255040", "rw", True, Discard(supported=True, mounted=False, timer=True)),
    ],
)
def test_how_a_disk_learns_of_free_blocks(
    tmp_path: Path, discard: str, options: str, timer: bool, expected: Discard
) -> None:
    """The disk of the state folder's file system; the timer counts where it is enabled."""
    files: dict[str, str | bytes] = {
        "proc/self/mountinfo": f"22 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 {options}\n",
        "sys/block/nvme0n1/size": "1000",
        "sys/block/nvme0n1/queue/discard_max_bytes": discard,
    }
    if timer:
        files["etc/systemd/system/timers.target.wants/fstrim.timer"] = ""

    assert expected == read(tmp_path, files).discard


def test_a_disk_of_fstab_that_is_not_mounted_is_found(tmp_path: Path) -> None:
    """B145: the mount point is an ordinary folder on the root disk now; other mounts do not matter."""
    fstab = (
        "# device mount type options\n"
        "UUID=0 /mnt/big\\040disk ext4 nofail 0 2\n"
        "UUID=1 / ext4 defaults 0 1\n"
        "UUID=2 /var/lib/kboot xfs nofail 0 2\n"
        "UUID=3 /backup xfs nofail 0 2\n"
        "UUID=4 /var xfs noauto 0 2\n"
        "UUID=5 none swap sw 0 0\n"
    )
    files: dict[str, str | bytes] = {"etc/fstab": fstab, "proc/self/mountinfo": ROOT_ON_NVME}
    mounted = f"{ROOT_ON_NVME}23 22 259:9 / /var/lib/kboot rw - xfs /dev/nvme1n1 rw\n"

    assert ("/var/lib/kboot",) == read(tmp_path / "a", files).lost_mounts
    assert () == read(tmp_path / "b", files | {"proc/self/mountinfo": mounted}).lost_mounts


def test_a_mount_unit_that_something_wants_counts_as_a_line_of_fstab(tmp_path: Path) -> None:
    """B145 without fstab: images mount data disks by units. One that nothing wants is mounted when somebody says so."""
    unit = "[Unit]\nAfter=dev-md0.device\n[Mount]\nWhat=/dev/md0\nWhere = /var/lib/kboot\nType=xfs\n"
    files: dict[str, str | bytes] = {
        "proc/self/mountinfo": ROOT_ON_NVME,
        "etc/systemd/system/local-fs.target.wants/var-lib-kboot.mount": unit,
        "etc/systemd/system/var.mount": unit.replace("/var/lib/kboot", "/var"),
    }

    assert ("/var/lib/kboot",) == read(tmp_path / "a", files).lost_mounts
    mounted = f"{ROOT_ON_NVME}23 22 9:0 / /var/lib/kboot rw - xfs /dev/md0 rw\n"
    assert () == read(tmp_path / "b", files | {"proc/self/mountinfo": mounted}).lost_mounts


def test_a_port_somebody_listens_on(tmp_path: Path) -> None:
    """Version 4 and 6; a connection from that port is no listener."""
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    listening = "   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n"
    connected = "   1: 0100007F:1F41 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 4712 1\n"
    files: dict[str, str | bytes] = {"proc/net/tcp": head + listening + connected, "proc/net/tcp6": head}

    assert PortState(8000, listened=True) == read(tmp_path / "a", files, port=8000).port
    assert PortState(8001, listened=False) == read(tmp_path / "b", files, port=8001).port


def test_settings_of_the_services_without_secrets(tmp_path: Path) -> None:
    """A file of the units tells what the daemon runs with; tokens are left out, and passwords of URLs masked."""
    env = "HF_ENDPOINT=http://mirror.example\nHF_TOKEN=secret\nHTTPS_PROXY=http://user:pass@proxy:3128\nOTHER=1\n"
    found = read(tmp_path, {"etc/kboot/env": env, "etc/kboot/engine.env": "export HF_HOME=/x\n"})

    assert (
        EnvSetting("HF_ENDPOINT", "http://mirror.example", "/etc/kboot/env"),
        EnvSetting("HTTPS_PROXY", "http://***@proxy:3128", "/etc/kboot/env"),
    ) == found.environ
    assert ["/etc/kboot/engine.env"] == [e.path for e in found.env_files or ()]


@pytest.mark.parametrize("setting", ["HF_TOKEN=hf_" + "aB3" * 12, "NGC_API_KEY=nvapi-" + "aB3_" * 12])
def test_secrets_that_everybody_may_read(tmp_path: Path, setting: str) -> None:
    """A configuration with a token, and the node's key, by their modes; with 0600 nothing is found."""
    files: dict[str, str | bytes] = {"etc/kboot/env": f"{setting}\n", "var/lib/kboot/node.key": "k"}
    root = tmp_path / "a"
    read(root, files)
    for name, mode in (("etc/kboot/env", 0o644), ("var/lib/kboot/node.key", 0o604)):
        (root / name).chmod(mode)

    assert (
        Readable("configuration with a token", "/etc/kboot/env", "mode 0644: every user may read it"),
        Readable("key that signs hand-offs", "/var/lib/kboot/node.key", "mode 0604: every user may read it"),
    ) == read(root, {}).readable
    for name in ("etc/kboot/env", "var/lib/kboot/node.key"):
        (root / name).chmod(0o640)
    assert () == read(root, {}).readable


def test_an_empty_file_shows_nobody_a_secret(tmp_path: Path) -> None:
    """A recorded machine has one in the place of its key, with the mode that the record's folder gives it."""
    assert () == read(tmp_path, {"var/lib/kboot/node.key": ""}).readable


def test_a_socket_that_everybody_may_write_to(tmp_path: Path) -> None:
    """The daemon's answers are anybody's, its orders are not."""
    folder = tmp_path / "run/kboot"
    folder.mkdir(parents=True)
    before = Path.cwd()
    os.chdir(folder)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("kboot.sock")
            os.chmod("kboot.sock", 0o666)
            found = read(tmp_path, {})
    finally:
        os.chdir(before)

    assert (Readable("socket", "/run/kboot/kboot.sock", "every user may write to it"),) == found.readable


def test_what_an_image_would_carry_away(tmp_path: Path) -> None:
    """Ids, host keys, tokens and records; an empty machine id and a public key are fine."""
    mine: dict[str, str | bytes] = {
        "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "etc/ssh/ssh_host_ed25519_key": "key",
        "etc/ssh/ssh_host_ed25519_key.pub": "public",
        "root/.cache/huggingface/token": "secret",
        "home/ops/.cache/huggingface/token": "secret",
        "var/lib/kboot/node.key": "k",
    }
    clean: dict[str, str | bytes] = {"etc/machine-id": "uninitialized\n", "etc/ssh/ssh_host_ed25519_key.pub": "public"}

    assert (
        "/etc/machine-id",
        "/etc/ssh/ssh_host_ed25519_key",
        "/home/ops/.cache/huggingface/token",
        "/root/.cache/huggingface/token",
        "/var/lib/kboot/node.key",
    ) == read(tmp_path / "a", mine).identity
    assert () == read(tmp_path / "b", clean).identity


def test_this_machine_is_read_and_nothing_is_left_behind(tmp_path: Path) -> None:
    """Whatever it is, the port of a socket of ours is seen as taken, and the environment is told."""
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    host = RealHost()
    facts: NodeFacts = replace(collect(host, paths), disks=())
    with socket.create_server(("127.0.0.1", 0)) as server:
        found, _ = collect_upkeep(host, paths, facts, server.getsockname()[1], "", 5.0, 0.1)

    assert found.port is not None
    assert (True, False) == (found.port.listened, found.port.ours)
    assert os.getpid() in found.port.holders
    assert found.environ is not None
    assert [] == list(tmp_path.iterdir())


def test_an_engine_that_was_given_this_nodes_caches_is_ours(tmp_path: Path) -> None:
    """However it was started: by a unit, in the foreground or wrapped."""
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    host = RealHost()
    facts: NodeFacts = replace(collect(host, paths), disks=())
    program = (
        "import socket\n"
        "with socket.create_server(('127.0.0.1', 0)) as s:\n"
        "    print(s.getsockname()[1], flush=True)\n"
        "    input()\n"
    )
    env = {**os.environ, "TRITON_CACHE_DIR": f"{paths.cache}/key/triton"}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as engine:
        assert engine.stdout is not None
        found, _ = collect_upkeep(host, paths, facts, int(engine.stdout.readline()), "", 5.0, None)
        engine.communicate("\n", timeout=60)

    assert found.port is not None
    assert (True, True, (engine.pid,)) == (found.port.listened, found.port.ours, found.port.holders)
