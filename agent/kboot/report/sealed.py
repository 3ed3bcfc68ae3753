"""What did sealing a tree do, and is anything left in it that must not go out?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.errors import ActionFailed
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.errors import KbootError
    from kboot.host.image_search import Searched
    from kboot.plan.seal import Remains, SealAction
    from kboot.report.types import Outcome

_NAMED = 5


@dataclass(frozen=True, slots=True)
class SealReport:
    """What was taken away, or would be; what stays; and what was found when all was done.

    left: what should be gone and is not, of a tree that was sealed. searched: what was read for secrets, and was not.
    """

    dry_run: bool
    actions: tuple[SealAction, ...]
    outcomes: tuple[Outcome, ...]
    remains: tuple[Remains, ...]
    left: tuple[SealAction, ...]
    searched: Searched

    @property
    def sealed(self) -> bool:
        """Whether nothing is left in the tree that must not go out."""
        return not self.dry_run and self.error is None

    @property
    def error(self) -> KbootError | None:
        """Return why the tree is not sealed; None for one that is, and for a look at what would be done."""
        if self.dry_run:
            return None
        failed = next((o.error for o in self.outcomes if o.error is not None), None)
        if failed is not None:
            return failed
        names = [f"/{r.path}: {r.why}" for r in self.remains if r.blocks] + [
            f"/{a.path}: {a.reason}" for a in self.left
        ]
        if not names:
            return None
        more = [f"and {len(names) - _NAMED} more"] if len(names) > _NAMED else []
        return ActionFailed(
            "image-not-sealed",
            f"{len(names)} {'thing is' if len(names) == 1 else 'things are'} left that must not go out with the image",
            where=(*names[:_NAMED], *more),
            hint="take them away, or name what is meant to be in the image with `--keep PATH`; then run "
            "`kboot bake --finish` again as the last step",
        )
