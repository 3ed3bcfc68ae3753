"""How do doctor's findings read?"""

from __future__ import annotations

from collections.abc import Callable

from kboot.checks.every import CHECKS
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.report.render_text import laid_out_for
from kboot.report.text_doctor import checks_text, doctor_text

Golden = Callable[[str, str], None]


def check(name: str) -> Check:
    """Return a check of this id."""
    return Check(name, "Is it right?", f"/sys/{name}", EVERYWHERE, lambda _facts, _profile, _files: Finding("ok", ""))


FINDINGS = [
    (check("cpu.quota"), Finding("ok", "112 of 112 CPUs allowed")),
    (
        check("cpu.governor"),
        Finding(
            "warn",
            "8 of 112 CPUs use powersave, profile kimi-k3.1-pro asks for performance",
            wanted="performance",
            why="CPU-bound steps of loading are slower",
            hint="run `kboot boot --only tune`",
        ),
    ),
    (check("gpu.mig_mode"), Finding("skip", "no GPU is in MIG mode")),
    (
        check("gpu.count"),
        Finding("fail", "NVML lists 7 GPUs, the PCI bus 8", wanted="8", hint="`dmesg | grep -i xid`", source="NVML"),
    ),
    (check("gpu.nvml_responsive"), Finding("unknown", "no answer in 10 s")),
]


def test_findings_come_worst_first_with_what_helps(golden: Golden) -> None:
    """A failure is read first; a good finding needs no advice; skipped checks are named once."""
    golden("doctor.txt", doctor_text(FINDINGS, "doctor quick on node7: 1 fail (gpu.count), 1 warn (cpu.governor)"))


def test_verbose_findings_have_their_source_and_why_they_were_skipped() -> None:
    """-v shows where each answer was read, the finding's own source before the check's."""
    text = doctor_text(FINDINGS, "summary", verbose=True)

    assert "source  NVML" in text
    assert "source  /sys/cpu.quota" in text
    assert "no GPU is in MIG mode" in text


def test_what_it_said_at_an_earlier_boot_stands_beside_it() -> None:
    """Only where it said something then."""
    text = doctor_text(FINDINGS, "1 new", before={"gpu.count": "warn: 1 GPU is slow"})

    assert "before  warn: 1 GPU is slow" in text
    assert 1 == text.count("before")


def test_an_id_does_not_touch_what_it_asks() -> None:
    """Two blanks are between the longest id and the next column, in the list and in findings."""
    longest = max(CHECKS, key=lambda each: len(each.id))

    assert checks_text([longest]).startswith(f"{longest.id}  {longest.asks[:20]}")
    assert f"{longest.id}  all of it" in doctor_text([(longest, Finding("ok", "all of it"))], "")


def test_on_a_narrow_terminal_sentences_do_not_stand_beside_the_ids() -> None:
    """Half of 60 columns would be blanks."""
    with laid_out_for(60):
        lines = doctor_text(FINDINGS, "summary").splitlines()

    assert "fail     gpu.count: NVML lists 7 GPUs, the PCI bus 8" == lines[0]
    assert [
        "warn     cpu.governor: 8 of 112 CPUs use powersave, profile",
        "         kimi-k3.1-pro asks for performance",
    ] == [line for line in lines if "powersave" in line or "asks for" in line]
