"""The program of the launcher: a small process that starts the children of a kernel, and keeps them from
outliving it.

It is run by its path, with the standard library only, and imports nothing of this distribution. Each child
becomes a child subreaper before it executes its program: that setting survives `execve`, and whatever the
program starts and leaves, in however many forks and sessions, becomes a child of that program and not of the
kernel. Only when the program itself has exited do its orphans become children of the kernel.

The child is not a child of this process either. A process in between starts it and exits, so that it becomes
a child of the kernel, the nearest subreaper above: the kernel waits for it as for any child of its own.

One request is one message on the socket with the descriptors of the child's stdin, stdout and stderr, of a
pipe for the answer, of a file with the request, and of what else the child is given. The answer is the
child's id, 8 bytes, and after it the error number, 8 bytes, where the child could not be started; the end of
the pipe says that it was started.

The resource limits are set in the child before its program runs, so that whatever it starts has them, too.

A program that is to be observed gets an observer (`observer_program.py`), a child of this process: the
message then begins with `OBSERVED`, and the last descriptor is the file of its notes.

A child with a control group gets a descriptor of the group's `cgroup.procs`, before that of the notes, and
moves into the group by itself.

A program that is to be confined by its own process names, behind that byte, the file of the module that does
it. The child calls its function `restrict` after everything else that needs a right, and executes nothing
where that raises. Both modules are loaded in this process, once, so that no child has to.

The launcher has a pidfd of each child until the child exits. At the end of the socket the kernel is gone,
however it ended, and the launcher ends each of these children with all its descendants. A kernel that ends by
itself has ended them before. A new launcher gets the pidfds of the children that an earlier one started.

While a child runs, the launcher also looks for processes that became children of the kernel meanwhile: what a
child left when it exited, or after it gave its own setting up. What is nobody's child by the time that the
kernel is gone is found by its environment, which names the session of the kernel's calls: the system ends
bwrap together with the kernel, but not what bwrap has started a moment before.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import marshal
import os
import resource
import select
import signal
import socket
import struct
import sys
import time

TYPE_CHECKING = False
"""As in `typing`, which takes as long to import as all of the launcher's start."""
if TYPE_CHECKING:
    from types import ModuleType

ANSWER = struct.Struct("=q")
START, ADOPT, MARK = b"+", b"=", b"#"
"""The first byte of a message: start a child; keep the children whose pidfds it carries, with their ids
behind that byte; or learn how the variable begins, behind that byte, that marks what a child starts."""
DESCRIPTORS = 5
MOST_DESCRIPTORS = 253
"""SCM_MAX_FD of the kernel's `include/net/scm.h`: how many one message can carry."""
OOM_SCORE_RAISE = 500
"""How much more a child's `oom_score_adj` is than that of the process that it is started for."""
MAX_OOM_SCORE = 1000
"""From proc_pid_oom_score_adj(5)."""
OBSERVED = b"o"
"""The first byte of a message that asks for a child with an observer."""
LONGEST_PATH = 4_096
"""PATH_MAX of the kernel, with the NUL: how long the path of a module may be."""
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_PAUSE_S = 0.0002
LOOK_SECONDS = 1.0
"""How often the launcher looks for what children have left to the kernel."""
END_SECONDS = 20.0
"""How long the launcher tries to end what a kernel left. What is left then may not be ended by this user."""
_STOP_SECONDS = 2.0
"""How long all processes may take to stop: one in an uninterruptible read stops only after it."""
_LOOK_PAUSE_S = 0.002
_SIGNAL_GROUP = 4
"""PIDFD_SIGNAL_PROCESS_GROUP of the kernel's `include/uapi/linux/pidfd.h`, since Linux 6.9."""
_STOPPED_OR_ENDED = "TtZX"


