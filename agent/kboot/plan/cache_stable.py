"""Would this profile give the engine's caches another name at every boot, or put them where they do not last?"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kboot.engines.common import CACHE_VARIABLES, version
from kboot.engines.vllm_env import AUTOTUNE_HASHES_ENV_UNTIL, hashed_names, volatile
from kboot.errors import ProfileError
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.engines.types import Launch
    from kboot.profile.types import LayoutAsk

_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|\[?[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}\]?")
_NEVER = ("VLLM_PLUGINS", "VLLM_PROCESS_NAME_PREFIX")
_SHORT_LIVED = ("/tmp", "/var/tmp", "/run", "/dev/shm")
_MODEL_FLAGS = ("--model", "--model-path", "--model_path")
_SIZES = ("--max-model-len", "--max-num-batched-tokens", "--max-num-seqs")
_FOLDER_FLAGS = ("-cc.cache_dir", "--compilation-config.cache_dir")


@dataclass(frozen=True, slots=True)
class Trouble:
    """One setting that the name of a cache depends on and should not. refuse: a boot with it is not worth starting."""

    name: str
    says: str
    refuse: bool = False


def key_troubles(
    layout: LayoutAsk,
    launch: Launch,
    engine_version: str | None,
    inherited: Mapping[str, str],
    model_path: str,
    cache_dir: str,
) -> tuple[Trouble, ...]:
    """Return what makes the engine's caches miss, by name.

    inherited: the environment that kboot runs in and that an engine it starts inherits.
    """
    found = [*_folders(layout, cache_dir), *_model(layout, model_path)]
    if launch.engine in ("vllm", "command"):
        hashed = hashed_names(engine_version)
        what = _what_is_lost(engine_version)
        found += _asked_env(layout, hashed, what)
        found += _inherited_env(launch, hashed, inherited, what)
    if launch.engine == "vllm":
        found += _arguments(layout)
    return tuple(sorted(found, key=lambda t: (not t.refuse, t.name)))


def refuse_unstable(troubles: tuple[Trouble, ...], layout: LayoutAsk) -> tuple[str, ...]:
    """Return the lesser troubles as warnings.

    Raises:
        ProfileError: cache-key-unstable, naming every setting that is refused.
    """
    refused = [t for t in troubles if t.refuse]
    if refused:
        raise ProfileError(
            "cache-key-unstable",
            f"layout {layout.name} sets {', '.join(t.name for t in refused)}, "
            "with which the engine's caches have another name from boot to boot or node to node",
            where=tuple(f"{t.name}: {t.says}" for t in refused),
            hint='take it out of the layout; with cache.unstable = "warn" kboot boots all the same',
        )
    return tuple(f"{t.name}: {t.says}" for t in troubles)


def _what_is_lost(engine_version: str | None) -> str:
    old = version(engine_version)[:2] <= AUTOTUNE_HASHES_ENV_UNTIL and bool(version(engine_version))
    return "torch.compile's and the tuned kernels' folders" if old else "torch.compile's folders"


def _asked_env(layout: LayoutAsk, hashed: frozenset[str], what: str) -> Iterator[Trouble]:
    for name, value in sorted(layout.env.items()):
        if name not in hashed:
            continue
        if name in _NEVER:
            yield Trouble(name, f"is hashed into the name of {what}; it must stay unset ({volatile(name)})", True)
        elif address := _address(value):
            yield Trouble(name, f"is hashed into the name of {what} and holds the address {address}", True)
        elif volatile(name):
            yield Trouble(name, f"is hashed into the name of {what}: {volatile(name)}, which must never change")


def _inherited_env(
    launch: Launch, hashed: frozenset[str], inherited: Mapping[str, str], what: str
) -> Iterator[Trouble]:
    """What varies by its nature and was not put into the profile; what else is inherited is only put on record."""
    decided = {s.name for s in launch.env} | set(launch.unset)
    for name in sorted((inherited.keys() & hashed) - decided):
        address = _address(inherited[name])
        if address or volatile(name):
            yield Trouble(
                name,
                f"comes from kboot's own environment ({address or volatile(name)}) and is hashed into the name of "
                f"{what}; unset it there, or give it one value in the layout's env",
            )


def _folders(layout: LayoutAsk, cache_dir: str) -> Iterator[Trouble]:
    for name, value in sorted(layout.env.items()):
        if name not in CACHE_VARIABLES or value == cache_dir or value.startswith(f"{cache_dir}/"):
            continue
        if any(value == folder or value.startswith(f"{folder}/") for folder in _SHORT_LIVED):
            yield Trouble(name, f"puts a cache into {value}, which does not outlive a reboot or takes memory")
        else:
            yield Trouble(name, f"puts a cache into {value}, where one of another driver or version may lie")


def _model(layout: LayoutAsk, model_path: str) -> Iterator[Trouble]:
    for flag, value in _flags(layout.args):
        if flag in _MODEL_FLAGS and value != model_path:
            says = f"is {value}; the path's text is part of the key, and only {model_path} is the same at every boot"
            yield Trouble(flag, says, True)
        elif flag in _FOLDER_FLAGS:
            yield Trouble(flag, f"puts torch.compile's cache into {value}, out of the folder of this key")


def _arguments(layout: LayoutAsk) -> Iterator[Trouble]:
    given = {flag for flag, _ in _flags(layout.args)}
    for flag in _SIZES:
        if flag not in given:
            yield Trouble(flag, "is not given; its default depends on the GPU's memory and is part of the key")


def _flags(args: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for word, following in zip(args, (*args[1:], "")):
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            yield name, value if equals else following


def _address(text: str) -> str:
    """Return the first address in a text that is of one machine or pod; loopback is the same on all."""
    for found in _ADDRESS.findall(text):
        try:
            address = ipaddress.ip_address(found.strip("[]"))
        except ValueError:
            continue
        if not (address.is_loopback or address.is_unspecified):
            return str(address)
    return ""
