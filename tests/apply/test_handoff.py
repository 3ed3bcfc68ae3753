import os
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.apply.handoff import mark_files, node_key, observe, read_handoff, require_valid, write_handoff
from kboot.errors import ActionFailed
from kboot.handoff import HandoffRecord, WorkerPlan, differences
from kboot.host.paths import Paths
from kboot.host.real import RealHost
from kboot.plan.types import WriteHandoff

COMMIT = "c" * 40
NAMES = tuple(f"model-{n:05d}-of-00111.safetensors" for n in range(1, 112))
HOST = RealHost()
WRITE = WriteHandoff("first boot")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A node's folders, empty."""
    return Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")


@pytest.fixture
def record(paths: Paths) -> HandoffRecord:
    """A record of 111 files that are really there."""
    snapshot = paths.hub / "models--o--m/snapshots" / COMMIT
    blobs = paths.hub / "models--o--m/blobs"
    for folder in (snapshot, blobs, paths.models, paths.cache / "key"):
        folder.mkdir(parents=True)
    for name in NAMES:
        (blobs / name).write_text(name)
        (snapshot / name).symlink_to(f"../../blobs/{name}")
    model = paths.models / "k3"
    model.symlink_to(snapshot)
    return HandoffRecord(
        boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        profile="k3",
        profile_digest="p" * 64,
        repo="o/m",
        commit=COMMIT,
        manifest_digest="m" * 64,
        verify_mode="full",
        verified_unix_s=1.0,
        verify_claim="111 files hashed now",
        model_path=str(model),
        files=mark_files(model, NAMES),
        engine="demo",
        argv=(sys.executable, "-m", "kboot.demo.engine"),
        env=(("OMP_NUM_THREADS", "1"),),
        unset=(),
        cpus=(0,),
        memory_node=None,
        workers=(WorkerPlan(0, None, (0,), 1, None),),
        worker_titles=(),
        cache_key="key",
        cache_dir=str(paths.cache / "key"),
        served_name="o/m",
        health_url="http://127.0.0.1:1/health",
        models_url=None,
        completion_url=None,
        ready_timeout_s=60,
        kboot_version="0.1.0",
        created_unix_s=2.0,
    )


