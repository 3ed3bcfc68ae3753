"""Which modules does a command leave alone, so that it does not make a node wait for them?"""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from cli.cli_run import Kboot, hub

LIBRARIES = frozenset({"huggingface_hub", "multiprocessing", "psutil", "pydantic", "pynvml", "rich", "zstandard"})
"""What only the commands load that work with it, when they do."""

LOGGING = frozenset({"asyncio", "structlog"})
"""What the first line of a log loads."""

HUB_CLIENT = frozenset({"anyio", "h11", "httpcore", "httpcore2", "httpx", "httpx2", "huggingface_hub", "yaml"})
"""What asking a Hub through its own client loads, by the client's version."""

DECIDING = frozenset(
    {"kboot.checks.every", "kboot.engines", "kboot.facts.collect", "kboot.facts.types", "kboot.plan.make"}
)
SERVING = frozenset({"kboot.daemon", "kboot.proof", "kboot.serving", "kboot.apply.reclaim"})
WORKING = frozenset({"kboot.apply.fetch", "kboot.apply.cache_seed", "kboot.apply.verify", "kboot.apply.warm_engine"})
NETWORK = frozenset({"http.client", "kboot.sources", "ssl"})
PROFILES = frozenset({"kboot.profile.types", "pydantic_core"})
STORE = frozenset({"kboot.store.ledger", "sqlite3"})
PLANS = frozenset({"kboot.events", "kboot.plan.types"})
RARE = frozenset({"annotated_types", "statistics"})
"""Too dear for what is wanted of them, or for how rarely."""

DOCTOR = frozenset(
    {"kboot.answers"} | {f"kboot.facts.{name}_types" for name in ("asked", "kept", "measured", "upkeep")}
)
"""What only doctor's findings are made of."""

FIT = frozenset({"kboot.plan.fit", "kboot.plan.fit_node", "kboot.plan.memory", "kboot.plan.layout"})
ENGINE = frozenset({"kboot.apply.serve", "kboot.engines.logs", "kboot.report.usual"})
IN_PART = frozenset({"kboot.apply.share_need", "kboot.apply.warm_local"})
IMAGE = frozenset({"kboot.store.baked"})
POOLS = frozenset({"concurrent.futures", "logging"})

LEFT_ALONE = {
    "status":
        LIBRARIES | LOGGING | DECIDING | SERVING | WORKING | STORE | PROFILES | PLANS | RARE | {"kboot.sources"},
    "live": LIBRARIES | LOGGING | DECIDING | WORKING | STORE | RARE | {"kboot.daemon", "kboot.proof", "pydantic_core"},
    "exec": LIBRARIES | LOGGING | DECIDING | SERVING | WORKING | STORE | PROFILES | NETWORK | PLANS | RARE,
    "exec -- true":
        LIBRARIES - {"pynvml"} | LOGGING | SERVING | WORKING | STORE | NETWORK | DOCTOR | RARE
        | {"kboot.checks.every"},
    "doctor --check cpu.governor": LIBRARIES - {"pynvml"} | LOGGING | SERVING | WORKING,
    "plan --profile demo --offline":
        LIBRARIES - {"pynvml"} | LOGGING | SERVING | WORKING | DOCTOR | IMAGE | IN_PART | RARE | {"kboot.checks.every"},
    "fetch --profile demo --offline":
        LIBRARIES | DECIDING | SERVING | WORKING | FIT | IMAGE | RARE | {"kboot.report.timeline"},
    "verify --profile demo --mode ledger":
        LIBRARIES | LOGGING | DECIDING | SERVING | WORKING | FIT | IMAGE | POOLS | RARE | {"kboot.report.timeline"},
    "boot --profile demo --offline":
        LIBRARIES - {"pynvml"} | SERVING | WORKING | DOCTOR | IMAGE | IN_PART | RARE | {"kboot.checks.every"},
}  # fmt: skip
"""By command line. A node that has nothing: what a command would load to do its work it has then not loaded yet, but
whatever its modules load is there."""

LEFT_ALONE_WHEN_WHOLE = {
    "fetch --profile demo": LEFT_ALONE["fetch --profile demo --offline"] - {"kboot.report.timeline"},
    "verify --profile demo --mode ledger": LEFT_ALONE["verify --profile demo --mode ledger"],
    "plan --profile demo": LEFT_ALONE["plan --profile demo --offline"] | ENGINE,
    "boot --profile demo": LEFT_ALONE["boot --profile demo --offline"] | ENGINE,
    "status": LEFT_ALONE["status"],
    "exec": LEFT_ALONE["exec"],
}
"""The same on a node that has booted and has everything."""

CHILD = """
import atexit, os, sys
into, *words = sys.argv[1:]
def tell(*_):
    with open(into, "w") as file:
        print(*sorted(sys.modules), sep="\\n", file=file)
    os._exit(0)
atexit.register(tell)
os.execve = tell  # in place of becoming the engine
sys.argv = ["kboot", *words]
from kboot.__main__ import main
main()
"""


@pytest.mark.parametrize("line", sorted(LEFT_ALONE))
def test_a_command_loads_only_what_it_needs(kboot: Kboot, line: str) -> None:
    """Of what others need, no module is loaded: not by itself and not by what it loads."""
    told = kboot.folder / "modules"
    kboot.script(CHILD, str(told), *line.split())
    loaded = set(told.read_text().split())

    assert f"kboot.cli.{line.split()[0]}" in loaded
    assert set() == LEFT_ALONE[line] & loaded


def test_a_fetch_that_lists_and_brings_bytes_loads_no_other_http_library(kboot: Kboot) -> None:
    """From a Hub on loopback to a snapshot on the disk, told to a program: what asks is kboot's own connection."""
    told = kboot.folder / "modules"
    with hub(kboot.folder) as endpoint:
        ran = kboot.script(CHILD, str(told), "fetch", "--profile", "demo", "--json", env={"HF_ENDPOINT": endpoint})
    loaded = set(told.read_text().split())

    assert 1 == len([*(kboot.folder / "state").rglob("refs/main")]), ran.err
    assert {"kboot.apply.fetch", "kboot.sources.hub_listing"} <= loaded
    assert set() == (HUB_CLIENT | DECIDING | SERVING | FIT | IMAGE | RARE | {"kboot.report.timeline"}) & loaded


def test_a_node_that_has_everything_waits_for_no_more_than_it_needs(kboot: Kboot) -> None:
    """What a boot, or a run about its bytes, would load to change something, it loads only then."""
    told = kboot.folder / "modules"
    loaded, said = {}, {}
    with hub(kboot.folder) as endpoint:
        kboot("boot", "--profile", "demo", env={"HF_ENDPOINT": endpoint})
        for line in LEFT_ALONE_WHEN_WHOLE:
            said[line] = kboot.script(CHILD, str(told), *line.split(), env={"HF_ENDPOINT": endpoint}).err
            loaded[line] = set(told.read_text().split())

    assert "kboot.apply.cache_record" in loaded["boot --profile demo"]  # it has come to its end
    assert "becoming demo" in said["exec"]
    assert {line: set() for line in loaded} == {line: LEFT_ALONE_WHEN_WHOLE[line] & loaded[line] for line in loaded}


def test_every_module_that_is_left_alone_exists() -> None:
    """A module that was renamed would be left alone by everybody."""
    every = (*LEFT_ALONE.values(), *LEFT_ALONE_WHEN_WHOLE.values())
    names = {name for left in every for name in left if name.startswith("kboot.")}

    assert set() == {name for name in names if find_spec(name) is None}
