"""What is likely to help when an engine ends with this first cause?"""

from __future__ import annotations

import re

_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"larger than the maximum number of tokens that can be stored in KV cache|KV cache is needed"
        r"|No available memory for the cache blocks|Not enough memory\. Please try",
        "lower --max-model-len or raise --gpu-memory-utilization (SGLang: --context-length, --mem-fraction-static); "
        "`kboot fit` gives the longest context that fits",
    ),
    (
        r"greater than the derived max_model_len",
        "--max-model-len is more than the model's own length: lower it",
    ),
    (
        r"is not divisible by (?:weight quantization block|min_thread|group_size)",
        "a tensor-parallel degree cuts through the blocks that the weights are quantised in: take a smaller one, or "
        "spread whole experts (expert = true)",
    ),
    (
        r"must be divisible by tensor parallel size|\d is not divisible by \d",
        "the model's heads or layers do not divide by the layout's degrees: `kboot fit` lists those that do",
    ),
    (
        r"out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED",
        "`kboot fit` gives the bytes of every rank; take a layout that fits, or free the GPUs (`nvidia-smi`)",
    ),
    (
        r"Free memory on device .* is less than desired|memory capacity is unbalanced",
        "another process holds GPU memory: `kboot doctor --check gpu.idle_clean` names it",
    ),
    (
        r"ModuleNotFoundError: No module named '(?P<what>[\w.]+)'",
        "install {what} in the engine's environment (`kboot facts` shows which one it is)",
    ),
    (
        r"fatal error: (?:\S+/)?Python\.h: No such file or directory",
        "a launcher is compiled at start and lacks Python's own headers: install the python3-dev package "
        "(python3-devel) of the engine's Python",
    ),
    (
        r"fatal error: (?P<what>\S+): No such file or directory",
        "a kernel is compiled at start and lacks the header {what}: install the CUDA or CUTLASS headers that the "
        "engine's release names, or a wheel with kernels already built",
    ),
    (
        r"cannot find -lcuda\b",
        "a launcher is linked at start and the driver's libcuda.so is not where the linker looks: put a link "
        "libcuda.so beside its libcuda.so.1 and run `ldconfig`",
    ),
    (
        r"unsupported gpu architecture|is not defined for option 'gpu-name'|PTXAS error",
        "the compiler is older than this GPU: name a newer one in the layout's env (TRITON_PTXAS_PATH, CUDA_HOME)",
    ),
    (
        r"No such file or directory: 'ninja'|Ninja is required",
        "kernels are built at start, and ninja is neither in PATH nor in the engine's environment: install it there",
    ),
    (
        r"Failed to find C compiler|Could not find nvcc|No such file or directory: '\S*\b(?:nvcc|gcc)'",
        "kernels are compiled at start: `kboot doctor --check cache.toolchain` names what is missing",
    ),
    (r"invalid (?:tool call|reasoning) parser", "`kboot plan` names the parsers that the installed release knows"),
    (r"unrecognized arguments: (?P<what>.+)", "the installed release does not know {what}; `kboot plan` checks flags"),
    (r"EADDRINUSE|Address already in use|\[Errno 98\]", "another process listens there: `ss -ltnp`"),
    (
        r"Timed out waiting for engine core processes",
        "a rank never answered: read its log lines before this one; slow loading needs VLLM_ENGINE_READY_TIMEOUT_S",
    ),
    (
        r"Configuration mismatch detected for engine",
        "nodes were started with different arguments: compare `kboot plan --rank N` of each",
    ),
    (
        r"connectFullMesh failed",
        "ranks do not reach one another: the addresses that the host's names have must be those of the network between "
        "the nodes; GLOO_SOCKET_IFNAME in the layout's env names its interface",
    ),
    (
        r"client socket has timed out|other ranks that didn't finish loading",
        "a rank is slow, ended or cannot be reached: read the others' logs (`kboot fleet status` shows their nodes); "
        "the first node's address and port must be open to all",
    ),
    (
        r"Cannot assign requested address|EADDRNOTAVAIL",
        "that address is none of this machine's: `ip -brief addr`; arguments and VLLM_HOST_IP name it",
    ),
    (
        r"gaierror|Name or service not known|Temporary failure in name resolution",
        "a host name has no address here: enter it in /etc/hosts or in DNS, or name the address itself",
    ),
    (
        r"\d/\d+ clients joined|waiting for clients",
        "a node did not come: `kboot fleet status` shows which; the first node's address and port must be open to it",
    ),
    (
        r"does not recognize this architecture|architectures .* are not supported",
        "the installed release, or its transformers, is older than the model (`kboot facts` shows both): install the "
        "release that the model's page names",
    ),
    (
        r"Unrecognized model in|have a `model_type` key",
        "config.json is cut, or of a model that the installed transformers does not know: `kboot verify --mode full`, "
        "then `kboot facts`",
    ),
    (
        r"weights were not initialized from checkpoint|KeyError: '\S+\.\w*(?:weight|scale|bias|absmax)\b",
        "the files' tensors are not those that the installed release reads: `kboot verify --mode quick` compares them "
        "with the index; if they are whole, install the release that the model's page names",
    ),
    (
        r"Quantization (?:method|scheme) .*is not supported for",
        "this GPU is older than the checkpoint's number format needs: take the model in another format",
    ),
    (
        r"trust_remote_code=True",
        "the model brings code of its own, which would run here: read it, then add --trust-remote-code to the layout",
    ),
    (
        r"Repo id must be in the form",
        "a path that is not there is taken for a repository: where the engine runs, is the folder it names?",
    ),
    (
        r"OfflineModeIsEnabled|offline mode is enabled|outgoing traffic has been disabled|couldn't connect to 'https?:",
        "the engine runs offline and asks for another repository (an argument of the layout: tokenizer, draft model, "
        "adapter): fetch it beforehand and name its folder there",
    ),
    (
        r"Weight files referenced in index but missing|Cannot find any model weights",
        "`kboot verify --repair` fetches what is missing",
    ),
    (r"SafetensorError|InvalidHeader|HeaderTooLarge", "a shard is damaged: `kboot verify --mode full --repair`"),
    (
        r"CUDA driver version is insufficient|no kernel image is available|driver on your system is too old"
        r"|unsupported toolchain|unsupported display driver|forward compatibility was attempted"
        r"|UNSUPPORTED_PTX_VERSION|kernel image is invalid",
        "`kboot doctor` compares driver and engine (gpu.cuda_init, gpu.driver_cuda_compat)",
    ),
    (r"system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY", "the fabric manager is not up: `kboot doctor`"),
    (
        r"CUDA unknown error",
        "/dev/nvidia-uvm is missing or may not be opened: `kboot doctor --check gpu.devnodes`",
    ),
    (
        r"invalid literal for int\(\) with base 10: '(?:GPU|MIG)-",
        "this release reads only numbers in CUDA_VISIBLE_DEVICES: name the GPUs by them, or install a newer release",
    ),
    (
        r"Bfloat16 is only supported on GPUs",
        "these GPUs do not compute in bfloat16: --dtype half in the layout's args",
    ),
    (
        r"World size .* is larger than the number of available GPUs|invalid device ordinal"
        r"|number of required GPUs exceeds",
        "the engine sees fewer GPUs than the layout has: `kboot doctor --check gpu.count`; CUDA_VISIBLE_DEVICES",
    ),
    (
        r"No CUDA GPUs are available|no CUDA-capable device|Failed to infer device type",
        "CUDA_VISIBLE_DEVICES, missing device files or the container hide the GPUs: `kboot doctor --check 'gpu.*'`",
    ),
    (
        r"busy or unavailable",
        "another process has the GPU for itself: `kboot doctor --check gpu.compute_mode --check gpu.idle_clean`",
    ),
    (
        r"illegal memory access|device-side assert|misaligned address|unspecified launch failure",
        "`kboot doctor --check gpu.xid_recent` tells whether the GPU is at fault; CUDA_LAUNCH_BLOCKING=1 in the "
        "layout's env names the kernel",
    ),
    (r"uncorrectable ECC", "the GPU has to be reset: `kboot doctor --check gpu.ecc --check gpu.row_remap`"),
    (
        r"\bnvls\.cc\b.*invalid argument",
        "the fabric manager was started anew under these GPUs: reset them, or reboot",
    ),
    (
        r"\bibv_(?:reg|create)_\w+",
        "network cards may not lock memory: `kboot doctor --check limits.memlock`",
    ),
    (
        r"lib(?:cuda|nvidia-ml)\.so\.1: cannot open shared object",
        "the driver's libraries are not here: in a container NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    ),
    (
        r"(?P<what>lib[\w.+-]+): cannot open shared object file",
        "{what} is of a package that is missing or of another CUDA release than the engine's: install the engine anew",
    ),
    (
        r"failed to map segment from shared object",
        "code may not be run from that folder (noexec): `kboot doctor --check cache.dirs`",
    ),
    (
        r"(?P<what>flashinfer-\S+) version \S+ does not match",
        "install {what} in the version of flashinfer-python, or take it away",
    ),
    (
        r"cu_?file_?(?:buf_?)?register|cuFile\w+ returned an error",
        "GPUDirect Storage does not work here: take --load-format auto in the layout's args",
    ),
    (
        r"undefined symbol",
        "packages of the engine's environment were built for different releases of torch: install the engine anew",
    ),
    (
        r"(?:GLIBC\w*|CXXABI)_[\d.]+' not found",
        "this machine's C or C++ library is older than the engine's packages: take a newer system or image",
    ),
    (
        r"Illegal instruction|exit code: -4\b|: -4\}",
        "this CPU lacks instructions that a package was built with (`grep flags /proc/cpuinfo`)",
    ),
    (
        r"Bus error|SIGBUS|exit code: -7\b|: -7\}",
        "shared memory ran out, or a mapped file was cut: `kboot doctor --check fit.shm`, `kboot verify --mode quick`",
    ),
    (r"shared memory segment|/dev/shm/.*No space left", "shared memory is full: `kboot doctor --check fit.shm`"),
    (
        r"No space left on device|Disk quota exceeded",
        "`kboot doctor --check 'disk.*'`; shared memory counts too (/dev/shm)",
    ),
    (
        r"Permission denied: |Read-only file system",
        "the engine's user may not write there: name another folder in the layout's env, or give it to that user",
    ),
    (
        r"getpwuid\(\): uid not found",
        "the engine's user has no name here: USER in the layout's env gives it one",
    ),
    (
        r"is longer than 107 characters|AF_UNIX path too long",
        "the name of a socket is too long: a shorter TMPDIR (/tmp) in the layout's env",
    ),
    (
        r"Stale file handle|Device or resource busy: '/",
        "that folder is on a network file system and was replaced there: use a local disk",
    ),
    (r"Cannot allocate memory", "`kboot doctor --check mem.overcommit --check fit.ram --check sys.oom`"),
    (
        r"Cannot re-initialize CUDA in forked subprocess",
        "workers must not be forks of a process that uses CUDA: VLLM_WORKER_MULTIPROC_METHOD=spawn in the layout's env",
    ),
    (r"Too many open files", "`kboot doctor --check limits.nofile`"),
    (r"can't start new thread|Resource temporarily unavailable", "`kboot doctor --check limits.nproc_pids`"),
    (
        r"set_mempolicy|setting membind|mbind: |libnuma: |numactl: |sched_setaffinity",
        "binding is refused here: `kboot doctor --check numa.mempolicy_allowed --check cpu.quota`",
    ),
    (
        r"Killed$|exit code: -9\b|: -9\}",
        "the kernel ended it: `kboot doctor --check sys.oom` and `dmesg` tell whether memory ran out",
    ),
    (
        r"unhandled (?:cuda|system) error|NCCL error|DistBackendError|collective operation timeout",
        "NCCL_DEBUG=INFO in the layout's env names the link",
    ),
)
"""Of a cause, and what helps. The first that matches counts: what is particular stands before what is general."""

_READ = 4096
"""Characters of a cause that are looked at: some patterns begin at every word and look on to the end."""


def remedy(cause: str) -> str | None:
    """Return the step that most likely helps; None where the cause is not known."""
    for pattern, text in _REMEDIES:
        if found := re.search(pattern, cause[:_READ], re.IGNORECASE):
            return text.format(**found.groupdict()) if found.groupdict() else text
    return None
