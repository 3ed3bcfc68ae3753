"""How is one question to NVML put, so that its error becomes a value?"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

_PREFIX = "NVML_ERROR_"


def ask_value(nvml: Any, question: Callable[[], Any]) -> Any:
    """Return what a question answers, or {"error": NAME}."""
    try:
        return question()
    except nvml.NVMLError as exc:
        return {"error": error_name(nvml, exc)}


def error_name(nvml: Any, exc: Any) -> str:
    """Return NOT_SUPPORTED for NVML_ERROR_NOT_SUPPORTED; the number for a code this binding does not know."""
    return code_name(nvml, exc.value)


def code_name(nvml: Any, code: int) -> str:
    """Return the name of a return code, "SUCCESS" for 0."""
    return "SUCCESS" if code == 0 else _names(nvml).get(code, f"CODE_{code}")


def text(value: Any) -> str:
    """Return a text, however the binding gives it."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


@cache
def _names(nvml: Any) -> dict[int, str]:
    return {getattr(nvml, name): name.removeprefix(_PREFIX) for name in reversed(dir(nvml)) if name.startswith(_PREFIX)}
