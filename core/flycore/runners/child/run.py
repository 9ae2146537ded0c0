"""Runs one child process to its end: writes its stdin, reads its output within bounds, ends its whole
tree."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import anyio
import msgspec

from flycore.model.program import ConfinementReport
from flycore.runners.child.pipes import BoundedBuffer, PipeReader, PipeWriter, TailBuffer, epoll_reader_of
from flycore.runners.child.process_tree import (
    ProcessTree,
    TreeEnd,
    become_subreaper,
    count_descendants,
    end_tree,
    forget,
    has_descendants,
    namespace_leaves,
    register,
)
from flycore.runners.child.spawn import (
    Child,
    SpawnError,
    SpawnFailure,
    SpawnSpec,
    spawn,
    start_failure,
)
from flycore.runners.child.tree_watch import tree_watch_of
from flysafe.procfs import ticks_now

TERM_GRACE_S = 2.0
"""The time between TERM and KILL for a child that is ended before it exits by itself."""
LEFTOVER_GRACE_S = 0.5
"""The same for processes that a child left behind. It is shorter, because the finished answer waits for
it."""
MOST_TRIES = 4
"""How often a child that could not be confined or observed is started once more. Each start of bubblewrap
fails if a file is replaced while it mounts it, and each one that is observed if the observer is ended."""


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one run: of its time, and of its output on stdout."""

    timeout_ms: int
    max_output_bytes: int


