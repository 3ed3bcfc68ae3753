"""How does a boot look as a picture?"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

from report_samples import demo_boot, failed_boot, kimi_boot

from kboot.report.render_svg import timeline_svg
from kboot.report.timeline import make_timeline

SVG = "{http://www.w3.org/2000/svg}"


def drawn(root: ET.Element, kind: str) -> list[ET.Element]:
    """Return the bars of a class."""
    return [e for e in root.iter(f"{SVG}rect") if kind in (e.get("class") or "").split()]


def test_the_picture_is_well_formed_and_needs_nothing_from_outside() -> None:
    """One SVG element without scripts, links or references."""
    for boot in (kimi_boot(), demo_boot(), failed_boot()):
        text = timeline_svg(make_timeline(boot))
        root = ET.fromstring(text)

        assert f"{SVG}svg" == root.tag
        assert text.replace('xmlns="http://www.w3.org/2000/svg"', "").find("http") < 0 or boot.error is not None
        assert not [e for e in root.iter() if e.tag in (f"{SVG}script", f"{SVG}image", f"{SVG}use")]


def test_every_span_is_a_bar_and_every_fetched_file_a_thin_one() -> None:
    """Lanes have their colours; what had slack is paler; files lie below their phase."""
    root = ET.fromstring(timeline_svg(make_timeline(kimi_boot())))

    assert 2 == len(drawn(root, "machine"))
    assert 6 == len(drawn(root, "engine"))
    assert 111 == len(drawn(root, "file"))
    assert 3 == len(drawn(root, "slack"))  # tune, cache and the legend's


def test_all_bars_lie_inside_the_picture() -> None:
    """No bar begins before the axis or ends behind it."""
    root = ET.fromstring(timeline_svg(make_timeline(kimi_boot())))

    for bar in (*drawn(root, "kboot"), *drawn(root, "engine"), *drawn(root, "file")):
        left, width = float(bar.get("x", "")), float(bar.get("width", ""))
        assert 24 <= left
        assert left + width <= 960


def test_names_cannot_break_out_of_the_picture() -> None:
    """A name with markup is text."""
    boot = replace(demo_boot(), profile='"><script>alert(1)</script>', verify_claim="a & b <c>")
    root = ET.fromstring(timeline_svg(make_timeline(boot)))

    assert not list(root.iter(f"{SVG}script"))
    assert "a & b <c>" in [e.text for e in root.iter(f"{SVG}text")]
