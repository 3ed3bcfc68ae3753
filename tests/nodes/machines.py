"""Machines that GPUs come in. CPU lists of GPUs are written out, not computed: they are what tests expect."""

from __future__ import annotations

from nodes.generate import FakeGpu, Machine, MemoryNode


def _gpus(cpus_of: dict[int, str], nodes: tuple[int, ...], domain: int = 0) -> tuple[FakeGpu, ...]:
    return tuple(
        FakeGpu(f"{domain:04x}:{0x1A + 0x12 * index:02x}:00.0", node, cpus_of[node]) for index, node in enumerate(nodes)
    )


MACHINES = {
    # DGX/HGX H100: 2 × 56 cores, siblings n and n+112, four GPUs a socket.
    "hgx-h100": Machine(
        sockets=2,
        cores=56,
        smt=2,
        nodes=2,
        governor="performance",
        gpu_name="NVIDIA H100 80GB HBM3",
        gpu_memory_bytes=81559 << 20,
        gpu_cc="9.0",
        gpus=_gpus({0: "0-55,112-167", 1: "56-111,168-223"}, (0, 0, 0, 0, 1, 1, 1, 1)),
    ),
    # AWS p6-b300: 2 × 48 cores, 4 TB, 8 × B300.
    "b300": Machine(
        sockets=2,
        cores=48,
        smt=2,
        nodes=2,
        memory_gib=4096,
        cpu_model="Intel(R) Xeon(R) Platinum 8559C",
        gpu_name="NVIDIA B300 SXM6 AC",
        gpu_memory_bytes=275040 << 20,
        gpu_cc="10.3",
        gpus=_gpus({0: "0-47,96-143", 1: "48-95,144-191"}, (0, 0, 0, 0, 1, 1, 1, 1)),
    ),
    # GB200 compute tray: 2 Grace of 72 cores without SMT; each GPU's memory is a node of its own without CPUs.
    "gb200": Machine(
        sockets=2,
        cores=72,
        smt=1,
        nodes=2,
        memory_gib=960,
        arch="aarch64",
        memory_nodes=(MemoryNode(2, 0), MemoryNode(10, 0), MemoryNode(18, 1), MemoryNode(26, 1)),
        gpu_name="NVIDIA GB200",
        gpu_memory_bytes=189471 << 20,
        gpu_cc="10.0",
        gpus=(
            FakeGpu("0008:01:00.0", 0, "0-71", 2),
            FakeGpu("0009:01:00.0", 0, "0-71", 10),
            FakeGpu("0018:01:00.0", 1, "72-143", 18),
            FakeGpu("0019:01:00.0", 1, "72-143", 26),
        ),
    ),
    # DGX A100, 2 × EPYC Rome in NPS4: eight nodes, the even ones without a GPU, and GPU order is not node order.
    "epyc-nps4-a100": Machine(
        sockets=2,
        cores=64,
        smt=2,
        nodes=8,
        memory_gib=1024,
        cpu_model="AMD EPYC 7742 64-Core Processor",
        governor="schedutil",
        gpu_name="NVIDIA A100-SXM4-40GB",
        gpu_memory_bytes=40960 << 20,
        gpu_cc="8.0",
        gpus=_gpus(
            {1: "16-31,144-159", 3: "48-63,176-191", 5: "80-95,208-223", 7: "112-127,240-255"}, (3, 3, 1, 1, 7, 7, 5, 5)
        ),
    ),
    # A virtual machine that does not tell where its GPUs are (sysfs says -1).
    "vm-no-locality": Machine(
        sockets=1,
        cores=32,
        smt=1,
        nodes=2,
        memory_gib=256,
        gpu_name="NVIDIA H200",
        gpu_memory_bytes=143771 << 20,
        gpu_cc="9.0",
        gpus=tuple(FakeGpu(f"0000:00:{slot:02x}.0", -1, "0-31") for slot in (4, 5, 6, 7)),
    ),
    # A container that may use 16 CPUs of a big node, 10.5 of them by quota; NVML still tells the whole node's.
    "container-cpuset": Machine(
        sockets=2,
        cores=48,
        smt=2,
        nodes=2,
        cpuset="8-23",
        quota="1050000 100000",
        gpu_name="NVIDIA H100 80GB HBM3",
        gpu_memory_bytes=81559 << 20,
        gpu_cc="9.0",
        gpus=_gpus({0: "0-47,96-143", 1: "48-95,144-191"}, (0, 1)),
        settings={"/.dockerenv": ""},
    ),
    # Siblings numbered side by side (0,1), a quarter of the CPUs switched off.
    "adjacent-offline": Machine(
        sockets=2,
        cores=16,
        smt=2,
        nodes=2,
        numbering="adjacent",
        offline=(10, 11, *range(50, 64)),
        memory_gib=512,
        gpu_name="NVIDIA L40S",
        gpu_memory_bytes=46068 << 20,
        gpu_cc="8.9",
        gpus=_gpus({1: "32-49"}, (1, 1)),
    ),
    # An image builder: no GPU, no driver.
    "no-gpu": Machine(sockets=1, cores=2, smt=1, nodes=1, memory_gib=24),
}
