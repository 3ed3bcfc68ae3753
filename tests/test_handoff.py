import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.checkpoint import Listing, RemoteFile
from kboot.errors import ActionFailed
from kboot.handoff import (
    FileMark,
    HandoffRecord,
    Observed,
    WorkerPlan,
    differences,
    manifest_digest,
    outdated,
    parse,
    sign,
)
from kboot.host.files import Identity

KEY = b"k" * 32
COMMIT = "3f9c1e7a" * 5
SHARDS = tuple(f"model-{n:05d}-of-00111.safetensors" for n in range(1, 112))
SHARD = Identity(dev=259, inode=4711, size_bytes=14_000_000_000, mtime_ns=1_700, ctime_ns=1_800)
RECORD = HandoffRecord(
    boot_id="boot-1",
    profile="k3",
    profile_digest="p" * 64,
    repo="moonshotai/Kimi-K3",
    commit=COMMIT,
    manifest_digest="m" * 64,
    verify_mode="ledger",
    verified_unix_s=1_764_500_000.25,
    verify_claim="111 files hashed on 2026-11-29, unchanged since",
    model_path="/var/lib/kboot/models/k3",
    files=tuple(FileMark(path, SHARD) for path in SHARDS),
    engine="vllm",
    argv=("/opt/engine/bin/python3", "-m", "vllm.entrypoints.cli.main", "serve", "/var/lib/kboot/models/k3"),
    env=(("HF_HUB_OFFLINE", "1"), ("OMP_NUM_THREADS", "16")),
    unset=("NOTIFY_SOCKET",),
    cpus=tuple(range(128)),
    memory_node=None,
    workers=(WorkerPlan(0, 0, tuple(range(16)), 16, 0), WorkerPlan(1, 1, tuple(range(16, 32)), 16, 1)),
    worker_titles=(r"^VLLM::Worker",),
    cache_key="sm103-x",
    cache_dir="/var/lib/kboot/cache/sm103-x",
    served_name="moonshotai/Kimi-K3",
    health_url="http://127.0.0.1:8000/health",
    models_url="http://127.0.0.1:8000/v1/models",
    completion_url=None,
    ready_timeout_s=7200,
    kboot_version="0.1.0",
    created_unix_s=1_764_500_001.5,
)
NOW = Observed(
    boot_id="boot-1",
    model_commit=COMMIT,
    files=dict.fromkeys(SHARDS, SHARD),
    cache_exists=True,
    program_exists=True,
    profile_digest="p" * 64,
)


class TestSigned:
    def test_what_was_written_is_read(self) -> None:
        """Every field comes back as it was, in its own type."""
        assert RECORD == parse(sign(RECORD, KEY), KEY)

    def test_another_nodes_record_is_refused(self) -> None:
        """A record from an image or another machine is signed with another key."""
        with pytest.raises(ActionFailed, match="its signature is not this node's") as caught:
            parse(sign(RECORD, b"x" * 32), KEY)

        assert "handoff-forged" == caught.value.code

    @pytest.mark.parametrize("name", [f.name for f in fields(HandoffRecord)])
    def test_no_field_can_be_changed(self, name: str) -> None:
        """Whoever can write the file but has no key cannot change what is started."""
        document = json.loads(sign(RECORD, KEY))
        document[name] = [*document[name], "x"] if isinstance(document[name], list) else f"{document[name]}x"

        with pytest.raises(ActionFailed, match="its signature is not this node's"):
            parse(json.dumps(document).encode(), KEY)

    @pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b'"text"', b"\xff\xfe", b'{"signature": 3}'])
    def test_what_is_no_record_is_refused(self, data: bytes) -> None:
        """Whatever lies there, it is one clear error."""
        with pytest.raises(ActionFailed) as caught:
            parse(data, KEY)

        assert "handoff-forged" == caught.value.code

    @given(st.binary(max_size=200))
    def test_no_bytes_break_the_reader(self, data: bytes) -> None:
        """Only an error that names itself comes out."""
        with pytest.raises(ActionFailed):
            parse(data, KEY)

    def test_another_versions_record_is_stale_not_forged(self) -> None:
        """After an upgrade the record is written anew; nobody is accused."""
        import hashlib
        import hmac

        document = {"schema": 2, "kind": "handoff", "boot": "x"}
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        document["signature"] = "hmac-sha256:" + hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()

        with pytest.raises(ActionFailed, match="another version of kboot wrote it") as caught:
            parse(json.dumps(document).encode(), KEY)

        assert "handoff-stale" == caught.value.code


