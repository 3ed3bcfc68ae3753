"""Why did a kernel cache miss: which factor changed, what did that invalidate, what did it cost, could it be avoided?

Pure: compares two manifests. Nothing is concluded that neither of them holds; what no factor explains is said to be so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from kboot.report.cache_causes import ALL, Cause, causes_between
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.report.cache_manifest import CacheManifest

# Cache → the engine's phases that are long without it.
PHASES_OF: Mapping[str, tuple[str, ...]] = {
    "torch.compile": ("compile",),
    "flashinfer autotune": ("FlashInfer autotune", "autotune"),
    "flashinfer jit": ("JIT warm-up", "profiling run"),
    "deep_gemm": ("DeepGEMM warm-up",),
}
# How a cache's folder begins, below the key's folder.
FOLDERS_OF: Mapping[str, tuple[str, ...]] = {
    "torch.compile": ("vllm/torch_compile_cache/",),
    "flashinfer autotune": ("flashinfer-autotune/", "sglang/flashinfer/autotune/"),
    "flashinfer jit": ("flashinfer/",),
    "startup plan": ("vllm/startup_plan/",),
}

Verdict = Literal["hit", "miss", "partly", "unknown"]


@dataclass(frozen=True, slots=True)
class CacheVerdict:
    """What became of one cache in the later boot.

    new: folders that the earlier boot did not have. gone: folders that it left and this one did not find.
    seconds, then_s: the engine's phases that depend on it, in the later and the earlier boot; None where not measured.
    cost_s: what the miss took; None without a miss, or where nothing was measured. why: the causes that explain it.
    """

    cache: str
    verdict: Verdict
    new: tuple[str, ...]
    gone: tuple[str, ...]
    seconds: float | None
    then_s: float | None
    cost_s: float | None
    why: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Two boots compared. causes: every factor that changed and matters. harmless: those that changed and do not."""

    boot: CacheManifest
    against: CacheManifest
    causes: tuple[Cause, ...]
    harmless: tuple[str, ...]
    caches: tuple[CacheVerdict, ...]

    @property
    def cost_s(self) -> float:
        """Seconds that misses took, as far as measured."""
        return sum(c.cost_s or 0.0 for c in self.caches)


def explain(boot: CacheManifest, against: CacheManifest) -> Explanation:
    """Compare a boot with an earlier one."""
    causes, harmless = causes_between(against, boot)
    own = tuple(_engine_causes(boot, against))
    causes = (*causes, *own)
    names = sorted({*boot.said, *against.said, *_with_folders(boot, against)} | _measured(boot, against))
    caches = tuple(_verdict(name, boot, against, causes) for name in names)
    return Explanation(boot, against, causes, harmless, caches)


def _with_folders(boot: CacheManifest, against: CacheManifest) -> set[str]:
    found = {*boot.folders, *against.folders}
    return {cache for cache, begins in FOLDERS_OF.items() if any(f.startswith(begins) for f in found)}


def _measured(boot: CacheManifest, against: CacheManifest) -> set[str]:
    phases = {*boot.seconds, *against.seconds}
    return {cache for cache in ("torch.compile", "flashinfer autotune", "deep_gemm") if phases & {*PHASES_OF[cache]}}


def _verdict(cache: str, boot: CacheManifest, against: CacheManifest, causes: Iterable[Cause]) -> CacheVerdict:
    begins = FOLDERS_OF.get(cache, ())
    same_key = boot.key == against.key
    had = set(against.folders) if same_key else set()
    new = tuple(sorted(f for f in {*boot.folders} - had if f.startswith(begins))) if begins else ()
    gone = tuple(sorted(f for f in had - {*boot.before, *boot.folders} if f.startswith(begins))) if begins else ()
    seconds, then_s = _seconds(boot, cache), _seconds(against, cache)
    verdict = _judge(boot.said.get(cache), seconds, then_s)
    why = tuple(c for c in causes if cache in c.caches or c.caches == ALL)
    if verdict == "hit" and not new:
        why = ()
    if gone and not why:
        why = (_gone_cause(cache, gone),)
    return CacheVerdict(cache, verdict, new, gone, seconds, then_s, _cost_s(verdict, seconds, then_s), why)


