"""Which ways of starting the same engine are compared, and what does each begin with?"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpubench.node import Bytecode, drop_page_cache
from gpubench.watch import Command

REPO = "kboot/synthetic-moe"
PROFILE = "bench"


@dataclass(frozen=True, slots=True)
class Setup:
    """One comparison. model: the folder that the stock engine serves. python: the interpreter that has the engine.

    args, engine_env: given to the engine in the same way by every way. inherited: what all are started with.
    drop_whole_node: forget every file's pages before a cold boot, not only the checkpoint's.
    """

    engine: str
    python: Path
    kboot: Path
    model: Path
    work: Path
    gpu: str
    gpus: int
    args: tuple[str, ...]
    engine_env: Mapping[str, str]
    inherited: Mapping[str, str]
    drop_whole_node: bool = False
    port: int = 8123
    endpoint: str = ""

    @property
    def node(self) -> Path:
        """Where this kboot keeps its things."""
        return self.work / "kboot"

    @property
    def url(self) -> str:
        """Where the engine answers."""
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class Way:
    """means: in words, what is started and what it finds. prepare: makes it so, and says what was done."""

    name: str
    means: str
    prepare: Callable[[Setup, Bytecode], str]
    command: Callable[[Setup], Command]


def stock_argv(setup: Setup) -> tuple[str, ...]:
    """Return the command line that people type."""
    program = ("-m", "kboot.demo.engine") if setup.engine == "demo" else (str(setup.python.parent / "vllm"),)
    parallel = ("--data-parallel-size", str(setup.gpus), "--enable-expert-parallel")
    address = ("--host", "127.0.0.1", "--port", str(setup.port))
    return (str(setup.python), *program, "serve", str(setup.model), *parallel, *setup.args, *address)


def _stock(setup: Setup, home: str, **more: str) -> Command:
    folder = setup.work / home
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    env = {k: v for k, v in setup.inherited.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env |= {"HOME": str(folder), "TMPDIR": str(folder / "tmp"), "PATH": _path(setup)}
    env |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return Command(
        stock_argv(setup),
        env | dict(setup.engine_env) | more,
        log=setup.work / f"{home}.log",
        url=setup.url,
        model=str(setup.model),
        engine=setup.engine,
        ranks=setup.gpus,
    )


def _path(setup: Setup) -> str:
    return f"{setup.python.parent}:{setup.inherited.get('PATH', '/usr/bin:/bin')}"


def kboot_env(setup: Setup) -> dict[str, str]:
    """Return the environment of a kboot that keeps everything below the work folder."""
    home = setup.work / "kboot-home"
    home.mkdir(parents=True, exist_ok=True)
    folders = {"STATE": "state", "RUNTIME": "run", "CONFIG": "etc"}
    own = {f"KBOOT_{name}_DIR": str(setup.node / sub) for name, sub in folders.items()}
    return {**setup.inherited, **own, "PATH": _path(setup), "HOME": str(home), "HF_ENDPOINT": setup.endpoint}


def _kboot(setup: Setup) -> Command:
    argv = (str(setup.kboot), "boot", "--profile", PROFILE, "--serve", "--json")
    log = setup.node / "run" / "engine.log"
    return Command(argv, kboot_env(setup), log, setup.url, REPO, engine=setup.engine, own_log=False, ranks=setup.gpus)


def write_profile(setup: Setup) -> None:
    """Write the profile by which kboot starts the same engine with the same arguments."""
    folder = setup.node / "etc" / "profiles"
    folder.mkdir(parents=True, exist_ok=True)
    demo = setup.engine == "demo"
    text = f"""schema = 1

[checkpoint]
repo = "{REPO}"

[cpu]
governor = ""

[serve]
host = "127.0.0.1"
port = {setup.port}
ready_timeout_s = 540
probe = "health"

