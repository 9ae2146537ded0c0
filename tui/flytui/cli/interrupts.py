"""Cancels a command on INT, TERM or HUP, so that everything the command started is ended too."""

from __future__ import annotations

import operator
import signal
import socket
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
    """Collects ENDING_SIGNALS without a line of Python in their handlers.

    The interpreter runs a handler between two instructions of the main thread, those of a handler included.
    A handler in Python therefore runs inside itself when signals come faster than it ends, until the
    recursion limit ends the process. Here the interpreter writes the number of each signal to a socket, and
    the handler is a function in C that does nothing.
    """

    def __init__(self) -> None:
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        self.caught: int | None = None
        self._before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
        # A full socket holds a signal already, so that a warning about it would say nothing new.
        self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._watched = [number for number, handler in self._before.items() if handler is not signal.SIG_IGN]
        # nohup starts a program with HUP ignored, and it has to stay ignored.
        for number in self._watched:
            signal.signal(number, operator.is_)

    def read(self) -> bool:
        """Whether one of the signals has come; the first one is kept in `caught`."""
        while self.caught is None:
            try:
                numbers = self.reader.recv(4096)
            except BlockingIOError:
                break
            self.caught = next((number for number in numbers if number in self._watched), None)
        return self.caught is not None

    def close(self) -> None:
        """Give back the handlers of before, but not after a signal: the next one would end the clean-up."""
        if not self.read():
            for number, handler in self._before.items():
                signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self.reader.close()
        self._writer.close()


def run_async(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` on asyncio and return its result.

    The first of ENDING_SIGNALS cancels `work`. Further ones change nothing, because every clean-up has a
    limit of its own. Raises SignalInterrupt after the clean-up, even where `work` had a result, so that no
    signal is lost: `work` itself has to keep what must not be lost with its result. An exception of `work` is
    raised without the exception groups around it.
    """
    # The console's supervisor, which stays small, imports this module.
    import anyio

    watch = _SignalWatch()
    results: list[T] = []
    try:
        anyio.run(_until_signalled, work, watch, results)
    except BaseExceptionGroup as group:
        raise _only(group) from None
    finally:
        # Handlers of the loop would end with it, and the next signal of a storm would end the process while
        # it still cleans up. These stay, and never give way to the system's own for a moment.
        watch.close()
    if watch.caught is not None:
        raise SignalInterrupt(watch.caught)
    return results[0]


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The only exception in the group; the group itself where it has several."""
    leaf: BaseException = group
    while isinstance(leaf, BaseExceptionGroup) and len(leaf.exceptions) == 1:
        leaf = leaf.exceptions[0]
    return group if isinstance(leaf, BaseExceptionGroup) else leaf


async def _until_signalled(work: Callable[[], Awaitable[T]], watch: _SignalWatch, results: list[T]) -> None:
    """Put the result of `work` into `results`, where no signal ended it."""
    # As above.
    import asyncio

    import anyio

    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if watch.read():
            # Whatever else a storm writes is not read, and must not keep the loop busy during the clean-up.
            loop.remove_reader(watch.reader)
            scope.cancel()

    with anyio.CancelScope() as scope:
        loop.add_reader(watch.reader, on_signal)
        try:
            results.append(await work())
        finally:
            loop.remove_reader(watch.reader)


def end_on_signals() -> None:
    """End the process at the first of ENDING_SIGNALS with its exit code, and ignore those after it."""
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _exit)


def ignore_signals() -> None:
    """Ignore ENDING_SIGNALS, because the process ends already and has its exit code."""
    # A signal that came already is handled here, by the handlers there are. Where it meets SIG_IGN instead,
    # the interpreter prints a traceback about a race. SIG_IGN is needed too: the interpreter gives the
    # system's handlers back before it has ended, and another thread may take a signal that this one blocks.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _exit(signum: int, frame: object) -> NoReturn:
    ignore_signals()
    sys.exit(128 + signum)
