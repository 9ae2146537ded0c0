"""Makes one animated SVG from pictures of the console: rows that are the same in several pictures are written
once, and style sheets show one picture after the other. It has no script, no font and no address of a server,
so that a page of a code host shows it as a picture.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import NamedTuple

CELL, ROW = 12.2, 24.4
"""The size of a cell in the units of a picture, as Rich draws it."""
MARGIN, BAR, CAPTION = 10.0, 41.0, 56.0
"""The space around the terminal, above it for the title, and below it for the caption."""
GROUND, FRAME, TITLE_INK, CAPTION_INK = "#12161c", "#292929", "#c5c8c6", "#ffffff"
FALLBACK = "card"
"""The shot that is shown where nothing moves."""


class Shot(NamedTuple):
    """One picture of the recording."""

    name: str
    seconds: float
    caption: str


SHOTS = (
    Shot("catalog", 2.5, "Every tool of the project, with its state and the reason."),
    Shot("asked", 2.0, "An agent wants to run a command. It waits, and you are asked."),
    Shot("card", 4.0, "You see who asks, the exact input, and what the program may reach."),
    Shot("letter", 2.0, "The risk is high: press a, and then the letter that the card shows."),
    Shot("decided", 1.5, "This one call is approved, and nothing else."),
    Shot("ran", 3.0, "It ran in the sandbox, and the agent has its answer."),
    Shot("log", 4.0, "The log has a line for each step, chained by hashes."),
)

_STYLE = re.compile(r"\.terminal-r(\d+) \{ (.*?) \}")
_RECT = re.compile(r'<rect fill="([^"]+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"[^>]*shape-rendering')
_TEXT = re.compile(
    r'<text class="terminal-r(\d+)" x="([\d.]+)" y="[\d.]+" textLength="([\d.]+)"'
    r' clip-path="url\(#terminal-line-(\d+)\)">([^<]*)</text>'
)


class _Rows:
    """The different rows of all pictures, and the styles of their texts."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._styles: dict[str, int] = {}

    def row(self, text: str) -> int:
        """The number of the row of that content."""
        return self._rows.setdefault(text, len(self._rows))

    def style(self, declarations: str) -> int:
        """The number of the class with these declarations."""
        return self._styles.setdefault(
            declarations.replace("fill: ", "fill:").replace(": ", ":"), len(self._styles)
        )

    @property
    def style_sheet(self) -> str:
        return "".join(f".s{number}{{{text}}}" for text, number in self._styles.items())

    @property
    def definitions(self) -> str:
        return "\n".join(f'<g id="r{number}">{text}</g>' for text, number in self._rows.items())


def animated(pictures: Sequence[tuple[Shot, str]], columns: int, height: int, title: str) -> str:
    """Returns the animated SVG of the pictures, each the SVG that the console exports."""
    rows = _Rows()
    width = columns * CELL + 2 * MARGIN
    bottom = BAR + height * ROW
    total = sum(shot.seconds for shot, _ in pictures)
    frames: list[str] = []
    keyframes: list[str] = []
    begin = 0.0
    for shot, drawn in pictures:
        frames.append(_frame(shot, _numbered_rows(drawn, rows), width, bottom))
        keyframes.append(_keyframes(shot, begin / total * 100, (begin + shot.seconds) / total * 100))
        begin += shot.seconds
    sheet = (
        "text{white-space:pre}"
        ".t{font:20px 'DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace}"
        ".c{font:600 26px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;"
        f"fill:{CAPTION_INK};text-anchor:middle}}"
        f".f{{visibility:hidden;animation-duration:{total:g}s;animation-timing-function:step-end;"
        "animation-iteration-count:infinite}"
        f".{FALLBACK}{{visibility:visible}}"
        f"{rows.style_sheet}{''.join(keyframes)}"
        "@media (prefers-reduced-motion:reduce){.f{animation:none}}"
    )
    words = " ".join(shot.caption for shot, _ in pictures)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {bottom + CAPTION:g}" role="img">\n'
        f"<title>{html.escape(title)}</title>\n<desc>{html.escape(words)}</desc>\n<style>{sheet}</style>\n"
        f"<defs>\n{rows.definitions}\n</defs>\n"
        f'<rect width="{width:g}" height="{bottom + CAPTION:g}" rx="8" fill="{FRAME}"/>\n'
        f'<rect x="{MARGIN:g}" y="{BAR:g}" width="{columns * CELL:g}" height="{height * ROW:g}"'
        f' fill="{GROUND}"/>\n'
        '<circle cx="26" cy="21" r="7" fill="#ff5f57"/><circle cx="48" cy="21" r="7" fill="#febc2e"/>'
        '<circle cx="70" cy="21" r="7" fill="#28c840"/>\n' + "\n".join(frames) + "\n</svg>\n"
    )


def _frame(shot: Shot, numbers: dict[int, int], width: float, bottom: float) -> str:
    uses = "".join(
        f'<use href="#r{number}" x="{MARGIN:g}" y="{BAR + at * ROW:g}"/>'
        for at, number in sorted(numbers.items())
    )
    words = html.escape(shot.caption, quote=False)
    caption = f'<text class="c" x="{width / 2:g}" y="{bottom + 37:g}">{words}</text>'
    return f'<g class="f {shot.name}"><g class="t">{uses}</g>{caption}</g>'


def _keyframes(shot: Shot, begin: float, end: float) -> str:
    steps = f"{begin:.2f}%{{visibility:visible}}"
    if begin:
        steps = f"0%{{visibility:hidden}}{steps}"
    if end < 100:
        steps += f"{end:.2f}%{{visibility:hidden}}"
    return f".{shot.name}{{animation-name:{shot.name}}}@keyframes {shot.name}{{{steps}}}"


def _numbered_rows(drawn: str, rows: _Rows) -> dict[int, int]:
    """The number of each row that is not empty, by its place from the top."""
    drawn = re.sub(r"terminal-\d+", "terminal", drawn)
    styles = {number: rows.style(text) for number, text in _STYLE.findall(drawn)}
    content: dict[int, list[str]] = {}
    for fill, left, top, wide in _merged_rects(drawn):
        if fill != GROUND:
            rect = f'<rect x="{left:g}" width="{wide:g}" height="{ROW + 0.25:g}" fill="{fill}"/>'
            content.setdefault(top, []).append(rect)
    for number, left, wide, at, text in _TEXT.findall(drawn):
        plain = html.unescape(text)
        shown = plain.strip("\xa0 ")
        if shown:
            lead = (len(plain) - len(plain.lstrip("\xa0 "))) * CELL
            length = float(wide) - (len(plain) - len(shown)) * CELL
            body = html.escape(shown, quote=False).replace("\xa0", " ")
            content.setdefault(int(at), []).append(
                f'<text class="s{styles[number]}" x="{float(left) + lead:g}" y="18.5"'
                f' textLength="{length:g}">{body}</text>'
            )
    return {at: rows.row("".join(parts)) for at, parts in content.items()}


def _merged_rects(drawn: str) -> list[tuple[str, float, int, float]]:
    """The grounds as (colour, left, row, width); neighbours of one colour are one."""
    merged: list[tuple[str, float, int, float]] = []
    for fill, x, y, width in _RECT.findall(drawn):
        left, row = float(x), round((float(y) - 1.5) / ROW)
        if merged and merged[-1][0] == fill and merged[-1][2] == row:
            before = merged[-1]
            if abs(before[1] + before[3] - left) < 0.5:
                merged[-1] = (fill, before[1], row, round(left + float(width) - before[1], 1))
                continue
        merged.append((fill, left, row, float(width)))
    return merged
