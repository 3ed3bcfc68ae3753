"""Is the node ready after a boot, and if not, may the same boot succeed later? Pure."""

from __future__ import annotations

from kboot.errors import ActionFailed, ExitStatus, KbootError, SourceError
from kboot.report.types import BootReport

_OTHERS = frozenset({"fleet-not-together", "fleet-incomplete", "not-in-fleet"})
"""Nodes that are not there may come, this one's own address as well: a network comes up when it does."""


def is_transient(error: KbootError) -> bool:
    """Return whether the same boot may succeed later without anybody changing anything."""
    return (isinstance(error, SourceError) and error.retry) or error.code in _OTHERS


def judge(result: BootReport | KbootError | None, record_exists: bool) -> KbootError | None:
    """Return why the node is not ready after a boot; None when it is. result None: the boot crashed."""
    match result:
        case None:
            return _Crashed("boot-crashed", "the boot ended with an unexpected exception; its traceback is in the log")
        case KbootError():
            return result
        case BootReport(status="done" | "degraded"):
            if record_exists:
                return None
            return ActionFailed("no-handoff-record", "the boot ended well but left no hand-off record")
        case BootReport():
            return result.error or ActionFailed("boot-failed", f"the boot ended as {result.status}")


class _Crashed(KbootError):
    status = ExitStatus.BUG
