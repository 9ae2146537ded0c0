"""The recording on the front page: whole, small, without anything that a code host would not show, and with
the shots that its script takes. `make docs-recording` takes it anew."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORDING = ROOT / "docs" / "images" / "recording.svg"
MODULE = runpy.run_path(str(ROOT / "docs" / "recording.py"))
SHOTS = MODULE["SHOTS"]
SVG = "{http://www.w3.org/2000/svg}"
MOST_BYTES = 400 * 1024
RECT = '<rect fill="{}" x="{}" y="1.5" width="{}" height="24.65" shape-rendering="crispEdges"/>'
TEXT = (
    '<text class="terminal-1-r{}" x="0" y="20" textLength="{}" clip-path="url(#terminal-1-line-{})">{}</text>'
)
STYLES = """<style>
.terminal-1-r1 { fill: #d5dae2 }
.terminal-1-r2 { fill: #8c9199;font-weight: bold }
</style>"""


def drawn(name: str) -> str:
    """A picture of two rows, as Rich draws it. The second row has that text."""
    grounds = [("#12161c", 0, 24.4), ("#171c24", 24.4, 12.2), ("#171c24", 36.6, 12.2)]
    rects = [RECT.format(*ground) for ground in grounds]
    texts = [TEXT.format(1, 48.8, 0, "&#160;a&lt;&#160;"), TEXT.format(2, 24.4, 1, name)]
    return "".join(("<svg>", STYLES, *rects, *texts, "</svg>"))


@pytest.fixture(scope="module")
def recording() -> str:
    return RECORDING.read_text(encoding="utf-8")


def test_it_has_the_shots_of_its_script(recording: str) -> None:
    root = ElementTree.fromstring(recording)
    frames = [group for group in root.iter(f"{SVG}g") if group.get("class", "").startswith("f ")]
    captions = [text.text for group in frames for text in group.iter(f"{SVG}text")]
    assert [group.get("class") for group in frames] == [f"f {shot.name}" for shot in SHOTS]
    assert captions == [shot.caption for shot in SHOTS]
    total = sum(shot.seconds for shot in SHOTS)
    assert f"animation-duration:{total:g}s" in recording
    assert MODULE["FALLBACK"] in {shot.name for shot in SHOTS}


def test_it_is_small_and_needs_nothing_from_elsewhere(recording: str) -> None:
    assert len(recording.encode()) <= MOST_BYTES
    assert set(re.findall(r'(?:href|src|xmlns)="([^"#]+)"', recording)) == {"http://www.w3.org/2000/svg"}
    for forbidden in ("<script", "<image", "<foreignObject", "@font-face", "@import", "url("):
        assert forbidden not in recording
    assert not re.search(r"<[^>]* on\w+=", recording)
    used = set(re.findall(r'href="#(r\d+)"', recording))
    assert used == set(re.findall(r'<g id="(r\d+)"', recording))


def test_the_pages_show_it() -> None:
    assert "(docs/images/recording.svg)" in (ROOT / "README.md").read_text()
    assert "(images/recording.svg)" in (ROOT / "docs" / "index.md").read_text()


def test_equal_rows_are_written_once_and_texts_stay_whole() -> None:
    shots = [(SHOTS[0], drawn("on")), (SHOTS[1], drawn("tw"))]
    made = MODULE["animated"](shots, 4, 2, "a <title>")
    root = ElementTree.fromstring(made)
    rows = [group for group in root.iter(f"{SVG}g") if (group.get("id") or "").startswith("r")]
    assert len(rows) == 3
    assert made.count('href="#r0"') == 2
    (text,) = rows[0].iter(f"{SVG}text")
    assert (text.text, text.get("x"), text.get("textLength")) == ("a<", "12.2", "24.4")
    (ground,) = rows[0].iter(f"{SVG}rect")
    assert (ground.get("x"), ground.get("width"), ground.get("fill")) == ("24.4", "24.4", "#171c24")
