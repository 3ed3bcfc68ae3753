"""What do all adapters set in the same way: threads, caches, GPUs, the offline Hub, the key of the caches?"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kboot.addresses import host_port
from kboot.engines.types import CacheKey, CpuPlacement, Launch, LaunchAsk, Setting
from kboot.errors import FactMissing, ProfileError

if TYPE_CHECKING:
    from kboot.facts.fleet_types import FleetFacts
    from kboot.facts.types import GpuFacts, NodeFacts
    from kboot.profile.types import EngineName, LayoutAsk, Profile

UNSET: tuple[str, ...] = (
    # kboot's own service manager: a child that pings or reports would speak for kboot (systemd#25961).
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    # Pins of OpenMP's own would fight those of the plan.
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    # The engine works offline on a local folder; it needs no token, so it gets none to leak.
    "HF_TOKEN",
    "HF_TOKEN_PATH",
    "HUGGING_FACE_HUB_TOKEN",
    # Interpreter starts took 112 s without bytecode and 50-60 s with it, five in a row before the first weight.
    "PYTHONDONTWRITEBYTECODE",
)

_CACHE_FOLDERS: tuple[tuple[str, str, str], ...] = (
    ("CUDA_CACHE_PATH", "nv", "the driver's PTX JIT; default in $HOME"),
    ("CUTE_DSL_CACHE_DIR", "cutedsl", "CuTe-DSL kernels; default in /tmp"),
    ("DG_JIT_CACHE_DIR", "deep_gemm", "DeepGEMM kernels: 2,267 were compiled in one cold start, about a second each"),
    ("EP_JIT_CACHE_DIR", "deep_ep", "DeepEP kernels; default in $HOME"),
    ("FLASHINFER_WORKSPACE_BASE", "flashinfer", "FlashInfer modules: more than 8 minutes of nvcc when cold"),
    ("FLASH_ATTENTION_CUTE_DSL_CACHE_DIR", "fa4", "FlashAttention CuTe kernels; default in /tmp"),
    ("HUMMING_CACHE_DIR", "humming/cache", "Humming kernels; default in $HOME"),
    ("HUMMING_TMP_DIR", "humming/tmp", "Humming's locks, beside its cache"),
    ("MINFER_FMHA_CACHE_DIR", "minfer/fmha", "fmha kernels; default in $HOME"),
    ("MM_SPARSE_ATTN_AOT_CACHE", "minfer/sparse", "sparse attention kernels; default in $HOME"),
    ("MOONCAKE_EP_JIT_CACHE_DIR", "mooncake-ep", "Mooncake's expert-parallel kernels; default in /tmp"),
    ("OUTLINES_CACHE_DIR", "outlines", "grammars; default in $HOME"),
    ("QUACK_CACHE_DIR", "quack", "QuACK objects; default in /tmp"),
    ("TILELANG_CACHE_DIR", "tilelang/cache", "TileLang kernels; default in $HOME"),
    ("TILELANG_TMP_DIR", "tilelang/tmp", "TileLang's staging, on the file system of its cache"),
    ("TORCHINDUCTOR_CACHE_DIR", "inductor", "Inductor; default in /tmp"),
    ("TORCH_EXTENSIONS_DIR", "torch-extensions", "torch's C++ extensions; default in $HOME"),
    ("TRITON_CACHE_DIR", "triton", "Triton kernels and their autotuning; default in $HOME"),
    ("TRTLLM_DG_CACHE_DIR", "trtllm-deep_gemm", "the DeepGEMM kernels that FlashInfer builds; default in $HOME"),
    ("TVM_FFI_CACHE_DIR", "tvm-ffi", "tvm-ffi extensions; default in $HOME"),
    ("XDG_CACHE_HOME", "xdg", "every cache that has no variable of its own"),
)

CACHE_VARIABLES: frozenset[str] = frozenset(name for name, _, _ in _CACHE_FOLDERS) | {
    "HF_HOME",
    "HF_MODULES_CACHE",
    "SGLANG_CACHE_DIR",
    "SGLANG_DG_CACHE_DIR",
    "SGLANG_JIT_CACHE_DIR",
    "TOKENSPEED_FLASHINFER_AUTOTUNE_CACHE_DIR",
    "VLLM_CACHE_ROOT",
    "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR",
}
"""Every variable by which an adapter puts a cache below the key's folder."""


