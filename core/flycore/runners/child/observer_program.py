"""The observer: a process that notes what a confined program asks for and was not granted.

The launcher loads this file by its path, with the standard library only, when a program is first observed.
The child installs a filter of system calls whose calls wait for an answer, sends the filter's listener to the
observer, and executes its program; everything that the program starts inherits the filter. The observer reads
the path of each call from the memory of the process, notes it, and lets the call go on to whatever confines
the program. A socket of a family that was not granted is refused here.

The notes are evidence and never the boundary. A path may change between the look and the call, and a program
may name paths that it does not need. If the observer ends, each call that it would answer fails with ENOSYS.

A note is one letter and a path, with a NUL at its end: `r` a file or folder was opened to be read, `s` its
facts were asked for, `w` it was to be changed, `d` it was to be made as a folder, `l` a folder that looks
empty was listed; and without a path `n` for a network socket, `x` for a Unix socket, `u` for a memory that
cannot be read, and `m` for notes that were left out.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import marshal
import os
import select
import socket
import struct

MOST_NOTES = 200
LONGEST_PATH = 4_096
"""PATH_MAX of the kernel, with the NUL. A longer path fails by itself."""
INSTALL_FAILED = errno.ENOTRECOVERABLE
"""The error by which the kernel of flytui knows that nothing can be observed here."""
READ_GRANTED, WRITE_GRANTED = 1, 2

_SET_NO_NEW_PRIVS, _SET_MODE_FILTER = 38, 1
_NEW_LISTENER, _WAIT_KILLABLE = 8, 32
_RECEIVE, _ANSWER, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")  # struct seccomp_notif
_REPLY = struct.Struct("=QqiI")  # struct seccomp_notif_resp
_ID = struct.Struct("=Q")
_GO_ON = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_AT_CURRENT_FOLDER = 0xFFFFFF9C  # AT_FDCWD as the lower half of the argument
_LISTED = os.O_DIRECTORY
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def install(number: int, program: bytes, channel: int) -> None:
    """In the child: put the filter in force and send its listener over the channel. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    steps = ctypes.create_string_buffer(program, len(program))

    class Filter(ctypes.Structure):  # struct sock_fprog
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    asked = Filter(len(program) // 8, ctypes.addressof(steps))
    listener = -1
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        # A signal must not make a call wait twice; kernels before 5.19 do not know that flag.
        for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
            listener = libc.syscall(number, _SET_MODE_FILTER, flags, ctypes.byref(asked))
            if listener >= 0:
                break
    if listener < 0:
        raise OSError(INSTALL_FAILED, os.strerror(INSTALL_FAILED))
    with socket.socket(fileno=channel) as sender:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))]
        # SIGPIPE has its default meaning here already.
        sender.sendmsg([b"+"], rights, socket.MSG_NOSIGNAL)
    os.close(listener)


def observe(channel: int, order: bytes, notes: int) -> None:
    """In the observer: answer calls until no process has the filter any more."""
    # Foremost the ends of the child's pipes and of the launcher's socket: their end means something.
    _close_others((channel, notes))
    with socket.socket(fileno=channel) as receiver:
        _, received, _, _ = socket.recv_fds(receiver, 1, 1)
    if received:
        _Observer(received[0], notes, order).run()


def _close_others(kept: tuple[int, ...]) -> None:
    # The first three are those of the kernel: whoever reads its output waits until nobody can write to it.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    below = 3
    for number in sorted(kept):
        os.closerange(below, number)
        below = number + 1
    os.closerange(below, os.sysconf("SC_OPEN_MAX"))


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
