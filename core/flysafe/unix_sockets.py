"""What a Unix socket tells of its other end, and the open descriptors that it carries to another process."""

from __future__ import annotations

import array
import os
import socket
import stat
import struct

_UCRED = struct.Struct("3i")
MAX_MESSAGE_BYTES = 4096


def peer_credentials(sock: socket.socket) -> tuple[int, int]:
    """Return (pid, uid) of the peer at the time when it connected, from SO_PEERCRED."""
    pid, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return pid, uid


def is_same_user(uid: int) -> bool:
    """Return whether this process runs as that user."""
    return uid == os.getuid()


def unsafe_socket(path: str) -> tuple[str, str] | None:
    """Return the path and the reason why another user could have put the socket there; None where nobody
    could, and where nothing is there."""
    parent = os.path.dirname(path)
    try:
        folder, facts = os.lstat(parent), os.lstat(path)
    except OSError:
        return None  # the attempt to connect reports that
    if not stat.S_ISDIR(folder.st_mode) or not is_same_user(folder.st_uid):
        return parent, "it is not a folder of this user"
    if folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return parent, "other users may write to it"
    return None if stat.S_ISSOCK(facts.st_mode) else (path, "it is not a socket")


def send_descriptor(channel: socket.socket, message: bytes, descriptor: int | None = None) -> None:
    """Send a message, with at most one descriptor. Raises OSError where the other side is gone."""
    passed = [] if descriptor is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _packed(descriptor))]
    channel.sendmsg([message], passed)


def receive_descriptor(channel: socket.socket) -> tuple[bytes, int | None]:
    """Return the next message, empty at the end, and the descriptor that came with it.

    The descriptor belongs to the caller. Raises BlockingIOError where no message waits on a socket that does
    not block.
    """
    # Close-on-exec from the start: a child that another thread starts at this moment must not get it.
    message, passed, flags, _ = channel.recvmsg(
        MAX_MESSAGE_BYTES, socket.CMSG_SPACE(array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
    )
    found = array.array("i")
    for level, kind, data in passed:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC) or len(found) > 1:
        for descriptor in found:
            os.close(descriptor)
        raise OSError("a message with more than one descriptor, or too long, was received")
    return message, found[0] if found else None


def _packed(descriptor: int) -> bytes:
    return array.array("i", [descriptor]).tobytes()
