"""What does any command line get from kboot: its share of the CPUs, pins, and one stable home for its kernel caches?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import click

from kboot.cli.options import Asked, Common, Node, open_profile, say_beside
from kboot.engines.common import cache_key, cache_settings, thread_settings
from kboot.engines.types import CacheKey, CpuPlacement, Setting, of_command
from kboot.errors import ActionFailed
from kboot.facts.types import Gap, GpuFacts, NodeFacts
from kboot.profile.types import CheckpointAsk, CpuAsk, LayoutAsk, ParallelAsk, Profile
from kboot.values import dataclass

UNSET = ("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND", "PYTHONDONTWRITEBYTECODE")
"""Pins of OpenMP's own would fight those given here; without bytecode every start of an interpreter is slow."""

_NVML_S, _SAY_AFTER_S = 8.0, 3.0
"""A command line is not kept longer than that by a driver that hangs; shares are then as --workers says."""


@dataclass(frozen=True, slots=True)
class Wrapped:
    """How the command line will be started. cpus: empty = leave. memory_node: None = leave."""

    argv: tuple[str, ...]
    env: tuple[Setting, ...]
    placement: CpuPlacement
    cpus: tuple[int, ...]
    memory_node: int | None
    key: CacheKey
    cache_dir: str
    notes: tuple[str, ...]


def wrap(common: Common, asked: Asked, node: Node, words: Sequence[str], workers: int | None) -> NoReturn:
    """Become the command line, with this node's share, pins and caches.

    workers: GPU workers that the command will start; None = one for each GPU it may see, at least one.

    Raises:
        ActionFailed: there is no such program, or the CPUs or the cache folder cannot be had.
    """
    from kboot.apply.caches import prepare_cache
    from kboot.facts.collect import NvmlAsk, collect
    from kboot.host.myself import become, raise_nofile, set_memory_policy
    from kboot.plan.types import PrepareCache

    program = find_program(words[0], node.env)
    ask = NvmlAsk(_NVML_S, say_beside, _SAY_AFTER_S)
    facts = collect(node.host, node.paths, ask=ask)
    profile = open_profile(asked, node) if asked.name or node.config.profile else None
    count = workers or visible_gpus(facts.gpu, node.env)
    plan = plan_wrap((program, *words[1:]), facts, profile.cpu if profile else CpuAsk(), count, node)
    _say(common, plan)
    outcome = prepare_cache(PrepareCache(plan.key, plan.cache_dir, "asked by kboot exec"))
    if outcome.error is not None:
        raise outcome.error
    _follow(plan)
    raise_nofile()
    if plan.memory_node is not None and (refused := set_memory_policy(plan.memory_node)):
        click.echo(f"kboot: memory is not bound: {refused}", err=True)
    become(plan.argv, {s.name: s.value for s in plan.env}, plan.cpus, UNSET)


def _follow(plan: Wrapped) -> None:
    """Let each of several workers be kept to its own part; one alone has it by inheritance."""
    from kboot.apply.pin_follow import begin_following

    threads = next((s.value for s in plan.env if s.name == "OMP_NUM_THREADS"), "")
    try:
        begin_following(plan.placement, threads)
    except OSError as exc:
        click.echo(f"kboot: workers are not kept to CPUs of their own: {exc.strerror}", err=True)


def plan_wrap(argv: tuple[str, ...], facts: NodeFacts, ask: CpuAsk, workers: int, node: Node) -> Wrapped:
    """Return the start of a command line on this node.

    The command gets the CPUs of its workers and of front ends: one worker is pinned by that, several are kept to their
    parts when they run, and what belongs to other engines of the node is left out.
    """
    from kboot.plan.placement import place

    placement = place(facts, workers, ask)
    key = _key(Path(argv[0]).name, facts, workers)
    cache_dir = str(node.paths.cache / key.name)
    nodes = {w.memory_node for w in placement.workers}
    return Wrapped(
        argv=argv,
        env=(*settings(placement, cache_dir, node.env), *marks(argv)),
        placement=placement,
        cpus=binding(placement, facts.cpu.allowed) if ask.pin else (),
        memory_node=nodes.pop() if ask.pin and len(nodes) == 1 else None,
        key=key,
        cache_dir=cache_dir,
        notes=(*placement.notes, *unread_gpus(facts.gpu, facts.gaps)),
    )


