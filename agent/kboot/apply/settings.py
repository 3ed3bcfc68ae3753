"""Writes kernel settings, reads them back, and puts back what it changed when one does not stay."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from kboot.apply.outcome import Effect, carry_out
from kboot.errors import ActionFailed
from kboot.host.settings import read_setting, write_setting
from kboot.plan.tune import selected

if TYPE_CHECKING:
    from kboot.plan.types import WriteSetting
    from kboot.report.types import Outcome


def write_settings(actions: Sequence[WriteSetting]) -> tuple[Outcome, ...]:
    """Write each setting; one that is already right is `unchanged`, one that does not stay is put back."""
    return tuple(carry_out("tune", action, partial(_write, action)) for action in actions)


def _write(action: WriteSetting) -> Effect:
    before = selected(read_setting(action.path))
    if before == action.value:
        return Effect("unchanged", before, before)
    write_setting(action.path, action.value)
    after = selected(read_setting(action.path))
    if after != action.value:
        write_setting(action.path, before)
        raise ActionFailed(
            "setting-did-not-stay",
            f"{action.path} reads {after} after {action.value} was written",
            where=(f"put back to {before}",),
            hint="take the setting out of the profile, or find what resets it (tuned, a governor daemon)",
        )
    return Effect("done", before, after)
