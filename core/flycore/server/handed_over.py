"""A listener whose connections are descriptors that the supervisor hands over: those of the paired console.

Nothing else leads to it. It has no name, and its own descriptor is in the supervisor and the kernel only.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any, NamedTuple

from flysafe.unix_sockets import receive_descriptor


class HandedOver(NamedTuple):
    """The address of a connection that the supervisor handed over."""

    pid: int
    """The process of the console at the other end."""


class ConsoleListener(socket.socket):
    """Accepts the connections that arrive over the socket on which it is opened, as a listening socket does.

    Each message on that socket is the process id of a console in decimal digits, with its descriptor.
    """

    def listen(self, backlog: int = 0, /) -> None:
        """Do nothing: the socket is connected to the supervisor already."""

    def getsockname(self) -> Any:
        """Return a name that no file has: newer versions of asyncio remove the file of a Unix listener."""
        return "\0console"

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection with its `HandedOver`. Raises BlockingIOError while none waits."""
        message, descriptor = receive_descriptor(self)
        if not message:
            # The supervisor is gone. The end stays readable, so the loop would call this without a pause.
            asyncio.get_running_loop().remove_reader(self.fileno())
            raise BlockingIOError
        if descriptor is None or not message.isdigit():
            if descriptor is not None:
                os.close(descriptor)
            raise BlockingIOError
        return socket.socket(fileno=descriptor), HandedOver(int(message))
