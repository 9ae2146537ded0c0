"""The forker: a process that has imported the command line, and forks a process for each stub that connects.

A command starts it if a kernel of this user runs, and it ends when none runs any more. It has nothing of a
kernel: no connection to one, and no secret. It works only for processes that may do the same as itself
(`address.may_replace`).

The forker has one thread, because a fork copies only the thread that forks.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pkgutil import walk_packages
from time import monotonic

from flysafe.unix_sockets import peer_credentials
from flytui.forked.address import forker_socket, is_private_folder, may_replace
from flytui.forked.request import ENDED, MAX_DESCRIPTORS, MAX_MESSAGE_BYTES, READY, REFUSED, unpacked

IMPORTED = ("flytui.cli", "flycore.offline")
"""Packages of which everything is imported: the command line, and what its commands import when they run."""
MODULES = (
    *("anyio._backends._asyncio", "flycore.client.kernel_link", "flycore.client.unanswering_kernel"),
    *(
        "flytui.forked.command_process",
        "flytui.console.catalog.details",
        "jsonschema_rs",
        "pyjson5",
        "rich.console",
        "rich.table",
    ),
)
"""Further modules that commands import when they run."""
BACKLOG = 128
MAX_JOBS = 256
"""Stubs at one time. Further ones do the work themselves."""
HANDS_OVER_S = 2.0
"""How long a stub may take from its connection to its request."""


def main() -> int:
    """Run the forker and return the exit status."""
    # Descriptors that the command had inherited would keep somebody's pipe open.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    path = forker_socket(os.environ)
    lock = _lock(path)
    if lock < 0 or not _running_kernels():
        return 0
    _import_all()
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        with suppress(FileNotFoundError):
            os.unlink(path)
        before = os.umask(0o177)
        listener.bind(path)
        os.umask(before)
        listener.listen(BACKLOG)
        _Forker(listener, path).serve()
    return 0


def _lock(path: str) -> int:
    """Lock the place of the socket for as long as this process lives, and return the descriptor; -1 if
    another forker has it, or if it is not private."""
    folder = os.path.dirname(path)
    with suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if is_private_folder(folder):
            lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
    return -1


def _running_kernels() -> tuple[int, ...]:
    from flycore.offline.active_roots import running_kernels

    return running_kernels(os.environ)


def _import_all() -> None:
    for name in MODULES:
        import_module(name)
    for name in IMPORTED:
        package = import_module(name)
        for module in walk_packages(package.__path__, f"{name}."):
            import_module(module.name)


@dataclass
class _Job:
    """A stub that has connected."""

    connection: socket.socket
    stub: int
    """Its process id."""
    until: float
    """When it must have handed over, on the monotonic clock."""
    process: int = 0
    """The process that works for it; 0 before it has handed over."""
    ended: int = -1
    """A descriptor of that process."""


class _Forker:
    def __init__(self, listener: socket.socket, path: str) -> None:
        self._listener = listener
        self._path = path
        self._jobs: dict[int, _Job] = {}
        """The stubs, by the descriptors of their connections and of their processes."""
        self._kernels: set[int] = set()
        """Descriptors of the kernels that run."""
        self._poll = select.poll()

    def serve(self) -> None:
        """Serve stubs until no kernel runs and no command."""
        self._poll.register(self._listener, select.POLLIN)
        self._watch_kernels()
        while self._kernels or self._jobs:
            for descriptor, _ in self._poll.poll(self._patience_ms()):
                if descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor in self._kernels:
                    self._drop_kernel(descriptor)
                elif descriptor in self._jobs:
                    self._attend(descriptor)
            for job in tuple(self._jobs.values()):
                if not job.process and job.until <= monotonic():
                    self._drop(job)

    def _watch_kernels(self) -> None:
        for pid in _running_kernels():
            with suppress(OSError):
                descriptor = os.pidfd_open(pid)
                self._kernels.add(descriptor)
                self._poll.register(descriptor, select.POLLIN)

    def _drop_kernel(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        self._kernels.remove(descriptor)
        os.close(descriptor)
        if not self._kernels:
            self._watch_kernels()  # others may have begun to run since
        if not self._kernels and self._listener.fileno() >= 0:
            # Commands that run go on, and no further one comes.
            self._poll.unregister(self._listener)
            os.unlink(self._path)
            self._listener.close()

    def _patience_ms(self) -> int | None:
        until = min((job.until for job in self._jobs.values() if not job.process), default=None)
        return None if until is None else max(0, int((until - monotonic()) * 1000) + 1)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        stub, uid = peer_credentials(connection)
        if uid != os.getuid() or len(self._jobs) >= MAX_JOBS or not may_replace(stub):
            connection.close()
            return
        job = _Job(connection, stub, monotonic() + HANDS_OVER_S)
        self._jobs[connection.fileno()] = job
        self._poll.register(connection, select.POLLIN | select.POLLRDHUP)
        try:
            connection.send(READY)
        except OSError:
            self._drop(job)

    def _attend(self, descriptor: int) -> None:
        """Read the request of a stub, report the end of its process, or kill the process of a stub that is
        gone."""
        job = self._jobs[descriptor]
        if not job.process:
            self._fork(job)
        elif descriptor == job.ended:
            _, status = os.waitpid(job.process, 0)
            with suppress(OSError):
                job.connection.send(ENDED + str(status).encode("ascii"))
            self._drop(job)
        else:
            os.kill(job.process, 9)  # not reaped yet, so no other process has its number
            self._poll.unregister(job.connection)

    def _fork(self, job: _Job) -> None:
        size = socket.CMSG_SPACE(4 * (MAX_DESCRIPTORS + 2))
        descriptors: list[int] = []
        with suppress(OSError):
            _, passed, _, _ = job.connection.recvmsg(MAX_MESSAGE_BYTES, size, socket.MSG_CMSG_CLOEXEC)
            descriptors = [number for _, _, data in passed for number in unpacked(data)]
        if len(descriptors) < 2:
            self._drop(job)
            return
        own = os.getpid()
        try:
            pid = os.fork()
        except OSError:  # too many processes: the stub does the work itself, and the others go on
            _refuse(job, descriptors)
            self._drop(job)
            return
        if not pid:
            # Whatever happens, nothing of the forker runs in this process.
            try:
                from flytui.forked.command_process import run_for

                run_for(job.connection, descriptors, job.stub, own)
            finally:
                os._exit(1)
        for number in descriptors:
            os.close(number)
        job.process, job.ended = pid, os.pidfd_open(pid)
        self._jobs[job.ended] = job
        self._poll.register(job.ended, select.POLLIN)
        # What the stub sends from now on is for that process.
        self._poll.modify(job.connection, select.POLLRDHUP)

    def _drop(self, job: _Job) -> None:
        for descriptor in (job.connection.fileno(), job.ended):
            if self._jobs.pop(descriptor, None) is not None:
                with suppress(KeyError):  # a connection whose stub is gone
                    self._poll.unregister(descriptor)
        job.connection.close()
        if job.ended >= 0:
            os.close(job.ended)


def _refuse(job: _Job, descriptors: Sequence[int]) -> None:
    for number in descriptors:
        os.close(number)
    with suppress(OSError):
        job.connection.send(REFUSED)


if __name__ == "__main__":
    raise SystemExit(main())
