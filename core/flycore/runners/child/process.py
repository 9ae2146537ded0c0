"""A child process as its owner sees it: by a pidfd, with its exit code once it has exited."""

from __future__ import annotations

import os
import select
from abc import ABC, abstractmethod


class ChildProcess(ABC):
    """A child that was started. Its owner calls `close` once the process and its tree have ended; until then
    no other process has its id."""

    def __init__(self, pid: int, pidfd: int, starting: int = -1) -> None:
        self.pid, self.pidfd = pid, pidfd
        self.starting = starting
        """A descriptor that can be read when `continue_start` has something to do; -1 once the start is
        over."""
        self.first_process = 0
        """The id of the first process of the program's process namespace, once it is known. The namespace
        ends with that process, and with this one."""

    @abstractmethod
    def continue_start(self) -> OSError | None:
        """Go on with the start as far as that is possible without waiting. Returns why it has failed; then no
        program was executed."""

    @abstractmethod
    def exit_code(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""

    @abstractmethod
    def close(self) -> None:
        """Close the descriptors, and reap the process if it has exited."""

    def namespace_ended(self) -> bool:
        """Whether all processes of its namespace have ended."""
        return True

    def has_exited(self) -> bool:
        """Whether the process and all its threads have exited."""
        return is_readable(self.pidfd, 0)


def is_readable(descriptor: int, timeout_s: float | None) -> bool:
    """Wait until there is something to read, or the end; False if that takes longer."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def own_exit_code(pid: int) -> int | None:
    """The exit code of a child of this process, which stays to be reaped; None while it runs. Raises
    ChildProcessError if it is none."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
