from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.engines import ENGINES, engine
from kboot.engines.logs import CacheSaid, LogReader, is_progress_bar, mask, parse
from kboot.engines.remedies import remedy
from kboot.profile.types import EngineName

LOGS = Path(__file__).parent / "logs"

CORE = "(EngineCore_DP0 pid=1) INFO 11-30 06:29:15 [core.py:140] "
RANK0 = "(Worker_DP0_EP0 pid=2) INFO 11-30 06:29:37 [model_runner.py:399] "
RANK1 = "(Worker_DP1_EP1 pid=3) INFO 11-30 06:29:38 [model_runner.py:399] "
CORE_ERROR = "(EngineCore_DP0 pid=1) ERROR 11-30 06:51:08 [core.py:1584] "
WORKER_ERROR = "(Worker pid=2) ERROR 11-30 06:51:08 [multiproc_executor.py:901] "


def recorded(name: str) -> LogReader:
    """Read a log recorded on 2x H200; each line begins with seconds since the start."""
    reader = LogReader(engine("vllm"), 0.0)
    for line in (LOGS / f"vllm-0.26-{name}.log").read_text().splitlines():
        reader.feed(float(line[:8]), line[9:])
    return reader


def lengths(reader: LogReader) -> dict[str, float | None]:
    """Return each phase's seconds."""
    return {s.name: None if s.seconds is None else round(s.seconds, 2) for s in reader.spans()}


def fed(name: EngineName, *lines: str) -> LogReader:
    """Read lines that come a second apart."""
    reader = LogReader(engine(name), 0.0)
    for second, line in enumerate(lines, 1):
        reader.feed(float(second), line)
    return reader


class TestFirstWords:
    def test_vllm_speaks_once_its_front_end_is_imported(self) -> None:
        """Recorded: the first line of a cold boot, 13 s after its start."""
        first = (LOGS / "vllm-0.26-cold-deepgemm-jit.log").read_text().partition("\n")[0]

        assert not fed("vllm").has_spoken
        assert fed("vllm", first[9:]).has_spoken

    def test_what_is_said_before_and_during_the_import_is_not_the_engine(self) -> None:
        """kboot's own last line, a warning of a module, in colour, with a token, an empty line."""
        assert not fed(
            "vllm",
            "kboot: 8 CPUs each; becoming vllm",
            "/opt/venv/lib/torch/cuda/__init__.py:63: FutureWarning: The pynvml package is old.",
            "  import pynvml  # type: ignore[import]",
            "\x1b[33mUserWarning: a module is old\x1b[0m",
            "HF_TOKEN=hf_EXAMPLExxxxxxxxxxx is deprecated",
            "",
        ).has_spoken

    def test_sglang_speaks_with_its_time_alone(self) -> None:
        """Its lines have no level."""
        assert fed("sglang", "[2026-11-30 06:29:37] server_args=ServerArgs(model_path='m')").has_spoken


