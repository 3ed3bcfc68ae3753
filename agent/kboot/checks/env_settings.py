"""Does the environment hold settings that have no effect, or that change what caches are named after?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.launching import Launching, launching
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import some
from kboot.engines.vllm_env import hashed_names, volatile
from kboot.facts.types import NodeFacts
from kboot.facts.upkeep_types import EnvSetting
from kboot.plan.cache_stable import key_troubles
from kboot.profile.types import Profile

OFF = ("", "0", "false", "no", "off")
IGNORED = {
    "HF_HUB_ENABLE_HF_TRANSFER": "is ignored by huggingface_hub since 1.0; kboot moves the bytes itself, "
    'and by hf_transfer only with fetch.transport = "hf_transfer"',
}


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Judge this environment and those of kboot's services; what kboot sets by itself overrides them."""
    settings = facts.upkeep.environ
    if settings is None:
        return no_environment(facts)
    found = [*_ignored(settings), *_volatile(facts, settings, launching(facts, profile, checkpoint))]
    if not found:
        return Finding("ok", "no setting that is ignored, or that renames the engine's caches from boot to boot")
    return Finding(
        "warn",
        some(found, 3),
        wanted="none of these",
        why="what was meant does not happen; a cache under another name is compiled anew: minutes to hours",
        hint="unset it where it is set, or give it one value in the layout's env",
    )


def no_environment(facts: NodeFacts) -> Finding:
    """Return the answer where no environment was read."""
    if unread(facts, "upkeep"):
        return Finding("unknown", f"the environment could not be looked at ({gap_reason(facts, 'upkeep')})")
    return Finding("skip", "a recording has no environment")


def _ignored(settings: Iterable[EnvSetting]) -> Iterator[str]:
    for setting in settings:
        if setting.name in IGNORED and setting.value.lower() not in OFF:
            yield f"{setting.name}={setting.value} ({setting.origin}) {IGNORED[setting.name]}"


def _volatile(facts: NodeFacts, settings: Iterable[EnvSetting], found: Launching | str) -> Iterator[str]:
    """Name what the engine inherits and hashes into the names of its caches although it differs from boot to boot."""
    origin_of = {setting.name: setting.origin for setting in settings}
    values = {setting.name: setting.value for setting in settings}
    if isinstance(found, str):
        for name in sorted(values.keys() & hashed_names(facts.engine.version)):
            if why := volatile(name):
                yield f"{name} ({origin_of[name]}) is hashed by vLLM into the names of its caches: {why}"
        return
    troubles = key_troubles(found.layout, found.launch, facts.engine.version, values, found.model_path, found.folder)
    for trouble in troubles:
        if trouble.name in values and trouble.name not in found.layout.env:
            yield f"{trouble.name} ({origin_of[trouble.name]}) {trouble.says}"


CHECK = Check(
    id="env.settings",
    asks="Does the environment hold settings that have no effect, or that change what caches are named after?",
    source="this environment; env and engine.env in the configuration folder",
    modes=EVERYWHERE,
    run=run,
)
