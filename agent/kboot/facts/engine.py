"""Which serving engine is installed, and with which packages? Found from its files; nothing is imported or run."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kboot import __version__
from kboot.facts.engine_build import builds
from kboot.facts.programs import path_folders
from kboot.facts.reader import Reader
from kboot.facts.types import EngineFacts

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap
    from kboot.host.types import Host

_PACKAGED = ("vllm", "sglang", "tokenspeed")
_ENVIRONMENTS = "/opt"  # where images keep an engine's environment: /opt/venv, /opt/vllm, /opt/conda/envs/vllm
_TOLD = (
    "apache-tvm-ffi",
    "compressed-tensors",
    "cuda-",
    "deep-ep",
    "deep-gemm",
    "flash-attn",
    "flashinfer-",
    "huggingface-hub",
    "nvidia-",
    "safetensors",
    "sgl-kernel",
    "sglang",
    "tilelang",
    "tokenizers",
    "tokenspeed",
    "torch",
    "transformers",
    "triton",
    "vllm",
)
_SHEBANG_BYTES = 1024
_METADATA_BYTES = 64 * 1024
_NO_PATH = ("#", "import ", "import\t")  # lines of a .pth file that name no folder


def collect_engine(host: Host, name: str | None, interpreter: str | None) -> tuple[EngineFacts, tuple[Gap, ...]]:
    """Find the engine `name` (None: the first of vllm, sglang, tokenspeed that is there).

    interpreter: the Python it is installed for; None: that of the engine's own command, looked for in PATH and in the
    environments under /opt. version None: not installed.
    """
    reader = Reader(host)
    if name == "demo":
        return EngineFacts("demo", __version__, sys.executable, {}), ()
    if name == "command":
        return EngineFacts("command", None, None, {}), ()
    facts = EngineFacts(name or "", None, interpreter, {})
    for wanted in (name,) if name else _PACKAGED:
        found = _find(reader, wanted, interpreter)
        if found is not None:
            facts = found
            break
    return facts, reader.gaps


def _find(reader: Reader, name: str, interpreter: str | None) -> EngineFacts | None:
    commands = _command_folders(reader)
    pythons = (interpreter,) if interpreter else _pythons(reader, name, commands)
    for python in dict.fromkeys(pythons):
        for site in _site_folders(reader, python):
            folders = (site, *_added_folders(reader, site))
            packages = {folder: _packages(reader, folder) for folder in folders}
            home = next((folder for folder in folders if name in packages[folder]), None)
            if home is not None:
                version = _version(reader, home, name, packages[home][name])
                told = {p: v for f in reversed(folders) for p, v in packages[f].items() if p.startswith(_TOLD)}
                built = {p: digest for f in reversed(folders) for p, digest in builds(reader, f).items()}
                return EngineFacts(name, version, python, {**told, name: version}, dict(sorted(built.items())))
    return None


def _added_folders(reader: Reader, site: str) -> tuple[str, ...]:
    """Return the folders that an environment's .pth files add to its own: images join layers in this way."""
    found = []
    for name in sorted(reader.names(site)):
        if name.endswith(".pth"):
            lines = (reader.optional(f"{site}/{name}", _METADATA_BYTES) or "").splitlines()
            paths = [line.strip() for line in lines if line.strip() and not line.startswith(_NO_PATH)]
            found += [posixpath.normpath(posixpath.join(site, path)) for path in paths]
    return tuple(dict.fromkeys(found))


def _command_folders(reader: Reader) -> tuple[str, ...]:
    homes = [f"{_ENVIRONMENTS}/{name}" for name in reader.names(_ENVIRONMENTS)]
    homes += [f"{home}/envs/{name}" for home in homes for name in reader.names(f"{home}/envs")]
    return tuple(dict.fromkeys((*path_folders(reader), *(f"{home}/bin" for home in homes))))


def _pythons(reader: Reader, name: str, folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return interpreters that may have the engine: those its command names, then every python3 beside commands."""
    named = [_shebang(reader, f"{folder}/{name}", folders) for folder in folders]
    beside = [f"{folder}/python3" for folder in folders if reader.host.exists(f"{folder}/python3")]
    return (*(python for python in named if python), *beside)


def _shebang(reader: Reader, script: str, folders: tuple[str, ...]) -> str | None:
    try:
        lines = reader.host.read_text(script, _SHEBANG_BYTES).splitlines()
    except OSError:
        return None
    if not lines or not lines[0].startswith("#!"):
        return None
    words = lines[0][2:].split()
    if words[:1] == ["/bin/sh"] and len(lines) > 1:  # installers write this where a path is too long for a first line
        match = re.match(r"'''exec' [\"']?([^\"']+?)[\"']? \"\$0\"", lines[1])
        return match.group(1) if match else None
    if words and posixpath.basename(words[0]) == "env":
        program = next((word for word in words[1:] if not word.startswith("-")), "")
        return next((f"{f}/{program}" for f in folders if reader.host.exists(f"{f}/{program}")), None)
    return words[0] if words and "python" in posixpath.basename(words[0]) else None


def _site_folders(reader: Reader, python: str) -> tuple[str, ...]:
    """Return the package folders of an interpreter's environment; a link to the base Python is not followed."""
    prefix = posixpath.dirname(posixpath.dirname(python))
    prefixes = (f"{prefix}/local", prefix) if prefix == "/usr" else (prefix,)
    found = []
    for folder in (f"{prefix}/{lib}" for prefix in prefixes for lib in ("lib", "lib64")):
        for version in reader.names(folder):
            if re.fullmatch(r"python3(\.\d+t?)?", version):
                found += [f"{folder}/{version}/{packages}" for packages in ("site-packages", "dist-packages")]
    return tuple(found)


def _packages(reader: Reader, site: str) -> Mapping[str, str]:
    """Return version by normal name, from the names of `NAME-VERSION.dist-info` folders."""
    found = {}
    for folder in reader.names(site):
        match = re.fullmatch(r"(.+?)-([^-]+)\.dist-info", folder)
        if match:
            found[re.sub(r"[-_.]+", "-", match.group(1)).lower()] = match.group(2)
    return found


def _version(reader: Reader, site: str, name: str, from_name: str) -> str:
    """Return METADATA's version; a folder's name may spell it differently."""
    folder = f"{site}/{name}-{from_name}.dist-info"
    try:
        metadata = reader.host.read_text(f"{folder}/METADATA", _METADATA_BYTES)
    except OSError:
        return from_name
    match = re.search(r"^Version:\s*(\S+)", metadata, re.MULTILINE)
    return match.group(1) if match else from_name
