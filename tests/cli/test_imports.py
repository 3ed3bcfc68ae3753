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

LEFT_ALONE = {
    "status": LIBRARIES | LOGGING | DECIDING | SERVING | WORKING | STORE | {"kboot.sources", "pydantic_core"},
    "live": LIBRARIES | LOGGING | DECIDING | WORKING | STORE | {"kboot.daemon", "kboot.proof", "pydantic_core"},
    "exec": LIBRARIES | LOGGING | DECIDING | SERVING | WORKING | STORE | PROFILES | NETWORK,
    "exec -- true":
        LIBRARIES - {"pynvml"} | LOGGING | SERVING | WORKING | STORE | NETWORK | {"kboot.checks.every"},
    "doctor --check cpu.governor": LIBRARIES - {"pynvml"} | LOGGING | SERVING | WORKING,
    "plan --profile demo --offline": LIBRARIES - {"pynvml"} | LOGGING | SERVING | WORKING | {"kboot.checks.every"},
    "fetch --profile demo --offline": LIBRARIES | DECIDING | SERVING | WORKING,
    "verify --profile demo --mode ledger": LIBRARIES | LOGGING | DECIDING | SERVING | WORKING,
    "boot --profile demo --offline": LIBRARIES - {"pynvml"} | SERVING | WORKING | {"kboot.checks.every"},
}  # fmt: skip
"""By command line. A node that has nothing: what a command would load to do its work it has then not loaded yet, but
whatever its modules load is there."""

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
    """From a Hub on loopback to a snapshot on the disk: what asks is kboot's own connection."""
    told = kboot.folder / "modules"
    with hub(kboot.folder) as endpoint:
        ran = kboot.script(CHILD, str(told), "fetch", "--profile", "demo", env={"HF_ENDPOINT": endpoint})
    loaded = set(told.read_text().split())

    assert 1 == len([*(kboot.folder / "state").rglob("refs/main")]), ran.err
    assert {"kboot.apply.fetch", "kboot.sources.hub_listing"} <= loaded
    assert set() == HUB_CLIENT & loaded


def test_every_module_that_is_left_alone_exists() -> None:
    """A module that was renamed would be left alone by everybody."""
    names = {name for left in LEFT_ALONE.values() for name in left if name.startswith("kboot.")}

    assert set() == {name for name in names if find_spec(name) is None}
