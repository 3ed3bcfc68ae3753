"""An image is prepared: bytes proven in one pass, caches, units and a manifest that names no machine."""

from __future__ import annotations

import grp
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from booting import AskedHost, Node, profile
from cli.cli_run import hub
from fakes.caches import FACTORS, KEY, make_cache
from kboot.apply.cache_export import export_cache
from kboot.bake import BakeAsk, BakeReport, bake
from kboot.errors import DoesNotFit, ExitStatus, SourceError, UsageError
from kboot.events import FileDone, FileProgress
from kboot.host.image import ImageTree
from kboot.plan.bake import TargetAsk
from kboot.profile.types import CacheAsk, LayoutAsk, LicenseAsk, Profile
from kboot.store.baked import read_baked

NOBODY = "http://127.0.0.1:9"  # discard: nobody listens
UNIT = "[Unit]\nDescription=x\n[Install]\nWantedBy=multi-user.target\n"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo Hub with six shards."""
    with hub(tmp_path_factory.mktemp("hub")) as url:
        yield url


@pytest.fixture
def node(tmp_path: Path, endpoint: str) -> Node:
    """A builder that has nothing yet."""
    (tmp_path / "image").mkdir()
    return Node(tmp_path, endpoint)


def baked(node: Node, asked: Profile | None = None, **ask: object) -> BakeReport:
    """Bake on the builder; units are looked for below its folder `image`."""
    ask_ = BakeAsk(**ask)  # type: ignore[arg-type]
    tree = ImageTree(node.folder / "image")
    return bake(asked or profile(), node.host, node.paths, ask_, tree, node.seen.append, node.stop)


def test_a_bake_leaves_proven_bytes_and_a_manifest(node: Node) -> None:
    """Every file is fetched, hashed while it lands, published, and stands in the manifest with its hash."""
    report = baked(node)
    manifest = read_baked(node.paths.state)

    assert ExitStatus.DONE == report.exit_status
    assert manifest == report.baked
    assert manifest is not None
    assert 12 == len(manifest.files)
    assert all(f.sha256 or len(f.blob_id) == 40 for f in manifest.files)
    assert ("kboot/demo-moe", 40) == (manifest.repo, len(manifest.commit))
    assert "two" == manifest.targets[0].layout
    assert (node.paths.models / "demo/config.json").is_file()


def test_the_weights_are_read_once(node: Node) -> None:
    """Nothing is verified after it was fetched: what was hashed while it landed is not read again."""
    report = baked(node)

    assert {"fetch"} == {e.phase for e in node.seen if isinstance(e, FileDone | FileProgress)}
    assert "verify" not in {o.phase for o in report.outcomes}


def test_the_same_inputs_give_the_same_digest(node: Node, tmp_path: Path, endpoint: str) -> None:
    """Two builders with nothing in common make the same image; when it was made is no part of it."""
    (tmp_path / "two/image").mkdir(parents=True)
    one, two = baked(node).baked, baked(Node(tmp_path / "two", endpoint)).baked

    assert one is not None
    assert two is not None
    assert one.digest == two.digest
    assert one.built_unix_s != two.built_unix_s


def test_who_bakes_and_how_is_no_part_of_the_digest(node: Node, tmp_path: Path, endpoint: str) -> None:
    """Another umask, locale, time zone, home and user: the same inputs are the same image."""
    (tmp_path / "two/image").mkdir(parents=True)
    other = Node(tmp_path / "two", endpoint)
    env = {"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Tokyo", "HOME": "/nonexistent", "USER": "b", "PYTHONHASHSEED": "7"}
    host = AskedHost({**other.host.environ(), **env})
    before = os.umask(0o077)
    try:
        two = bake(
            profile(), host, other.paths, BakeAsk(), ImageTree(other.folder / "image"), other.seen.append, other.stop
        )
    finally:
        os.umask(before)
    one = baked(node).baked

    assert one is not None
    assert two.baked is not None
    assert one.digest == two.baked.digest


def test_the_manifest_names_no_machine(node: Node) -> None:
    """Neither the builder's boot nor its folders stand in it."""
    baked(node)
    text = (node.paths.state / "bake.json").read_text()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    assert [] == [word for word in (boot_id, str(node.folder)) if word in text]


