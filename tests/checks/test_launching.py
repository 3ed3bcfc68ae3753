"""What is said of the engine's command line and of the cache that it would find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from good_node import CHECKPOINT, CPU_PROFILE, KEY, NODE, PROFILE, node

from kboot.checks import cache_key_match, engine_flags
from kboot.checks.launching import Launching, launching
from kboot.facts.measured_types import ReadSample
from kboot.facts.types import CacheFacts
from kboot.profile.types import Profile, ServeAsk, WarmAsk


def args(*words: str) -> Profile:
    """Return the profile with more on the engine's command line."""
    return replace(PROFILE, layout=(replace(PROFILE.layout[0], args=words),))


def test_the_line_is_the_one_that_boot_would_write() -> None:
    """Model and caches are below the state folder, whatever may be missing on this node."""
    found = launching(NODE, PROFILE, CHECKPOINT)

    assert isinstance(found, Launching)
    assert ("/var/lib/kboot/models/model", f"/var/lib/kboot/cache/{KEY.name}") == (found.model_path, found.folder)
    assert found.model_path in found.launch.argv


def test_no_cache_of_the_engine_is_put_where_it_does_not_last() -> None:
    """B123: TMPDIR and TORCHINDUCTOR_CACHE_DIR of kboot's own environment do not reach the engine's caches."""
    found = launching(NODE, PROFILE, CHECKPOINT)

    assert isinstance(found, Launching)
    env = {setting.name: setting.value for setting in found.launch.env}
    assert f"{found.folder}/inductor" == env["TORCHINDUCTOR_CACHE_DIR"]
    assert [] == [name for name, value in env.items() if value.startswith(("/tmp", "/var/tmp", "/run", "/dev/shm"))]


@pytest.mark.parametrize(
    ("facts", "profile", "checkpoint", "why"),
    [
        (NODE, None, CHECKPOINT, "no profile says which engine"),
        (NODE, PROFILE, None, "no commit is listed on this disk"),
        (node(gpu={"gpus": ()}), PROFILE, CHECKPOINT, "no layout of the profile is for these GPUs: see gpu.count"),
    ],
)
def test_what_is_not_known_yet_is_a_reason(facts: Any, profile: Any, checkpoint: Any, why: str) -> None:
    """Each is another check's finding."""
    assert why == launching(facts, profile, checkpoint)


def test_a_flag_that_this_version_does_not_know_fails() -> None:
    """The engine would end after everything was fetched."""
    finding = engine_flags.run(NODE, args("--no-such-flag"), CHECKPOINT)

    assert "fail" == finding.status
    assert "--no-such-flag" in finding.seen


def test_another_model_path_would_rename_the_caches() -> None:
    """The path's text is part of the key."""
    finding = engine_flags.run(NODE, args("--model", "/data/copy"), CHECKPOINT)

    assert finding.status in ("warn", "fail")
    assert "--model" in finding.seen


def test_a_deadline_shorter_than_reading_is_named() -> None:
    """768 GB at 1 GB/s are 13 minutes; the engine would be given up after ten."""
    slow = node(measured={"disk": ReadSample(10**9, 1.0, 8)})
    impatient = replace(PROFILE, serve=ServeAsk(ready_timeout_s=600))

    assert "warn" == engine_flags.run(slow, impatient, CHECKPOINT).status
    assert "ok" == engine_flags.run(slow, PROFILE, CHECKPOINT).status
    assert "ok" == engine_flags.run(NODE, impatient, CHECKPOINT).status


def test_a_network_file_system_wants_something_that_reads_ahead() -> None:
    """B105: kboot's warming, or the engine's own flag; without either a checkpoint comes page by page."""
    lustre = node(mounts=tuple(replace(m, fs_type="lustre") for m in NODE.mounts))
    cold = replace(PROFILE, warm=WarmAsk(enabled=False))
    ahead = replace(args("--safetensors-load-strategy", "prefetch"), warm=WarmAsk(enabled=False))

    assert "29 MB/s" in engine_flags.run(lustre, cold, CHECKPOINT).seen
    assert "ok" == engine_flags.run(lustre, PROFILE, CHECKPOINT).status
    assert "ok" == engine_flags.run(lustre, ahead, CHECKPOINT).status
    assert "ok" == engine_flags.run(NODE, cold, CHECKPOINT).status


def test_the_factor_that_changed_is_named() -> None:
    """A driver upgrade leaves the caches of the driver before; the nearest of several is compared."""
    old = {**KEY.factors, "driver": "570.86.15"}
    caches = CacheFacts({"old": old, "other": {"driver": "1"}}, frozenset({"old"}))
    finding = cache_key_match.run(node(caches=caches), PROFILE, CHECKPOINT)

    assert ("warn", f"none is for {KEY.name}; nearest is old: driver 570.86.15 → {KEY.factors['driver']}") == (
        finding.status,
        finding.seen,
    )


@pytest.mark.parametrize(
    ("caches", "profile", "status"),
    [
        (CacheFacts({}, frozenset()), PROFILE, "skip"),  # a new node
        (CacheFacts({KEY.name: KEY.factors}, frozenset()), PROFILE, "ok"),  # cache.complete says the rest
        (CacheFacts({"old": {}}, frozenset()), CPU_PROFILE, "skip"),  # nothing is compiled
    ],
)
def test_a_node_that_has_nothing_to_lose_is_no_finding(caches: CacheFacts, profile: Profile, status: str) -> None:
    """Only a cache that would not be used is."""
    assert status == cache_key_match.run(node(caches=caches), profile, CHECKPOINT).status
