"""How do the stages look beside one another? One SVG of stacked bars, without a library. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpubench.stages import STAGES, Row

_COLOURS = ("#4c9a6a", "#8e8e8e", "#b9a3d6", "#3f7fbf", "#d9822b", "#c9b037", "#b5524a", "#59636e")
_WIDTH, _LEFT, _RIGHT, _BAR, _STEP, _TOP = 860, 130, 70, 24, 38, 64
_NAMED_PX = 30


def bars(found: Sequence[Row], heading: str) -> str:
    """Return the picture: a bar for each row, its length the time to ready."""
    longest = max((row.ready_s for row in found), default=1.0)
    scale = (_WIDTH - _LEFT - _RIGHT) / longest
    height = _TOP + _STEP * len(found) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(heading)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="20" font-size="14" font-weight="bold" fill="#222222">{escape(heading)}</text>',
        *_legend(),
        *_axis(longest, scale, _TOP + _STEP * len(found) + 4),
    ]
    for number, row in enumerate(found):
        parts += _bar(row, _TOP + _STEP * number, scale)
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> list[str]:
    parts, x = [], 10
    for name, colour in zip(STAGES, _COLOURS, strict=True):
        parts.append(f'<rect x="{x}" y="32" width="11" height="11" fill="{colour}"/>')
        parts.append(f'<text x="{x + 15}" y="42" fill="#222222" font-size="11">{escape(name)}</text>')
        x += 30 + round(6.2 * len(name))
    return parts


def _bar(row: Row, y: int, scale: float) -> list[str]:
    parts = [f'<text x="{_LEFT - 8}" y="{y + 16}" text-anchor="end" fill="#222222">{escape(row.way)}</text>']
    x = float(_LEFT)
    for name, colour in zip(STAGES, _COLOURS, strict=True):
        width = row.stages[name] * scale
        if width <= 0:
            continue
        said = f"{row.way}: {name} {row.stages[name]:.1f} s"
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}">'
            f"<title>{escape(said)}</title></rect>"
        )
        if width >= _NAMED_PX:
            parts.append(
                f'<text x="{x + width / 2:.1f}" y="{y + 16}" text-anchor="middle" fill="#ffffff" font-size="11">'
                f"{row.stages[name]:.1f}</text>"
            )
        x += width
    parts.append(f'<text x="{x + 6:.1f}" y="{y + 16}" font-weight="bold" fill="#222222">{row.ready_s:.1f} s</text>')
    return parts


def _axis(longest: float, scale: float, y: int) -> list[str]:
    step = next((s for s in (1, 2, 5, 10, 20, 50, 100, 200) if longest / s <= 8), 500)
    parts = []
    for second in range(0, int(longest) + 1, step):
        x = _LEFT + second * scale
        parts.append(f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{y}" stroke="#dddddd"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{y + 14}" text-anchor="middle" fill="#666666" font-size="11">{second} s</text>'
        )
    return parts
