"""The processes that the supervisor starts, the console and a kernel for each root, and what connects it with
each of them.

From a child to the supervisor goes a pipe of lines, and the other way a socket or a pipe of its own. One
socket for both directions would lose messages: where a process ends with messages unread, the other side of a
Unix socket gets a reset instead of what that process had sent before.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from flysafe.unix_sockets import send_descriptor

CRASHED = 70
"""The exit status of a child that failed by a defect; the same as EX_SOFTWARE in sysexits.h."""
END_CALLS = "end-calls"
"""The order to a kernel that waits for the root: to end the calls of the kernel that has it."""
SERVE = "serve"
"""The order to the kernel to go on as `flytui serve`."""
MAX_UNREAD_CHARS = 64 * 1024


class ConsoleEnds(NamedTuple):
    """What the console's process is handed."""

    messages: socket.socket
    """Messages of the supervisor, some with a connection to a kernel. The second word of each is the place of
    the kernel's root among the roots, from 0. Its end asks the console to leave."""
    reports: int
    """The pipe for lines to the supervisor."""


class KernelEnds(NamedTuple):
    """What the kernel's process is handed."""

    consoles: socket.socket
    """The connections of consoles, as `flycore.server.handed_over` reads them."""
    orders: int
    """The pipe of lines from the supervisor. Its end asks the kernel to end."""
    reports: int
    """The pipe for lines to the supervisor."""


class Child:
    """A child process, from the supervisor's side."""

    def __init__(self, pid: int, reports: int, closed: Iterable[Callable[[], None]]) -> None:
        self.pid = pid
        self.reports = reports
        self._closed = tuple(closed)
        self._unread = b""
        os.set_blocking(reports, False)

    def lines(self) -> list[str]:
        """Return the whole lines that the child has written since the last call."""
        with suppress(BlockingIOError):
            while len(self._unread) < MAX_UNREAD_CHARS and (data := os.read(self.reports, 65_536)):
                self._unread += data
        *whole, self._unread = self._unread.split(b"\n")
        if len(self._unread) >= MAX_UNREAD_CHARS:
            self._unread = b""
        return [line.decode("utf-8", "replace") for line in whole]

    def ended(self) -> int | None:
        """Return the exit status, negative for a signal; None while the child runs."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return CRASHED
        return os.waitstatus_to_exitcode(status) if pid else None

    def stopped(self) -> bool:
        """Return whether the child is stopped, or has ended."""
        try:
            wanted = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.pid, wanted) is not None
        except ChildProcessError:
            return True

    def signal(self, number: int) -> None:
        """Send a signal to the child, which has not been reaped yet."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def close(self) -> None:
        """Close everything that connects the supervisor with the child."""
        for close in self._closed:
            close()
        os.close(self.reports)


class ConsoleChild(Child):
    """The console's process."""

    def __init__(self, pid: int, messages: socket.socket, reports: int) -> None:
        super().__init__(pid, reports, [messages.close])
        self._messages = messages

    def send(self, message: str, connection: socket.socket | None = None) -> None:
        """Send a message. Where the console is gone, or does not read, the message is dropped."""
        with suppress(OSError):
            descriptor = None if connection is None else connection.fileno()
            send_descriptor(self._messages, message.encode("utf-8"), descriptor)

    def ask_to_leave(self) -> None:
        """End the messages: the console leaves, and restores the terminal itself."""
        self._messages.close()


class KernelChild(Child):
    """The kernel's process."""

    def __init__(self, pid: int, consoles: socket.socket, orders: int, reports: int) -> None:
        self._orders = orders
        super().__init__(pid, reports, [consoles.close, self.ask_to_end])
        self._consoles = consoles
        self.ready = False
        """Whether it accepts consoles."""

    def hand_over(self, connection: socket.socket, console: int) -> None:
        """Hand over a connection, at whose other end the console of that process id is."""
        with suppress(OSError):
            send_descriptor(self._consoles, str(console).encode("ascii"), connection.fileno())

    def order(self, word: str) -> None:
        """Give the kernel the order SERVE or END_CALLS."""
        with suppress(OSError):
            os.write(self._orders, f"{word}\n".encode("ascii"))

    def ask_to_end(self) -> None:
        """End the orders: the kernel ends its calls, and itself."""
        if self._orders >= 0:
            os.close(self._orders)
            self._orders = -1


def start_console(run: Callable[[ConsoleEnds], int], prepare: Callable[[], None]) -> ConsoleChild:
    """Start the console's process. `prepare` runs in it first."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    reading, writing = os.pipe()

    def console() -> int:
        prepare()
        ours.close()
        os.close(reading)
        return run(ConsoleEnds(theirs, writing))

    pid = fork(console)
    theirs.close()
    os.close(writing)
    return ConsoleChild(pid, ours, reading)


def start_kernel(run: Callable[[KernelEnds], int], prepare: Callable[[], None]) -> KernelChild:
    """Start the kernel's process, in a session of its own and without the terminal as standard stream.
    `prepare` runs in it first."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    reading, writing = os.pipe()
    orders_in, orders_out = os.pipe()

    def kernel() -> int:
        prepare()
        ours.close()
        os.close(reading)
        os.close(orders_out)
        # Keys and hang-ups of the terminal are the console's. The kernel ends when its supervisor does.
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        if null > 2:
            os.close(null)
        return run(KernelEnds(theirs, orders_in, writing))

    pid = fork(kernel)
    theirs.close()
    os.close(writing)
    os.close(orders_in)
    return KernelChild(pid, ours, orders_out, reading)


def fork(run: Callable[[], int]) -> int:
    """Start a process that runs `run` and ends with its result. Return its id.

    The supervisor has one thread, so that a fork without exec is safe. It also saves each child the start of
    an interpreter.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # No signal may reach the child while it still has the supervisor's handlers.
    everything = set(signal.Signals)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, everything)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return pid
    status = CRASHED
    # The frames of the supervisor are below this one, and nothing of theirs may run in the child.
    try:
        status = run()
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 1
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status & 0xFF)


def adopt_signals(handlers: dict[signal.Signals, object]) -> None:
    """In a new child: take the signal handlers that were in force before the supervisor's, and let signals in
    again."""
    signal.set_wakeup_fd(-1)
    for number, handler in handlers.items():
        signal.signal(number, handler)  # type: ignore[arg-type] # as `signal.getsignal` returned it
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
