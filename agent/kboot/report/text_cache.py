"""How do kernel caches read: why one missed, and what a clean-up does? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kboot.checks.words import count
from kboot.quantities import show_seconds, show_time
from kboot.report.document import Document, document, plain
from kboot.report.render_text import Paint, Style, join, no_paint, shorten, width_now, wrap

if TYPE_CHECKING:
    from kboot.report.cache_causes import Cause
    from kboot.report.cache_explain import CacheVerdict, Explanation

_VERDICTS: dict[str, tuple[str, Style]] = {
    "hit": ("loaded", "good"),
    "partly": ("loaded in part", "warn"),
    "miss": ("missed", "bad"),
    "unknown": ("not said", "faint"),
}
_AVOIDABLE = {
    "yes": "avoidable",
    "no": "not avoidable",
    "once": "not avoidable, and over: it happens once",
}
_SHOWN_FOLDERS = 4
_BESIDE = 20  # columns for the words beside a value


def explanation_text(found: Explanation, *, paint: Paint = no_paint) -> str:
    """Return for a person what changed between two boots, and what that did to each cache."""
    boot, against = found.boot, found.against
    lines = wrap(
        f"boot of {boot.profile} at {show_time(boot.started_unix_s)}, against {show_time(against.started_unix_s)}",
    )
    same = boot.key == against.key
    lines += wrap(f"{boot.key}{' (the same)' if same else ''}", "  key  ")
    lines += [] if same else wrap(against.key, "  was  ")
    lines += ["", *_causes(found.causes, paint)]
    for cache in found.caches:
        lines += ["", *_cache(cache, same, paint)]
    if found.harmless:
        lines += ["", paint("changed, without effect", "faint")]
        lines += [line for text in found.harmless for line in wrap(text, "  - ")]
    return join(lines)


def explanation_document(found: Explanation) -> Document:
    """Return the same for a program."""
    return document(
        "cache-explanation",
        {
            "boot": _which(found, "boot"),
            "against": _which(found, "against"),
            "same_key": found.boot.key == found.against.key,
            "cost_s": found.cost_s,
            "causes": plain(found.causes),
            "harmless": list(found.harmless),
            "caches": plain(found.caches),
        },
    )


def _which(found: Explanation, side: str) -> Document:
    manifest = getattr(found, side)
    return {
        "boot_id": manifest.boot_id,
        "profile": manifest.profile,
        "started_unix_s": manifest.started_unix_s,
        "state": manifest.state,
        "key": manifest.key,
    }


def _causes(causes: Sequence[Cause], paint: Paint) -> list[str]:
    if not causes:
        return ["no factor of the caches changed"]
    lines = [paint(f"{count(len(causes), 'factor')} changed", "strong")]
    for cause in causes:
        lines += wrap(f"{cause.factor}: {_change(cause)}", "  ")
        lines += wrap(f"{cause.says}", "    ")
        lines += wrap(f"{', '.join(cause.caches)}; {_AVOIDABLE[cause.avoidable]}", "    invalidates: ")
    return lines


def _change(cause: Cause) -> str:
    return f"was {_value(cause.old)}, is {_value(cause.new)}"


def _value(text: str) -> str:
    return shorten(text, width_now() - _BESIDE) if text else "absent"


def _cache(cache: CacheVerdict, same_key: bool, paint: Paint) -> list[str]:
    words, style = _VERDICTS[cache.verdict]
    lines = [f"{paint(cache.cache, 'strong')}: {paint(words, style)}"]
    lines += wrap(_time(cache), "  ") if _time(cache) else []
    if same_key:
        lines += _folders("new folder", cache.new) + _folders("not found again", cache.gone)
    if cache.verdict in ("miss", "partly") or cache.new or cache.gone:
        named = ", ".join(dict.fromkeys(c.factor for c in cache.why))
        lines += wrap(named or "no factor on record explains it", "  because of: ")
    return lines


def _time(cache: CacheVerdict) -> str:
    if cache.seconds is None:
        return ""
    then = "" if cache.then_s is None else f", {show_seconds(cache.then_s)} in the boot compared with"
    cost = "" if cache.cost_s is None else f"; the miss cost {show_seconds(cache.cost_s)}"
    return f"took {show_seconds(cache.seconds)}{then}{cost}"


def _folders(title: str, folders: Sequence[str]) -> list[str]:
    more = len(folders) - _SHOWN_FOLDERS
    lines = [line for name in folders[:_SHOWN_FOLDERS] for line in wrap(name, f"  {title}: ")]
    return [*lines, *([f"  and {more} more"] if more > 0 else [])]