def main(descriptor: int) -> None:
    """Serve requests until the kernel closes its end of the socket, or is gone; then end its children."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    # A group of its own: what a terminal sends to the kernel's group is not for this process.
    os.setpgid(0, 0)
    _offer_memory()
    _raise_descriptor_limit()
    # Requests hold secrets, and no other process of the user may read them here.
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    # A child with this socket could have others started. It was inheritable for this program's own start.
    os.set_inheritable(descriptor, False)
    control = socket.socket(fileno=descriptor)
    children = Children(os.getppid(), control.fileno())
    while True:
        if not children.wait():
            continue
        message, received = _receive(control)
        _reap_observers()
        if message[:1] in (START, OBSERVED):
            _load_ahead(message[1:])
            channel = _start_observer(received) if message[:1] == OBSERVED else -1
            _start(received, prctl, children, channel)
        elif message[:1] == MARK:
            children.add_mark(message[len(MARK) :])
        elif message:
            _adopt(message, received, children)
        else:
            break
    children.end_all()
    # Without the interpreter's clean-up: the kernel waits for this process when it ends.
    os._exit(0)


def _receive(connection: socket.socket, flags: int = 0) -> tuple[bytes, list[int]]:
    """The next message with its descriptors; empty at the end, and where there is none and nothing waits."""
    most = max(len(ADOPT) + ANSWER.size * MOST_DESCRIPTORS, len(START) + LONGEST_PATH)
    try:
        message, received, _, _ = socket.recv_fds(connection, most, MOST_DESCRIPTORS, flags)
    except (ConnectionError, BlockingIOError):
        return b"", []
    # No child may keep one of them: the end of the answer's pipe says that a program was executed. This
    # version of Python does not hand a flag for that to `recvmsg`.
    for number in received:
        os.set_inheritable(number, False)
    return message, received


def _adopt(message: bytes, received: list[int], children: Children) -> None:
    """Keep the processes that the message names."""
    pids = [pid for (pid,) in ANSWER.iter_unpack(message[len(ADOPT) :])]
    for pid, number in zip(pids, received, strict=True):
        children.add(pid, number)


def _start(received: list[int], prctl: object, children: Children, channel: int) -> None:
    """Start a child by a process in between, and take its pidfd over. `channel` leads to its observer; -1
    where it has none."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        between = os.fork()
        if between == 0:
            _start_between(received, prctl, theirs, channel)
        for number in (*received, *((channel,) if channel >= 0 else ())):
            os.close(number)
        os.waitpid(between, 0)
        # What the process in between has sent is there by now; where it failed there is nothing.
        message, pidfds = _receive(ours, socket.MSG_DONTWAIT)
        if message:
            _adopt(message, pidfds, children)


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


_observers: set[int] = set()
_OBSERVER_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "observer_program.py")
_loaded: dict[str, ModuleType] = {}


def _module(path: str) -> ModuleType:
    """The module in that file. This process has no search path on which it could be imported."""
    if path not in _loaded:
        # Only here: a start that needs no module does without it.
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
            _module(os.fsdecode(path))
    except Exception:  # noqa: BLE001 - the child fails with it, and says so; the launcher serves the others
        return


def _start_observer(received: list[int]) -> int:
    """Start the observer of the next child, and return the channel over which the child sends its filter's
    listener."""
    module = _module(_OBSERVER_PROGRAM)
    ours, theirs = socket.socketpair()
    observer = os.fork()
    if observer == 0:
        try:
            request = received[DESCRIPTORS - 1]
            order = marshal.loads(os.pread(request, os.fstat(request).st_size, 0))[6]  # noqa: S302
            ours.close()
            module.observe(theirs.detach(), order[2], received[-1])
        finally:
            os._exit(0)
    _observers.add(observer)
    theirs.close()
    return ours.detach()


def _reap_observers() -> None:
    """Reap the observers whose programs have ended."""
    for observer in tuple(_observers):
        if os.waitpid(observer, os.WNOHANG)[0]:
            _observers.discard(observer)


def _start_between(received: list[int], prctl: object, launcher: socket.socket, channel: int) -> None:
    """In the process between: start the child, hand its pidfd over, and exit. Does not return."""
    try:
        between = os.getpid()
        child = os.fork()
        if child == 0:
            _start_child(received, between, prctl, channel)
        # Here nobody else can have reaped the child, so its id is its own.
        socket.send_fds(launcher, [ADOPT + ANSWER.pack(child)], [os.pidfd_open(child)])
    finally:
        os._exit(0)


def _start_child(received: list[int], between: int, prctl: object, channel: int) -> None:
    """In the child: wait until it belongs to the kernel, then execute its program. Does not return."""
    stdin, stdout, stderr, answer, request, *further = received
    try:
        os.write(answer, ANSWER.pack(os.getpid()))
        data = os.pread(request, os.fstat(request).st_size, 0)
        # The kernel itself wrote it.
        candidates, argv, environ, cwd, numbers, limits, *rest = marshal.loads(data)  # noqa: S302
        observed, restricted, grouped = rest
        while os.getppid() == between:
            time.sleep(_PAUSE_S)
        os.setsid()
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # type: ignore[operator]  # a function of ctypes
        for ignored in _CHANGED_BY_PYTHON:
            signal.signal(ignored, signal.SIG_DFL)
        os.chdir(cwd)
        # Far from 0 to 2 first: one of these numbers may be a descriptor that was received.
        for target, number in enumerate([os.dup(number) for number in (stdin, stdout, stderr)]):
            os.dup2(number, target)
        if observed:
            further.pop()  # the notes are the observer's
            # Out of the way of the numbers that are handed over.
            channel = fcntl.fcntl(channel, fcntl.F_DUPFD_CLOEXEC, max(numbers, default=0) + 1)
        if grouped:
            os.write(further.pop(), b"0")
        answer = _hand_over(further, numbers, answer)
        if observed:
            _module(_OBSERVER_PROGRAM).install(*observed[:2], channel)
        if restricted:
            # An exception that is none of the system's ends this process before it executes anything.
            _module(os.fsdecode(restricted[0])).restrict(restricted[1])
        # Last, because this process, too, is subject to them from here on.
        _limit(limits)
        _execute(candidates, argv, environ)
    except OSError as error:
        os.write(answer, ANSWER.pack(error.errno or 0))
    except MemoryError:
        os.write(answer, ANSWER.pack(errno.ENOMEM))
    finally:
        os._exit(127)


