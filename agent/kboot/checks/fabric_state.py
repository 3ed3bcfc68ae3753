"""Is every GPU registered with the NVLink fabric?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import told
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Only for parts that say they have a fabric; state and status must both be good."""
    fabric = told(facts, "fabric", lambda g: g.fabric)
    members = {i: f for i, f in fabric.values.items() if f.state != "not-supported"}
    if not members and not fabric.unread:
        if fabric.values:
            return Finding("skip", "these GPUs are on no NVLink switch")
        return fabric.nobody
    bad = {i: f"{f.state}, {f.status}" for i, f in members.items() if f.state != "completed" or f.status != "SUCCESS"}
    bad |= {i: f"health: {some(f.unhealthy)}" for i, f in members.items() if f.unhealthy and i not in bad}
    if bad:
        return Finding(
            "fail",
            "not in the fabric: " + some(f"GPU {i} ({why})" for i, why in sorted(bad.items())),
            wanted="state completed and status SUCCESS on every GPU",
            why="CUDA ends with error 802, or peer traffic falls back to PCIe, 10 to 100 times slower without an error",
            hint="`systemctl restart nvidia-fabricmanager` (NVLink racks: nvidia-imex too) before the engine starts",
        )
    cliques = sorted({(f.cluster_uuid, f.clique_id) for f in members.values()})
    if len(cliques) > 1:
        return Finding(
            "fail",
            f"the GPUs are in {len(cliques)} different fabric cliques: {some(f'{c}/{n}' for c, n in cliques)}",
            wanted="one clique",
            why="GPUs of different cliques do not reach each other over NVLink",
            hint="restart the fabric manager; check the partition that this node was given",
        )
    return fabric.rest(f"{count(len(members), 'GPU')} completed, SUCCESS")


CHECK = Check(
    id="fabric.state",
    asks="Is every GPU registered with the NVLink fabric?",
    source="NVML fabric info",
    modes=ON_A_NODE,
    run=run,
)
