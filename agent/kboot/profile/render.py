"""How is a profile shown, with where each value comes from?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from kboot.profile.load import DEFAULT, asked
from kboot.profile.merge import dotted
from kboot.profile.toml import toml_value
from kboot.profile.types import LayoutAsk, Profile

_NOT_SHOWN = frozenset({"name", "origin", "digest", "declared", "layout"})


def profile_to_json(profile: Profile) -> dict[str, object]:
    """Return the profile as it stands in a `--json` document."""
    return {**asked(profile), "digest": profile.digest, "origin": dict(profile.origin)}


def profile_to_text(profile: Profile) -> str:
    """Return the profile as TOML that loads to the same profile, each value with its origin beside it."""
    return "\n".join((f"# profile {profile.name}, digest {profile.digest}", *_lines(profile))) + "\n"


def _lines(profile: Profile) -> Iterator[str]:
    names = [f.name for f in fields(profile) if f.name not in _NOT_SHOWN]
    plain = [name for name in names if not is_dataclass(getattr(profile, name))]
    yield from (_pair(profile.origin, (name,), getattr(profile, name)) for name in plain)
    for name in names:
        if name not in plain:
            yield from _table(profile, name)
    for layout in profile.layout:
        yield from _layout(layout, profile.origin.get("layout", DEFAULT))


def _table(profile: Profile, name: str) -> Iterator[str]:
    section = getattr(profile, name)
    yield f"\n[{name}]"
    inner: list[str] = []
    for field in fields(section):
        value, path = getattr(section, field.name), (name, field.name)
        if isinstance(value, Mapping) and value:
            inner += [f"\n[{dotted(path)}]", *(_pair(profile.origin, (*path, k), v) for k, v in value.items())]
        elif value is None:
            yield f"# {field.name} is not set"
        else:
            yield _pair(profile.origin, path, value)
    yield from inner


def _layout(layout: LayoutAsk, origin: str) -> Iterator[str]:
    yield f"\n[[layout]]  # {origin}"
    yield from (f"{field.name} = {toml_value(getattr(layout, field.name))}" for field in fields(layout))


def _pair(origin: Mapping[str, str], path: tuple[str, ...], value: object) -> str:
    where = origin.get(dotted(path)) or _inside(origin, f"{dotted(path)}.")
    return f"{f'{dotted(path[-1:])} = {toml_value(value)}':<48}  # {where}"


def _inside(origin: Mapping[str, str], prefix: str) -> str:
    """Return the origins of a table that is shown on one line."""
    return ", ".join(sorted({where for key, where in origin.items() if key.startswith(prefix)})) or DEFAULT
