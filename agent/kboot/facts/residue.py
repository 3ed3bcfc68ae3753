"""What of the machine that builds an image would go out with it: secrets, identities, traces? Found, not judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Literal

from kboot.events import Moved, uncounted
from kboot.facts import residue_places as places
from kboot.facts.image_ground import ImageGround
from kboot.facts.residue_texts import TextSearch
from kboot.facts.secret_text import what_in
from kboot.host.clock import unix_s
from kboot.host.image import Entry, ImageTree
from kboot.host.image_search import COMPRESSED, SearchBounds, Searched
from kboot.store.cache_files import MANIFEST
from kboot.store.ledger import stored_rows
from kboot.values import dataclass

ResidueKind = Literal[
    "token",  # a file that is a Hub token
    "credential",  # a file or folder that another program logs in with
    "url-login",  # settings of a package manager with a login in them
    "network-secret",  # settings of a network with a password in them
    "docker-auth",  # a docker configuration with logins in it
    "assignment",  # a file that sets a variable to a secret
    "text",  # another file in which a secret stands
    "log-text",  # a log in which a secret stands
    "old-log",  # one that was put aside
    "scratch-text",  # a temporary file in which a secret stands
    "history",  # what a person typed
    "trace",  # with whom a person talked
    "lease",  # what a network told this machine
    "cloud-state",  # what cloud-init learnt of this instance
    "login-log",  # who logged in
    "told",  # what is somebody's decision
    "machine-id",
    "dbus-machine-id",
    "seed",  # a secret of one machine
    "host-key",  # of the SSH server
    "login-key",  # who may log in over SSH
    "private-key",  # a person's own SSH key
    "node-key",  # signs hand-off records
    "fleet-key",  # makes a machine a node of the fleet
    "ledger",  # rows that name files by the builder's file system
    "runtime",  # what kboot keeps until the next reboot
    "record",  # reports of kboot's runs here, and what they left
    "log",  # journals, which carry the machine's id
    "unfinished",  # a download that did not end
]

_TEXT_BYTES = 4 << 20
_SECRET_BYTES = 64 << 10
_MIN_SECRET_BYTES = 8
_CLOCK_SLACK_S = 5.0  # times of files are those of the kernel's last tick, or of another clock
_UNFINISHED = re.compile(r"\.(?:part|incomplete)(?:-\w+)?$")
_P2P = re.compile(r"gpu_p2p_access_cache_for_[\d,]+\.json$")
_RECORDS = ("doctor", "history", "image.json", "node.key.lock")
_KEY_FILE = re.compile(rb"""^[ \t]*key_file\s*=\s*["']([^"'\n]+)["']""", re.MULTILINE)
_NETRC = re.compile(rb"\bpassword\s+(\S+)")
_IN_URL = re.compile(rb"://[^:@/\s]*:([^@/\s]+)@")
_STORED = re.compile(rb"^[ \t]*\w{0,64}?token\w{0,64}\s*=\s*(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Residue:
    """One thing found. path: below the tree's root. detail: what of it, where that is not plain."""

    path: str
    kind: ResidueKind
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ImageFolders:
    """kboot's folders below the tree's root, without a leading slash. token_files: that its configuration names."""

    state: str = "var/lib/kboot"
    runtime: str = "run/kboot"
    config: str = "etc/kboot"
    token_files: tuple[str, ...] = ()


def known_secrets(tree: ImageTree, folders: ImageFolders, env: Iterable[str] = ()) -> frozenset[bytes]:
    """Return the very secrets that this builder has, to look for them everywhere: of its token files and `env`."""
    found = {value.encode() for value in env}
    for path in (*_below_homes(tree, places.TOKENS), *folders.token_files):
        data = _read(tree, path, _SECRET_BYTES)
        found |= {data.strip()} if b"\n" not in data.strip() else set(_STORED.findall(data))
    for path in _below_homes(tree, (".netrc", "_netrc")):
        found |= set(_NETRC.findall(_read(tree, path, _SECRET_BYTES)))
    for path in _below_homes(tree, (".git-credentials", ".config/git/credentials")):
        found |= set(_IN_URL.findall(_read(tree, path, _SECRET_BYTES)))
    return frozenset(secret for secret in found if len(secret) >= _MIN_SECRET_BYTES)


