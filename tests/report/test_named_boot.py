"""Which boot is meant, in every command that names boots?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from cache_samples import PLAIN, later
from report_samples import T0, demo_boot

from kboot.errors import UsageError
from kboot.report.named_boot import choose_boot, name_boots, with_manifests

NEW = replace(demo_boot(at=T0 + 90_000), boot_id="8a11aaaa")
SAME = replace(demo_boot(at=T0 + 60), boot_id="7f3abbbb")
OLD = replace(demo_boot(at=T0), boot_id="7f3abbbb")
BOOTS = name_boots((NEW, SAME, OLD))


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        ("1", 1),
        ("3", 3),
        ("8a11", 1),
        ("7f3a", 2),
        ("2026-12-01", 1),
        ("2026-11-30 06:27", 2),
        ("2026-11-30T06:26", 3),
        ("20261130T0626", 3),
    ],
)
def test_a_boot_is_meant_by_number_time_or_id(asked: str, number: int) -> None:
    """1 is the newest, as in the list; of the runs of one boot id the newest is meant."""
    assert number == choose_boot(BOOTS, asked).number


@pytest.mark.parametrize("asked", ["0", "4", "999", "-1", "7f3", "feed", ""])
def test_what_fits_no_boot_is_a_usage_error_that_lists_them(asked: str) -> None:
    """A beginning of fewer than four characters is none."""
    with pytest.raises(UsageError, match="no boot on record fits") as caught:
        choose_boot(BOOTS, asked)

    assert "no-such-boot" == caught.value.code
    assert "1: 2026-12-01 07:26:40Z demo, boot 8a11aaaa" == caught.value.where[0]


def test_a_time_that_several_have_is_a_usage_error() -> None:
    """The day says too little where there were two boots; those that fit are listed, and no others."""
    with pytest.raises(UsageError, match="2 boots on record fit '2026-11-30'") as caught:
        choose_boot(BOOTS, "2026-11-30")

    assert ("which-boot", 2) == (caught.value.code, len(caught.value.where))


def test_caches_have_the_number_of_their_boot() -> None:
    """A boot without caches keeps its number; caches whose report is gone have none."""
    booted = replace(demo_boot(), boot_id="8a11", profile="kimi", started_unix_s=later().started_unix_s)
    looked_at = replace(demo_boot(at=T0 + 9000), profile="kimi", what="bytes", cache_key="")
    found = with_manifests((looked_at, booted), (later(), PLAIN))

    assert [2, None] == [named.number for named in found]
    assert later() == found[choose_boot(tuple(found), "2")]
    assert PLAIN == found[choose_boot(tuple(found), "7f3a")]
    with pytest.raises(UsageError, match="no boot with kernel caches on record fits '1'"):
        choose_boot(tuple(found), "1", "with kernel caches")


def test_a_node_that_went_live_has_the_caches_it_was_prepared_with() -> None:
    """It is on record twice, as prepared and as serving."""
    prepared = replace(
        demo_boot(), boot_id="8a11", profile="kimi", started_unix_s=later().started_unix_s, cache_key=PLAIN.key
    )
    live = replace(prepared, started_unix_s=T0 + 8000, ready_unix_s=T0 + 8002)
    found = with_manifests((live, prepared), (later(),))

    assert [1, 2] == [named.number for named in found]
    assert {later().boot_id} == {manifest.boot_id for manifest in found.values()}
