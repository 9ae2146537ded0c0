"""Cancels a command on INT, TERM or HUP, so that everything the command started is ended too."""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

T = TypeVar("T")

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""They are sent when the person presses ctrl-c, when somebody asks the process to stop, and when the terminal
is closed."""


class SignalInterrupt(Exception):
    """A signal ended the command, and its clean-up is done."""

    def __init__(self, signum: int) -> None:
        self.signum = signum
        super().__init__(signal.Signals(signum).name)

    @property
    def exit_code(self) -> int:
        """The exit code that shells use for that signal: 130 for INT, 143 for TERM, 129 for HUP."""
        return 128 + self.signum


class _SignalWatch:
    """Collects ENDING_SIGNALS and cancels the work at the first of them."""

    def __init__(self) -> None:
        self.caught: list[int] = []
        self._cancel: Callable[[], object] = lambda: None

    def on_signal(self, signum: int, frame: object) -> None:
        """Handle a signal, between two instructions of the main thread."""
        self.caught.append(signum)
        self._cancel()

    def cancel_with(self, cancel: Callable[[], object]) -> None:
        """Call `cancel` at the next signal, and at once where one came already."""
        self._cancel = cancel
        if self.caught:
            cancel()


def run_async(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` on asyncio and return its result.

    The first of ENDING_SIGNALS cancels `work`. Further ones change nothing, because every clean-up has a
    limit of its own. Raises SignalInterrupt after the clean-up, even where `work` had a result, so that no
    signal is lost: `work` itself has to keep what must not be lost with its result. An exception of `work` is
    raised without the exception groups around it.
    """
    import anyio

    watch = _SignalWatch()
    # Handlers of the loop would end with it, and the next signal of a storm would end the process while it
    # still cleans up. These stay, and never give way to the system's own for a moment.
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    for number, handler in before.items():
        # nohup starts a program with HUP ignored, and it has to stay ignored.
        if handler is not signal.SIG_IGN:
            signal.signal(number, watch.on_signal)
    try:
        result = anyio.run(_until_signalled, work, watch)
    except BaseExceptionGroup as group:
        raise _only(group) from None
    finally:
        if not watch.caught:
            for number, handler in before.items():
                signal.signal(number, handler)
    if watch.caught or result is None:
        raise SignalInterrupt(watch.caught[0])
    return result[0]


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The only exception in the group; the group itself where it has several."""
    leaf: BaseException = group
    while isinstance(leaf, BaseExceptionGroup) and len(leaf.exceptions) == 1:
        leaf = leaf.exceptions[0]
    return group if isinstance(leaf, BaseExceptionGroup) else leaf


async def _until_signalled(work: Callable[[], Awaitable[T]], watch: _SignalWatch) -> tuple[T] | None:
    """The result of `work`, or None where a signal ended it."""
    import asyncio

    import anyio

    loop = asyncio.get_running_loop()
    with anyio.CancelScope() as scope:
        watch.cancel_with(lambda: loop.is_closed() or loop.call_soon_threadsafe(scope.cancel))
        return (await work(),)
    return None


def end_on_signals() -> None:
    """End the process at the first of ENDING_SIGNALS with its exit code, and ignore those after it."""
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _exit)


def ignore_signals() -> None:
    """Ignore ENDING_SIGNALS, because the process ends already and has its exit code."""
    # The interpreter gives the system's handlers back before it has ended.
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _exit(signum: int, frame: object) -> NoReturn:
    ignore_signals()
    sys.exit(128 + signum)