class TestRecorded:
    def test_a_cold_boot(self) -> None:
        """Every phase until the boot was cut off, each as long as vLLM itself said."""
        assert {
            "front end": 32.64,
            "engine cores": 12.71,
            "workers": 13.4,
            "distributed init": 1.08,
            "load model": 45.34,
            "read weights": 28.38,
            "compile": 58.85,
            "profiling run": 49.85,
            "size KV cache": 24.98,
            "DeepGEMM warm-up": None,
        } == lengths(recorded("cold-deepgemm-jit"))

    def test_the_second_boot(self) -> None:
        """The same phases with caches kept: weights 8.65 s, compile 8.69 s, profiling 7.73 s."""
        found = lengths(recorded("second-boot-deepgemm-jit"))

        assert (8.65, 8.69, 7.74) == (found["read weights"], found["compile"], found["profiling run"])

    def test_the_phase_it_hung_in(self) -> None:
        """What an operator sees while a FlashInfer module is built for minutes: the phase that has not ended."""
        assert "profiling run" == recorded("boot1-cold-flashinfer-jit").current()
        assert "DeepGEMM warm-up" == recorded("cold-deepgemm-jit").current()

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("boot1-cold-flashinfer-jit", CacheSaid("torch.compile", hits=0, misses=1)),
            ("cold-deepgemm-jit", CacheSaid("torch.compile", hits=0, misses=1)),
            ("boot2-flashinfer-jit-again", CacheSaid("torch.compile", hits=2, misses=0)),
            ("boot4-warm-flashinfer-jit-again", CacheSaid("torch.compile", hits=3, misses=0)),
        ],
    )
    def test_hits_and_misses(self, name: str, said: CacheSaid) -> None:
        """A first boot saves what it compiled, a later one loads it in every rank."""
        assert (said,) == recorded(name).caches()

    def test_the_share_each_process_reported(self) -> None:
        """Both engine cores would have used all 32 CPUs."""
        assert {"EngineCore_DP0": 32, "EngineCore_DP1": 32} == recorded("boot1-cold-flashinfer-jit").threads()

    def test_the_first_cause_is_a_missing_module(self) -> None:
        """One line among hundreds, said 46 s into the boot by a worker."""
        failure = recorded("failed-missing-module").failure()

        assert failure is not None
        assert (46.14, "Worker", "ModuleNotFoundError: No module named 'flashinfer'") == (
            failure.unix_s,
            failure.process,
            failure.text,
        )

    def test_the_first_cause_is_a_missing_header(self) -> None:
        """The compiler's line has no rank: it is that of the first worker that fell over it."""
        failure = recorded("failed-nvcc-missing-header").failure()

        assert failure is not None
        assert (153.54, "Worker_DP0_EP0") == (failure.unix_s, failure.process)
        assert failure.text.endswith("fatal error: cute/util/type_traits.hpp: No such file or directory")

    @pytest.mark.parametrize(
        "name", ["boot1-cold-flashinfer-jit", "boot2-flashinfer-jit-again", "boot4-warm-flashinfer-jit-again"]
    )
    def test_a_boot_that_did_not_fail_names_no_cause(self, name: str) -> None:
        """Warnings that mention an error in passing (the ulimit line) are not taken for one."""
        assert recorded(name).failure() is None


