"""Text from outside, made safe to draw.

Every string a sidecar, a caller or a file brought along passes through here on its way to a terminal. What a
terminal would obey, and what a person could not see, becomes a visible token such as `⟦U+202E⟧`. `⟦` itself
becomes one too: different texts stay different, and a token on the screen is always ours.
"""

from __future__ import annotations

import re
from functools import cache

from flysafe.codepoints import CLOSE, CONTROLS, OPEN, PLAIN, dangerous

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
        from flysafe.scripts import mark_lookalikes  # only text beyond ASCII needs the tables

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
