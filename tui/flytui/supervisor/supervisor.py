"""The supervisor: it starts the console and a kernel for each root, connects them, and starts what died anew.

    flytui ── supervisor
                ├── kernel     what `flytui serve` runs; one for each root
                └── console    owns the terminal

It never runs a call and never draws. A console that dies decides nothing: the kernels keep what runs and what
waits, and the next console finds it. A kernel that cannot open its root, or dies, leaves the others: with one
root the command ends with it, with several the console says so.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from flysafe.control_groups import settle
from flytui.supervisor.children import (
    CRASHED,
    END_CALLS,
    SERVE,
    Child,
    ConsoleChild,
    ConsoleEnds,
    KernelChild,
    KernelEnds,
    adopt_signals,
    fork,
    start_console,
    start_kernel,
)
from flytui.supervisor.crash_report import CONSOLE_REPORT, KERNEL_REPORT, report_text, write_report
from flytui.supervisor.terminal_modes import TerminalModes

MAX_DEATHS = 3
"""Deaths of one process within `DEATHS_WITHIN_S` after which it is not started again."""
DEATHS_WITHIN_S = 60.0
CONSOLE_LEAVES_S = 10.0
"""Seconds that a console may take to leave when it is asked."""
KERNEL_ENDS_S = 60.0
"""Seconds that a kernel may take to end its calls and itself. It has limits of its own, which are shorter."""
SERVES_WITHIN_S = 10.0
"""Seconds that a kernel may take to go on alone."""
STOPS_WITHIN_S = 2.0
"""Seconds that a console may take to make the terminal an ordinary one, before the supervisor is stopped."""
MAX_SENT_CHARS = 500
"""Characters of a kernel's report that the console is sent: each has at most 4 bytes, and a message 4,096."""
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FAILED = 1


class KernelProgram(NamedTuple):
    """What the kernel's process of one root runs."""

    run: Callable[[KernelEnds], int]
    state_folder: Callable[[], str]
    """The folder of that root for crash reports. It is called only where one is written."""


class Programs(NamedTuple):
    """What the processes run. Each function runs in a process of its own and returns its exit status."""

    console: Callable[[ConsoleEnds, str], int]
    """Its second argument says why a console before it ended; empty for the first one."""
    kernels: tuple[KernelProgram, ...]
    """The kernel of each root."""
    companion: Callable[[], int] | None = None
    """A program that runs beside the first kernel that is ready, and is ended with the console."""


def supervise(programs: Programs) -> int:
    """Run kernels and console until the person leaves, and return the exit status of the command."""
    return _Supervisor(programs).run()


