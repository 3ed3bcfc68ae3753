"""`kboot doctor`: what is wrong with this node?"""

from __future__ import annotations

from pathlib import Path

from cli_run import Kboot


def test_findings_and_status_agree(kboot: Kboot) -> None:
    """0 without findings, 3 with warnings or unknowns, 4 with a failure."""
    ran = kboot("doctor", "--json")
    counts = ran.doc["counts"]

    assert (1, "doctor") == (ran.doc["schema"], ran.doc["kind"])
    assert (4 if counts["fail"] else 3 if counts["warn"] or counts["unknown"] else 0) == ran.status


def test_the_text_has_each_finding_and_ends_with_one_line_for_a_ticket(kboot: Kboot) -> None:
    """The last line sums up; what was skipped is named once."""
    out = kboot("doctor").out

    assert out.splitlines()[-1].startswith("doctor quick on ")
    assert "`-v` says why" in out
    assert "source" in kboot("doctor", "-v").out


def test_one_check_can_be_asked_alone(kboot: Kboot) -> None:
    """--check takes ids and patterns; one that does not exist is a usage error with near ones."""
    assert {"cpu.quota"} == {f["id"] for f in kboot("doctor", "--check", "cpu.quota", "--json").doc["findings"]}
    ran = kboot("doctor", "--check", "cpu.qouta")

    assert 2 == ran.status
    assert "cpu.quota" in ran.err


def test_a_check_can_be_left_out_and_evidence_written(kboot: Kboot, tmp_path: Path) -> None:
    """--skip takes ids and patterns; --bundle writes a file that only its owner can read."""
    out = tmp_path / "node.tar.gz"
    ran = kboot("doctor", "--json", "--skip", "gpu.*", "--bundle", str(out))

    assert not any(f["id"].startswith("gpu.") for f in ran.doc["findings"])
    assert (0o600, b"\x1f\x8b") == (out.stat().st_mode & 0o777, out.read_bytes()[:2])
    assert f"evidence: {out}" in ran.err
