"""Who is at the other end of a Unix socket, as the operating system says."""

from __future__ import annotations

import os
import socket
import struct

_UCRED = struct.Struct("3i")


def peer_credentials(sock: socket.socket) -> tuple[int, int]:
    """The peer's (pid, uid) at the time it connected, from SO_PEERCRED."""
    pid, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return pid, uid


def is_same_user(uid: int) -> bool:
    """Whether that user is the one this process runs as."""
    return uid == os.getuid()
