"""The terminal's title and notices: how many requests wait, for people who look at another window."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TextIO

from flycore.model.approval import highest_waiting
from flytui.console.state import SharedState
from flytui.text.lines import span

MAX_TITLE_CHARACTERS = 80
MAX_NOTICE_CHARACTERS = 200
PUSH_TITLE, _POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
"""XTWINOPS: the terminal keeps its title on a stack. One that has no stack ignores both."""


def title_text(shared: SharedState) -> str:
    """The terminal's title, such as `▲ 2 waiting · shop · flytui`. With several roots it names that of the
    request that waits longest, or else how many there are."""
    # The count comes first, because terminals and task bars cut a title at its end.
    waiting, title = shared.waiting, shared.shown.title
    asks = [f"{'▲ ' if shared.high_waiting else ''}{len(waiting)} waiting"] if waiting else []
    first = [waiting[0].effect] if waiting else []
    name = PurePath(title).name or title
    if shared.several:
        name = waiting[0].root.name if waiting else f"{len(shared.roots)} roots"
    words = " · ".join([*asks, *first, name, "flytui"])
    return span(words).text[:MAX_TITLE_CHARACTERS]


def title_sequence(shared: SharedState) -> str:
    """The escape sequence that sets the terminal's title. Its text has no control characters."""
    return f"\x1b]2;{title_text(shared)}\x07"


def notice_text(shared: SharedState) -> str:
    """The text of a notice, such as `flytui: 2 waiting, high: POST "https://api.example"`. It says what the
    request that waits longest would do, in the sentence of its card."""
    waiting = shared.waiting
    risk = highest_waiting([queued.ask for queued in waiting])
    root = f"{waiting[0].root.name}: " if waiting and shared.several else ""
    first = f": {root}{waiting[0].effect}" if waiting else ""
    words = f"flytui: {len(waiting)} waiting{f', {risk.value}' if risk is not None else ''}{first}"
    return words[:MAX_NOTICE_CHARACTERS]


def notice_sequence(shared: SharedState) -> str:
    """The escape sequences for a notice of the terminal, OSC 9 and OSC 777. A terminal that knows neither
    shows nothing."""
    words = notice_text(shared)
    return f"\x1b]9;{words}\x07\x1b]777;notify;flytui;{words.removeprefix('flytui: ')}\x07"


@contextmanager
def restored_title(stream: TextIO | None) -> Iterator[None]:
    """Restore the terminal's title at the end of the block, whatever ends it."""
    if stream is None or not stream.isatty():
        yield
        return
    _write(stream, PUSH_TITLE)
    try:
        yield
    finally:
        _write(stream, _POP_TITLE)


def _write(stream: TextIO, sequence: str) -> None:
    stream.write(sequence)
    stream.flush()