class TestVllm033:
    def test_lines_of_later_versions(self) -> None:
        """What 0.33 writes otherwise is read as well: threads, autotune, warm-up, graphs, ready."""
        reader = fed(
            "vllm",
            CORE + "Initializing a V1 LLM engine (v0.33.0) with config",
            RANK0 + "Loading model from scratch",
            RANK0 + "Reducing Torch threads from 28 to 1 for serving",
            RANK1 + "OMP_NUM_THREADS=4 is set; leaving Torch threads at 4",
            RANK0 + "Running FlashInfer autotune with 8192 tokens",
            RANK0 + "[Autotuner]: Saved 22 configs to /c/x.json",
            RANK0 + "Graph capturing finished in 5 secs, took 2.5 GiB",
            CORE + "init engine (profile, create kv cache, warmup model) took 9.1 s",
            "INFO:     Application startup complete.",
        )

        assert {"Worker_DP0_EP0": 28, "Worker_DP1_EP1": 4} == reader.threads()
        assert (CacheSaid("flashinfer autotune", 0, 1),) == reader.caches()
        assert {
            "front end": 1.0,
            "workers": None,
            "load model": None,
            "FlashInfer autotune": 1.0,
            "graph capture": 5.0,
            "start server": 1.0,
        } == lengths(reader)

    def test_consequences_are_not_causes(self) -> None:
        """The front end's own last words do not hide that a worker was killed."""
        failure = fed(
            "vllm",
            CORE_ERROR + "EngineCore failed to start.",
            CORE_ERROR + "Worker proc VllmWorker-0 died unexpectedly (exit code: -9)",
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        ).failure()

        assert failure is not None
        assert "Worker proc VllmWorker-0 died unexpectedly (exit code: -9)" == failure.text

    def test_a_core_that_a_signal_ended_is_one(self) -> None:
        """It wrote nothing itself: the front end's last line tells the signal, after the consequence's own words."""
        said = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): "
        failure = fed("vllm", f"(APIServer pid=1) {said}{{'EngineCore_DP0': -9}}").failure()

        assert failure is not None
        assert f"{said}{{'EngineCore_DP0': -9}}" == failure.text
        assert fed("vllm", f"(APIServer pid=1) {said}{{'EngineCore_DP0': 1}}").failure() is None

    def test_a_scheduler_that_a_signal_ended_is_one(self) -> None:
        """The status is on the next line; the traceback below is of the front end that waited (sglang#15235)."""
        failure = fed(
            "sglang",
            "[2026-12-16 14:27:08] Rank 0 scheduler is dead. Please check if there are relevant logs.",
            "[2026-12-16 14:27:10] Exit code: -9",
            "Traceback (most recent call last):",
            "EOFError",
        ).failure()

        assert failure is not None
        assert "Rank 0 scheduler is dead. Please check if there are relevant logs.: Exit code: -9" == failure.text

    def test_a_failed_helper_is_not_one_but_what_it_said(self) -> None:
        """The child that inspects the model failed: why stands below, in its own traceback (vllm#44548)."""
        error = "ERROR 06-04 10:00:10 [registry.py:1401] "
        failure = fed(
            "vllm",
            error + "subprocess.CalledProcessError: Command '['python3', '-m', 'vllm.model_executor.models.registry']'",
            error + "RuntimeError: Error raised in subprocess:",
            error + "KeyError: 'getpwuid(): uid not found: 1000910000'",
        ).failure()

        assert failure is not None
        assert "KeyError: 'getpwuid(): uid not found: 1000910000'" == failure.text

    def test_of_nccl_is_what_it_warned_of(self) -> None:
        """Its error says nothing; where its log is on, the line before says it (nccl#2190)."""
        warned = "host:3:99 [1] misc/shmutils.cc:113 NCCL WARN Error while creating shared memory segment /dev/shm/n"
        error = "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
        failure = fed("vllm", warned, WORKER_ERROR + error).failure()

        assert failure is not None
        assert ("Worker", f"{error}: {warned}") == (failure.process, failure.text)

    def test_without_a_known_cause_the_first_error_line_stands(self) -> None:
        """Better a line to look at than none."""
        failure = fed("vllm", WORKER_ERROR + "something new went wrong").failure()

        assert failure is not None
        assert ("Worker", "something new went wrong") == (failure.process, failure.text)

    def test_out_of_memory_is_a_cause(self) -> None:
        """The exception's dotted name is part of it."""
        failure = fed("vllm", WORKER_ERROR + "torch.OutOfMemoryError: CUDA out of memory.").failure()

        assert failure is not None
        assert "torch.OutOfMemoryError: CUDA out of memory." == failure.text

    def test_ranks_share_a_phase_from_first_start_to_last_end(self) -> None:
        """The slowest rank is the phase's end."""
        reader = fed(
            "vllm",
            RANK0 + "Starting to load model /m...",
            RANK1 + "Starting to load model /m...",
            RANK0 + "Model loading took 1.5 GiB memory and 2.0 seconds",
            RANK1 + "Model loading took 1.5 GiB memory and 2.0 seconds",
        )

        assert [(1.0, 4.0)] == [(s.start_unix_s, s.end_unix_s) for s in reader.spans()]
        assert [(("Worker_DP0_EP0", 2.0), ("Worker_DP1_EP1", 2.0))] == [s.ranks for s in reader.spans()]

    def test_each_rank_is_as_long_as_its_own_lines_say(self) -> None:
        """Without a length in the line that ends a phase, a rank's own first line counts, and no other rank's."""
        reader = fed(
            "sglang",
            "[2026-11-30 06:29:37 TP0] Load weight begin. avail mem=139.00 GB",
            "[2026-11-30 06:29:38 TP1] Load weight begin. avail mem=139.00 GB",
            "[2026-11-30 06:29:39 TP1] Load weight end. type=KimiK3",
            "[2026-11-30 06:29:40 TP0] Load weight end. type=KimiK3",
        )

        assert (("TP0", 3.0), ("TP1", 1.0)) == reader.spans()[0].ranks

    def test_a_single_process_is_no_rank_among_others(self) -> None:
        """A recorded boot whose phases were told by one process has nothing to tell apart."""
        assert () == fed("vllm", CORE + "Initializing a V1 LLM engine (v0.33.0) with config").spans()[0].ranks


