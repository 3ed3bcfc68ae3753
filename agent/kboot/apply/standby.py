"""May a node that stands by serve now? Said by a file that does not outlive the kernel's boot.

Imports little: `kboot exec` asks on the way to every engine start of such a node.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kboot.events import Emit, Notice, PhaseFinished, PhaseStarted
from kboot.host.clock import monotonic_s
from kboot.host.files import atomic_write, make_dirs, read_small, remove

if TYPE_CHECKING:
    import threading

    from kboot.host.paths import Paths
    from kboot.host.types import Host

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_LIMIT_BYTES = 100
_LOOK_S = 0.2


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


def hold(paths: Paths, host: Host, emit: Emit, stop: threading.Event) -> bool:
    """Wait, as long as it takes, until `kboot live` is said after now; return False when kboot is stopped instead.

    Raises:
        KbootError: what was said before cannot be taken back.
    """
    stand_by(paths)
    since_s = monotonic_s()
    emit(PhaseStarted("standby", 0, 0))
    emit(Notice("node.stands_by", "warm, not serving; `kboot live` starts the engine"))
    while not is_live(paths, host):
        if stop.wait(_LOOK_S):
            emit(PhaseFinished("standby", "skipped", monotonic_s() - since_s, 0))
            return False
    emit(PhaseFinished("standby", "done", monotonic_s() - since_s, 0))
    return True


def _boot_id(host: Host) -> str:
    return host.read_text(_BOOT_ID).strip()
