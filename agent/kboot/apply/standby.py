"""May a node that stands by serve now? Said by a file that does not outlive the kernel's boot.

Imports little: `kboot exec` asks on the way to every engine start of such a node.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from kboot.errors import KbootError
from kboot.events import Emit, Notice, PhaseFinished, PhaseStarted
from kboot.host.clock import monotonic_s
from kboot.host.files import atomic_write, make_dirs, read_small, remove

if TYPE_CHECKING:
    from kboot.host.paths import Paths
    from kboot.host.types import Host

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_LIMIT_BYTES = 100
_LOOK_S = 0.2
_WARM_EVERY_S = 600.0
_END_S = 5.0


def is_live(paths: Paths, host: Host) -> bool:
    """Return whether `kboot live` was said since the kernel started; a file of an earlier boot says nothing."""
    with suppress(OSError):
        return read_small(paths.live, _LIMIT_BYTES).decode(errors="replace").strip() == _boot_id(host)
    return False


def go_live(paths: Paths, host: Host) -> None:
    """Let the engine of this node start, now and again until the machine is started anew.

    Raises:
        KbootError: the file cannot be written, which only the user of kboot may.
        OSError: this machine does not say its boot id.
    """
    make_dirs(paths.runtime)
    atomic_write(paths.live, f"{_boot_id(host)}\n".encode())


def stand_by(paths: Paths) -> None:
    """Let no engine start from now on; one that runs goes on.

    Raises:
        KbootError: the file cannot be removed.
    """
    remove(paths.live)


class WarmKeeper:
    """Keeps in memory what a node that stands by will need: the kernel takes it back for whatever else is read.

    warm: reads what is missing.
    """

    def __init__(
        self, stands_by: Callable[[], bool], warm: Callable[[], None], emit: Emit, every_s: float = _WARM_EVERY_S
    ) -> None:
        self._stands_by, self._warm, self._emit, self._every_s = stands_by, warm, emit, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="warm", daemon=True)

    def begin(self) -> None:
        """Look every few minutes from now on."""
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            if self._stands_by():
                self.look()

    def look(self) -> None:
        """Read what is missing; where that cannot be done, the node stands by all the same."""
        try:
            self._warm()
        except KbootError as exc:
            self._emit(Notice("standby.not_warmed", f"{exc.code}: {exc.message}"))


def hold(paths: Paths, host: Host, emit: Emit, stop: threading.Event, warm: Callable[[], None]) -> bool:
    """Wait, as long as it takes, until `kboot live` is said after now; return False when kboot is stopped instead.

    warm: see WarmKeeper.

    Raises:
        KbootError: what was said before cannot be taken back.
    """
    stand_by(paths)
    since_s = monotonic_s()
    emit(PhaseStarted("standby", 0, 0))
    emit(Notice("node.stands_by", "warm, not serving; `kboot live` starts the engine"))
    keeper = WarmKeeper(lambda: not stop.is_set(), warm, emit)
    keeper.begin()
    while not (live := is_live(paths, host)) and not stop.wait(_LOOK_S):
        pass
    keeper.end()
    emit(PhaseFinished("standby", "done" if live else "interrupted", monotonic_s() - since_s, 0))
    return live


def _boot_id(host: Host) -> str:
    return host.read_text(_BOOT_ID).strip()
