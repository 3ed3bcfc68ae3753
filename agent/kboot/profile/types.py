"""What is asked of a node: one frozen value, every key of a profile with its unit, effect and default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Literal

from kboot.profile.node_config import NotNegative, NotNegativeUsd, OperatorAsk
from kboot.values import dataclass

Fraction = Annotated[float, ("ge", 0.0), ("le", 1.0)]
Positive = Annotated[int, ("gt", 0)]
EngineName = Literal["vllm", "sglang", "tokenspeed", "command", "demo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiPrice:
    """What the publisher's own endpoint costs, as of a date; what self-hosting is compared with."""

    usd_per_million_input_tokens: NotNegativeUsd
    usd_per_million_output_tokens: NotNegativeUsd
    as_of: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAsk:
    """`[model]`: what the publisher says of the model. Shown and compared, never used in place of the listing.

    size_bytes, files: the published sum and count of weight files; a listing that differs is a finding, not an error.
    """

    title: str = ""
    parameters_billion: float | None = None
    active_parameters_billion: float | None = None
    quantization: str = ""
    size_bytes: Positive | None = None
    files: Positive | None = None
    layers: Positive | None = None
    routed_experts: Positive | None = None
    active_experts: Positive | None = None
    shared_experts: NotNegative | None = None
    max_context_tokens: Positive | None = None
    api_price: ApiPrice | None = None
    notes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAsk:
    """`[checkpoint]`: which bytes.

    repo: `owner/name` on a Hub. revision: branch, tag or commit; a 40-hex commit is a pin.
    sources: in order of preference: `hub` (HF_ENDPOINT or huggingface.co), `https://mirror…` (Hub-compatible),
    `https://host/folder/` (plain files; the slash at its end tells), `s3://bucket/prefix`, `file:///path`.
    include/exclude: shell patterns over repository paths; include empty = kboot's own choice (the index's shards and
    the small files an engine needs).
    """

    repo: Annotated[str, ("min_length", 3)]
    revision: Annotated[str, ("min_length", 1)] = "main"
    sources: tuple[str, ...] = ("hub",)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LicenseCondition:
    """One condition of a licence: what it asks for, and of whom.

    needs: what is asked. any_of: one bound is enough; else every bound that is given must be passed. The bounds are
    compared with what `[operator]` in kboot.toml declares. uses: for whom it is; empty = for every use.
    """

    needs: Annotated[str, ("min_length", 1)]
    uses: tuple[Literal["internal", "product", "sells-access"], ...] = ()
    group_revenue_usd_12_months_above: NotNegativeUsd | None = None
    monthly_revenue_usd_above: NotNegativeUsd | None = None
    monthly_users_above: NotNegative | None = None
    any_of: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LicenseAsk:
    """`[license]`: the terms, as data.

    accept_required: the terms must be accepted by an operator on this node before a hand-off.
    file: path of the licence text in the repository. summary: the conditions, one a line.
    condition: those with thresholds. as_of: when the terms were read.
    """

    name: str = ""
    url: str = ""
    file: str = "LICENSE"
    accept_required: bool = False
    summary: tuple[str, ...] = ()
    condition: tuple[LicenseCondition, ...] = ()
    as_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelAsk:
    """Parallel degrees over all nodes of the layout. expert: experts are spread over data × tensor ranks."""

    data: Positive = 1
    tensor: Positive = 1
    pipeline: Positive = 1
    expert: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutAsk:
    """`[[layout]]`: one way to serve the model; the first that fits the node is taken.

    gpu: node class the layout is for ("B300", "H200"; "none" for machines without GPUs).
    args: added to the engine's command line as they are. env: added to its environment.
    command: for engine = "command": the whole command line; {model} is the path of the checkpoint, {port} and {host}
    are those served.
    """

    name: Annotated[str, ("min_length", 1)]
    gpu: Annotated[str, ("min_length", 1)]
    gpus_per_node: NotNegative
    nodes: Positive = 1
    engine: EngineName = "vllm"
    parallel: ParallelAsk = field(default_factory=ParallelAsk)
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAsk:
    """`[fetch]`: how bytes are moved.

    streams: connections at once; 0 = as many as pay, found out while they run (2 to 64). max_rate_mib_s: over all
    streams; 0 = no limit.
    attempts: tries per range before a source is given up. connect_timeout_s: per address.
    stall_timeout_s: seconds without a byte before a stream is moved. transport: who moves the bytes; hf_transfer for
    sources that throttle each connection, hf_xet for the Hub's deduplicated store. http does what they cannot.
    """

    streams: Annotated[int, ("ge", 0), ("le", 256)] = 0
    max_rate_mib_s: NotNegative = 0
    attempts: Annotated[int, ("ge", 1), ("le", 20)] = 4
    connect_timeout_s: Annotated[float, ("gt", 0.0), ("le", 60.0)] = 5.0
    stall_timeout_s: Annotated[float, ("gt", 0.0), ("le", 600.0)] = 30.0
    transport: Literal["http", "hf_transfer", "hf_xet"] = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyAsk:
    """`[verify]`: what gates the hand-off.

    mode: ledger = every file's identity is the one it had when it was last hashed; quick = ledger + structure of
    every shard; full = every byte is hashed again at every boot.
    threads: files at once; 0 = one per allowed CPU where they are in memory, twice that and at least 8 where they come
    from the disk; at most 32 either way.
    image: of a file that came in this node's image and that nobody hashed here: full = every byte before the hand-off;
    bake = fs-verity, else samples before it, and every byte in the background.
    image_hash: when that begins: beside = while the engine starts; after = once it answers.
    fs_verity: let the file system prove every file at each read, once its hash was right (fs-verity), where it can.
    """

    mode: Literal["ledger", "quick", "full"] = "ledger"
    threads: Annotated[int, ("ge", 0), ("le", 256)] = 0
    image: Literal["full", "bake"] = "full"
    image_hash: Literal["beside", "after"] = "after"
    fs_verity: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmAsk:
    """`[warm]`: the page cache. enabled: read what is not resident, as far as memory allows."""

    enabled: bool = True
    max_memory_fraction: Fraction = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuAsk:
    """`[cpu]`: shares and pins.

    pin: give each worker its own CPUs. housekeeping_cpus: kept for front ends and the agent; -1 = chosen.
    governor: wanted cpufreq governor; empty = leave.
    """

    pin: bool = True
    housekeeping_cpus: Annotated[int, ("ge", -1)] = -1
    governor: str = "performance"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneAsk:
    """`[tune]`: kernel settings wanted, path under /sys or /proc/sys → value. Read back; put back on failure."""

    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheAsk:
    """`[cache]`: kernel-tuning and JIT caches.

    max_gib, max_age_days: budget of `kboot cache gc`; 0 = no limit. seed: archive of `kboot cache export` that fills a
    new key's folder: an absolute path, http(s) URL or s3://bucket/key, in which {key} stands for the key's name. A path
    or s3:// with {key} is written when this machine is taken away, if what is there lacks something.
    unstable: what is done about settings with which the engine's caches would miss at every boot.
    """

    enabled: bool = True
    max_gib: NotNegative = 0
    max_age_days: NotNegative = 0
    seed: str = ""
    unstable: Literal["refuse", "warn"] = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeAsk:
    """`[serve]`: the endpoint.

    served_name: model name clients use; empty = the repo id. ready_timeout_s: seconds until the engine must answer.
    probe: what counts as ready: health = its health URL; completion = one token comes back as well.
    stop_timeout_s: seconds an engine gets between SIGTERM and SIGKILL.
    """

    host: str = "0.0.0.0"
    port: Annotated[int, ("ge", 1), ("le", 65535)] = 8000
    served_name: str = ""
    ready_timeout_s: Positive = 7200
    probe: Literal["health", "completion"] = "health"
    stop_timeout_s: Positive = 30


