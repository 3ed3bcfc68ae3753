"""Which build of a package is installed? Two of one version can hold other sources, and so make other kernels."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kboot.facts.reader import Reader

BUILDERS = (
    "apache-tvm-ffi", "deep-gemm", "flashinfer-python", "sgl-kernel", "sglang", "tilelang", "tokenspeed", "torch",
    "triton", "vllm",
)  # fmt: skip
"""Packages whose sources or compilers make the kernels that are kept."""

_RECORD_BYTES = 32 << 20
_DIST_INFO = re.compile(r"(.+?)-[^-]+\.dist-info")


def builds(reader: Reader, site: str) -> Mapping[str, str]:
    """Return a digest of what each builder installed, by normal name; a package without a RECORD is left out.

    Source: RECORD of its dist-info folder, which lists every file with its hash. Scripts, whose first line is the
    interpreter's path, and what installers add differ between equal installations and do not count.
    """
    found = {}
    for folder in reader.names(site):
        match = _DIST_INFO.fullmatch(folder)
        name = re.sub(r"[-_.]+", "-", match[1]).lower() if match else ""
        if name in BUILDERS and (record := reader.optional(f"{site}/{folder}/RECORD", _RECORD_BYTES)):
            found[name] = record_digest(record)
    return dict(sorted(found.items()))


def record_digest(record: str) -> str:
    """Return a digest of the files a RECORD lists with their hashes, whatever their order."""
    lines = sorted(line for line in record.splitlines() if ",sha256=" in line and _is_content(line))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _is_content(line: str) -> bool:
    path = line.rpartition(",sha256=")[0].strip('"')
    return not path.startswith("../") and ".dist-info/" not in path and not path.endswith(".pyc")