def _judge(said: tuple[int, int] | None, seconds: float | None, then_s: float | None) -> Verdict:
    """What the log said counts; without a word, a phase several times as long as before is a miss."""
    if said is not None:
        hits, misses = said
        return "partly" if hits and misses else "hit" if hits else "miss" if misses else "unknown"
    if seconds is None or then_s is None:
        return "unknown"
    return "miss" if seconds > 2 * then_s + 5.0 else "hit" if then_s > 2 * seconds + 5.0 else "unknown"


def _seconds(manifest: CacheManifest, cache: str) -> float | None:
    found = [manifest.seconds[p] for p in PHASES_OF.get(cache, ()) if p in manifest.seconds]
    return sum(found) if found else None


def _cost_s(verdict: Verdict, seconds: float | None, then_s: float | None) -> float | None:
    """The whole phase where the earlier boot has nothing better, else what it took longer."""
    if verdict not in ("miss", "partly") or seconds is None:
        return None
    return seconds if then_s is None or then_s >= seconds else seconds - then_s


def _gone_cause(cache: str, gone: tuple[str, ...]) -> Cause:
    return Cause(
        "folder",
        gone[0],
        "gone",
        (cache,),
        "yes",
        "the folder of the earlier boot was not there any more: removed by a person, a clean-up or a crash",
    )


def _engine_causes(boot: CacheManifest, against: CacheManifest) -> Iterator[Cause]:
    """What vLLM's own files say of a new folder, compared with the nearest of the earlier boot's folders."""
    known = {f: v for f, v in against.engine_factors.items() if f in against.folders}
    for folder, factors in sorted(boot.engine_factors.items()):
        if folder in known or not known:
            continue
        nearest = min(known, key=lambda name: (len(_differing(known[name], factors)), name))
        for name, old, new in _differing(known[nearest], factors):
            yield _engine_cause(name, old, new, boot, against)


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return what differs between two cache_key_factors.json: each hash, and each variable of the environment."""
    found = [
        (name, str(old.get(name, "")), str(new.get(name, "")))
        for name in ("code_hash", "compiler_hash", "config_hash")
        if old.get(name) != new.get(name)
    ]
    before, after = _env(old), _env(new)
    names = sorted(before.keys() | after.keys())
    return found + [(f"env {n}", str(before.get(n)), str(after.get(n))) for n in names if before.get(n) != after.get(n)]


def _env(factors: Mapping[str, Any]) -> Mapping[str, Any]:
    env = factors.get("env")
    return env if isinstance(env, dict) else {}


def _engine_cause(name: str, old: str, new: str, boot: CacheManifest, against: CacheManifest) -> Cause:
    caches = ("torch.compile",)
    same_code = boot.argv[:1] == against.argv[:1] and _packages(boot) == _packages(against)
    match name:
        case "code_hash" if same_code:
            says = (
                "path or content of a source file that was traced; interpreter and packages are the same, so it is the "
                "list of traced files: it differs once, between the boot that compiles and the next one, which loads "
                "the compiled artefact"
            )
            return Cause(name, old, new, caches, "once", says)
        case "code_hash":
            says = "path or content of a source file that was traced: the engine's files moved or changed"
            return Cause(name, old, new, caches, "no", says)
        case "compiler_hash":
            return Cause(name, old, new, caches, "no", "torch, Triton, CUDA, the GPU or Inductor's settings changed")
        case "config_hash":
            says = "an argument, the model's path or its configuration changed; see the arguments of both boots"
            return Cause(name, old, new, caches, "yes", says)
        case _:
            return Cause(name, old, new, caches, "yes", "a variable that this vLLM hashes; give it one value for good")


def _packages(manifest: CacheManifest) -> dict[str, str]:
    return {n: v for n, v in manifest.factors.items() if n.startswith(("package.", "build.")) or n == "engine_version"}