Discovery = Literal["none", "static", "dns", "slurm", "lws", "kubernetes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAsk:
    """`[fleet]`: the other nodes of the same model, and what goes on between them.

    discovery: where the list of nodes comes from; none = this node works alone. static: `peers`, in the order of ranks.
    dns: every address of the name `dns`. kubernetes: the same of a headless service. slurm, lws: the environment that
    Slurm or LeaderWorkerSet gives.
    peers: "host" or "host:port", this node among them. port: of peers that name none, and where this node answers.
    bind: address or interface to answer on; empty = the address that routes to the peers.
    key_file: the secret that all nodes of the fleet share; whoever has it is a node.
    serve_mib_s_while_serving: what this node gives to its peers while its engine serves; 0 = no limit.
    start_timeout_s: how long a node that is ready waits while nothing gets on anywhere. differences: what is done about
    nodes of one engine that differ in commit, driver, engine, kernel caches, network or free memory.
    fetch: whole = every node gets every file; local-experts = of files with experts a boot gets what its ranks load,
    proven by range digests of the node that has the file whole, where engine and layout are known to read no more.
    """

    discovery: Discovery = "none"
    peers: tuple[str, ...] = ()
    dns: str = ""
    port: Annotated[int, ("ge", 1), ("le", 65535)] = 7417
    bind: str = ""
    key_file: str = ""
    serve_mib_s_while_serving: Annotated[float, ("ge", 0.0)] = 64.0
    start_timeout_s: Annotated[float, ("gt", 0.0), ("le", 86400.0)] = 240.0
    differences: Literal["refuse", "warn"] = "refuse"
    fetch: Literal["whole", "local-experts"] = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One profile, merged and valid.

    origin: dotted key → where its value comes from ("profiles/models/demo.toml", "--set", "default").
    digest: sha256 over the canonical JSON of everything asked (not of origins).
    declared: by this node's operator in kboot.toml; no part of what is asked.
    """

    name: str
    schema: Literal[1]
    checkpoint: CheckpointAsk
    layout: Annotated[tuple[LayoutAsk, ...], ("min_length", 1)]
    model: ModelAsk = field(default_factory=ModelAsk)
    license: LicenseAsk = field(default_factory=LicenseAsk)
    fetch: FetchAsk = field(default_factory=FetchAsk)
    verify: VerifyAsk = field(default_factory=VerifyAsk)
    warm: WarmAsk = field(default_factory=WarmAsk)
    cpu: CpuAsk = field(default_factory=CpuAsk)
    tune: TuneAsk = field(default_factory=TuneAsk)
    cache: CacheAsk = field(default_factory=CacheAsk)
    serve: ServeAsk = field(default_factory=ServeAsk)
    fleet: FleetAsk = field(default_factory=FleetAsk)
    origin: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    declared: OperatorAsk = field(default_factory=OperatorAsk)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrice:
    """What GPUs of a class cost, as of a date.

    gpus: how many the price is for. per: the same in words, with the terms ("8x B300, spot").
    """

    usd_per_hour: NotNegativeUsd
    gpus: Positive
    per: str
    as_of: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass:
    """`profiles/nodes/*.toml`: a class of GPU and what a node of it holds.

    gpu: short name ("B300"). match: substrings of NVML's product name. memory_bytes: nominal, per GPU.
    """

    gpu: str
    title: str
    match: tuple[str, ...]
    memory_bytes: Positive
    gpus_per_node: Positive
    compute_capability: tuple[int, int]
    price: tuple[NodePrice, ...] = ()
