"""How does kboot start, become, watch and stop other programs?"""

from __future__ import annotations

import os
import queue
import secrets
import select
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kboot.host import keeper
from kboot.host.clock import monotonic_s, sleep_s
from kboot.host.notify import VARIABLES as OF_THE_SERVICE_MANAGER
from kboot.host.os_errors import explained
from kboot.values import dataclass

if TYPE_CHECKING:
    import psutil

OUTPUT_LIMIT_BYTES = 1 << 20

_POLL_S = 0.05
_STOP_S = 30.0
_OWN_UMASK = -1
_MARK = "KBOOT_ENGINE_MARK"  # tells the processes of one engine from all others, wherever they went
_KILL_GRACE_S = 5.0  # a process gone after SIGKILL is only waiting for its parent or for a driver

# Run by a fresh interpreter between fork and the program: preexec_fn is not safe in a process with threads.
# SIGTERM, not SIGKILL: a front end that is killed outright leaves its engine processes behind, holding the GPUs.
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit(143)
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
try:
    os.execve(sys.argv[2], sys.argv[2:], os.environ)
except OSError as exc:
    sys.exit(f"kboot: cannot start {sys.argv[2]}: {exc.strerror}")
"""


@dataclass(frozen=True, slots=True)
class Finished:
    """status: exit status, or minus the signal that ended it. Output is cut at OUTPUT_LIMIT_BYTES each."""

    status: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False


def run(
    argv: Sequence[str],
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    input: bytes = b"",  # noqa: A002
    umask: int = _OWN_UMASK,
) -> Finished:
    """Run a program to its end; it and its process group are killed at the deadline.

    env: the whole environment; None = this process's. input: at most a few KiB; without it stdin is /dev/null.
    umask: of the program, if not this process's.

    Raises:
        OSError: the program cannot be started.
    """
    deadline_s = monotonic_s() + timeout_s
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE if input else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if env is None else dict(env),
        start_new_session=True,
        umask=umask,
    )
    if process.stdin is not None:
        with suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(input)
    stdout, stderr = _read_both(process, deadline_s)
    timed_out = _wait(process, deadline_s) is None
    if timed_out:
        _signal_group(process.pid, signal.SIGKILL)
        _wait(process, monotonic_s() + _KILL_GRACE_S)
    status = process.returncode if process.returncode is not None else -signal.SIGKILL
    return Finished(status, stdout, stderr, timed_out)


def wait_for_end(pid: int, timeout_s: float) -> None:
    """Return when a process has ended, waited for by its parent or not; at the latest after timeout_s."""
    waiting = select.poll()
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:  # a kernel or a sandbox that has no such thing: whoever waits looks again
        waiting.poll(timeout_s * 1000)
        return
    try:
        waiting.register(fd, select.POLLIN)
        waiting.poll(timeout_s * 1000)
    finally:
        os.close(fd)


class Rope:
    """The end of a pipe that kboot alone holds: when it is let go, by a kill as well, the keeper ends the engine."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    def say(self, pid: int) -> None:
        """Tell the keeper which process it is about; one that has ended keeps nothing."""
        with suppress(OSError):
            os.write(self._fd or -1, str(pid).encode())

    def let_go(self) -> None:
        """Close it, once."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    __del__ = let_go


@dataclass(slots=True)
class Child:
    """A program started by spawn(), leader of its own session."""

    argv: tuple[str, ...]
    log_path: Path
    process: subprocess.Popen[bytes]
    rope: Rope | None = None

    @property
    def pid(self) -> int:
        """Return its process id, which is its session's and its group's too."""
        return self.process.pid

    def status(self) -> int | None:
        """Return its exit status (minus the signal that ended it), None while it runs."""
        return self.process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Return its exit status as soon as it ends, None at the deadline."""
        return _wait(self.process, monotonic_s() + timeout_s)


def spawn(argv: Sequence[str], env: Mapping[str, str], log_path: Path, stop_timeout_s: float = _STOP_S) -> Child:
    """Start a program in a session of its own, its output appended to a log file, its stdin closed.

    env: set on top of this process's. When this process ends in any way, the kernel sends the program SIGTERM, and a
    keeper ends all that it started, with SIGKILL after `stop_timeout_s`.

    Raises:
        ActionFailed: it cannot be started, or the log cannot be written.
    """
    with explained("open the log", log_path):
        log_fd = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        with explained("start the program", argv[0]):
            os.stat(argv[0])
            process, rope = _kept(argv, env, log_fd, stop_timeout_s)
    finally:
        os.close(log_fd)
    return Child(tuple(argv), log_path, process, rope)


def start_beside(argv: Sequence[str]) -> None:
    """Start a program that is nobody's child and speaks in nobody's name; of this one it has stderr alone.

    A shell lets it go at once, so that what this process becomes is not told of the end of a child it knows nothing of.

    Raises:
        OSError: there is no shell.
    """
    subprocess.run(
        ["/bin/sh", "-c", '"$@" </dev/null >/dev/null &', "sh", *argv],
        stdin=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name not in OF_THE_SERVICE_MANAGER},
        start_new_session=True,
        check=False,
    )


