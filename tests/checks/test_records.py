"""What is said of the checkpoint's small files, locks, terms, samples, earlier boots and of kboot itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from good_node import BLIND, BOOTS, CHECKPOINT, LISTING, NODE, NOW_S, PROFILE, node

from kboot.checks import (
    agent_self,
    boot_regression,
    cache_complete,
    cache_dirs,
    cache_locking,
    ckpt_aux_files,
    ckpt_bitrot,
    ckpt_hash_rate,
    ckpt_license,
    ckpt_manifest,
    ckpt_stale_locks,
    disk_lazy_snapshot,
    spot_notice,
    time_mtime_skew,
)
from kboot.checks.fixes import PutAside, WriteValue, does, undoes
from kboot.checks.types import Check
from kboot.facts.kept_types import IndexFacts, LockFacts, PastBoot, ReclaimFacts, SelfFacts, SmallFile, TermsFacts
from kboot.facts.measured_types import RotSample
from kboot.facts.types import CacheScan, Gap, TornFile, Unwritable
from kboot.facts.upkeep_types import Services, UnitState
from kboot.profile.types import VerifyAsk

UNREAD = replace(
    BLIND,
    gaps=(
        Gap("kept", "/var/lib/kboot", "no answer in 4 s"),
        Gap("kept.reclaim", "reclaim", "no answer in 4 s"),
        Gap("measured.samples", "/var/lib/kboot", "no answer in 9 s"),
    ),
)


@pytest.mark.parametrize(
    "check",
    [
        *(ckpt_manifest.CHECK, ckpt_aux_files.CHECK, ckpt_license.CHECK, ckpt_stale_locks.CHECK, ckpt_bitrot.CHECK),
        *(ckpt_hash_rate.CHECK, cache_locking.CHECK, time_mtime_skew.CHECK, disk_lazy_snapshot.CHECK),
        *(spot_notice.CHECK, agent_self.CHECK, boot_regression.CHECK),
    ],
    ids=lambda check: check.id,
)
def test_what_could_not_be_looked_at_is_unknown(check: Check) -> None:
    """The child that looks gave no answer in time."""
    assert "unknown" == check.run(UNREAD, PROFILE, CHECKPOINT).status


def test_a_branch_is_no_pin_for_several_nodes() -> None:
    """One node may follow a branch; of two, each may see another commit."""
    several = replace(PROFILE, layout=(replace(PROFILE.layout[0], nodes=2),))
    pinned = replace(CHECKPOINT, listing=replace(LISTING, revision=LISTING.commit))

    assert "ok" == ckpt_manifest.run(NODE, PROFILE, CHECKPOINT).status
    assert "warn" == ckpt_manifest.run(NODE, several, CHECKPOINT).status
    assert "ok" == ckpt_manifest.run(NODE, several, pinned).status


def test_a_shard_of_the_index_that_nobody_listed_fails() -> None:
    """The engine would load without it and say nothing."""
    finding = ckpt_manifest.run(node(kept={"index": IndexFacts("i.json", ("a.safetensors",))}), PROFILE, CHECKPOINT)
    torn = ckpt_manifest.run(node(kept={"index": IndexFacts("i.json", problem="not JSON")}), PROFILE, CHECKPOINT)

    assert ("fail", "i.json names 1 shard that the listing has not: a.safetensors") == (finding.status, finding.seen)
    assert "warn" == torn.status
    assert "ok" == ckpt_manifest.run(node(kept={"index": None}), PROFILE, CHECKPOINT).status


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"small": (SmallFile("tokenizer.json", "wrong", "hash differs"),)}, "fail", "tokenizer.json (hash differs)"),
        ({"dangling": ("config.json",)}, "fail", "config.json is a link to nothing"),
        ({"small": (SmallFile("config.json", "absent"),)}, "warn", "1 of 1 small file not here: config.json"),
        ({"small": (SmallFile("t.model", "not-looked-at", "too much"),)}, "unknown", "t.model (too much)"),
    ],
)
def test_small_files_are_judged_by_their_bytes(changes: dict[str, Any], status: str, says: str) -> None:
    """B046 among them: a folder copied with its links has links to nothing."""
    finding = ckpt_aux_files.run(node(kept=changes), PROFILE, CHECKPOINT)

    assert (status, True) == (finding.status, says in finding.seen)


def test_terms_that_changed_stop_a_boot() -> None:
    """Both reasons are said, with the two commands."""
    terms = TermsFacts(False, "changed", "the text changed since it was accepted")
    finding = ckpt_license.run(node(kept={"terms": terms}), PROFILE, CHECKPOINT)

    assert ("fail", "Model License: the text changed since it was accepted") == (finding.status, finding.seen)
    assert "kboot license accept --profile model" in finding.hint


def test_a_lock_is_put_aside_only_where_its_holder_is_gone() -> None:
    """One that may be in use is named and left alone."""
    dead = LockFacts("/s/hub/.locks/a.lock", "file", "dead", "pid 71 on node7", 60.0)
    late = LockFacts("/s/cache/torch-extensions/x/lock", "baton", "silent", "pid 72", 7200.0)
    busy = replace(late, quiet_s=60.0)

    def run(*locks: LockFacts) -> Any:
        return ckpt_stale_locks.run(node(kept={"locks": locks}), None, None)

    assert ("warn", (PutAside(dead.path, "the lock of pid 71 on node7"),)) == (run(dead).status, run(dead).fixes)
    assert ("warn", ()) == (run(late).status, run(late).fixes)
    assert ("ok", "none of 1 lock in use is stale") == (run(busy).status, run(busy).seen)


def test_a_fix_and_its_undoing_are_commands() -> None:
    """They are shown before anything is done, and say how to bring back what was."""
    fixes = (WriteValue("/proc/sys/kernel/numa_balancing", "0", "1"), PutAside("/s/a.lock", "lock"))

    assert ("echo 0 > /proc/sys/kernel/numa_balancing", "mv /s/a.lock /s/a.lock.kboot-aside") == tuple(map(does, fixes))
    assert ("echo 1 > /proc/sys/kernel/numa_balancing", "mv /s/a.lock.kboot-aside /s/a.lock") == tuple(
        map(undoes, fixes)
    )


def test_a_shard_that_lost_a_bit_fails() -> None:
    """The paths are named; a sample without findings says how much it was."""
    wrong = RotSample(96, 96 << 24, ("model-00007-of-00096.safetensors",))

    assert "fail" == ckpt_bitrot.run(node(measured={"rot": wrong}), PROFILE, CHECKPOINT).status
    assert "96 shards sampled from the disk, 1.61 GB, all as proven" == ckpt_bitrot.run(NODE, PROFILE, CHECKPOINT).seen
    assert "skip" == ckpt_bitrot.run(node(measured={"rot": None}), PROFILE, CHECKPOINT).status


def test_hashing_is_put_against_this_boot() -> None:
    """768 GB at 40.0 GB/s beside what the disks give; it is a finding only where every boot waits for it."""
    seen = "SHA-256 at 40.0 GB/s (32 threads): 768 GB take 19 s, reading them 77 s"
    slow = node(measured={"disk": replace(NODE.measured.disk, seconds=20.0)})  # type: ignore[type-var]
    full = replace(PROFILE, verify=VerifyAsk(mode="full"))

    assert ("ok", seen) == (
        ckpt_hash_rate.run(NODE, PROFILE, CHECKPOINT).status,
        ckpt_hash_rate.run(NODE, PROFILE, CHECKPOINT).seen,
    )
    assert "ok" == ckpt_hash_rate.run(slow, PROFILE, CHECKPOINT).status
    assert "warn" == ckpt_hash_rate.run(slow, full, CHECKPOINT).status


def test_the_trial_of_the_cache_folder_is_told_by_what_failed() -> None:
    """B111: times that are another machine's are one question, locks and mappings the other."""
    tried = ("flock: two processes would get the same lock", "mtime: a file written now is 67 s ahead")
    facts = node(measured={"folder": tried})

    assert tried[1] == time_mtime_skew.run(facts, PROFILE, None).seen
    assert tried[0] == cache_locking.run(facts, PROFILE, None).seen
    assert "skip" == cache_locking.run(node(measured={"folder": None}), PROFILE, None).status


