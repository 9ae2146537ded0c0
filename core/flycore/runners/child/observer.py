"""The observer of this process: it notes what confined programs ask for (`observer_program`).

A process has one observer, started when the first program is to be observed. It ends with this process. If it
is ended before, the next observed program gets another one; of those that it observed, each further call that
names a path fails, and their owners end them.
"""

from __future__ import annotations

import atexit
import marshal
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from flycore.model.program import ObserverOrder, RestrictionOrder
from flycore.runners.child import observed_start
from flycore.runners.child.helper_process import HelperProcess
from flycore.runners.child.observer_program import ENDED

MAX_NOTES = 1_048_576
"""How much of the notes is read: more than an observer writes."""
_PROGRAM = Path(__file__).with_name("observer_program.py")
_EXIT_SECONDS = 5.0

_running: list[HelperProcess] = []


class Observation:
    """The observation of one program, begun before it is started. Its owner closes it once the program and
    its tree have ended. Raises OSError."""

    def __init__(self, order: ObserverOrder) -> None:
        self._order = order
        self._open = True
        with ExitStack() as undo:
            self._channel, theirs = socket.socketpair()
            undo.callback(self._channel.close)
            with theirs:
                self._notes = os.memfd_create("notes", os.MFD_CLOEXEC)
                undo.callback(os.close, self._notes)
                with open(os.memfd_create("granted", os.MFD_CLOEXEC), "wb", buffering=0) as granted:
                    granted.write(order.granted)
                    _deliver((theirs.fileno(), self._notes, granted.fileno()))
            undo.pop_all()

    @property
    def descriptor(self) -> int:
        """What the process is handed that becomes the program, or the command that confines it. Here it can
        be read when the observer is gone, or no process with the filter is left."""
        return self._channel.fileno()

    @property
    def restriction(self) -> RestrictionOrder:
        """How that process puts the filter in force."""
        order = (self.descriptor, self._order.system_call, self._order.filter)
        return RestrictionOrder(module=observed_start.__file__, order=marshal.dumps(order))

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command that puts the filter in force and becomes that one."""
        restriction = self.restriction
        return (sys.executable, "-I", "-S", restriction.module, restriction.order.hex(), *argv)

    def is_lost(self) -> bool:
        """Whether the observer was ended before the program, whose calls fail without it."""
        if self._open:
            try:
                # The process that is handed the channel shares its flags.
                said = self._channel.recv(len(ENDED), socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except ConnectionError:
                said = b""
            self._open = False
            self._lost = not said
        return self._lost

    def close(self) -> bytes:
        """Close the descriptors. Returns the notes."""
        # Each was written before the noted call went on, so nothing has to be waited for.
        notes = os.pread(self._notes, MAX_NOTES, 0)
        os.close(self._notes)
        self._channel.close()
        return notes


def prepare_observer() -> None:
    """Start the observer if none runs."""
    if not observer_id():
        _discard()
        _running.append(HelperProcess(_PROGRAM))
        # It would end by itself, but a process that leaves first would not have waited for it.
        atexit.unregister(_close)
        atexit.register(_close)


def renew_observer() -> None:
    """Let the observer go on if a program has stopped it, and reap it if it was ended."""
    if observer_id():
        if _running[0].process.poll() is None:
            _running[0].resume()
        else:
            _discard()


def observer_id() -> int:
    """Return the id of this process's observer; 0 if there is none."""
    return _running[0].process.pid if _running and _running[0].is_own else 0


def _deliver(descriptors: Sequence[int]) -> None:
    """Have the observer observe a program, and another one if the first was ended. Raises OSError."""
    prepare_observer()
    try:
        _running[0].send(descriptors, b"+")
    except (BrokenPipeError, ConnectionResetError):
        _discard()
        prepare_observer()
        _running[0].send(descriptors, b"+")


def _discard() -> None:
    while _running:
        _running.pop().discard()


def _close() -> None:
    while _running:
        _running.pop().end(_EXIT_SECONDS)