@dataclass(frozen=True, slots=True)
class Found:
    """Everything found, by path, and what was searched for it.

    hits: files in which a secret stands. since_unix_s: when the look began; what changes later was not seen by it.
    """

    residue: tuple[Residue, ...]
    searched: Searched
    hits: frozenset[str]
    since_unix_s: float


def find_residue(
    tree: ImageTree,
    folders: ImageFolders,
    ground: ImageGround,
    secrets: Collection[bytes],
    bounds: SearchBounds | None = None,
    before: Found | None = None,
    moved: Moved = uncounted,
) -> Found:
    """Return everything found; what does not lie on its ground is not the image's.

    before: an earlier look at the same tree: texts without a secret that did not change since are not read again.
    moved: told of texts as they are read.
    """
    since_unix_s = unix_s()
    finder = _Finder(tree, folders, ground, tuple(sorted(secrets)))
    found: dict[str, Residue] = {}
    for residue in finder.all():
        found.setdefault(residue.path, residue)
    texts = TextSearch(tree, folders.state, ground, tuple(sorted(secrets)), _seen_by(before))
    hits = {}
    for path, kind, what in texts.run(bounds or SearchBounds(), moved):
        hits[path] = Residue(path, kind, what)
    removed = tuple(f"{r.path}/" for r in found.values() if r.kind in _WHOLE)
    everything = hits | found
    kept = tuple(everything[path] for path in sorted(everything) if not path.startswith(removed))
    return Found(kept, texts.searched, frozenset(hits), since_unix_s)


def _seen_by(before: Found | None) -> Callable[[Entry], bool]:
    if before is None:
        return lambda _: False
    since_ns = int((before.since_unix_s - _CLOCK_SLACK_S) * 1e9)
    return lambda entry: entry.changed_ns < since_ns and entry.path not in before.hits


_WHOLE: frozenset[ResidueKind] = frozenset({"cloud-state", "credential", "history", "log", "record", "runtime"})
"""Kinds of which a folder goes with all below it."""


