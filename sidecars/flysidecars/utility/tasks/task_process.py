"""A running task: a thread keeps its last output and writes its end to the record."""

from __future__ import annotations

import os
import selectors
from threading import Event, Thread

from flysidecars.child_process import GRACE_S, KILL_PATIENCE_S, ChildProcess
from flysidecars.utility.tasks.records import STREAMS, now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from flysidecars.utility.tasks.records import TaskRecord
    from flysidecars.utility.tasks.ring_buffer import RingBuffer

_CHUNK = 65_536
_LEFTOVER_GRACE_S = 0.5
"""Seconds between SIGTERM and SIGKILL for the processes that a task has left behind."""
_DRAIN_CHUNKS = 64
"""Reads from each pipe after the task has ended: more than a pipe holds (at most 1 MiB by default)."""


class TaskProcess:
    """A task that this process runs.

    `on_end` is called once, in the task's thread, after all its processes have ended and the record is
    written.
    """

    def __init__(
        self, child: ChildProcess, record: TaskRecord, on_end: Callable[[TaskProcess], None]
    ) -> None:
        self.child = child
        self.record = record
        self.ended = Event()
        self._stopped = False
        self._on_end = on_end
        self._lock = record.acquire_lock()
        self._rings = {name: record.create_log(name, int(str(record.fields["logBytes"]))) for name in STREAMS}

    def start(self) -> None:
        """Start the thread that reads the output."""
        Thread(target=self._run, daemon=True).start()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """End the task and all processes that it started, and wait until the record is written."""
        self._stopped = True
        self.child.end_tree(grace_s)
        self.ended.wait(KILL_PATIENCE_S + _LEFTOVER_GRACE_S)

    def _run(self) -> None:
        try:
            try:
                self._read_until_exit()
            finally:
                self.child.end_tree(_LEFTOVER_GRACE_S)
            self._drain()
        finally:
            self._close()

    def _close(self) -> None:
        state = "stopped" if self._stopped else "exited"
        try:
            self.record.save(state=state, exitCode=self.child.popen.poll(), endedAt=now())
        # The record is written before the lock is released, so that no reader takes the task for lost.
        # `on_end` comes last: it may report the sidecar as idle, and the kernel may then end this process.
        finally:
            self.child.close()
            for ring in self._rings.values():
                ring.close()
            self.record.close()
            os.close(self._lock)
            self._on_end(self)
            self.ended.set()

    def _read_until_exit(self) -> None:
        """Copy the output to the logs until the program itself has exited."""
        # Not until the pipes end: a process that the task has left behind may hold them open.
        leader = os.pidfd_open(self.child.popen.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(leader, selectors.EVENT_READ)
                for descriptor, ring in self._pipes():
                    os.set_blocking(descriptor, False)
                    selector.register(descriptor, selectors.EVENT_READ, ring)
                while True:
                    ready = [key for key, _ in selector.select()]
                    for key in ready:
                        if key.fd != leader and not _copy_to_log(key.fd, key.data):
                            selector.unregister(key.fd)
                    if any(key.fd == leader for key in ready):
                        return
        finally:
            os.close(leader)

    def _drain(self) -> None:
        for descriptor, ring in self._pipes():
            for _ in range(_DRAIN_CHUNKS):
                try:
                    if not _copy_to_log(descriptor, ring):
                        break
                except BlockingIOError:
                    break

    def _pipes(self) -> list[tuple[int, RingBuffer]]:
        popen = self.child.popen
        if popen.stdout is None or popen.stderr is None:
            raise ValueError("the task was started without pipes")
        return [
            (popen.stdout.fileno(), self._rings["stdout"]),
            (popen.stderr.fileno(), self._rings["stderr"]),
        ]


def _copy_to_log(descriptor: int, ring: RingBuffer) -> bool:
    """Read once from the pipe into the log; False at the end of the stream."""
    data = os.read(descriptor, _CHUNK)
    ring.write(data)
    return bool(data)
