"""Starts the forker in the background, after a command that ran in its own process."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress

from flytui.forked.address import forker_socket, is_confined

PROGRAM = "flytui.forked.forker"
_KERNEL_SOCKET = ".sock"


def start_forker(environ: Mapping[str, str]) -> None:
    """Start the forker if none runs, and a kernel of this user may run."""
    path = forker_socket(environ)
    if not _has_kernel_sockets(path) or _is_served(path):
        return
    from flycore.client.kernel_start import kernel_environment
    from flycore.model.session import CALL_ID_VARIABLE
    from flytui.cli.interrupts import ENDING_SIGNALS

    # A tool's processes end with its call, and a confined forker would work for nobody.
    if CALL_ID_VARIABLE in environ or is_confined():
        return
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    with suppress(OSError):
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-m", PROGRAM],
            kernel_environment(environ),
            file_actions=null,
            # An agent that ends the command ends its whole session with it.
            setsid=True,
            # The command, which ends, ignores and blocks them.
            setsigmask=(),
            setsigdef=ENDING_SIGNALS,
        )


def _has_kernel_sockets(path: str) -> bool:
    """Return whether there are sockets of kernels beside that of the forker."""
    folder, own = os.path.split(path)
    with suppress(OSError):
        return any(name.endswith(_KERNEL_SOCKET) and name != own for name in os.listdir(folder))
    return False


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as tried, suppress(OSError):
        tried.connect(path)
        return True
    return False