def interpreter(facts: NodeFacts, name: EngineName) -> str:
    """Return the Python that has the engine.

    Raises:
        FactMissing: it is not installed.
    """
    found = facts.engine
    if found.name == name and found.interpreter and found.version:
        return found.interpreter
    raise FactMissing(
        "engine-not-installed",
        f"the layout wants {name}, and no Python environment with it was found on this node",
        where=(f"found: {found.name} {found.version or '(not installed)'}",),
        hint=f"install {name}, or put its environment's bin folder into kboot's PATH (the environments under /opt are "
        "looked at without); see with `kboot facts` that it is found",
    )


def version(text: str | None) -> tuple[int, ...]:
    """Return the numbers of a version for comparing: "0.33.0.post1+cu130" is (0, 33, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", text or "")
    return tuple(int(n) for n in found[0].split(".")) if found else ()


def thread_settings(placement: CpuPlacement) -> tuple[Setting, ...]:
    """Return the share of every worker, for each library that would otherwise take all CPUs."""
    share = str(placement.threads)
    workers = len(placement.workers)
    reason = f"share of each of {workers} workers on this node; engines count only their own"
    builds = f"{workers} workers build at once, each would start a job per CPU"
    return (
        Setting("OMP_NUM_THREADS", share, reason),
        Setting("MKL_NUM_THREADS", share, reason),
        Setting("OPENBLAS_NUM_THREADS", share, reason),
        Setting("NUMEXPR_NUM_THREADS", share, reason),
        Setting("RAYON_NUM_THREADS", share, reason),
        Setting("OMP_WAIT_POLICY", "PASSIVE", "a thread that waits gives its CPU up: 2x instead of 10-18x when shared"),
        Setting("MAX_JOBS", share, builds),
        Setting("HUMMING_MAX_PARALLEL_BUILD_WORKERS", share, builds),
        Setting("TILELANG_AUTO_TUNING_MAX_CPU_COUNT", share, builds),
    )


def cache_settings(cache_dir: str) -> tuple[Setting, ...]:
    """Return every kernel cache's place below this key's folder."""
    folders = tuple(Setting(name, f"{cache_dir}/{sub}", why) for name, sub, why in _CACHE_FOLDERS)
    return (
        *folders,
        Setting("CUDA_CACHE_MAXSIZE", str(4 << 30), "the default (1 GiB) is smaller than an engine's PTX"),
        Setting("FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED", "1", "off by default: compiled again at every boot"),
    )


def bytecode_settings(bytecode_dir: str) -> tuple[Setting, ...]:
    """Return where the engine's interpreters find and keep compiled files; nothing where there is no such folder."""
    why = "compiled once, also where the image is read-only or starts afresh"
    return (Setting("PYTHONPYCACHEPREFIX", bytecode_dir, why),) if bytecode_dir else ()


def hub_settings(cache_dir: str) -> tuple[Setting, ...]:
    """Return what keeps the engine off the network and out of $HOME."""
    offline = "the checkpoint is complete and local: no request, whatever the Hub's state"
    home = "all of the Hub client's folders move together, xet's too"
    quiet = "progress bars have no place in a log"
    return (
        Setting("HF_HUB_OFFLINE", "1", offline),
        Setting("TRANSFORMERS_OFFLINE", "1", offline),
        Setting("HF_HOME", f"{cache_dir}/hf", home),
        Setting("HF_HUB_CACHE", f"{cache_dir}/hf/hub", home),
        Setting("HF_XET_CACHE", f"{cache_dir}/hf/xet", home),
        Setting("HF_MODULES_CACHE", f"{cache_dir}/hf/modules", "the model's own code, on a disk that stays"),
        Setting("HF_HUB_DISABLE_PROGRESS_BARS", "1", quiet),
        Setting("HF_HUB_DISABLE_TELEMETRY", "1", "no telemetry"),
        Setting("DO_NOT_TRACK", "1", "no telemetry"),
    )


