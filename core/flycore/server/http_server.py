"""uvicorn as the HTTP door uses it: no signals, no logs, no name, and every connection counted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import uvicorn
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from uvicorn.protocols.http.h11_impl import H11Protocol

from flycore.server.connection_limits import ConnectionLimits

MOST_HEADER_BYTES = 16_384


class UvicornServer(uvicorn.Server):
    """A server that its owner ends, not a signal."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._listens, self._ended = anyio.Event(), anyio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are for the process's own hands."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._listens.set()

    async def serve_on(
        self, listener: socket.socket, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
    ) -> None:
        """Serve until `end`; reports when it listens."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._report, task_status)
                with anyio.CancelScope(shield=True):
                    await self.serve(sockets=[listener])
                group.cancel_scope.cancel()
        finally:
            self._ended.set()

    async def end(self) -> None:
        """Take no more, and wait until everything that was under way has been answered or cut off."""
        self.should_exit = True
        await self._ended.wait()

    async def _report(self, task_status: TaskStatus[None]) -> None:
        await self._listens.wait()
        task_status.started()


def server_config(app: Any, gate: ConnectionLimits, end_seconds: int) -> uvicorn.Config:
    """The settings of a server for `app`, an ASGI application, behind `gate`."""

    class Counted(H11Protocol):
        """A connection that stands in the door until a request of it has been admitted. The lines of a later
        request have to arrive as soon as those of the first."""

        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            gate.opened(self.client, transport.abort)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._look_at_the_next()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._look_at_the_next()

        def _look_at_the_next(self) -> None:
            """Between two requests: once the next one has begun, its time runs. One that has not is timed by
            uvicorn."""
            between = self.cycle is not None and self.cycle.response_complete
            if not between or not self.conn.trailing_data[0]:
                self._in_time()
            elif self._late is None:
                self._late = self.loop.call_later(gate.seconds, self.transport.abort)

        def _in_time(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

        def connection_lost(self, exc: Exception | None) -> None:
            self._in_time()
            gate.closed(self.client)
            super().connection_lost(exc)

    return uvicorn.Config(
        app,
        http=Counted,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        timeout_graceful_shutdown=end_seconds,
    )
