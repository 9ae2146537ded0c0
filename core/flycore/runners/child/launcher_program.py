"""The program of the launcher: a small process that starts the children of a kernel, and keeps them from
outliving it.

It is run by its path, with the standard library only, and imports nothing of this distribution. It has a
child ready for the next request (`ready_child_program`), which is a child of the kernel and not of this
process: the kernel waits for it as for any child of its own. Each child is a child subreaper before it
executes its program: that setting survives `execve`, and whatever the program starts and leaves, in however
many forks and sessions, becomes a child of that program and not of the kernel. Only when the program itself
has exited do its orphans become children of the kernel.

The kernel sends its requests over one socket, from which only the ready child reads, and what is for this
process over another one. The ready child says when it is taken, and then this process makes the next one.
Where the system refuses to make one, this process reads the request, and answers with 0 as the id and the
error number.

A program that is to be observed gets an observer (`observer_program`), a child of this process. That module,
and those that confine programs, are loaded in this process, once, so that no child has to.

The launcher has a pidfd of each child until the child exits (`kept_children_program`). At the end of its
socket the kernel is gone, however it ended, and the launcher ends each of these children with all its
descendants. A kernel that ends by itself has ended them before. A new launcher gets the pidfds of the
children that an earlier one started.
"""

from __future__ import annotations

import ctypes
import gc
import marshal
import os
import resource
import signal
import socket
import sys

TYPE_CHECKING = False
"""As in `typing`, which takes as long to import as all of the launcher's start."""
if TYPE_CHECKING:
    from types import ModuleType

ADOPT, MARK = b"=", b"#"
"""The first byte of a message: keep the children whose pidfds it carries, with their ids behind that byte; or
learn how the variable begins, behind that byte, that marks what a child starts."""
OOM_SCORE_RAISE = 500
"""How much more a child's `oom_score_adj` is than that of the process that it is started for."""
MAX_OOM_SCORE = 1000
"""From proc_pid_oom_score_adj(5)."""
_PR_SET_DUMPABLE = 4
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_loaded: dict[str, ModuleType] = {}


def main(control: int, starts: int) -> None:
    """Serve requests until the kernel closes its ends of the sockets, or is gone; then end its children."""
    # A group of its own: what a terminal sends to the kernel's group is not for this process.
    os.setpgid(0, 0)
    # The system sends this to a group whose last parent outside of it has gone, while one of its members is
    # stopped. That is when the kernel is killed, and this process has to end what the kernel left. A handler,
    # and not SIG_IGN, which the programs would inherit.
    signal.signal(signal.SIGHUP, lambda *_: None)
    _offer_memory()
    _raise_descriptor_limit()
    # Requests hold secrets, and no other process of the user may read them in a child that starts.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    for descriptor in (control, starts):
        # A child with one of them could have others started. They were inheritable for this program's start.
        os.set_inheritable(descriptor, False)
    Launcher(socket.socket(fileno=control), socket.socket(fileno=starts)).serve()
    # Without the interpreter's clean-up: the kernel waits for this process when it ends.
    os._exit(0)


