"""Where did the time of each boot go, in stages that follow one another and are the same for every way? Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

STAGES = (
    "kboot",
    "interpreters",
    "distributed init",
    "load model",
    "compile",
    "profiling run",
    "warm-up and graphs",
    "start server",
)
"""kboot: until the engine's command is started. interpreters: until the last worker has begun its set-up.

warm-up and graphs: sizing the KV cache is part of it.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One way, over its boots. each_s: the time to ready of each, in the order they were run; the rest is of the one
    in the middle. stages: seconds by name of STAGES. fetch_s: part of the stage `kboot`."""

    way: str
    means: str
    each_s: tuple[float, ...]
    ready_s: float
    stages: Mapping[str, float]
    fetch_s: float
    read_weights_s: float | None
    cpu_s: float


def rows(document: Mapping[str, Any], order: Sequence[str] = ()) -> tuple[Row, ...]:
    """Return a row for each way of which a boot became ready, in the given order, else as they were run.

    Boots of one way by different versions of kboot are rows of their own, named by the version; so are those that the
    document gives a `row`, as a second boot and a later one.
    """
    ready = [boot for boot in document["boots"] if boot["ready_s"] is not None]
    place = {name: number for number, name in enumerate(dict.fromkeys((*order, *(b["way"] for b in ready))))}
    names = dict.fromkeys(_name(b) for b in sorted(ready, key=lambda b: place[b["way"]]))
    found = []
    for name in names:
        versions = dict.fromkeys(b.get("kboot", "") for b in ready if _name(b) == name)
        for version in versions:
            row = _row([b for b in ready if (_name(b), b.get("kboot", "")) == (name, version)])
            found.append(replace(row, way=f"{name} ({version})") if len(versions) > 1 else row)
    return tuple(found)


def _name(boot: Mapping[str, Any]) -> str:
    return str(boot.get("row") or boot["way"])


def _row(boots: Sequence[Mapping[str, Any]]) -> Row:
    """Return the row of the boot in the middle by its time, so that its stages sum to it; an odd one is its own."""
    middle = sorted(boots, key=lambda b: b["ready_s"])[(len(boots) - 1) // 2]
    reads = [b["phases"]["read weights"]["seconds"] for b in boots if "read weights" in b["phases"]]
    known = [seconds for seconds in reads if seconds is not None]
    return Row(
        way=_name(middle),
        means=middle["means"],
        each_s=tuple(b["ready_s"] for b in boots),
        ready_s=middle["ready_s"],
        stages=stages(middle),
        fetch_s=sum(s["seconds"] for s in middle["kboot_phases"] if s["name"] == "fetch" and s["lane"] == "kboot"),
        read_weights_s=median(known) if known else None,
        cpu_s=middle["cpu_s_of_all"],
    )


def stages(boot: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds of each stage of a boot that became ready; they sum to its time to ready.

    A stage whose end the log does not show is 0 s long, and its time is the next one's.
    """
    phases = boot["phases"]
    ends = (
        boot["engine_started_s"],
        _at(phases, "distributed init", "start_s"),
        _at(phases, "load model", "start_s"),
        _at(phases, "load model", "end_s"),
        _at(phases, "compile", "end_s"),
        _at(phases, "profiling run", "end_s"),
        _at(phases, "start server", "start_s"),
        boot["ready_s"],
    )
    found: dict[str, float] = {}
    here = 0.0
    for name, end in zip(STAGES, ends, strict=True):
        stop = here if end is None else min(max(here, end), boot["ready_s"])
        found[name] = round(stop - here, 2)
        here = stop
    return found


def _at(phases: Mapping[str, Any], name: str, key: str) -> float | None:
    phase = phases.get(name)
    return None if phase is None else phase[key]


def table(found: Sequence[Row]) -> str:
    """Return the rows as a Markdown table, seconds."""
    names = [name for name in STAGES if any(row.stages[name] >= 0.05 for row in found)]
    head = ["way", "each boot", "ready", *names]
    lines = [head, ["---", *("---:" for _ in head[1:])]]
    lines += [
        [
            row.way,
            ", ".join(f"{seconds:.1f}" for seconds in row.each_s),
            f"**{row.ready_s:.1f}**",
            *(f"{row.stages[name]:.1f}" for name in names),
        ]
        for row in found
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
