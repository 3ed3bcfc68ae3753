"""Can GPUs of several nodes of an NVLink domain share memory?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import layout_for
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count
from kboot.facts.link_types import Imex
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Only where the fabric has a cluster of several nodes, and the layout spans nodes; one node needs no IMEX."""
    if facts.gpu.nvml not in ("ok", "no-library", "no-driver"):
        return Finding("unknown", f"NVML did not answer ({facts.gpu.nvml})")
    imex = facts.links.imex
    clusters = {g.fabric.cluster_uuid for g in facts.health.gpus if g.fabric and g.fabric.cluster_uuid.strip("0-")}
    layout = layout_for(facts.gpu, profile) if profile else None
    nodes = layout.nodes if layout else 1
    if imex is None:
        return Finding("skip", "there is no GPU on the PCI bus")
    if imex.running:
        return _configured(imex, nodes)
    if not clusters:
        return Finding("skip", "these GPUs are in no NVLink domain of several nodes")
    if nodes < 2:
        return Finding("skip", "no layout over several nodes is asked for")
    if imex.running is None:
        if imex.channels:
            return Finding("ok", f"{count(len(imex.channels), 'IMEX channel')} in this container")
        return _missing("no IMEX channel is in /dev/nvidia-caps-imex-channels", _CONTAINER)
    return _missing("nvidia-imex does not run, and this node's GPUs are in an NVLink domain of several nodes", _HOST)


_HOST = "write every node's address into /etc/nvidia-imex/nodes_config.cfg, then `systemctl enable --now nvidia-imex`"
_CONTAINER = "give the container a channel: NVIDIA_IMEX_CHANNELS=0, or the ComputeDomain of NVIDIA's DRA driver"


def _configured(imex: Imex, nodes: int) -> Finding:
    if imex.nodes is not None and imex.nodes < nodes:
        return _missing(f"nvidia-imex runs with {count(imex.nodes, 'node')}, the layout spans {nodes}", _HOST)
    known = "its own configuration" if imex.nodes is None else count(imex.nodes, "node")
    return Finding("ok", f"nvidia-imex runs with {known}")


def _missing(seen: str, hint: str) -> Finding:
    return Finding(
        "fail",
        seen,
        wanted="nvidia-imex active with every node of the layout",
        why="memory of another node's GPU cannot be mapped: NCCL ends with an error, or goes over the network",
        hint=hint,
    )


CHECK = Check(
    id="fabric.imex",
    asks="Can GPUs of several nodes of an NVLink domain share memory?",
    source="NVML fabric info; nvidia-imex's cgroup, nodes_config.cfg and channels",
    modes=ON_A_NODE,
    run=run,
)
