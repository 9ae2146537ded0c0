"""uvicorn as the HTTP server uses it: without signal handlers, logs and a server header.

Every connection counts towards the limits of the listener.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import h11
import uvicorn
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from uvicorn.protocols.http.h11_impl import H11Protocol

from flycore.server.bounded_listener import ACCEPTED_AT_ONCE
from flycore.server.connection_limits import ConnectionLimits

MOST_HEADER_BYTES = 16_384


class UvicornServer(uvicorn.Server):
    """A uvicorn server that runs until `end` is called, not until a signal arrives."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._listening, self._ended = anyio.Event(), anyio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers; the process has its own."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and set the event that `serve_on` waits for."""
        await super().startup(sockets)
        self._listening.set()

    async def serve_on(
        self, listener: socket.socket, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
    ) -> None:
        """Serve on that socket until `end` is called. Reports `started` when the server listens."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._report, task_status)
                # A cancellation would stop uvicorn without its clean-up; `end` is the way to stop it.
                with anyio.CancelScope(shield=True):
                    await self.serve(sockets=[listener])
                group.cancel_scope.cancel()
        finally:
            self._ended.set()

    async def end(self) -> None:
        """Accept no more connections, and wait until every running request was answered or cut off."""
        self.should_exit = True
        await self._ended.wait()

    async def _report(self, task_status: TaskStatus[None]) -> None:
        await self._listening.wait()
        task_status.started()


class _StrictConnection(h11.Connection):
    """A connection that refuses a request target with an empty query, which the application cannot see."""

    def next_event(self) -> Any:
        """Return the next event. Raises h11.RemoteProtocolError."""
        event = super().next_event()
        if isinstance(event, h11.Request) and event.target.endswith(b"?"):
            raise h11.RemoteProtocolError("queries are not read")
        return event


def server_config(app: Any, limits: ConnectionLimits, end_seconds: int) -> uvicorn.Config:
    """Return the settings of a server for `app`, an ASGI application, whose connections `gate` limits."""

    class Counted(H11Protocol):
        """A connection that is half open until one of its requests was admitted.

        The head of every later request has the same time limit as the head of the first.
        """

        _head_deadline: asyncio.TimerHandle | None = None

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.conn = _StrictConnection(h11.SERVER, MOST_HEADER_BYTES)

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            limits.opened(self.client, transport.abort)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._limit_next_head()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._limit_next_head()

        def _limit_next_head(self) -> None:
            """Start the time limit once the first bytes of the next request arrived, or clear it."""
            # uvicorn limits how long a connection may be idle between two requests, but not how long the
            # head of a request may take once it began.
            between = self.cycle is not None and self.cycle.response_complete
            if not between or not self.conn.trailing_data[0]:
                self._clear_deadline()
            elif self._head_deadline is None:
                self._head_deadline = self.loop.call_later(limits.seconds, self.transport.abort)

        def _clear_deadline(self) -> None:
            if self._head_deadline is not None:
                self._head_deadline.cancel()
                self._head_deadline = None

        def connection_lost(self, exc: Exception | None) -> None:
            self._clear_deadline()
            limits.closed(self.client)
            super().connection_lost(exc)

    return uvicorn.Config(
        app,
        http=Counted,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        backlog=ACCEPTED_AT_ONCE,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        timeout_graceful_shutdown=end_seconds,
    )
