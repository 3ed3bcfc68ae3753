"""What doctor looks at beyond what a boot needs. Frozen values only.

What they are made of is loaded by who makes it: a boot has these empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.answers import RateLimit, SourceAnswer
    from kboot.facts.asked_types import AllReduce, DiagTest, LiveWorker, ManagerState, WeightShare
    from kboot.facts.kept_types import IndexFacts, LockFacts, PastBoot, ReclaimFacts, SelfFacts, SmallFile, TermsFacts
    from kboot.facts.link_types import CudaFacts
    from kboot.facts.measured_types import FirstReads, ReadSample, RotSample
    from kboot.facts.upkeep_types import (
        Blocked,
        CdiSpec,
        Discard,
        DiskHealth,
        EnvLine,
        EnvSetting,
        PortState,
        Readable,
        Services,
    )
    from kboot.host.kernel_clock import KernelClock


@dataclass(frozen=True, slots=True)
class AskedFacts:
    """None: not asked, or not readable; then a Gap says why.

    cuda: what starting CUDA met. memory_policy: "" where set_mempolicy is allowed, else why not. sources: each, asked
    for bytes. rate_limit: what the Hub says of it. diagnostics: of dcgmi. allreduce: of nccl-tests. workers: those that
    serve; () where nothing of kboot runs. weights: as they are laid out here. trust: "" where the certificates that the
    environment names can be read, or it names none; else why not. manager: where NVSwitches are on the bus.
    """

    cuda: CudaFacts | None = None
    memory_policy: str | None = None
    sources: tuple[SourceAnswer, ...] | None = None
    rate_limit: RateLimit | None = None
    diagnostics: tuple[DiagTest, ...] | None = None
    allreduce: AllReduce | None = None
    workers: tuple[LiveWorker, ...] | None = None
    weights: WeightShare | None = None
    trust: str | None = None
    manager: ManagerState | None = None


@dataclass(frozen=True, slots=True)
class KeptFacts:
    """None: not looked at, or nothing of it is here.

    index: None where the weights are one file or nothing is listed. dangling: links of the snapshot that lead nowhere.
    boots: newest first. newest_unix_s: the latest time this node ever wrote down.
    """

    index: IndexFacts | None = None
    small: tuple[SmallFile, ...] | None = None
    dangling: tuple[str, ...] = ()
    locks: tuple[LockFacts, ...] | None = None
    terms: TermsFacts | None = None
    boots: tuple[PastBoot, ...] | None = None
    newest_unix_s: float | None = None
    itself: SelfFacts | None = None
    reclaim: ReclaimFacts | None = None


@dataclass(frozen=True, slots=True)
class MeasuredFacts:
    """None: not measured.

    disk: real shards, past the page cache. mapped: pages of a shard, touched one after the other as mapped loading
    does; None where all that was tried is in memory already. hashing: SHA-256 on as many threads as a verification
    takes. folder: what does not work in the cache folder, of the trial of locks, renames and times; empty = all works.
    """

    disk: ReadSample | None = None
    mapped: ReadSample | None = None
    hashing: ReadSample | None = None
    first_reads: FirstReads | None = None
    rot: RotSample | None = None
    folder: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class UpkeepFacts:
    """None: this machine, or a recording, does not say.

    smart_tool: the program that was asked. disks: what it said. discard: of the disk below the state folder.
    lost_mounts: mount points of /etc/fstab and mount units above kboot's folders where nothing is mounted.
    secure_boot: of the firmware. lockdown: the kernel's, "none" or stricter. nvidia_module: one is loaded.
    environ: variables that change what kboot or an engine does, without secrets. env_files: odd lines of kboot's
    environment files. identity: paths that belong to one machine and not into an image.
    """

    smart_tool: str = ""
    disks: tuple[DiskHealth, ...] = ()
    discard: Discard | None = None
    lost_mounts: tuple[str, ...] = ()
    clock: KernelClock | None = None
    services: Services | None = None
    secure_boot: bool | None = None
    lockdown: str = ""
    nvidia_module: bool | None = None
    cdi: tuple[CdiSpec, ...] = ()
    blocked: tuple[Blocked, ...] | None = None
    port: PortState | None = None
    environ: tuple[EnvSetting, ...] | None = None
    env_files: tuple[EnvLine, ...] | None = None
    readable: tuple[Readable, ...] | None = None
    identity: tuple[str, ...] | None = None
