"""The checks of Doctor about the terminal on which it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from flycore.model.diagnostics import Check, CheckState, Fix, FixKind
from flytui.console.colour_depth import ColourDepth, colour_depth
from flytui.console.terminal_guard import KeyRisk
from flytui.text.labels import plural

MIN_SIZE = (60, 20)
"""Columns and rows. In a smaller terminal the console is hard to read."""


class TmuxFacts(msgspec.Struct, frozen=True):
    """Facts about the tmux in which the console runs."""

    found: bool
    """Whether the program `tmux` is on PATH."""
    clipboard: str
    """The option `set-clipboard`; empty where tmux did not answer."""
    focus_events: str = ""
    """The option `focus-events`; empty where tmux did not answer."""


class TerminalFacts(msgspec.Struct, frozen=True):
    """Facts about a terminal."""

    size: tuple[int, int] | None
    """Columns and rows; None where there is no terminal."""
    encoding: str
    environ: Mapping[str, str]
    tmux: TmuxFacts | None
    """None outside tmux."""
    key_risk: KeyRisk = msgspec.field(default_factory=KeyRisk)
    """Whether a program could type into the terminal."""
    dropped: int = 0
    """Sequences that the terminal sent and that the console dropped."""
    faults: int = 0
    """Those among them on which the toolkit's parser raised."""


def terminal_checks(facts: TerminalFacts) -> Iterator[Check]:
    """The checks of size and encoding, of the colours, and of tmux."""
    yield _glyph_check(facts)
    if facts.key_risk.root or facts.key_risk.tiocsti:
        yield _key_check(facts.key_risk)
    if facts.dropped or facts.faults:
        yield _input_check(facts)
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


def _key_check(risk: KeyRisk) -> Check:
    """Whether a program could press the keys of an approval."""
    as_user = "run flytui as an ordinary user"
    setting = "sysctl -w dev.tty.legacy_tiocsti=0"
    if risk.root:
        also = ", and dev.tty.legacy_tiocsti is 1" if risk.tiocsti else ""
        message = f"flytui runs as root{also}: a program that is not sandboxed can type into this terminal"
        fix = f"{as_user}; {setting}" if risk.tiocsti else as_user
    else:
        message = "dev.tty.legacy_tiocsti is 1: a program can type into the terminal that it belongs to"
        fix = setting
    return Check(name="forged keys", state=CheckState.WARN, message=message, fix=fix)


def _input_check(facts: TerminalFacts) -> Check:
    """How much of the terminal's input could not be read. None of it did anything."""
    what = plural(facts.dropped + facts.faults, "sequence")
    raised = f", {facts.faults} of them made the parser fail" if facts.faults else ""
    return Check(
        name="terminal input",
        state=CheckState.WARN if facts.faults else CheckState.OK,
        message=f"{what} of this terminal were not understood and dropped{raised}",
    )


def _colour_check(environ: Mapping[str, str]) -> Check:
    """How many colours are drawn. With few colours only pictures look worse, since every state has its
    word."""
    name, kind = "colours", environ.get("TERM", "")
    if environ.get("NO_COLOR"):
        return Check(name=name, state=CheckState.OK, message="none, as NO_COLOR asks; states are words")
    match colour_depth(environ):
        case ColourDepth.TRUE:
            return Check(name=name, state=CheckState.OK, message="24 bit")
        case ColourDepth.INDEXED:
            message = "256; pictures are drawn in the nearest of them"
            return Check(name=name, state=CheckState.OK, message=message)
    return Check(
        name=name,
        state=CheckState.WARN,
        message=f"TERM={kind or '(not set)'} promises few, so 16 are used and pictures are coarse",
        fix="set TERM=xterm-256color where the terminal can do it, or COLORTERM=truecolor",
    )


def _tmux_checks(tmux: TmuxFacts) -> Iterator[Check]:
    """Whether tmux is found, which knows the windows that show the console, and whether it passes on copied
    text and the focus."""
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
    if tmux.focus_events == "off":
        yield Check(
            name="keyboard focus",
            state=CheckState.WARN,
            message="focus-events is off, so a card cannot know that another window has the keyboard",
            fix="tmux set-option -s focus-events on, then detach and attach again",
        )
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