def binding(placement: CpuPlacement, allowed: Sequence[int]) -> tuple[int, ...]:
    """Return the CPUs for the whole command; empty where they are all that this process may use anyway."""
    workers = {cpu for worker in placement.workers for cpu in worker.cpus}
    cpus = workers if len(placement.workers) == 1 else workers | set(placement.housekeeping)
    return () if cpus >= set(allowed) else tuple(sorted(cpus))


def marks(argv: Sequence[str]) -> tuple[Setting, ...]:
    """Return what vLLM, if this starts it, must know of the threads it is given."""
    from kboot.engines.vllm import SHARE_MARK

    return (SHARE_MARK,) if any("vllm" in word for word in argv) else ()


def settings(placement: CpuPlacement, cache_dir: str, env: Mapping[str, str]) -> tuple[Setting, ...]:
    """Return what is set: thread shares always, a cache's place only where the environment names none.

    The Hub's folder stays where it was: it lies below XDG_CACHE_HOME by default, which moves.
    """
    home = env.get("HF_HOME") or f"{env.get('XDG_CACHE_HOME') or env.get('HOME', '') + '/.cache'}/huggingface"
    hub = Setting("HF_HOME", home, "where it was before XDG_CACHE_HOME moved")
    caches = tuple(s for s in (*cache_settings(cache_dir), hub) if not env.get(s.name))
    return tuple(sorted((*thread_settings(placement), *caches), key=lambda s: s.name))


def unread_gpus(gpu: GpuFacts, gaps: Sequence[Gap]) -> tuple[str, ...]:
    """Return what is said where GPUs are there and the driver does not tell of them."""
    if gpu.gpus or not (gpu.pci_bus_ids or gpu.nvml == "hung"):
        return ()
    why = next((gap.reason for gap in gaps if gap.fact.startswith("gpu")), "no answer")
    return (f"the GPUs cannot be asked ({why}), so shares are for as many workers as --workers says, else one",)


def visible_gpus(gpu: GpuFacts, env: Mapping[str, str]) -> int:
    """Return how many GPUs the command may see, at least one worker."""
    from kboot.facts.visible import visible_devices

    value = env.get("CUDA_VISIBLE_DEVICES")
    seen = len(gpu.gpus) if value is None else len(visible_devices(value, gpu.gpus).devices)
    return max(1, seen)


def find_program(name: str, env: Mapping[str, str]) -> str:
    """Return the program's path, looked for as a shell does.

    Raises:
        ActionFailed: code "command-not-found".
    """
    folders = [""] if "/" in name else [f or "." for f in env.get("PATH", "/usr/bin:/bin").split(":")]
    for folder in folders:
        path = Path(folder, name).absolute()
        try:
            if path.is_file() and path.stat().st_mode & 0o111:
                return str(path)
        except OSError:
            continue
    looked = () if "/" in name else (f"looked in {', '.join(folders)}",)
    raise ActionFailed("command-not-found", f"there is no program {name!r} that may be run", where=looked)


def _key(name: str, facts: NodeFacts, workers: int) -> CacheKey:
    """Return the caches' key: another for every program, number of workers, driver and set of packages."""
    layout = LayoutAsk(
        name="exec", gpu="none", gpus_per_node=0, engine="command", parallel=ParallelAsk(data=workers), command=(name,)
    )
    profile = Profile(name="exec", schema=1, checkpoint=CheckpointAsk(repo=f"exec/{name}"), layout=(layout,))
    return of_command(cache_key(facts, profile, layout, re.sub(r"[^A-Za-z0-9._-]", "_", name)))


def _say(common: Common, plan: Wrapped) -> None:
    for note in plan.notes:
        click.echo(f"kboot: {note}", err=True)
    if common.verbose:
        for setting in plan.env:
            click.echo(f"kboot: {setting.name}={setting.value} ({setting.reason})", err=True)
