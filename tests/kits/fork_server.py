"""Processes of a Python program that start within milliseconds: each is forked from a process that has
imported the program.

A forked process has its own arguments, environment, folder, standard streams and process id, and it ends as
an interpreter does. Three things differ from an executed process: its parent is the server, its files
`environ` and `cmdline` in /proc are the server's, and modules that the program imports late are loaded
already. A test of one of these, or of the start itself, starts a process of its own. The kernel takes the
server for the command `flytui`, since its file has that name: the caller behind a forked command is the
process of the test.

A process is killed when whoever asked for it goes away, and every process is killed with its server, which
ends with the interpreter that uses it.
"""

from __future__ import annotations

import ast
import atexit
import ctypes
import fcntl
import gc
import importlib
import os
import pkgutil
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from kits.scratch import SCRATCH

TESTS = Path(__file__).resolve().parents[1]
LAUNCHER = str(Path(__file__).with_name("launcher.py"))
SERVER = """
import sys
sys.path[:] = sys.argv[4].split(chr(10))
from kits.fork_server import serve
serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
"""
FIXED_AT_START = ("LANG", "LC_", "PYTHON", "TZ", "MALLOC_", "LD_", "TEXTUAL", "NO_COLOR", "COLORTERM")
"""Variables that an interpreter, the C library or a module that is imported early reads once."""
LIMITS = "KITS_LIMITS"
"""The variable with limits for one forked process, such as `flycore.client.client:SETTLE_SECONDS=0.5`: a
test of what happens once a limit has passed need not wait for all of it."""
READ_LATER = {"PYTHON_KEYRING_BACKEND"}
"""Variables with such a beginning that a library reads in a program of its own."""
SERVED_AT: list[str] = []
"""The address of the server that this process is, or was forked from."""
CHUNK = 65_536
ENDS_WITHIN_S = 30.0


@dataclass
class _Server:
    """The process, once it was started."""

    address: str = ""

    def start(self, modules: Sequence[str], env: Mapping[str, str]) -> None:
        """Start it; it answers once it has imported the modules."""
        folder = Path(tempfile.mkdtemp(prefix="ff-", dir=SCRATCH))
        program = folder / "flytui"
        program.write_text(SERVER)
        self.address = str(folder / "s")
        paths = "\n".join((str(TESTS), *sys.path))
        lifeline, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.address)
            listener.listen(128)
            fds = (listener.fileno(), theirs.fileno())
            process = subprocess.Popen(
                [sys.executable, str(program), *map(str, fds), ",".join(modules), paths],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                pass_fds=fds,
                # So that Ctrl-C ends it by the end of its lifeline only. It has no own session, because
                # a kernel in this process would take its commands for those of sidecars.
                process_group=0,
            )
        atexit.register(_end, process, lifeline)


@dataclass
class ForkServer:
    """Forks processes that run the function `entry`, written `module:function`, after importing `preload`.
    In `preload`, `package.*` is a package with everything in it but its `__main__`.

    The server starts with the first process and ends with the interpreter that uses it.
    """

    entry: str
    preload: Sequence[str]
    env: Mapping[str, str] = field(default_factory=lambda: {"LANG": "C.UTF-8"})
    _server: _Server = field(default_factory=_Server)

    def other(self, entry: str) -> ForkServer:
        """The same server for another function."""
        return replace(self, entry=entry)

    def fits(self, env: Mapping[str, str]) -> bool:
        """Whether an interpreter would start with that environment in the same way as the server did with its
        own."""
        return _read_at_start(env) == _read_at_start(self.env)

    def run(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, given: bytes, patience: float
    ) -> subprocess.CompletedProcess[bytes]:
        """Run to the end with pipes as standard streams. `argv[0]` is the program's name."""
        stdin, given_to = os.pipe()
        process = self.start(argv, env, cwd, stdin)
        try:
            out, err = process.communicate(patience, given_to, given)
        except TimeoutError:
            process.kill()
            raise subprocess.TimeoutExpired(list(argv), patience) from None
        return subprocess.CompletedProcess(list(argv), process.wait(patience), out, err)

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        stdin: int,
        *,
        new_session: bool = False,
        shown: bool = False,
    ) -> ForkedProcess:
        """Start with the descriptor `stdin`, which this method closes, and pipes for the output. If `shown`
        is set, /proc shows the arguments instead of the server's."""
        (out, out_to), (err, err_to) = os.pipe(), os.pipe()
        streams = (stdin, out_to, err_to)
        process = self._fork(argv, env, cwd, streams, new_session=new_session, shown=shown)
        process.stdout, process.stderr = open(out, "rb"), open(err, "rb")  # noqa: SIM115 - as Popen keeps them
        return process

    def start_on_terminal(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, terminal: int
    ) -> ForkedProcess:
        """Start in a new session with a terminal's descriptor, which this method closes, as all three
        streams. As with Popen, the terminal is not the session's."""
        streams = (terminal, os.dup(terminal), os.dup(terminal))
        return self._fork(argv, env, cwd, streams, new_session=True)

    def launcher(self, *argv: str) -> list[str]:
        """The command line by which another program starts such a process. `argv[0]` is the program's
        name."""
        return [sys.executable, "-ISE", LAUNCHER, self._started(), self.entry, *argv]

    @property
    def folder(self) -> Path:
        """The server's folder, which it removes when it ends."""
        return Path(self._started()).parent

    def _fork(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        streams: tuple[int, int, int],
        *,
        new_session: bool,
        shown: bool = False,
    ) -> ForkedProcess:
        job = socket.socket(socket.AF_UNIX)
        try:
            job.connect(self._started())
            socket.send_fds(job, [b"\n"], streams)
        finally:
            for fd in streams:
                os.close(fd)
        document = {
            "entry": self.entry,
            "argv": list(argv),
            "env": dict(env),
            "cwd": str(cwd),
            "new_session": new_session,
            "own_terminal": False,
            "shown": shown,
        }
        job.sendall(repr(document).encode() + b"\n")
        replies = job.makefile("rb")
        return ForkedProcess(list(argv), int(replies.readline()), job, replies)

    def _started(self) -> str:
        if not self._server.address:
            self._server.start((self.entry.partition(":")[0], *self.preload), self.env)
        return self._server.address


