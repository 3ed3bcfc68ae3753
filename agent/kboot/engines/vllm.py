"""How is `vllm serve` started with its share, pins and caches, and what does its log say?

Written against vLLM 0.26-0.33. Since 0.28 a worker's threads are CPUs / workers, where data-parallel engines,
external load balancers and other engines of the node are not all counted (vllm#52330), so the share is always given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.cpulist import format_cpu_list
from kboot.engines import common
from kboot.engines.types import CacheKey, CacheSign, CpuPlacement, EnginePhase, Launch, LaunchAsk, Setting

if TYPE_CHECKING:
    from kboot.facts.types import NodeFacts
    from kboot.profile.types import EngineName, LayoutAsk, Profile

_RPC_PORT = "29550"
_MASTER_PORT = "29501"
_READY_TIMEOUT_S = "7200"  # hashed into the cache key by vLLM, so never other than this

_BALANCES = frozenset({"--enable-eplb", "--eplb-config"})  # experts move between ranks: all must be read

PHASES: tuple[EnginePhase, ...] = (
    EnginePhase("front end", "", r"Started DP Coordinator process|Initializing a V1 LLM engine"),
    EnginePhase("engine cores", r"Started DP Coordinator process", r"Initializing a V1 LLM engine"),
    EnginePhase("workers", r"DP group leader: node_rank=|Initializing a V1 LLM engine", r"world_size=\d+ rank=\d+"),
    EnginePhase("distributed init", r"world_size=\d+ rank=\d+", r"rank \d+ in world size \d+ is assigned as"),
    EnginePhase("load model", r"Starting to load model|Loading model from scratch", r"Model loading took [\d.]+ GiB"),
    EnginePhase(
        "read weights",
        r"(?:Loading \w+ checkpoint shards|Multi-thread loading shards|Loading safetensors using [\w ]+): +0%",
        r"Loading weights took (?P<seconds>[\d.]+) seconds|using Runai Model Streamer: +100%",
    ),
    EnginePhase(
        "compile",
        r"Using cache directory: \S+ for vLLM's torch\.compile",
        r"torch\.compile (?:took|takes) (?P<seconds>[\d.]+) s in total",
    ),
    EnginePhase(
        "profiling run",
        r"torch\.compile (?:took|takes) [\d.]+ s in total",
        r"Initial profiling/warmup run took (?P<seconds>[\d.]+) s",
    ),
    EnginePhase("size KV cache", r"Profiling CUDA graph memory", r"KV cache size: [\d,]+ tokens"),
    EnginePhase("JIT warm-up", r"JIT kernel warmup starting", r"JIT kernel warmup finished in (?P<seconds>[\d.]+) ?s"),
    EnginePhase("DeepGEMM warm-up", r"DeepGEMM warmup: +0%", r"DeepGEMM warmup: *100%"),
    EnginePhase(
        "FlashInfer autotune",
        r"Running FlashInfer autotune with \d+ tokens",
        r"\[Autotuner\]: Saved \d+ configs to",
    ),
    EnginePhase("graph capture", r"Capturing CUDA graphs", r"Graph capturing finished in (?P<seconds>[\d.]+) secs"),
    EnginePhase("start server", r"init engine \(profile, create kv cache, warmup model\) took", r"startup complete"),
)

_NOT_SECOND_HAND = (
    r"(?!Exception: WorkerProc initialization failed|RuntimeError: Engine core initialization failed"
    r"|subprocess\.CalledProcessError: .*\bmodels\.registry\b|RuntimeError: Error raised in subprocess:$)"
)
FAILURES: tuple[str, ...] = (
    r".*\bfatal error: ",
    r"(?:nvcc|ptxas)\S*\s+fatal\s*:",
    r"\S*\bld: cannot find ",
    r"RuntimeError: Engine core initialization failed.*: -\d+\b",  # a signal ended it before it could say why
    rf"{_NOT_SECOND_HAND}(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Interrupt|NotFound): \S",
    r"(?:[A-Za-z_]\w*\.)*\w*Error$",  # an assertion without a word
    # an exception of another name: huggingface_hub.errors.OfflineModeIsEnabled
    rf"{_NOT_SECOND_HAND}(?:[A-Za-z_]\w*\.)+[A-Z]\w*: \S",
    r"(?:[A-Za-z_]\w*\.)+\w*error: \S",  # socket.gaierror, zlib.error
    r"Worker proc \S+ died unexpectedly",
    r"Timed out waiting for engine core processes",
    r"Configuration mismatch detected for engine",
    r"Killed$|Segmentation fault|(?:Fatal Python error: )?Bus error|Illegal instruction|Aborted \(core dumped\)",
    r"Fatal Python error: |terminate called after throwing an instance of ",
)

CACHE_SIGNS: tuple[CacheSign, ...] = (
    CacheSign("torch.compile", True, r"Directly load AOT compilation from path"),
    CacheSign("torch.compile", True, r"Directly load the compiled graph\(s\)"),
    CacheSign("torch.compile", False, r"saved AOT compiled function to"),
    CacheSign("torch.compile", False, r"Compiling model again due to a load failure"),
    CacheSign("flashinfer autotune", True, r"\[Autotuner\]: Loaded \d+ configs from"),
    CacheSign("flashinfer autotune", False, r"Running FlashInfer autotune with"),
    CacheSign("flashinfer autotune", False, r"\[Autotuner\]: Cache file \S+ was created in a"),
    CacheSign("flashinfer jit", False, r"Building JIT module"),
    CacheSign("startup plan", True, r"Applying persisted startup plan"),
    CacheSign("startup plan", False, r"Saved startup plan to"),
)

THREADS: tuple[str, ...] = (
    r"Reducing Torch (?:threads|parallelism) from (?P<threads>\d{1,6})\b",
    r"OMP_NUM_THREADS=\d+ is set; leaving Torch threads at (?P<threads>\d{1,6})\b",
)

# Since 0.28 this makes vLLM keep the share while it loads and drop to one thread to serve (vllm#49919).
SHARE_MARK = Setting("VLLM_OMP_NUM_THREADS_SET_BY_VLLM", "1", "keep the share for loading only, serve with 1 thread")

WORKER_TITLES: tuple[str, ...] = (
    r"^VLLM::Worker(?:_[A-Z]+\d+)*\s*$",
    r"^VLLM::EngineCore\s*$",  # nothing is parallel: the engine core is the worker
)


class Vllm:
    """Adapter for `vllm serve`, an OpenAI-compatible server."""

    name: EngineName = "vllm"
    phases: tuple[EnginePhase, ...] = PHASES
    failures: tuple[str, ...] = FAILURES
    cache_signs: tuple[CacheSign, ...] = CACHE_SIGNS
    threads: tuple[str, ...] = THREADS

    def cache_key(self, facts: NodeFacts, profile: Profile, layout: LayoutAsk, commit: str) -> CacheKey:
        """Return the key under which vLLM's kernel caches are kept."""
        return common.cache_key(facts, profile, layout, commit)

    def launch(self, facts: NodeFacts, profile: Profile, ask: LaunchAsk) -> Launch:
        """Return the command line; ranks other than the first of a data-parallel layout run without HTTP."""
        python = common.interpreter(facts, self.name)
        number = common.version(facts.engine.version)
        flags = common.without_asked(
            (*_serve_flags(profile), *_parallel_flags(ask), *_numa_flags(facts, ask.placement, number)), ask.layout.args
        )
        module = ("-m", "vllm.entrypoints.cli.main", "serve", ask.model_path)
        return common.launch(
            self.name,
            profile,
            ask,
            argv=(python, *module, *common.words(flags), *ask.layout.args),
            env=_env(facts, ask, number),
            flags=flags,
            titles=WORKER_TITLES,
            http=ask.node_rank == 0,
        )


