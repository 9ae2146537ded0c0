"""The terminal's title: how many requests wait, for people who look at another window."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TextIO

from flytui.console.desk import Desk
from flytui.console.paint import span

MOST_CHARACTERS = 80
_KEEP, _PUT_BACK = "\x1b[22;2t", "\x1b[23;2t"
"""XTWINOPS: the terminal keeps its title on a stack. One that has no stack ignores both."""


def title_words(desk: Desk) -> str:
    """`▲ 2 waiting · shop · flytui`; what waits first, because titles are cut at their end."""
    waiting = len(desk.waiting)
    asks = [f"{'▲ ' if desk.high_waiting else ''}{waiting} waiting"] if waiting else []
    words = " · ".join([*asks, PurePath(desk.title).name or desk.title, "flytui"])
    return span(words).text[:MOST_CHARACTERS]


def title_sequence(desk: Desk) -> str:
    """What tells a terminal its title; the words in it are safe."""
    return f"\x1b]2;{title_words(desk)}\x07"


@contextmanager
def kept_title(stream: TextIO | None) -> Iterator[None]:
    """The terminal's own title comes back at the end of the block, whatever ends it."""
    if stream is None or not stream.isatty():
        yield
        return
    _write(stream, _KEEP)
    try:
        yield
    finally:
        _write(stream, _PUT_BACK)


def _write(stream: TextIO, sequence: str) -> None:
    stream.write(sequence)
    stream.flush()
