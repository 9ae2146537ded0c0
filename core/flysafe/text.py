"""Makes text from outside safe to draw on a terminal.

Every string of a sidecar, a caller or a file passes through here on its way to a terminal. A character that
the terminal would obey, or that a person could not see, becomes a visible token such as `⟦U+202E⟧`. `⟦` in
the text becomes a token too: different texts stay different, and every token on the screen was made here.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

OPEN, CLOSE = "\u27e6", "\u27e7"
"""The brackets of a token."""

# Three tables, so that ordinary text costs little: PLAIN accepts whole blocks that are harmless, _CONTROLS
# has what is never drawn, and `dangerous()` decides exactly on everything else.

PLAIN = (
    "[ -~\u00a0-\u00ac\u00ae-\u02ff\u0388-\u038a\u038e-\u03a1\u03a3-\u0482\u048a-\u052f\u1e00-\u1eff"
    "\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2100-\u218b\u2190-\u23ff\u2500-\u27bf"
    "\u3000-\u3029\u3030-\u303f\u3041-\u3096\u309b-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff9f"
    "\U0001f300-\U0001f64f\U0001f900-\U0001f9ff]*"
)
"""Text of these characters only is safe. They are all assigned, visible, and advance the cursor."""

_CONTROLS = (
    "[\0-\x1f\x7f-\x9f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control, format, bidirectional and separator characters, surrogates and the whole block of tags."""

_INVISIBLE = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U000133fc-\U000133ff"
)
"""Assigned characters that draw nothing: joiners, fillers, the empty Braille cell, variation selectors."""

_JAMO = "\u1160-\u11ff\ud7b0-\ud7ff"
"""Hangul vowels and finals: letters that terminals draw over the one before, like marks."""

_FIRST_MARK = 0x300
_PLANES = 0x40000
"""End of the first four planes. Above are only private use, tags, and unassigned code points."""


def _ranges(points: list[int]) -> str:
    """Return the code points as the inside of a character class."""
    spans: list[tuple[int, int]] = []
    for point in points:
        if spans and spans[-1][1] == point - 1:
            spans[-1] = (spans[-1][0], point)
        else:
            spans.append((point, point))
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in spans)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return the pattern, compiled once it is needed: a command whose text is ASCII starts without it."""
    return re.compile(pattern)


@cache
def dangerous() -> re.Pattern[str]:
    """Return a pattern that matches each character that must become a token.

    These are Cc, Cf, Cs, Co, Cn, Zl, Zp, the invisible characters, OPEN, and the third and later marks on one
    base. Matching is linear in the length of the text.
    """
    # The tables of this Python may be older than the characters that are named above, so both are used.
    # Building takes about 20 ms, which only text beyond PLAIN has to wait for.
    points = range(_PLANES)
    hidden = [
        point for point in points if not chr(point).isprintable() and unicodedata.category(chr(point)) != "Zs"
    ]
    marks = [
        point
        for point in points[_FIRST_MARK:]
        if unicodedata.category(chr(point)).startswith("M")  # also the spacing ones: terminals differ
    ]
    stacking = f"[{_ranges(marks)}{_JAMO}]"
    never = f"[{OPEN}{_ranges(hidden)}{_INVISIBLE}\\U{_PLANES:08x}-\\U0010ffff]"
    return re.compile(f"{never}|{_CONTROLS}|(?<={stacking}{{2}}){stacking}")


FILLER = "·"
"""The character, one cell wide, that `line_filter` writes in place of a dangerous one."""

_ASCII_CONTROL = re.compile("[\0-\x1f\x7f]")
_TAB = f"{OPEN}U+0009{CLOSE}"
_LONGEST_RUN = 8
"""More spaces than this in a row could move what follows off the screen."""

LONGEST_INDENT = 40
"""The most spaces at the beginning of a line that `indented_text` keeps: half of a narrow screen."""


def token(character: str) -> str:
    """Return the token of one character."""
    return f"{OPEN}U+{ord(character):04X}{CLOSE}"


def _token_of(match: re.Match[str]) -> str:
    return token(match[0])


def safe_text(text: str) -> str:
    """Return the text as one line that is safe to draw: a terminal obeys none of it, and nothing is hidden.

    Control characters (also newline and tab), format, bidirectional, zero-width and invisible characters,
    line and paragraph separators, surrogates, private and unassigned code points become tokens, and so does
    each combining mark after the second in a row. Replacing each token by its character gives the text back.
    """
    if text.isascii():
        return text if text.isprintable() else _ASCII_CONTROL.sub(_token_of, text)
    if _compiled(PLAIN).fullmatch(text):
        return text
    return dangerous().sub(_token_of, text)


def safe_lines(text: str) -> list[str]:
    """Return the lines of the text, each safe to draw. An empty text is one empty line."""
    return [safe_text(line) for line in text.split("\n")]


def safe_block(text: str) -> str:
    """Return the text as `safe_text` does, but keep its lines and tabs: for an agent, not for a terminal."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(safe_text(part) for part in line.split("\t")) for line in lines)


def strict_text(text: str) -> str:
    """Return `safe_text` of a text that a person approves, with look-alikes and long gaps as tokens too.

    Also marked are letters that look like ASCII letters where they can mislead (`lookalikes`), spaces other
    than the ASCII one, and runs of more than 8 spaces or tabs, as `⟦U+0020×12⟧`. Different texts stay
    different.
    """
    safe = safe_text(text)
    if not safe.isascii():
        from flysafe.lookalikes import mark_lookalikes  # only text beyond ASCII needs the tables

        safe = mark_lookalikes(safe)
    return _long_runs().sub(_draw_run, safe)


def indented_text(text: str) -> str:
    """Return `strict_text` of one line of a text whose lines are indented, with its indent as it is.

    Up to `LONGEST_INDENT` spaces in front of a character stay spaces: what follows them is still on the
    screen. Different texts stay different.
    """
    body = text.lstrip(" ")
    indent = len(text) - len(body)
    if not body or indent > LONGEST_INDENT:
        return strict_text(text)
    return text[:indent] + strict_text(body)


@cache
def _long_runs() -> re.Pattern[str]:
    return re.compile(f"(?: |{re.escape(_TAB)}){{{_LONGEST_RUN + 1},}}")


def _draw_run(match: re.Match[str]) -> str:
    parts = re.finditer(r"(?P<space> +)|(?P<tabs>[^ ]+)", match[0])
    return "".join(
        f"{OPEN}U+0020×{len(part[0])}{CLOSE}"
        if part["space"]
        else f"{OPEN}U+0009×{len(part[0]) // len(_TAB)}{CLOSE}"
        for part in parts
    )


def line_filter(text: str) -> str:
    """Return the text with `·` for each character that controls a terminal or changes the direction of text.

    This is the last check before text is written to a terminal. Text that passed `safe_text` stays unchanged.
    Newlines are replaced as well, because the caller writes lines one by one.
    """
    if text.isascii():
        return text if text.isprintable() else _ASCII_CONTROL.sub(FILLER, text)
    return _compiled(_CONTROLS).sub(FILLER, text)
