"""Is confidential computing on, and are the GPUs then ready for work?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """On is the owner's choice, and slower; on and not told to take work is a node that cannot serve."""
    if facts.gpu.nvml in ("no-library", "no-driver"):
        return Finding("skip", f"no GPU driver is loaded ({facts.gpu.nvml})")
    if facts.gpu.nvml != "ok":
        return Finding("unknown", f"NVML did not answer ({facts.gpu.nvml})")
    match facts.links.confidential:
        case None:
            return Finding("skip", "this driver or part does not tell of confidential computing")
        case "off":
            return Finding("ok", "confidential computing is off")
        case "not-ready":
            return Finding(
                "fail",
                "confidential computing is on, and the GPUs were not told to take work",
                wanted="the ready state set after attestation",
                why="CUDA refuses every context until then",
                hint="attest the GPUs, then `nvidia-smi conf-compute -srs 1`",
            )
        case state:
            tools = " in its mode for developers, which protects nothing" if state == "devtools" else ""
            return Finding(
                "warn",
                f"confidential computing is on{tools}",
                wanted="off, unless the tenant asks for it",
                why="what goes to and from the GPU is encrypted through bounce buffers: weights load slower",
                hint="if nobody needs it, turn it off with NVIDIA's gpu-admin-tools (`--set-cc-mode=off`) and reset",
            )


CHECK = Check(
    id="gpu.cc_mode",
    asks="Is confidential computing on, and are the GPUs then ready for work?",
    source="NVML confidential-computing state",
    modes=ON_A_NODE,
    run=run,
)
