"""What is likely to help, by an engine's first cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.engines import engine
from kboot.engines.logs import LogReader
from kboot.engines.remedies import remedy

LOGS = Path(__file__).parent / "logs"


@pytest.mark.parametrize(
    ("log", "cause", "process", "help_"),
    [
        (
            "vllm-0.26-failed-missing-module.log",
            "ModuleNotFoundError: No module named 'flashinfer'",
            "Worker",
            "install flashinfer in the engine's environment",
        ),
        (
            "vllm-0.26-failed-nvcc-missing-header.log",
            "fatal error: cute/util/type_traits.hpp: No such file or directory",
            "Worker_DP0_EP0",
            "lacks the header cute/util/type_traits.hpp",
        ),
    ],
)
def test_a_recorded_failure_names_cause_rank_and_remedy(log: str, cause: str, process: str, help_: str) -> None:
    """One line among hundreds: what failed first, on which rank, and what to do."""
    reader = LogReader(engine("vllm"), 0.0)
    for line in (LOGS / log).read_text().splitlines():
        seconds, _, text = line.strip().partition(" ")
        reader.feed(float(seconds) if seconds.replace(".", "").isdigit() else 0.0, text)
    failure = reader.failure()

    assert failure is not None
    assert cause in failure.text
    assert failure.process.startswith("Worker")
    assert help_ in (remedy(failure.text) or "")


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "kboot fit"),
        (
            "ValueError: The model's max seq len (1048576) is larger than the maximum number of tokens that can be "
            "stored in KV cache (88069).",
            "lower --max-model-len",
        ),
        ("ValueError: Free memory on device (3.1/79.1 GiB) on startup is less than desired", "gpu.idle_clean"),
        ("KeyError: 'invalid tool call parser: kimi_k4'", "kboot plan"),
        ("vllm serve: error: unrecognized arguments: --no-such", "does not know --no-such"),
        ("FileNotFoundError: Weight files referenced in index but missing: ['a']", "kboot verify --repair"),
        ("safetensors_rust.SafetensorError: Error while deserializing header", "--mode full --repair"),
        ("RuntimeError: Error 802: system not yet initialized", "fabric manager"),
        ("OSError: [Errno 28] No space left on device", "/dev/shm"),
        ("main.c:5:10: fatal error: Python.h: No such file or directory", "python3-dev"),  # vllm#27890, sglang#1117
        ("/usr/bin/ld: cannot find -lcuda: No such file or directory", "libcuda.so.1"),  # vllm#11643, vllm#12559
        ("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", "TRITON_PTXAS_PATH"),  # triton#8539
        ("FileNotFoundError: [Errno 2] No such file or directory: 'ninja'", "ninja is neither in PATH"),  # vllm#49029
        ("RuntimeError: Failed to find C compiler. Please specify via CC environment variable.", "cache.toolchain"),
        ("Fatal Python error: Bus error", "fit.shm"),  # vllm#1771
        ("Worker proc VllmWorker-0 died unexpectedly (exit code: -9)", "sys.oom"),
        ("RuntimeError: Engine core initialization failed. Failed core proc(s): {'EngineCore_DP0': -9}", "sys.oom"),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "--context-length"),
        ("ValueError: No available memory for the cache blocks. Try increasing", "--max-model-len"),
        ("DistNetworkError: code: -98, name: EADDRINUSE, message: address already in use", "ss -ltnp"),
        ("DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.", "kboot fleet status"),
        ("Error 803: system has unsupported display driver / cuda driver combination", "gpu.cuda_init"),
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 12020)", "gpu.driver_cuda_compat"),
        ("torch.AcceleratorError: CUDA error: all CUDA-capable devices are busy or unavailable", "gpu.compute_mode"),
        ("ValueError: model type `new` but Transformers does not recognize this architecture", "older than the model"),
        ("OfflineModeIsEnabled: Cannot reach the Hub: offline mode is enabled", "draft model"),  # vllm#3719, vllm#29706
        ("PermissionError: [Errno 13] Permission denied: '/.triton'", "may not write there"),
        ("ImportError: libc.so.6: version `GLIBC_2.32' not found (required by _C.so)", "newer system"),
        ("ImportError: libcudart.so.12: cannot open shared object file", "libcudart.so.12 is of a package"),
        ("ImportError: libcuda.so.1: cannot open shared object file", "NVIDIA_DRIVER_CAPABILITIES"),  # gpustack#3810
        ("Illegal instruction (core dumped)", "/proc/cpuinfo"),
        ('zmq.error.ZMQError: ipc path "/p/scratch/x" is longer than 107 characters', "TMPDIR"),  # LMCache#3529
    ],
)
def test_common_causes_have_a_next_step(cause: str, words: str) -> None:
    """Each names a command or a setting."""
    assert words in (remedy(cause) or "")


def test_what_nobody_knows_has_none() -> None:
    """No advice is better than a guess."""
    assert remedy("RuntimeError: something else") is None


@pytest.mark.parametrize(
    ("report", "cause", "words"),
    [
        (
            "vllm#49804",
            "RuntimeError: flashinfer-cubin version (0.6.1) does not match flashinfer version (0.5.3). Please install",
            "install flashinfer-cubin in the version of flashinfer-python",
        ),
        ("pytorch#123054", "ImportError: /tmp/c/cuda_utils.so: failed to map segment from shared object", "cache.dirs"),
        (
            "fastsafetensors#28",
            "gds_device_buffer.cufile_register: cuFileBufRegister returned an error = 5016",
            "GPUDir",
        ),
        ("vllm#20939", "ValueError: invalid literal for int() with base 10: 'GPU-64b90baa-0cf1'", "reads only numbers"),
        ("alpaca-lora#280", "OSError: [Errno 122] Disk quota exceeded", "disk.*"),
        ("gpuowl PR#31", "cuModuleLoadData: CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "gpu.driver_cuda_compat"),
        ("huggingface_hub PR#4228", "Unrecognized model in /m. Should have a `model_type` key in its", "verify --mode"),
        ("vllm#7074", "RuntimeError: Gloo connectFullMesh failed with [pair.cc:144] no error", "GLOO_SOCKET_IFNAME"),
        ("pytorch#49081", "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up", "nvidia-uvm"),
        ("nccl#1488", "node23:1 [2] transport/nvls.cc:244 NCCL WARN Cuda failure 1 'invalid argument'", "reset them"),
        (
            "vllm#4383",
            "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details): a46f6c76528f:27 "
            "[0] misc/shmutils.cc:113 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-v2jS20",
            "fit.shm",
        ),
        (
            "vllm#19670",
            "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms",
            "open to all",
        ),
        (
            "sglang#4503",
            "ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't "
            "finish loading. It is likely due to unexpected failures (e.g., OOM)",
            "others' logs",
        ),
        (
            "dynamo#2706",
            "zmq.error.ZMQError: Cannot assign requested address (addr='tcp://172.17.0.5:34762')",
            "ip -brief",
        ),
        ("vllm#2407", "socket.gaierror: [Errno -2] Name or service not known", "/etc/hosts"),
        ("llm-compressor#959", "KeyError: 'layers.0.mlp.down_proj.weight_scale'", "verify --mode quick"),
        ("vllm#40358", "KeyError: 'layers.0.mlp.experts.w13_bias'", "verify --mode quick"),
        (
            "vllm#15536",
            "ValueError: Following weights were not initialized from checkpoint: {'lm_head.weight'}",
            "verify",
        ),
        (
            "vllm#4202",
            "ValueError: The quantization method awq is not supported for the current GPU. Minimum",
            "another f",
        ),
        (
            "vllm#14040",
            "RuntimeError: ('Quantization scheme is not supported for ', 'the current GPU.",
            "another format",
        ),
        (
            "vllm#24430",
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
            "gpu.xid_recent",
        ),
        ("vllm#44548", "KeyError: 'getpwuid(): uid not found: 1000910000'", "USER"),
        ("vllm#1710", "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-V (size 9637888)", "fit.shm"),
    ],
)
def test_a_reported_failure_has_a_remedy(report: str, cause: str, words: str) -> None:
    """What people wrote down of an engine that did not start."""
    assert words in (remedy(cause) or ""), report


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("Value error, User-specified max_model_len (131072) is greater than the derived max_model_len", "lower it"),
        (
            "ValueError: Total number of attention heads (64) must be divisible by tensor parallel size (6).",
            "kboot fit",
        ),
        ("AssertionError: 20 is not divisible by 8", "kboot fit"),
        (
            "ValueError: The output_size of gate's and up's weight = 192 is not divisible by weight quantization "
            "block_n = 128.",
            "blocks",
        ),
        ("RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied", "gpu.idle_clean"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "kboot fit"),
        ("RuntimeError: Ninja is required to load C++ extensions", "install it there"),
        ("contains custom code. Please pass the argument `trust_remote_code=True` to allow", "read it"),
        ("HFValidationError: Repo id must be in the form 'repo_name': '/models/x'", "is the folder"),
        ("ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0", "--dtype half"),
        ("RuntimeError: Failed to infer device type", "gpu.*"),
        ("ValueError: World size (8) is larger than the number of available GPUs (4) in this node.", "gpu.count"),
        ("NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory", "limits.memlock"),
        ("RuntimeError: unable to mmap 4998 bytes from file: Cannot allocate memory (12)", "mem.overcommit"),
        ("RuntimeError: Cannot re-initialize CUDA in forked subprocess.", "METHOD=spawn"),
        ("OSError: [Errno 16] Device or resource busy: '/root/.triton/cache/x'", "local disk"),
    ],
)
def test_what_engines_say_of_arguments_and_limits_has_a_remedy(cause: str, words: str) -> None:
    """In their own words."""
    assert words in (remedy(cause) or "")
