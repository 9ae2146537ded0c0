"""A persistent process: it serves one request at a time, over lines, and is ended when it breaks the
protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from functools import partial

import anyio
import msgspec

from flycore.model.enums import Code, Status
from flycore.model.json import JsonObject
from flycore.model.large_values import is_large, run_aside
from flycore.runners.child.pipes import LineWriter, PipeReader, TailBuffer, epoll_reader_of
from flycore.runners.child.process_tree import (
    become_subreaper,
    end_tree,
    forget,
    register,
    set_call_served,
)
from flycore.runners.child.run import LEFTOVER_GRACE_S, TERM_GRACE_S, RunLimits
from flycore.runners.child.spawn import SpawnFailure, SpawnSpec, not_confined, spawn
from flycore.runners.child.tree_watch import tree_watch_of
from flycore.runners.one_shot import (
    NO_JSON,
    ProcessJsonJob,
    RunOutcome,
    call_sidecar,
    memory_limited,
    not_started,
    outcome_from_answer,
    output_limited,
    process_limited,
    request_line,
    timed_out,
)
from flycore.runners.output import (
    LONGEST_EVENT,
    Answer,
    EventBudget,
    OnEvent,
    SidecarEvent,
    answer_of,
    exit_facts,
    exit_words,
    may_be_event,
)
from flycore.runners.protocol import AnswerLine, BusyLine, ProtocolViolation, cancel_line, read_line
from flysafe.procfs import ticks_now

CANCEL_GRACE_S = 2.0
"""The time between `cancel` and the end of a process that does not answer it."""
LEAVE_GRACE_S = 1.0
"""The time between the end of its stdin and TERM, for a process that is not needed any more."""
LEAVING_S = 0.2
"""How long a process may take to exit after its stdout has ended, before that counts as a violation."""
UNREQUESTED_BYTES = 65_536
"""How many bytes a process may write between two requests."""


class End(StrEnum):
    """The ways in which a request to a process ends."""

    ANSWERED = "answered"
    TIMED_OUT = "timed-out"
    TOO_LONG = "too-long"
    TOO_MANY = "too-many"
    """It had more processes than its limit."""
    TOO_LARGE = "too-large"
    """Its processes together reached their limit of memory."""
    INVALID = "invalid"
    DIED = "died"


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one request. `document` is set for ANSWERED, `violation` for INVALID."""

    end: End
    document: JsonObject | None = None
    violation: ProtocolViolation | None = None
    exit_code: int | None = None
    stderr_tail: bytes = b""
    duration_ms: int = 0
    warnings: tuple[str, ...] = ()
    unconfined: SpawnFailure | None = None
    """Why the program did not run, where it could not be confined."""


class _PendingRequest:
    """A request under way. `stopped` is set when the caller need not wait any longer, `over` when the process
    works on the request no more."""

    __slots__ = ("breach", "budget", "document", "end", "line", "on_event", "over", "request_id", "stopped")

    def __init__(self, request_id: str, on_event: OnEvent | None) -> None:
        self.request_id, self.on_event = request_id, on_event
        self.stopped, self.over = anyio.Event(), anyio.Event()
        self.end: End | None = None
        self.line = b""
        """The answer's line, where it is too long to be parsed on the event loop."""
        self.document: JsonObject | None = None
        self.breach: ProtocolViolation | None = None
        self.budget = EventBudget()

    def finish(self, end: End) -> None:
        """End the request. Only the first end counts."""
        # A process that is cancelled at its time limit answers afterwards: that answer must not undo the
        # time-out.
        self.end = self.end or end
        self.stopped.set()
        self.over.set()

    def time_out(self) -> None:
        """End the caller's wait at the time limit. The process may still answer its cancellation."""
        self.end = self.end or End.TIMED_OUT
        self.stopped.set()


