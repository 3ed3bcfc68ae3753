"""Takes out of a tree what must not go out with an image; each thing is told, and what is done is looked at again."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import assert_never

from kboot.errors import ActionFailed, KbootError
from kboot.facts import residue_places as places
from kboot.facts.secret_text import without_secrets
from kboot.host.clock import monotonic_s, run_unix_s
from kboot.host.image import ImageTree
from kboot.host.os_errors import explained
from kboot.jsontext import parse_json
from kboot.plan.seal import BlankSecrets, DropLogins, ForgetFiles, MakeEmpty, SealAction, TakeAway, describe_seal
from kboot.report.types import Outcome
from kboot.store.ledger import forget_files

_TEXT_BYTES = 16 << 20
_LOGINS = ("auths", "HttpHeaders")


def seal(actions: Sequence[SealAction], tree: ImageTree, secrets: Collection[bytes]) -> tuple[Outcome, ...]:
    """Carry out every action, in their order; one that fails is told and stops none of the others.

    secrets: what a text is freed of, beside everything that looks like a token or a private key.
    """
    return tuple(_carry_out(action, tree, secrets) for action in actions)


def _carry_out(action: SealAction, tree: ImageTree, secrets: Collection[bytes]) -> Outcome:
    started_unix_s, clock_s = run_unix_s(), monotonic_s()
    error: KbootError | None = None
    try:
        _do(action, tree, secrets)
    except KbootError as exc:
        error = exc
    return Outcome(
        phase="seal",
        title=describe_seal(action),
        reason=action.reason,
        status="failed" if error else "done",
        start_unix_s=started_unix_s,
        seconds=monotonic_s() - clock_s,
        error=error,
    )


def _do(action: SealAction, tree: ImageTree, secrets: Collection[bytes]) -> None:
    match action:
        case TakeAway():
            tree.remove(action.path, wipe=action.wipe)
        case MakeEmpty(path=places.MACHINE_ID):
            tree.write(action.path, b"", 0o444)
        case MakeEmpty():
            tree.write(action.path, b"")
        case BlankSecrets():
            tree.write(action.path, blank(_read(tree, action.path), secrets, logins=action.logins))
        case DropLogins():
            tree.write(action.path, without_logins(_read(tree, action.path)))
        case ForgetFiles():
            _forget(tree, action.path)
        case _:
            assert_never(action)


def _forget(tree: ImageTree, path: str) -> None:
    with explained("open the ledger", tree.root / path), tree.database(path) as ledger:
        forget_files(ledger, wipe=True)


def blank(text: bytes, secrets: Collection[bytes], *, logins: bool = False) -> bytes:
    """Return a text without secrets; quotes and names around them stay, so that it still reads as it did.

    logins: also without passwords in settings of package managers and networks, and without logins in URLs.
    """
    text = places.SECRET_VARIABLES.sub(lambda m: m[1] + m[2], without_secrets(text, secrets))
    if not logins:
        return text
    return places.SECRET_SETTINGS.sub(lambda m: m[1] + m[2], places.URL_LOGIN.sub(lambda m: m[1], text))


def without_logins(data: bytes) -> bytes:
    """Return a docker configuration without logins; one that is no JSON object becomes an empty one."""
    try:
        document = parse_json(data)
    except ValueError:
        document = None
    kept = document if isinstance(document, dict) else {}
    return json.dumps({k: v for k, v in kept.items() if k not in _LOGINS}, indent="\t").encode() + b"\n"


def _read(tree: ImageTree, path: str) -> bytes:
    try:
        data = tree.read(path, _TEXT_BYTES + 1)
    except OSError as exc:
        raise ActionFailed("seal-not-readable", f"/{path} cannot be read: {exc.strerror}") from exc
    if len(data) > _TEXT_BYTES:
        raise ActionFailed("seal-too-large", f"/{path} is too large to be a text with a setting in it")
    return data
