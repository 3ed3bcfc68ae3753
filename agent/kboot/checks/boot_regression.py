"""Did the last boot take longer than boots of this node usually do?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.kept_types import PastBoot
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_roughly

LEAST_BOOTS = 4
LEAST_S = 5.0
TIMES = 1.25
WHOLE = "all until the engine answered"


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compared with the 95th percentile of its own earlier boots, phase by phase."""
    boots = facts.kept.boots
    if boots is None:
        return Finding("unknown", f"the reports could not be looked at ({gap_reason(facts, 'kept')})")
    mine = [b for b in boots if b.status in ("done", "degraded") and (profile is None or b.profile == profile.name)]
    if not mine:
        return Finding("skip", "no boot is on record")
    last, *earlier = mine
    earlier = [b for b in earlier if b.profile == last.profile]
    if len(earlier) < LEAST_BOOTS:
        return Finding("ok", f"{count(len(earlier), 'earlier boot')} on record, {LEAST_BOOTS} make a comparison")
    slow = sorted(_slower(last, earlier), reverse=True)
    if not slow:
        return Finding("ok", f"no phase took longer than in {count(len(earlier), 'earlier boot')}")
    changed = [
        f"{name} changed" for name, value in sorted(last.changed.items()) if value != earlier[0].changed.get(name)
    ]
    return Finding(
        "warn",
        some(
            (
                f"{name} took {show_roughly(now_s)}, usually at most {show_roughly(usual_s)}"
                for _, name, now_s, usual_s in slow
            ),
            3,
        )
        + (f"; since the boot before, {', '.join(changed)}" if changed else ""),
        wanted=f"the 95th percentile of {count(len(earlier), 'earlier boot')}",
        why=f"the node was {show_roughly(_lost_s(slow))} later than usual",
        hint="`kboot timeline`; `kboot cache explain` where an engine's phase is among them; disk.rate in mode full",
    )


def _slower(last: PastBoot, earlier: list[PastBoot]) -> Iterator[tuple[float, str, float, float]]:
    """Yield (seconds lost, phase, now, usual) of the phases that left their usual range."""
    before = [_times(boot) for boot in earlier]
    for name, now_s in _times(last).items():
        times = sorted(seconds[name] for seconds in before if name in seconds)
        if len(times) < LEAST_BOOTS:
            continue
        usual_s = times[min(len(times) - 1, round(0.95 * len(times)))]
        if now_s > max(TIMES * usual_s, usual_s + LEAST_S):
            yield now_s - usual_s, name, now_s, usual_s


def _lost_s(slow: list[tuple[float, str, float, float]]) -> float:
    """Return by how much the node was late: phases overlap, so all of it together counts where it is known."""
    whole = [lost for lost, name, *_ in slow if name == WHOLE]
    return whole[0] if whole else max(lost for lost, *_ in slow)


def _times(boot: PastBoot) -> Mapping[str, float]:
    """Return the times of a boot by phase, and that of all of it where the engine answered."""
    return boot.seconds if boot.ready_s is None else {**boot.seconds, WHOLE: boot.ready_s}


CHECK = Check(
    id="boot.regression",
    asks="Did the last boot take longer than boots of this node usually do?",
    source="history/*.json in the state folder",
    modes=ON_A_NODE,
    run=run,
)
