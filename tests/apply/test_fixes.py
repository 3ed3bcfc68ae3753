"""What doctor changes by itself, and how it is undone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kboot.apply.fixes import UNDO, Fixed, apply_fixes, beside_earlier
from kboot.checks.fixes import Fix, PutAside, WriteValue
from kboot.errors import KbootError
from kboot.host.paths import Paths

SETTING = "/proc/sys/kernel/printk_ratelimit_burst"
"""Of this kernel alone, harmless, and the same for everybody."""


def paths_in(tmp_path: Path) -> Paths:
    """Return a node's folders."""
    return Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")


def yes(_: PutAside) -> bool:
    """It is so to this moment."""
    return True


def test_a_file_is_put_aside_and_comes_back(tmp_path: Path) -> None:
    """The script that was written before the change brings it back, whatever is in its name."""
    lock = tmp_path / "a 'lock'"
    lock.write_text("1\nhost\n")
    fix = PutAside(str(lock), "lock of nobody")
    done, script = apply_fixes([("ckpt.stale_locks", fix)], paths_in(tmp_path), yes)

    assert (Fixed("ckpt.stale_locks", fix, "done"),) == done
    assert script is not None
    assert (False, True, 0o700) == (
        lock.exists(),
        lock.with_name(f"{lock.name}.kboot-aside").exists(),
        script.stat().st_mode & 0o777,
    )
    subprocess.run(["sh", str(script)], check=True, timeout=60)
    assert "1\nhost\n" == lock.read_text()


def test_what_a_run_did_that_was_killed_is_undone_with_the_next(tmp_path: Path) -> None:
    """The script of a later run undoes both, and is gone when all is undone."""
    one, two = tmp_path / "one.lock", tmp_path / "two.lock"
    for lock in (one, two):
        lock.write_text(lock.name)
        apply_fixes([("c", PutAside(str(lock), ""))], paths_in(tmp_path), yes)
    script = tmp_path / "run" / UNDO
    subprocess.run(["sh", str(script)], check=True, timeout=60)

    assert ["one.lock", "two.lock"] == [one.read_text(), two.read_text()]
    assert not script.exists()


def test_a_script_that_could_not_undo_all_stays(tmp_path: Path) -> None:
    """Whoever mends what was in the way runs it again."""
    lock = tmp_path / "a.lock"
    lock.write_text("x")
    _, script = apply_fixes([("c", PutAside(str(lock), ""))], paths_in(tmp_path), yes)
    assert script is not None
    aside = lock.with_name(f"{lock.name}.kboot-aside")
    aside.rename(tmp_path / "elsewhere")

    assert 0 != subprocess.run(["sh", str(script)], check=False, timeout=60, capture_output=True).returncode
    assert script.exists()


def test_a_file_whose_name_is_taken_again_is_not_called_undone(tmp_path: Path) -> None:
    """Who holds the lock now keeps it; the script stays, and says so."""
    lock = tmp_path / "a.lock"
    lock.write_text("old")
    _, script = apply_fixes([("c", PutAside(str(lock), ""))], paths_in(tmp_path), yes)
    lock.write_text("new")
    undone = subprocess.run(["sh", str(script)], check=False, timeout=60, capture_output=True, text=True)

    assert (1, True) == (undone.returncode, script is not None and script.exists())
    assert "not all of it could be undone" in undone.stderr
    assert ("new", "old") == (lock.read_text(), lock.with_name("a.lock.kboot-aside").read_text())


def test_a_second_file_of_the_name_does_not_take_the_place_of_the_first(tmp_path: Path) -> None:
    """It gets a number, and undoing brings it back: the first stays aside then, and the script says that it does."""
    lock = tmp_path / "a.lock"
    for text in ("first", "second"):
        lock.write_text(text)
        _, script = apply_fixes([("c", beside_earlier(PutAside(str(lock), "")))], paths_in(tmp_path), yes)
    asides = [lock.with_name(f"a.lock.kboot-aside{number}") for number in ("", ".2")]

    assert ["first", "second"] == [aside.read_text() for aside in asides]
    undone = subprocess.run(["sh", str(script)], capture_output=True, text=True)
    assert (1, True) == (undone.returncode, "not all of it could be undone" in undone.stderr)
    assert ("second", "first") == (lock.read_text(), asides[0].read_text())


