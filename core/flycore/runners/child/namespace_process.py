"""A program in a process namespace: started through a command that makes the namespace (level `enforced`).

The command is started directly. It names the first process of the namespace in its report, and that process
executes nothing before it gets its filter of system calls. So the limits, the control group and the OOM score
are set on it first, and whatever it starts has them.

If this process is killed before that, the first process gets no filter, and ends without having run the
program. If it is killed later, the command ends by itself (`--die-with-parent`), and the namespace with it.
That does not cover the moment before the first process has asked for it, and so the launcher keeps that
process before it is let go.

The system ends the command together with the thread that started it, so it is started by a thread that lasts
as long as the program: that of the event loop.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from flycore.runners.child.confined_start import ConfinedChild, ConfinedStart
from flycore.runners.child.launcher import keep
from flycore.runners.child.launcher_program import offer_memory
from flycore.runners.child.process import ChildProcess, is_readable, own_exit_code
from flysafe.control_groups import MemoryGroup


class NamespaceProcess(ChildProcess):
    """The command that made the namespace. Everything in the namespace ends with it."""

    def __init__(
        self,
        command: subprocess.Popen[bytes],
        pidfd: int,
        reports: ConfinedChild,
        limits: Sequence[tuple[int, int, int]],
        group: MemoryGroup | None,
    ) -> None:
        super().__init__(command.pid, pidfd, reports.descriptor)
        self._command, self._reports, self._limits, self._group = command, reports, limits, group
        self._first = -1
        """A pidfd of the namespace's first process."""

    def continue_start(self) -> OSError | None:
        """Let the first process go once it is named and its limits are set."""
        pid = self._reports.report().first_process
        if not pid:
            if self._reports.ended:
                self.starting = -1  # it has failed, and says so on stderr and by its exit code
            return None
        self.starting = -1
        try:
            self._first = os.pidfd_open(pid)
            self.first_process = pid
            keep(pid, self._first)
            for kind, soft, hard in self._limits:
                resource.prlimit(pid, kind, (soft, hard))
            offer_memory(pid)
            if self._group is not None:
                self._group.take(pid)
        except ProcessLookupError:
            return None  # it has failed as well
        except OSError as fault:
            self._command.kill()
            return fault
        self._reports.let_go()
        return None

    def exit_code(self) -> int | None:
        """As in `ChildProcess`."""
        code = self._command.returncode
        return own_exit_code(self.pid) if code is None else code

    def namespace_ended(self) -> bool:
        """As in `ChildProcess`. Its first process ends last."""
        return self._first < 0 or is_readable(self._first, 0)

    def close(self) -> None:
        """As in `ChildProcess`."""
        # A command that was killed while it set its first process up leaves it waiting for good.
        if not self.namespace_ended():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        for descriptor in (self.pidfd, self._first):
            if descriptor >= 0:
                os.close(descriptor)
        self._command.poll()
        if self.first_process:
            _leaving.add(self.first_process)
            reap_leaving()


_leaving: set[int] = set()
"""The ids of first processes that have become children of this process when their commands exited, and run
nobody's code any more. The end of one may take many milliseconds, in which the system takes the namespace
down."""


def leaving() -> frozenset[int]:
    """Return the first processes of namespaces that are going by themselves, and will be reaped later."""
    return frozenset(_leaving)


def reap_leaving() -> bool:
    """Reap the first processes that have gone. Returns whether some are left."""
    for pid in tuple(_leaving):
        try:
            gone = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:  # its command has reaped it
            gone = True
        if gone:
            _leaving.discard(pid)
    return bool(_leaving)


def start_in_namespace(
    start: ConfinedStart,
    reports: ConfinedChild,
    streams: tuple[int, int, int],
    limits: Sequence[tuple[int, int, int]],
    group: MemoryGroup | None,
) -> NamespaceProcess:
    """Start the command in a session of its own. Raises OSError, and ValueError for a NUL character."""
    stdin, stdout, stderr = streams
    command = subprocess.Popen(
        reports.argv,
        cwd=start.cwd,
        env=dict(start.environment),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=reports.handed,
        start_new_session=True,
    )
    try:
        # It is not reaped yet, so its id cannot belong to another process by now.
        return NamespaceProcess(command, os.pidfd_open(command.pid), reports, limits, group)
    except OSError:
        os.kill(command.pid, signal.SIGKILL)
        command.wait()
        raise