def _serve_flags(profile: Profile) -> tuple[Setting, ...]:
    return (
        Setting("--served-model-name", common.served_name(profile), "clients see the model's name, not a path"),
        Setting("--host", profile.serve.host, "serve.host of the profile"),
        Setting("--port", str(profile.serve.port), "serve.port of the profile"),
    )


def _parallel_flags(ask: LaunchAsk) -> tuple[Setting, ...]:
    layout, parallel = ask.layout, ask.layout.parallel
    reason = f"layout {layout.name}"
    degrees = (
        ("--data-parallel-size", parallel.data),
        ("--tensor-parallel-size", parallel.tensor),
        ("--pipeline-parallel-size", parallel.pipeline),
    )
    flags = tuple(Setting(name, str(degree), reason) for name, degree in degrees if degree > 1)
    if parallel.expert:
        flags += (Setting("--enable-expert-parallel", "", f"{reason}: experts are spread over all ranks"),)
        if not any(arg.partition("=")[0] in _BALANCES for arg in layout.args):
            flags += (Setting("--enable-ep-weight-filter", "", "a rank reads its own experts only; hashed, so always"),)
    if layout.nodes > 1:
        flags += _node_flags(ask)
    return flags


def _node_flags(ask: LaunchAsk) -> tuple[Setting, ...]:
    """Whole data-parallel engines on every node where they divide; else one engine across nodes."""
    layout, parallel = ask.layout, ask.layout.parallel
    headless = (Setting("--headless", "", "the first node answers for all"),) if ask.node_rank else ()
    if parallel.data % layout.nodes == 0:
        local = parallel.data // layout.nodes
        start = (Setting("--data-parallel-start-rank", str(ask.node_rank * local), "ranks before this node's"),)
        return (
            Setting("--data-parallel-size-local", str(local), f"{parallel.data} engines on {layout.nodes} nodes"),
            Setting("--data-parallel-address", ask.head_address, "the first node"),
            Setting("--data-parallel-rpc-port", _RPC_PORT, "the same on every node"),
            *(start if ask.node_rank else ()),
            *headless,
        )
    common.per_node(parallel.data * parallel.tensor * parallel.pipeline, layout, "a world size of")
    return (
        Setting("--nnodes", str(layout.nodes), f"layout {layout.name}"),
        Setting("--node-rank", str(ask.node_rank), "this node"),
        Setting("--master-addr", ask.head_address, "the first node"),
        Setting("--master-port", _MASTER_PORT, "the same on every node"),
        *headless,
    )


