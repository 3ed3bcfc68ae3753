"""Where kboot keeps things on a node."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kboot.errors import UsageError
from kboot.values import dataclass

IMAGE_MANIFEST = "bake.json"
"""In the state folder of an image."""

_CHOSEN = (
    *("KBOOT_STATE_DIR", "KBOOT_RUNTIME_DIR", "KBOOT_CONFIG_DIR"),
    *("STATE_DIRECTORY", "RUNTIME_DIRECTORY", "CONFIGURATION_DIRECTORY"),
)
"""Variables that say where this kboot is to look: nothing is guessed then."""


@dataclass(frozen=True, slots=True)
class Paths:
    """state: survives reboots. runtime: does not. config: the operator's. Every other path derives from them."""

    state: Path
    runtime: Path
    config: Path

    @property
    def hub(self) -> Path:
        """Checkpoints, in the Hugging Face cache layout (HF_HUB_CACHE)."""
        return self.state / "hub"

    @property
    def shares(self) -> Path:
        """Files of checkpoints of which only a part is here, a folder for each repository."""
        return self.state / "shares"

    @property
    def models(self) -> Path:
        """`models/<profile>`: the one stable path an engine serves from, a link to the snapshot."""
        return self.state / "models"

    @property
    def cache(self) -> Path:
        """Kernel caches, one folder per key."""
        return self.state / "cache"

    @property
    def bytecode(self) -> Path:
        """Compiled Python of the engine, one folder per interpreter and set of packages."""
        return self.state / "bytecode"

    @property
    def ledger(self) -> Path:
        """What was verified, when and how."""
        return self.state / "ledger.db"

    @property
    def history(self) -> Path:
        """Reports of earlier boots."""
        return self.state / "history"

    @property
    def node_key(self) -> Path:
        """The key that signs the hand-off record; mode 0600, made on first use, never in an image."""
        return self.state / "node.key"

    @property
    def licenses(self) -> Path:
        """Records of accepted licences."""
        return self.state / "licenses"

    @property
    def handoff(self) -> Path:
        """The signed hand-off record."""
        return self.runtime / "handoff.json"

    @property
    def image(self) -> Path:
        """The manifest of the image that the state folder came in; not there on another disk."""
        return self.state / IMAGE_MANIFEST

    @property
    def warmed(self) -> Path:
        """Which engines' own files were read into the page cache since the machine's start."""
        return self.runtime / "warmed"

    @property
    def boot(self) -> Path:
        """The running or last boot of this kernel."""
        return self.runtime / "boot.json"

    @property
    def fleet(self) -> Path:
        """What the nodes of a fleet stated when they met last."""
        return self.runtime / "fleet.json"

    @property
    def live(self) -> Path:
        """Written by `kboot live`: the boot id of the kernel in which a node that stood by may serve."""
        return self.runtime / "live"

    @property
    def fleet_caches(self) -> Path:
        """Archives of kernel caches that nodes of a fleet keep for each other."""
        return self.state / "fleet-caches"

    @property
    def socket(self) -> Path:
        """Where the daemon answers `kboot status`."""
        return self.runtime / "kboot.sock"

    @property
    def engine_log(self) -> Path:
        """What the engine writes under `kboot boot --serve`."""
        return self.runtime / "engine.log"


def find_paths(
    root: Path | None, env: Mapping[str, str], uid: int, state: str = "", runtime: str = "", system: Path = Path("/")
) -> Paths:
    """Return the node's paths; system: below which the folders of an installation are looked for.

    Order: below `--root`; KBOOT_STATE_DIR, KBOOT_RUNTIME_DIR, KBOOT_CONFIG_DIR; the configuration's (`state`,
    `runtime`); what systemd names for a unit (STATE_DIRECTORY and its like); for root /var/lib/kboot, /run/kboot,
    /etc/kboot; for others the XDG folders, or root's where the node has them and the user has no state of their own.

    Raises:
        UsageError: one of kboot's variables holds `~` or `$NAME`, which a shell would have replaced.
    """
    if root is not None:
        return _system(root)
    mine = _of_user(env)
    defaults = _system(system) if uid == 0 or _follows_system(env, mine, _system(system)) else mine
    return Paths(
        Path(_given(env, "KBOOT_STATE_DIR") or state or env.get("STATE_DIRECTORY") or defaults.state),
        Path(_given(env, "KBOOT_RUNTIME_DIR") or runtime or env.get("RUNTIME_DIRECTORY") or defaults.runtime),
        Path(_given(env, "KBOOT_CONFIG_DIR") or env.get("CONFIGURATION_DIRECTORY") or defaults.config),
    )


def _given(env: Mapping[str, str], name: str) -> str:
    value = env.get(name, "")
    if value.startswith(("~", "$")):
        raise UsageError(
            "path-not-absolute",
            f"{name} is {value!r}, which nobody expanded; wanted: an absolute path",
            hint="environment files of services are no shell: write the path out",
        )
    return value


def _system(root: Path) -> Paths:
    return Paths(root / "var/lib/kboot", root / "run/kboot", root / "etc/kboot")


def _of_user(env: Mapping[str, str]) -> Paths:
    home = Path(env.get("HOME") or "/nonexistent")
    return Paths(
        Path(env.get("XDG_STATE_HOME") or home / ".local/state") / "kboot",
        Path(env.get("XDG_RUNTIME_DIR") or home / ".cache") / "kboot",
        Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "kboot",
    )


def _follows_system(env: Mapping[str, str], mine: Paths, system: Paths) -> bool:
    """Return whether a user who asks about kboot means the node's, which root booted."""
    if any(env.get(name) for name in _CHOSEN) or os.path.lexists(mine.state):
        return False
    return os.path.isdir(system.state) or os.path.lexists(system.config / "kboot.toml")
