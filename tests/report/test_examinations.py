"""Doctor's runs of earlier boots, and what is new since."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_samples import T0, demo_boot

from kboot.checks.types import Finding, Status
from kboot.errors import UsageError
from kboot.host.paths import Paths
from kboot.report.examinations import KEPT, Examination, Since, compare, find_examination, keep_examination
from kboot.report.saved import save_report

HUGE = f'{{"kind": "doctor", "mode": "quick", "started_unix_s": {"9" * 400}, "findings": []}}'
NOW = "99999999-aaaa-bbbb-cccc-000000000000"


def boot(number: int) -> str:
    """Return a boot id."""
    return f"{number:08x}-aaaa-bbbb-cccc-000000000000"


def document(started_unix_s: float, **found: str) -> dict[str, Any]:
    """Return what a run found: check → "status: what was seen"."""
    findings = []
    for name, text in found.items():
        status, _, seen = text.partition(": ")
        findings.append({"id": name.replace("_", ".", 1), "status": status, "seen": seen})
    return {"schema": 1, "kind": "doctor", "mode": "quick", "started_unix_s": started_unix_s, "findings": findings}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A node on which doctor ran at three boots."""
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    for number in (1, 2, 3):
        keep_examination(paths, boot(number), document(1000.0 * number, gpu_count=f"ok: boot {number}"))
    return paths


def test_a_run_is_found_by_its_place_or_its_boot(paths: Paths) -> None:
    """-1 is the last one of another boot than this; a boot id may be cut short."""
    assert boot(3) == find_examination(paths, "-1", NOW).boot_id
    assert boot(2) == find_examination(paths, "-1", boot(3)).boot_id
    assert boot(1) == find_examination(paths, "-2", boot(3)).boot_id
    assert {"gpu.count": ("ok", "boot 2")} == find_examination(paths, "00000002", NOW).found


def test_a_file_that_json_was_printed_to_is_a_run(paths: Paths, tmp_path: Path) -> None:
    """Also of another node."""
    file = tmp_path / "golden.json"
    file.write_text(json.dumps(document(5.0, gpu_count="fail: 7 of 8")))

    assert {"gpu.count": ("fail", "7 of 8")} == find_examination(paths, str(file), NOW).found


@pytest.mark.parametrize("asked", ["0", "1", "0000", "feedbeef", ""])
def test_a_boot_without_a_run_is_a_usage_error(paths: Paths, asked: str) -> None:
    """With the boots of which there is one; a beginning that several have means none."""
    with pytest.raises(UsageError, match="with a run of doctor on record fit") as caught:
        find_examination(paths, asked, NOW)
    assert 3 == len(caught.value.where)
    assert "boot 00000003" in caught.value.where[0]


@pytest.mark.parametrize(
    ("asked", "kept"), [("-4", "3 earlier boots"), ("-0", "3 earlier boots"), ("-1", "no earlier")]
)
def test_a_place_without_a_run_says_what_it_counts(paths: Paths, tmp_path: Path, asked: str, kept: str) -> None:
    """The machine's boots, not kboot's runs; and how many of them have a run."""
    where = paths if asked != "-1" else Paths(tmp_path / "blank", tmp_path / "run", tmp_path / "etc")
    with pytest.raises(UsageError, match=r"counts the machine's own boots back .*\(-1 is the one before\)") as caught:
        find_examination(where, asked, NOW)

    assert f"on record for {kept}" in caught.value.message


def test_a_run_is_found_by_the_number_of_its_boot(paths: Paths) -> None:
    """Doctor numbers boots as the list does: several of one kernel's life share its run, and one has none."""
    save_report(replace(demo_boot(at=T0), boot_id=boot(1)), paths)
    save_report(replace(demo_boot(at=T0 + 10), boot_id=boot(1)), paths)
    save_report(replace(demo_boot(at=T0 + 20), boot_id=boot(9)), paths)

    assert boot(1) == find_examination(paths, "2", NOW).boot_id
    assert boot(1) == find_examination(paths, "3", NOW).boot_id
    with pytest.raises(UsageError, match="no boot with a run of doctor on record fits '1'"):
        find_examination(paths, "1", NOW)


def test_a_torn_or_foreign_file_is_no_run(paths: Paths, tmp_path: Path) -> None:
    """Nor is a document of another kind."""
    for text in ("{", "[]", '{"kind": "boot"}', '{"kind": "doctor", "findings": 3}', "[" * 100_000, HUGE):
        file = tmp_path / "file"
        file.write_text(text)
        with pytest.raises(UsageError):
            find_examination(paths, str(file), NOW)


def test_one_run_is_kept_for_each_boot_and_not_for_ever(paths: Paths) -> None:
    """The last of a boot counts; the oldest boots go."""
    keep_examination(paths, boot(3), document(3500.0, gpu_count="ok: again"))
    assert "again" == find_examination(paths, "00000003", NOW).found["gpu.count"][1]
    for number in range(4, 4 + KEPT):
        keep_examination(paths, boot(number), document(1000.0 * number))

    assert KEPT == len(list((paths.state / "doctor").iterdir()))
    with pytest.raises(UsageError):
        find_examination(paths, "00000001", NOW)


@pytest.mark.parametrize("boot_id", ["", "../../etc/passwd", "x" * 36])
def test_a_boot_that_has_no_id_is_not_kept(tmp_path: Path, boot_id: str) -> None:
    """Its name is part of a path."""
    keep_examination(Paths(tmp_path / "s", tmp_path / "r", tmp_path / "e"), boot_id, document(1.0))

    assert [] == list(tmp_path.iterdir())


def since(then: tuple[Status, str], now: tuple[Status, str]) -> Since:
    """Compare one finding."""
    return compare(Examination("b", "quick", 1.0, {"a.b": then}), {"a.b": Finding(*now)})


@pytest.mark.parametrize(
    ("then", "now", "news"),
    [
        (("ok", "8 GPUs"), ("fail", "7 of 8 GPUs"), {"a.b": ""}),
        (("warn", "a"), ("fail", "b"), {"a.b": "warn: a"}),
        (
            ("fail", "Xid 79 on 0000:44:00.0"),
            ("fail", "Xid 48 on 0000:44:00.0"),
            {"a.b": "fail: Xid 79 on 0000:44:00.0"},
        ),
        (("warn", "1.5 GiB of swap in use"), ("warn", "2 GiB of swap in use"), {}),
        (("warn", "no sign for 3 h"), ("warn", "no sign for 40 min"), {}),
        (("fail", "a"), ("warn", "b"), {"a.b": "fail: a"}),
        (("warn", "a"), ("ok", "b"), {}),
        (("ok", "a"), ("skip", "b"), {}),
    ],
)
def test_news_are_findings_that_came_grew_or_changed(
    then: tuple[Status, str], now: tuple[Status, str], news: dict[str, str]
) -> None:
    """What differs only in what was measured is as before."""
    assert news == since(then, now).news


def test_what_is_gone_and_what_stayed_is_counted() -> None:
    """A check that nobody asks now is not gone."""
    then = Examination("b", "quick", 1.0, {"a.b": ("warn", "x"), "c.d": ("fail", "y"), "e.f": ("fail", "z")})
    found = compare(then, {"a.b": Finding("ok", ""), "c.d": Finding("fail", "y"), "new.one": Finding("warn", "n")})

    assert (("a.b",), 1, {"new.one": ""}) == (found.gone, found.as_before, found.news)
