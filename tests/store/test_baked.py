"""The manifest of an image: what was written is read, and what was changed is not believed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.errors import ActionFailed
from kboot.store.baked import Baked, BakedCache, BakedFile, BakedTarget, path_in, read_baked, write_baked

BAKED = Baked(
    profile="demo",
    profile_digest="d" * 64,
    repo="kboot/demo-moe",
    commit="c" * 40,
    manifest_digest="m" * 64,
    versions={"kboot": "0.1.0"},
    targets=(BakedTarget("8x-b300", "B300", 8, 1, "vllm", {"gpu_arch": "sm103"}),),
    files=(BakedFile("a.safetensors", 10, "a" * 64, "a" * 64, ("1" * 64, "2" * 64), "sha256:00"),),
    caches=(BakedCache("key", {"driver": "580"}, True, 2, 30, "f" * 64),),
    bytecode=("vllm-1",),
    units=("kboot.service",),
    left_out=(("weights", "asked"),),
    deferred=(("kernel warm-up", "no GPU"),),
    built_unix_s=1.5,
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Every value of every kind, and the digest over it."""
    write_baked(BAKED, tmp_path / "state")

    assert BAKED == read_baked(tmp_path / "state")
    assert BAKED.digest == json.loads(path_in(tmp_path / "state").read_text())["digest"]


def test_a_disk_that_came_in_no_image_has_none(tmp_path: Path) -> None:
    """Absent is no fault."""
    assert None is read_baked(tmp_path)


def test_the_digest_is_of_the_content_and_not_of_the_time() -> None:
    """One changed value changes it."""
    assert BAKED.digest == replace(BAKED, built_unix_s=2.0).digest
    assert BAKED.digest != replace(BAKED, units=()).digest


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"demo"', '"other"'),
        lambda text: text.replace('"demo"', '"\\ud800"'),
        lambda _text: "[" * 100_000,
        lambda text: text.replace('"kind": "bake"', '"kind": "boot"'),
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace('"units"', '"unit"'),
    ],
)
def test_a_manifest_that_was_changed_is_not_believed(tmp_path: Path, change: object) -> None:
    """Another profile, half of a sign, nested without end, another kind, cut, of another form, with another key."""
    write_baked(BAKED, tmp_path)
    path = path_in(tmp_path)
    path.write_text(change(path.read_text()))  # type: ignore[operator]
    with pytest.raises(ActionFailed) as caught:
        read_baked(tmp_path)

    assert "bake-manifest-damaged" == caught.value.code


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("files", [{"path": 5, "size_bytes": 1, "blob_id": "a", "sha256": None, "samples": []}]),
        ("files", [{"path": "a", "size_bytes": "1", "blob_id": "a", "sha256": None, "samples": []}]),
        ("files", [{"path": "a", "size_bytes": -1, "blob_id": "a", "sha256": None, "samples": []}]),
        ("versions", []),
        ("versions", {"kboot": 1}),
        ("commit", "../" + "c" * 37),
        ("units", [None]),
        ("built_unix_s", "now"),
        ("built_unix_s", 10**400),
    ],
)
def test_a_manifest_with_a_digest_that_fits_is_still_of_its_form(tmp_path: Path, name: str, value: object) -> None:
    """Whoever edits one by hand can compute the digest; nothing behind it meets a value that it does not expect."""
    write_baked(BAKED, tmp_path)
    path = path_in(tmp_path)
    document = {**json.loads(path.read_text()), name: value}
    hashed = {k: v for k, v in document.items() if k not in ("schema", "kind", "digest", "built_unix_s")}
    text = json.dumps(hashed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps({**document, "digest": digest}))
    with pytest.raises(ActionFailed) as caught:
        read_baked(tmp_path)

    assert "bake-manifest-damaged" == caught.value.code


def test_a_content_is_found_by_its_name() -> None:
    """As the store names it."""
    assert BAKED.files[0] == BAKED.file_of("a" * 64)
    assert None is BAKED.file_of("b" * 64)
