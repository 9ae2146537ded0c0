"""Which code points may not reach a terminal as they are.

Three tiers, so that ordinary text costs next to nothing: `PLAIN` accepts whole blocks known to be harmless,
`CONTROLS` names what is never drawn, and `dangerous()` is the exact answer for everything else. It is built
on first use (some 20 ms) from this Python's Unicode tables and the names below, which are newer than them.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from functools import cache

OPEN, CLOSE = "\u27e6", "\u27e7"
"""The brackets of a visible token. OPEN in the text itself becomes a token, so tokens cannot be forged."""

PLAIN = re.compile(
    "[ -~\u00a0-\u00ac\u00ae-\u02ff\u0388-\u038a\u038e-\u03a1\u03a3-\u0482\u048a-\u052f\u1e00-\u1eff"
    "\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2100-\u218b\u2190-\u23ff\u2500-\u27bf"
    "\u3000-\u3029\u3030-\u303f\u3041-\u3096\u309b-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff9f"
    "\U0001f300-\U0001f64f\U0001f900-\U0001f9ff]*"
)
"""Text wholly of these needs no further look. Only assigned, visible, spacing characters."""

CONTROLS = re.compile(
    "[\0-\x1f\x7f-\x9f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control, format, bidi and separator characters, surrogates and the whole block of tags."""

_INVISIBLE = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U000133fc-\U000133ff"
)
"""Assigned, and drawn as nothing: joiners, fillers, the empty Braille cell, variation selectors."""

_JAMO = "\u1160-\u11ff\ud7b0-\ud7ff"
"""Hangul vowels and finals: letters that terminals stack on the one before, like marks."""

_FIRST_MARK = 0x300
_PLANES = 0x40000
"""Above the first four planes nothing may pass: private use, tags, and what is not assigned."""


def _ranges(points: list[int]) -> str:
    """The code points as the inside of a character class."""
    spans: list[tuple[int, int]] = []
    for point in points:
        if spans and spans[-1][1] == point - 1:
            spans[-1] = (spans[-1][0], point)
        else:
            spans.append((point, point))
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in spans)


@functools.cache
def dangerous() -> re.Pattern[str]:
    """Matches each character that has to become a token, the third mark on a base and later ones included.

    Covered: Cc, Cf, Cs, Co, Cn, Zl, Zp, the invisible ones, and OPEN. Linear in the text.
    """
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
    return re.compile(f"{never}|{CONTROLS.pattern}|(?<={stacking}{{2}}){stacking}")


# Text from outside, made safe to draw.
#
# Every string a sidecar, a caller or a file brought along passes through here on its way to a terminal.
# What a terminal would obey, and what a person could not see, becomes a visible token such as `⟦U+202E⟧`.
# `⟦` itself becomes one too: different texts stay different, and a token on the screen is always ours.


FILLER = "·"
"""What `line_filter` puts in place of a character that must not reach the terminal; one cell wide."""

_ASCII_CONTROL = re.compile("[\0-\x1f\x7f]")
_TAB = f"{OPEN}U+0009{CLOSE}"
_LONGEST_RUN = 8
"""More spaces than this in a row can push what follows off the screen."""


def token(character: str) -> str:
    """The visible name of one character."""
    return f"{OPEN}U+{ord(character):04X}{CLOSE}"


def _token_of(match: re.Match[str]) -> str:
    return token(match[0])


def safe_text(text: str) -> str:
    """One line that can be drawn anywhere: nothing in it is obeyed by a terminal, nothing is hidden.

    Control (newline and tab too), format, bidi, zero-width and invisible characters, line and paragraph
    separators, surrogates, private and unassigned code points become tokens; so does each combining mark
    after the second in a row. Injective: replacing each token by its character gives the text back.
    """
    if text.isascii():
        return text if text.isprintable() else _ASCII_CONTROL.sub(_token_of, text)
    if PLAIN.fullmatch(text):
        return text
    return dangerous().sub(_token_of, text)


def safe_lines(text: str) -> list[str]:
    """The text split at its newlines, each line safe to draw. An empty text is one empty line."""
    return [safe_text(line) for line in text.split("\n")]


def strict_text(text: str) -> str:
    """`safe_text` for what a person approves: what only looks like something else is a token as well.

    In addition to `safe_text`: letters that pass for ASCII ones where they can mislead (see `scripts`),
    spaces that are not the ASCII one, and runs of more than 8 spaces or tabs, drawn as `⟦U+0020×12⟧`.
    Injective like `safe_text`.
    """
    safe = safe_text(text)
    if not safe.isascii():
        from flysafe.lookalikes import mark_lookalikes  # only text beyond ASCII needs the tables

        safe = mark_lookalikes(safe)
    return _long_runs().sub(_draw_run, safe)


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
    """The last line of defence, for text that is about to be written to a terminal.

    Whatever controls a terminal or turns text round is replaced, one for one, by `·`. Text that went through
    `safe_text` holds none of it and comes back unchanged. Newlines are replaced as well: segments hold none.
    """
    if text.isascii():
        return text if text.isprintable() else _ASCII_CONTROL.sub(FILLER, text)
    return CONTROLS.sub(FILLER, text)
