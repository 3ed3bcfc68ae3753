"""Which packages are an engine's own? Asked of its interpreter."""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path

from kboot.host.engine_python import list_package


def install(site: Path, name: str, *requires: str) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"lib{name}.so").write_bytes(b"")
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
    (info / "RECORD").write_text(f"lib{name}.so,,\n")


def listed(site: Path, package: str) -> list[str]:
    """Return the names of the libraries that are listed, in their order."""
    done = list_package(sys.executable, package, str(site / "compiled"), 60, {**os.environ, "PYTHONPATH": str(site)})
    return [Path(name).name for name in os.fsdecode(zlib.decompress(done.stdout)).split("\0")]


def test_extras_that_a_requirement_names_are_followed(tmp_path: Path) -> None:
    """As torch's metadata has NVIDIA's libraries; extras that nobody asked for are another one's."""
    install(tmp_path, "engine", "torchlike==1.0", "audio; extra == 'audio'")
    install(tmp_path, "torchlike", 'kit[cublas, CuDa_RT]==13.0.2; platform_system == "Linux"', "plain")
    install(
        tmp_path,
        "kit",
        'blas==13.*; (sys_platform == "linux") and extra == "cublas"',
        "rt; extra == 'cuda-rt'",
        "fft; extra == 'cufft'",
    )
    for name in ("audio", "plain", "blas", "rt", "fft"):
        install(tmp_path, name)

    assert [f"lib{name}.so" for name in ("engine", "torchlike", "kit", "plain", "blas", "rt")] == listed(
        tmp_path, "engine"
    )


def test_extras_of_a_package_that_is_known_already_are_followed_too(tmp_path: Path) -> None:
    """Asked for later, by another package, in turn by itself, and in a ring."""
    install(tmp_path, "engine", "kit", "other")
    install(tmp_path, "other", "kit[all]")
    install(tmp_path, "kit", "kit[a,b]; extra == 'all'", "one; extra == 'a'", "engine[kit]; extra == 'b'")
    install(tmp_path, "one")

    assert ["libengine.so", "libkit.so", "libother.so", "libone.so"] == listed(tmp_path, "engine")
