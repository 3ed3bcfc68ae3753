"""How do tens of thousands of small files get from a folder into a stream and back, fast and with bounded memory?"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from kboot.errors import ActionFailed
from kboot.host.bundle import SMALL_BYTES, Changed, NewTree, exchange, read_pieces, sha256_of_files


def mark(path: Path) -> tuple[int, int]:
    return path.stat().st_size, path.stat().st_mtime_ns


def wrong(path: str) -> ActionFailed:
    return ActionFailed("wrong-hash", path)


def test_files_are_hashed_in_order_whatever_the_threads(tmp_path: Path) -> None:
    """Every digest is that of its own file."""
    contents = [str(n).encode() * n for n in range(200)]
    for n, content in enumerate(contents):
        (tmp_path / str(n)).write_bytes(content)
    marks = [(str(n), mark(tmp_path / str(n))) for n in range(200)]
    expected = [hashlib.sha256(content).hexdigest() for content in contents]

    told: list[tuple[int, int]] = []

    assert expected == sha256_of_files(tmp_path, marks, 4, lambda *moved: told.append(moved))
    assert expected == sha256_of_files(tmp_path, marks, 1, lambda _bytes, _files: None)
    assert [sum(map(len, contents)), 200] == [sum(moved) for moved in zip(*told, strict=True)]


def test_a_file_that_changed_since_it_was_listed_is_an_error(tmp_path: Path) -> None:
    """Another size, another time, a link in its place: what is in an archive is what was listed."""
    path = tmp_path / "a"
    path.write_bytes(b"one")
    size, mtime_ns = mark(path)

    assert [b"one"] == list(read_pieces(path, (size, mtime_ns)))
    for listed in ((size + 1, mtime_ns), (size, mtime_ns + 1)):
        with pytest.raises(Changed):
            list(read_pieces(path, listed))
    path.rename(tmp_path / "b")
    path.symlink_to("b")
    with pytest.raises(OSError, match=r"symbolic|levels"):
        list(read_pieces(path, (size, mtime_ns)))


def fill(top: Path, files: dict[str, bytes], **changed: str) -> None:
    """Write files, each with its hash or the one given for its name."""
    with NewTree(top, 0o755, wrong) as tree:
        for path, data in files.items():
            sha256 = changed.get(path, hashlib.sha256(data).hexdigest())
            if len(data) <= SMALL_BYTES:
                tree.add(path, memoryview(data), 0o644, 1781087915292417123, sha256)
            else:
                tree.add_large(path, [memoryview(data)[:1000], memoryview(data)[1000:]], 0o755, 5, sha256)


def test_what_is_written_is_there_with_its_time_to_the_nanosecond(tmp_path: Path) -> None:
    """ninja compares times to the nanosecond: another one rebuilds everything."""
    files = {f"d{n % 7}/e/{n}": os.urandom(n) for n in range(300)} | {"large": b"x" * (SMALL_BYTES + 1)}
    fill(tmp_path, files)

    assert files == {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert 1781087915292417123 == (tmp_path / "d1/e/1").stat().st_mtime_ns
    assert [0o644, 0o755] == [(tmp_path / name).stat().st_mode & 0o7777 for name in ("d1/e/1", "large")]


def test_a_wrong_hash_is_an_error_whichever_thread_met_it(tmp_path: Path) -> None:
    """The error names the file; small and large ones are proven alike."""
    many = {f"{n}": b"y" * n for n in range(500)}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(ActionFailed, match=r"^250$"):
        fill(tmp_path / "a", many, **{"250": "0" * 64})
    with pytest.raises(ActionFailed, match=r"^large$"):
        fill(tmp_path / "b", {"large": b"x" * (SMALL_BYTES + 1)}, large="0" * 64)


def test_nothing_is_written_over_or_through_anything(tmp_path: Path) -> None:
    """The folder is to be empty; a name that is there, or a link, is an error."""
    (tmp_path / "x").write_text("mine")
    with pytest.raises(ActionFailed):
        fill(tmp_path, {"x": b"theirs"})

    assert "mine" == (tmp_path / "x").read_text()


def test_two_folders_trade_places(tmp_path: Path) -> None:
    """In one step, so that at no instant one of the names leads nowhere; a missing one is an error."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a/one").touch()
    if not exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("this file system cannot exchange folders")

    assert (tmp_path / "b/one").exists()
    with pytest.raises(ActionFailed):
        exchange(tmp_path / "a", tmp_path / "none")