@dataclass
class ForkedProcess:
    """A forked process, with the methods of `subprocess.Popen` that tests need."""

    args: list[str]
    pid: int
    job: socket.socket
    replies: BinaryIO
    stdout: BinaryIO | None = None
    stderr: BinaryIO | None = None
    written: tuple[bytes, bytes] = (b"", b"")
    """What `communicate` has read."""
    returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return self._ended_within(0.0)

    def wait(self, timeout: float) -> int:
        """Wait for the end and return the exit code."""
        code = self._ended_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def communicate(
        self, timeout: float, stdin: int | None = None, given: bytes = b""
    ) -> tuple[bytes, bytes]:
        """Read both outputs until they are closed and the process has ended."""
        assert self.stdout is not None
        assert self.stderr is not None
        if not (self.stdout.closed or self.stderr.closed):
            self.written = _exchange(stdin, (self.stdout, self.stderr), given, time.monotonic() + timeout)
        self.wait(timeout)
        return self.written

    def send_signal(self, signum: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, signum)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _ended_within(self, seconds: float) -> int | None:
        if self.returncode is None and select.select([self.job], [], [], seconds)[0]:
            self.returncode = os.waitstatus_to_exitcode(int(self.replies.readline()))
            self.replies.close()
            self.job.close()
        return self.returncode


def sibling(entry: str) -> ForkServer:
    """The server that this process was forked from, for another function."""
    return ForkServer(entry, (), _server=_Server(SERVED_AT[0]))


def _end(process: subprocess.Popen[bytes], lifeline: socket.socket) -> None:
    lifeline.close()
    process.wait(ENDS_WITHIN_S)


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in env.items()
        if name.startswith(FIXED_AT_START) and name not in READ_LATER
    }