def test_a_second_bake_does_nothing(node: Node) -> None:
    """What is there stays, and the digest is the same."""
    first = baked(node)
    second = baked(node)

    assert () == second.outcomes
    assert first.baked is not None
    assert second.baked is not None
    assert first.baked.digest == second.baked.digest


def test_without_weights_everything_else_is_there(node: Node) -> None:
    """The commit is pinned, its listing and small files are in the image, and what is left out is told."""
    report = baked(node, weights=False)

    assert report.baked is not None
    assert not [f for f in report.baked.files if f.path.endswith(".safetensors")]
    assert "config.json" in {f.path for f in report.baked.files}
    assert not (node.paths.models / "demo").exists()
    assert (node.paths.hub / "models--kboot--demo-moe/trees" / f"{report.baked.commit}.json").is_file()


def test_no_gpu_is_asked_and_what_needs_one_waits(node: Node) -> None:
    """B150: targets come from the profile, kernels are built at the first boot, and that is no failure."""
    asked = replace(profile(), layout=(LayoutAsk(name="b300", gpu="B300", gpus_per_node=8, engine="demo"),))
    report = baked(node, asked, target=TargetAsk(gpu="B300", gpus=8))

    assert report.baked is not None
    assert ["kernel warm-up"] == [name for name, _ in report.baked.deferred]
    assert ("B300", "sm103") == (report.baked.targets[0].gpu, report.baked.targets[0].factors["gpu_arch"])
    assert "driver" not in report.baked.targets[0].factors
    assert ExitStatus.DONE == report.exit_status
    assert report.fits
    assert "fits" in report.fits[0]


def test_a_model_that_does_not_fit_the_target_is_refused_before_it_is_fetched(node: Node) -> None:
    """A class with a megabyte of memory cannot hold it."""
    folder = node.paths.config / "nodes"
    folder.mkdir(parents=True)
    text = 'gpu = "TINY"\ntitle = "tiny"\nmatch = ["tiny"]\nmemory_bytes = 1000000\n'
    (folder / "tiny.toml").write_text(f"{text}gpus_per_node = 1\ncompute_capability = [9, 0]\n")
    asked = replace(profile(), layout=(LayoutAsk(name="tiny", gpu="TINY", gpus_per_node=1, engine="demo"),))
    with pytest.raises(DoesNotFit):
        baked(node, asked, target=TargetAsk(gpu="TINY"))

    assert not (node.paths.hub / "models--kboot--demo-moe/blobs").exists()


def test_a_target_the_profile_does_not_have_is_a_usage_error(node: Node) -> None:
    """It names those there are."""
    with pytest.raises(UsageError) as caught:
        baked(node, target=TargetAsk(gpu="B300"))

    assert "bake-target-unknown" == caught.value.code


def test_units_are_enabled_by_links(node: Node) -> None:
    """Where the unit files are, their [Install] sections are carried out as `systemctl enable` would; a mask holds."""
    image = node.folder / "image"
    for name in ("kboot.service", "kboot-engine.service"):
        (image / "usr/lib/systemd/system").mkdir(parents=True, exist_ok=True)
        (image / "usr/lib/systemd/system" / name).write_text(UNIT)
    (image / "etc/systemd/system").mkdir(parents=True)
    (image / "etc/systemd/system/kboot-scrub.timer").symlink_to("/dev/null")
    report = baked(node)
    link = image / "etc/systemd/system/multi-user.target.wants/kboot.service"

    assert "/usr/lib/systemd/system/kboot.service" == str(link.readlink())
    assert report.baked is not None
    assert ("kboot.service", "kboot-engine.service") == report.baked.units
    assert (("kboot-scrub.timer", "masked by an operator"),) == report.baked.left_out