class TestNodeKey:
    def test_made_once_and_for_its_owner_alone(self, paths: Paths) -> None:
        """32 random bytes, mode 0600, the same on every later call."""
        key = node_key(paths)

        assert (32, 0o600) == (len(key), stat.S_IMODE(paths.node_key.stat().st_mode))
        assert key == node_key(paths)

    def test_many_at_once_agree(self, paths: Paths) -> None:
        """The first boot's processes all sign with one key."""
        keys: list[bytes] = []
        threads = [threading.Thread(target=lambda: keys.append(node_key(paths))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert 8 == len(keys)
        assert {paths.node_key.read_bytes()} == set(keys)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of another user's")
    def test_one_of_another_user_signs_nothing(self, paths: Paths, record: HandoffRecord) -> None:
        """They could have signed a record that starts a program of theirs."""
        assert write_handoff(WRITE, record, paths).error is None
        os.chown(paths.node_key, 65534, 65534)

        with pytest.raises(ActionFailed, match=r"node\.key belongs to user id 65534") as caught:
            read_handoff(paths)

        assert "belongs-to-another-user" == caught.value.code

    def test_one_that_others_may_read_signs_nothing(self, paths: Paths) -> None:
        """Whoever could read it could have forged the record."""
        node_key(paths)
        paths.node_key.chmod(0o644)

        with pytest.raises(ActionFailed, match=r"mode 644, wanted 600") as caught:
            node_key(paths)

        assert "node-key-exposed" == caught.value.code

    def test_one_that_is_cut_is_said(self, paths: Paths) -> None:
        """A key of another length is no key."""
        node_key(paths)
        paths.node_key.write_bytes(b"short")

        with pytest.raises(ActionFailed, match="the node key has 5 bytes, wanted 32"):
            node_key(paths)


class TestRecord:
    def test_written_and_read(self, paths: Paths, record: HandoffRecord) -> None:
        """An outcome says where; the file is for its owner alone, since the environment may hold secrets."""
        outcome = write_handoff(WRITE, record, paths)

        assert ("done", str(paths.handoff)) == (outcome.status, outcome.after)
        assert 0o600 == stat.S_IMODE(paths.handoff.stat().st_mode)
        assert record == read_handoff(paths)

    def test_none_yet(self, paths: Paths) -> None:
        """The hint is the command that makes it; exit status 13."""
        with pytest.raises(ActionFailed) as caught:
            read_handoff(paths)

        assert ("handoff-missing", "run `kboot boot`", 13) == (
            caught.value.code,
            caught.value.hint,
            caught.value.status,
        )

    def test_one_from_another_node(self, paths: Paths, record: HandoffRecord) -> None:
        """An image that carries a record but no key: refused, and reading makes no key."""
        write_handoff(WRITE, record, paths)
        paths.node_key.unlink()

        with pytest.raises(ActionFailed, match="this node has no key of its own") as caught:
            read_handoff(paths)

        assert "handoff-forged" == caught.value.code
        assert not paths.node_key.exists()

    def test_a_folder_that_cannot_be_written_is_an_outcome(self, paths: Paths, record: HandoffRecord) -> None:
        """A failed action is no exception."""
        paths.runtime.write_text("a file where the folder should be")
        outcome = write_handoff(WRITE, record, paths)

        assert "failed" == outcome.status
        assert outcome.error is not None
        assert "path-missing" == outcome.error.code


class TestObserve:
    def test_a_node_just_prepared_has_no_differences(self, record: HandoffRecord) -> None:
        """Everything the record says is found, through the links an engine follows."""
        assert () == differences(record, observe(record, HOST))
        require_valid(record, HOST)

    def test_a_byte_written_in_place_is_noticed(self, record: HandoffRecord) -> None:
        """Also when size and mtime are put back: no tool can put ctime back."""
        shard = Path(record.model_path) / NAMES[41]
        before = shard.stat()
        with open(shard.resolve(), "r+b") as file:
            file.write(b"X")
        os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))

        with pytest.raises(ActionFailed, match=rf"{NAMES[41]} \(ctime\) changed since it was verified"):
            require_valid(record, HOST)

    def test_a_shard_that_is_gone(self, record: HandoffRecord) -> None:
        """A dangling link is a missing shard."""
        (Path(record.model_path) / NAMES[0]).resolve().unlink()

        assert (f"{NAMES[0]} is missing",) == differences(record, observe(record, HOST))

    def test_another_commit_behind_the_path(self, record: HandoffRecord) -> None:
        """The link was moved to another snapshot."""
        model = Path(record.model_path)
        other = model.resolve().with_name("d" * 40)
        model.resolve().rename(other)
        model.unlink()
        model.symlink_to(other)

        assert (f"{model} leads to dddddddddddd, not to cccccccccccc",) == differences(record, observe(record, HOST))

    def test_all_that_is_wrong_is_said_at_once(self, record: HandoffRecord) -> None:
        """The first in the message, the others below it."""
        Path(record.cache_dir).rmdir()
        old = replace(record, boot_id="another boot", argv=("/nonexistent/python",))

        with pytest.raises(ActionFailed) as caught:
            require_valid(old, HOST)

        assert "the hand-off record does not hold any more: the machine was started again since" == caught.value.message
        assert (f"the kernel cache {record.cache_dir} is gone", "the engine's program /nonexistent/python is gone") == (
            caught.value.where
        )

    def test_a_file_that_is_not_there_cannot_be_marked(self, record: HandoffRecord) -> None:
        """A record never names a file that nobody looked at."""
        with pytest.raises(ActionFailed, match="cannot look at the verified file"):
            mark_files(Path(record.model_path), ("absent.safetensors",))


def test_reading_a_record_imports_nothing_heavy() -> None:
    """The way to every engine start does without databases, HTTP, TLS, pydantic, psutil or terminals."""
    code = "import sys, kboot.apply.handoff, kboot.host.myself; print(*sorted(sys.modules))"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split())
    heavy = {"sqlite3", "http.client", "ssl", "asyncio", "pydantic", "psutil", "rich", "structlog", "click", "pynvml"}

    assert set() == loaded & heavy
    assert {"kboot.handoff", "kboot.host.files"} == {m for m in loaded if m in ("kboot.handoff", "kboot.host.files")}
    assert set() == {m for m in loaded if m.startswith(("kboot.plan", "kboot.engines", "kboot.facts", "kboot.store"))}