class PersistentProcess:
    """A running process that serves several requests. Raises SpawnError where it cannot be started. Its owner
    must call `end`."""

    def __init__(self, spec: SpawnSpec, on_change: Callable[[PersistentProcess], None]) -> None:
        become_subreaper()
        mark = ticks_now()
        self._child = spawn(spec)
        self._tree = register(
            self._child.process,
            spec.call_id,
            mark,
            persistent=True,
            sidecar=spec.sidecar,
            watched=self._child.watched,
            group=self._child.group,
        )
        self._reactor = epoll_reader_of(asyncio.get_running_loop())
        self._tree_watch = tree_watch_of(asyncio.get_running_loop())
        self._tree_watch.watch(self._tree, spec.limits.most_processes, self._on_excess)
        self._too_many = False
        self._on_change = on_change
        self._line = bytearray()
        self._received, self._limit = 0, UNREQUESTED_BYTES
        self._request: _PendingRequest | None = None
        self._exited = anyio.Event()
        self._command_exit_code: int | None = None
        self._own_exit_code: int | None = None
        """The program's own, where what confines it exits with another."""
        self._unconfined: SpawnFailure | None = None
        self._stderr = TailBuffer()
        self.broken = False
        """Whether it can serve no further request."""
        self.died = False
        """Whether it broke the protocol, or exited during a request or with an error."""
        self.busy = False
        """Whether it reports that work of its own goes on."""
        self.left_unforced = False
        """Whether it had exited before `end` sent it a signal."""
        self.answered = 0
        """How many requests it has answered."""
        self._reactor.watch(self._child.process.pidfd, self._on_exit)
        self._stdout = PipeReader(self._reactor, self._child.stdout, self._take, self._on_silence)
        self._errors = PipeReader(self._reactor, self._child.stderr, self._take_error)
        self._stdin = LineWriter(self._reactor, self._child.stdin)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._child.process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None before `end` has returned."""
        return self._own_exit_code if self._own_exit_code is not None else self._command_exit_code

    def ready(self) -> bool:
        """Whether it can serve a request: it runs, and what it has written until now follows the protocol."""
        # The event loop may not have seen yet what the process wrote or that it exited, so both are looked
        # at here. Otherwise a line from before the request could be taken for its answer.
        if not self.broken:
            self._stdout.drain()
        if not self.broken and self._exit_code() is not None:
            self._on_exit()
        if not self.broken and self._line:
            self._violated(ProtocolViolation("began before there was a request", ""))
        return not self.broken

    async def ask(
        self, request_id: str, request: bytes, limits: RunLimits, on_event: OnEvent | None
    ) -> Reply:
        """Send one request line and wait for its answer. There may be only one request at a time.

        At the time limit, and when the awaiting task is cancelled, the request is cancelled in the process,
        which is `broken` where it does not answer that within `CANCEL_GRACE_S`. Then the cancellation goes
        on.
        """
        begun = time.monotonic()
        # What is still in the pipe belongs to an earlier request, which may be another call's: the tail
        # begins anew.
        self._errors.drain()
        self._stderr = TailBuffer()
        turn = self._request = _PendingRequest(request_id, on_event)
        set_call_served(self._tree, request_id)
        self._received, self._limit = 0, limits.max_output_bytes
        self._stdin.send(request)
        deadline = asyncio.get_running_loop().call_later(limits.timeout_ms / 1000, turn.time_out)
        try:
            await turn.stopped.wait()
            duration_ms = round((time.monotonic() - begun) * 1000)
        finally:
            deadline.cancel()
            if not turn.over.is_set():
                await self._cancel(turn)
            self._request = None
            self._received, self._limit = 0, UNREQUESTED_BYTES
            self._check_cancelled()
        if turn.line:
            await self._read_large(turn)
        return Reply(
            end=turn.end or End.DIED,
            document=turn.document,
            violation=turn.breach,
            exit_code=self._exit_code() if turn.end is End.DIED else None,
            stderr_tail=self._stderr.data,
            duration_ms=duration_ms,
            warnings=turn.budget.warnings,
            unconfined=self._unconfined if turn.end is End.DIED else None,
        )

    async def _read_large(self, turn: _PendingRequest) -> None:
        """Read a long answer in a worker thread."""
        message = await run_aside(True, read_line, turn.line, turn.request_id)
        if isinstance(message, AnswerLine):
            self.answered += 1
            turn.document = message.document
        elif isinstance(message, ProtocolViolation):
            turn.breach, turn.end = message, End.INVALID
            self._break(died=True)

    async def _cancel(self, turn: _PendingRequest) -> None:
        turn.on_event = None
        self._stdin.send(cancel_line(turn.request_id))
        with anyio.move_on_after(CANCEL_GRACE_S, shield=True):
            await turn.over.wait()
        if not turn.over.is_set():
            self._break()

    def _check_cancelled(self) -> None:
        """Break off a process that has not read its request to the end: the rest would be taken for the next
        one."""
        self._errors.drain()
        if not self.broken and self._stdin.pending:
            self._break(died=True)

    def abandon(self) -> None:
        """Mark the process as broken, and end the wait for its answer."""
        self._break()

    async def end(self, *, at_once: bool = False) -> int:
        """End the process and its tree, and return how many processes survive. A cancellation waits until
        this is done. Without `at_once` the process has `LEAVE_GRACE_S` to exit by itself, at the end of its
        stdin."""
        self.broken = True
        self._stdin.close()
        survivors = 0
        try:
            with anyio.CancelScope(shield=True):
                if not at_once and not self._too_many:
                    with anyio.move_on_after(LEAVE_GRACE_S):
                        await self._exited.wait()
                self.left_unforced = self._exited.is_set()
                survivors += (await end_tree(self._tree, self._grace_s())).survivors
        finally:
            self._close()
        return survivors

    def _grace_s(self) -> float:
        if self._too_many:
            return 0.0  # it would start more meanwhile
        return LEFTOVER_GRACE_S if self._exited.is_set() else TERM_GRACE_S

    def _close(self) -> None:
        self._tree_watch.forget(self._tree)
        self._stdout.close()
        self._errors.close()
        self._reactor.forget(self._child.process.pidfd)
        self._command_exit_code = self._child.process.exit_code()
        self._child.process.close()
        forget(self._tree)
        self._child.remove_group()
        if self._child.confined is not None:
            self._own_exit_code = self._child.confined.close().exit_code

    def _on_excess(self) -> None:
        self._too_many = True
        if self._request is not None:
            self._request.finish(End.TOO_MANY)
        self._break(died=True)

    def _on_exit(self) -> None:
        self._reactor.forget(self._child.process.pidfd)
        self._exited.set()
        # The answer may be in the pipe already, because the exit is often seen first.
        self._stdout.drain()
        asked = self._request is not None and not self._request.over.is_set()
        self._look_at_report()
        if asked and self._request is not None and self._child.memory_exceeded:
            self._request.finish(End.TOO_LARGE)
        self._break(died=asked or self._exit_code() != 0)

    def _exit_code(self) -> int | None:
        code = self._child.process.exit_code()
        return code if code is None or self._own_exit_code is None else self._own_exit_code

    def _look_at_report(self) -> None:
        """See from the confining command's report how the program ended, or why it never ran."""
        if self._child.confined is None:
            return
        report = self._child.confined.report()
        self._own_exit_code = report.exit_code
        # A command that was ended by a signal leaves no report of its end.
        if not report.confined and (self._child.process.exit_code() or 0) > 0:
            self._errors.drain()
            said = self._stderr.data.decode("utf-8", "replace").strip().splitlines()
            self._unconfined = not_confined((said or ["it was ended before it ran"])[-1])

    def _on_silence(self) -> None:
        """Its stdout has ended, so that it can answer no more."""
        # A process that exits closes its stdout a moment before its exit is seen, and the exit code says
        # more.
        asyncio.get_running_loop().call_later(LEAVING_S, self._on_staying_silent)

    def _on_staying_silent(self) -> None:
        if not self._exited.is_set() and not self.broken:
            self._violated(ProtocolViolation("will not come: the process closed its stdout", ""))

    def _take(self, data: bytes) -> bool:
        # Counted before anything is kept, so that memory stays bounded whatever the process writes.
        self._received += len(data)
        if self._received > self._limit:
            if self._request is not None:
                self._request.finish(End.TOO_LONG)
            self._break(died=True)
            return False
        scanned = len(self._line)
        self._line += data
        while not self.broken and (end := self._line.find(b"\n", scanned)) >= 0:
            line = bytes(self._line[:end])
            del self._line[: end + 1]
            scanned = 0
            self._take_line(line)
        return True

    def _take_error(self, data: bytes) -> bool:
        return self._stderr.take(data)

    def _take_line(self, line: bytes) -> None:
        turn = self._request if self._request is not None and not self._request.over.is_set() else None
        if turn is not None and len(line) > LONGEST_EVENT:
            turn.line = line
            turn.finish(End.ANSWERED)
            return
        if turn is not None and may_be_event(line) and not turn.budget.admits():
            return
        match read_line(line, turn.request_id if turn is not None else ""):
            case AnswerLine(document) if turn is not None:
                self.answered += 1
                turn.document = document
                turn.finish(End.ANSWERED)
            case BusyLine(busy):
                self.busy = busy
                self._on_change(self)
            case SidecarEvent() as event:
                if turn is not None and turn.on_event is not None:
                    turn.on_event(event)
            case ProtocolViolation() as breach:
                self._violated(breach)

    def _violated(self, breach: ProtocolViolation) -> None:
        if self._request is not None and not self._request.over.is_set():
            self._request.breach = breach
            self._request.finish(End.INVALID)
        self._break(died=True)

    def _break(self, *, died: bool = False) -> None:
        self.died = self.died or (died and not self.broken)
        self.broken = True
        if self._request is not None:
            self._request.finish(End.DIED)
        self._on_change(self)


