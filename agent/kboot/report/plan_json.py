"""What does the `--json` document of a plan hold? Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kboot.plan.types import describe
from kboot.report.document import Document, document, plain
from kboot.report.render_json import listing_json

if TYPE_CHECKING:
    from kboot.plan.types import Action, Phase, Plan


def plan_document(plan: Plan) -> Document:
    """Return the plan: every action with its title and reason, and all that the hand-off record will say."""
    return document(
        "plan",
        {
            "profile": plan.profile,
            "empty": not plan.actions,
            "layout": plain(plan.layout),
            "checkpoint": listing_json(plan.listing),
            "verify_mode": plan.verify_mode,
            "placement": plain(plan.placement),
            "cache": {"key": plan.cache_key.name, "factors": plain(plan.cache_key.factors), "path": plan.cache_dir},
            "model_path": plan.model_path,
            "launch": plain(plan.launch),
            "phases": [_phase_json(p) for p in plan.phases],
            "warnings": list(plan.warnings),
            "gaps": plain(plan.gaps),
        },
    )


def _phase_json(phase: Phase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "after": list(phase.after),
        "note": phase.note,
        "actions": [_action_json(a) for a in phase.actions],
    }


def _action_json(action: Action) -> dict[str, Any]:
    body = plain(action)
    body.pop("listing", None)  # said once, by the plan's `checkpoint`
    body.pop("launch", None)
    return {"type": _kebab(type(action).__name__), "title": describe(action), **body}


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
