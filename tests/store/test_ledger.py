import os
import resource
import sqlite3
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.errors import KbootError
from kboot.events import Event, Notice
from kboot.host.files import identity
from kboot.store.ledger import Ledger, Row
from kboot.store.marks import Mark, MarkReader
from kboot.store.verifier import NO_PREFIXES, RANGE_BYTES, Prefixes

MARK = Mark("uuid-1", "2049", "77", 10, 1_000, 2_000)
ROW = Row("a/b", "f" * 64, "c" * 40, "model.safetensors", "f" * 64, MARK, "fetch", 1_764_500_000.25, "hub")


class Told(list[Event]):
    def names(self) -> list[str]:
        return [event.event for event in self if isinstance(event, Notice)]


def open_ledger(folder: Path) -> tuple[Ledger, Told]:
    told = Told()
    return Ledger(folder / "ledger.db", told.append), told


def test_what_was_recorded_is_read_by_another_process(tmp_path: Path) -> None:
    """A row comes back as it was, from a ledger opened anew."""
    ledger, _ = open_ledger(tmp_path)
    ledger.record([ROW])

    assert {ROW.name: ROW} == open_ledger(tmp_path)[0].rows("a/b")
    assert {} == open_ledger(tmp_path)[0].rows("a/other")


def test_the_last_word_on_a_file_counts(tmp_path: Path) -> None:
    """Recording again replaces; forgetting leaves nothing."""
    ledger, _ = open_ledger(tmp_path)
    damaged = replace(ROW, how="damaged", detail="sha256 is …")
    ledger.record([ROW])
    ledger.record([damaged])
    assert {ROW.name: damaged} == ledger.rows("a/b")

    ledger.forget("a/b", ROW.name)
    assert {} == ledger.rows("a/b")


def test_reading_makes_no_ledger(tmp_path: Path) -> None:
    """`kboot plan` on a bare node changes nothing."""
    ledger, _ = open_ledger(tmp_path)

    assert {} == ledger.rows("a/b")
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b"not a database" * 400),
        lambda path: path.write_bytes(path.read_bytes()[:100] + b"\xff" * 4096 + path.read_bytes()[4196:]),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: change(path, "PRAGMA user_version = 99"),
        lambda path: change(path, "PRAGMA application_id = 7"),
        lambda path: change(path, "ALTER TABLE file RENAME TO other"),
        lambda path: change(path, "ALTER TABLE file DROP COLUMN source"),
    ],
    ids=["noise", "overwritten", "cut", "newer version", "another program's", "no table", "a column less"],
)
def test_a_ledger_that_cannot_be_trusted_is_moved_aside(spoil, tmp_path: Path) -> None:
    """Damaged or of another version: kept for a person, said once, and then nobody hashed anything here."""
    first, _ = open_ledger(tmp_path)
    first.record([ROW])
    first.close()
    change(first.path, "PRAGMA wal_checkpoint(TRUNCATE)")
    spoil(first.path)

    ledger, told = open_ledger(tmp_path)

    assert {} == ledger.rows("a/b")
    assert ["ledger.moved_aside"] == told.names()
    assert [path for path in tmp_path.iterdir() if ".aside-" in path.name]
    ledger.record([ROW])
    assert {ROW.name: ROW} == open_ledger(tmp_path)[0].rows("a/b")


def change(path: Path, statement: str) -> None:
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()


def test_an_empty_file_is_a_new_ledger(tmp_path: Path) -> None:
    """A crash before the first page was written leaves an empty file; it is simply begun."""
    (tmp_path / "ledger.db").touch()
    ledger, told = open_ledger(tmp_path)

    ledger.record([ROW])

    assert ({ROW.name: ROW}, []) == (ledger.rows("a/b"), told.names())


