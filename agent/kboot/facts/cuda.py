"""What do the answers of the CUDA probe say? Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kboot.facts.gpu import normal_bus_id
from kboot.facts.link_types import CudaDevice, CudaFacts, CudaState

_STATE_OF: Mapping[str, CudaState] = {
    "OK": "ok",
    "LIBRARY_NOT_FOUND": "no-library",
    "TIMEOUT": "hung",
    "CRASHED": "crashed",
}


def cuda_facts(answers: Mapping[str, Any]) -> CudaFacts:
    """Return the facts of answers in the form of `kboot.host.cuda_child`; others count as crashed."""
    word = answers.get("cuda_init")
    if not isinstance(word, str):
        return CudaFacts("crashed", detail=f"its answer has no cuda_init: {str(answers)[:80]}")
    state = _STATE_OF.get(word, "refused")
    devices = answers.get("devices")
    code = answers.get("code")
    return CudaFacts(
        state=state,
        error=word if state == "refused" else "",
        code=code if isinstance(code, int) else 0,
        detail=str(answers.get("detail", "")),
        devices=tuple(_device(d) for d in devices if isinstance(d, dict)) if isinstance(devices, list) else (),
    )


def _device(answer: Mapping[str, Any]) -> CudaDevice:
    peers, rate, failed = answer.get("peers"), answer.get("h2d_bytes_per_s"), answer.get("failed")
    return CudaDevice(
        bus_id=_bus_id(answer.get("bus_id")),
        failed=failed if isinstance(failed, str) else None,
        peers={_bus_id(bus): can for bus, can in peers.items() if isinstance(can, bool)}
        if isinstance(peers, dict)
        else {},
        h2d_bytes_per_s=float(rate) if isinstance(rate, int | float) and rate > 0 else None,
    )


def _bus_id(text: object) -> str:
    try:
        return normal_bus_id(str(text))
    except ValueError:
        return ""