class TestReportedCauses:
    """First causes as public reports quote them."""

    @pytest.mark.parametrize(
        "line",
        [
            "Exception: Capture cuda graph failed: CUDA out of memory.",  # sglang#5883
            "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach the Hub: offline mode is enabled.",  # vllm#3719
            "Fatal Python error: Bus error",  # vllm#1771
            "/usr/bin/ld: cannot find -lcuda: No such file or directory",  # vllm#11643
            "socket.gaierror: [Errno -2] Name or service not known",  # vllm#2407
            "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",  # vllm#29469
            "AssertionError",
        ],
    )
    def test_is_named_however_it_is_spelt(self, line: str) -> None:
        """A traceback's last line without a known ending, a signal's name, a compiler's or a linker's complaint."""
        failure = fed("sglang", "Traceback (most recent call last):", '  File "a.py", line 1, in b', line).failure()

        assert failure is not None
        assert line == failure.text

    def test_is_nothing_that_is_told_as_news(self) -> None:
        """A module that names its class first looks like an exception with its reason."""
        told = "INFO 11-30 06:29:37 [nixl.py:20] nixl.agents.Agent: {}"

        assert fed("vllm", told.format("initialized")).failure() is None
        assert fed("vllm", told.format("no backend").replace("INFO", "ERROR")).failure() is not None

    @pytest.mark.parametrize(
        ("lines", "cause"),
        [
            (
                (
                    "(APIServer pid=7) pydantic_core.ValidationError: 1 validation error for ModelConfig",
                    "(APIServer pid=7)   Value error, No model architectures are specified [type=value_error, input_v",
                    "(APIServer pid=7)     For further information visit https://errors.pydantic.dev/2.9/v/value_error",
                ),
                "pydantic_core.ValidationError: 1 validation error for ModelConfig: "
                "Value error, No model architectures are specified",
            ),  # vllm#26161, vllm-omni#2170
            (
                (
                    "ValidationError: 1 validation error for EngineArgs",
                    RANK0 + "another process says something meanwhile",
                    "max_model_len",
                    "  Input should be a valid integer [type=int_parsing]",
                    "    For further information visit",
                ),
                "ValidationError: 1 validation error for EngineArgs: max_model_len: Input should be a valid integer",
            ),
            (
                (
                    "terminate called after throwing an instance of 'c10::DistBackendError'",
                    "  what():  [PG ID 2] NCCL error: remote process exited",
                    "Fatal Python error: Aborted",
                ),
                "terminate called after throwing an instance of 'c10::DistBackendError': "
                "what():  [PG ID 2] NCCL error: remote process exited",
            ),
            (
                (
                    "torch.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error (run",
                    "ncclSystemError: System call or external library call failed or device error.",
                    "Last error:",
                    "Error while creating shared memory segment /dev/shm/nccl-bWHyCi (size 9637888)",
                    "Traceback (most recent call last):",
                ),
                "torch.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error (run: "
                "ncclSystemError: System call or external library call failed or device error.: Last error:: "
                "Error while creating shared memory segment /dev/shm/nccl-bWHyCi (size 9637888)",
            ),  # vllm#6574
        ],
    )
    def test_has_the_reason_that_the_next_lines_give(self, lines: tuple[str, ...], cause: str) -> None:
        """A count of validation errors and a C++ class say nothing; what they mean is indented below."""
        failure = fed("vllm", *lines).failure()

        assert failure is not None
        assert cause == failure.text

    @pytest.mark.parametrize(
        ("line", "process", "level", "text"),
        [
            ("[rank1]: ValueError: no", "rank1", "", "ValueError: no"),  # vllm#11643
            (
                "[rank3]:[E1130 06:29:37.12 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught a timeout",
                "rank3",
                "ERROR",
                "[Rank 3] Watchdog caught a timeout",
            ),
            (
                "(EngineCore_DP0 pid=1) (RayWorkerWrapper pid=7, ip=10.0.0.2) ERROR 11-30 06:29:37 [w.py:620] no",
                "RayWorkerWrapper",
                "ERROR",
                "no",
            ),
            ("(VllmWorker rank=1 pid=336) RuntimeError: no", "VllmWorker", "", "RuntimeError: no"),  # vllm#16336
            ("ERROR:    [Errno 98] address already in use", "", "ERROR", "[Errno 98] address already in use"),
        ],
    )
    def test_is_read_behind_the_marks_of_torch_ray_and_uvicorn(
        self, line: str, process: str, level: str, text: str
    ) -> None:
        """Each puts its own decoration before the same words."""
        found = parse(line)

        assert (process, level, text) == (found.process, found.level, found.text)


