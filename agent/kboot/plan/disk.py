"""Does what is still to be fetched fit the disk?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from kboot.errors import DoesNotFit
from kboot.quantities import show_bytes
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.basic_types import Mount

HINT_DISK = "free space, or point state_dir in kboot.toml at a larger disk"


@dataclass(frozen=True, slots=True)
class FitLine:
    """One resource. fits None: not readable, and unknown is not yes. have_bytes: free now, for this user."""

    what: Literal["gpu", "ram", "disk"]
    fits: bool | None
    need_bytes: int
    have_bytes: int | None
    text: str


def fit_disk(mounts: Sequence[Mount], missing_bytes: int) -> FitLine:
    """Compare what is still to be fetched with what is free for the state folder."""
    state = next((m for m in mounts if m.role == "state"), None)
    if missing_bytes == 0:
        free = state.free_bytes if state else None
        return FitLine("disk", True, 0, free, "nothing is missing on disk")
    if state is None or state.free_bytes is None:
        return FitLine("disk", None, missing_bytes, None, "free disk space of the state folder could not be read")
    if state.read_only:
        return FitLine("disk", False, missing_bytes, 0, f"{state.mount_point} is mounted read-only")
    text = f"{show_bytes(missing_bytes)} still to fetch, {show_bytes(state.free_bytes)} free on {state.mount_point}"
    return FitLine("disk", state.free_bytes >= missing_bytes, missing_bytes, state.free_bytes, text)


def disk_does_not_fit(line: FitLine) -> DoesNotFit:
    """Build the error for a disk that is too small for what is still to be fetched."""
    return DoesNotFit("disk-too-small", f"the checkpoint does not fit this disk: {line.text}", hint=HINT_DISK)
