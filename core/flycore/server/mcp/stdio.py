"""Which requests of one client over standard input wait for their answers: so many, and each id once."""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from flycore.model.json import StrictJsonError, read_strict
from flycore.rpc.methods import Client
from flycore.server.mcp.images import ReadImage
from flycore.server.mcp.server import build_server
from flysafe.text import safe_text

MAX_PENDING = 128
"""Requests that a client may have under way, answers it has not read yet among them."""


class PendingRequests:
    """The requests that have come and are not answered. One that its client cancels is never answered."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def add_or_refuse(self, message: JSONRPCMessage) -> JSONRPCError | None:
        """Why a message that has come is not taken; None where it is. Where its id is in use the refusal has
        none: it would be taken for the other's answer."""
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ids.discard(str((message.params or {}).get("requestId")))
        if not isinstance(message, JSONRPCRequest):
            return None
        if str(message.id) in self._ids:
            error = ErrorData(code=INVALID_REQUEST, message="that id is in use")
            return JSONRPCError(jsonrpc="2.0", id=None, error=error)
        if len(self._ids) >= MAX_PENDING:
            error = ErrorData(code=INTERNAL_ERROR, message=f"{MAX_PENDING} requests wait for their answers")
            return JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
        self._ids.add(str(message.id))
        return None

    def remove(self, message: JSONRPCMessage) -> None:
        """A message has been written."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._ids.discard(str(message.id))


# MCP over standard input and output: one JSON-RPC message a line, and nothing else on standard output.


MAX_LINE_BYTES = 4 * 1024 * 1024
"""Largest message a client may send."""
READ_BYTES = 65_536
WRITE_BYTES = 4_096
"""A pipe that can be written to takes this much at once (POSIX PIPE_BUF)."""
HANGUP_POLL_SECONDS = 1.0
HANGUP_GRACE_SECONDS = 2.0
"""What a client that has left may leave unread for so long."""

Incoming = SessionMessage | Exception
_LOG = logging.getLogger("mcp.flytui")


async def serve_stdio(door: Client, look: ReadImage) -> None:
    """Serve the client at the other end of standard input until it closes it."""
    server = build_server(door, look)
    with _log_to_stderr(), _private_pipes() as (source, sink):
        async with _streams(source, sink) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


@contextmanager
def _private_pipes() -> Iterator[tuple[int, int]]:
    """Descriptors of the client's two pipes. What else in this process reads standard input finds it empty,
    and what is printed by mistake goes to standard error."""
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        sys.stdout.flush()
        os.dup2(null, 0)
        os.dup2(2, 1)
        yield source, sink
        sys.stdout.flush()
    finally:
        os.dup2(source, 0)
        os.dup2(sink, 1)
        for descriptor in (null, source, sink):
            os.close(descriptor)


@asynccontextmanager
async def _streams(
    source: int, sink: int
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]]:
    taken, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, to_write = anyio.create_memory_object_stream[SessionMessage](0)
    owed = PendingRequests()
    async with anyio.create_task_group() as group:
        group.start_soon(_read, source, owed, taken, outgoing.clone())
        group.start_soon(_write, sink, owed, to_write)
        with incoming, outgoing:
            yield incoming, outgoing
        group.cancel_scope.cancel()


async def _read(
    source: int,
    owed: PendingRequests,
    taken: MemoryObjectSendStream[Incoming],
    back: MemoryObjectSendStream[SessionMessage],
) -> None:
    """Hand on each message; one that is none, or is one too many, is answered. Ends with the input, or where
    a line is too long to be one of ours: what follows it could be read as anything."""
    async with taken, back, anyio.create_task_group() as group:
        group.start_soon(_cancel_after_hangup, source, group.cancel_scope)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for line in _lines(source):
                message = _parse(line)
                refused = (
                    message if isinstance(message, JSONRPCError) else owed.add_or_refuse(message.message)
                )
                if refused is not None:
                    await back.send(SessionMessage(refused))
                elif isinstance(message, SessionMessage):
                    await taken.send(message)
        group.cancel_scope.cancel()


async def _cancel_after_hangup(source: int, scope: anyio.CancelScope) -> None:
    """End the scope some time after the client has closed its end, whatever is left to be read: one that
    reads no answers holds up the reading, and so its end."""
    poll = select.poll()
    poll.register(source, select.POLLRDHUP)
    while not poll.poll(0):  # noqa: ASYNC110 - no loop waits for the other end alone, only for data as well
        await anyio.sleep(HANGUP_POLL_SECONDS)
    await anyio.sleep(HANGUP_GRACE_SECONDS)
    scope.cancel()


def _parse(line: bytes) -> SessionMessage | JSONRPCError:
    try:
        said = read_strict(line)
        message = jsonrpc_message_adapter.validate_python(said, by_name=False)
        if not isinstance(message, JSONRPCNotification) or not isinstance(said, dict) or "id" not in said:
            return SessionMessage(message)
        error = ErrorData(code=INVALID_REQUEST, message="an id is a text or a whole number")
    except StrictJsonError as problem:
        error = ErrorData(code=PARSE_ERROR, message=f"the line {problem.reason}")
    except ValidationError:
        error = ErrorData(code=INVALID_REQUEST, message="the line is no JSON-RPC message")
    return JSONRPCError(jsonrpc="2.0", id=None, error=error)


async def _lines(source: int) -> AsyncIterator[bytes]:
    """Lines that hold something, without their newline. What stands behind the last newline is none."""
    held = b""
    while part := await _read_some(source):
        *lines, held = (held + part).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
        if len(held) > MAX_LINE_BYTES:
            _LOG.warning("ended: a message is at most %d MiB", MAX_LINE_BYTES // 1024 // 1024)
            return


async def _read_some(source: int) -> bytes:
    """What there is to read, once there is something; empty at the end. Never blocks the loop."""
    with suppress(PermissionError):  # a regular file can always be read
        await anyio.wait_readable(source)
    try:
        return os.read(source, READ_BYTES)
    except OSError:
        return b""


async def _write(
    sink: int, owed: PendingRequests, to_write: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    """Write each message as one line. A client that reads no more ends it; then there is nobody to tell."""
    async with to_write:
        try:
            async for message in to_write:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await _write_all(sink, text.encode("utf-8") + b"\n")
                owed.remove(message.message)
        except OSError:
            return


async def _write_all(sink: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        with suppress(PermissionError):  # a regular file can always be written
            await anyio.wait_writable(sink)
        left = left[os.write(sink, left[:WRITE_BYTES]) :]


class _StderrHandler(logging.Handler):
    """One safe line on standard error for each record."""

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler. A standard error that is gone takes nothing."""
        try:
            os.write(2, f"flytui mcp: {safe_text(record.getMessage())}\n".encode(errors="replace"))
        except OSError:
            return


@contextmanager
def _log_to_stderr() -> Iterator[None]:
    """What the SDK and the server warn of becomes prose."""
    handler = _StderrHandler(logging.WARNING)
    loggers = {logger: logger.propagate for logger in map(logging.getLogger, ("mcp", "flytui"))}
    for logger in loggers:
        logger.propagate = False
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, before in loggers.items():
            logger.removeHandler(handler)
            logger.propagate = before
