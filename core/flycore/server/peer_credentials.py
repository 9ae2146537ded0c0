"""Credentials of the process at the other end of a Unix socket, from the operating system."""

from __future__ import annotations

import os
import socket
import struct

_UCRED = struct.Struct("3i")


def peer_credentials(sock: socket.socket) -> tuple[int, int]:
    """Return (pid, uid) of the peer at the time when it connected, from SO_PEERCRED."""
    pid, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return pid, uid


def is_same_user(uid: int) -> bool:
    """Return whether this process runs as that user."""
    return uid == os.getuid()
