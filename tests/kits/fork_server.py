"""Processes of a Python program that start within milliseconds: each is forked from a process that has
imported the program.

A forked process has its own arguments, environment, folder, standard streams and process id, and it ends as
an interpreter does. Two things differ from an executed process: `/proc/PID/environ` and `/proc/PID/cmdline`
are the server's, and modules that the program imports late are loaded already. A test of one of these, or of
the start itself, starts a process of its own.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

TESTS = Path(__file__).resolve().parents[1]
SERVER = """
import sys
sys.path[:] = sys.argv[3].split(chr(10))
from kits.fork_server import serve
program = serve(int(sys.argv[1]), sys.argv[2])
if program is not None:
    sys.exit(program())
"""
FIXED_AT_START = ("LANG", "LC_", "PYTHON", "TZ", "MALLOC_", "LD_", "TEXTUAL", "NO_COLOR", "COLORTERM")
"""Variables that an interpreter, the C library or a module that is imported early reads once."""
CHUNK = 65_536
ENDS_WITHIN_S = 30.0


@dataclass
class ForkServer:
    """Forks processes that run the function `entry`, written `module:function`, after importing `preload`.

    The server starts with the first process and ends with the interpreter that uses it.
    """

    entry: str
    preload: Sequence[str]
    env: Mapping[str, str] = field(default_factory=lambda: {"LANG": "C.UTF-8"})
    _control: socket.socket | None = None

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

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, stdin: int) -> ForkedProcess:
        """Start with the descriptor `stdin`, which this method closes, and pipes for the output."""
        (out, out_to), (err, err_to) = os.pipe(), os.pipe()
        process = self._fork(argv, env, cwd, (stdin, out_to, err_to), new_session=False)
        process.stdout, process.stderr = open(out, "rb"), open(err, "rb")  # noqa: SIM115 - as Popen keeps them
        return process

    def start_on_terminal(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, terminal: int
    ) -> ForkedProcess:
        """Start in a new session with a terminal's descriptor, which this method closes, as all three
        streams."""
        streams = (terminal, os.dup(terminal), os.dup(terminal))
        return self._fork(argv, env, cwd, streams, new_session=True)

    def _fork(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        streams: tuple[int, int, int],
        *,
        new_session: bool,
    ) -> ForkedProcess:
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self._connected(), [b"j"], [theirs.fileno(), *streams])
        finally:
            theirs.close()
            for fd in streams:
                os.close(fd)
        document = {"argv": list(argv), "env": dict(env), "cwd": str(cwd), "new_session": new_session}
        ours.sendall(json.dumps(document).encode() + b"\n")
        replies = ours.makefile("rb")
        return ForkedProcess(list(argv), int(replies.readline()), ours, replies)

    def _connected(self) -> socket.socket:
        if self._control is None:
            self._control, theirs = socket.socketpair()
            paths = "\n".join((str(TESTS), *sys.path))
            modules = ",".join((self.entry, *self.preload))
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-c", SERVER, str(theirs.fileno()), modules, paths],
                    env=dict(self.env),
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                )
            atexit.register(_end, process, self._control)
        return self._control


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


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    process.wait(ENDS_WITHIN_S)


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(FIXED_AT_START)}


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


def serve(control_fd: int, modules: str) -> Callable[[], Any] | None:
    """Run the server: fork a process for each message.

    In the forked process this returns the program; in the server it returns None once the other side has
    closed. The server has one thread, because a fork copies only the thread that forks.
    """
    entry, *preload = modules.split(",")
    for name in (entry.partition(":")[0], *preload):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    control = socket.socket(fileno=control_fd)
    wake_read, wake_write = socket.socketpair()
    wake_write.setblocking(False)
    wake_read.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
    jobs: dict[int, socket.socket] = {}
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake_read, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if wake_read.fileno() in ready:
            wake_read.recv(CHUNK)
            _tell_ended(jobs)
        if control.fileno() not in ready:
            continue
        message, fds, _, _ = socket.recv_fds(control, 1, 4)
        if not message:
            return None
        job, *streams = fds
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            for inherited in (control, wake_read, wake_write, *jobs.values()):
                inherited.detach()  # the numbers are closed below, and must not be closed again
            return _become(entry, job, streams)
        for fd in streams:
            os.close(fd)
        jobs[pid] = socket.socket(fileno=job)
        jobs[pid].sendall(f"{pid}\n".encode())


def _tell_ended(jobs: dict[int, socket.socket]) -> None:
    while jobs:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with jobs.pop(pid) as job:
            job.sendall(f"{status}\n".encode())


def _become(entry: str, job: int, streams: Sequence[int]) -> Callable[[], Any]:
    """Take on the arguments, environment, folder and streams of the message, and return the program."""
    document = bytearray()
    while not document.endswith(b"\n"):
        document += os.read(job, CHUNK)
    whole = json.loads(document)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(3, max(job, *streams) + 1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if whole["new_session"]:
        os.setsid()
    os.chdir(whole["cwd"])
    os.environ.clear()
    os.environ.update(whole["env"])
    sys.argv[:] = whole["argv"]
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        errors = "backslashreplace" if name == "stderr" else "surrogateescape"
        newline = None if mode == "r" else "\n"
        stream = open(number, mode, encoding="utf-8", errors=errors, newline=newline, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    module, _, function = entry.partition(":")
    program: Callable[[], Any] = getattr(sys.modules[module], function)
    return program
