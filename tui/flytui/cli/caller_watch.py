"""Ends a command that nobody waits for any more: a program that started it has exited, or nobody reads its
standard output.

An agent that is killed does not end the hooks and servers that it started, and what they asked a person would
wait on although nobody could use the answer.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from functools import cache

from flysafe.command_process import command_pid
from flysafe.procfs import starters

_gone = threading.Event()


@cache
def end_with_caller() -> None:
    """From now on, end this process by TERM, so that it cleans up, when nobody waits for it any more."""
    threading.Thread(target=_watch, name="caller watch", daemon=True).start()


def is_caller_gone() -> bool:
    """Return whether that has ended this process."""
    return _gone.is_set()


def _watch() -> None:
    poll = select.poll()
    # A pipe or socket that nobody reads, and a terminal that was closed, report it without being asked. A
    # server gives its standard output another number, so this is a descriptor of its own.
    poll.register(os.dup(1), 0)
    # An agent may start the command through a shell, which the agent's end does not end; it may end only
    # that shell; and its pipes may be open in other programs that it started. So each of these is watched.
    watched = starters(command_pid())
    for pid in watched:
        try:
            poll.register(os.pidfd_open(pid), select.POLLIN)
        except OSError:
            break  # it has exited, which the next look finds
    if starters(command_pid()) == watched:
        poll.poll()
    _gone.set()
    os.kill(os.getpid(), signal.SIGTERM)
