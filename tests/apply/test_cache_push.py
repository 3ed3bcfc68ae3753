"""What a node has compiled and tuned goes to its seed before the machine does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fakes.caches import KEY, content, elf, make_cache
from fakes.objects import ObjectServer
from fakes.records import RECORD
from kboot.apply.cache_import import import_cache
from kboot.apply.cache_push import leaving, push_cache
from kboot.apply.cache_seed import open_seed
from kboot.apply.handoff import write_handoff
from kboot.errors import ActionFailed, KbootError, SourceError
from kboot.host.paths import Paths
from kboot.plan.types import WriteHandoff
from kboot.profile.types import CacheAsk, CheckpointAsk, LayoutAsk, Profile

WINDOW_S = 60.0


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A node that serves with a complete cache."""
    found = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    folder = make_cache(found.cache)
    record = replace(RECORD, cache_key=KEY, cache_dir=str(folder), workers=())
    assert write_handoff(WriteHandoff("test"), record, found).error is None
    (tmp_path / "seeds").mkdir()
    return found


@pytest.fixture
def seed(tmp_path: Path) -> str:
    """A seed of its own for each key."""
    return str(tmp_path / "seeds/{key}.tar.zst")


def test_another_node_fills_its_cache_from_what_was_pushed(paths: Paths, seed: str, tmp_path: Path) -> None:
    """Every file of it, under the key's own name."""
    said = push_cache(seed, paths, 2, {}, WINDOW_S)
    with open(seed.replace("{key}", KEY), "rb") as stream:
        done = import_cache(stream, tmp_path / "other", lambda _found: ())

    assert "its kernel cache is in its seed" in said
    assert content(paths.cache / KEY) == content(Path(done.path))


def test_a_seed_that_lacks_something_is_replaced_and_no_other(paths: Paths, seed: str) -> None:
    """The same files are not written twice; one more kernel, or a damaged archive, is."""
    archive = Path(seed.replace("{key}", KEY))
    push_cache(seed, paths, 2, {}, WINDOW_S)
    first = archive.stat().st_ino
    again = push_cache(seed, paths, 2, {}, WINDOW_S)
    assert ("the seed of its kernel cache is complete", first) == (again.partition(": ")[0], archive.stat().st_ino)

    (paths.cache / KEY / "triton/new").mkdir()
    (paths.cache / KEY / "triton/new/k.cubin").write_bytes(elf())
    push_cache(seed, paths, 2, {}, WINDOW_S)
    assert first != (second := archive.stat().st_ino)

    archive.write_bytes(b"torn")
    push_cache(seed, paths, 2, {}, WINDOW_S)
    assert second != archive.stat().st_ino
    assert archive.stat().st_size > len(b"torn")


def test_an_object_store_is_a_seed_as_well(paths: Paths, tmp_path: Path) -> None:
    """Put there as one object, read back by another node; the same again is not put, and no archive is left here."""
    pytest.importorskip("obstore")
    seed = "s3://caches/kernels/{key}.tar.zst"
    with ObjectServer({}) as server:
        env = {"AWS_ENDPOINT_URL": server.url, "AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "us-east-1"}
        said = [push_cache(seed, paths, 2, env, WINDOW_S) for _ in range(2)]
        with open_seed(seed.replace("{key}", KEY), env) as stream:
            done = import_cache(stream, tmp_path / "other", lambda _found: ())
        puts = [path for method, path, _ in server.requests if method == "PUT"]

    assert ["its kernel cache is in its seed", "the seed of its kernel cache is complete"] == [
        words.partition(": ")[0] for words in said
    ]
    assert [f"caches/kernels/{KEY}.tar.zst"] == puts
    assert content(paths.cache / KEY) == content(Path(done.path))
    assert [] == list(paths.state.glob(".kboot*"))


def test_an_object_store_that_refuses_is_named(paths: Paths) -> None:
    """Nothing is left on the disk then either."""
    pytest.importorskip("obstore")
    with ObjectServer({}) as server:
        server.refuse = 403
        env = {"AWS_ENDPOINT_URL": server.url, "AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "us-east-1"}
        with pytest.raises(SourceError, match="refuses"):
            push_cache("s3://caches/{key}", paths, 2, env, WINDOW_S)

    assert [] == list(paths.state.glob(".kboot*"))


@pytest.mark.parametrize("seed", ["https://seeds.example/{key}.tar.zst", "/seeds/one-for-all.tar.zst"])
def test_what_cannot_or_must_not_be_written_is_said(paths: Paths, seed: str) -> None:
    """A web address, and an archive that other keys' nodes use as well."""
    assert "its kernel cache stays here: the seed is no path or s3:// address of its own for each key" == push_cache(
        seed, paths, 2, {}, WINDOW_S
    )


def test_without_a_seed_there_is_nothing_to_say(paths: Paths) -> None:
    """Most nodes have none."""
    assert "" == push_cache("", paths, 2, {}, WINDOW_S)


def test_a_cache_with_which_no_engine_was_ready_stays(paths: Paths, seed: str, tmp_path: Path) -> None:
    """What is half compiled helps nobody."""
    (paths.cache / KEY / "complete").unlink()
    with pytest.raises(ActionFailed, match="no engine has reached ready"):
        push_cache(seed, paths, 2, {}, WINDOW_S)

    assert [] == list((tmp_path / "seeds").iterdir())


def test_a_window_that_is_too_short_leaves_nothing_behind(paths: Paths, seed: str, tmp_path: Path) -> None:
    """An engine that takes all of the time, and an archive that is not finished in it."""
    assert "its kernel cache stays here: the engine has taken all of the time" == push_cache(seed, paths, 2, {}, 0.5)
    assert [] == list((tmp_path / "seeds").iterdir())


def test_what_goes_wrong_keeps_nobody_from_leaving(paths: Paths, tmp_path: Path) -> None:
    """The folder of the seeds is not there, or the profile is not valid any more: said, and the node ends in order."""

    def profile() -> Profile:
        layout = LayoutAsk(name="l", gpu="none", gpus_per_node=0)
        asked = Profile(name="p", schema=1, checkpoint=CheckpointAsk(repo="o/m"), layout=(layout,))
        return replace(asked, cache=CacheAsk(seed=str(tmp_path / "nowhere/{key}.tar.zst")))

    def broken() -> Profile:
        raise KbootError("profile-not-valid", "profile p is not valid")

    said = [leaving(load, paths, 2, {})(WINDOW_S) for load in (profile, broken)]

    assert "its kernel cache stays here: cannot write the file" in said[0]
    assert "its kernel cache stays here: profile p is not valid" in said[1]