# The dialect `persistent`: the same request and answer lines, over a process that serves several calls.


async def ask_process(
    instance: PersistentProcess, job: ProcessJsonJob, on_event: OnEvent | None
) -> RunOutcome:
    """Run one call in a persistent process. Whatever the process does is an outcome. A cancellation is
    handled by `PersistentProcess.ask`."""
    try:
        request = await run_aside(is_large(job.input), partial(request_line, job, persistent=True))
    except ValueError:
        return NO_JSON
    limits = RunLimits(timeout_ms=job.timeout_ms, max_output_bytes=job.max_output_bytes)
    reply = await instance.ask(job.call_id, request, limits, on_event)
    stderr_tail = reply.stderr_tail.decode("utf-8", "replace")
    meaning = _answer(job, reply, stderr_tail)
    outcome = outcome_from_answer(
        job, meaning, exit_code=reply.exit_code, stderr_tail=stderr_tail, duration_ms=reply.duration_ms
    )
    if reply.unconfined is not None:
        outcome = replace(outcome, unconfined=True)
    return outcome.with_warnings(reply.warnings)


async def call_alone(job: ProcessJsonJob, on_event: OnEvent | None = None) -> RunOutcome:
    """Run one call of a persistent program in a process of its own, whose stdin ends after the request."""
    # Such a program puts `requestId` into its answer; in a one-shot answer that would be a field of the
    # output.
    outcome = await call_sidecar(job, on_event)
    if not isinstance(outcome.output, dict) or "requestId" not in outcome.output:
        return outcome
    return replace(outcome, output={k: v for k, v in outcome.output.items() if k != "requestId"})


