"""What do CUDA, the kernel and the engine's own processes answer when doctor asks? Each in a child it can lose."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, TypeVar

from kboot.apply.handoff import read_handoff
from kboot.apply.pin import live_workers
from kboot.apply.weights import listed_model
from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gpus_for, layout_for
from kboot.cpulist import parse_cpu_list
from kboot.errors import ActionFailed, FactMissing, KbootError, SourceError
from kboot.events import Emit, Notice
from kboot.facts.asked_types import LiveWorker, ManagerState, WeightShare
from kboot.facts.basic_types import Gap
from kboot.facts.cuda import cuda_facts
from kboot.facts.link_types import CudaFacts
from kboot.facts.process import ENGINE_UNIT, Scope, Tree, Unit
from kboot.facts.reader import whole_number
from kboot.facts.types import Gpu, NodeFacts
from kboot.host.clock import monotonic_s
from kboot.host.cuda import ask_cuda, begin_cuda
from kboot.host.myself import set_memory_policy
from kboot.host.nvml import Begun
from kboot.host.paths import Paths
from kboot.host.probes import ask_in_child, at_most
from kboot.host.types import Host
from kboot.jsontext import parse_json
from kboot.plan.memory.place import place
from kboot.plan.memory.reserve import DRIVER_RESERVE
from kboot.profile.types import Profile
from kboot.report.saved import is_alive, read_boot, read_progress
from kboot.report.types import WorkerCheck
from kboot.store.store import Store
from kboot.values import dataclass

_T = TypeVar("_T")
_SMALL_S = 5.0
"""For calls that either answer at once or hang."""
_LEAST_S = 0.5
_OF_CUDA = ("gpu.cuda_init", "gpu.p2p", "gpu.h2d")
_OF_WORKERS = ("fit.ram", "fit.shm", "fit.vram", "gpu.idle_clean", "threads.plan")
_PROGRAM_S = 2.0
FABRIC_MANAGER_VERSION = ("nv-fabricmanager", "--version")
FABRIC_MANAGER_UNIT = ("systemctl", "show", "nvidia-fabricmanager.service", "--property=ActiveState,NRestarts")
CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TOKENIZERS_PARALLELISM")


@dataclass(frozen=True, slots=True)
class Patient:
    """How long each may take. cuda_s: of starting CUDA, with measuring where `measures`. headers_s: of the weights'."""

    cuda_s: float
    headers_s: float
    measures: bool


@dataclass(slots=True)
class Inquiry:
    """One run's questions. wanted: ids of the checks that will be asked; what none of them needs is not asked."""

    host: Host
    paths: Paths
    wanted: Collection[str]
    emit: Emit
    gaps: list[Gap] = field(default_factory=list)
    _early: Begun | None = None
    _began_s: float = 0.0

    def begin(self, timeout_s: float) -> None:
        """Start CUDA already now, beside the reading of the facts; for modes that measure nothing."""
        if self.host.live and self.wants(*_OF_CUDA):
            self._began_s = monotonic_s()
            with suppress(OSError):  # then it is asked later, and says why not
                self._early = begin_cuda(timeout_s, self.host.environ())

    def early_answers(self, timeout_s: float) -> Mapping[str, Any] | None:
        """Return what a start at the beginning answered; None without one. timeout_s: counted from then."""
        if self._early is None:
            return None
        return self._early.answers(at_most(max(_LEAST_S, timeout_s - (monotonic_s() - self._began_s))))

    def end(self) -> None:
        """Leave what nobody collects."""
        if self._early is not None:
            self._early.leave()

    def ask(self, fact: str, source: str, question: Callable[[], _T], timeout_s: float) -> _T | None:
        """Return the answer of a child process; None and a Gap where there is none in time."""
        try:
            return ask_in_child(question, timeout_s)
        except (KbootError, OSError) as exc:
            self.emit(Notice("probe.failed", f"{source} could not be asked: {exc}"))
            self.gaps.append(Gap(f"asked.{fact}", source, str(exc)))
            return None

    def wants(self, *ids: str) -> bool:
        """Return whether one of these checks will be asked."""
        return any(id_ in self.wanted for id_ in ids)