@pytest.mark.parametrize(
    ("bar", "end"),
    [
        ("Loading safetensors checkpoint shards", "(Worker_TP0 pid=7) Loading weights took 0.80 seconds"),
        ("Loading pt checkpoint shards", "(Worker_TP0 pid=7) Loading weights took 0.80 seconds"),
        ("Multi-thread loading shards", "(Worker_TP0 pid=7) Loading weights took 0.80 seconds"),
        ("Loading safetensors using Fastsafetensor loader", "(Worker_TP0 pid=7) Loading weights took 0.80 seconds"),
        (
            "Loading safetensors using Runai Model Streamer",
            "Loading safetensors using Runai Model Streamer: 100% Completed | 9/9 [00:01<00:00,  9.0it/s]",
        ),
    ],
)
def test_the_weights_are_seen_read_whatever_reads_them(bar: str, end: str) -> None:
    """Each loader names its bar otherwise; the streamer says no length at its end."""
    begin = f"{bar}:   0% Completed | 0/9 [00:00<?, ?it/s]"

    assert "read weights" == fed("vllm", begin).current()
    assert {"read weights": 1.0} == lengths(fed("vllm", begin, end))


def test_sglang() -> None:
    """Its lines carry time and rank in brackets, its phases their own words."""
    reader = fed(
        "sglang",
        "[2026-11-30 06:29:37 DP0 TP0 EP0] Init torch distributed begin.",
        "[2026-11-30 06:29:38 DP0 TP0 EP0] Init torch distributed ends. elapsed=1.2 s, mem usage=1.2 GB",
        "[2026-11-30 06:29:38 DP0 TP0 EP0] Load weight begin. avail mem=139.00 GB",
        "[2026-11-30 06:29:58 DP0 TP0 EP0] Load weight end. elapsed=0.75 s, type=KimiK3",
        "[2026-11-30 06:29:59] max_total_num_tokens=100000",
        "[2026-11-30 06:30:00] The server is fired up and ready to roll!",
    )

    assert {"distributed init": 1.0, "load model": 1.0, "size KV cache": None, "warm up server": 1.0} == lengths(reader)


def test_tokenspeed() -> None:
    """Its own spans are JSON records in the log, their keys in any order."""
    reader = fed(
        "tokenspeed",
        '[ts] startup_timing {"phase":"weights.read_copy","rank":0,"pid":7,"wall_time_ns":1}',
        '[ts] startup_timing {"duration_s":0.25,"phase":"weights.read_copy","rank":0,"pid":7}',
        '[ts] startup_timing {"phase":"graph.capture","rank":0,"pid":7,"wall_time_ns":2}',
    )

    assert {"read weights": 1.0, "graph capture": None} == lengths(reader)


