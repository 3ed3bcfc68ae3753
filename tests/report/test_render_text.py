"""How does a result read on a terminal? Layout that every text renderer shares."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kboot.errors import DoesNotFit
from kboot.report.render_text import error_text, laid_out_for, shorten, table, width_now, wrap


def test_an_error_is_code_message_place_and_hint() -> None:
    """Long sentences wrap under themselves; nothing is cut."""
    error = DoesNotFit(
        "disk-full", "cannot write: " + "word " * 20, where=("/data/x", "17 GB wanted"), hint="free space"
    )
    lines = error_text(error).splitlines()

    assert "error: disk-full" == lines[0]
    assert lines[1].startswith("  cannot write: word")
    assert ["  /data/x", "  17 GB wanted", "hint: free space"] == lines[-3:]
    assert max(map(len, lines)) <= 80


def test_a_table_aligns_its_columns_and_wraps_the_last() -> None:
    """The last column wraps under itself; short rows are filled up."""
    assert [
        "  a    one",
        "  bbb  two three",
        "       four",
        "  c",
    ] == table([("a", "one"), ("bbb", "two three four"), ("c",)], width=16)
    assert [] == table([])


def test_a_reader_says_how_wide_lines_are() -> None:
    """Within bounds, until the block ends; a call that says so itself decides."""
    text = "word " * 40
    with laid_out_for(60):
        lines = [*wrap(text), *table([("a", text)])]
        own = wrap(text, width=100)
    with laid_out_for(500):
        widest = width_now()
    with laid_out_for(1):
        narrowest = width_now()

    assert (59, 99) == (max(map(len, lines)), max(map(len, own)))
    assert (120, 40, 80) == (widest, narrowest, width_now())


def test_what_is_there_to_be_copied_is_never_broken() -> None:
    """With `whole` a word longer than the line stays whole."""
    path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"

    assert path in wrap(f"set {path} = performance", "  ", 40, whole=True)[1]


def test_a_long_word_is_never_left_to_the_edge_of_the_terminal() -> None:
    """It goes on a line of its own where that is enough; else it is broken, and its parts are indented."""
    assert ["  serve from", "      /var/lib/kboot/models/a-model"] == wrap(
        "/var/lib/kboot/models/a-model", "  serve from    ", 36
    )
    assert ["  at  /var/lib/k", "      boot/model", "      s/a-model"] == wrap(
        "/var/lib/kboot/models/a-model", "  at  ", 16
    )


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=200), st.integers(20, 120))
def test_wrapping_loses_no_word(text: str, width: int) -> None:
    """Every word of a text is in its lines, in order."""
    assert text.split() == " ".join(wrap(text, "", width, whole=True)).split()


@given(st.text(max_size=60), st.integers(1, 40))
def test_a_shortened_text_never_exceeds_its_width(text: str, width: int) -> None:
    """What is shortened fits, and a text that fits is left alone."""
    short = shorten(text, width)

    assert len(short) <= width
    assert short == text or len(text) > width
