"""INT, TERM and HUP end a command by cancelling it, so that what it started is ended too."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The person pressed ctrl-c, somebody asked the process to stop, the terminal was closed."""


class Interrupted(Exception):
    """A signal ended the command; clean-up has run."""

    def __init__(self, signum: int) -> None:
        self.signum = signum
        super().__init__(signal.Signals(signum).name)

    @property
    def exit_code(self) -> int:
        """What a shell shows for that signal: 130 for INT, 143 for TERM, 129 for HUP."""
        return 128 + self.signum


def run_async(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` to its end on asyncio.

    The first of ENDING cancels it; later ones change nothing, because clean-up is bounded by itself.
    Raises Interrupted once the clean-up is through, even where a result was there: no signal is lost,
    and what may not be lost with it has to be kept by `work`. What `work` raises comes as itself, not
    wrapped in the groups of the tasks it passed.
    """
    import asyncio

    import anyio

    caught: list[int] = []
    try:
        result = anyio.run(_until_signalled, work, caught)
    except BaseExceptionGroup as group:
        raise _only(group) from None
    except asyncio.CancelledError:  # INT came before our handlers: asyncio's own cancels the main task
        raise Interrupted(signal.SIGINT) from None
    if caught or result is None:
        raise Interrupted(caught[0])
    return result[0]


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one exception a task group wrapped; the group itself where it holds several."""
    leaf: BaseException = group
    while isinstance(leaf, BaseExceptionGroup) and len(leaf.exceptions) == 1:
        leaf = leaf.exceptions[0]
    return group if isinstance(leaf, BaseExceptionGroup) else leaf


async def _until_signalled(work: Callable[[], Awaitable[T]], caught: list[int]) -> tuple[T] | None:
    """The result, or None where a signal ended it. The loop keeps the handlers until it closes, so that
    no signal falls between. A HUP that is ignored at the start stays so: that is what nohup asks for."""
    import asyncio

    import anyio

    loop = asyncio.get_running_loop()
    with anyio.CancelScope() as scope:

        def stop(signum: int) -> None:
            caught.append(signum)
            scope.cancel()

        for signum in ENDING_SIGNALS:
            if signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN:
                continue
            loop.add_signal_handler(signum, stop, signum)
        return (await work(),)
    return None
