"""MCP over standard input and output: one JSON-RPC message in each line.

Nothing else is written to standard output.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from flycore.rpc.methods import Client
from flycore.server.mcp.early_answers import (
    ACKNOWLEDGED,
    DISCOVER,
    SUBSCRIPTION_ID,
    EarlyAnswers,
    Handover,
    discover_result,
)
from flycore.server.mcp.jsonrpc import ID_IN_USE, INVALID_REQUEST, MessageRefused, read_message
from flycore.server.mcp.media import ReadMedia
from flycore.server.mcp.person_wait import PersonWait
from flycore.server.mcp.server import build_server
from flycore.server.mcp.tool_list import StoredLists
from flysafe.text import safe_text

MAX_PENDING = 128
"""Requests that a client may have open. A request stays open until its answer has been written."""
MAX_LINE_BYTES = 4 * 1024 * 1024
"""Largest message a client may send."""
READ_BYTES = 65_536
WRITE_BYTES = 4_096
"""Bytes that a write to a ready pipe takes without blocking (PIPE_BUF of Linux)."""
HANGUP_POLL_SECONDS = 1.0
HANGUP_GRACE_SECONDS = 2.0
"""How long reading goes on after the client closed its end."""

Incoming = SessionMessage | Exception
_LOG = logging.getLogger("mcp.flytui")


async def serve_stdio(
    client: Client,
    read_media: ReadMedia,
    person_wait: PersonWait | None = None,
    stored_lists: Path | None = None,
    early: EarlyAnswers | None = None,
) -> None:
    """Serve the client at the other end of standard input until it closes that.

    `early` has answered it so far, from the file `stored_lists`.
    """
    handover = Handover() if early is None else await anyio.to_thread.run_sync(early.stop)
    stored = None if stored_lists is None else StoredLists(stored_lists, handover.listed)
    server = build_server(client, read_media, person_wait, stored)
    with _log_to_stderr(), _private_pipes() as (source, sink):
        async with _streams(source, sink, handover) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


@contextmanager
def _private_pipes() -> Iterator[tuple[int, int]]:
    """Move the client's pipes to private descriptors, and give (source, sink)."""
    # A `print` by mistake would break the protocol, and a read of standard input would steal a message. So
    # descriptor 0 becomes /dev/null and descriptor 1 standard error while the server runs.
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
    source: int, sink: int, handover: Handover
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]]:
    received, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, to_write = anyio.create_memory_object_stream[SessionMessage](0)
    pending = PendingRequests()
    async with anyio.create_task_group() as group:
        group.start_soon(_read, source, handover.unread, pending, received, outgoing.clone())
        group.start_soon(_write, sink, handover, pending, to_write)
        with incoming, outgoing:
            yield incoming, outgoing
        group.cancel_scope.cancel()


class PendingRequests:
    """The open requests of one client. A request that the client cancels is not answered, and leaves."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def add_or_refuse(self, message: JSONRPCMessage) -> JSONRPCError | None:
        """Add the message where it is a request. Return the error to send where it is refused."""
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ids.discard(str((message.params or {}).get("requestId")))
        if not isinstance(message, JSONRPCRequest):
            return None
        if str(message.id) in self._ids:
            # An error with this id would look like the answer to the other request, so it has no id.
            error = ErrorData(code=INVALID_REQUEST, message=ID_IN_USE)
            return JSONRPCError(jsonrpc="2.0", id=None, error=error)
        if len(self._ids) >= MAX_PENDING:
            error = ErrorData(code=INTERNAL_ERROR, message=f"{MAX_PENDING} requests are already open")
            return JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
        self._ids.add(str(message.id))
        return None

    def remove(self, message: JSONRPCMessage) -> None:
        """Remove the request that `message`, which has been written, answers."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._ids.discard(str(message.id))


async def _read(
    source: int,
    unread: bytes,
    pending: PendingRequests,
    received: MemoryObjectSendStream[Incoming],
    answers: MemoryObjectSendStream[SessionMessage],
) -> None:
    """Pass on each message, and answer lines that are not messages and requests that are too many.

    Ends with the input, or at a line that is too long.
    """
    opened = False
    async with received, answers, anyio.create_task_group() as group:
        group.start_soon(_cancel_after_hangup, source, group.cancel_scope)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for line in _lines(source, unread):
                message = _parse(line)
                if isinstance(message, JSONRPCError):
                    await answers.send(SessionMessage(message))
                    continue
                answer = None if opened else _discover_answer(message.message)
                answer = answer or pending.add_or_refuse(message.message)
                if answer is not None:
                    await answers.send(SessionMessage(answer))
                    continue
                opened |= isinstance(message.message, JSONRPCRequest)
                await received.send(message)
        group.cancel_scope.cancel()


