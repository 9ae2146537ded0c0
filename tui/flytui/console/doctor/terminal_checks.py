"""What Doctor checks of the terminal it is shown on, as pure functions over what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flycore.model.diagnostics import Check, CheckState, Fix, FixKind

MIN_SIZE = (60, 20)
"""Columns and rows below which the console is hard to read."""


@dataclass(frozen=True, slots=True)
class TmuxFacts:
    """The tmux that the terminal lies in."""

    found: bool
    """Whether the program `tmux` is on PATH."""
    clipboard: str
    """Its option `set-clipboard`; `""` where it did not say."""


@dataclass(frozen=True, slots=True)
class TerminalFacts:
    """A terminal as it was found."""

    size: tuple[int, int] | None
    """Columns and rows; None where there is no terminal."""
    encoding: str
    environ: Mapping[str, str]
    tmux: TmuxFacts | None
    """None outside tmux."""


def terminal_checks(facts: TerminalFacts) -> Iterator[Check]:
    """Size and encoding, colours, and what tmux between here and there lets through."""
    yield _glyph_check(facts)
    if facts.size is not None:
        yield _colour_check(facts.environ)
    if facts.tmux is not None:
        yield from _tmux_checks(facts.tmux)


def _glyph_check(facts: TerminalFacts) -> Check:
    """Whether the console can be drawn here."""
    size, name = facts.size, "terminal"
    if size is None:
        return Check(name=name, state=CheckState.OK, message="none: commands print plain text")
    if size[0] < MIN_SIZE[0] or size[1] < MIN_SIZE[1]:
        wanted = "×".join(map(str, MIN_SIZE))
        return Check(
            name=name,
            state=CheckState.WARN,
            message=f"{size[0]}×{size[1]} is small",
            fix=f"make the window at least {wanted}",
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
    """How many colours are drawn. Fewer take nothing away but pictures: states are words."""
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
    """The program, which tells where this console is shown, and whether it passes on what is copied."""
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
        said = f"set-clipboard is {tmux.clipboard}" if tmux.clipboard else "tmux does not say what it does"
        yield Check(
            name="clipboard",
            state=CheckState.WARN,
            message=f"{said}, so what y copies may not reach the clipboard",
            fix="tmux set-option -s set-clipboard on",
            remedy_fix=Fix(
                kind=FixKind.COMMAND,
                words="let tmux pass on what is copied, until it ends",
                argv=("tmux", "set-option", "-s", "set-clipboard", "on"),
            ),
        )
