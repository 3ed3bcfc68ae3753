"""How is SGLang started with its pins and caches, and what does its log say? Written against SGLang 0.5.23."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.addresses import host_port
from kboot.engines import common
from kboot.engines.types import CacheKey, CacheSign, EnginePhase, Launch, LaunchAsk, Setting
from kboot.engines.vllm import FAILURES

if TYPE_CHECKING:
    from kboot.facts.types import NodeFacts
    from kboot.profile.types import EngineName, LayoutAsk, Profile

_DIST_INIT_PORT = 20000

PHASES: tuple[EnginePhase, ...] = (
    EnginePhase("distributed init", r"Init torch distributed begin", r"Init (?:torch distributed|parallel) ends"),
    EnginePhase("load model", r"Load weight begin", r"Load weight end\.(?: elapsed=(?P<seconds>[\d.]+) s)?"),
    EnginePhase("size KV cache", r"Load weight end", r"Memory pool end", together=True),
    EnginePhase("DeepGEMM warm-up", r"Entering DeepGEMM JIT Pre-Compile session", r"DeepGEMM .*100%"),
    EnginePhase("FlashInfer autotune", r"Running FlashInfer autotune", r"FlashInfer autotune completed"),
    EnginePhase(
        "graph capture",
        r"(?i:Capture .{0,80}cuda graph begin)",  # "CUDA" in 0.5.23, "cuda" before
        r"(?i:Capture .{0,80}cuda graph end\.).{0,200}elapsed=(?P<seconds>[\d.]+) s",
    ),
    EnginePhase("warm up server", r"max_total_num_tokens=", r"The server is fired up and ready to roll"),
)

WORKER_TITLES: tuple[str, ...] = (r"^sglang::scheduler(?:_[A-Z_]+\d+)*\s*$",)


class Sglang:
    """Adapter for `python -m sglang.launch_server`."""

    name: EngineName = "sglang"
    phases: tuple[EnginePhase, ...] = PHASES
    failures: tuple[str, ...] = (*FAILURES, r"Rank \d+ scheduler is dead", r"Received sigquit from a child process")
    cache_signs: tuple[CacheSign, ...] = (
        CacheSign("flashinfer autotune", False, r"per-rank caches disagree, discarding"),
        CacheSign("flashinfer autotune", True, r"\[Autotuner\]: Loaded \d+ configs from"),
    )
    threads: tuple[str, ...] = ()  # loads with one torch thread and its own pool of readers, whatever the share

    def cache_key(self, facts: NodeFacts, profile: Profile, layout: LayoutAsk, commit: str) -> CacheKey:
        """Return the key under which SGLang's kernel caches are kept."""
        return common.cache_key(facts, profile, layout, commit)

    def launch(self, facts: NodeFacts, profile: Profile, ask: LaunchAsk) -> Launch:
        """Return the command line; only the first node of a layout answers HTTP."""
        python = common.interpreter(facts, self.name)
        flags = common.without_asked(
            (*_serve_flags(profile, ask), *_parallel_flags(ask), *_numa_flags(ask)), ask.layout.args
        )
        return common.launch(
            self.name,
            profile,
            ask,
            argv=(python, "-m", "sglang.launch_server", *common.words(flags), *ask.layout.args),
            env=_env(facts, ask),
            flags=flags,
            titles=WORKER_TITLES,
            http=ask.node_rank == 0,
        )


def _serve_flags(profile: Profile, ask: LaunchAsk) -> tuple[Setting, ...]:
    return (
        Setting("--model-path", ask.model_path, "the one stable serving path"),
        Setting("--served-model-name", common.served_name(profile), "clients see the model's name, not a path"),
        Setting("--host", profile.serve.host, "serve.host of the profile"),
        Setting("--port", str(profile.serve.port), "serve.port of the profile"),
    )


def _parallel_flags(ask: LaunchAsk) -> tuple[Setting, ...]:
    """With experts spread, data-parallel attention lies inside the tensor group; without, replicas lie beside it."""
    layout, parallel = ask.layout, ask.layout.parallel
    reason = f"layout {layout.name}"
    inside = parallel.expert and parallel.data > 1
    tensor = parallel.data * parallel.tensor if inside else parallel.tensor
    flags = [Setting("--tp-size", str(tensor), reason)]
    if parallel.pipeline > 1:
        flags.append(Setting("--pp-size", str(parallel.pipeline), reason))
    if parallel.data > 1:
        flags.append(Setting("--attention-data-parallel-size" if inside else "--dp-size", str(parallel.data), reason))
    if parallel.expert:
        flags.append(Setting("--ep-size", str(tensor), f"{reason}: experts are spread over all ranks"))
    if layout.nodes > 1:
        common.per_node(parallel.data * parallel.tensor * parallel.pipeline, layout, "a world size of")
        flags += [
            Setting("--nnodes", str(layout.nodes), reason),
            Setting("--node-rank", str(ask.node_rank), "this node"),
            Setting("--dist-init-addr", host_port(ask.head_address, _DIST_INIT_PORT), "the first node"),
        ]
    return tuple(flags)


def _numa_flags(ask: LaunchAsk) -> tuple[Setting, ...]:
    nodes = [w.memory_node for w in ask.placement.workers]
    if not nodes or None in nodes:
        return ()
    return (Setting("--numa-node", " ".join(str(n) for n in nodes), "one NUMA node per GPU, not guessed"),)


def _env(facts: NodeFacts, ask: LaunchAsk) -> tuple[Setting, ...]:
    return (
        *common.thread_settings(ask.placement),
        *common.cache_settings(ask.cache_dir),
        *common.bytecode_settings(ask.bytecode_dir),
        Setting("SGLANG_CACHE_DIR", f"{ask.cache_dir}/sglang", "SGLang's own caches and tuned kernels"),
        Setting("SGLANG_DG_CACHE_DIR", f"{ask.cache_dir}/deep_gemm", "SGLang sets DG_JIT_CACHE_DIR from this one"),
        Setting("SGLANG_JIT_CACHE_DIR", f"{ask.cache_dir}/sglang-jit", "SGLang's own kernels; default in $HOME"),
        *common.hub_settings(ask.cache_dir),
        *common.network_settings(facts.fleet, ask.layout),
        *common.gpu_settings(facts.gpu, ask.placement),
    )