def archive_of(folder: Path, factors: Mapping[str, str]) -> str:
    """Export a cache with these factors from another node."""
    made = make_cache(folder / "other")
    (made / "factors.json").write_text(json.dumps(dict(factors)))
    export_cache(made, folder / "a.tar.zst", 1)
    return str(folder / "a.tar.zst")


def test_kernel_caches_come_from_an_archive(node: Node, tmp_path: Path) -> None:
    """One that was made for the target is taken in under its own key, and its kernels need no warm-up any more."""
    bare = baked(node)
    assert bare.baked is not None
    archive = archive_of(tmp_path, bare.baked.targets[0].factors)
    first, second = baked(node, archives=(archive,)), baked(node, archives=(archive,))

    assert first.baked is not None
    assert second.baked is not None
    assert [(KEY, True)] == [(c.key, c.complete) for c in first.baked.caches]
    assert first.baked.caches[0].size_bytes > 3 << 20
    assert () == first.baked.deferred
    assert first.baked.digest == second.baked.digest


def test_kernel_caches_of_other_nodes_are_refused(node: Node, tmp_path: Path) -> None:
    """The factor that differs is named, nothing of it is in the image, and there is no manifest."""
    asked = replace(profile(), cache=CacheAsk(seed=archive_of(tmp_path, FACTORS)))
    refused = baked(node, asked)

    assert refused.error is not None
    assert ("cache-does-not-fit", ExitStatus.ACTION_FAILED, None) == (
        refused.error.code,
        refused.exit_status,
        refused.baked,
    )
    assert not (node.paths.cache / KEY).exists()


def test_a_seed_that_is_named_by_the_nodes_driver_waits(node: Node) -> None:
    """Its key is known when the node boots."""
    report = baked(node, replace(profile(), cache=CacheAsk(seed="https://caches/{key}.tar.zst")))

    assert report.baked is not None
    assert ["kernel caches of the seed", "kernel warm-up"] == [name for name, _ in report.baked.deferred]


def test_terms_that_nobody_accepted_are_told(node: Node) -> None:
    """Every node that is started from the image would refuse."""
    report = baked(node, replace(profile(), license=LicenseAsk(name="x", accept_required=True)))

    assert report.baked is not None
    assert "acceptance of the model's terms" in {name for name, _ in report.baked.left_out}


def test_a_source_that_is_away_ends_it_with_its_status(tmp_path: Path) -> None:
    """There is no manifest of an image without its bytes."""
    node = Node(tmp_path, NOBODY)
    with pytest.raises(SourceError):
        baked(node)

    assert not (node.paths.state / "bake.json").exists()


def test_a_bake_that_is_told_to_stop_ends_so_and_goes_on_from_there(node: Node) -> None:
    """130, no manifest; the next bake finishes it."""
    node.stop.set()
    with pytest.raises(SourceError) as caught:
        baked(node)
    node.stop.clear()

    assert ExitStatus.INTERRUPTED == caught.value.status
    assert not (node.paths.state / "bake.json").exists()
    assert ExitStatus.DONE == baked(node).exit_status


def test_two_builds_at_one_time_of_the_epoch_give_the_same_bytes(node: Node) -> None:
    """SOURCE_DATE_EPOCH is the time of the build."""
    host = AskedHost({**node.host.environ(), "SOURCE_DATE_EPOCH": "1764000000"})
    tree = ImageTree(node.folder / "image")
    bake(profile(), host, node.paths, BakeAsk(), tree, node.seen.append, node.stop)

    assert 1764000000.0 == json.loads((node.paths.state / "bake.json").read_text())["built_unix_s"]


def test_the_caches_folder_is_the_engines_where_there_is_such_a_user(node: Node) -> None:
    """B122: what a bake makes as root the engine's user can write; elsewhere nothing is shared."""
    baked(node)
    shared = bool(node.paths.cache.stat().st_mode & stat.S_ISGID)

    assert shared is ("kboot" in {g.gr_name for g in grp.getgrall()} and os.geteuid() == 0)