def _answer(job: ProcessJsonJob, reply: Reply, stderr_tail: str) -> Answer:
    facts = exit_facts(reply.exit_code, stderr_tail)
    if reply.unconfined is not None:
        return not_started(job, reply.unconfined)
    if reply.document is not None and reply.end is End.ANSWERED:
        return answer_of(reply.document, None, stderr_tail)
    if reply.end is End.TIMED_OUT:
        return timed_out(job, facts)
    if reply.end is End.TOO_LONG:
        return output_limited(job, facts)
    if reply.end is End.TOO_MANY:
        return process_limited(job.limits, facts)
    if reply.end is End.TOO_LARGE:
        return memory_limited(job.limits, facts)
    if reply.violation is not None:
        return Answer(
            status=Status.FAILED,
            code=Code.INVALID_OUTPUT,
            message=f"the answer {reply.violation.fault}",
            hint="a persistent process answers each line with one line: an object with ok and the requestId",
            details={**facts, "excerpt": reply.violation.excerpt},
        )
    left = "was ended" if reply.exit_code is None else exit_words(reply.exit_code)
    return Answer(
        status=Status.FAILED,
        code=Code.CRASHED,
        message=f"the sidecar {left} before it answered",
        hint="its stderr may say why; it may have acted in part",
        details=facts,
    )