def inquire(
    inquiry: Inquiry,
    facts: NodeFacts,
    profile: Profile | None,
    checkpoint: CheckpointFacts | None,
    patient: Patient,
) -> NodeFacts:
    """Return the facts with the answers; what was not answered in time is a Gap. Asks no network."""
    asked = facts.asked
    if inquiry.host.live:
        asked = replace(
            asked,
            cuda=_cuda(inquiry, facts, patient),
            memory_policy=_memory_policy(inquiry, facts),
            workers=_workers(inquiry, facts),
            trust=_trust(inquiry),
        )
    else:
        asked = replace(asked, cuda=recorded_cuda(inquiry.host))
    manager = facts.health.fabric_manager
    if manager is not None and (manager.switches or facts.health.fabrics) and inquiry.wants("fabric.manager"):
        asked = replace(asked, manager=ask_manager(inquiry.host))
    if profile is not None and checkpoint is not None and inquiry.wants("fit.vram"):
        asked = replace(asked, weights=_weights(inquiry, facts, profile, checkpoint, patient.headers_s))
    return replace(facts, asked=asked, gaps=(*facts.gaps, *inquiry.gaps))


def _cuda(inquiry: Inquiry, facts: NodeFacts, patient: Patient) -> CudaFacts | None:
    """Start CUDA where NVML answers: a driver that hangs or does not match is said once."""
    if facts.gpu.nvml != "ok" or not facts.gpu.gpus or not inquiry.wants(*_OF_CUDA):
        return None
    early = inquiry.early_answers(patient.cuda_s)
    if early is not None:
        return cuda_facts(early)
    free = free_gpus(facts) if patient.measures else ()
    try:
        return cuda_facts(ask_cuda(at_most(patient.cuda_s), inquiry.host.environ(), (gpu.bus_id for gpu in free)))
    except OSError as exc:
        inquiry.gaps.append(Gap("asked.cuda", "cuInit", str(exc)))
        return None


def recorded_cuda(host: Host) -> CudaFacts | None:
    """Return what cuda.json of a recorded tree says, in the form of kboot.host.cuda_child; None without one."""
    try:
        answers = parse_json(host.read_text("/cuda.json"))
    except (OSError, ValueError):
        return None
    return cuda_facts(answers) if isinstance(answers, dict) else None


def free_gpus(facts: NodeFacts) -> tuple[Gpu, ...]:
    """Return the GPUs that nobody works on: memory is only taken of these."""
    return tuple(gpu for gpu in facts.gpu.gpus if gpu.bus_id and not gpu.processes)


def ask_manager(host: Host) -> ManagerState:
    """Return what the fabric manager's program and systemd say of it; a machine without one of them says less."""
    version = re.search(r"version is\s*:\s*(\d[\d.]*\d)", _printed(host, FABRIC_MANAGER_VERSION))
    unit = dict(line.partition("=")[::2] for line in _printed(host, FABRIC_MANAGER_UNIT).splitlines())
    return ManagerState(
        version=version.group(1) if version else None,
        active=unit.get("ActiveState") or None,
        restarts=whole_number(unit.get("NRestarts", "")),
    )


def _printed(host: Host, argv: tuple[str, ...]) -> str:
    try:
        return host.program(argv, at_most(_PROGRAM_S)).text
    except (OSError, KbootError):  # not installed, not allowed, or it hangs
        return ""


def _trust(inquiry: Inquiry) -> str | None:
    """Read the certificates that the environment names, if any; "" where that works."""
    if not inquiry.wants("net.ca_file"):
        return None
    env = {name: value for name, value in inquiry.host.environ().items() if name in CA_VARIABLES and value.strip()}
    return inquiry.ask("trust", "certificates", lambda: why_no_trust(env), _SMALL_S) if env else ""


def why_no_trust(env: Mapping[str, str]) -> str:
    """Return why the certificates that an environment names cannot be used; "" where they can."""
    from kboot.sources.tls import tls_context

    try:
        tls_context(env)
    except KbootError as exc:
        return exc.message
    return ""


def _memory_policy(inquiry: Inquiry, facts: NodeFacts) -> str | None:
    """Try to bind the memory of a child; "" where that is allowed and kept."""
    with_memory = {node.number for node in facts.numa if node.memory_total_bytes}
    if len(with_memory) < 2 or not inquiry.wants("numa.mempolicy_allowed"):
        return None
    allowed = sorted(with_memory & allowed_nodes(_status(inquiry.host))) or sorted(with_memory)
    return inquiry.ask("memory_policy", "set_mempolicy", lambda: set_memory_policy(allowed[0]) or "", _SMALL_S)


