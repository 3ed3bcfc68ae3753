"""How does a prepared tree become an image? Nothing of its builder may be in it; what was done is looked at again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kboot.apply.phase import phase_of
from kboot.apply.seal import seal
from kboot.events import Emit, unheard
from kboot.facts.image_ground import image_ground
from kboot.facts.residue import Found, ImageFolders, find_residue, known_secrets
from kboot.facts.residue_places import TOKEN_NAMES
from kboot.host.image import ImageTree
from kboot.host.image_search import SearchBounds
from kboot.host.types import Host
from kboot.plan.seal import SealPlan, plan_seal
from kboot.report.sealed import SealReport
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class SealAsk:
    """What is asked of sealing. login_keys: take them too. keep: what shall stay in the image (kboot.plan.seal)."""

    login_keys: bool = False
    keep: tuple[str, ...] = ()
    dry_run: bool = False
    bounds: SearchBounds = field(default_factory=SearchBounds)


def seal_image(
    tree: ImageTree,
    folders: ImageFolders,
    host: Host,
    env: Mapping[str, str],
    ask: SealAsk,
    emit: Emit = unheard,
) -> SealReport:
    """Take everything of the builder out of the tree. Whether that may be done here was asked before.

    env: in which secrets of this builder are, to be looked for by their value. emit: hears how far it is.
    """
    secrets = known_secrets(tree, folders, [env[name] for name in TOKEN_NAMES if env.get(name)])
    ground = image_ground(tree, host)

    def planned(found: Found) -> SealPlan:
        return plan_seal(found.residue, folders.config, login_keys=ask.login_keys, keep=ask.keep)

    with phase_of(emit, "search") as moved:
        found = find_residue(tree, folders, ground, secrets, ask.bounds, moved=moved)
    plan = planned(found)
    if ask.dry_run:
        return SealReport(True, plan.actions, (), plan.remains, (), found.searched)
    with phase_of(emit, "seal"):
        outcomes = seal(plan.actions, tree, secrets)
    with phase_of(emit, "recheck") as moved:
        left = find_residue(tree, folders, ground, secrets, ask.bounds, before=found, moved=moved)
    after = planned(left)
    return SealReport(False, plan.actions, outcomes, after.remains, after.actions, found.searched)