def _popen(argv: Sequence[str], env: Mapping[str, str], log_fd: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=log_fd,
        stderr=log_fd,
        env={**os.environ, **env},
        start_new_session=True,
    )


def _kept(
    argv: Sequence[str], env: Mapping[str, str], log_fd: int, stop_timeout_s: float
) -> tuple[subprocess.Popen[bytes], Rope]:
    """Start a keeper, then the program, in a thread that lives as long as both.

    The kernel watches the thread that forks, not the process.
    """
    started: queue.SimpleQueue[tuple[subprocess.Popen[bytes], Rope] | OSError] = queue.SimpleQueue()
    mark = secrets.token_hex(16)
    command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *argv]

    def keep() -> None:
        try:
            watcher, rope = _start_keeper(mark, stop_timeout_s)
            process = _popen(command, {**env, _MARK: mark}, log_fd)
        except OSError as exc:
            started.put(exc)
            return
        rope.say(process.pid)
        started.put((process, rope))
        process.wait()
        del rope  # the Child holds it on: what the program has left is not gone yet
        watcher.wait()

    threading.Thread(target=keep, name="keeper", daemon=True).start()
    result = started.get()
    if isinstance(result, OSError):
        raise result
    return result


def _start_keeper(mark: str, stop_timeout_s: float) -> tuple[subprocess.Popen[bytes], Rope]:
    read_fd, write_fd = os.pipe()
    rope = Rope(write_fd)
    try:
        watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, mark, str(stop_timeout_s)],
            stdin=read_fd,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(read_fd)
    return watcher, rope


def may_run(path: str) -> bool:
    """Return whether this user may run the program."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def is_of(child: Child, pids: Iterable[int]) -> bool:
    """Return whether one of the processes is the program or one that it started."""
    wanted = set(pids)
    return child.pid in wanted or any(process.pid in wanted for process in _tree(child.pid))


def is_of_an_engine(pid: int) -> bool:
    """Return whether a kboot started the process, or what started it, as its engine."""
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return f"{_MARK}=".encode() in file.read()
    return False


def stop_tree(child: Child, timeout_s: float) -> bool:
    """End a program and all it started: SIGTERM, then SIGKILL at the deadline; return whether SIGTERM was enough.

    Its descendants are those of its session and those psutil finds below it, so that one which left the process
    group, or lost its parent, is found as well.
    """
    obeyed = _stop_tree(child, timeout_s)
    if child.rope is not None:
        child.rope.let_go()
    return obeyed


def _stop_tree(child: Child, timeout_s: float) -> bool:
    tree = _tree(child.pid)  # before it dies, for then its children have another parent
    told: set[psutil.Process] = set()
    _signal_group(child.pid, signal.SIGTERM)
    deadline_s = monotonic_s() + timeout_s
    while monotonic_s() < deadline_s:
        tree |= _tree(child.pid)
        if child.status() is not None:
            alive = _alive(tree)
            if not alive:
                return True
            _signal_all(alive - told, signal.SIGTERM)
            told |= alive
        sleep_s(_POLL_S)
    tree |= _tree(child.pid)
    _signal_group(child.pid, signal.SIGKILL)
    _signal_all(tree, signal.SIGKILL)
    give_up_s = monotonic_s() + _KILL_GRACE_S
    while (child.status() is None or _alive(tree)) and monotonic_s() < give_up_s:
        sleep_s(_POLL_S)
    return False


def _tree(pid: int) -> set[psutil.Process]:
    import psutil

    found: set[psutil.Process] = set()
    with suppress(psutil.Error):
        found.update(psutil.Process(pid).children(recursive=True))
    for other in psutil.pids():
        with suppress(OSError, psutil.Error):
            if other != pid and os.getsid(other) == pid:
                found.add(psutil.Process(other))
    return found


def _alive(tree: Iterable[psutil.Process]) -> set[psutil.Process]:
    import psutil

    alive = set()
    for process in tree:
        with suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                alive.add(process)
    return alive


def _signal_all(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    import psutil

    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(number)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _wait(process: subprocess.Popen[bytes], deadline_s: float) -> int | None:
    try:
        return process.wait(max(0.0, deadline_s - monotonic_s()))
    except subprocess.TimeoutExpired:
        return None


def _read_both(process: subprocess.Popen[bytes], deadline_s: float) -> tuple[bytes, bytes]:
    """Read both pipes until they end, the deadline, or the program's end with a grandchild still holding them."""
    assert process.stdout is not None and process.stderr is not None
    kept = {process.stdout: bytearray(), process.stderr: bytearray()}
    ended = False
    with selectors.DefaultSelector() as selector:
        for pipe in kept:
            selector.register(pipe, selectors.EVENT_READ, pipe)
        while selector.get_map() and monotonic_s() < deadline_s:
            ready = selector.select(min(_POLL_S, max(0.0, deadline_s - monotonic_s())))
            if not ready and ended:
                break
            ended = process.poll() is not None
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.data)
                kept[key.data] += data[: OUTPUT_LIMIT_BYTES - len(kept[key.data])]
    for pipe in kept:
        pipe.close()
    return bytes(kept[process.stdout]), bytes(kept[process.stderr])
