"""`kboot doctor`: what is wrong with this node?"""

from __future__ import annotations

import os
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


def test_what_a_mode_asks_is_listed_and_nothing_is_asked(kboot: Kboot) -> None:
    """--list shows id and question of each check in the order of the findings; --check and --skip choose."""
    listed = kboot("doctor", "--list", "--json").doc
    lines = kboot("doctor", "--mode", "deep", "--list", "--check", "gpu.*", "--skip", "gpu.[a-c]*").out.splitlines()

    assert [f["id"] for f in kboot("doctor", "--json").doc["findings"]] == [c["id"] for c in listed["checks"]]
    assert ("doctor-checks", "quick") == (listed["kind"], listed["mode"])
    assert any(line.startswith("gpu.dcgm ") and line.endswith("?") for line in lines)
    assert not any(line.startswith("gpu.cuda_init") for line in lines)
    assert "source" in kboot("doctor", "--list", "-v", "--check", "net.ib").out


def test_a_check_can_be_left_out_and_evidence_written(kboot: Kboot, tmp_path: Path) -> None:
    """--skip takes ids and patterns; --bundle writes a file that only its owner can read."""
    out = tmp_path / "node.tar.gz"
    ran = kboot("doctor", "--json", "--skip", "gpu.*", "--bundle", str(out))

    assert not any(f["id"].startswith("gpu.") for f in ran.doc["findings"])
    assert (0o600, b"\x1f\x8b") == (out.stat().st_mode & 0o777, out.read_bytes()[:2])
    assert f"evidence: {out}" in ran.err


def test_a_run_is_kept_for_the_boot_where_there_is_a_state_folder(kboot: Kboot) -> None:
    """--since this boot shows what is new, and ends by that; a boot without a run is a usage error."""
    first = kboot("doctor", "--json").doc
    (kept,) = (kboot.folder / "state/doctor").iterdir()
    again = kboot("doctor", "--json", "--since", str(kept))
    bad = sum(first["counts"][status] for status in ("fail", "warn", "unknown"))

    assert "quick" == again.doc["since"]["mode"]
    assert bad >= again.doc["since"]["as_before"] + len(again.doc["since"]["gone"])
    assert first["since"] is None
    ran = kboot("doctor", "--since", "-1")
    assert 2 == ran.status
    assert "-1 counts the machine's own boots back from this one" in " ".join(ran.err.split())
    assert "a run of doctor is on record for no earlier boot" in " ".join(ran.err.split())


def test_fixing_asks_first_and_changes_nothing_without_an_answer(kboot: Kboot) -> None:
    """A stale marker of the Hub's client is shown with its undoing, left where nobody answers, put aside with --yes."""
    lock = kboot.folder / "state/hub/.locks/models--org--m/a.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(f"4194305\n{os.uname().nodename}\n")
    asked = kboot("doctor", "--check", "ckpt.stale_locks", "--fix")

    assert (2, True) == (asked.status, lock.exists())
    assert f"mv {lock} {lock}.kboot-aside" in asked.err
    assert f"undo: mv {lock}.kboot-aside {lock}" in asked.err
    done = kboot("doctor", "--check", "ckpt.stale_locks", "--fix", "--yes", "--json")
    assert (0, False) == (done.status, lock.exists())
    assert ["done"] == [f["status"] for f in done.doc["fixed"]]
    lock.write_text(f"4194306\n{os.uname().nodename}\n")
    again = kboot("doctor", "--check", "ckpt.stale_locks", "--fix", "--yes")
    assert f"mv {lock} {lock}.kboot-aside.2" in again.err
    assert ["a.lock.kboot-aside", "a.lock.kboot-aside.2"] == sorted(path.name for path in lock.parent.iterdir())
    nothing = kboot("doctor", "--check", "ckpt.stale_locks", "--fix", "--yes")
    assert "nothing that doctor may change by itself" in nothing.out


def test_an_answer_without_a_question_is_a_usage_error(kboot: Kboot) -> None:
    """--yes belongs to --fix."""
    assert 2 == kboot("doctor", "--yes").status


def test_a_recorded_machine_is_not_changed(kboot: Kboot, tmp_path: Path) -> None:
    """--fix works on this machine only."""
    ran = kboot("doctor", "--fix", "--root", str(tmp_path))

    assert (2, True) == (ran.status, "this machine only" in ran.err)
