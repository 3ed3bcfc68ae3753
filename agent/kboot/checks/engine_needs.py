"""Which GPUs and which CUDA does a release of an engine need? As data, with its date.

Sources, read 2026-11-30: docs.vllm.ai, "Installation: GPU" of v0.14.0 (capability 7.0) and v0.21.0 (7.5);
docs.sglang.io, "Install SGLang" (0.5.19 is the last release for CUDA 12). Engines without a row are not judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Needs:
    """since: the first release that this is known of. capability: the lowest that its packages have kernels for.

    cuda: the lowest major version its packages are built for; None where several are published.
    """

    since: tuple[int, ...]
    capability: tuple[int, int]
    cuda: int | None = None


NEEDS: Mapping[str, tuple[Needs, ...]] = {
    "vllm": (Needs((0,), (7, 0)), Needs((0, 21), (7, 5))),
    "sglang": (Needs((0,), (7, 5)), Needs((0, 5, 20), (7, 5), 13)),
}


def needs_of(engine: str, version: str | None) -> Needs | None:
    """Return what a release needs; of a version that is not told, what every release of the engine does."""
    rows = NEEDS.get(engine)
    if rows is None:
        return None
    match = re.match(r"\d+(?:\.\d+)*", version or "")
    parts = tuple(int(part) for part in match.group().split(".")) if match else ()
    return max((row for row in rows if row.since <= parts), key=lambda row: row.since, default=rows[0])
