"""`./install.sh --demo`: from nothing to an answering engine, as an ordinary user."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
NOBODY = 65534
DEADLINE_S = 240

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * DEADLINE_S)]


def drop() -> list[str]:
    """Return what makes root an ordinary user."""
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []


@dataclass(frozen=True)
class User:
    """An ordinary user with a home and a checkout of the repository."""

    home: Path

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start the demo, in a process group of its own as a shell would."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}
        env |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_"))}
        return subprocess.Popen(
            [*drop(), str(self.home / "checkout/install.sh"), "--demo", *args],
            env=env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def look(self, *args: str) -> str:
        """Return what the kboot says that the demo leaves for whoever wants to look around."""
        argv = [*drop(), str(self.home / ".local/share/kboot-demo/kboot"), *args]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=DEADLINE_S).stdout

    def processes(self) -> list[str]:
        """Return the command lines of processes that belong to this demo."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                cwd, line = (path / "cwd").readlink(), (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                environ = (path / "environ").read_bytes().decode(errors="replace")
                if str(self.home) in f"{cwd} {line} {environ}" and int(path.name) != os.getpid():
                    found.append(line)
        return found


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    home = Path(tempfile.mkdtemp(prefix="kboot-demo-home-"))
    checkout = home / "checkout"
    checkout.mkdir()
    for name in ("agent", "profiles", "systemd"):
        shutil.copytree(REPOSITORY / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("install.sh", "pyproject.toml", "README.md"):
        shutil.copy(REPOSITORY / name, checkout)
    if os.geteuid() == 0:
        for path in (home, *home.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    yield User(home)
    shutil.rmtree(home)


def test_twice_from_nothing_to_an_answer(user: User) -> None:
    """The first run fetches 111 shards and serves; the second fetches nothing and says so; neither leaves a process."""
    first = user.start()
    said_first, _ = first.communicate(timeout=DEADLINE_S)
    assert 0 == first.returncode, said_first
    assert [] == user.processes()

    second = user.start()
    said_second, _ = second.communicate(timeout=DEADLINE_S)
    assert 0 == second.returncode, said_second
    assert [] == user.processes()

    assert "fetch 117 files" in said_first
    assert "all 117 files are on this disk: nothing is fetched" in said_second
    assert "117 files verified by ledger" in said_second
    assert "kboot in it is up to date" in said_second
    assert "done" in user.look("timeline", "--list")
    for said in (said_first, said_second):
        assert "Traceback" not in said
        assert "everything is stopped" in said


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_keep_serves_until_it_is_told_to_stop(user: User, name: str) -> None:
    """--keep answers until Ctrl-C or SIGTERM, then everything stops in order."""
    demo = user.start("--keep")
    port = ""
    assert demo.stdout is not None
    for line in demo.stdout:
        if "serve.port=" in line:
            port = line.split("serve.port=")[1].split()[0]
            break
    try:
        wait_for_health(f"http://127.0.0.1:{port}/health", demo)
        os.killpg(demo.pid, getattr(signal, name))
        said, _ = demo.communicate(timeout=DEADLINE_S)
    finally:
        demo.kill()

    assert demo.returncode in (0, 130), said
    assert "Traceback" not in said
    assert [] == user.processes()


def wait_for_health(url: str, demo: subprocess.Popen[str]) -> None:
    end = time.monotonic() + DEADLINE_S
    while subprocess.run(["curl", "-sf", "-o", "/dev/null", url], check=False).returncode:
        assert demo.poll() is None, demo.stdout.read() if demo.stdout else ""
        assert time.monotonic() < end
        time.sleep(0.2)