class TestDifferences:
    def test_nothing_changed(self) -> None:
        """The same boot, link, files and cache: the engine may start."""
        assert () == differences(RECORD, NOW)

    @pytest.mark.parametrize(
        ("now", "said"),
        [
            (replace(NOW, boot_id="boot-2"), "the machine was started again since"),
            (replace(NOW, profile_digest="q" * 64), "profile k3 says something else now"),
            (replace(NOW, model_commit=None), "/var/lib/kboot/models/k3 is not there any more"),
            (
                replace(NOW, model_commit="0" * 40),
                "/var/lib/kboot/models/k3 leads to 000000000000, not to 3f9c1e7a3f9c",
            ),
            (replace(NOW, cache_exists=False), "the kernel cache /var/lib/kboot/cache/sm103-x is gone"),
            (replace(NOW, program_exists=False), "the engine's program /opt/engine/bin/python3 is gone"),
        ],
    )
    def test_each_is_named(self, now: Observed, said: str) -> None:
        """One sentence that says what is other than it was."""
        assert (said,) == differences(RECORD, now)

    @pytest.mark.parametrize(
        ("seen", "said"),
        [
            (None, "is missing"),
            (replace(SHARD, size_bytes=7), "(14000000000 bytes then, 7 now) changed since it was verified"),
            (replace(SHARD, inode=1), "(another file) changed since it was verified"),
            (replace(SHARD, mtime_ns=9, ctime_ns=9), "(written) changed since it was verified"),
            (replace(SHARD, ctime_ns=9), "(ctime) changed since it was verified"),
        ],
    )
    def test_a_shard_that_changed_is_named_with_how(self, seen: Identity | None, said: str) -> None:
        """Also a write that puts size and mtime back: ctime tells."""
        now = replace(NOW, files={**NOW.files, SHARDS[2]: seen})

        assert (f"{SHARDS[2]} {said}",) == differences(RECORD, now)

    def test_many_are_counted(self) -> None:
        """Three names and a number, not 111 lines."""
        found = differences(RECORD, replace(NOW, files={}))

        assert 4 == len(found)
        assert "and 108 more are missing" == found[-1]

    def test_a_profile_that_was_not_read_again_is_not_compared(self) -> None:
        """`kboot exec` reads no profile."""
        assert () == differences(RECORD, replace(NOW, profile_digest=None))


class TestOutdated:
    def test_a_second_plan_of_the_same_boot_needs_no_new_record(self) -> None:
        """Time and wording of the proof are no reason; the second boot of a good node has nothing to do."""
        again = replace(RECORD, created_unix_s=2e9, verified_unix_s=2e9, verify_claim="111 files by ledger")

        assert () == outdated(RECORD, again)

    def test_what_changed_is_the_reason(self) -> None:
        """Shown by `kboot plan`."""
        new = replace(RECORD, argv=("/opt/engine/bin/python3", "other"), cache_key="sm103-y")

        assert ("the engine's command line changed", "cache key changed") == outdated(RECORD, new)


def test_the_manifest_is_one_hash_over_all_files() -> None:
    """The order of a listing does not matter; any path, size or hash does."""

    def listing(*files: RemoteFile) -> Listing:
        return Listing("o/m", "main", COMMIT, files, (), "literal")

    one = RemoteFile("a", 1, "b" * 40, None)
    two = RemoteFile("b", 2, "c" * 64, "c" * 64)
    others = (replace(one, path="aa"), replace(one, size_bytes=2), replace(one, blob_id="d" * 40))

    assert manifest_digest(listing(one, two)) == manifest_digest(listing(two, one))
    digests = [manifest_digest(listing(*files)) for files in ((one,), (one, two), *((o, two) for o in others))]
    assert 5 == len(set(digests))
