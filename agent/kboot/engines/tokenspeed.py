"""How is TokenSpeed started with its caches, and what does its log say? Written against TokenSpeed 0.1.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.engines import common
from kboot.engines.types import CacheKey, CacheSign, EnginePhase, Launch, LaunchAsk, Setting
from kboot.engines.vllm import FAILURES
from kboot.errors import ProfileError

if TYPE_CHECKING:
    from kboot.facts.types import NodeFacts
    from kboot.profile.types import EngineName, LayoutAsk, Profile


def _timed(name: str, span: str) -> EnginePhase:
    """A span of TOKENSPEED_STARTUP_TIMING: one JSON record when it starts, one with its length when it ends."""
    record = rf'startup_timing (?=.*"phase": ?"{span}")'
    return EnginePhase(name, rf'{record}(?!.*"duration_s")', rf'{record}.*"duration_s": ?(?P<seconds>[\d.]+)')


PHASES: tuple[EnginePhase, ...] = (
    _timed("distributed init", r"distributed\.init"),
    _timed("load model", r"weights\.target"),
    _timed("read weights", r"weights\.read_copy"),
    _timed("post-process weights", r"weights\.postprocess"),
    _timed("size KV cache", r"kv\.build"),
    _timed("autotune", r"kernels\.autotune"),
    _timed("graph capture", r"graph\.capture"),
)

WORKER_TITLES: tuple[str, ...] = (r"^tokenspeed::scheduler(?:_[a-z]+\d+)*\s*$",)


class Tokenspeed:
    """Adapter for `tokenspeed serve`: a gRPC engine behind an HTTP gateway."""

    name: EngineName = "tokenspeed"
    phases: tuple[EnginePhase, ...] = PHASES
    failures: tuple[str, ...] = FAILURES
    cache_signs: tuple[CacheSign, ...] = (
        CacheSign("flashinfer autotune", True, r"\[Autotuner\]: Loaded \d+ configs from"),
        CacheSign("flashinfer autotune", False, r"\[Autotuner\]: Saved \d+ configs to"),
    )
    threads: tuple[str, ...] = ()  # loads with one torch thread and its own readers, whatever the share

    def cache_key(self, facts: NodeFacts, profile: Profile, layout: LayoutAsk, commit: str) -> CacheKey:
        """Return the key under which TokenSpeed's kernel caches are kept."""
        return common.cache_key(facts, profile, layout, commit)

    def launch(self, facts: NodeFacts, profile: Profile, ask: LaunchAsk) -> Launch:
        """Return the command line.

        Raises:
            ProfileError: the layout spans nodes.
        """
        if ask.layout.nodes > 1:
            # `tokenspeed serve` waits on every node for its engine's gRPC port (python/tokenspeed/cli/serve_smg.py of
            # 2026), which a node of rank 1 and above does not open: its engine only follows. The guide of several nodes
            # leaves launcher and gateway to the operator (docs/guides/kimi-k3-hopper-pd.md), and has them unvalidated.
            raise ProfileError(
                "layout-not-supported",
                f"layout {ask.layout.name} spans {ask.layout.nodes} nodes; TokenSpeed is started on one node only",
                hint='use engine = "vllm" or "sglang" for this layout, or engine = "command"',
            )
        python = common.interpreter(facts, self.name)
        program = f"{python.rpartition('/')[0]}/tokenspeed"  # console script, beside the interpreter it belongs to
        flags = common.without_asked(_flags(profile, ask), ask.layout.args)
        return common.launch(
            self.name,
            profile,
            ask,
            argv=(program, "serve", ask.model_path, *common.words(flags), *ask.layout.args),
            env=_env(facts, ask),
            flags=flags,
            titles=WORKER_TITLES,
            http=True,
        )


def _flags(profile: Profile, ask: LaunchAsk) -> tuple[Setting, ...]:
    layout, parallel = ask.layout, ask.layout.parallel
    reason = f"layout {layout.name}"
    degrees = (("--tensor-parallel-size", parallel.tensor), ("--data-parallel-size", parallel.data))
    expert = (Setting("--enable-expert-parallel", "", f"{reason}: experts are spread over all ranks"),)
    return (
        Setting("--served-model-name", common.served_name(profile), "clients see the model's name, not a path"),
        Setting("--host", profile.serve.host, "serve.host of the profile"),
        Setting("--port", str(profile.serve.port), "serve.port of the profile"),
        Setting("--engine-startup-timeout", str(profile.serve.ready_timeout_s), "serve.ready_timeout_s of the profile"),
        *(Setting(name, str(degree), reason) for name, degree in degrees if degree > 1),
        *(expert if parallel.expert else ()),
    )


def _env(facts: NodeFacts, ask: LaunchAsk) -> tuple[Setting, ...]:
    cache = ask.cache_dir
    return (
        *common.thread_settings(ask.placement),
        *common.cache_settings(cache),
        *common.bytecode_settings(ask.bytecode_dir),
        Setting("TOKENSPEED_FLASHINFER_AUTOTUNE_CACHE_DIR", f"{cache}/flashinfer-autotune", "tuned kernels"),
        Setting("TOKENSPEED_STARTUP_TIMING", "1", "the engine's own boot phases, for the timeline"),
        *common.hub_settings(cache),
        *common.gpu_settings(facts.gpu, ask.placement),
    )
