"""What does CUDA say of the GPUs, and how do GPUs and network cards reach each other? Frozen values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from kboot.values import dataclass

CudaState = Literal[
    "ok",
    "no-library",  # libcuda.so.1 is not installed
    "refused",  # cuInit answered an error
    "hung",  # no answer inside the deadline
    "crashed",  # the process that asked ended without an answer
]


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """One GPU that CUDA lists. bus_id: sysfs form, "" where CUDA did not tell.

    failed: name of the error of taking a context and a little memory; "" where that worked, None where it was not
    tried. peers: bus ids of the others → whether it may read and write their memory. h2d_bytes_per_s: from pinned host
    memory; None where it was not measured.
    """

    bus_id: str
    failed: str | None = None
    peers: Mapping[str, bool] = field(default_factory=dict)
    h2d_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class CudaFacts:
    """What a program that starts CUDA meets. error, code: CUDA's name and number of cuInit's answer; "" and 0: none."""

    state: CudaState
    error: str = ""
    code: int = 0
    detail: str = ""
    devices: tuple[CudaDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class Bridge:
    """A PCI bridge above a GPU or an RDMA device. acs: names of the redirects it makes of peer traffic ("request",
    "completion", "upstream"); None where its configuration space could not be read.
    """

    bus_id: str
    acs: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Imex:
    """NVIDIA's service for memory shared between nodes of an NVLink domain.

    running: its unit's cgroup has a process; None where no units are seen. nodes: addresses in its configuration; None
    without one. channels: names in /dev/nvidia-caps-imex-channels.
    """

    running: bool | None
    nodes: int | None
    channels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """path_of: bus id of each GPU and RDMA device → the bridges above it, nearest the root first. bridges: of all of
    them that have one more device of ours below. confidential: "on", "not-ready", "devtools", "off" (confidential
    computing of all GPUs); None where the driver does not tell.
    """

    path_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bridges: tuple[Bridge, ...] = ()
    imex: Imex | None = None
    confidential: str | None = None
