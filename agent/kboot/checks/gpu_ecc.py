"""Is ECC on, and free of errors that were not corrected?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import told
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import ranges, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Uncorrected errors since the driver was loaded are data that was wrong; over the GPU's life they are history."""
    told_errors = told(facts, "ecc_uncorrected", lambda g: g.ecc_uncorrected)
    over = [g.index for g in facts.health.gpus if g.sram_threshold]
    now = {index: pair[0] for index, pair in told_errors.values.items() if pair[0]}
    if facts.gpu.nvml == "ok" and (now or over):
        named = some(f"GPU {index}: {number}" for index, number in sorted(now.items()))
        return Finding(
            "fail",
            f"uncorrected ECC errors since the driver was loaded: {named}"
            if now
            else f"SRAM error threshold exceeded on GPU {ranges(over)}",
            wanted="none",
            why="an engine that read these cells crashed or computed with wrong numbers",
            hint="reset the GPU (`nvidia-smi -r -i N`) or reboot; replace it over the SRAM threshold",
        )
    off = [g.index for g in facts.health.gpus if g.ecc is False]
    if facts.gpu.nvml == "ok" and off:
        return Finding(
            "warn",
            f"ECC is off on GPU {ranges(off)}",
            wanted="on",
            why="a flipped bit in weights or KV cache is served without a word",
            hint=f"`nvidia-smi -i {','.join(map(str, off))} -e 1`, then reset or reboot",
        )
    past = sum(pair[1] for pair in told_errors.values.values())
    return told_errors.rest(f"no uncorrected error since the driver was loaded, {past} over the GPUs' life")


CHECK = Check(
    id="gpu.ecc",
    asks="Is ECC on, and free of errors that were not corrected?",
    source="NVML ECC mode and counters",
    modes=ON_A_NODE,
    run=run,
)
