"""How is the demo engine started, which stands in for vLLM on machines without GPUs?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.cpulist import format_cpu_list
from kboot.engines import common
from kboot.engines.types import CacheKey, CacheSign, EnginePhase, Launch, LaunchAsk, Setting
from kboot.engines.vllm import CACHE_SIGNS, FAILURES, PHASES, THREADS, WORKER_TITLES

if TYPE_CHECKING:
    from kboot.facts.types import NodeFacts
    from kboot.profile.types import EngineName, LayoutAsk, Profile


class Demo:
    """Adapter for `python -m kboot.demo.engine serve`: vLLM's log lines, process titles and endpoints."""

    name: EngineName = "demo"
    phases: tuple[EnginePhase, ...] = PHASES
    failures: tuple[str, ...] = FAILURES
    cache_signs: tuple[CacheSign, ...] = CACHE_SIGNS
    threads: tuple[str, ...] = THREADS

    def cache_key(self, facts: NodeFacts, profile: Profile, layout: LayoutAsk, commit: str) -> CacheKey:
        """Return the key under which the demo engine's caches are kept."""
        return common.cache_key(facts, profile, layout, commit)

    def launch(self, facts: NodeFacts, profile: Profile, ask: LaunchAsk) -> Launch:
        """Return the command line: one worker process for each data-parallel rank."""
        python = common.interpreter(facts, self.name)
        flags = common.without_asked(_flags(profile, ask), ask.layout.args)
        module = ("-m", "kboot.demo.engine", "serve", ask.model_path)
        return common.launch(
            self.name,
            profile,
            ask,
            argv=(python, *module, *common.words(flags), *ask.layout.args),
            env=_env(facts, ask),
            flags=flags,
            titles=WORKER_TITLES,
            http=True,
        )


def _flags(profile: Profile, ask: LaunchAsk) -> tuple[Setting, ...]:
    parallel = ask.layout.parallel
    reason = f"layout {ask.layout.name}"
    cpus = " ".join(format_cpu_list(w.cpus) for w in ask.placement.workers if w.cpus)
    expert = (Setting("--enable-expert-parallel", "", f"{reason}: experts are spread over all ranks"),)
    return (
        Setting("--served-model-name", common.served_name(profile), "clients see the model's name, not a path"),
        Setting("--host", profile.serve.host, "serve.host of the profile"),
        Setting("--port", str(profile.serve.port), "serve.port of the profile"),
        Setting("--data-parallel-size", str(parallel.data * parallel.tensor * parallel.pipeline), reason),
        *(expert if parallel.expert else ()),
        *((Setting("--numa-bind-cpus", cpus, "one CPU list per worker"),) if cpus else ()),
    )


def _env(facts: NodeFacts, ask: LaunchAsk) -> tuple[Setting, ...]:
    return (
        *common.thread_settings(ask.placement),
        *common.cache_settings(ask.cache_dir),
        Setting("VLLM_CACHE_ROOT", f"{ask.cache_dir}/vllm", "the demo engine's compiled entry"),
        *common.hub_settings(ask.cache_dir),
        *common.gpu_settings(facts.gpu, ask.placement),
    )
