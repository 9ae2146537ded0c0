"""The program of the launcher: a small process that starts the children of a kernel, and ends what a killed
kernel leaves.

It is run by its path, with the standard library only, and imports nothing of this distribution. For each
request it forks a child, which prepares itself and executes its program; so starts run beside one another,
and an `execve` that hangs holds nobody else's. Both the launcher and each child are child subreapers: what a
program starts and leaves, in however many forks and sessions, becomes a child of that program, and a child of
this process once the program has exited. All that was started here therefore stays below this process.

A request is one message with the descriptors of the child's stdin, stdout and stderr, of a pipe for the
answer, of a socket for the exit, of a file with the request, and of what else the child is given. The answer
is the child's id, 8 bytes, once it leads its session, and after it the error number, 8 bytes, if the program
could not be started; the end of the pipe says that it was. If no child can be made, the answer is 0 and the
error number. The exit code is written to the socket. The child is reaped when the kernel has closed its end,
so that until then nothing else has its id. Orphans are reaped at once.

Requests hold secrets. They are read by the child alone, so that no later child has them in its memory. What
it does until it executes its program is in `launcher_child`.

A child that is to give up rights names the files of the modules that do it: it calls their functions
`restrict` after everything else that needs a right, and executes nothing if one raises. The modules are
loaded in this process, once, so that no child has to.

At the end of the kernel's socket the kernel is gone, however it ended, and the launcher ends (`launcher_end`)
all that is below it, and the processes that it was told to keep: the first process of a namespace that the
kernel made without the launcher, and the children of an earlier launcher.
"""

from __future__ import annotations

import array
import ctypes
import errno
import gc
import os
import resource
import select
import signal
import socket
import struct
import sys

TYPE_CHECKING = False
"""As in `typing`, which takes as long to import as all of the launcher's start."""
if TYPE_CHECKING:
    from types import ModuleType

ANSWER = struct.Struct("=q")
START, KEEP = b"+", b"="
"""The first byte of a message: start a child, behind it the files of the modules by which it gives up rights,
with a NUL between two; keep the process whose pidfd the message carries, behind it its id."""
DESCRIPTORS = 6
MOST_DESCRIPTORS = 253
"""SCM_MAX_FD of the kernel's `include/net/scm.h`: how many one message can carry."""
LONGEST_MESSAGE = 1 + 2 * 4_096
"""Two paths of modules, each as long as the kernel's PATH_MAX."""
OOM_SCORE_RAISE = 500
"""How much more a child's `oom_score_adj` is than that of the process that it is started for."""
MAX_OOM_SCORE = 1000
"""From proc_pid_oom_score_adj(5)."""
_NUMBER_BYTES = array.array("i").itemsize
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_loaded: dict[str, ModuleType] = {}


def main(control: int) -> None:
    """Serve requests until the kernel closes its end of the socket, or is gone; then end its children."""
    # A group of its own: what a terminal sends to the kernel's group is not for this process.
    os.setpgid(0, 0)
    # The system sends this to a group whose last parent outside of it has gone, while one of its members is
    # stopped. That is when the kernel is killed, and this process has to end what the kernel left. A handler,
    # and not SIG_IGN, which the programs would inherit.
    signal.signal(signal.SIGHUP, lambda *_: None)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    offer_memory(os.getpid())
    # Every number that a descriptor of the kernel may have. Each child gets a limit of its own.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    prctl = ctypes.CDLL(None).prctl
    # No other process of the user may read the request in the memory of a child that starts.
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A child with it could have others started. It was inheritable for this program's start.
    os.set_inheritable(control, False)
    launcher = Launcher(socket.socket(fileno=control))
    # What is there by now is looked at by no collection, which would copy its pages in each child.
    gc.freeze()
    launcher.serve()
    launcher.end_all()
    # Without the interpreter's clean-up: the kernel waits for this process when it ends.
    os._exit(0)