def test_a_name_that_is_taken_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    """What another run put aside stays, and the file stays where it is."""
    lock, aside = tmp_path / "a.lock", tmp_path / "a.lock.kboot-aside"
    lock.write_text("second")
    aside.write_text("first")
    (failed,), _ = apply_fixes([("c", PutAside(str(lock), ""))], paths_in(tmp_path), yes)

    assert ("failed", "aside-is-taken") == (failed.status, failed.error.code if failed.error else "")
    assert ("second", "first") == (lock.read_text(), aside.read_text())


def test_what_a_killed_run_had_not_changed_yet_needs_no_undoing(tmp_path: Path) -> None:
    """Its script has both; the second file was never moved, and is where the script would bring it."""
    one, two = tmp_path / "one.lock", tmp_path / "two.lock"
    one.write_text("1")
    two.write_text("2")

    def killed_at_the_second(fix: PutAside) -> bool:
        if fix.path == str(two):
            raise KeyboardInterrupt
        return True

    with pytest.raises(KeyboardInterrupt):
        apply_fixes([("c", PutAside(str(lock), "")) for lock in (one, two)], paths_in(tmp_path), killed_at_the_second)
    script = tmp_path / "run" / UNDO
    subprocess.run(["sh", str(script)], check=True, timeout=60)

    assert (["1", "2"], False) == ([one.read_text(), two.read_text()], script.exists())


def test_what_is_not_so_any_more_is_left_alone(tmp_path: Path) -> None:
    """Another process took the lock meanwhile, or the file is gone: nothing to undo, and the script does nothing."""
    lock = tmp_path / "a.lock"
    lock.write_text("x")
    fixes: list[tuple[str, Fix]] = [("c", PutAside(str(lock), "")), ("c", PutAside(str(tmp_path / "gone"), ""))]
    done, script = apply_fixes(fixes, paths_in(tmp_path), lambda _: False)

    assert ["unchanged", "unchanged"] == [f.status for f in done]
    assert script is None
    assert lock.exists()
    assert "mv" not in (tmp_path / "run" / UNDO).read_text()


def test_a_setting_that_somebody_else_changed_is_not_written(tmp_path: Path) -> None:
    """Its undoing would put back what is not there now."""
    value = Path(SETTING).read_text().strip()
    fix = WriteValue(SETTING, f"{int(value) + 1}", "no such value")
    (found,), script = apply_fixes([("c", fix)], paths_in(tmp_path), yes)

    assert ("failed", None) == (found.status, script)
    assert found.error is not None
    assert "setting-changed-meanwhile" == found.error.code
    assert value == Path(SETTING).read_text().strip()


def test_a_setting_that_is_right_is_unchanged(tmp_path: Path) -> None:
    """Doing it twice is safe."""
    value = Path(SETTING).read_text().strip()
    (found,), _ = apply_fixes([("c", WriteValue(SETTING, value, "1"))], paths_in(tmp_path), yes)

    assert "unchanged" == found.status


def test_nothing_outside_the_kernels_settings_is_written(tmp_path: Path) -> None:
    """Whatever a finding says."""
    file = tmp_path / "file"
    file.write_text("0")
    (found,), _ = apply_fixes([("c", WriteValue(str(file), "1", "0"))], paths_in(tmp_path), yes)

    assert found.error is not None
    assert ("not-a-kernel-setting", "0") == (found.error.code, file.read_text())


def test_a_place_that_is_a_file_changes_nothing(tmp_path: Path) -> None:
    """The script cannot be written there."""
    lock, blocked = tmp_path / "a.lock", tmp_path / "blocked"
    lock.write_text("x")
    blocked.write_text("")
    with pytest.raises(KbootError):
        apply_fixes([("c", PutAside(str(lock), ""))], Paths(tmp_path, blocked, tmp_path), yes)
    assert lock.exists()


def test_no_fix_writes_nothing(tmp_path: Path) -> None:
    """Not even a script."""
    assert ((), None) == apply_fixes([], paths_in(tmp_path), yes)
    assert [] == list(tmp_path.iterdir())