def gpu_settings(gpu: GpuFacts, placement: CpuPlacement, *, uuids: bool = True) -> tuple[Setting, ...]:
    """Return which GPUs the engine sees, in the order of its workers.

    uuids: False for engines that read only numbers; then CUDA is told to number as NVML does, by PCI bus. A MIG slice
    has no number.
    """
    by_index = {g.index: g for g in gpu.gpus}
    chosen = [(w.device or by_index[w.gpu].uuid, w.gpu) for w in placement.workers if w.gpu in by_index]
    if not chosen or len(chosen) < len(placement.workers):
        return ()
    names = ",".join(uuid if uuids or uuid.startswith("MIG-") else str(index) for uuid, index in chosen)
    reason = "by UUID: numbers mean other cards to CUDA than to NVML" if uuids else "numbered by PCI bus, as below"
    return (
        Setting("CUDA_VISIBLE_DEVICES", names, f"one GPU per worker, {reason}"),
        Setting("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "CUDA numbers the fastest card first by default, NVML by PCI bus"),
    )


def network_settings(fleet: FleetFacts, layout: LayoutAsk) -> tuple[Setting, ...]:
    """Return through which interface the engine's processes on several nodes find one another.

    Left alone, gloo takes the address that the host's own name has, which /etc/hosts often makes a loopback one: every
    rank then offers its peers 127.0.0.1 (vllm#7074, sglang#3226).
    """
    if layout.nodes == 1 or not (fleet.interface and fleet.address):
        return ()
    why = f"the way to the other nodes of {fleet.found_by}"
    return (
        Setting("GLOO_SOCKET_IFNAME", fleet.interface, f"{why}; by default that of the host's name, or loopback"),
        Setting("NCCL_SOCKET_IFNAME", f"={fleet.interface}", f"{why}; by default any that is up"),
        Setting("VLLM_HOST_IP", fleet.address, f"{why}; by default the one that routes to the internet"),
        Setting("SGLANG_HOST_IP", fleet.address, f"{why}; by default that of the host's name"),
    )


def with_layout(settings: Iterable[Setting], layout: LayoutAsk) -> tuple[Setting, ...]:
    """Return the environment by name; what the profile's layout sets stands over kboot's."""
    env = {s.name: s for s in settings}
    env |= {n: Setting(n, v, f"asked by layout {layout.name}") for n, v in layout.env.items()}
    return tuple(env[name] for name in sorted(env))


def without_asked(flags: Iterable[Setting], args: Sequence[str]) -> tuple[Setting, ...]:
    """Return the flags that the profile's own arguments neither give nor negate."""
    asked = {arg.partition("=")[0].replace("--no-", "--", 1) for arg in args if arg.startswith("-")}
    return tuple(f for f in flags if f.name not in asked)


def words(flags: Iterable[Setting]) -> tuple[str, ...]:
    """Return the flags as words of a command line; a value with spaces is a list."""
    return tuple(word for f in flags for word in (f.name, *f.value.split()))


def base_url(host: str, port: int) -> str:
    """Return where this node reaches a server that listens there; any-address is reached by loopback."""
    reached = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{host_port(reached, port)}"


def launch(
    name: EngineName,
    profile: Profile,
    ask: LaunchAsk,
    *,
    argv: tuple[str, ...],
    env: Iterable[Setting],
    flags: tuple[Setting, ...],
    titles: tuple[str, ...],
    http: bool,
) -> Launch:
    """Return the launch of an OpenAI-compatible server. http: it answers on this node (headless ranks do not)."""
    base = base_url(profile.serve.host, profile.serve.port) if http else None
    return Launch(
        engine=name,
        argv=argv,
        env=with_layout(env, ask.layout),
        unset=UNSET,
        flags=flags,
        health_url=base and f"{base}/health",
        models_url=base and f"{base}/v1/models",
        completion_url=base and f"{base}/v1/completions",
        served_name=served_name(profile),
        ready_timeout_s=profile.serve.ready_timeout_s,
        worker_titles=titles,
    )


def served_name(profile: Profile) -> str:
    """Return the model name that clients use."""
    return profile.serve.served_name or profile.checkpoint.repo


def per_node(total: int, layout: LayoutAsk, what: str) -> int:
    """Return the part of one node.

    Raises:
        ProfileError: the layout's nodes do not divide it.
    """
    if total % layout.nodes:
        raise ProfileError(
            "layout-not-divisible",
            f"layout {layout.name} has {what} {total} on {layout.nodes} nodes, which does not divide",
            hint="choose degrees whose product is a multiple of `nodes`",
        )
    return total // layout.nodes


def cache_key(facts: NodeFacts, profile: Profile, layout: LayoutAsk, commit: str) -> CacheKey:
    """Return the key of the kernel caches: readable, and other whenever kernels could be other.

    Kernels built for another GPU, driver, toolkit or library are at best a miss and at worst wrong results
    (vllm#41871, flashinfer#4489); the engine's own arguments are left out, since it tells them apart itself.
    """
    factors = _factors(facts, profile, layout, commit)
    digest = hashlib.sha256(json.dumps(factors, sort_keys=True).encode()).hexdigest()[:8]
    packages = facts.engine.packages
    parts = (
        factors["gpu_arch"],
        f"drv{factors['driver']}",
        f"cu{factors['cuda']}",
        f"{factors['engine']}{factors['engine_version']}",
        *(f"{short}{packages[name]}" for short, name in _SHORT if name in packages),
        commit[:12],
        factors["layout"],
        digest,
    )
    return CacheKey("-".join(re.sub(r"[^A-Za-z0-9._+-]+", "_", part) for part in parts), factors)


_SHORT = (("torch", "torch"), ("triton", "triton"), ("fi", "flashinfer-python"))


def _factors(facts: NodeFacts, profile: Profile, layout: LayoutAsk, commit: str) -> Mapping[str, str]:
    return {
        **node_factors(facts, layout.engine),
        "repo": profile.checkpoint.repo,
        "commit": commit,
        "layout": layout_words(layout),
    }


def node_factors(facts: NodeFacts, engine: str) -> Mapping[str, str]:
    """Return the factors of a key that are the node's and its engine's, whatever model is served."""
    gpus = facts.gpu.gpus
    archs = sorted({f"sm{g.compute_capability[0]}{g.compute_capability[1]}" for g in gpus if g.compute_capability})
    return {
        "gpu_arch": "+".join(archs) or "nogpu",
        "gpu_name": ", ".join(sorted({g.name for g in gpus})) or "none",
        "driver": facts.gpu.driver_version or "none",
        "cuda": facts.gpu.cuda_version or "none",
        "engine": engine,
        "engine_version": facts.engine.version or "none",
        **{f"package.{name}": v for name, v in sorted(facts.engine.packages.items())},
        **{f"build.{name}": v for name, v in sorted(facts.engine.builds.items())},
    }


def layout_words(layout: LayoutAsk) -> str:
    """Return the parallel layout in short: "dp8ep", "tp8pp2-n4"."""
    degrees = (("dp", layout.parallel.data), ("tp", layout.parallel.tensor), ("pp", layout.parallel.pipeline))
    short = "".join(f"{name}{degree}" for name, degree in degrees if degree > 1) or "dp1"
    nodes = f"-n{layout.nodes}" if layout.nodes > 1 else ""
    return f"{short}{'ep' if layout.parallel.expert else ''}{nodes}"
