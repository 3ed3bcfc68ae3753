"""Which build of a package is installed?"""

from __future__ import annotations

from pathlib import Path

from kboot.facts.engine_build import builds, record_digest
from kboot.facts.reader import Reader
from kboot.host.recorded import RecordedHost

SITE = "/opt/venv/lib/python3.12/site-packages"
LINES = ("flashinfer/gemm.py,sha256=aaa,10", "flashinfer/data/moe.cu,sha256=bbb,20")


def test_other_sources_under_one_version_are_another_build() -> None:
    """B112: the same version installed again with other files gives another key, and so another folder."""
    assert record_digest("\n".join(LINES)) == record_digest("\n".join(reversed(LINES)))
    assert record_digest("\n".join(LINES)) != record_digest("\n".join(LINES).replace("bbb", "ccc"))


def test_what_an_installer_adds_makes_no_other_build() -> None:
    """Scripts with the interpreter's path, bytecode and notes of the installer differ between equal installations."""
    added = (
        "../../../bin/flashinfer,sha256=ddd,300",
        "flashinfer/__pycache__/gemm.cpython-312.pyc,,",
        "flashinfer_python-0.6.12.dist-info/direct_url.json,sha256=eee,50",
        "flashinfer_python-0.6.12.dist-info/RECORD,,",
    )

    assert record_digest("\n".join(LINES)) == record_digest("\n".join((*LINES, *added)))


def test_builders_are_found_by_their_normal_name(tmp_path: Path) -> None:
    """Those that make kernels, others not; a package without a RECORD is left out, without a gap."""
    for name, record in (("flashinfer_python-0.6.12", LINES[0]), ("torch-2.11.0+cu130", ""), ("requests-2.32.0", "x")):
        folder = tmp_path / SITE[1:] / f"{name}.dist-info"
        folder.mkdir(parents=True)
        if record:
            (folder / "RECORD").write_text(record)
    reader = Reader(RecordedHost(tmp_path))

    assert {"flashinfer-python": record_digest(LINES[0])} == builds(reader, SITE)
    assert () == reader.gaps