async def _cancel_after_hangup(source: int, scope: anyio.CancelScope) -> None:
    """Cancel the scope `HANGUP_GRACE_SECONDS` after the client closed its end."""
    # A client that does not read its answers stops the writer, and the writer stops the reader, which then
    # never reaches the end of the input. So the hang-up is watched here, apart from reading.
    poll = select.poll()
    poll.register(source, select.POLLRDHUP)
    while not poll.poll(0):  # noqa: ASYNC110 - no loop waits for the other end alone, only for data as well
        await anyio.sleep(HANGUP_POLL_SECONDS)
    await anyio.sleep(HANGUP_GRACE_SECONDS)
    scope.cancel()


def _discover_answer(message: JSONRPCMessage) -> JSONRPCResponse | JSONRPCError | None:
    """Return the answer to a `server/discover` of the protocol without sessions; None for anything else."""
    # The SDK would take it for the beginning of a connection without a session, and refuse the `initialize`
    # of a client that waited too long for the answer, or that knows none of the versions in it.
    if not isinstance(message, JSONRPCRequest) or message.method != DISCOVER:
        return None
    params = message.params or {}
    if PROTOCOL_VERSION_META_KEY not in (params.get("_meta") or {}):
        return None
    route = classify_inbound_request({"method": message.method, "params": params})
    if isinstance(route, InboundLadderRejection):
        error = ErrorData(code=route.code, message=route.message, data=route.data)
        return JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
    return JSONRPCResponse(jsonrpc="2.0", id=message.id, result=discover_result())


def _parse(line: bytes) -> SessionMessage | JSONRPCError:
    try:
        value = read_message(line, "the line")
        return SessionMessage(jsonrpc_message_adapter.validate_python(value, by_name=False))
    except MessageRefused as fault:
        error = ErrorData(code=fault.code, message=fault.reason)
    except ValidationError:
        error = ErrorData(code=INVALID_REQUEST, message="the line is not a JSON-RPC message")
    return JSONRPCError(jsonrpc="2.0", id=None, error=error)


async def _lines(source: int, unread: bytes) -> AsyncIterator[bytes]:
    """Yield each line that is not blank, without its newline, and those of `unread` first.

    Text after the last newline is not a line.
    """
    partial = b""
    while part := unread or await _read_some(source):
        unread = b""
        *lines, partial = (partial + part).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
        # The rest of a line that is too long could look like other messages, so reading ends here.
        if len(partial) > MAX_LINE_BYTES:
            _LOG.warning("ended: a message may have at most %d MiB", MAX_LINE_BYTES // 1024 // 1024)
            return


async def _read_some(source: int) -> bytes:
    """Wait for input and return what is there; empty at the end. Never blocks the event loop."""
    with suppress(PermissionError):  # epoll refuses regular files, which can always be read
        await anyio.wait_readable(source)
    try:
        return os.read(source, READ_BYTES)
    except OSError:
        return b""


async def _write(
    sink: int,
    handover: Handover,
    pending: PendingRequests,
    to_write: MemoryObjectReceiveStream[SessionMessage],
) -> None:
    """Write each message as one line. Ends, without an error, when the client closed its end.

    What the client has got already is left out: the answer to its `initialize`, and the acknowledgement of
    its `subscriptions/listen`.
    """
    answered, subscribed = handover.answered, handover.subscribed
    async with to_write:
        try:
            async for message in to_write:
                if answered is not None and _answers(message.message, answered):
                    answered = None
                    pending.remove(message.message)
                    continue
                if subscribed is not None and _acknowledges(message.message, subscribed):
                    subscribed = None
                    continue
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await _write_all(sink, text.encode("utf-8") + b"\n")
                pending.remove(message.message)
        except OSError:
            return


def _answers(message: JSONRPCMessage, request_id: str) -> bool:
    return isinstance(message, JSONRPCResponse | JSONRPCError) and str(message.id) == request_id


def _acknowledges(message: JSONRPCMessage, request_id: str) -> bool:
    if not isinstance(message, JSONRPCNotification) or message.method != ACKNOWLEDGED:
        return False
    meta = (message.params or {}).get("_meta")
    return isinstance(meta, dict) and str(meta.get(SUBSCRIPTION_ID)) == request_id


async def _write_all(sink: int, data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:
        with suppress(PermissionError):  # epoll refuses regular files, which can always be written
            await anyio.wait_writable(sink)
        remaining = remaining[os.write(sink, remaining[:WRITE_BYTES]) :]


class _StderrHandler(logging.Handler):
    """Writes each log record as one line of safe text to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. A standard error that is closed is ignored."""
        try:
            os.write(2, f"flytui mcp: {safe_text(record.getMessage())}\n".encode(errors="replace"))
        except OSError:
            return


@contextmanager
def _log_to_stderr() -> Iterator[None]:
    """Write the warnings of the SDK and of this server to standard error while the block runs."""
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