class Launcher:
    """The sockets, the ready child, and the children that are kept."""

    def __init__(self, control: socket.socket, starts: socket.socket) -> None:
        self._program = load(os.path.join(_FOLDER, "ready_child_program.py"))
        self._children = load(os.path.join(_FOLDER, "kept_children_program.py")).Children(os.getppid())
        self._cloner = self._program.Cloner()
        self._control, self._starts = control, starts
        self._notices, self._childs_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ready = (0, -1)
        """The id and the pidfd of the ready child; 0 and -1 where there is none."""
        self._ended = False
        """Whether the last one has ended untaken, or could not be made."""
        self._observers: set[int] = set()
        self._children.watch(control.fileno())
        self._children.watch(self._notices.fileno())
        self._children.watch(starts.fileno())

    def serve(self) -> None:
        """Serve until the kernel is gone, and end its children."""
        # What is there by now is looked at by no collection, which would copy its pages in each child.
        gc.freeze()
        self._make_ready()
        while True:
            readable = self._children.wait()
            if self._notices.fileno() in readable:
                self._take()
            elif self._ready[1] in readable:
                self._ready_child_ended()
            self._reap_observers()
            if self._control.fileno() in readable and not self._obey():
                break
            is_asked = self._starts.fileno() in readable
            # One that has ended untaken may have been unable to live: the next one is made for a request.
            if self._ready[0] == 0 and (is_asked or not self._ended) and (error := self._make_ready()):
                self._ended = True
                if is_asked:
                    self._refuse(error)
        if self._ready[0]:
            self._children.ignore(self._ready[1])
            self._children.add(*self._ready)
        self._children.end_all()

    def _obey(self) -> bool:
        """Do what the kernel's next message says; False at the end."""
        message, received = self._program.receive(self._control)
        if message[:1] == MARK:
            self._children.add_mark(message[len(MARK) :])
        elif message:
            answer = self._program.ANSWER
            pids = [pid for (pid,) in answer.iter_unpack(message[len(ADOPT) :])]
            for pid, number in zip(pids, received, strict=True):
                self._children.add(pid, number)
        return bool(message)

    def _make_ready(self) -> int:
        """Make the next ready child. Returns the error number where the system refuses; otherwise 0."""
        try:
            pid, pidfd = self._cloner.clone()
        except OSError as error:
            return int(error.errno or 0)
        if pid == 0:
            self._program.serve_one(self._starts, self._childs_end, load)
        self._ready = (pid, pidfd)
        self._children.ignore(self._starts.fileno())
        self._children.watch(pidfd)
        return 0

    def _take(self) -> None:
        """Keep the ready child, which has taken a request."""
        notice, received = self._program.receive(self._notices)
        answer = self._program.ANSWER
        message = notice[answer.size :]
        self._ended = False
        self._children.add(*self._forget_ready(), answer.unpack_from(notice)[0])
        _load_ahead(message[1:])
        if message[:1] == self._program.OBSERVED:
            self._start_observer(*received)
        for number in received:
            os.close(number)

    def _ready_child_ended(self) -> None:
        """Forget a ready child that somebody has ended. The kernel reaps it."""
        os.close(self._forget_ready()[1])
        self._ended = True

    def _forget_ready(self) -> tuple[int, int]:
        forgotten, self._ready = self._ready, (0, -1)
        self._children.ignore(forgotten[1])
        self._children.watch(self._starts.fileno())
        return forgotten

    def _refuse(self, error: int) -> None:
        """Answer the next request: no child can be made."""
        message, received = self._program.receive(self._starts)
        if message:
            pack = self._program.ANSWER.pack
            answer = received[self._program.DESCRIPTORS - 2]
            os.write(answer, pack(0) + pack(error))
        for number in received:
            os.close(number)

    def _start_observer(self, channel: int, notes: int, request: int) -> None:
        """Start an observer. Over the channel the child sends it its filter's listener."""
        module = load(self._program.OBSERVER_PROGRAM)
        observer = os.fork()
        if observer == 0:
            try:
                order = marshal.loads(os.pread(request, os.fstat(request).st_size, 0))[6]  # noqa: S302
                module.observe(channel, order[2], notes)
            finally:
                os._exit(0)
        self._observers.add(observer)

    def _reap_observers(self) -> None:
        """Reap the observers whose programs have ended."""
        for observer in tuple(self._observers):
            if os.waitpid(observer, os.WNOHANG)[0]:
                self._observers.discard(observer)


def _offer_memory() -> None:
    """Let the system, where memory runs out, end a child and what it starts rather than the kernel."""
    # A child inherits the value. Raising it needs no privilege, but the file can only be opened as long as
    # this process can be inspected, so it is not left to the children. A system without it needs nothing.
    try:
        with open("/proc/self/oom_score_adj", "r+b", buffering=0) as score:
            own = int(score.read())
            score.write(b"%d" % min(own + OOM_SCORE_RAISE, MAX_OOM_SCORE))
    except OSError:
        return


def _raise_descriptor_limit() -> None:
    """Allow every number that a descriptor of the kernel may have. Each child gets a limit of its own."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def load(path: str) -> ModuleType:
    """The module in that file. This process has no search path on which it could be imported."""
    if path not in _loaded:
        from importlib.machinery import SourceFileLoader

        module = type(sys)(os.path.basename(path).removesuffix(".py"))
        module.__file__ = path
        SourceFileLoader(module.__name__, path).exec_module(module)
        _loaded[path] = module
    return _loaded[path]


def _load_ahead(path: bytes) -> None:
    """Load the module here, where a child names one, so that the next ones have it."""
    try:
        if path:
            load(os.fsdecode(path))
    except Exception:  # noqa: BLE001 - the child fails with it, and says so; the launcher serves the others
        return


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