def _hand_over(received: list[int], numbers: list[int], answer: int) -> int:
    """Give the program these descriptors under these numbers. Returns the new number of the answer's pipe."""
    if not numbers:
        return answer
    # All of them above every number that is wanted first: one that is wanted may be in use.
    above = max(numbers) + 1
    answer, *moved = (fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, above) for number in (answer, *received))
    for number, descriptor in zip(numbers, moved, strict=True):
        os.dup2(descriptor, number)
    return answer


def _limit(limits: list[tuple[int, int, bool]]) -> None:
    """Set the limits: the kind, the value, and whether the program must not raise it again."""
    for kind, wanted, lasting in limits:
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value if lasting else hard))


def _execute(candidates: list[bytes], argv: list[bytes], environ: dict[bytes, bytes]) -> None:
    """Execute the first candidate that can be executed. Raises OSError for the most telling failure."""
    fault: OSError | None = None
    for candidate in candidates:
        try:
            os.execve(candidate, argv, environ)  # noqa: S606 - without a shell is what is wanted
        except (FileNotFoundError, NotADirectoryError) as error:
            fault = fault or error
        except OSError as error:
            fault = error
    raise fault if fault is not None else FileNotFoundError(2, "")


class _Process:
    """A process as /proc shows it; `started` in clock ticks since boot."""

    # A named tuple would import `typing`, which takes as long as all of the launcher's start.
    __slots__ = ("parent", "session", "started", "state")

    def __init__(self, state: str, parent: int, session: int, started: int) -> None:
        self.state, self.parent, self.session, self.started = state, parent, session, started