def _exchange(
    stdin: int | None, outputs: tuple[BinaryIO, BinaryIO], given: bytes, end: float
) -> tuple[bytes, bytes]:
    """Write the input, read both outputs to their ends, and close all three."""
    found = {output.fileno(): b"" for output in outputs}
    order = list(found)
    left = memoryview(given)
    with outputs[0], outputs[1], selectors.DefaultSelector() as selector:
        for fd in found:
            selector.register(fd, selectors.EVENT_READ)
        if stdin is not None:
            os.set_blocking(stdin, False)
            selector.register(stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            ready = selector.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if key.fd != stdin:
                    chunk = os.read(key.fd, CHUNK)
                    found[key.fd] += chunk
                    more = bool(chunk)
                else:
                    left = _write(stdin, left)
                    more = bool(left)
                if not more:
                    selector.unregister(key.fd)
                    if key.fd == stdin:
                        os.close(stdin)
    return found[order[0]], found[order[1]]


def _write(stdin: int, left: memoryview) -> memoryview:
    """Write what the pipe takes and return the rest; nothing if the program does not read any more."""
    try:
        return left[os.write(stdin, left[:CHUNK]) :] if left else left
    except BrokenPipeError:
        return left[:0]


@dataclass
class _Job:
    """A process that runs, and the connection on which its end is reported."""

    pid: int
    ended: int
    """A descriptor of the process, which is readable once the process has ended."""
    connection: socket.socket


def serve(listener_fd: int, lifeline_fd: int, modules: str) -> None:
    """Run the server, until the lifeline is closed: fork a process for each connection.

    The server has one thread, because a fork copies only the thread that forks.
    """
    _import_all(modules.split(","))
    gc.collect()
    gc.freeze()
    listener, lifeline = socket.socket(fileno=listener_fd), socket.socket(fileno=lifeline_fd)
    SERVED_AT.append(listener.getsockname())
    jobs: dict[int, _Job] = {}
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(lifeline, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poll.poll()]
        if lifeline_fd in ready:
            _end_all(jobs, listener.getsockname())
            return
        for fd in ready:
            if fd == listener_fd:
                connection, _ = listener.accept()
                if (pid := os.fork()) == 0:
                    inherited = (listener, lifeline, *(job.connection for job in jobs.values()))
                    _run(_become(connection, inherited))
                _add(jobs, poll, _Job(pid, os.pidfd_open(pid), connection))
            elif fd in jobs:  # not one whose other descriptor came first
                _look_after(jobs, poll, fd)


def _import_all(names: Sequence[str]) -> None:
    for name in names:
        package = importlib.import_module(name.removesuffix(".*"))
        if name.endswith(".*"):
            found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
            _import_all([module.name for module in found if not module.name.endswith(".__main__")])


def _add(jobs: dict[int, _Job], poll: select.poll, job: _Job) -> None:
    poll.register(job.ended, select.POLLIN)
    poll.register(job.connection, select.POLLRDHUP)  # what is written there is for the forked process
    jobs[job.ended] = jobs[job.connection.fileno()] = job
    with suppress(BrokenPipeError):
        job.connection.sendall(f"{job.pid}\n".encode())


def _look_after(jobs: dict[int, _Job], poll: select.poll, fd: int) -> None:
    """Report the end of a process, or kill the process of somebody who has gone away."""
    job = jobs[fd]
    if fd != job.ended:
        os.kill(job.pid, signal.SIGKILL)  # not reaped yet, so no other process has its number
        poll.unregister(fd)
        return
    _, status = os.waitpid(job.pid, 0)
    with suppress(BrokenPipeError):
        job.connection.sendall(f"{status}\n".encode())
    for number in (job.ended, job.connection.fileno()):
        jobs.pop(number)
        with suppress(KeyError):
            poll.unregister(number)
    os.close(job.ended)
    job.connection.close()


def _end_all(jobs: Mapping[int, _Job], address: str) -> None:
    for pid in {job.pid for job in jobs.values()}:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    shutil.rmtree(Path(address).parent, ignore_errors=True)


def _become(job: socket.socket, inherited: Sequence[socket.socket]) -> Callable[[], Any]:
    """Take on the arguments, environment, folder and streams of the message, and return the program."""
    for one in inherited:
        one.detach()  # the numbers are closed below, and must not be closed again
    _, streams, _, _ = socket.recv_fds(job, 1, 3)
    document = bytearray()
    while not document.endswith(b"\n"):
        part = job.recv(CHUNK)
        if not part:
            os._exit(1)
        document += part
    whole = ast.literal_eval(document.decode())
    # The received numbers are above 2, and no program gets a descriptor of the server's.
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    job.detach()
    os.closerange(3, 65_536)
    if whole["new_session"]:
        os.setsid()
    if whole["own_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    Path("/proc/self/comm").write_text(Path(whole["argv"][0]).name)
    if whole["shown"]:
        _show(whole["argv"])
    os.chdir(whole["cwd"])
    os.environ.clear()
    os.environ.update(whole["env"])
    for limit in os.environ.pop(LIMITS, "").split():
        place, _, seconds = limit.partition("=")
        setattr(importlib.import_module(place.partition(":")[0]), place.partition(":")[2], float(seconds))
    sys.argv[:] = whole["argv"]
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        _open_stream(number, name, mode)
    module, _, function = whole["entry"].partition(":")
    program: Callable[[], Any] = getattr(importlib.import_module(module), function)
    return program


def _show(argv: Sequence[str]) -> None:
    """Have /proc show these arguments, in the memory of those that the server was started with."""
    begin, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    ctypes.memmove(begin, "\0".join(argv).encode().ljust(end - begin, b"\0"), end - begin)


def run_code() -> None:
    """Run the Python text in the first argument, as `python -c` does: an `entry` for programs of tests."""
    code = sys.argv.pop(1)
    exec(compile(code, "<test>", "exec"), {"__name__": "__main__"})  # the test's own text


def _run(program: Callable[[], Any]) -> NoReturn:
    """Run the program and end as the interpreter does, but without taking the modules apart: that would copy
    nearly all memory that the process shares with the server."""
    try:
        code = program()
    except SystemExit as leaving:
        code = leaving.code
    except BaseException:  # noqa: BLE001 - what an interpreter does with an exception that nobody handled
        sys.excepthook(*sys.exc_info())
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the end of an interpreter does
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    except ValueError:
        pass  # the program has closed it
    os._exit((code or 0) & 0xFF)


def _open_stream(number: int, name: str, mode: str) -> None:
    """Open a standard stream as the interpreter does."""
    errors = "backslashreplace" if name == "stderr" else "surrogateescape"
    stream = open(  # noqa: SIM115 - for good
        number,
        mode,
        1 if name == "stderr" else -1,
        encoding="utf-8",
        errors=errors,
        newline=None if mode == "r" else "\n",
        closefd=False,
    )
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)
