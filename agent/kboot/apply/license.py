"""Were the model's terms accepted on this node, for the very text that the pinned commit carries?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kboot.errors import LicenseNotAccepted, SourceError, VerificationFailed
from kboot.host.clock import unix_s
from kboot.host.files import atomic_write, make_dirs, read_small
from kboot.jsontext import parse_json
from kboot.store.verifier import prove
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.checkpoint import Listing
    from kboot.host.paths import Paths
    from kboot.profile.types import Profile
    from kboot.sources.types import Source
    from kboot.store.store import Store

SCHEMA = 1
MAX_TERMS_BYTES = 1 << 20
_MAX_RECORD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Who accepted which text when. commit: where the text was read. text_sha256: of its bytes."""

    repo: str
    license: str
    profile: str
    commit: str
    text_sha256: str
    text_bytes: int
    accepted_by: str
    accepted_unix_s: float


@dataclass(frozen=True, slots=True)
class LicenseState:
    """accepted and not-needed let a hand-off pass. record: the last acceptance. why: one sentence."""

    status: Literal["accepted", "not-needed", "changed", "missing"]
    why: str
    record: Acceptance | None = None

    @property
    def passes(self) -> bool:
        """True where nothing stands between this model and a hand-off."""
        return self.status in ("accepted", "not-needed")


def accept(profile: Profile, text: bytes, commit: str, who: str, paths: Paths) -> Acceptance:
    """Record that `who` accepted this text; the record is durable on return.

    Raises:
        ActionFailed, DoesNotFit: the record cannot be written.
    """
    record = Acceptance(
        repo=profile.checkpoint.repo,
        license=profile.license.name,
        profile=profile.name,
        commit=commit,
        text_sha256=hashlib.sha256(text).hexdigest(),
        text_bytes=len(text),
        accepted_by=who,
        accepted_unix_s=unix_s(),
    )
    document = {"schema": SCHEMA, "kind": "license-acceptance", **asdict(record)}
    make_dirs(paths.licenses)
    atomic_write(record_path(profile, paths), json.dumps(document, indent=2, sort_keys=True).encode() + b"\n", 0o644)
    return record


def status(profile: Profile, paths: Paths, text_sha256: str | None) -> LicenseState:
    """Return where this node stands.

    text_sha256: of the licence file at the pinned commit; None while it is not known (nothing fetched yet).
    """
    if not profile.license.accept_required:
        return LicenseState("not-needed", "the profile asks for no acceptance")
    path = record_path(profile, paths)
    try:
        record = _parse(read_small(path, _MAX_RECORD_BYTES))
    except FileNotFoundError:
        return LicenseState("missing", f"nobody accepted {profile.license.name} on this node")
    except (OSError, ValueError, OverflowError) as exc:
        return LicenseState("missing", f"the record {path} cannot be read: {exc}")
    return _compare(profile, record, text_sha256)


def require(profile: Profile, paths: Paths, text_sha256: str | None) -> LicenseState:
    """Return the state when it lets a hand-off pass.

    Raises:
        LicenseNotAccepted: license-not-accepted or license-changed, with the command to run.
    """
    state = status(profile, paths, text_sha256)
    if state.passes:
        return state
    code = "license-changed" if state.status == "changed" else "license-not-accepted"
    raise LicenseNotAccepted(
        code,
        f"{profile.license.name} of {profile.checkpoint.repo}: {state.why}",
        where=profile.license.summary,
        hint=f"read it: `kboot license show --profile {profile.name}`; "
        f"then `kboot license accept --profile {profile.name}`",
    )


def read_terms(profile: Profile, listing: Listing, store: Store, sources: Sequence[Source]) -> bytes | None:
    """Return the licence text of the listing's commit, proven: from this disk, else from the first source that has it.

    None: the commit has no such file, or nobody delivers it.
    """
    file = next((f for f in listing.files if f.path == profile.license.file), None)
    if file is None or file.size_bytes > MAX_TERMS_BYTES:
        return None
    text = store.read_proven(listing.repo, file, MAX_TERMS_BYTES)
    for source in () if text is not None else sources:
        try:
            text = source.read(listing.repo, listing.commit, file, MAX_TERMS_BYTES)
            prove(file, text)
        except (SourceError, VerificationFailed):
            text = None
        else:
            break
    return text


def record_path(profile: Profile, paths: Paths) -> Path:
    """Return where the record of a profile's repository lies; profiles of one repository share it."""
    return paths.licenses / f"{profile.checkpoint.repo.replace('/', '--')}.json"


def _compare(profile: Profile, record: Acceptance, text_sha256: str | None) -> LicenseState:
    if record.repo != profile.checkpoint.repo:
        return LicenseState("missing", f"the record is of {record.repo}", record)
    if record.license != profile.license.name:
        return LicenseState("changed", f"what was accepted is {record.license!r}", record)
    if text_sha256 is not None and record.text_sha256 != text_sha256:
        then, now = record.text_sha256[:12], text_sha256[:12]
        return LicenseState(
            "changed", f"the text changed since it was accepted: sha256 {then}… then, {now}… now", record
        )
    by = f"accepted by {record.accepted_by}, sha256 {record.text_sha256[:12]}…"
    return LicenseState("accepted", by if text_sha256 else f"{by}; the text was not compared", record)


def _parse(data: bytes) -> Acceptance:
    """Raise ValueError for anything that kboot did not write."""
    document: Any = parse_json(data)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"not a licence record of schema {SCHEMA}")
    return Acceptance(
        repo=_text(document, "repo"),
        license=_text(document, "license"),
        profile=_text(document, "profile"),
        commit=_text(document, "commit"),
        text_sha256=_text(document, "text_sha256"),
        text_bytes=int(_number(document, "text_bytes")),
        accepted_by=_text(document, "accepted_by"),
        accepted_unix_s=_number(document, "accepted_unix_s"),
    )


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a text")
    return value


def _number(document: Mapping[str, Any], name: str) -> float:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} is not a number")
    return float(value)