def test_what_a_power_cut_left_torn_is_named() -> None:
    """B114: an empty JSON of Triton's crashes requests of one shape; boot puts its entry aside."""
    scan = CacheScan(3, 36, 3, torn=(TornFile("triton/AAAA/__grp__k.json", 0, "empty"),))
    finding = cache_complete.run(node(caches={"scan": scan}), PROFILE, None)

    assert "warn" == finding.status
    assert "triton/AAAA/__grp__k.json: 0 bytes, empty" in finding.seen


def test_a_cache_of_another_user_is_named_with_its_owner() -> None:
    """B122: made by root, run by somebody else."""
    scan = CacheScan(1, 1, 0, unwritable=Unwritable("triton/cache", 0, "0755", 1))
    finding = cache_dirs.run(node(caches={"scan": scan}), PROFILE, None)

    assert ("fail", "triton/cache (uid 0, mode 0755) cannot be changed by the engine's user") == (
        finding.status,
        finding.seen,
    )


@pytest.mark.parametrize(
    ("reclaim", "status"),
    [
        (ReclaimFacts(("aws",), "terminate at 12:00"), "fail"),
        (ReclaimFacts(("aws",), silent={"aws": "timed out"}), "unknown"),
        (ReclaimFacts(("aws", "file:/x"), "soon", {"aws": "timed out"}), "fail"),
        (None, "skip"),
    ],
)
def test_a_notice_of_the_machines_end_is_what_matters_most(reclaim: ReclaimFacts | None, status: str) -> None:
    """One notice outweighs those who do not answer; nobody to ask is no finding."""
    assert status == spot_notice.run(node(kept={"reclaim": reclaim}), None, None).status


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"upkeep": {"services": Services((), (UnitState("kboot.service", "active", "success", 4),))}},
            "kboot.service is active, its last end was 'success', 4 restarts",
        ),
        (
            {"kept": {"itself": SelfFacts("1.0.0", died_at_s=NOW_S - 3600)}},
            "a boot that began 60 min ago ended without a word",
        ),
        (
            {"kept": {"itself": SelfFacts("1.1.0", "1.0.0")}},
            "this is kboot 1.1.0, the node was prepared by 1.0.0",
        ),
    ],
)
def test_kboot_tells_of_its_own_troubles(changes: dict[str, Any], says: str) -> None:
    """Restarts, a boot that was killed, an upgrade that is not in use yet."""
    finding = agent_self.run(node(**changes), PROFILE, None)

    assert ("warn", says) == (finding.status, finding.seen)