class _Deaths:
    """The latest deaths of one of the processes."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=MAX_DEATHS)

    def add(self) -> bool:
        """Count a death now, and return whether the process may be started again."""
        now = time.monotonic()
        self._times.append(now)
        return len(self._times) < MAX_DEATHS or now - self._times[0] > DEATHS_WITHIN_S


class _Root:
    """One root, and its kernel while one runs."""

    def __init__(self, place: int, program: KernelProgram) -> None:
        self.place = place
        """The place of the root among the roots, from 0, as messages to and from the console name it."""
        self.program = program
        self.kernel: KernelChild | None = None
        self.wanted = True
        """Whether a kernel is to run."""
        self.deaths = _Deaths()
        self.last_report: tuple[str, str] = ("", "")
        """The last report of the kernel that explains its end: its kind, and the rest of the line."""
        self.serve_wanted = False
        """Whether the kernel goes on when the console has left."""


class _Supervisor:
    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._modes = TerminalModes()
        self._console: ConsoleChild | None = None
        self._roots = [_Root(place, program) for place, program in enumerate(programs.kernels)]
        self._companion = 0
        self._console_deaths = _Deaths()
        self._console_report = ""
        """Path of the crash report that the console wrote itself."""
        self._lent = -1
        """A descriptor of the process that the console has lent the terminal to; -1 for none."""
        self._restart_notice: str | None = None
        """Why the last console died, while its place is empty."""
        self._exit: int | None = None
        """The exit status, once everything is asked to end."""
        self._sentences: list[str] = []
        """What is printed at the end, once the terminal is an ordinary one."""
        self._kill_at: dict[int, float] = {}
        """When a child that was asked to end is killed, by process id."""
        self._signalled: list[int] = []
        self._stop_at: float | None = None
        """When this process stops at the latest, once it was asked to."""
        self._handlers: dict[signal.Signals, Any] = {}
        self._wake, self._wake_writer = os.pipe()

    def run(self) -> int:
        """Start all processes, and return when all have ended."""
        self._take_signals()
        # Before the first child: only then can the group of this process limit the memory of calls.
        settle()
        try:
            self._start_console("")
            while self._children() or self._exit is None:
                self._start_what_is_missing()
                self._wait()
                self._handle_signals()
                self._stop_after_console()
                self._handle_console()
                for root in self._roots:
                    self._handle_kernel(root)
                self._kill_what_is_late()
        finally:
            self._end_companion()
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(-1)
        for sentence in self._sentences:
            # Imported only now: this process stays small while the console runs. The sentence names paths and
            # repeats what a kernel reported, and both may hold text from outside.
            from flysafe.text import safe_text

            print(safe_text(sentence), file=sys.stderr)  # noqa: T201 - click is not imported here
        return self._exit if self._exit is not None else FAILED

    # Starting and connecting.

    def _start_console(self, notice: str) -> None:
        self._console_report = ""
        for root in self._roots:
            root.wanted = True  # a new console does not know which of them have no kernel, or why
        console = self._console = start_console(
            lambda ends: self._programs.console(ends, notice), self._become_child
        )
        for root in self._roots:
            if root.kernel is not None and root.kernel.ready:
                _connect(console, root.place, root.kernel)

    def _start_what_is_missing(self) -> None:
        if self._exit is not None:
            return
        for root in self._roots:
            if root.kernel is None and root.wanted:
                root.last_report = ("", "")
                root.kernel = start_kernel(root.program.run, self._become_child)
        if self._restart_notice is not None and self._lent < 0:
            notice, self._restart_notice = self._restart_notice, None
            self._modes.restore()
            self._start_console(notice)

    def _become_child(self) -> None:
        """In a new child: close what belongs to the supervisor and to the other children."""
        for child in self._children():
            child.close()
        for descriptor in (self._wake, self._wake_writer, self._lent):
            if descriptor >= 0:
                os.close(descriptor)
        adopt_signals(self._handlers)

    # Signals.

    def _take_signals(self) -> None:
        for end in (self._wake, self._wake_writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        job_signals = (signal.SIGTSTP, signal.SIGCONT)
        for number in (signal.SIGCHLD, signal.SIGQUIT, signal.SIGTTOU, *job_signals, *ENDING_SIGNALS):
            before = signal.getsignal(number)
            # nohup starts a program with HUP ignored, and a shell without jobs one with TSTP ignored. Both
            # have to stay ignored.
            if number in (signal.SIGHUP, signal.SIGTSTP) and before == signal.SIG_IGN:
                continue
            self._handlers[number] = before
            # QUIT and TTOU: a key that is meant for an editor on this terminal, and the restoring of the
            # terminal by a process that is not in its foreground, must not end or stop the supervisor.
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: object) -> None:
        if number in (signal.SIGTSTP, signal.SIGCONT, *ENDING_SIGNALS):
            self._signalled.append(number)

    def _handle_signals(self) -> None:
        while self._signalled:
            number = self._signalled.pop(0)
            if number in (signal.SIGTSTP, signal.SIGCONT):
                self._pass_on_job_signal(number)
                continue
            # The console takes the signal as a person's wish to leave, or leaves it to a program that it has
            # lent the terminal to: ctrl+c in an editor comes to every process of the terminal.
            if self._console is not None:
                self._console.signal(number)
                if number != signal.SIGINT:
                    self._kill_at.setdefault(self._console.pid, time.monotonic() + CONSOLE_LEAVES_S)
            else:
                self._restart_notice = None
                self._leave(128 + number)

    def _pass_on_job_signal(self, number: int) -> None:
        """Stop the console, or let it go on. A shell sends these signals to all processes of the job; others
        send them to this one alone."""
        if self._console is not None:
            self._console.signal(number)
        if number == signal.SIGTSTP:
            self._stop_at = time.monotonic() + STOPS_WITHIN_S

    def _stop_after_console(self) -> None:
        """Stop this process, where it was asked to and the console has stopped. The shell takes the terminal
        as soon as this process is stopped, and the console has to restore it before."""
        if self._stop_at is None:
            return
        if self._console is None or self._console.stopped() or self._stop_at <= time.monotonic():
            self._stop_at = None
            os.kill(os.getpid(), signal.SIGSTOP)

    # Waiting.

    def _wait(self) -> None:
        """Wait for a signal, a report, the end of a lent terminal, or the next deadline."""
        poll = select.poll()
        watched = [self._wake, *(child.reports for child in self._children()), self._lent]
        for descriptor in watched:
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        deadlines = [*self._kill_at.values(), *([] if self._stop_at is None else [self._stop_at])]
        until = min(deadlines, default=None)
        wait_ms = None if until is None else max(0, int((until - time.monotonic()) * 1000) + 1)
        for descriptor, _ in poll.poll(wait_ms):
            if descriptor == self._wake:
                with suppress(BlockingIOError):
                    while os.read(self._wake, 4096):
                        pass
            if descriptor == self._lent:
                self._take_terminal_back()

    def _children(self) -> list[Child]:
        kernels = (root.kernel for root in self._roots)
        return [child for child in (self._console, *kernels) if child is not None]

    def _kill_what_is_late(self) -> None:
        now = time.monotonic()
        for child in self._children():
            if self._kill_at.get(child.pid, now + 1) <= now:
                del self._kill_at[child.pid]
                child.signal(signal.SIGKILL)

    # The console.

    def _handle_console(self) -> None:
        console = self._console
        if console is None:
            return
        status = console.ended()  # before the reports are read: nothing is written after the end
        for line in console.lines():
            self._on_console_report(line)
        if status is None:
            return
        console.close()
        self._console = None
        self._kill_at.pop(console.pid, None)
        if self._exit is not None:
            if status < 0:
                self._modes.restore()
        elif -status in ENDING_SIGNALS:
            self._modes.restore()
            self._leave(128 - status)
        elif status < 0 or status == CRASHED:
            self._on_console_death(status)
        else:
            self._on_console_left(status)

    def _on_console_report(self, line: str) -> None:
        kind, _, rest = line.partition(" ")
        named = [root for root in self._roots if rest == str(root.place)]
        if kind == "kernel" and named:
            named[0].wanted = True
        elif kind == "end-calls" and named:
            if named[0].kernel is not None:
                named[0].kernel.order(END_CALLS)
        elif kind == "serve" and named:
            named[0].serve_wanted = True
        elif kind == "report":
            self._console_report = rest
        elif kind == "lent" and rest.isdigit():
            self._take_terminal_back()
            with suppress(OSError):
                self._lent = os.pidfd_open(int(rest))
        elif kind == "returned":
            self._take_terminal_back()

    def _take_terminal_back(self) -> None:
        if self._lent >= 0:
            os.close(self._lent)
            self._lent = -1

    def _on_console_death(self, status: int) -> None:
        how = _end_text(status)
        path = self._console_report or _report(self._roots[0], "console", CONSOLE_REPORT, how)
        if self._console_deaths.add():
            self._restart_notice = _restart_text(how, path)
            return
        self._modes.restore()
        self._leave(
            FAILED,
            f"flytui: the console died {MAX_DEATHS} times within a minute ({how}). It decided nothing, "
            f"and the calls that ran were ended. The last report: {path or 'it could not be written'}",
        )

    def _on_console_left(self, status: int) -> None:
        serving = [root for root in self._roots if root.serve_wanted and root.kernel is not None]
        self._leave(status, but=serving)
        for root in serving:
            if root.kernel is not None:
                root.kernel.order(SERVE)
                self._kill_at[root.kernel.pid] = time.monotonic() + SERVES_WITHIN_S

    # The kernels.

    def _handle_kernel(self, root: _Root) -> None:
        kernel = root.kernel
        if kernel is None:
            return
        status = kernel.ended()
        for line in kernel.lines():
            self._on_kernel_report(root, kernel, line)
        if root.kernel is None or status is None:
            return
        kernel.close()
        root.kernel = None
        self._kill_at.pop(kernel.pid, None)
        if self._exit is None:
            self._on_kernel_end(root, status)

    def _on_kernel_report(self, root: _Root, kernel: KernelChild, line: str) -> None:
        kind, _, rest = line.partition(" ")
        if kind == "waiting":
            self._send(root, kind, rest)
        elif kind == "ready":
            self._on_kernel_ready(root, kernel)
        elif kind in ("busy", "failed", "left", "report"):
            root.last_report = (kind, rest)
        elif kind == "serving":
            # From now on it belongs to nobody; it is not a child that anybody waits for.
            sentence = (
                f"the kernel goes on as flytui serve, pid {kernel.pid}. "
                f"flytui attaches to it again; kill {kernel.pid} ends it."
            )
            self._sentences.append(sentence)
            self._kill_at.pop(kernel.pid, None)
            kernel.close()
            root.kernel = None

    def _send(self, root: _Root, kind: str, rest: str) -> None:
        """Tell the console about the kernel of that root."""
        if self._console is not None:
            self._console.send(f"{kind} {root.place} {rest[:MAX_SENT_CHARS]}")

    def _on_kernel_ready(self, root: _Root, kernel: KernelChild) -> None:
        kernel.ready = True
        if self._console is not None:
            _connect(self._console, root.place, kernel)
        if self._programs.companion is not None and not self._companion:
            self._companion = fork(self._run_companion)

    def _on_kernel_end(self, root: _Root, status: int) -> None:
        kind, rest = root.last_report
        if kind == "busy":
            # Another kernel has the root. The console attaches to that one, and asks when it wants another.
            root.wanted = False
            self._send(root, kind, rest)
        elif kind == "failed":
            code, _, text = rest.partition(" ")
            self._give_up(root, int(code) if code.isdigit() else FAILED, text)
        elif kind == "left" or -status in ENDING_SIGNALS:
            ended = status if status >= 0 else 128 - status
            self._give_up(root, ended, "", "a signal ended the kernel")
        else:
            self._on_kernel_death(root, status, rest if kind == "report" else "")

    def _on_kernel_death(self, root: _Root, status: int, report: str) -> None:
        how = _end_text(status)
        path = report or _report(root, "kernel", KERNEL_REPORT, how)
        if not root.deaths.add():
            died = (
                f"the kernel died {MAX_DEATHS} times within a minute ({how}). How calls that had "
                f"started ended is not known. The last report: {path or 'could not be written'}"
            )
            self._give_up(root, FAILED, f"flytui: {died}", died)

    def _give_up(self, root: _Root, status: int, sentence: str, reason: str = "") -> None:
        """End the command, where it has no other root. Where it has, let the console say why this one has no
        kernel; it asks when the person wants another."""
        if len(self._roots) == 1:
            self._leave(status, sentence)
            return
        root.wanted = False
        self._send(root, "failed", reason or sentence)

    # Leaving.

    def _leave(self, status: int, sentence: str = "", but: Sequence[_Root] = ()) -> None:
        """Ask all processes to end, except the kernels `but`. The first exit status and the first sentence
        count."""
        if self._exit is None:
            self._exit = status
            self._sentences += [sentence] if sentence else []
        now = time.monotonic()
        self._restart_notice = None
        self._end_companion()
        if self._console is not None:
            self._console.ask_to_leave()
            self._kill_at.setdefault(self._console.pid, now + CONSOLE_LEAVES_S)
        for root in self._roots:
            if root.kernel is not None and root not in but:
                root.kernel.ask_to_end()
                self._kill_at.setdefault(root.kernel.pid, now + KERNEL_ENDS_S)

    def _run_companion(self) -> int:
        self._become_child()
        assert self._programs.companion is not None  # noqa: S101 - checked by the caller
        return self._programs.companion()

    def _end_companion(self) -> None:
        if self._companion > 0:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._companion, signal.SIGTERM)
                os.waitpid(self._companion, 0)
            self._companion = -1


def _report(root: _Root, name: str, file: str, how: str) -> str:
    """Write a report about a process that could not write its own. Return its path; empty where it cannot be
    written."""
    details = "There is no traceback: the process could not write one."
    text = report_text(f"The {name} of flytui died: {how}", details)
    return write_report(root.program.state_folder(), file, text)


def _connect(console: ConsoleChild, place: int, kernel: KernelChild) -> None:
    """Make a connection between the console and the kernel of the root at that place, and hand each its end.
    Nobody else keeps one."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        kernel.hand_over(ours, console.pid)
        console.send(f"kernel {place}", theirs)


def _end_text(status: int) -> str:
    """Return how a process ended, in words."""
    if status >= 0:
        return "a defect" if status == CRASHED else f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def _restart_text(how: str, path: str) -> str:
    told = f" · report: {path}" if path else ""
    return f"the console died ({how}) and was started again: nothing was decided, calls go on{told}"
