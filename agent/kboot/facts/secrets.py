"""What could others read here that is secret, and what belongs to one machine alone?"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kboot.facts.secret_text import what_in
from kboot.facts.upkeep_types import Readable
from kboot.host.access import access_to, processes_that_show_a_token
from kboot.host.files import read_small

if TYPE_CHECKING:
    from kboot.host.paths import Paths
    from kboot.host.types import Host

_HUB_TOKEN = ".cache/huggingface/token"
_HOMES = ("/root", "/home")
_MOST_HOMES = 50
_CONFIG_BYTES = 1 << 20
_UNSET_MACHINE_IDS = ("", "uninitialized")
_OF_ONE_MACHINE = (
    "/var/lib/systemd/random-seed",
    "/var/lib/cloud/instance",
    "/var/lib/dhcp/dhclient.leases",
)


def collect_readable(host: Host, paths: Paths, token_file: str) -> tuple[Readable, ...]:
    """Return what is open to every user of the machine. Modes are those of the files below the root that is read."""
    found = [
        Readable(what, host.machine_path(path), f"mode {access.mode:04o}: every user may {access.by_everybody} it")
        for what, path in _secret_files(host, paths, token_file)
        if _holds_something(path) and (access := access_to(path, _top(host, path))) and access.by_everybody
    ]
    socket = access_to(paths.socket, _top(host, paths.socket))
    if socket is not None and socket.kind == "socket" and socket.mode & 0o002:
        found.append(Readable("socket", host.machine_path(paths.socket), "every user may write to it"))
    if host.live:
        found += [
            Readable(f"token in the {place}", f"process {pid}", "") for pid, place in processes_that_show_a_token()
        ]
    return tuple(sorted(found, key=lambda r: (r.what, r.where)))


def collect_identity(host: Host, paths: Paths) -> tuple[str, ...]:
    """Return what a copy of this disk would carry to other machines and should not: ids, keys, tokens, records."""
    found = [path for path in _OF_ONE_MACHINE if host.exists(path)]
    with suppress(OSError):
        if host.read_text("/etc/machine-id").strip() not in _UNSET_MACHINE_IDS:
            found.append("/etc/machine-id")
    with suppress(OSError):
        found += [f"/etc/ssh/{n}" for n in host.names("/etc/ssh") if re.fullmatch(r"ssh_host_\w+_key", n)]
    found += [
        host.machine_path(p)
        for p in (paths.node_key, paths.history, paths.state / "doctor")
        if host.exists(host.machine_path(p))
    ]
    found += [home for home in _tokens_of_users(host) if host.exists(home)]
    return tuple(sorted(found))


def _holds_something(path: Path) -> bool:
    """Return whether there is a secret in the file; a recorded machine has an empty one in the place of each."""
    with suppress(OSError):
        return path.stat().st_size > 0
    return False


def _top(host: Host, path: Path) -> Path:
    """Return the root of the tree that the path is in: "/", or where a recorded machine begins."""
    return Path(str(path).removesuffix(host.machine_path(path)) or "/")


def _secret_files(host: Host, paths: Paths, token_file: str) -> list[tuple[str, Path]]:
    named = (token_file, host.environ().get("HF_TOKEN_PATH", ""), *_tokens_of_users(host)) if host.live else ()
    tokens = [("token", Path(path)) for path in named if path]
    holders = [("configuration with a token", path) for path in _configurations(paths) if _has_token(path)]
    return [*tokens, *holders, ("key that signs hand-offs", paths.node_key)]


def _tokens_of_users(host: Host) -> list[str]:
    homes = [_HOMES[0]]
    with suppress(OSError):
        homes += [f"{_HOMES[1]}/{name}" for name in host.names(_HOMES[1])[:_MOST_HOMES]]
    return [f"{home}/{_HUB_TOKEN}" for home in homes]


def _configurations(paths: Paths) -> list[Path]:
    return [paths.config / "kboot.toml", paths.config / "env", paths.config / "engine.env"]


def _has_token(path: Path) -> bool:
    try:
        return what_in(read_small(path, _CONFIG_BYTES), ()) != ""
    except OSError:
        return False
