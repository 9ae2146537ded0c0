"""Lending the terminal to another program, and taking it back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual.app import App

from flytui.console.desk import ALL_TOPICS, ConsoleState, Topic


async def suspend_for(
    app: App[None],
    desk: ConsoleState,
    play: Callable[[], Awaitable[None]],
    told: Callable[[frozenset[Topic]], Awaitable[None]],
) -> None:
    """Let `play` have the terminal to its end. Everything goes on meanwhile except drawing; what came up
    shows through `told` when the person is back, whose keys until then were the other program's."""
    desk.suspended = True
    try:
        with app.batch_update(), app.suspend():
            await play()
    finally:
        desk.suspended = False
        desk.last_key = desk.clock()
    await told(ALL_TOPICS)
