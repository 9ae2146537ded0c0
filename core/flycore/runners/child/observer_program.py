"""The program of the observer: a process that notes what confined programs ask for and were not granted.

The kernel of flytui starts one, when the first program is to be observed, by its path and with the standard
library only. An observed program has a filter of system calls whose calls wait for an answer
(`observed_start`), and everything that it starts inherits the filter. The observer gets the filter's
listener, reads the path of each call from the memory of the process, notes it, and lets the call go on to
whatever confines the program. A socket of a family that was not granted is refused here.

Each program has a thread. So one that asks without end, or has a path in memory that cannot be read for a
while, such as that of a file of a server that does not answer, holds up no other program's calls. It is a
process and no thread of the kernel of flytui, because it takes the time of a processor for each call of a
program, and reads what programs choose.

The notes are evidence and never the boundary. A path may change between the look and the call, and a program
may name paths that it does not need. If the observer ends, each call that it would answer fails with ENOSYS.

A note is one letter and a path, with a NUL at its end: `r` a file or folder was opened to be read, `s` its
facts were asked for, `w` it was to be changed, `d` it was to be made as a folder, `l` a folder that looks
empty was listed; and without a path `n` for a network socket, `x` for a Unix socket, `u` for a memory that
cannot be read, and `m` for notes that were left out.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import marshal
import os
import resource
import select
import socket
import struct
import sys
from contextlib import suppress
from threading import Thread

MOST_NOTES = 200
LONGEST_PATH = 4_096
"""PATH_MAX of the kernel, with the NUL. A longer path fails by itself."""
ENDED = b"."
"""What is sent over the channel when no process has the filter any more."""
READ_GRANTED, WRITE_GRANTED = 1, 2

_SET_DUMPABLE = 4  # PR_SET_DUMPABLE
_RECEIVE, _ANSWER, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")  # struct seccomp_notif
_REPLY = struct.Struct("=QqiI")  # struct seccomp_notif_resp
_ID = struct.Struct("=Q")
_GO_ON = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_AT_CURRENT_FOLDER = 0xFFFFFF9C  # AT_FDCWD as the lower half of the argument
_LISTED = os.O_DIRECTORY
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def main(control: int) -> None:
    """Take programs to observe until the kernel of flytui closes its end of the socket, or is gone."""
    # A group of its own: what a terminal sends to the kernel's group is not for this process.
    os.setpgid(0, 0)
    # No other process of the user may read in its memory what it has read in that of programs.
    ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with socket.socket(fileno=control) as orders:
        while True:
            try:
                message, received, _, _ = socket.recv_fds(orders, 1, 3, socket.MSG_CMSG_CLOEXEC)
            except ConnectionError:
                break
            if not message:
                break
            try:
                channel, notes, order = received
                Thread(target=_observe, args=(channel, notes, order), daemon=True).start()
            except (ValueError, RuntimeError):
                # Without a descriptor or a thread left. Its channel ends, so that the program is not started.
                for number in received:
                    os.close(number)
    # Without waiting for the threads: the programs are ended by others, or have been.
    os._exit(0)


def _observe(channel: int, notes: int, order: int) -> None:
    """Answer the calls of one program until no process has its filter any more, and say so."""
    try:
        with socket.socket(fileno=channel) as sender:
            _, received, _, _ = socket.recv_fds(sender, 1, 1, socket.MSG_CMSG_CLOEXEC)
            if received:
                try:
                    granted = os.pread(order, os.fstat(order).st_size, 0)
                    _Observer(received[0], notes, granted).run()
                finally:
                    # The calls that still wait fail.
                    os.close(received[0])
                # Nobody reads it if the kernel of flytui has the end already.
                with suppress(OSError):
                    sender.send(ENDED, socket.MSG_NOSIGNAL)
    finally:
        os.close(notes)
        os.close(order)


class _Observer:
    """The answers to one filter's calls, and the notes about them."""

    def __init__(self, listener: int, notes: int, order: bytes) -> None:
        self._listener, self._notes = listener, notes
        # The kernel of flytui wrote it.
        grants, parents, empty, calls, self._socket, self._unix, *rest = marshal.loads(order)  # noqa: S302
        executions, self._executions_before = rest
        self._grants: dict[bytes, int] = grants
        self._parents: frozenset[bytes] = frozenset(parents)
        self._empty: frozenset[bytes] = frozenset(empty)
        self._calls: dict[int, list[tuple[str, int, int, str, int]]] = calls
        self._executions: frozenset[int] = frozenset(executions)
        """The calls that execute a program. What is asked for before so many of them is not noted: a command
        that confines the program is executed first."""
        self._executed = 0
        self._noted: set[bytes] = set()
        self._full = False

    def run(self) -> None:
        """Answer until the last process with the filter is gone."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while True:
            for _, events in poll.poll():
                if events & select.POLLIN:
                    self._serve()
                elif events:
                    return

    def _serve(self) -> None:
        """Take one call and answer it."""
        waiting = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, waiting)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return  # the process has ended, or a signal came first
            raise
        call, pid, _, number, _, _, *arguments = _NOTIFICATION.unpack(waiting)
        if number == self._socket and self._executed >= self._executions_before:
            # First, and without a way to let it go on: this refusal is a part of the boundary. Before, only
            # the confining command runs, which asks a socket for the number of its loopback device.
            self._reply(call, -errno.EAFNOSUPPORT, 0)
            self._note(b"x" if arguments[0] & 0xFFFFFFFF == self._unix else b"n")
            return
        # Noted before the answer, so that the notes are whole when the program has ended.
        self._look(call, pid, number, arguments)
        self._reply(call, 0, _GO_ON)

    def _reply(self, call: int, error: int, flags: int) -> None:
        try:
            fcntl.ioctl(self._listener, _ANSWER, _REPLY.pack(call, 0, error, flags))
        except OSError as fault:
            if fault.errno not in (errno.ENOENT, errno.EINTR):
                raise

    def _look(self, call: int, pid: int, number: int, arguments: list[int]) -> None:
        if self._executed < self._executions_before:
            self._executed += number in self._executions
            return
        if self._full:
            return
        for kind, folder, text, how, flags in self._calls.get(number, ()):
            try:
                path = _path(pid, arguments, folder, text)
                found = _kind(kind, how, pid, arguments[flags]) if path else kind
                # Another process may have the id by now. The call still waits if it is the same one.
                fcntl.ioctl(self._listener, _IS_VALID, _ID.pack(call))
            except (PermissionError, ProcessLookupError) as error:
                if isinstance(error, PermissionError):
                    self._note(b"u")
                continue
            except (OSError, OverflowError, ValueError):
                continue  # the address is not one of the program's memory, or the program has ended
            if path:
                self._judge(found, path)

    def _judge(self, kind: str, path: bytes) -> None:
        """Note the call where it asks for what was not granted."""
        if kind == "l":
            if path in self._empty:
                self._note(b"l" + path)
                return
            kind = "r"
        changes = kind in "wd"
        if not changes and (path in self._parents or path in self._empty):
            return
        if changes and (path.endswith(b".pyc") or b"/__pycache__" in path):
            return  # Python goes on without them
        if not _granted(self._grants, path) & (WRITE_GRANTED if changes else READ_GRANTED):
            self._note(kind.encode() + path)

    def _note(self, note: bytes) -> None:
        if note in self._noted or self._full:
            return
        if len(self._noted) >= MOST_NOTES:
            self._full, note = True, b"m"
        self._noted.add(note)
        os.write(self._notes, note + b"\0")


def _granted(grants: dict[bytes, int], path: bytes) -> int:
    """What the deepest named folder at or above the path grants."""
    while path not in grants:
        if path == b"/":
            return 0
        path = path[: path.rfind(b"/")] or b"/"
    return grants[path]


def _kind(kind: str, how: str, pid: int, value: int) -> str:
    """The kind of an opening call, by its flags; that of every other call as it is."""
    if not how:
        return kind
    flags = struct.unpack("=Q", _memory(pid, value, 8))[0] if how == "structure" else value
    if flags & _CHANGES:
        return "w"
    return "l" if flags & _LISTED else kind


def _path(pid: int, arguments: list[int], folder: int, text: int) -> bytes:
    """The absolute path that the call names, without `..`; empty where it names none."""
    path, end, _ = _memory(pid, arguments[text], LONGEST_PATH).partition(b"\0")
    if not end or not path:
        return b""
    if not path.startswith(b"/"):
        number = _AT_CURRENT_FOLDER if folder < 0 else arguments[folder] & 0xFFFFFFFF
        name = "cwd" if number == _AT_CURRENT_FOLDER else f"fd/{number}"
        base = os.readlink(os.fsencode(f"/proc/{pid}/{name}"))
        if not base.startswith(b"/"):
            return b""
        path = base + b"/" + path
    path = b"/" + os.path.normpath(path).lstrip(b"/")
    return path if len(path) < LONGEST_PATH else b""


def _memory(pid: int, address: int, size: int) -> bytes:
    """What the process has at that address, up to the first page that it does not have."""
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, size, address)
    finally:
        os.close(memory)


if __name__ == "__main__":
    main(int(sys.argv[1]))
