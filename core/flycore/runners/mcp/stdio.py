"""The transport to an MCP server that is a child process: one message in each line of its stdin and
stdout."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import msgspec

from flycore.model.json import MAX_MESSAGE_VALUES, StrictJsonError, check_counts
from flycore.model.large_values import is_large_text, run_aside
from flycore.runners.child.pipes import CHUNK, PipeReader, TailBuffer, epoll_reader_of
from flycore.runners.child.process_tree import ProcessTree, become_subreaper, end_tree, forget, register
from flycore.runners.child.run import LEFTOVER_GRACE_S, TERM_GRACE_S
from flycore.runners.child.spawn import Child, SpawnSpec, spawn
from flycore.runners.child.tree_watch import tree_watch_of
from flycore.runners.output import EventBudget
from flysafe.procfs import ticks_now

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage
    from mcp_types.jsonrpc import JSONRPCRequest

LEAVE_GRACE_S = 1.0
"""The time between the end of its stdin and TERM."""
CANCEL_GRACE_S = 10.0
"""The time after `notifications/cancelled` in which a server ends the call. Then it is left alone with it, or
ended where its entry says so."""
SLOT = "flytui/slot"
"""The key of a request's `_meta` that ties it to its call. It is taken out before the request is sent."""
MOST_LEFT_ALONE = 64
"""How many cancelled calls a server may still work on before it counts as broken."""
MOST_AFTER_CANCEL = 10_000
"""How many messages in a row a server may send while it only works on cancelled calls."""
MOST_GARBAGE = 1_000
"""How many lines of stdout in a row may be no message, such as a log printed there by mistake, before the
server counts as broken."""
_PROGRESS = b'"notifications/progress"'
MOST_ASKED = 64
"""How many requests of the server may wait for it to read the answers."""


class _Request(msgspec.Struct, eq=False):
    """The request of one call. `number` is None until it is written."""

    number: object = None
    running: bool = True
    settled: anyio.Event = msgspec.field(default_factory=anyio.Event)
    """Set when its answer has come, or when none can come any more."""


