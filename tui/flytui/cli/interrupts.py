"""Cancels a command on INT, TERM or HUP, so that everything the command started is ended too."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

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


def run_async(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` on asyncio and return its result.

    The first of ENDING_SIGNALS cancels `work`. Further ones change nothing, because every clean-up has a
    limit of its own. Raises SignalInterrupt after the clean-up, even where `work` had a result, so that no
    signal is lost: `work` itself has to keep what must not be lost with its result. An exception of `work` is
    raised without the exception groups around it.
    """
    import asyncio

    import anyio

    caught: list[int] = []
    try:
        result = anyio.run(_until_signalled, work, caught)
    except BaseExceptionGroup as group:
        raise _only(group) from None
    except asyncio.CancelledError:  # INT came before our handlers, and asyncio's own cancelled the main task
        raise SignalInterrupt(signal.SIGINT) from None
    if caught or result is None:
        raise SignalInterrupt(caught[0])
    return result[0]


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The only exception in the group; the group itself where it has several."""
    leaf: BaseException = group
    while isinstance(leaf, BaseExceptionGroup) and len(leaf.exceptions) == 1:
        leaf = leaf.exceptions[0]
    return group if isinstance(leaf, BaseExceptionGroup) else leaf


async def _until_signalled(work: Callable[[], Awaitable[T]], caught: list[int]) -> tuple[T] | None:
    """The result of `work`, or None where a signal ended it; `caught` collects the signals."""
    import asyncio

    import anyio

    loop = asyncio.get_running_loop()
    with anyio.CancelScope() as scope:

        def stop(signum: int) -> None:
            caught.append(signum)
            scope.cancel()

        # The loop keeps these handlers until it closes, so that no signal is lost after `work` has returned.
        for signum in ENDING_SIGNALS:
            # nohup starts a program with HUP ignored, and it has to stay ignored.
            if signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN:
                continue
            loop.add_signal_handler(signum, stop, signum)
        return (await work(),)
    return None
