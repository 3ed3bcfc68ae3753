"""Can the program that a profile's command names be started here?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.errors import ActionFailed
from kboot.host.processes import may_run
from kboot.plan.types import StartEngine, WriteHandoff

if TYPE_CHECKING:
    from kboot.engines.types import Launch
    from kboot.plan.types import Plan


def require_program(plan: Plan) -> None:
    """Return when the command that a profile names can be started; other engines are found by their facts.

    Raises:
        ActionFailed: engine-program-missing.
    """
    needed = any(isinstance(a, StartEngine | WriteHandoff) for phase in plan.phases for a in phase.actions)
    program = missing_program(plan.launch)
    if not needed or program is None:
        return
    raise ActionFailed(
        "engine-program-missing",
        f"the engine's program {program} is not there, or this user may not execute it",
        where=(program,),
        hint="install it, or name another in the layout's command",
    )


def missing_program(launch: Launch) -> str | None:
    """Return the program that a profile's command names and that cannot be started here; None where it can."""
    program = launch.argv[0]
    return program if launch.engine == "command" and not may_run(program) else None
