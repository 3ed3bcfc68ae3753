"""Writes the hand-off record, reads it back, and looks whether it still holds."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kboot.errors import ActionFailed
from kboot.handoff import FileMark, HandoffRecord, Observed, differences, forged, parse, sign, stale
from kboot.host.files import Identity, atomic_write, identity, make_dirs, read_small
from kboot.host.locks import lock_file
from kboot.host.os_errors import explained
from kboot.host.sharing import require_own, secret_mode

if TYPE_CHECKING:
    from kboot.host.paths import Paths
    from kboot.host.types import Host
    from kboot.plan.types import WriteHandoff
    from kboot.report.types import Outcome

_KEY_BYTES = 32
_KEY_LOCK_S = 10.0
_RECORD_LIMIT_BYTES = 8 << 20
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def node_key(paths: Paths) -> bytes:
    """Return the key that signs this node's records, made on first use.

    Raises:
        ActionFailed: others may read it, it is no key, or it cannot be made or read.
    """
    path = paths.node_key
    with suppress(FileNotFoundError):
        return _read_key(path)
    make_dirs(path.parent)
    with lock_file(path.with_name("node.key.lock"), _KEY_LOCK_S):
        with suppress(FileNotFoundError):  # another kboot was faster
            return _read_key(path)
        atomic_write(path, secrets.token_bytes(_KEY_BYTES), mode=secret_mode(path.parent))
        return _read_key(path)


def mark_files(model_path: Path, names: Iterable[str]) -> tuple[FileMark, ...]:
    """Return the identity of every file as an engine reaches it, through the model's path.

    Raises:
        ActionFailed: one is not there.
    """
    marks = []
    for name in names:
        with explained("look at the verified file", model_path / name):
            marks.append(FileMark(name, identity(model_path / name)))
    return tuple(marks)


def write_handoff(action: WriteHandoff, record: HandoffRecord, paths: Paths) -> Outcome:
    """Write the signed record; it is there, whole and durable, or as it was before."""
    from kboot.apply.outcome import Effect, carry_out

    def work() -> Effect:
        make_dirs(paths.runtime)
        atomic_write(paths.handoff, sign(record, node_key(paths)), mode=secret_mode(paths.runtime))
        return Effect(after=str(paths.handoff))

    return carry_out("handoff", action, work)


def read_handoff(paths: Paths) -> HandoffRecord:
    """Return the record this node wrote.

    Raises:
        ActionFailed: handoff-missing, handoff-forged or handoff-stale (written by another version).
    """
    with explained("read the hand-off record", paths.handoff):
        try:
            data = read_small(paths.handoff, _RECORD_LIMIT_BYTES)
        except FileNotFoundError:
            raise ActionFailed(
                "handoff-missing",
                "there is no hand-off record: this node was not prepared since it was started",
                where=(str(paths.handoff),),
                hint="run `kboot boot`",
            ) from None
    try:
        key = _read_key(paths.node_key)
    except FileNotFoundError:
        raise forged(f"this node has no key of its own ({paths.node_key}), so another has written it") from None
    return parse(data, key)


def observe(record: HandoffRecord, host: Host, profile_digest: str | None = None) -> Observed:
    """Look at everything a record depends on: a stat of each file, no reading.

    Raises:
        OSError: this machine does not say its boot id.
    """
    model = Path(record.model_path)
    return Observed(
        boot_id=host.read_text(_BOOT_ID).strip(),
        model_commit=_commit_at(model),
        files={mark.path: _identity(model / mark.path) for mark in record.files},
        cache_exists=Path(record.cache_dir).is_dir(),
        program_exists=Path(record.argv[0]).is_file(),
        profile_digest=profile_digest,
    )


def require_valid(record: HandoffRecord, host: Host) -> None:
    """Return when the record still holds.

    Raises:
        ActionFailed: handoff-stale, with every difference named.
    """
    with explained("read the boot id", _BOOT_ID):
        found = differences(record, observe(record, host))
    if found:
        raise stale(found)


def _commit_at(model: Path) -> str | None:
    try:
        return model.readlink().name
    except OSError:
        return None


def _identity(path: Path) -> Identity | None:
    try:
        return identity(path)
    except OSError:
        return None


def _read_key(path: Path) -> bytes:
    """Return the key.

    Raises:
        FileNotFoundError: there is none yet.
    """
    try:
        require_own(path)
        mode = path.stat().st_mode & 0o777
        key = read_small(path, _KEY_BYTES)
    except FileNotFoundError:
        raise
    except OSError as exc:
        with explained("read the node key", path):
            raise exc
    wanted = secret_mode(path.parent)
    if mode & ~wanted:
        raise ActionFailed(
            "node-key-exposed",
            f"others may read the key that signs hand-off records (mode {mode:o}, wanted {wanted:o})",
            where=(str(path),),
            hint=f"remove {path} and run `kboot boot`, which makes a new key and record",
        )
    if len(key) != _KEY_BYTES:
        raise ActionFailed(
            "node-key-damaged",
            f"the node key has {len(key)} bytes, wanted {_KEY_BYTES}",
            where=(str(path),),
            hint=f"remove {path} and run `kboot boot`",
        )
    return key
