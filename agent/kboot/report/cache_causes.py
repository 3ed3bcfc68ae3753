"""Which factors of the kernel caches differ between two boots, and what does each invalidate? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from kboot.engines.common import CACHE_VARIABLES, version
from kboot.engines.vllm_env import AUTOTUNE_HASHES_ENV_UNTIL, hashed_names, volatile
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.report.cache_manifest import CacheManifest

Avoidable = Literal["yes", "no", "once"]

ALL = ("every cache",)
_HASHED_CONFIG = ("torch.compile", "flashinfer autotune", "startup plan")

# Flags that engines leave out of every cache's name (vLLM 0.26-0.33: ranks, addresses, ports, pins, names).
_NOT_HASHED = frozenset(
    {
        "--data-parallel-address", "--data-parallel-rpc-port", "--data-parallel-size-local",
        "--data-parallel-start-rank", "--dist-init-addr", "--distributed-executor-backend", "--download-dir",
        "--enforce-eager", "--engine-startup-timeout",
        "--gpu-memory-utilization", "--headless", "--host", "--kv-cache-memory", "--master-addr", "--master-port",
        "--nnodes", "--node-rank", "--numa-bind", "--numa-bind-cpus", "--numa-bind-nodes", "--numa-node", "--port",
        "--reasoning-parser", "--seed", "--served-model-name", "--tokenizer", "--tool-call-parser",
    }
)  # fmt: skip

_OF_FACTOR: Mapping[str, tuple[Avoidable, str]] = {
    "driver": ("no", "kernels are built and timed for one driver; seed the new key on other nodes from the first one"),
    "cuda": ("no", "the driver's CUDA version decides which kernels load; it comes with the driver"),
    "gpu_arch": ("no", "kernels of another architecture do not load"),
    "gpu_name": ("no", "tuned choices are timed on one product"),
    "engine": ("yes", "another engine was chosen; its caches are its own"),
    "engine_version": ("no", "another engine version builds other kernels; bake or seed its caches with the image"),
    "repo": ("yes", "another model"),
    "commit": ("no", "another commit of the model may have another configuration"),
    "layout": ("yes", "another parallel layout; ranks share no files with those of another one"),
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One factor that changed. caches: what it invalidates. avoidable: once = it differs one time and then stays."""

    factor: str
    old: str
    new: str
    caches: tuple[str, ...]
    avoidable: Avoidable
    says: str


def causes_between(old: CacheManifest, new: CacheManifest) -> tuple[tuple[Cause, ...], tuple[str, ...]]:
    """Return the factors that matter, and a word on each that changed and does not."""
    key = tuple(_key_causes(old.factors, new.factors))
    args, quiet_args = _argument_causes(old, new)
    env, quiet_env = _env_causes(old, new)
    return (*key, *_model_causes(old, new), *args, *env), (*quiet_args, *quiet_env)


def _key_causes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Cause]:
    for name, before, after in _changed(old, new):
        package = name.removeprefix("package.").removeprefix("build.")
        if package != name:
            says = f"{package} is part of what kernels are built from; bake or seed the caches with the image"
            yield Cause(name, before, after, ALL, "no", says)
        else:
            avoidable, says = _OF_FACTOR.get(name, ("no", "it is part of the key"))
            yield Cause(name, before, after, ALL, avoidable, says)


def _model_causes(old: CacheManifest, new: CacheManifest) -> Iterator[Cause]:
    if old.model_path != new.model_path:
        says = "the path's text is hashed, not what lies there; serve from one path for good"
        yield Cause("model path", old.model_path, new.model_path, _HASHED_CONFIG, "yes", says)
    if old.argv[:1] != new.argv[:1]:
        says = "the interpreter moved, and the paths of traced source files are hashed"
        before, after = "".join(old.argv[:1]), "".join(new.argv[:1])
        yield Cause("interpreter", before, after, ("torch.compile",), "yes", says)
    for name, before, after in _changed(old.model_files, new.model_files):
        yield Cause(f"model's {name}", before, after, _HASHED_CONFIG, "no", "the model's configuration is hashed")


def _argument_causes(old: CacheManifest, new: CacheManifest) -> tuple[list[Cause], list[str]]:
    causes, quiet = [], []
    for flag, before, after in _changed(_flags(old.argv), _flags(new.argv)):
        if flag in _NOT_HASHED:
            quiet.append(f"{flag} was {before or 'absent'}, is {after or 'absent'}: in no cache's name")
        else:
            says = "arguments are hashed into the names of compiled and tuned kernels; keep it the same"
            causes.append(Cause(flag, before, after, _HASHED_CONFIG, "yes", says))
    return causes, quiet


def _env_causes(old: CacheManifest, new: CacheManifest) -> tuple[list[Cause], list[str]]:
    hashed = hashed_names(new.engine_version) if new.engine != "sglang" else frozenset[str]()
    number = version(new.engine_version)
    caches = ("torch.compile", "flashinfer autotune") if () < number[:2] <= AUTOTUNE_HASHES_ENV_UNTIL else _COMPILE
    causes, quiet = [], []
    for name, before, after in _changed({**old.inherited, **old.env}, {**new.inherited, **new.env}):
        if name in CACHE_VARIABLES:
            if _below(before, old.key) != _below(after, new.key):
                says = "the cache was looked for in another folder; leave it to kboot"
                causes.append(Cause(name, before, after, ALL, "yes", says))
        elif name in hashed:
            nature = volatile(name)
            says = f"this vLLM hashes it{f' ({nature})' if nature else ''}; give it one value for good, or unset it"
            causes.append(Cause(name, before, after, caches, "yes", says))
        else:
            quiet.append(f"{name} was {before or 'absent'}, is {after or 'absent'}: not hashed")
    return causes, quiet


_COMPILE = ("torch.compile",)


def _below(path: str, key: str) -> str:
    """Return a cache's path without the root and the key's folder, which change together with the key."""
    return path.partition(f"/{key}/")[2] or path


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield name, old.get(name, ""), new.get(name, "")


def _flags(argv: tuple[str, ...]) -> dict[str, str]:
    """Return flag → value of a command line; a flag without one is "given", a repeated one has all its values."""
    found: dict[str, list[str]] = {}
    flag = ""
    for word in argv[1:]:
        if word.startswith("--") or (word.startswith("-") and word[1:2].isalpha()):
            flag, equals, value = word.partition("=")
            found.setdefault(flag, []).extend([value] if equals else [])
        elif flag:
            found[flag].append(word)
    return {name: " ".join(values) or "given" for name, values in found.items()}
