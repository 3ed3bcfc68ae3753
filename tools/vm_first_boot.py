"""Does a baked image boot by its own kernel, with no network, also after its power was cut? By hand: minutes, as root.

    mmdebstrap … ROOT && chroot ROOT …/install.sh && chroot ROOT kboot bake --profile demo
    kboot bake --finish --root ROOT
    python tools/vm_first_boot.py ROOT

ROOT must hold a kernel with an initramfs, systemd and udev. It is only read: the machine's disk is a copy, and it has
no network card. A cut is SIGKILL to qemu: what the guest had not flushed is lost, as it would be. Each cut comes when
the console says that the first boot has come so far. The boot after it must serve, and find every byte right when it
hashes them all once more.
"""

# ruff: noqa: TID251, T201 - it is no part of kboot: it starts machines and says what it saw
from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_KERNEL_ARGS = "console=ttyS0 root=/dev/vda rw panic=-1 systemd.journald.forward_to_console=1"
CUTS = (
    ("kboot starts", r"Starting kboot\.service"),
    ("it hashes", r'"phase": "verify".*"event": "phase\.started"'),
    ("one file is proven", r'"phase": "verify".*"event": "file\.done"'),
    ("all are proven", r'"phase": "verify".*"event": "phase\.finished"'),
    ("the engine starts", r"Started kboot-engine\.service"),
)
LOOK = """[Unit]
Description=Say on the second serial port what this boot proved
After=kboot-engine.service
[Service]
Type=simple
StandardOutput=tty
TTYPath=/dev/ttyS1
ExecStart=/usr/local/lib/kboot-look
[Install]
WantedBy=multi-user.target
"""
SCRIPT = """#!/usr/bin/python3
import json, subprocess, time, tomllib, urllib.request
def document(*words):
    done = subprocess.run(["kboot", *words, "--json"], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout or "{}")
name = tomllib.load(open("/etc/kboot/kboot.toml", "rb"))["profile"]
url = "http://127.0.0.1:%s/v1/models" % document("profile", "show", name)[1]["serve"]["port"]
while True:
    time.sleep(2)
    try:
        urllib.request.urlopen(url, timeout=10).read()
        break
    except OSError:
        pass
since_boot_s = round(time.clock_gettime(time.CLOCK_BOOTTIME), 1)
claim = document("timeline")[1].get("verify_claim", "")
verify_full = document("verify", "--profile", name, "--mode", "full", "--offline")[0]
print(json.dumps({"serving_after_s": since_boot_s, "claim": claim, "verify_full": verify_full}), flush=True)
time.sleep(3600)
"""


def make_disk(root: Path, folder: Path) -> Path:
    """Make an ext4 file system of the tree, with a unit that says on a serial port how far it is."""
    overlay = folder / "tree"
    for name in ("low", "up", "work", "tree"):
        (folder / name).mkdir()
    options = f"lowerdir={root},upperdir={folder / 'up'},workdir={folder / 'work'}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, overlay], check=True)
    try:
        (overlay / "usr/local/lib/kboot-look").write_text(SCRIPT)
        (overlay / "usr/local/lib/kboot-look").chmod(0o755)
        wants = overlay / "etc/systemd/system/multi-user.target.wants"
        wants.mkdir(parents=True, exist_ok=True)
        (overlay / "etc/systemd/system/kboot-look.service").write_text(LOOK)
        (wants / "kboot-look.service").symlink_to("/etc/systemd/system/kboot-look.service")
        disk = folder / "disk.ext4"
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", overlay, disk, "3G"], check=True)
    finally:
        subprocess.run(["umount", overlay], check=True)
    return disk


class Machine:
    """One start of the image."""

    def __init__(self, root: Path, disk: Path, folder: Path) -> None:
        kernel = max((root / "boot").glob("vmlinuz-*"))
        initrd = root / "boot" / kernel.name.replace("vmlinuz", "initrd.img")
        self._said = folder / "said"
        self._console = folder / "console.log"
        for path in (self._said, self._console):
            path.write_text("")
        self._started_s = time.monotonic()
        self._process = subprocess.Popen(
            [
                *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "1536", "-smp", "2"),
                *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none"),
                *("-kernel", str(kernel), "-initrd", str(initrd), "-append", _KERNEL_ARGS),
                *("-drive", f"file={disk},format=raw,if=none,id=d0,cache=writeback"),
                *("-device", "virtio-blk-pci,drive=d0"),
                *("-serial", f"file:{self._console}", "-serial", f"file:{self._said}"),
            ]
        )

    def wait_for(self, pattern: str, deadline_s: float, *, said: bool = False) -> str:
        """Return the first line of the console (said: of the second port) that matches."""
        path = self._said if said else self._console
        while time.monotonic() < self._started_s + deadline_s and self._process.poll() is None:
            # A line may still be on its way.
            for line in path.read_text(errors="replace").rpartition("\n")[0].splitlines():
                if re.search(pattern, line):
                    return line
            time.sleep(0.05)
        self.cut()
        end = "\n".join(self._console.read_text(errors="replace").splitlines()[-30:])
        sys.exit(f"nothing matched {pattern!r}; the end of the console:\n{end}")

    def cut(self) -> None:
        """Take its power away."""
        self._process.kill()
        self._process.wait()


def boot_after_cut(root: Path, disk: Path, folder: Path, moment: tuple[str, str] | None, deadline_s: float) -> None:
    """Boot the image once; with a moment, after its power was cut there."""
    name, pattern = moment or ("never", "")
    if moment is not None:
        first = Machine(root, disk, folder)
        first.wait_for(pattern, deadline_s)
        first.cut()
    machine = Machine(root, disk, folder)
    served = json.loads(machine.wait_for("verify_full", deadline_s, said=True))
    machine.cut()
    print(f"power cut when: {name}; then {json.dumps(served)}", flush=True)
    if served["verify_full"] != 0:
        sys.exit("the image serves bytes that are not right")


def main() -> None:
    """Boot the image without a cut, and after each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("--cut", action="append", choices=[name for name, _ in CUTS], help="default: all, one by one")
    parser.add_argument("--deadline-s", type=float, default=900, help="of each boot")
    asked = parser.parse_args()
    root = asked.root.resolve()
    moments = [moment for moment in CUTS if asked.cut is None or moment[0] in asked.cut]
    with tempfile.TemporaryDirectory(prefix="kboot-vm-", dir="/var/tmp") as name:
        folder = Path(name)
        fresh, disk = make_disk(root, folder), folder / "run.ext4"
        for moment in ([None] if asked.cut is None else []) + moments:
            subprocess.run(["cp", "--sparse=always", fresh, disk], check=True)
            boot_after_cut(root, disk, folder, moment, asked.deadline_s)


if __name__ == "__main__":
    if shutil.which("qemu-system-x86_64") is None:
        sys.exit("needs qemu-system-x86_64 (package qemu-system-x86)")
    main()
