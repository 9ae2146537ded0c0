"""The process that somebody started as a command: this one, or the stub for which this one works.

An installed command is a small program, the stub, whose work is done by another process that was forked for
it. Whoever looks at the command from outside sees the stub. So its process id counts, and it opens the
connections to a kernel.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

Connect = Callable[[str], socket.socket]
_stub: list[tuple[int, Connect]] = []
"""The stub's process id, and the function that has it open a connection; empty if this process is the command
itself."""


def work_for(stub: int, connect: Connect) -> None:
    """Work for the stub with that process id from now on, for as long as this process lives."""
    _stub[:] = [(stub, connect)]


def command_pid() -> int:
    """Return the process id of the command."""
    return _stub[0][0] if _stub else os.getpid()


def connect_as_stub(path: str) -> socket.socket | None:
    """Return a connection to the socket `path` that the stub opened; None if this process is the command
    itself. Raises OSError."""
    return _stub[0][1](path) if _stub else None