class TestParse:
    def test_process_level_and_text(self) -> None:
        """The decoration goes, the message stays."""
        found = parse("(Worker_DP0_EP0 pid=4345) INFO 11-30 06:29:37 [gpu_model_runner.py:5250] Starting to load\n")

        assert ("Worker_DP0_EP0", "INFO", "Starting to load") == (found.process, found.level, found.text)

    def test_colours_go(self) -> None:
        """A log made for a terminal is read as any other."""
        found = parse("\x1b[0;36m(EngineCore_DP0 pid=1)\x1b[0;0m INFO 11-30 06:29:37 [core.py:1] ready")

        assert ("EngineCore_DP0", "ready") == (found.process, found.text)

    def test_a_line_of_another_form_is_all_text(self) -> None:
        """nvcc and the kernel write as they like."""
        assert "nvcc fatal : Unsupported" == parse("nvcc fatal : Unsupported").text

    def test_a_token_is_masked(self) -> None:
        """B029: an engine that logs its arguments does not put the Hub token into kboot's log or report."""
        line = "non-default args: {'model_tag': 'org/m', 'hf_token': 'hf_EXAMPLExxxxxxxxxxx'}"

        assert "hf_EXAMPLE" not in parse(line).text
        assert "{'hf_token': 'hf_***'}" == mask("{'hf_token': 'hf_EXAMPLExxxxxxxxxxx'}")
        assert "{'api_key': ['(hidden)']}" == mask("{'api_key': ['sk-" + "Ab1" * 12 + "']}")

    @pytest.mark.parametrize(
        "line",
        [
            "Loading safetensors checkpoint shards:  10% Completed | 11/111 [00:02<00:20,  4.89it/s]",
            "DeepGEMM warmup:  14%|█▍        | 318/2267 [01:05<19:32,  1.66it/s]",
        ],
    )
    def test_bars_are_known(self, line: str) -> None:
        """B144: states of a progress bar are not relayed."""
        assert is_progress_bar(line)

    def test_a_message_with_a_percentage_is_no_bar(self) -> None:
        """Only a bar has count and total."""
        assert not is_progress_bar("GPU KV cache usage: 10.0%, Prefix cache hit rate: 0.0%")

    @given(st.lists(st.text(max_size=60), max_size=20))
    def test_no_line_breaks_the_reader(self, lines: list[str]) -> None:
        """Whatever an engine or its children write, the reader goes on, and time never runs backwards in a span."""
        for adapter in ENGINES:
            reader = LogReader(adapter, 0.0)
            for second, line in enumerate(lines):
                reader.feed(float(second), line)

            assert all(s.seconds is None or s.seconds >= 0 for s in reader.spans())


class TestGarbledLines:
    def test_a_length_that_is_no_number_ends_its_phase_all_the_same(self) -> None:
        """Two ranks write one line; it is no reason for the boot to end."""
        reader = fed("vllm", RANK0 + "Capturing CUDA graphs", RANK0 + "Graph capturing finished in 12.312.4 secs, took")

        assert {"graph capture": 1.0} == lengths(reader)

    def test_numbers_longer_than_python_reads_are_none(self) -> None:
        """Nothing is planned for 10^5000 threads."""
        for words in ("Reducing Torch parallelism from {}", "Graph capturing finished in {} secs"):
            reader = fed("vllm", RANK0 + words.format("9" * 5000))
            assert {} == reader.threads() == lengths(reader)

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize(
        "piece", ["1", "1%|", "1% Completed | ", "1/", "lib", "GLIBC_", "Capture CUDA graph end. ", "startup_timing "]
    )
    def test_a_line_costs_its_length(self, piece: str) -> None:
        """As long as lines are read, of anything: looking from each digit to the end took half a minute."""
        line = piece * ((64 << 10) // len(piece))
        for adapter in ENGINES:
            LogReader(adapter, 0.0).feed(1.0, line)

        assert not is_progress_bar(line)
        assert remedy(line) is None