class _Finder:
    def __init__(self, tree: ImageTree, folders: ImageFolders, ground: ImageGround, secrets: Sequence[bytes]) -> None:
        self._tree = tree
        self._folders = folders
        self._ground = ground
        self._secrets = secrets

    def all(self) -> Iterator[Residue]:
        yield from self._named()
        yield from self._machine()
        yield from self._of_kboot()
        yield from self._assignments()

    def _named(self) -> Iterator[Residue]:
        """Find what has a name of its own in every home."""
        tree = self._tree
        yield from self._there("token", (*_below_homes(tree, places.TOKENS), *self._folders.token_files))
        logins = (*_below_homes(tree, places.CREDENTIALS), *places.MACHINE_CREDENTIALS)
        yield from self._there("credential", (path for path in logins if self._holds_anything(path)))
        yield from self._there("fleet-key", self._key_files())
        typed = [
            f"{home}/{n}".lstrip("/") for home in _homes(tree) for n in tree.names(home) if places.HISTORY.fullmatch(n)
        ]
        yield from self._there("history", (*typed, *_below_homes(tree, places.HISTORIES)))
        yield from self._there("trace", _below_homes(tree, places.TRACES))
        for path in _below_homes(tree, (places.DOCKER,)):
            if self._is_file(path) and b'"auth' in _read(tree, path, _TEXT_BYTES):
                yield Residue(path, "docker-auth")
        for path in _below_homes(tree, places.LOGIN_KEYS):
            keys = [line for line in _read(tree, path, _TEXT_BYTES).splitlines() if line.strip()[:1] not in (b"", b"#")]
            if keys:
                yield Residue(path, "login-key", f"{len(keys)} key{'s' if len(keys) > 1 else ''}")
        for folder in _below_homes(tree, (".ssh",)):
            for name in tree.names(folder):
                if places.PRIVATE_KEY in _read(tree, f"{folder}/{name}", _SECRET_BYTES):
                    yield Residue(f"{folder}/{name}", "private-key")

    def _key_files(self) -> list[str]:
        """Return the files that profiles name as the fleet's secret."""
        files = (e.path for e in self._tree.walk(self._folders.config) if e.kind == "file" and e.path.endswith(".toml"))
        named = (_KEY_FILE.findall(_read(self._tree, path, _TEXT_BYTES)) for path in files)
        return sorted({path.decode(errors="replace").strip("/") for found in named for path in found} - {""})

    def _machine(self) -> Iterator[Residue]:
        tree = self._tree
        machine_id = tree.look(places.MACHINE_ID)
        if (machine_id is None and tree.look("etc") is not None) or (
            machine_id is not None and (machine_id.size_bytes or machine_id.kind != "file")
        ):
            yield Residue(places.MACHINE_ID, "machine-id", "" if machine_id else "absent")
        if self._is_file(places.DBUS_MACHINE_ID):
            yield Residue(places.DBUS_MACHINE_ID, "dbus-machine-id")
        yield from self._there("seed", places.SEEDS)
        keys = [f"etc/ssh/{name}" for name in tree.names("etc/ssh") if places.HOST_KEY.fullmatch(name)]
        yield from self._there("host-key", keys)
        yield from self._there("log", [f"{places.JOURNAL}/{name}" for name in tree.names(places.JOURNAL)])
        yield from (
            Residue(path, "login-log") for path in places.LOGINS if self._is_file(path) and self._holds_anything(path)
        )
        leases = [f"{top}/{name}" for top in places.LEASES for name in tree.names(top) if places.LEASE.fullmatch(name)]
        yield from self._there("lease", leases)
        yield from self._there("cloud-state", places.CLOUD_STATES)
        told = (r for r in self._there("told", places.TOLD) if not self._is_link(r.path))
        yield from (Residue(r.path, r.kind, places.TOLD[r.path]) for r in told)

    def _is_link(self, path: str) -> bool:
        entry = self._look(path)
        return entry is not None and entry.kind == "link"

    def _holds_anything(self, path: str) -> bool:
        """Return whether it is there and not empty: packages bring empty folders for logins."""
        entry = self._look(path)
        if entry is None or entry.kind == "folder":
            return entry is not None and bool(self._tree.names(path))
        return entry.size_bytes > 0

    def _of_kboot(self) -> Iterator[Residue]:
        tree = self._tree
        for runtime in (self._folders.runtime, *self._own_folders(places.RUNTIMES)):
            if (entry := self._look(runtime)) is not None and entry.kind == "folder":
                yield from self._there("runtime", [f"{runtime}/{name}" for name in tree.names(runtime)])
        for state in (self._folders.state, *self._own_folders(places.STATES)):
            yield from self._of_state(state)

    def _own_folders(self, names: Iterable[str]) -> Iterator[str]:
        """Yield folders below homes that no link leads to: its owner could make everything of the machine kboot's."""
        for home in _homes(self._tree):
            for name in names:
                parts = name.split("/")
                above = [f"{home}/{'/'.join(parts[: count + 1])}".lstrip("/") for count in range(len(parts))]
                entries = [self._look(path) for path in above]
                if all(entry is not None and entry.kind == "folder" for entry in entries):
                    yield above[-1]

    def _of_state(self, state: str) -> Iterator[Residue]:
        tree = self._tree
        yield from self._there("node-key", (f"{state}/node.key",))
        asides = [name for name in tree.names(state) if name.startswith(("ledger.db.aside-", "traceback-"))]
        yield from self._there("record", [f"{state}/{name}" for name in (*_RECORDS, *asides)])
        ledger = f"{state}/ledger.db"
        if self._is_file(ledger) and (detail := _named_in(tree, ledger)):
            yield Residue(ledger, "ledger", detail)
        for key in tree.names(f"{state}/cache"):
            yield from self._there("record", (f"{state}/cache/{key}/{MANIFEST}",))
            if key.startswith((".kboot-import-", ".lock")):
                yield from self._there("record", (f"{state}/cache/{key}",))
        for entry in tree.walk(f"{state}/cache"):
            if entry.kind == "file" and _P2P.search(entry.path):
                yield Residue(entry.path, "record", "which GPUs of this machine reach each other")
        for repo in tree.names(f"{state}/hub"):
            blobs = f"{state}/hub/{repo}/blobs"
            parts = [f"{blobs}/{name}" for name in tree.names(blobs) if _UNFINISHED.search(name)]
            yield from self._there("unfinished", parts)
        for repo in tree.names(f"{state}/shares"):  # of parts of files: proven, and by whose word
            yield from self._there("record", (f"{state}/shares/{repo}/records",))
            for told in self._there("told", (f"{state}/shares/{repo}/digests",)):
                yield Residue(told.path, told.kind, "it names the node of the fleet whose digests prove what is here")

    def _assignments(self) -> Iterator[Residue]:
        tree = self._tree
        paths = [*places.ENVIRONMENTS, f"{self._folders.config}/env", *_below_homes(tree, places.HOME_ENVIRONMENTS)]
        for folder in (*places.ENVIRONMENT_FOLDERS, *_below_homes(tree, places.HOME_ENVIRONMENT_FOLDERS)):
            paths += [entry.path for entry in tree.walk(folder) if entry.kind == "file"]
        for path in paths:
            if self._is_setting(path):
                data = _read(tree, path, _TEXT_BYTES)
                if names := sorted({m[1].decode() for m in places.SECRET_VARIABLES.finditer(data)}):
                    yield Residue(path, "assignment", ", ".join(names))
                elif what := what_in(data, self._secrets):
                    yield Residue(path, "assignment", what)
        yield from self._settings(
            "url-login",
            (*_below_homes(tree, places.URL_LOGINS), *places.MACHINE_URL_LOGINS),
            places.MACHINE_URL_LOGIN_FOLDERS,
        )
        yield from self._settings("network-secret", (), places.NETWORK_FOLDERS)

    def _settings(self, kind: ResidueKind, files: Iterable[str], folders: Iterable[str]) -> Iterator[Residue]:
        """Find settings that hold a login, or anything that is a secret elsewhere."""
        below = (entry.path for folder in folders for entry in self._tree.walk(folder) if entry.kind == "file")
        for path in (*files, *below):
            if self._is_setting(path):
                data = _read(self._tree, path, _TEXT_BYTES)
                if places.URL_LOGIN.search(data) or places.SECRET_SETTINGS.search(data) or what_in(data, self._secrets):
                    yield Residue(path, kind)

    def _there(self, kind: ResidueKind, paths: Iterable[str]) -> Iterator[Residue]:
        for path in paths:
            entry = self._look(path)
            if entry is not None and self._ground.has(entry):
                yield Residue(path, kind)

    def _is_file(self, path: str) -> bool:
        entry = self._look(path)
        return entry is not None and entry.kind == "file" and self._ground.has(entry)

    def _is_setting(self, path: str) -> bool:
        """Return whether a file may be blanked: a packed one would be damaged."""
        return self._is_file(path) and not path.endswith(COMPRESSED)

    def _look(self, path: str) -> Entry | None:
        with suppress(OSError):
            return self._tree.look(path)
        return None


