"""How does a boot look as a page?"""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from report_samples import T0, failed_boot, kimi_boot

from kboot.report.html import timeline_html
from kboot.report.timeline import make_timeline

VOID = frozenset({"meta", "br", "rect", "line"})


class Reader(HTMLParser):
    """Collects headings, table rows, tags and what is left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_is_whole_and_needs_nothing_from_outside() -> None:
    """Every tag is closed; there are no scripts, links or images to load."""
    page = Reader(timeline_html(make_timeline(kimi_boot()), version="1"))

    assert [] == page.open
    assert {"svg", "table"} <= page.tags
    assert {"script", "link", "img", "iframe"}.isdisjoint(page.tags)
    assert {"src", "href", "onclick"}.isdisjoint(page.attributes)


def test_the_page_has_path_phases_comparison_and_actions() -> None:
    """What the terminal shows, and every action with its reason, as tables."""
    page = Reader(timeline_html(make_timeline(kimi_boot(tune_s=912.0), [kimi_boot(at=T0 - 1e5)]), version="1"))

    for heading in ("Critical path", "Phases", "Against earlier boots", "Actions"):
        assert heading in page.texts
    assert "fetch model-00111-of-00111.safetensors" in page.texts
    assert "+15 min 00 s" in page.texts


def test_a_failed_boot_shows_its_error() -> None:
    """The page of a failed boot carries code, message and hint."""
    page = timeline_html(make_timeline(failed_boot()), version="1")

    assert "error: shard-hash-mismatch" in page
    assert "hint: take the mirror out" in page


def test_names_cannot_break_out_of_the_page() -> None:
    """A name with markup is text."""
    page = Reader(timeline_html(make_timeline(replace(kimi_boot(), profile="<script>x</script>")), version="1"))

    assert "script" not in page.tags