class StdioTransport:
    """The transport to a server in a child process. `most` is the longest message, in bytes. `transport`
    raises SpawnError."""

    in_doubt = False
    unconfined = False
    login_needed = ""

    def __init__(self, spec: SpawnSpec, most: int, *, restarts_on_cancel: bool = False) -> None:
        self._spec, self._most = spec, most
        self.restarts_on_cancel = restarts_on_cancel
        self.fault = ""
        self.ended, self.closed = anyio.Event(), anyio.Event()
        self.exit_code: int | None = None
        self.survivors = 0
        self.process_limit = 0
        """The limit of processes that the server has exceeded; 0 where it has not."""
        self.memory_limit = 0
        """The limit of memory that its processes together have reached; 0 where they have not."""
        self._tail = TailBuffer()
        self._garbage = self._asked = self._after_cancel = 0
        self._slots = itertools.count(1)
        self._calls: dict[int, _Request] = {}
        """The calls that run, by slot."""
        self._requests: dict[object, _Request] = {}
        """The requests without an answer, by number: those of running calls, and of calls that were left."""
        self._events = EventBudget()

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB that the server wrote to stderr since the call began."""
        return self._tail.data.decode("utf-8", "replace")

    def abort(self, why: str) -> None:
        """End the use of the connection. The first reason is kept as `fault`."""
        self.fault = self.fault or why
        self.ended.set()
        for request in (*self._requests.values(), *self._calls.values()):
            request.settled.set()

    def begin_call(self) -> int:
        """Begin a call. The stderr tail begins anew where no other call runs."""
        if not self._calls:
            self._tail = TailBuffer()
        slot = next(self._slots)
        self._calls[slot] = _Request()
        return slot

    def end_call(self, slot: int) -> None:
        """End a call; the answer to one that was left alone is dropped when it comes."""
        self._calls.pop(slot).running = False
        if self.left_alone > MOST_LEFT_ALONE:
            self.abort("leaves cancelled calls without an answer")

    def request_meta(self, slot: int) -> dict[str, int]:
        """The mark by which the request is found again when it is written."""
        return {SLOT: slot}

    @property
    def left_alone(self) -> int:
        """How many cancelled calls the server still works on."""
        return sum(not request.running for request in self._requests.values())

    async def wait_until_cancelled(self, slot: int) -> bool:
        """Wait until the server has answered the cancelled request; False where it has not within its
        grace."""
        request = self._calls[slot]
        # The writer may have taken the request and not noted its number yet.
        await anyio.lowlevel.checkpoint()
        if request.number is None:
            return True  # it was never sent
        with anyio.move_on_after(CANCEL_GRACE_S, shield=True):
            await request.settled.wait()
        return request.settled.is_set()

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[TransportStreams]:
        """Start the server and give the streams to and from it. Its process tree has ended when the block
        closes."""
        become_subreaper()
        mark = ticks_now()
        child = spawn(self._spec)
        tree = register(
            child.process,
            self._spec.call_id,
            mark,
            persistent=True,
            sidecar=self._spec.sidecar,
            watched=child.watched,
            group=child.group,
        )
        watch = tree_watch_of(asyncio.get_running_loop())
        watch.watch(tree, self._spec.limits.most_processes, self._on_excess)
        errors = PipeReader(epoll_reader_of(asyncio.get_running_loop()), child.stderr, self._take_error)
        os.set_blocking(child.stdin, False)
        os.set_blocking(child.stdout, False)
        try:
            # Streams without a buffer: a server that writes faster than the SDK reads waits in its own pipe.
            incoming, read = anyio.create_memory_object_stream[Any](0)
            write, outgoing = anyio.create_memory_object_stream[Any](0)
            async with anyio.create_task_group() as group:
                group.start_soon(self._read, child.stdout, incoming)
                group.start_soon(self._write, child.stdin, outgoing)
                group.start_soon(self._watch, child.process.pidfd)
                try:
                    yield read, write
                finally:
                    group.cancel_scope.cancel()
                    for stream in (incoming, read, write, outgoing):
                        stream.close()
        finally:
            watch.forget(tree)
            try:
                with anyio.CancelScope(shield=True):
                    await self._end(child, tree, errors)
            finally:
                self.abort("was left")
                self.closed.set()

    def _on_excess(self) -> None:
        self.process_limit = self._spec.limits.most_processes
        self.abort(f"had more than {self.process_limit} processes at once")

    def _take_error(self, data: bytes) -> bool:
        return self._tail.take(data)

    async def _end(self, child: Child, tree: ProcessTree, errors: PipeReader) -> None:
        """End the server's process tree, close the pipes, reap the server."""
        try:
            # The end of stdin tells a server to exit by itself, as the protocol has it.
            os.close(child.stdin)
            left = False
            # A server that starts processes without end gets no time for more.
            with anyio.move_on_after(0 if self.process_limit else LEAVE_GRACE_S):
                await anyio.wait_readable(child.process.pidfd)
                left = True
            grace_s = LEFTOVER_GRACE_S if left else TERM_GRACE_S
            self.survivors = (await end_tree(tree, 0.0 if self.process_limit else grace_s)).survivors
        finally:
            errors.drain()
            errors.close()
            os.close(child.stdout)
            self.exit_code = child.process.exit_code()
            child.process.close()
            forget(tree)
            self.memory_limit = self._spec.limits.most_memory if child.memory_exceeded else 0
            child.remove_group()
            if child.confined is not None:
                report = child.confined.close()
                # A command that was ended by a signal leaves no report of its end.
                self.unconfined = not report.confined and (self.exit_code or 0) > 0
                self.exit_code = self.exit_code if report.exit_code is None else report.exit_code

    async def _watch(self, pidfd: int) -> None:
        await anyio.wait_readable(pidfd)
        # One more turn of the loop, in which the reader takes what the server wrote before it exited.
        await anyio.lowlevel.checkpoint()
        self.abort("has left")

    async def _read(self, fd: int, incoming: MemoryObjectSendStream[Any]) -> None:
        with incoming:
            line, scanned = bytearray(), 0
            while True:
                # A server that writes without end must not hold the loop: each chunk gives the others a turn.
                await anyio.lowlevel.checkpoint()
                try:
                    data = os.read(fd, CHUNK)
                except BlockingIOError:
                    await anyio.wait_readable(fd)
                    continue
                if not data:
                    return self.abort("closed its stdout")
                line += data
                while (end := line.find(b"\n", scanned)) >= 0:
                    one = bytes(line[:end])
                    del line[: end + 1]
                    scanned = 0
                    message = await self._parse_line(one)
                    if message is not None:
                        try:
                            await incoming.send(message)
                        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                            return self.abort("was left")
                    elif self.ended.is_set():
                        return None
                scanned = len(line)
                if scanned > self._most:
                    return self.abort(f"sent more than {self._most} bytes in one message")
                if self.ended.is_set():
                    return None

    async def _parse_line(self, line: bytes) -> SessionMessage | None:
        """The message in the line. A line that is no message is counted and dropped."""
        from mcp.shared.message import SessionMessage
        from mcp_types.jsonrpc import JSONRPCRequest, jsonrpc_message_adapter

        # The SDK takes a millisecond for each notification: a flood of them would hold up every other caller.
        if _PROGRESS in line and b'"id"' not in line and not self._events.admits():
            return None
        try:
            # Before the SDK sees it, which keeps many times its size and walks through it several times.
            await run_aside(is_large_text(line), check_counts, line, MAX_MESSAGE_VALUES)
        except StrictJsonError as reason:
            self.abort(f"sent a message that {reason}")
            return None
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._garbage += 1
            if self._garbage > MOST_GARBAGE:
                self.abort("writes to stdout what is not a message")
            return None
        self._garbage = 0
        if isinstance(message, JSONRPCRequest):
            # The SDK answers each request; without a limit the answers would pile up in memory for a server
            # that does not read them.
            self._asked += 1
            if self._asked > MOST_ASKED:
                self.abort("sends requests and does not read the answers")
                return None
            self._count_after_cancel()
            return SessionMessage(message)
        answered = self._requests.pop(getattr(message, "id", None), None)
        if answered is not None:
            self._after_cancel = 0
            answered.settled.set()
            return SessionMessage(message) if answered.running else None
        self._count_after_cancel()
        return SessionMessage(message)

    def _count_after_cancel(self) -> None:
        """Count a message that answers no call. A server that was left alone must not flood the session."""
        self._after_cancel = self._after_cancel + 1 if self.left_alone and not self._calls else 0
        if self._after_cancel > MOST_AFTER_CANCEL:
            self.abort("sends messages without end after a cancelled call")

    def _note_request(self, message: JSONRPCRequest) -> None:
        """Note the number of a call's request, and take our mark out of it."""
        meta = (message.params or {}).get("_meta")
        slot = meta.pop(SLOT, None) if isinstance(meta, dict) else None
        request = self._calls.get(slot) if isinstance(slot, int) else None
        if request is not None:
            request.number = message.id
            self._requests[message.id] = request

    async def _write(self, fd: int, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        from mcp_types.jsonrpc import JSONRPCNotification, JSONRPCRequest

        async for item in outgoing:
            message = item.message
            if isinstance(message, JSONRPCRequest):
                self._note_request(message)
            elif not isinstance(message, JSONRPCNotification):
                self._asked -= 1
            text = message.model_dump_json(by_alias=True, exclude_unset=True)
            rest = memoryview(text.encode() + b"\n")
            while rest:
                try:
                    rest = rest[os.write(fd, rest[:CHUNK]) :]
                except BlockingIOError:
                    await anyio.wait_writable(fd)
                except BrokenPipeError:
                    return self.abort("closed its stdin")
        return None
