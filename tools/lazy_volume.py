"""How does kboot read a volume that is still filled from a snapshot? By hand, as root, on a device that is really slow.

    apt-get install nbdkit libnbd-bin
    KBOOT_STATE_DIR=STATE kboot fetch --profile demo
    KBOOT_STATE_DIR=STATE python tools/lazy_volume.py --profile demo

The first read of each block of the device waits for --delay-ms, every later one does not: nbdkit's filters `delay`
below `cow`, a file of it by nbdfuse, a loop device over that, and ext4 with a copy of the state on it. The checkpoint
there is hashed once by one thread, and once as kboot chooses, each time on a device of which nothing was read yet.
"""

# ruff: noqa: TID251, T201 - it is no part of kboot: it makes a device and says what it saw
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_DEADLINE_S = 30.0


def wait_for(path: Path) -> None:
    """Return when there is such a file."""
    deadline_s = time.monotonic() + _DEADLINE_S
    while not path.exists():
        if time.monotonic() > deadline_s:
            sys.exit(f"{path} did not appear")
        time.sleep(0.05)


def run(*words: str) -> None:
    """Run a command that takes something away again; what it says is for whoever looks on."""
    subprocess.run(words, check=False)


@contextmanager
def lazy_volume(image: Path, folder: Path, delay_ms: int) -> Iterator[Path]:
    """Mount the image on a device of which nothing was read yet; yield where."""
    socket, fuse, mount = folder / "socket", folder / "fuse/disk", folder / "mount"
    for each in (fuse.parent, mount):
        each.mkdir(parents=True)
    filters = ["--filter=cow", "--filter=delay", "file", str(image), f"rdelay={delay_ms}ms", "cow-on-read=true"]
    with ExitStack() as stack:
        server = subprocess.Popen(["nbdkit", "-f", "-t", "64", "-U", socket, *filters])
        stack.callback(server.wait)
        stack.callback(server.terminate)
        wait_for(socket)
        bridge = subprocess.Popen(["nbdfuse", fuse, f"nbd+unix:///?socket={socket}"])
        stack.callback(bridge.wait)
        stack.callback(bridge.terminate)
        stack.callback(run, "umount", "--lazy", str(fuse.parent))
        wait_for(fuse)
        made = subprocess.run(
            ["losetup", "--direct-io=on", "-f", "--show", fuse], check=True, capture_output=True, text=True
        )
        loop = made.stdout.strip()
        stack.callback(run, "losetup", "-d", loop)
        subprocess.run(["mount", loop, mount], check=True)
        stack.callback(run, "umount", str(mount))
        yield mount


def main() -> None:
    """Hash the checkpoint on a lazy volume in both ways."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--profile", default="demo")
    parser.add_argument("--delay-ms", type=int, default=12, help="of the first read of each block")
    asked = parser.parse_args()
    state = Path(os.environ["KBOOT_STATE_DIR"])
    with tempfile.TemporaryDirectory(prefix="kboot-lazy-", dir="/var/tmp") as name:
        image = Path(name) / "image.ext4"
        size_bytes = sum(path.lstat().st_size for path in state.rglob("*"))
        subprocess.run(
            ["mke2fs", "-q", "-t", "ext4", "-d", state, image, f"{size_bytes * 5 // 4 // 1024 + 65536}K"], check=True
        )
        # nbdkit's filter `cache` would do the same one request after the other.
        for title, words in (("one-thread", ["--set", "verify.threads=1"]), ("as-chosen", [])):
            # nbdkit writes into the image when kboot notes what it proved: each way has a copy.
            copy = Path(name) / "copy.ext4"
            subprocess.run(["cp", "--sparse=always", image, copy], check=True)
            with lazy_volume(copy, Path(name) / title, asked.delay_ms) as mount:
                began_s = time.monotonic()
                command = ["kboot", "verify", "--profile", asked.profile, "--mode", "full", "--offline", *words]
                done = subprocess.run(
                    command, env={**os.environ, "KBOOT_STATE_DIR": str(mount)}, capture_output=True, text=True
                )
                seconds = time.monotonic() - began_s
                told = [line for line in done.stderr.splitlines() if "volume.lazy" in line or "snapshot" in line]
                print(f"{title}: {seconds:.1f} s, status {done.returncode}; {told or 'no notice'}", flush=True)


if __name__ == "__main__":
    main()