class Children:
    """The processes that end with the kernel, each by a pidfd, which means one process for good: an id may be
    used again."""

    def __init__(self, kernel: int, control: int) -> None:
        self._kernel = kernel
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._control = control
        self._next_look = 0.0
        self._known: dict[int, tuple[int, int]] = {}
        """By pidfd: the process id, and when it was started."""
        self._marks: set[bytes] = set()

    def add_mark(self, mark: bytes) -> None:
        """End also each process whose environment has a variable that begins so, name and value."""
        self._marks.add(mark)

    def add(self, pid: int, pidfd: int) -> None:
        """Keep the process, and close its pidfd when it exits."""
        process = _read(pid)
        if not self._keep(pid, pidfd) and process is not None:
            self._note_orphans(process.started)

    def _keep(self, pid: int, pidfd: int) -> bool:
        """Keep the process; False where it has exited."""
        process = _read(pid)
        # A process that has not exited after the look at /proc had its id during the look.
        if process is None or process.state in "ZX" or _has_exited(pidfd):
            os.close(pidfd)
            return False
        self._known[pidfd] = (pid, process.started)
        self._poll.register(pidfd, select.POLLIN)
        return True

    def wait(self) -> bool:
        """Wait until the socket has a message or has ended, and look after the processes meanwhile. Returns
        False where there is nothing to read yet."""
        ready = [number for number, _ in self._poll.poll(LOOK_SECONDS * 1000 if self._known else None)]
        exited = [number for number in ready if number in self._known]
        # Before they are forgotten: what a child leaves becomes the kernel's when the child exits.
        if exited or time.monotonic() >= self._next_look:
            self._note_orphans()
            self._next_look = time.monotonic() + LOOK_SECONDS
        for number in exited:
            self._forget(number)
        return self._control in ready

    def end_all(self) -> None:
        """End all processes and their descendants, until none is left."""
        # The sockets of a process are closed before its children get another parent, so that some may still
        # be found there.
        self._note_orphans()
        deadline = time.monotonic() + END_SECONDS
        ended = False
        while not ended and time.monotonic() < deadline:
            # A process that has exited starts nothing any more: the last look begins when all have.
            none_left = not self._known
            # A stopped process starts no other one: only what has stopped is known as a whole.
            self._stop_all()
            for pidfd in self._known:
                _send(pidfd, signal.SIGKILL)
            for pidfd in tuple(self._known):
                if _has_exited(pidfd):
                    self._forget(pidfd)
            ended = none_left and not self._known
            if self._known:
                time.sleep(_LOOK_PAUSE_S)

    def _stop_all(self) -> None:
        deadline = time.monotonic() + _STOP_SECONDS
        for pidfd in tuple(self._known):
            # The whole group with one call: none of its members can start another one between two signals.
            _send(pidfd, signal.SIGSTOP, _SIGNAL_GROUP)
            _send(pidfd, signal.SIGSTOP)
        while time.monotonic() < deadline:
            table = _table()
            found = self._descendants(table)
            fresh = [pid for pid in found if self._stop(pid, table[pid].started)]
            if not fresh and all(table[pid].state in _STOPPED_OR_ENDED for pid in found):
                return
            time.sleep(0 if fresh else _LOOK_PAUSE_S)

    def _descendants(self, table: dict[int, _Process]) -> list[int]:
        """The known processes that are in the table, those with a mark, and all below them."""
        below: dict[int, list[int]] = {}
        for pid, process in table.items():
            below.setdefault(process.parent, []).append(pid)
        found = [
            pid for pid, started in self._known.values() if pid in table and table[pid].started == started
        ]
        found += [pid for pid in table.keys() - set(found) if self._is_marked(pid)]
        seen = set(found)
        for pid in found:  # grows while it is walked
            more = [child for child in below.get(pid, ()) if child not in seen]
            seen.update(more)
            found += more
        return found

    def _is_marked(self, pid: int) -> bool:
        variables = _contents(f"/proc/{pid}/environ").split(b"\0") if self._marks else ()
        return any(variable.startswith(mark) for variable in variables for mark in self._marks)

    def _stop(self, pid: int, started: int) -> bool:
        """Stop and keep a process that was found; False where it was known or has exited."""
        if (pid, started) in self._known.values():
            return False
        pidfd = _open(pid, started)
        if pidfd < 0 or not self._keep(pid, pidfd):
            return False
        _send(pidfd, signal.SIGSTOP)
        return True

    def _note_orphans(self, since: int | None = None) -> None:
        """Keep what has become a child of the kernel, of the processes that were started at `since` or
        later; without it, since the first of those that are known."""
        if since is None and not self._known:
            return
        ids = {pid for pid, _ in self._known.values()}
        first = min((started for _, started in self._known.values()), default=since or 0)
        own_session = os.getsid(0)
        for pid in _children_of(self._kernel) - ids - {os.getpid()}:
            process = _read(pid)
            # A process in the kernel's own session was started by a library there, and belongs to no call.
            if process is None or process.parent != self._kernel or process.session == own_session:
                continue
            if process.started >= min(first, since or first) and process.state not in "ZX":
                pidfd = _open(pid, process.started)
                if pidfd >= 0:
                    self._keep(pid, pidfd)

    def _forget(self, pidfd: int) -> None:
        self._poll.unregister(pidfd)
        del self._known[pidfd]
        os.close(pidfd)


def _open(pid: int, started: int) -> int:
    """A pidfd of the process with that id and start; -1 where it has ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return -1
    # The descriptor means one process from here on, so that a look after that shows whether it is that one.
    process = _read(pid)
    if process is not None and process.started == started:
        return pidfd
    os.close(pidfd)
    return -1


def _send(pidfd: int, number: signal.Signals, flags: int = 0) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number, None, flags)
    except OSError:
        return  # it has exited, or may not be signalled, or this system does not know the flag


def _has_exited(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _children_of(pid: int) -> set[int]:
    """The children of all threads of the process; none where this system has no such lists."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return set()
    lists = (_contents(f"/proc/{pid}/task/{thread}/children") for thread in threads)
    return {int(child) for one in lists for child in one.split()}


def _table() -> dict[int, _Process]:
    found = {int(name): _read(int(name)) for name in os.listdir("/proc") if name.isdecimal()}
    return {pid: process for pid, process in found.items() if process is not None}


def _read(pid: int) -> _Process | None:
    # A process chooses its own name, which may hold brackets and spaces: the last bracket ends it.
    fields = _contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20:
        return None
    return _Process(fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def _contents(path: str) -> bytes:
    """The contents of a file of /proc; empty where it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            data = b""
            while part := file.read(65_536):
                data += part
            return data
    except OSError:
        return b""


if __name__ == "__main__":
    main(int(sys.argv[1]))
