"""Which profile is asked for, and what does it say once drop-ins and `--set` are laid over it?"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path

from kboot.errors import ProfileError
from kboot.host.files import list_names
from kboot.host.paths import Paths
from kboot.profile.document import Document, is_missing, parse_override, read_document
from kboot.profile.merge import dotted, merge_documents
from kboot.profile.resources import shipped_profiles
from kboot.profile.rules import PROFILE_NAME
from kboot.profile.secrets import without_secrets
from kboot.profile.types import NodeClass, Profile
from kboot.profile.validate import validate
from kboot.values import dataclass

DEFAULT = "default"
_SUFFIX = ".toml"
_NAMED = 20
"""Of the profiles that are known, so many are listed beside a name that none has."""


@dataclass(frozen=True, slots=True)
class ProfileSummary:
    """One line of `kboot profile list`. where: the file. error: why it cannot be used; None when it can."""

    name: str
    title: str
    where: str
    layouts: tuple[str, ...]
    error: ProfileError | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """A profile's file. origin: how it is named to people."""

    name: str
    path: Path
    origin: str


def load_profile(name_or_path: str, paths: Paths, overrides: Sequence[str] = ()) -> Profile:
    """Return the profile, merged and valid, with the origin of every value.

    name_or_path: a path to a .toml file, else the name of `<config>/profiles/<name>.toml` or of a shipped profile.
    Over it: `<config>/profiles/<name>.d/*.toml` in the order of their names, then `overrides` ("serve.port=8001").

    Raises:
        ProfileError: profile-not-found, profile-not-readable, profile-broken-toml, profile-not-valid.
    """
    found = _find(name_or_path, paths)
    documents = (
        read_document(found.path, found.origin),
        *(read_document(path, str(path)) for path in _drop_ins(found.name, paths)),
        *(parse_override(text) for text in overrides),
    )
    return build_profile(found.name, documents)


def build_profile(name: str, documents: tuple[Document, ...]) -> Profile:
    """Return the profile that these documents make, later ones over earlier ones.

    Raises:
        ProfileError: profile-not-valid, with every problem.
    """
    merged = merge_documents(documents)
    profile = validate(Profile, merged, documents, f"profile {name}", {"name": name}, "profile")
    origin = {key: merged.origin.get(key, DEFAULT) for key in _keys(asked(profile))}
    return replace(profile, origin=origin, digest=digest(profile))


def asked(profile: Profile) -> dict[str, object]:
    """Return everything that is asked, as plain values; not where it comes from."""
    values = asdict(profile)
    del values["origin"], values["digest"], values["declared"]
    return values


def digest(profile: Profile) -> str:
    """Return the sha256 of everything that is asked, as canonical JSON."""
    text = json.dumps(asked(profile), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def list_profiles(paths: Paths) -> tuple[ProfileSummary, ...]:
    """Return every profile there is, the operator's in place of shipped ones of the same name; none is left out."""
    return tuple(_summary(found, paths) for found in _all_profiles(paths))


def load_node_classes(paths: Paths | None = None) -> tuple[NodeClass, ...]:
    """Return the node classes by name; `<config>/nodes/<name>.toml` replaces the shipped one of that name.

    Raises:
        ProfileError: node-class-not-valid, node-class-broken-toml, node-class-not-readable.
    """
    files = _toml_files(shipped_profiles() / "nodes", "profiles/nodes")
    if paths is not None:
        files |= _toml_files(paths.config / "nodes", str(paths.config / "nodes"))
    return tuple(_node_class(found) for _name, found in sorted(files.items()))


def _node_class(found: _Found) -> NodeClass:
    documents = (read_document(found.path, found.origin, "node-class"),)
    return validate(NodeClass, merge_documents(documents), documents, f"node class {found.name}", {}, "node-class")


def _summary(found: _Found, paths: Paths) -> ProfileSummary:
    try:
        profile = load_profile(found.name if PROFILE_NAME.test(found.name) else str(found.path), paths)
    except ProfileError as exc:
        return ProfileSummary(found.name, "", found.origin, (), exc)
    return ProfileSummary(found.name, profile.model.title, found.origin, tuple(each.name for each in profile.layout))


def _find(name_or_path: str, paths: Paths) -> _Found:
    if name_or_path.endswith(_SUFFIX) or "/" in name_or_path:
        path = Path(name_or_path)
        name = path.name.removesuffix(_SUFFIX)
        if is_missing(path):
            raise _not_found(name_or_path, name, paths)
        _check_name(name, (name_or_path,))
        return _Found(name, path, name_or_path)
    _check_name(name_or_path)
    found = {each.name: each for each in _all_profiles(paths)}.get(name_or_path)
    if found is None:
        raise _not_found(name_or_path, name_or_path, paths)
    return found


def _check_name(name: str, where: tuple[str, ...] = ()) -> None:
    if not PROFILE_NAME.test(name):
        raise ProfileError(
            "profile-not-valid",
            f"{without_secrets(name)!r} cannot be a profile's name: {PROFILE_NAME.wanted}",
            where=where,
        )


def _not_found(asked_for: str, name: str, paths: Paths) -> ProfileError:
    if asked_for != name:
        return ProfileError(
            "profile-not-found",
            f"there is no file {without_secrets(asked_for)}",
            hint="a profile that is installed goes by its name alone: `kboot profile list`",
        )
    known = [found.name for found in _all_profiles(paths)]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return ProfileError(
        "profile-not-found",
        f"there is no profile {without_secrets(asked_for)!r}",
        where=(
            f"known: {', '.join(known[:_NAMED])}{more}",
            f"looked in {paths.config / 'profiles'} and the profiles of kboot",
        ),
        hint=f"did you mean {near[0]}?" if near else "`kboot profile list` shows what each is for",
    )


def _all_profiles(paths: Paths) -> tuple[_Found, ...]:
    """By name, nearest first wins: the operator's, shipped models, other shipped profiles."""
    shipped = shipped_profiles()
    files = (
        _toml_files(shipped, "profiles")
        | _toml_files(shipped / "models", "profiles/models")
        | _toml_files(paths.config / "profiles", str(paths.config / "profiles"))
    )
    return tuple(found for _name, found in sorted(files.items()))


def _toml_files(folder: Path, origin: str) -> dict[str, _Found]:
    names = (name for name in _names(folder) if name.endswith(_SUFFIX) and not name.startswith("."))
    return {
        (stem := name.removesuffix(_SUFFIX)): _Found(stem, folder / name, f"{origin}/{name}")
        for name in names
        if name != _SUFFIX
    }


def _drop_ins(name: str, paths: Paths) -> Iterator[Path]:
    folder = paths.config / "profiles" / f"{name}.d"
    yield from (found.path for found in _toml_files(folder, str(folder)).values())


def _names(folder: Path) -> tuple[str, ...]:
    """A folder that is not there holds nothing; one that cannot be read is an error, not an empty one."""
    try:
        return list_names(folder)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as exc:
        raise ProfileError(
            "profile-not-readable",
            f"the folder of profiles cannot be read: {exc.strerror}",
            where=(str(folder),),
            hint=f"see who may read it: `namei -l {folder}`",
        ) from exc


def _keys(node: object, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the dotted key of every value; a list is one value, as in merging."""
    if isinstance(node, Mapping) and (node or not path):
        for key, child in node.items():
            yield from _keys(child, (*path, key))
    elif is_dataclass(node) and not isinstance(node, type):
        for field in fields(node):
            yield from _keys(getattr(node, field.name), (*path, field.name))
    elif path != ("name",):
        yield dotted(path)