[[layout]]
name = "{setup.gpus}x-{setup.gpu.lower()}"
gpu = "{"none" if demo else setup.gpu}"
gpus_per_node = {0 if demo else setup.gpus}
engine = "{setup.engine}"
parallel = {{ data = {setup.gpus}, expert = true }}
args = {json.dumps(list(setup.args))}
env = {{ {", ".join(f'{name} = "{value}"' for name, value in sorted(setup.engine_env.items()))} }}
"""
    (folder / f"{PROFILE}.toml").write_text(text)


def _fresh_home(setup: Setup, home: str) -> None:
    shutil.rmtree(setup.work / home, ignore_errors=True)


def _stock_first(setup: Setup, bytecode: Bytecode) -> str:
    _fresh_home(setup, "stock-home")
    return f"{bytecode.remove()} compiled files removed; page cache dropped: {_drop(setup)}"


def _stock_fresh(setup: Setup, bytecode: Bytecode) -> str:
    _fresh_home(setup, "container-home")
    return f"{bytecode.park()} compiled files put aside; page cache dropped: {_drop(setup)}"


def _stock_kept(setup: Setup, bytecode: Bytecode) -> str:
    return f"{bytecode.unpark()} compiled files put back; page cache dropped: {_drop(setup)}"


def _kboot_first(setup: Setup, bytecode: Bytecode) -> str:
    shutil.rmtree(setup.node, ignore_errors=True)
    _fresh_home(setup, "kboot-home")
    write_profile(setup)
    return f"{bytecode.remove()} compiled files removed; page cache dropped: {_drop(setup)}"


def _kboot_again(setup: Setup, bytecode: Bytecode) -> str:
    shutil.rmtree(setup.node / "run", ignore_errors=True)  # what a reboot leaves of a tmpfs
    return f"{bytecode.unpark()} compiled files put back; page cache dropped: {_drop(setup)}"


def _kboot_restart(_: Setup, bytecode: Bytecode) -> str:
    return f"{bytecode.unpark()} compiled files put back; page cache kept"


def _stock_restart(_: Setup, bytecode: Bytecode) -> str:
    return f"{bytecode.unpark()} compiled files put back; page cache kept"


def _drop(setup: Setup) -> str:
    return drop_page_cache((setup.model, setup.node / "state"), whole_node=setup.drop_whole_node)


WAYS: Mapping[str, Way] = {
    way.name: way
    for way in (
        Way(
            "stock-first",
            "stock, first boot on this node: no kernel cache, no bytecode beyond the image's, cold page cache",
            _stock_first,
            lambda setup: _stock(setup, "stock-home"),
        ),
        Way(
            "stock-fresh",
            "stock, second boot in a fresh container: caches in a throw-away HOME, PYTHONDONTWRITEBYTECODE=1, "
            "cold page cache",
            _stock_fresh,
            lambda setup: _stock(setup, "container-home", PYTHONDONTWRITEBYTECODE="1"),
        ),
        Way(
            "stock-kept",
            "stock, second boot with its HOME and bytecode kept by hand, cold page cache",
            _stock_kept,
            lambda setup: _stock(setup, "stock-home"),
        ),
        Way(
            "stock-restart",
            "stock, restarted: HOME, bytecode and page cache kept",
            _stock_restart,
            lambda setup: _stock(setup, "stock-home"),
        ),
        Way(
            "kboot-first",
            "kboot, first boot on this node: nothing on disk, checkpoint fetched from a Hub on loopback and verified",
            _kboot_first,
            _kboot,
        ),
        Way(
            "kboot-again",
            "kboot, second boot as after a reboot: state kept, runtime folder and page cache gone",
            _kboot_again,
            _kboot,
        ),
        Way("kboot-restart", "kboot, restarted: page cache kept", _kboot_restart, _kboot),
    )
}


def dose(setup: Setup, threads: int | None, cpus: str) -> Command:
    """Return a stock start on some CPUs with so many OpenMP threads, ended when all ranks have their weights."""
    command = _stock(setup, "stock-home", **({"OMP_NUM_THREADS": str(threads)} if threads else {}))
    argv = ("taskset", "--cpu-list", cpus, *command.argv)
    argv += () if setup.engine == "demo" else ("--api-server-count", "1")
    return Command(
        argv,
        command.env,
        command.log,
        command.url,
        command.model,
        setup.engine,
        until="load model",
        ranks=setup.gpus,
    )
