"""The page as a real browser lays it out."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from report_samples import T0, failed_boot, kimi_boot

from kboot.report.html import timeline_html
from kboot.report.timeline import Timeline, make_timeline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

MEASURE = """<script>
const box = e => e.getBoundingClientRect(), svg = document.querySelector("svg"), all = box(svg);
const inside = e => box(e).left >= all.left - 1 && box(e).right <= all.right + 1 && box(e).bottom <= all.bottom + 1;
const parts = [...svg.querySelectorAll("rect, text")];
const answer = {
  title: document.title, width: innerWidth, overflow: document.documentElement.scrollWidth - innerWidth,
  svg: [Math.round(all.width), Math.round(all.height)], bars: svg.querySelectorAll("rect").length,
  outside: parts.filter(e => !inside(e)).map(e => e.textContent || e.outerHTML),
  invisible: [...svg.querySelectorAll("rect")].filter(e => box(e).width <= 0).length,
  fetched: performance.getEntriesByType("resource").length,
  tables: [...document.querySelectorAll("h2")].map(e => e.textContent),
  ground: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(document.body).color,
};
document.body.setAttribute("data-measured", JSON.stringify(answer));
</script>"""


def measure(timeline: Timeline, folder: Path, width: int = 1200) -> dict[str, Any]:
    """Return what a headless browser finds; skips where there is none."""
    if BROWSER is None:
        pytest.skip("needs a browser (package chromium)")
    page = folder / "page.html"
    page.write_text(timeline_html(timeline, version="1").replace("</body>", f"{MEASURE}</body>"))
    argv = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    argv += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]
    argv += [f"--user-data-dir={folder}/browser", f"--window-size={width},1000", "--dump-dom", page.as_uri()]
    dom = subprocess.run(argv, capture_output=True, text=True, timeout=90, check=True).stdout
    found = re.search(r'data-measured="([^"]*)"', dom)
    assert found, dom[-500:]
    return dict(json.loads(unescape(found[1])))


def test_a_boot_is_drawn_whole_and_fetches_nothing(tmp_path: Path) -> None:
    """Every bar has a width, all lies inside the picture, nothing is asked of any network."""
    found = measure(make_timeline(kimi_boot(tune_s=912.0), [kimi_boot(at=T0 - 1e5)]), tmp_path)

    assert found["title"].startswith("boot of kimi-k3.1-pro: ready to serve")
    assert ([], 0, 0) == (found["outside"], found["invisible"], found["fetched"])
    assert found["bars"] >= 14
    assert found["svg"][0] > 800
    assert found["ground"] != found["ink"]
    assert ["Critical path", "Phases", "Against earlier boots"] == found["tables"][:3]


def test_a_telephone_shows_it_without_scrolling_sideways(tmp_path: Path) -> None:
    """In the narrowest window the browser makes, only tables may scroll, each in its own box."""
    found = measure(make_timeline(failed_boot()), tmp_path, width=500)

    assert found["width"] <= 500
    assert 0 >= found["overflow"]
    assert [] == found["outside"]
