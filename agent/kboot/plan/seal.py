"""What must be taken out of an image before it goes out, what may stay in it, and may this machine be sealed at all?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from kboot.errors import UsageError
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.residue import Residue, ResidueKind


@dataclass(frozen=True, slots=True)
class TakeAway:
    """Remove a file, or a folder with all below it. wipe: its bytes are a secret, and are overwritten first."""

    path: str
    reason: str
    wipe: bool = False


@dataclass(frozen=True, slots=True)
class MakeEmpty:
    """Leave the file, without content; it is made where there is none."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class BlankSecrets:
    """Take the secrets out of a text, and leave the rest of it as it is. logins: passwords in settings and URLs too."""

    path: str
    reason: str
    logins: bool = False


@dataclass(frozen=True, slots=True)
class DropLogins:
    """Take the logins out of a docker configuration, and leave its other settings."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class ForgetFiles:
    """Take the rows out of the ledger that name files as the builder's file system does."""

    path: str
    reason: str


SealAction = TakeAway | MakeEmpty | BlankSecrets | DropLogins | ForgetFiles


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left where it is, for a person to decide. blocks: the image is not sealed as long as it is there."""

    path: str
    why: str
    blocks: bool


@dataclass(frozen=True, slots=True)
class SealPlan:
    """Both by path."""

    actions: tuple[SealAction, ...]
    remains: tuple[Remains, ...]

    @property
    def blocked(self) -> tuple[Remains, ...]:
        """Return what stands between this tree and a sealed image and is not kboot's to change."""
        return tuple(r for r in self.remains if r.blocks)


def plan_seal(found: Sequence[Residue], config: str, *, login_keys: bool, keep: Sequence[str] = ()) -> SealPlan:
    """Return what to do about everything found.

    config: kboot's configuration folder; a profile that lost a part of a URL would no longer say so.
    login_keys: take away who may log in as well; a builder that works over SSH needs its key to the end.
    keep: files, and folders with all below them, that shall be in the image; what is kboot's own goes all the same.
    """
    actions: list[SealAction] = []
    remains: list[Remains] = []
    for residue in found:
        if residue.kind not in _NEVER_KEPT and _is_kept(residue.path, keep):
            why = residue.detail or _REASONS.get(residue.kind) or "a secret"
            remains.append(Remains(residue.path, f"kept, as asked: {why}", blocks=False))
            continue
        match _judge(residue, config, login_keys=login_keys):
            case Remains() as left:
                remains.append(left)
            case action:
                actions.append(action)
    return SealPlan(tuple(actions), tuple(remains))


def _is_kept(path: str, keep: Sequence[str]) -> bool:
    return any(f"{path}/".startswith(f"{kept.strip('/')}/") for kept in keep)


_NEVER_KEPT: frozenset[ResidueKind] = frozenset({"ledger", "machine-id", "node-key", "record", "runtime"})
_REASONS: dict[ResidueKind, str] = {
    "token": "a Hub token",
    "credential": "what another program logs in with",
    "url-login": "settings with a login in them",
    "network-secret": "the password of a network",
    "docker-auth": "logins to container registries",
    "history": "what was typed here",
    "trace": "with whom was talked here",
    "lease": "what a network told this machine",
    "cloud-state": "what cloud-init or a cloud's agent learnt of this instance",
    "login-log": "who logged in here",
    "machine-id": "every machine makes its own; empty, not `uninitialized`, which would apply every preset",
    "dbus-machine-id": "a second copy of the machine id",
    "seed": "a secret of one machine",
    "host-key": "an SSH host key that every copy would share",
    "login-key": "who may log in, as asked",
    "node-key": "the key that signs this machine's hand-off records",
    "fleet-key": "whoever has it is a node of the fleet: give it at the first boot",
    "ledger": "files are named by this machine's file system; a copy must prove them itself",
    "runtime": "state of this run of the kernel",
    "record": "a record of what kboot did on this machine",
    "log": "a journal of this machine",
    "unfinished": "a download that did not end",
    "scratch-text": "a temporary file that holds a secret",
    "log-text": "a log that holds a secret",
    "old-log": "an old log that holds a secret",
}
_WIPED: frozenset[ResidueKind] = frozenset(
    {"token", "credential", "node-key", "fleet-key", "seed", "host-key", "old-log", "scratch-text"}
)


def _judge(residue: Residue, config: str, *, login_keys: bool) -> SealAction | Remains:
    path, kind = residue.path, residue.kind
    match kind:
        case "machine-id" | "log-text" | "login-log":
            return MakeEmpty(path, _REASONS[kind])
        case "docker-auth":
            return DropLogins(path, _REASONS[kind])
        case "ledger":
            return ForgetFiles(path, _REASONS[kind])
        case "assignment":
            return BlankSecrets(path, f"it sets {residue.detail}")
        case "url-login" | "network-secret":
            return BlankSecrets(path, _REASONS[kind], logins=True)
        case "told":
            return Remains(path, residue.detail, blocks=False)
        case "text":
            hint = (
                "name a file with `token_file` in kboot.toml instead"
                if path.startswith(f"{config}/")
                else f"remove it, or `--keep /{path}`"
            )
            return Remains(path, f"it holds {residue.detail or 'a token'}: {hint}", blocks=True)
        case "private-key":
            return Remains(path, f"a person's private key: remove it, or `--keep /{path}`", blocks=True)
        case "login-key" if not login_keys:
            return Remains(path, f"{residue.detail}: `--remove-login-keys` takes them away", blocks=False)
        case _:
            more = f" ({residue.detail})" if residue.detail else ""
            return TakeAway(path, _REASONS[kind] + more, wipe=kind in _WIPED)


def describe_seal(action: SealAction) -> str:
    """Return one line that says what an action does, without its reason."""
    match action:
        case TakeAway():
            return f"remove /{action.path}"
        case MakeEmpty():
            return f"empty /{action.path}"
        case BlankSecrets():
            return f"blank the secrets in /{action.path}"
        case DropLogins():
            return f"drop the logins in /{action.path}"
        case ForgetFiles():
            return f"forget the files of /{action.path}"
        case _:
            assert_never(action)


@dataclass(frozen=True, slots=True)
class SealGround:
    """Where the command stands. named: --root names the tree; is_this_root: it is the one this process calls "/".

    serving: what of kboot is at work here.
    """

    named: bool
    is_this_root: bool = False
    serving: str = ""


def require_ground(ground: SealGround, *, this_machine: bool) -> None:
    """Return where a tree may be sealed.

    Sealing takes away a machine's identity and its users' logins. A tree that was named is an image; what the command
    itself runs in (a machine, a container, a chroot that somebody may live in) is one only if they say so in as many
    words.

    Raises:
        UsageError: seal-not-an-image, or seal-while-serving.
    """
    if ground.serving:
        raise UsageError(
            "seal-while-serving",
            f"this machine is at work: {ground.serving}",
            hint="`systemctl stop kboot-engine kboot`, then seal it as the last step of the build",
        )
    if (ground.is_this_root or not ground.named) and not this_machine:
        raise UsageError(
            "seal-not-an-image",
            "this would seal what the command runs in: its machine id, SSH host keys, logins and histories would be "
            "gone",
            hint="for an image that is mounted: `--root DIR`; for the machine, container or chroot that becomes the "
            "image: `--this-machine`; `--dry-run` shows what would be taken away",
        )