class ChildExit(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a child. Exactly one of `spawn_error` and `exit_code` is not None."""

    exit_code: int | None = None
    """Negative for a signal."""
    stdout: bytes = b""
    stderr_tail: bytes = b""
    timed_out: bool = False
    output_limited: bool = False
    process_limited: bool = False
    """Whether it was ended because its tree had more processes than its limit."""
    memory_limited: bool = False
    """Whether the system ended it because all its processes together reached their limit of memory."""
    duration_ms: int = 0
    survivors: int = 0
    """How many processes of the tree could not be ended; 0 except for programs of another user."""
    left_behind: int = 0
    """How many processes of the tree still ran when the child exited by itself."""
    killed: int = 0
    """How many processes of the tree TERM did not end within its grace."""
    spawn_error: SpawnFailure | None = None
    confinement: ConfinementReport | None = None
    """What the confining command reported; None where the program was to run as it is."""
    notes: bytes | None = None
    """What the observer noted (`observer_program`); None if the program was not observed to its end."""
    observer_lost: bool = False
    """Whether the observer was ended before the child, and the child, if it still ran, because of that."""

    @property
    def never_confined(self) -> bool:
        """Whether the confining command ended by itself and without having run the program."""
        report, code = self.confinement, self.exit_code
        limited = self.timed_out or self.output_limited or self.process_limited or self.memory_limited
        return report is not None and not report.confined and not limited and code is not None and code >= 0

    @property
    def lost_before_it_ran(self) -> bool:
        """Whether the observer was ended before the program can have run."""
        report = self.confinement
        begun = report is not None and (report.confined or report.started)
        return self.observer_lost and not begun


async def run_child(
    spec: SpawnSpec,
    stdin: bytes,
    limits: RunLimits,
    on_stdout: Callable[[bytes], None] | None = None,
) -> ChildExit:
    """Start `spec`, write `stdin`, wait for the exit, end the tree, and return what the child wrote. A child
    that could not be confined, so that its program has not run, is started again where `spec` says how.

    `on_stdout` is called with each chunk as it arrives, on the event loop; it must neither block nor raise.
    When the awaiting task is cancelled, the tree is ended first, shielded and within `TERM_GRACE_S +
    KILL_PATIENCE_S`.
    """
    ended = await _run_once(spec, stdin, limits, on_stdout)
    for _ in range(MOST_TRIES):
        # With another observer.
        again = spec.confine if ended.lost_before_it_ran else None
        if ended.never_confined:
            again = spec.confine_again or again
        if again is None:
            break
        ended = await _run_once(replace(spec, confine=again), stdin, limits, on_stdout)
    return ended


async def _run_once(
    spec: SpawnSpec, stdin: bytes, limits: RunLimits, on_stdout: Callable[[bytes], None] | None
) -> ChildExit:
    become_subreaper()
    begun = time.monotonic()
    # The time is taken before the spawn: the kernel's clock ticks are coarse, and a child of the tree must
    # not seem older than the tree.
    mark = ticks_now()
    try:
        # The event loop is free for other calls while the child executes its program.
        child = spawn(spec, wait=False)
    except SpawnError as fault:
        return ChildExit(spawn_error=fault.failure, duration_ms=_since(begun))
    tree = register(
        child.process, spec.call_id, mark, sidecar=spec.sidecar, watched=child.watched, group=child.group
    )
    running = _Running(child, tree, stdin, limits, on_stdout)
    running.watch_tree(spec.limits.most_processes)
    try:
        # The exit ends the wait, not the end of the pipes: a grandchild may hold stdout open for ever.
        await running.stopped.wait()
        duration_ms = _since(begun)
    finally:
        ending = TreeEnd(0, 0) if running.end_at_once() else await running.end()
    if running.start_fault is not None:
        failure = start_failure(spec, child, running.start_fault)
        return ChildExit(spawn_error=failure, duration_ms=duration_ms, observer_lost=running.observer_lost)
    report = running.report
    own_code = report.exit_code if report is not None else None
    return ChildExit(
        exit_code=running.exit_code if own_code is None else own_code,
        stdout=bytes(running.stdout.data),
        stderr_tail=running.stderr.data,
        timed_out=running.timed_out,
        output_limited=running.stdout.over,
        process_limited=running.process_limited,
        memory_limited=running.memory_limited,
        duration_ms=duration_ms,
        survivors=ending.survivors,
        left_behind=running.left_behind,
        killed=ending.killed,
        confinement=report,
        notes=running.notes,
        observer_lost=running.observer_lost,
    )


class _Running:
    """A running child with our ends of its pipes on the event loop. `stopped` is set when the child exits,
    writes more than its limit, has too many processes, loses its observer, or reaches its time limit."""

    def __init__(
        self,
        child: Child,
        tree: ProcessTree,
        stdin: bytes,
        limits: RunLimits,
        on_stdout: Callable[[bytes], None] | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._child, self._tree, self._reactor = child, tree, epoll_reader_of(loop)
        self._tree_watch = tree_watch_of(loop)
        self.stopped = anyio.Event()
        self.stdout = BoundedBuffer(limits.max_output_bytes, on_stdout, self.stopped.set)
        self.stderr = TailBuffer()
        self.timed_out = self.process_limited = self.memory_limited = self.observer_lost = False
        self.left_behind = 0
        self.start_fault: OSError | None = None
        """Why no program was executed; None where one was."""
        self.report: ConfinementReport | None = None
        """What the confining command has reported by its end."""
        self.notes: bytes | None = None
        """What the observer has noted by the end of the child."""
        self.exit_code: int | None = None
        """The exit code of the child by its end."""
        self._exited = False
        self._deadline = loop.call_later(limits.timeout_ms / 1000, self._on_deadline)
        self._reactor.watch(child.process.pidfd, self._on_exit)
        if child.process.starting >= 0:
            self._reactor.watch(child.process.starting, self._on_start)
        confined = child.confined
        self._observation = confined.observation if confined is not None else None
        if self._observation is not None:
            self._reactor.watch(self._observation.descriptor, self._on_observation)
        self._pipes = (
            PipeReader(self._reactor, child.stdout, self.stdout.take),
            PipeReader(self._reactor, child.stderr, self.stderr.take),
        )
        self._outlet = PipeWriter(self._reactor, child.stdin, stdin)

    def watch_tree(self, most: int) -> None:
        """Stop when the tree has more than so many processes."""
        self._tree_watch.watch(self._tree, most, self._on_excess)

    def _on_excess(self) -> None:
        if not self.stopped.is_set():
            self.process_limited = True
            self.stopped.set()

    def _on_start(self) -> None:
        """Go on with the start. A child that has executed no program exits by itself."""
        # The descriptor may be closed by the next step.
        self._reactor.forget(self._child.process.starting)
        self.start_fault = self._child.process.continue_start()
        if self._child.process.starting >= 0:
            self._reactor.watch(self._child.process.starting, self._on_start)

    def _on_exit(self) -> None:
        self._exited = True
        self._reactor.forget(self._child.process.pidfd)
        self.stopped.set()

    def _on_observation(self) -> None:
        if self._observation is not None:
            self._reactor.forget(self._observation.descriptor)
            if self._observation.is_lost() and not self.stopped.is_set():
                # Each of its calls that names a path fails from here on, which no program expects.
                self.observer_lost = True
                self.stopped.set()

    def _on_deadline(self) -> None:
        if not self.stopped.is_set():
            self.timed_out = True
            self.stopped.set()

    def end_at_once(self) -> bool:
        """Close and reap a child that exited and left no process behind; False where there is more to end."""
        if not self._exited:
            return False
        if self._child.process.starting >= 0:
            self._on_start()
        # The child's last output may still be in the pipes, because the exit is often seen first.
        for pipe in self._pipes:
            pipe.drain()
        if has_descendants(self._tree) and not namespace_leaves(self._tree):
            self.left_behind = count_descendants(self._tree)
            return False
        self._close()
        return True

    async def end(self) -> TreeEnd:
        """End the tree, close the pipes, reap the child. A cancellation waits until this is done."""
        ending = TreeEnd(0, 0)
        try:
            with anyio.CancelScope(shield=True):
                ending = await end_tree(self._tree, self._grace_s())
        finally:
            # Of a child that was ended only stderr is read to its end: it may say why, and its tail is
            # bounded.
            self._pipes[1].drain()
            self._close()
        return ending

    def _grace_s(self) -> float:
        if self.process_limited or self.observer_lost:
            return 0.0  # it would start more meanwhile, or do wrong what it does at its end
        return LEFTOVER_GRACE_S if self._exited else TERM_GRACE_S

    def _close(self) -> None:
        self._deadline.cancel()
        self._tree_watch.forget(self._tree)
        # The order matters: watching ends before a descriptor is closed, the child is reaped after its tree
        # has ended, and the tree is forgotten last, when the leader's id may be used again.
        for pipe in self._pipes:
            pipe.close()
        self._outlet.close()
        self._reactor.forget(self._child.process.pidfd)
        self._reactor.forget(self._child.process.starting)
        if self._observation is not None:
            self._reactor.forget(self._observation.descriptor)
        self.exit_code = self._child.process.exit_code()
        self._child.process.close()
        forget(self._tree)
        self.memory_limited = self._child.memory_exceeded
        self._child.remove_group()
        if self._child.confined is not None:
            self.report = self._child.confined.close()
            # A program that has succeeded needed no call that failed.
            if self._exited and self.exit_code:
                self.observer_lost = self._child.confined.observer_lost
            self.notes = None if self.observer_lost else self._child.confined.notes


def _since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)
