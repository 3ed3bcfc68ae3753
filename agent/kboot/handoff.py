"""May this node serve what was prepared on it? What the hand-off record says, who signed it, what has changed since.

Imports little: `kboot exec` reads a record on the way to every engine start.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import astuple, fields, replace
from typing import TYPE_CHECKING, Any

from kboot.errors import ActionFailed
from kboot.host.files import Identity
from kboot.jsontext import parse_json
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.checkpoint import Listing
    from kboot.plan.types import Plan

SCHEMA = 1

_KIND = "handoff"
_SIGNATURE = "signature"
_PREFIX = "hmac-sha256:"
_NAMED_FILES = 3


@dataclass(frozen=True, slots=True)
class FileMark:
    """One file as it was when it was verified; path: below the model's path, links followed."""

    path: str
    identity: Identity


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """What one worker was planned to get, for the comparison with the live one. serve_cpus: see WorkerShare."""

    worker: int
    gpu: int | None
    cpus: tuple[int, ...]
    threads: int
    memory_node: int | None
    serve_cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HandoffRecord:
    """Everything `kboot exec` needs to become the engine, and what must still hold when it does.

    verify_claim: what was proven, in words. files: every file an engine may read. cpus: of the whole engine.
    memory_node: where all workers have the same one. env: set on top of the inherited environment, after `unset`.
    health_url and its like: None where the engine has no HTTP on this node.
    """

    boot_id: str
    profile: str
    profile_digest: str
    repo: str
    commit: str
    manifest_digest: str
    verify_mode: str
    verified_unix_s: float
    verify_claim: str
    model_path: str
    files: tuple[FileMark, ...]
    engine: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    unset: tuple[str, ...]
    cpus: tuple[int, ...]
    memory_node: int | None
    workers: tuple[WorkerPlan, ...]
    worker_titles: tuple[str, ...]
    cache_key: str
    cache_dir: str
    served_name: str
    health_url: str | None
    models_url: str | None
    completion_url: str | None
    ready_timeout_s: int
    kboot_version: str
    created_unix_s: float


@dataclass(frozen=True, slots=True)
class Observed:
    """What a node shows now of what a record says.

    model_commit: the last part of where the model's path leads; None when it is no link. files: None for a file that
    is not there. profile_digest: None when the profile was not read again.
    """

    boot_id: str
    model_commit: str | None
    files: Mapping[str, Identity | None]
    cache_exists: bool
    program_exists: bool
    profile_digest: str | None = None


