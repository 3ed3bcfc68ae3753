"""What does the GPU driver say to a step that can do without it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kboot.host.types import Host


def ask_driver(host: Host, timeout_s: float, say: Callable[[str], None]) -> Mapping[str, Any]:
    """Return NVML's answers; none, and say why, where it hangs or cannot be asked."""
    try:
        answers = host.nvml(timeout_s)
    except OSError as exc:
        say(f"the GPU driver cannot be asked: {exc}")
        return {}
    if answers.get("nvml_init") == "TIMEOUT":
        say(f"the GPU driver hangs: {answers.get('detail', 'no answer')}")
        return {}
    return answers