def _numa_flags(facts: NodeFacts, placement: CpuPlacement, number: tuple[int, ...]) -> tuple[Setting, ...]:
    """Pins, always explicit: bare --numa-bind takes 2 of 16 CPUs on parts with priority cores (vllm#43270).

    The flags came with vllm#38635, before the oldest version kboot was checked with. vLLM does it by numactl, and ends
    without that program; where the kernel refuses the memory part it goes on without it.
    """
    if number < (0, 26) or "numactl" not in facts.programs:
        return ()
    if not placement.workers or any(w.memory_node is None for w in placement.workers):
        return ()
    nodes = " ".join(str(w.memory_node) for w in placement.workers)
    cpus = " ".join(format_cpu_list(w.cpus) for w in placement.workers)
    return (
        Setting("--numa-bind", "", "each worker starts on the CPUs and memory of its GPU's NUMA node"),
        Setting("--numa-bind-nodes", nodes, "one NUMA node per GPU, not guessed by the engine"),
        Setting("--numa-bind-cpus", cpus, "one CPU list per GPU, disjoint"),
    )


def _env(facts: NodeFacts, ask: LaunchAsk, number: tuple[int, ...]) -> tuple[Setting, ...]:
    cache = ask.cache_dir
    # Entries other than numbers are understood since 0.24 (vllm#45026); before, a UUID ended in a ValueError.
    uuids = number >= (0, 24)
    return (
        *common.thread_settings(ask.placement),
        *((SHARE_MARK,) if number >= (0, 28) else ()),
        *common.cache_settings(cache),
        *common.bytecode_settings(ask.bytecode_dir),
        Setting("VLLM_CACHE_ROOT", f"{cache}/vllm", "torch.compile, startup plan, model info"),
        Setting("VLLM_CONFIG_ROOT", f"{cache}/vllm-config", "nothing in $HOME"),
        Setting("VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR", f"{cache}/flashinfer-autotune", "tuned kernels: ~15 min cold"),
        Setting("VLLM_ENABLE_STARTUP_PLAN", "1", "memory profile of the last boot is used again"),
        Setting("VLLM_ENGINE_READY_TIMEOUT_S", _READY_TIMEOUT_S, "600 s by default; constant, for it is hashed"),
        Setting("VLLM_NO_USAGE_STATS", "1", "no telemetry"),
        *common.hub_settings(cache),
        *common.network_settings(facts.fleet, ask.layout),
        *common.gpu_settings(facts.gpu, ask.placement, uuids=uuids),
    )