def manifest_digest(listing: Listing) -> str:
    """Return one hash over path, size and content hash of every wanted file."""
    lines = (
        f"{f.path}\0{f.size_bytes}\0{f.sha256 or f.blob_id}\n" for f in sorted(listing.files, key=lambda f: f.path)
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def record_of(
    plan: Plan,
    *,
    boot_id: str,
    profile_digest: str,
    files: tuple[FileMark, ...],
    verified_unix_s: float,
    verify_claim: str,
    kboot_version: str,
    created_unix_s: float,
) -> HandoffRecord:
    """Return the record of a plan that was carried out."""
    launch, shares = plan.launch, plan.placement.workers
    nodes = {w.memory_node for w in shares}
    return HandoffRecord(
        boot_id=boot_id,
        profile=plan.profile,
        profile_digest=profile_digest,
        repo=plan.listing.repo,
        commit=plan.listing.commit,
        manifest_digest=manifest_digest(plan.listing),
        verify_mode=plan.verify_mode,
        verified_unix_s=verified_unix_s,
        verify_claim=verify_claim,
        model_path=plan.model_path,
        files=tuple(sorted(files, key=lambda f: f.path)),
        engine=launch.engine,
        argv=launch.argv,
        env=tuple((s.name, s.value) for s in launch.env),
        unset=launch.unset,
        cpus=tuple(sorted({*plan.placement.housekeeping, *(cpu for w in shares for cpu in w.cpus)})),
        memory_node=nodes.pop() if len(nodes) == 1 else None,
        workers=workers_of(plan),
        worker_titles=launch.worker_titles,
        cache_key=plan.cache_key.name,
        cache_dir=plan.cache_dir,
        served_name=launch.served_name,
        health_url=launch.health_url,
        models_url=launch.models_url,
        completion_url=launch.completion_url,
        ready_timeout_s=launch.ready_timeout_s,
        kboot_version=kboot_version,
        created_unix_s=created_unix_s,
    )


def workers_of(plan: Plan) -> tuple[WorkerPlan, ...]:
    """Return what each worker of a plan gets."""
    return tuple(
        WorkerPlan(w.worker, w.gpu, w.cpus, w.threads, w.memory_node, w.serve_cpus) for w in plan.placement.workers
    )


def sign(record: HandoffRecord, key: bytes) -> bytes:
    """Return the record as signed JSON."""
    document = {"schema": SCHEMA, "kind": _KIND, **_to_json(record)}
    return json.dumps({**document, _SIGNATURE: _signature(document, key)}, indent=1).encode() + b"\n"


def parse(data: bytes, key: bytes) -> HandoffRecord:
    """Return a record that this node's key has signed.

    Raises:
        ActionFailed: handoff-forged, when it is not one; handoff-stale, when another version of kboot wrote it.
    """
    try:
        document = parse_json(data)
        signature = document.pop(_SIGNATURE)
    except (ValueError, KeyError, AttributeError, TypeError) as exc:
        raise forged("it is not a signed record") from exc
    if not hmac.compare_digest(str(signature).encode(), _signature(document, key).encode()):
        raise forged("its signature is not this node's")
    if (document.pop("schema", None), document.pop("kind", None)) != (SCHEMA, _KIND):
        raise stale(("another version of kboot wrote it",))
    try:
        return _from_json(document)
    except (KeyError, TypeError, ValueError) as exc:
        raise stale(("another version of kboot wrote it",)) from exc


def differences(record: HandoffRecord, now: Observed) -> tuple[str, ...]:
    """Return what has changed since the record was written, a sentence each; empty when it holds."""
    found = []
    if record.boot_id != now.boot_id:
        found.append("the machine was started again since")
    if now.profile_digest not in (None, record.profile_digest):
        found.append(f"profile {record.profile} says something else now")
    if now.model_commit is None:
        found.append(f"{record.model_path} is not there any more")
    elif now.model_commit != record.commit:
        found.append(f"{record.model_path} leads to {now.model_commit[:12]}, not to {record.commit[:12]}")
    else:
        found += _changed_files(record, now)
    if not now.cache_exists:
        found.append(f"the kernel cache {record.cache_dir} is gone")
    if not now.program_exists:
        found.append(f"the engine's program {record.argv[0]} is gone")
    return tuple(found)


def outdated(old: HandoffRecord, new: HandoffRecord) -> tuple[str, ...]:
    """Return why a new plan needs another record, a sentence each; empty when the old one says the same.

    When it was written and how the bytes were proven may differ: the files are the same ones.
    """
    same = replace(old, **{name: getattr(new, name) for name in ("verified_unix_s", "verify_claim", "created_unix_s")})
    names = [f.name for f in fields(new) if getattr(same, f.name) != getattr(new, f.name)]
    return tuple(f"{_WORDS.get(name, name.replace('_', ' '))} changed" for name in names)


def stale(found: tuple[str, ...]) -> ActionFailed:
    """Return the error for a record that does not hold any more."""
    return ActionFailed(
        "handoff-stale",
        f"the hand-off record does not hold any more: {found[0]}",
        where=found[1:],
        hint="run `kboot boot`",
    )


_WORDS = {
    "argv": "the engine's command line",
    "env": "the engine's environment",
    "files": "a file's identity",
    "cpus": "the CPUs",
    "workers": "the workers' shares",
    "boot_id": "the boot id",
    "kboot_version": "kboot's version",
}


def _changed_files(record: HandoffRecord, now: Observed) -> list[str]:
    gone = [m.path for m in record.files if now.files.get(m.path) is None]
    changed = [
        f"{m.path} ({_what(m.identity, seen)})"
        for m in record.files
        if (seen := now.files.get(m.path)) is not None and seen != m.identity
    ]
    return [*_some(gone, "is missing", "are missing"), *_some(changed, "changed since it was verified")]


def _what(then: Identity, seen: Identity) -> str:
    if then.size_bytes != seen.size_bytes:
        return f"{then.size_bytes} bytes then, {seen.size_bytes} now"
    if (then.dev, then.inode) != (seen.dev, seen.inode):
        return "another file"
    return "written" if then.mtime_ns != seen.mtime_ns else "ctime"


def _some(paths: list[str], what: str, what_many: str = "") -> list[str]:
    named = [f"{path} {what}" for path in paths[:_NAMED_FILES]]
    more = len(paths) - len(named)
    return [*named, *([f"and {more} more {what_many or what}"] if more else [])]


def forged(why: str) -> ActionFailed:
    """Return the error for a record that this node did not write."""
    return ActionFailed(
        "handoff-forged",
        f"the hand-off record cannot be trusted: {why}",
        hint="find out who wrote it; `kboot boot` writes a new one",
    )


def _signature(document: Mapping[str, Any], key: bytes) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return _PREFIX + hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _to_json(record: HandoffRecord) -> dict[str, Any]:
    document: dict[str, Any] = {f.name: getattr(record, f.name) for f in fields(record)}
    document["files"] = [[m.path, *astuple(m.identity)] for m in record.files]
    document["workers"] = [{f.name: getattr(w, f.name) for f in fields(w)} for w in record.workers]
    return document


def _worker(document: Mapping[str, Any]) -> WorkerPlan:
    lists = {name: tuple(document[name]) for name in ("cpus", "serve_cpus")}
    return WorkerPlan(**{**document, **lists})


def _from_json(document: Mapping[str, Any]) -> HandoffRecord:
    values = dict(document)
    values["files"] = tuple(FileMark(path, Identity(*numbers)) for path, *numbers in values["files"])
    values["workers"] = tuple(_worker(w) for w in values["workers"])
    values["env"] = tuple((name, value) for name, value in values["env"])
    for name in ("argv", "unset", "cpus", "worker_titles"):
        values[name] = tuple(values[name])
    return HandoffRecord(**values)