def boots(last: dict[str, float], **changed: str) -> tuple[PastBoot, ...]:
    """Return earlier boots and a last one with other times."""
    return (replace(BOOTS[0], seconds=last, changed={**BOOTS[0].changed, **changed}), *BOOTS[1:])


def test_a_phase_that_took_longer_than_usual_is_named_with_what_changed() -> None:
    """Against the 95th percentile of the node's own boots, and what is different since the boot before."""
    slow = boots({"kboot: fetch": 0.5, "engine: load model": 900.0}, **{"cache key": "h200-590"})
    finding = boot_regression.run(node(kept={"boots": slow}), PROFILE, None)

    assert "warn" == finding.status
    assert "engine: load model took 15 min, usually at most 2 min; since the boot before, cache key changed" == (
        finding.seen
    )


def test_a_boot_that_was_late_as_a_whole_is_named_though_no_phase_was() -> None:
    """What lies between the phases counts as well."""
    late = (replace(BOOTS[0], ready_s=900.0), *BOOTS[1:])
    finding = boot_regression.run(node(kept={"boots": late}), PROFILE, None)

    assert ("warn", "all until the engine answered took 15 min, usually at most 5 min") == (
        finding.status,
        finding.seen,
    )
    assert "the node was 10 min later than usual" == finding.why


@pytest.mark.parametrize(
    "past",
    [
        BOOTS,
        BOOTS[:3],  # too few to say
        boots({"kboot: fetch": 3.0}),  # six times as long, and two seconds
        boots({"engine: load model": 150.0}),  # inside a quarter
        boots({"engine: a new phase": 900.0}),
    ],
)
def test_a_boot_like_the_others_is_no_finding(past: tuple[PastBoot, ...]) -> None:
    """Neither are phases that are short, new, or a little longer."""
    assert "ok" == boot_regression.run(node(kept={"boots": past}), PROFILE, None).status


def test_boots_of_another_profile_say_nothing() -> None:
    """Nor do boots that failed."""
    failed = tuple(replace(b, status="failed") for b in BOOTS)
    other = tuple(replace(b, profile="other") for b in BOOTS)

    assert {"skip"} == {boot_regression.run(node(kept={"boots": b}), PROFILE, None).status for b in (failed, other)}