def test_a_file_system_that_a_ledger_asks_too_much_of_is_told(tmp_path: Path) -> None:
    """charmbracelet/crush#3461: what SQLite calls an I/O error or a lock says nothing of a network file system."""
    ledger, _ = open_ledger(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(KbootError) as caught:
            ledger.record([ROW])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert ("ledger-not-usable", True) == (
        caught.value.code,
        "put state_dir of kboot.toml on" in str(caught.value.hint),
    )


def test_a_ledger_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    """A folder where the file should be is no reason for a traceback."""
    (tmp_path / "ledger.db").mkdir()
    ledger, told = open_ledger(tmp_path)

    with pytest.raises(KbootError) as caught:
        ledger.record([ROW])
    assert "ledger-not-usable" == caught.value.code
    assert {} == ledger.rows("a/b")
    assert ["ledger.unreadable"] == told.names()


def test_what_can_be_found_out_again_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    """Other processes see it at once; the disk has it after settle(), and whatever is durable by itself stays so."""
    ledger, told = open_ledger(tmp_path)
    ledger.record([ROW])
    ledger.record([replace(ROW, how="full")], durable=False)

    assert "full" == open_ledger(tmp_path)[0].rows("a/b")[ROW.name].how
    assert _NORMAL == waits_for_the_disk(ledger)
    ledger.settle()
    assert _FULL == waits_for_the_disk(ledger)
    ledger.record([ROW], durable=False)
    ledger.forget("a/b", ROW.name)
    assert _FULL == waits_for_the_disk(ledger)
    assert [] == told.names()


_NORMAL, _FULL = 1, 2


def waits_for_the_disk(ledger: Ledger) -> int:
    """Return what SQLite was told for the last transaction."""
    return ledger._run(lambda db: db.execute("PRAGMA synchronous").fetchone()[0])


def test_a_ledger_that_cannot_be_settled_is_told_of(tmp_path: Path) -> None:
    """Nothing is lost before a power cut, so that what was proven counts."""
    ledger, told = open_ledger(tmp_path)
    ledger.record([ROW], durable=False)
    ledger.close()
    ledger.path.rename(tmp_path / "gone")
    ledger.path.mkdir()

    ledger.settle()

    assert ["ledger.not_settled"] == told.names()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_user_who_may_only_read_reads() -> None:
    """`kboot status` as an ordinary user sees what root recorded, and cannot change it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # a place whose parents everybody may enter
        folder = Path(name)
        folder.chmod(0o755)
        ledger, _ = open_ledger(folder)
        ledger.record([ROW])
        ledger.close()

        assert "1 rows, ledger-not-usable" == as_nobody(lambda: reading_and_writing(folder))


def test_who_may_enter_the_folder_reads_whatever_the_umask(tmp_path: Path) -> None:
    """`kboot status` of group kboot, after root has fetched with umask 077."""
    before = os.umask(0o077)
    try:
        ledger, _ = open_ledger(tmp_path)
        ledger.record([ROW])
        ledger.close()
    finally:
        os.umask(before)

    assert 0o644 == ledger.path.stat().st_mode & 0o777


def reading_and_writing(folder: Path) -> str:
    ledger, _ = open_ledger(folder)
    rows = ledger.rows("a/b")
    try:
        ledger.record([ROW])
    except KbootError as exc:
        return f"{len(rows)} rows, {exc.code}"
    return f"{len(rows)} rows, written"


def as_nobody(work) -> str:
    reader, writer = os.pipe()
    if not (pid := os.fork()):
        try:
            os.setgroups([])
            os.setuid(65534)
            os.write(writer, work().encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return pipe.read()


def test_threads_may_record_at_once(tmp_path: Path) -> None:
    """Fetching threads admit files side by side; every row arrives."""
    ledger, _ = open_ledger(tmp_path)
    other, _ = open_ledger(tmp_path)

    def work(number: int) -> None:
        for n in range(10):
            (ledger if number % 2 else other).record([replace(ROW, name=f"{number}-{n}")])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 40 == len(open_ledger(tmp_path)[0].rows("a/b"))


def test_numbers_beyond_63_bits_are_kept(tmp_path: Path) -> None:
    """Inode numbers of network and overlay file systems use all 64."""
    row = replace(ROW, mark=replace(MARK, inode=str((1 << 64) - 1)))
    ledger, _ = open_ledger(tmp_path)
    ledger.record([row])

    assert {ROW.name: row} == ledger.rows("a/b")


@pytest.mark.parametrize(
    ("change_of", "word"),
    [({"inode": "78"}, "inode"), ({"size_bytes": 11}, "size"), ({"mtime_ns": 1}, "mtime"), ({"ctime_ns": 1}, "ctime"),
     ({"fs": "uuid-2"}, "file system"), ({"dev": "1"}, ""), ({"fs": "", "dev": "1"}, "file system"), ({"fs": ""}, "")],
)  # fmt: skip
def test_a_file_is_recognised_by_more_than_its_name(change_of: dict[str, str | int], word: str) -> None:
    """Inode, size and both times must fit; the device number only where no UUID is known."""
    other = replace(MARK, **change_of)  # type: ignore[arg-type]

    assert word == MARK.difference(other)
    assert (not word) is MARK.same_file(other)


@pytest.mark.parametrize(
    "tamper",
    [
        lambda path: os.pwrite(os.open(path, os.O_RDWR), b"x", 3),
        lambda path: (path.with_name("new").write_bytes(b"b" * 100), path.with_name("new").rename(path)),
        lambda path: os.truncate(path, 50),
    ],
    ids=["written", "replaced", "truncated"],
)
def test_a_change_with_mtime_put_back_is_noticed(tamper, tmp_path: Path) -> None:
    """Size and mtime can be forged, ctime and inode cannot."""
    path = tmp_path / "blob"
    path.write_bytes(b"a" * 100)
    before = path.stat()
    mark = MarkReader().mark(path, identity(path))

    tamper(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert not mark.same_file(MarkReader().mark(path, identity(path)))


def test_what_beginnings_hash_to_belongs_to_the_content(tmp_path: Path) -> None:
    """Kept by blob id alone: it is read again by another process, in the order it was written."""
    known = Prefixes(RANGE_BYTES, (b"a" * 32, b"b" * 32))
    ledger, _ = open_ledger(tmp_path)
    assert NO_PREFIXES == ledger.prefixes(ROW.name)
    ledger.keep_prefixes(ROW.name, known)

    other, _ = open_ledger(tmp_path)
    assert known == other.prefixes(ROW.name)
    assert NO_PREFIXES == other.prefixes("0" * 64)


def test_beginnings_in_other_steps_are_not_read(tmp_path: Path) -> None:
    """A kboot with another range size wrote them: they would be compared with the wrong ranges."""
    ledger, _ = open_ledger(tmp_path)
    ledger.keep_prefixes(ROW.name, Prefixes(4096, (b"a" * 32,)))

    assert NO_PREFIXES == ledger.prefixes(ROW.name)


def test_a_ledger_of_an_earlier_kboot_goes_on_counting(tmp_path: Path) -> None:
    """One without the table of beginnings gets it when it is opened, and its rows stay."""
    ledger, _ = open_ledger(tmp_path)
    ledger.record([ROW])
    ledger.close()
    with sqlite3.connect(tmp_path / "ledger.db") as db:
        db.execute("DROP TABLE prefix")
    db.close()
    again, told = open_ledger(tmp_path)
    again.keep_prefixes(ROW.name, Prefixes(RANGE_BYTES, (b"a" * 32,)))

    assert {ROW.name: ROW} == again.rows("a/b")
    assert [] == told.names()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of another user's")
@pytest.mark.parametrize("name", ["ledger.db", "ledger.db-wal"])
def test_what_another_user_wrote_proves_nothing(tmp_path: Path, name: str) -> None:
    """Neither a ledger of theirs nor a log beside one of ours, which SQLite would take in; both stay as they are."""
    ledger, _ = open_ledger(tmp_path)
    ledger.record([ROW])
    ledger.close()
    (tmp_path / name).touch()
    os.chown(tmp_path / name, 65534, 65534)

    again, told = open_ledger(tmp_path)
    assert ({}, ["ledger.unreadable"]) == (again.rows("a/b"), told.names())
    with pytest.raises(KbootError, match=f"{name} belongs to user id 65534"):
        again.record([ROW])
    assert (tmp_path / name).exists()
