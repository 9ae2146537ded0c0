"""The checks of Doctor about the terminal on which it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flycore.model.diagnostics import Check, CheckState, Fix, FixKind

MIN_SIZE = (60, 20)
"""Columns and rows. In a smaller terminal the console is hard to read."""


@dataclass(frozen=True, slots=True)
class TmuxFacts:
    """Facts about the tmux in which the console runs."""

    found: bool
    """Whether the program `tmux` is on PATH."""
    clipboard: str
    """The option `set-clipboard`; empty where tmux did not answer."""


@dataclass(frozen=True, slots=True)
class TerminalFacts:
    """Facts about a terminal."""

    size: tuple[int, int] | None
    """Columns and rows; None where there is no terminal."""
    encoding: str
    environ: Mapping[str, str]
    tmux: TmuxFacts | None
    """None outside tmux."""


def terminal_checks(facts: TerminalFacts) -> Iterator[Check]:
    """The checks of size and encoding, of the colours, and of tmux."""
    yield _glyph_check(facts)
    if facts.size is not None:
        yield _colour_check(facts.environ)
    if facts.tmux is not None:
        yield from _tmux_checks(facts.tmux)


def _glyph_check(facts: TerminalFacts) -> Check:
    """Whether the console and its characters can be drawn here."""
    size, name = facts.size, "terminal"
    if size is None:
        return Check(name=name, state=CheckState.OK, message="none: commands print plain text")
    if size[0] < MIN_SIZE[0] or size[1] < MIN_SIZE[1]:
        least = "×".join(map(str, MIN_SIZE))
        return Check(
            name=name,
            state=CheckState.WARN,
            message=f"{size[0]}×{size[1]} is small",
            fix=f"make the window at least {least}",
        )
    if facts.encoding.lower().replace("-", "") != "utf8":
        return Check(
            name=name,
            state=CheckState.WARN,
            message=f"its encoding is {facts.encoding}",
            fix="set LANG=C.UTF-8",
        )
    kind = facts.environ.get("TERM", "unknown")
    return Check(name=name, state=CheckState.OK, message=f"{kind}, {size[0]}×{size[1]}")


def _colour_check(environ: Mapping[str, str]) -> Check:
    """How many colours are drawn. With few colours only pictures look worse, since every state has its
    word."""
    name, kind = "colours", environ.get("TERM", "")
    if environ.get("NO_COLOR"):
        return Check(name=name, state=CheckState.OK, message="none, as NO_COLOR asks; states are words")
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or kind.endswith("-direct"):
        return Check(name=name, state=CheckState.OK, message="24 bit")
    if "256color" in kind:
        return Check(name=name, state=CheckState.OK, message="256; pictures are drawn in the nearest of them")
    return Check(
        name=name,
        state=CheckState.WARN,
        message=f"TERM={kind or '(not set)'} promises few, so pictures are coarse",
        fix="set TERM=xterm-256color where the terminal can do it, or COLORTERM=truecolor",
    )


def _tmux_checks(tmux: TmuxFacts) -> Iterator[Check]:
    """Whether tmux is found, which knows the windows that show the console, and whether it passes on copied
    text."""
    if not tmux.found:
        yield Check(
            name="tmux",
            state=CheckState.WARN,
            message="not on PATH: it tells which windows show this console",
            fix="install tmux (Debian: apt install tmux)",
        )
        return
    notices = "the terminal's own notices end in tmux; its bell and flytui status --format tmux do not"
    yield Check(name="tmux", state=CheckState.OK, message=f"found on PATH; {notices}")
    if tmux.clipboard == "on":
        yield Check(name="clipboard", state=CheckState.OK, message="tmux passes on what y copies")
    else:
        state = f"set-clipboard is {tmux.clipboard}" if tmux.clipboard else "tmux does not say what it does"
        yield Check(
            name="clipboard",
            state=CheckState.WARN,
            message=f"{state}, so what y copies may not reach the clipboard",
            fix="tmux set-option -s set-clipboard on",
            remedy_fix=Fix(
                kind=FixKind.COMMAND,
                words="let tmux pass on what is copied, until it ends",
                argv=("tmux", "set-option", "-s", "set-clipboard", "on"),
            ),
        )
