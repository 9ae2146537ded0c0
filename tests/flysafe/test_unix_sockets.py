"""A descriptor arrives once, close-on-exec, and never more of them than one."""

from __future__ import annotations

import array
import os
import socket

import pytest

from flysafe.unix_sockets import receive_descriptor, send_descriptor


def open_count() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
def test_a_descriptor_comes_with_its_message(kind: socket.SocketKind) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    reading, writing = os.pipe()
    with ours, theirs:
        send_descriptor(ours, b"7", writing)
        os.close(writing)
        message, descriptor = receive_descriptor(theirs)
        assert message == b"7"
        assert descriptor is not None
        assert not os.get_inheritable(descriptor)
        os.write(descriptor, b"through")
        os.close(descriptor)
        assert os.read(reading, 100) == b"through"
        os.close(reading)
        send_descriptor(ours, b"alone")
        assert receive_descriptor(theirs) == (b"alone", None)
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            receive_descriptor(theirs)
        ours.close()
        assert receive_descriptor(theirs) == (b"", None)


def test_a_message_with_several_is_refused_and_none_of_them_stays_open() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        before = open_count()
        passed = array.array("i", [0, 1, 2])
        ours.sendmsg([b"3"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed.tobytes())])
        with pytest.raises(OSError, match="more than one"):
            receive_descriptor(theirs)
        assert open_count() == before
