"""Machines that GPUs come in. CPU lists of GPUs are written out, not computed: they are what tests expect."""

from __future__ import annotations

from dataclasses import replace

from nodes.generate import FakeGpu, Machine, MemoryNode, as_list


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
    # NVIDIA's DGX B300: two Xeon 6776P of 64 cores, of which 8 are priority cores (CPU number mod 16 is 0 or 1).
    "dgx-b300-pct": Machine(
        sockets=2,
        cores=64,
        smt=2,
        nodes=2,
        memory_gib=4096,
        cpu_model="Intel(R) Xeon(R) 6776P",
        gpu_name="NVIDIA B300 SXM6 AC",
        gpu_memory_bytes=275040 << 20,
        gpu_cc="10.3",
        gpus=_gpus({0: "0-63,128-191", 1: "64-127,192-255"}, (0, 0, 0, 0, 1, 1, 1, 1)),
    ),
    # AWS p5en: 2 × 48 cores, 8 × H200.
    "p5en-h200": Machine(
        sockets=2,
        cores=48,
        smt=2,
        nodes=2,
        cpu_model="Intel(R) Xeon(R) Platinum 8488C",
        gpu_name="NVIDIA H200",
        gpu_memory_bytes=143771 << 20,
        gpu_cc="9.0",
        gpus=_gpus({0: "0-47,96-143", 1: "48-95,144-191"}, (0, 0, 0, 0, 1, 1, 1, 1)),
    ),
    # AWS p4d: 2 × 24 cores; two GPUs behind each of four switches.
    "p4d-a100": Machine(
        sockets=2,
        cores=24,
        smt=2,
        nodes=2,
        memory_gib=1152,
        cpu_model="Intel(R) Xeon(R) Platinum 8275CL CPU @ 3.00GHz",
        gpu_name="NVIDIA A100-SXM4-40GB",
        gpu_memory_bytes=40960 << 20,
        gpu_cc="8.0",
        gpus=tuple(
            FakeGpu(f"0000:{bus}:{slot}.0", node, ("0-23,48-71", "24-47,72-95")[node])
            for bus, node in (("10", 0), ("20", 0), ("90", 1), ("a0", 1))
            for slot in ("1c", "1d")
        ),
    ),
    # Azure ND H100 v5: 96 CPUs without SMT, PCI domains other than 0000.
    "nd-h100-v5": Machine(
        sockets=2,
        cores=48,
        smt=1,
        nodes=2,
        memory_gib=1900,
        gpu_name="NVIDIA H100 80GB HBM3",
        gpu_memory_bytes=81559 << 20,
        gpu_cc="9.0",
        gpus=tuple(
            FakeGpu(f"{domain}:00:00.0", node, ("0-47", "48-95")[node])
            for node, domains in enumerate((("0001", "0002", "0003", "0008"), ("0009", "000a", "000b", "000c")))
            for domain in domains
        ),
    ),
    # Azure ND A100 v4: four nodes, and PCI order is not node order.
    "nd-a100-v4": Machine(
        sockets=2,
        cores=48,
        smt=1,
        nodes=4,
        memory_gib=900,
        cpu_model="AMD EPYC 7V12 64-Core Processor",
        gpu_name="NVIDIA A100-SXM4-40GB",
        gpu_memory_bytes=40960 << 20,
        gpu_cc="8.0",
        gpus=tuple(
            FakeGpu(f"{domain}:00:00.0", node, ("0-23", "24-47", "48-71", "72-95")[node])
            for domain, node in (
                ("0001", 1),
                ("0002", 1),
                ("0003", 0),
                ("0004", 0),
                ("000b", 3),
                ("000c", 3),
                ("000d", 2),
                ("000e", 2),
            )
        ),
    ),
    # Two sockets in SNC2: three GPUs on one node of 48 CPUs, one on the next, two on the third (sglang#13973).
    "snc2-uneven": Machine(
        sockets=2,
        cores=48,
        smt=2,
        nodes=4,
        gpu_name="NVIDIA H200",
        gpu_memory_bytes=143771 << 20,
        gpu_cc="9.0",
        gpus=_gpus({0: "0-23,96-119", 1: "24-47,120-143", 2: "48-71,144-167"}, (0, 0, 0, 1, 2, 2)),
    ),
    # Six nodes, of which 1 and 4 have no GPU.
    "b200-six-nodes": Machine(
        sockets=2,
        cores=48,
        smt=2,
        nodes=6,
        gpu_name="NVIDIA B200",
        gpu_memory_bytes=183359 << 20,
        gpu_cc="10.0",
        gpus=_gpus(
            {0: "0-15,96-111", 2: "32-47,128-143", 3: "48-63,144-159", 5: "80-95,176-191"}, (0, 0, 2, 2, 3, 3, 5, 5)
        ),
    ),
    # Eight nodes with one GPU each, in an order of their own (pegaflow#72).
    "eight-nodes-shuffled": Machine(
        sockets=2,
        cores=64,
        smt=1,
        nodes=8,
        memory_gib=1024,
        cpu_model="AMD EPYC 9334 32-Core Processor",
        gpu_name="NVIDIA H100 80GB HBM3",
        gpu_memory_bytes=81559 << 20,
        gpu_cc="9.0",
        gpus=_gpus({node: f"{16 * node}-{16 * node + 15}" for node in range(8)}, (3, 2, 1, 0, 7, 6, 5, 4)),
    ),
    # A job of 32 CPUs on a node with 8 GPUs: all its CPUs are near the first four; NVML names none for the others.
    "srun-32-of-112": Machine(
        sockets=2,
        cores=28,
        smt=2,
        nodes=2,
        memory_gib=1024,
        cpuset="0-15,56-71",
        gpu_name="NVIDIA A100-PCIE-40GB",
        gpu_memory_bytes=40960 << 20,
        gpu_cc="8.0",
        gpus=_gpus({0: "0-15,56-71", 1: ""}, (0, 0, 0, 0, 1, 1, 1, 1)),
    ),
    # GH200: one Grace of 72 cores; eight nodes without CPUs, of which 1 is the GPU's memory.
    "gh200": Machine(
        sockets=1,
        cores=72,
        smt=1,
        nodes=1,
        memory_gib=480,
        arch="aarch64",
        memory_nodes=tuple(MemoryNode(n, 0) for n in range(1, 9)),
        gpu_name="NVIDIA GH200 480GB",
        gpu_memory_bytes=97871 << 20,
        gpu_cc="9.0",
        gpus=(FakeGpu("0009:01:00.0", 0, "0-71", 1),),
    ),
    # GB200 where the PCI bus knows no node and NVML answers with that of the GPU's memory (B075).
    "gb200-memory-nodes": Machine(
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
        gpus=tuple(
            FakeGpu(f"{domain}:01:00.0", -1, "", memory_node)
            for domain, memory_node in (("0008", 2), ("0009", 10), ("0018", 18), ("0019", 26))
        ),
    ),
    # A workstation whose first GPU is on the second node.
    "mixed-workstation": Machine(
        sockets=2,
        cores=8,
        smt=2,
        nodes=2,
        memory_gib=256,
        gpu_name="NVIDIA GeForce RTX 3090",
        gpu_memory_bytes=24576 << 20,
        gpu_cc="8.6",
        gpus=_gpus({1: "8-15,24-31", 0: "0-7,16-23"}, (1, 0, 0, 0, 0)),
    ),
    # Four sockets of 16 cores, CPUs dealt to nodes in turn: node 0 has 0, 4, 8, …
    "xeon-interleaved": Machine(
        sockets=4,
        cores=16,
        smt=2,
        nodes=4,
        numbering="interleaved",
        memory_gib=768,
        cpu_model="Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz",
        gpu_name="Tesla V100-SXM2-32GB",
        gpu_memory_bytes=32768 << 20,
        gpu_cc="7.0",
        gpus=_gpus({0: as_list(range(0, 128, 4)), 2: as_list(range(2, 128, 4))}, (0, 0, 2, 2)),
    ),
    # Node numbers with a hole, as POWER9 has them: 0 and 8.
    "nodes-0-and-8": Machine(
        sockets=2,
        cores=20,
        smt=4,
        nodes=2,
        numbering="adjacent",
        numbers=(0, 8),
        memory_gib=512,
        cpu_model="POWER9, altivec supported",
        gpu_name="Tesla V100-SXM2-32GB",
        gpu_memory_bytes=32768 << 20,
        gpu_cc="7.0",
        gpus=_gpus({0: "0-79", 8: "80-159"}, (0, 0, 8, 8)),
    ),
    # Eight consumer cards, 224 CPUs; the last two work for another engine.
    "rtx4090-shared": Machine(
        sockets=2,
        cores=56,
        smt=2,
        nodes=2,
        memory_gib=1024,
        gpu_name="NVIDIA GeForce RTX 4090",
        gpu_memory_bytes=24564 << 20,
        gpu_cc="8.9",
        gpus=tuple(
            replace(gpu, pids=(4100 + index,) if index > 5 else ())
            for index, gpu in enumerate(_gpus({0: "0-55,112-167", 1: "56-111,168-223"}, (0, 0, 0, 0, 1, 1, 1, 1)))
        ),
        settings={"/proc/4106/status": "Cpus_allowed_list:\t0-223", "/proc/4107/status": "Cpus_allowed_list:\t0-223"},
    ),
    # A virtual machine with one node, whose GPUs say nothing.
    "vm-one-node": Machine(
        sockets=1,
        cores=32,
        smt=2,
        nodes=1,
        memory_gib=512,
        gpu_name="NVIDIA L40S",
        gpu_memory_bytes=46068 << 20,
        gpu_cc="8.9",
        gpus=tuple(FakeGpu(f"0000:00:{slot:02x}.0", -1, "0-63") for slot in (4, 5)),
    ),
    # An image builder: no GPU, no driver.
    "no-gpu": Machine(sockets=1, cores=2, smt=1, nodes=1, memory_gib=24),
}