def allowed_nodes(status: str) -> frozenset[int]:
    """Return the nodes of a process's Mems_allowed_list; none where it does not say."""
    for line in status.splitlines():
        if line.startswith("Mems_allowed_list:"):
            try:
                return frozenset(parse_cpu_list(line.partition(":")[2].strip()))
            except ValueError:
                break
    return frozenset()


def _status(host: Host) -> str:
    try:
        return host.read_text("/proc/self/status")
    except OSError:
        return ""


def _workers(inquiry: Inquiry, facts: NodeFacts) -> tuple[LiveWorker, ...] | None:
    if not inquiry.wants(*_OF_WORKERS):
        return None
    say = None if facts.gpu.nvml == "hung" else _nobody  # a driver that hangs would take the time of all of it
    return inquiry.ask("workers", "/proc", lambda: read_workers(inquiry.host, inquiry.paths, say), _SMALL_S)


def _nobody(_: str) -> None:
    """Tell nobody: another check says that the driver does not answer."""


def read_workers(host: Host, paths: Paths, say: Callable[[str], None] | None = None) -> tuple[LiveWorker, ...]:
    """Return the workers of the engine that kboot started on this node; () where none runs. say: see live_workers.

    Raises:
        KbootError: what kboot wrote down of them may not be read.
    """
    try:
        record = read_handoff(paths)
    except ActionFailed as exc:
        if exc.code != "handoff-missing":
            raise
        return ()
    report, running = read_boot(paths), read_progress(paths)
    scopes: list[Scope] = [Unit(ENGINE_UNIT)]
    if running is not None and is_alive(running, host):
        scopes.insert(0, Tree(running.pid))
    known = report.workers if report is not None else ()
    env = dict(record.env)
    found = live_workers(record.workers, record.worker_titles, env, host, scopes, known, say)
    return tuple(_worker(host, check, env) for check in found)


def _worker(host: Host, check: WorkerCheck, planned: Mapping[str, str]) -> LiveWorker:
    variables = changed_variables(planned, _environ(host, check.pid)) if check.pid else {}
    return LiveWorker(
        check.worker, check.pid, check.planned_threads, check.tasks, check.stray_tasks, variables, check.findings
    )


def changed_variables(planned: Mapping[str, str], environ: Iterable[str]) -> Mapping[str, tuple[str, str]]:
    """Return (planned, found) by name of those that set threads and differ. environ: "NAME=value" each; () = unread."""
    found = dict(entry.partition("=")[::2] for entry in environ)
    if not found:
        return {}
    return {
        name: (planned[name], found.get(name, ""))
        for name in _THREAD_VARIABLES
        if name in planned and planned[name] != found.get(name, "")
    }


def _environ(host: Host, pid: int) -> tuple[str, ...]:
    try:
        return tuple(entry for entry in host.read_text(f"/proc/{pid}/environ").split("\0") if "=" in entry)
    except OSError:  # gone, or another user's
        return ()


def _weights(
    inquiry: Inquiry, facts: NodeFacts, profile: Profile, checkpoint: CheckpointFacts, timeout_s: float
) -> WeightShare | None:
    """Lay the checkpoint out as this node's layout says; None where its headers are not on this disk."""
    layout = layout_for(facts.gpu, profile)
    if layout is None or not layout.gpus_per_node:
        return None
    chosen = gpus_for(facts.gpu, layout)[: layout.gpus_per_node]
    sizes = [(gpu.memory_total_bytes, gpu.memory_used_bytes) for gpu in chosen if not (gpu.mig or gpu.unified)]
    if not sizes or any(None in pair for pair in sizes) or len(sizes) < len(chosen):
        return None
    total, used = min(((t or 0, u or 0) for t, u in sizes), key=lambda pair: pair[0] - pair[1])
    held = max(0, used - DRIVER_RESERVE.size_bytes)  # NVML counts the driver's own as used, and the reserves do too

    def question() -> WeightShare | None:
        try:
            model = listed_model(checkpoint.listing, Store(inquiry.paths), (), keep=False)
        except (FactMissing, SourceError):  # not fetched yet, or of another form: the check then judges the size alone
            return None
        placed = place(model, layout, total, held_bytes=held)
        return WeightShare(
            layout=layout.name,
            division=placed.degrees.words,
            largest_bytes=placed.largest.total_bytes,
            smallest_bytes=placed.smallest_bytes,
            reserve_bytes=placed.reserve_bytes,
            room_bytes=placed.room_bytes,
            serves=placed.fits,
        )

    return inquiry.ask("weights", "headers of the checkpoint", question, timeout_s)
