"""A machine in a box: real systemd in a container over an overlay of this machine's own root.

Booting takes a fraction of a second. What is inside: this machine's programs, a clean /etc/systemd, no network but
loopback, nothing of kboot until it is installed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

BOOT_DEADLINE_S = 60
COMMAND_DEADLINE_S = 120
_CGROUP = Path("/sys/fs/cgroup/systemd")


_OF_A_SYSTEM = frozenset(
    {
        *("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "mnt", "opt", "proc", "root", "run", "sbin"),
        *("sys", "tmp", "usr", "var", "opt/kboot", "root/.cache"),
    }
)


def _not_of_a_system() -> list[str]:
    """Return this machine's own folders at the top, in /opt, /root and /usr/local/lib, and /var/tmp."""
    tops = [path for path in Path("/").iterdir() if path.name not in _OF_A_SYSTEM]
    below = [path for top in ("/opt", "/root", "/usr/local/lib") if Path(top).is_dir() for path in Path(top).iterdir()]
    found = [path for path in (*tops, *below) if str(path).lstrip("/") not in _OF_A_SYSTEM]
    return [*(str(path) for path in found if path.is_dir() and not path.is_symlink()), "/var/tmp"]


class Box:
    """Use as a context manager. run() works once boot() has returned.

    below: layers of changes over this machine's root, the newest first; `upper` of another box is one.
    network: a network namespace that it is on when it boots; empty = one of its own, with nothing but loopback.
    """

    def __init__(self, folder: Path, name: str, *, below: tuple[Path, ...] = (), binds: tuple[Path, ...] = ()) -> None:
        self.folder = folder
        self.name = name
        self.root = folder / "root"
        self.upper = folder / "upper"
        self.network = ""
        self._below = below
        self._binds = binds
        self._cgroup = _CGROUP / f"kboot-{name}"
        self._process: subprocess.Popen[bytes] | None = None
        self._leader = 0

    def __enter__(self) -> Box:
        work = self.folder / "work"
        for path in (self.root, self.upper, work):
            path.mkdir(parents=True, exist_ok=True)
        lower = ":".join(str(path) for path in (*self._below, "/"))
        options = f"lowerdir={lower},upperdir={self.upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, self.root], check=True, capture_output=True)
        if not self._below:
            self._clean()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if os.path.ismount(self.root):
            subprocess.run(["umount", "--lazy", self.root], check=False)
        shutil.rmtree(self.folder / "work", ignore_errors=True)

    def _clean(self) -> None:
        """Make it a machine of its own: no identity, no services of this machine, no user kboot."""
        etc = self.root / "etc"
        for wants in etc.glob("systemd/system/*.wants"):
            shutil.rmtree(wants)
        (etc / "machine-id").write_text("")  # empty, not "uninitialized", which would enable every preset
        with suppress(FileNotFoundError):
            (etc / "hostname").unlink()
        for name in ("opt/kboot", "etc/kboot", "var/lib/kboot", "usr/local/bin/kboot"):
            path = self.root / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        for account in ("passwd", "group", "shadow", "gshadow"):
            with suppress(FileNotFoundError):
                lines = (etc / account).read_text().splitlines(keepends=True)
                (etc / account).write_text("".join(line for line in lines if not line.startswith("kboot:")))
        # A box has no device of its own to mount.
        (etc / "fstab").write_text("")

    def write(self, path: str, text: str) -> None:
        """Write a file inside, whether it runs or not."""
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def inside(self, *argv: str, mnt: Path | None = None, alone: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command in the root while no systemd runs there, as an image builder does. mnt: a folder for /mnt.

        alone: without the folders of this machine that no system needs: its checkouts and data are no part of an image.
        """
        bind = [f"--bind={mnt}:/mnt"] if mnt else []
        bind += [f"--tmpfs={path}" for path in _not_of_a_system()] if alone else []
        return subprocess.run(
            ["systemd-nspawn", "-q", "--register=no", "--keep-unit", *self._options(), *bind, "--pipe", "--", *argv],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def boot(self) -> None:
        """Start systemd inside and return when it takes orders."""
        self._leader = 0
        address = self.folder / "notify"
        address.unlink(missing_ok=True)
        # Several boxes at once need a cgroup each; where there is no v1 hierarchy, nspawn makes its own.
        own_cgroup: tuple[str | Path, ...] = ()
        if _CGROUP.is_dir():
            self._cgroup.mkdir(exist_ok=True)
            own_cgroup = ("sh", "-c", 'echo 0 > "$1/cgroup.procs" && shift && exec "$@"', "sh", self._cgroup)
        network = f"--network-namespace-path={self.network}" if self.network else "--private-network"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, (self.folder / "console").open("wb") as log:
            notify.bind(str(address))
            notify.settimeout(BOOT_DEADLINE_S)
            self._process = subprocess.Popen(
                [
                    *own_cgroup,
                    *("systemd-nspawn", "-q", "--register=no", "--keep-unit"),
                    *("--kill-signal=SIGRTMIN+3", network, *self._options(), "--boot"),
                ],
                env={**os.environ, "NOTIFY_SOCKET": str(address)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            while not self._leader:
                for line in notify.recv(4096).decode().split("\n"):
                    if line.startswith("X_NSPAWN_LEADER_PID="):
                        self._leader = int(line.partition("=")[2])
        self._wait_for_systemd()

    def _wait_for_systemd(self) -> None:
        """Return when systemd takes orders. Its own "ready" would wait for every unit that starts at boot."""
        end = time.monotonic() + BOOT_DEADLINE_S
        while self.systemctl("is-active", "basic.target").stdout.strip() != "active":
            if time.monotonic() > end:
                raise AssertionError((self.folder / "console").read_text(errors="replace")[-4000:])
            time.sleep(0.05)

    def _options(self) -> list[str]:
        return [
            *("-M", self.name, "-D", str(self.root)),
            *(f"--bind-ro={path}" for path in self._binds),
        ]

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command inside and return what it said."""
        return subprocess.run(
            ["nsenter", "-t", str(self._leader), "-m", "-u", "-i", "-n", "-p", "--", *argv],
            capture_output=True,
            text=True,
            timeout=COMMAND_DEADLINE_S,
            check=False,
        )

    def systemctl(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run systemctl inside."""
        return self.run("systemctl", "--no-pager", *argv)

    def show(self, unit: str, *properties: str) -> dict[str, str]:
        """Return properties of a unit."""
        result = self.systemctl("show", unit, *(f"-p{name}" for name in properties))
        return dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)

    def journal(self, unit: str) -> str:
        """Return a unit's journal of this boot."""
        return self.run("journalctl", "-b", "--no-pager", "-o", "cat", "-u", unit).stdout

    def wait_for_journal(self, unit: str, text: str, deadline_s: float = 60.0) -> str:
        """Return a unit's journal once a text stands in it."""
        end = time.monotonic() + deadline_s
        while text not in (said := self.journal(unit)):
            if time.monotonic() > end:
                raise AssertionError(f"{unit} never said {text!r}\n{said[-4000:]}")
            time.sleep(0.1)
        return said

    def wait_until(self, unit: str, deadline_s: float = 60.0, **wanted: str) -> dict[str, str]:
        """Wait until a unit's properties are the wanted ones; fails with its journal when that takes too long."""
        end = time.monotonic() + deadline_s
        while True:
            seen = self.show(unit, *wanted, "ActiveState", "SubState", "Result", "StatusText")
            if all(seen.get(name) == value for name, value in wanted.items()):
                return seen
            if time.monotonic() > end:
                raise AssertionError(f"{unit}: wanted {wanted}, seen {seen}\n{self.journal(unit)[-4000:]}")
            time.sleep(0.1)

    def power_off(self) -> None:
        """End everything inside at once; boot() starts it again with what is on its disk and in the page cache."""
        assert self._process is not None
        os.kill(self._leader, signal.SIGKILL)
        self._process.wait(60)

    def stop(self) -> None:
        """Shut down in order; kill what does not follow."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        for _ in range(50):
            if not self._cgroup.exists():
                break
            with suppress(OSError):
                self._cgroup.rmdir()
            time.sleep(0.1)


NewBox = Callable[[], Box]