class Launcher:
    """The kernel's socket, the children that the kernel has not let go, and the processes that are kept."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._child, self._end = (
            load(f"{_FOLDER}/{name}") for name in ("launcher_child.py", "launcher_end.py")
        )
        self._poll = select.poll()
        self._exits: dict[int, tuple[int, socket.socket]] = {}
        """By descriptor of the socket for its exit: the id of each child."""
        self._running: dict[int, socket.socket] = {}
        """By id: the sockets of the children whose exit was not told yet."""
        self._kept: dict[int, int] = {}
        """By pidfd: the ids of the processes that are kept."""
        self._signals, written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        for number in (control.fileno(), self._signals):
            self._poll.register(number, select.POLLIN)

    def serve(self) -> None:
        """Serve until the kernel is gone."""
        while True:
            for number, _ in self._poll.poll():
                if number == self._control.fileno():
                    if not self._obey():
                        return
                elif number == self._signals:
                    os.read(number, 65_536)
                    self._note_exits()
                elif number in self._kept:
                    self._forget(number)
                else:
                    self._let_go(number)

    def _obey(self) -> bool:
        """Do what the kernel's next message says; False at the end."""
        message, received = receive(self._control)
        if message[:1] == KEEP:
            for (pid,), pidfd in zip(ANSWER.iter_unpack(message[1:]), received, strict=True):
                self._kept[pidfd] = pid
                self._poll.register(pidfd, select.POLLIN)
        elif message:
            self._start(message, received)
        return bool(message)

    def _start(self, message: bytes, received: list[int]) -> None:
        """Fork the child of a request. Of what was received, only the socket for its exit stays here."""
        answer, exit_number = received[3], received.pop(4)
        try:
            _load_ahead(message[1:])
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                self._child.become(received, load)
        except OSError as error:
            os.write(answer, ANSWER.pack(0) + ANSWER.pack(error.errno or errno.EAGAIN))
            os.close(exit_number)
        else:
            exit_socket = socket.socket(fileno=exit_number)
            self._exits[exit_number] = (pid, exit_socket)
            self._running[pid] = exit_socket
            # Nothing is ever sent to it, so that it can be read when the kernel has closed its end.
            self._poll.register(exit_number, select.POLLIN)
        finally:
            for number in received:
                os.close(number)

    def _note_exits(self) -> None:
        """Tell the exits of children, and reap the orphans that have ended."""
        for pid, exit_socket in tuple(self._running.items()):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                _send(exit_socket, ANSWER.pack(code))
                del self._running[pid]
        held = {pid for pid, _ in self._exits.values()}
        for pid in self._children() - held:
            _reap(pid)

    def _children(self) -> set[int]:
        """All children of this process."""
        own = os.getpid()
        try:
            with open(f"/proc/self/task/{own}/children", "rb") as file:
                return set(map(int, file.read().split()))
        except FileNotFoundError:  # this kernel keeps no such list
            return {pid for pid, parent in self._end.parents_by_id().items() if parent == own}

    def _let_go(self, number: int) -> None:
        """Forget a child of which the kernel wants to know nothing more, and reap it if it has exited."""
        self._poll.unregister(number)
        pid, exit_socket = self._exits.pop(number)
        self._running.pop(pid, None)
        exit_socket.close()
        _reap(pid)

    def _forget(self, pidfd: int) -> None:
        self._poll.unregister(pidfd)
        del self._kept[pidfd]
        os.close(pidfd)

    def end_all(self) -> None:
        """End all processes below this one, and all that are kept."""
        self._end.end_below(self._kept)


def receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """The next message with its descriptors; empty at the end."""
    try:
        # No program may get one of them: the end of the answer's pipe says that a program was executed.
        message, parts, _, _ = connection.recvmsg(
            LONGEST_MESSAGE, socket.CMSG_LEN(MOST_DESCRIPTORS * _NUMBER_BYTES), socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionError:
        return b"", []
    received = array.array("i")
    for level, kind, data in parts:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            received.frombytes(data[: len(data) - len(data) % _NUMBER_BYTES])
    return message, list(received)


def offer_memory(pid: int) -> None:
    """Let the system, if memory runs out, end that process and what it starts rather than the kernel."""
    # A child inherits the value. Raising it needs no privilege, but the file can only be opened as long as
    # the process can be inspected. A system without it needs nothing.
    try:
        with open("/proc/self/oom_score_adj", "rb", buffering=0) as score:
            raised = min(int(score.read()) + OOM_SCORE_RAISE, MAX_OOM_SCORE)
        with open(f"/proc/{pid}/oom_score_adj", "wb", buffering=0) as score:
            score.write(b"%d" % raised)
    except OSError:
        return


def load(path: str) -> ModuleType:
    """The module in that file. This process has no search path on which it could be imported."""
    if path not in _loaded:
        from importlib.machinery import SourceFileLoader

        module = type(sys)(os.path.basename(path).removesuffix(".py"))
        module.__file__ = path
        SourceFileLoader(module.__name__, path).exec_module(module)
        _loaded[path] = module
    return _loaded[path]


def _load_ahead(paths: bytes) -> None:
    """Load the modules here that a child names, so that the next ones have them."""
    try:
        for path in filter(None, paths.split(b"\0")):
            load(os.fsdecode(path))
    except Exception:  # noqa: BLE001 - the child fails with it, and says so; the launcher serves the others
        return


def _send(connection: socket.socket, message: bytes) -> None:
    try:
        connection.send(message, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
    except OSError:
        return  # the kernel has closed its end


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]))
