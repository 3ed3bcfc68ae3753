"""Would a token or the model's bytes travel without encryption?"""

from __future__ import annotations

import re

from kboot.checkpoint import CheckpointFacts
from kboot.checks.env_settings import no_environment
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

ENDPOINTS = ("HF_ENDPOINT", "HF_INFERENCE_ENDPOINT")
LOOPBACK = re.compile(r"http://(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?:[:/]|$)", re.IGNORECASE)


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """kboot sends no token in clear text; other clients of the same settings do."""
    if facts.upkeep.environ is None:
        return no_environment(facts)
    settings = [s for s in facts.upkeep.environ if s.name in ENDPOINTS and _is_clear(s.value)]
    if not settings:
        return Finding("ok", "no Hub is asked over http://")
    first = settings[0]
    return Finding(
        "warn",
        f"{first.name}={first.value} ({first.origin})",
        wanted="https://, or this machine itself",
        why="kboot asks it without a token, so gated files are refused; huggingface_hub sends its token readable",
        hint=f"set {first.name} to https:// in {first.origin}",
    )


def _is_clear(url: str) -> bool:
    return url.lower().startswith("http://") and LOOPBACK.match(url) is None


CHECK = Check(
    id="sec.clear_text",
    asks="Would a token or the model's bytes travel without encryption?",
    source="HF_ENDPOINT of the environment and of /etc/kboot/{env,engine.env}",
    modes=EVERYWHERE,
    run=run,
)
