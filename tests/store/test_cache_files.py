"""What does kboot itself keep in a folder of kernel caches, beside what the engine puts there?"""

from pathlib import Path

from kboot.store.cache_files import INVENTORY, read_inventory, write_inventory


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """Names with blanks and other alphabets are kept, those with a line break are left out."""
    marks = {"triton/a b/k.json": (3, 1781087915292417000), "x/\u2028é": (0, 5)}
    write_inventory(tmp_path, [(path, *mark) for path, mark in marks.items()] + [("two\nlines", 1, 1)])

    assert marks == read_inventory(tmp_path)


def test_a_damaged_inventory_knows_less_and_never_something_wrong(tmp_path: Path) -> None:
    """None, another file, a cut one: what is not known is looked at again."""
    assert {} == read_inventory(tmp_path)
    (tmp_path / INVENTORY).write_text("something else\n1 2 a\n")
    assert {} == read_inventory(tmp_path)
    write_inventory(tmp_path, [("a", 1, 2), ("b", 3, 4)])
    text = (tmp_path / INVENTORY).read_text()
    (tmp_path / INVENTORY).write_text(text[: text.index(" 4 b")])

    assert {"a": (1, 2)} == read_inventory(tmp_path)
