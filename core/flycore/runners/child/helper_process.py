"""A helper of this process: a program that is started by its path, with the standard library only, and that
ends at the end of its socket, and so with this process, however that ends."""

from __future__ import annotations

import array
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


class HelperProcess:
    """A helper that was started by this process, or by the one that this process was forked from. The number
    of its end of the socket is its argument."""

    def __init__(self, program: Path) -> None:
        self._owner = os.getpid()
        self._control, controlled = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with controlled:
            number = controlled.fileno()
            # No site, no environment, no folder of anybody's: nothing but the standard library is loaded.
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(program), str(number)],
                cwd="/",
                env={},
                stdin=subprocess.DEVNULL,
                pass_fds=(number,),
            )

    @property
    def is_own(self) -> bool:
        """Whether this process has started it. A fork of that process must not use it."""
        return self._owner == os.getpid()

    def send(self, descriptors: Sequence[int], message: bytes) -> None:
        """Send it one message. Raises OSError."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        self._control.sendmsg([message], rights, socket.MSG_NOSIGNAL)

    def resume(self) -> None:
        """Let it, and a child that it has just forked, go on if a program of the user has stopped them."""
        # It is not reaped yet, so that its id and the group are its own. One that was just started has no
        # group.
        try:
            os.killpg(self.process.pid, signal.SIGCONT)
        except ProcessLookupError:
            os.kill(self.process.pid, signal.SIGCONT)

    def discard(self) -> None:
        """Kill it, and reap it. One that another process started is left to that process."""
        if self.is_own:
            # First: at the end of its socket it may have something left to do.
            self.process.kill()
            self.process.wait()
        else:
            self.process.returncode = 0  # a fork of the owner: nothing is waited for at the end
        self._control.close()

    def end(self, patience_s: float) -> None:
        """Let it do what it does at the end of its socket, and kill it if that takes too long."""
        if self.is_own:
            self._control.close()
            with suppress(subprocess.TimeoutExpired):
                self.resume()
                self.process.wait(patience_s)
        self.discard()