def _homes(tree: ImageTree) -> tuple[str, ...]:
    """Return every home there may be: root's, those below /home, and those of accounts; "" for one that is "/"."""
    named = []
    for line in _read(tree, "etc/passwd", _TEXT_BYTES).decode(errors="replace").splitlines():
        fields = line.split(":")
        if len(fields) >= 6 and fields[5].startswith("/"):
            named.append(fields[5].strip("/"))
    return tuple(dict.fromkeys(("root", *(f"home/{name}" for name in tree.names("home")), *named)))


def _below_homes(tree: ImageTree, names: Iterable[str]) -> list[str]:
    return [f"{home}/{name}".lstrip("/") for home in _homes(tree) for name in names]


def _named_in(tree: ImageTree, ledger: str) -> str:
    """Return what a ledger names; empty for nothing."""
    try:
        with tree.database(ledger) as path:
            rows = stored_rows(path)
    except OSError as exc:
        return f"it cannot be opened: {exc.strerror}"
    return f"{rows} files named by this file system" if rows else ""


def _read(tree: ImageTree, path: str, limit_bytes: int) -> bytes:
    """Return a file's beginning; nothing where it is none or may not be read."""
    with suppress(OSError):
        entry = tree.look(path)
        if entry is not None and entry.kind == "file":
            return tree.read(path, limit_bytes)
    return b""
