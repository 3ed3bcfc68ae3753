"""What does a benchmark say when it is done?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Value = float | int | str | None


@dataclass(frozen=True, slots=True)
class Document:
    """ratios: without unit, each the median over rounds of a quotient taken within one round.

    figures: with their unit in the name. left_out: ratio or figure → why it was not measured.
    """

    benchmark: str
    ratios: Mapping[str, float]
    figures: Mapping[str, Value]
    left_out: Mapping[str, str] = field(default_factory=dict)


def as_json(document: Document, host: Mapping[str, Value]) -> dict[str, object]:
    """Return the document as it is printed with --json."""
    return {
        "schema": 1,
        "kind": "benchmark",
        "benchmark": document.benchmark,
        "ratios": {k: _rounded(v) for k, v in document.ratios.items()},
        "figures": {k: _rounded(v) for k, v in document.figures.items()},
        "left_out": dict(document.left_out),
        "host": dict(host),
    }


def as_text(document: Document, host: Mapping[str, Value]) -> str:
    """Return the document for a person."""
    lines = [document.benchmark]
    lines += [f"  {name:<40} {_rounded(value)}" for name, value in document.ratios.items()]
    lines += [f"  {name:<40} {_rounded(value)}" for name, value in document.figures.items()]
    lines += [f"  {name:<40} left out: {why}" for name, why in document.left_out.items()]
    lines += ["on " + ", ".join(f"{name} {value}" for name, value in host.items())]
    return "\n".join(lines)


def _rounded(value: Value) -> Value:
    return round(value, 4) if isinstance(value, float) else value
