"""Which of the programs that engines call does PATH have?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kboot.facts.reader import Reader

if TYPE_CHECKING:
    from kboot.host.types import Host

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CALLED = (
    "gcc",  # Triton's launchers, torch extensions
    "ninja",  # FlashInfer's and torch's builds
    "numactl",  # vLLM's --numa-bind, SGLang's binding
    "nvcc",  # DeepGEMM, FlashInfer
)


def collect_programs(host: Host) -> Mapping[str, str]:
    """Return the path of each that is there, by name."""
    folders = path_folders(Reader(host))
    found = {name: next((f"{f}/{name}" for f in folders if host.exists(f"{f}/{name}")), None) for name in CALLED}
    return {name: path for name, path in found.items() if path is not None}


def path_folders(reader: Reader) -> tuple[str, ...]:
    """Return the folders of PATH, or those of a service where it is not set."""
    path = reader.host.environ().get("PATH") or DEFAULT_PATH
    return tuple(folder for folder in path.split(":") if folder.startswith("/"))
