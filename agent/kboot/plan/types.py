"""What boot will do: phases of actions, each action with its reason. Values only; apply/ carries them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, assert_never

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.checkpoint import Listing, ProofMode, RemoteFile, Share, VerifyMode
    from kboot.engines.types import CacheKey, CpuPlacement, Launch
    from kboot.facts.types import Gap
    from kboot.profile.types import LayoutAsk


@dataclass(frozen=True, slots=True)
class WriteSetting:
    """Write one kernel setting under /sys or /proc/sys; read back, put back to `before` on failure."""

    path: str
    value: str
    before: str
    reason: str


@dataclass(frozen=True, slots=True)
class FetchFile:
    """Receive, hash and write one file; it gets its final name only when its bytes are proven.

    alone: no other node of the fleet fetches it from the origin, so that all of it is for this one.
    """

    file: RemoteFile
    have_bytes: int
    reason: str
    alone: bool = False


@dataclass(frozen=True, slots=True)
class FetchShare:
    """Receive the pieces of one file that this node's ranks load, from a node that has it whole and publishes digests.

    The file's own hash proves nothing of it then.
    """

    file: RemoteFile
    share: Share
    reason: str

    @property
    def left_bytes(self) -> int:
        """Return how much of it is still to be fetched."""
        return self.share.size_bytes - self.share.have_bytes


@dataclass(frozen=True, slots=True)
class VerifyFile:
    """Prove one file that is already under its final name.

    mode full reads every byte, quick its structure only, bake compares it with the manifest of this node's image.
    """

    file: RemoteFile
    mode: ProofMode
    reason: str


@dataclass(frozen=True, slots=True)
class WarmFile:
    """Read the part of one file that is not in the page cache.

    ranges: [start, end) stretches that this node's ranks load, and that resident_bytes is about; empty = all of it.
    """

    file: RemoteFile
    resident_bytes: int
    reason: str
    ranges: tuple[tuple[int, int], ...] = ()

    @property
    def size_bytes(self) -> int:
        """Return how much of it has to be in the page cache."""
        return sum(end - start for start, end in self.ranges) or self.file.size_bytes


@dataclass(frozen=True, slots=True)
class PublishCheckpoint:
    """Write snapshot links, refs, trees/<commit>.json and point models/<profile> at the snapshot.

    in_part: what is served may have files of which only this node's part is here.
    """

    listing: Listing
    model_path: str
    reason: str
    in_part: bool = False


@dataclass(frozen=True, slots=True)
class PrepareCache:
    """Create the kernel-cache folder of this key with its factors.json. seed: archive to fill it from; may be empty."""

    key: CacheKey
    path: str
    reason: str
    seed: str = ""


@dataclass(frozen=True, slots=True)
class QuarantineCache:
    """Move one entry of the kernel cache at `path` out of the engine's way; it is kept, with the reason.

    entry: below `path`. file: the file in it by which it was found; looked at again before anything is moved.
    """

    path: str
    entry: str
    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class CompileBytecode:
    """Compile a package and what it requires into a folder that stays (PYTHONPYCACHEPREFIX of the engine)."""

    python: str
    package: str
    folder: str
    reason: str


@dataclass(frozen=True, slots=True)
class WarmEngine:
    """Read a package's and its requirements' shared libraries and compiled Python into the page cache.

    folder: of the compiled Python. marker: a file that says until the machine's next start that this was done.
    limit_bytes: of the page cache, for all of them.
    """

    python: str
    package: str
    folder: str
    marker: str
    limit_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class WriteHandoff:
    """Write the signed hand-off record that `kboot exec` checks."""

    reason: str


@dataclass(frozen=True, slots=True)
class StartEngine:
    """Start the engine through `kboot exec` and wait until it answers."""

    launch: Launch
    reason: str


Action = (
    WriteSetting
    | FetchFile
    | FetchShare
    | VerifyFile
    | WarmFile
    | PublishCheckpoint
    | PrepareCache
    | QuarantineCache
    | CompileBytecode
    | WarmEngine
    | WriteHandoff
    | StartEngine
)
PhaseName = Literal["tune", "cache", "fetch", "verify", "publish", "warm", "handoff", "serve"]
PHASES: tuple[PhaseName, ...] = ("tune", "cache", "fetch", "verify", "publish", "warm", "handoff", "serve")


@dataclass(frozen=True, slots=True)
class Phase:
    """after: the phases that must be over before this one; nothing else orders them. note: why it is empty."""

    name: PhaseName
    after: tuple[PhaseName, ...]
    actions: tuple[Action, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole plan, with everything the hand-off record will say.

    warnings: what an operator should know although boot goes on ("locality unknown", "published 111 files, listed 96").
    """

    profile: str
    layout: LayoutAsk
    listing: Listing
    verify_mode: VerifyMode
    placement: CpuPlacement
    cache_key: CacheKey
    cache_dir: str
    model_path: str
    launch: Launch
    phases: tuple[Phase, ...]
    warnings: tuple[str, ...]
    gaps: tuple[Gap, ...]

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions in phase order; empty for a node that is already right."""
        return tuple(a for p in self.phases for a in p.actions)


def describe(action: Action) -> str:
    """Return one line that says what an action does, without its reason."""
    match action:
        case WriteSetting():
            return f"set {action.path} = {action.value} (now {action.before})"
        case FetchFile():
            return f"fetch {action.file.path}"
        case FetchShare():
            return f"fetch this node's part of {action.file.path}"
        case VerifyFile():
            return f"verify {action.file.path} ({action.mode})"
        case WarmFile():
            return f"warm {action.file.path}"
        case PublishCheckpoint():
            return f"point {action.model_path} at {action.listing.repo}@{action.listing.commit[:12]}"
        case PrepareCache():
            return f"prepare kernel cache {action.key.name}{' from its seed' if action.seed else ''}"
        case QuarantineCache():
            return f"put {action.entry} of the kernel cache aside"
        case CompileBytecode():
            return f"compile the Python of {action.package} and what it requires"
        case WarmEngine():
            return f"warm the files of {action.package} itself"
        case WriteHandoff():
            return "write the hand-off record"
        case StartEngine():
            return f"start {action.launch.engine}"
        case _:
            assert_never(action)
