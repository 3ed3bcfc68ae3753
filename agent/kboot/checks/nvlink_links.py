"""Has every GPU as many NVLinks up as its equals?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import told
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare GPUs of the same name; where none has a link up (PCIe parts, bridges not fitted) nothing is missing."""
    links = told(facts, "nvlinks", lambda g: g.nvlinks)
    sliced = {g.index for g in facts.gpu.gpus if g.mig}
    name_of = {g.index: g.name for g in facts.gpu.gpus}
    up = {index: sum(states) for index, states in links.values.items() if index not in sliced}
    most: dict[str, int] = {}
    for index, number in up.items():
        name = name_of.get(index, "")
        most[name] = max(most.get(name, 0), number)
    if not any(most.values()) and not links.unread:
        return Finding("skip", "no GPU uses NVLink") if links.values else links.nobody
    odd = {i: (n, most[name_of.get(i, "")]) for i, n in up.items() if n < most[name_of.get(i, "")]}
    if odd:
        named = some(f"GPU {index}: {number} of {wanted}" for index, (number, wanted) in sorted(odd.items()))
        return Finding(
            "fail" if any(number == 0 for number, _ in odd.values()) else "warn",
            f"NVLinks up on {named}",
            wanted="all links of a GPU up, as on its equals",
            why="all-reduce runs at the pace of the worst GPU; with no link NCCL goes over PCIe or hangs",
            hint="read `nvidia-smi nvlink -s` and `dmesg`; reset the GPUs or reboot; then have the board looked at",
        )
    return links.rest(f"{max(most.values(), default=0)} links up on each of {count(len(up), 'GPU')}")


CHECK = Check(
    id="nvlink.links",
    asks="Has every GPU as many NVLinks up as its equals?",
    source="NVML link states",
    modes=ON_A_NODE,
    run=run,
)
