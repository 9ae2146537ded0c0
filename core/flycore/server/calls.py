"""The tool calls of one connection: starts them, reports their progress, cancels and answers them.

Each accepted call is answered exactly once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup
from websockets.exceptions import ConnectionClosed

from flycore.kernel.kernel import Kernel
from flycore.model.call import Caller, CallRequest, Progress, ToolResult
from flycore.model.enums import Phase
from flycore.rpc import messages as m
from flycore.runners.mcp.input_requests import MOST_ASKED

MAX_CALLS = 128
"""Calls that one connection may have running at the same time."""
MAX_PENDING_STEPS = 64
"""Progress reports of one call that wait for a peer that reads slowly; further ones are left out."""
MAX_REASON_CHARS = 2000

Send = Callable[[str, object, m.Envelope | None], Awaitable[None]]
"""Sends a message of that type and payload as the answer to the third argument, where there is one."""


class _RunningCall(msgspec.Struct):
    call_id: str
    cancellable: anyio.Event = msgspec.field(default_factory=anyio.Event)
    """Set once the kernel knows the call and can cancel it."""


class ConnectionCalls:
    """The running calls of one peer. The session says who the caller is; a message never does."""

    def __init__(self, kernel: Kernel, send: Send) -> None:
        self._kernel = kernel
        self._send = send
        self._running: dict[str, _RunningCall] = {}
        self._idle = anyio.Event()

    def accepts(self, message_id: str) -> bool:
        """Return whether another call with that message id can start."""
        return len(self._running) < MAX_CALLS and message_id not in self._running

    async def start(self, message: m.Envelope, wanted: m.ToolCall, caller: Caller, group: TaskGroup) -> None:
        """Start a call in `group`. The call can be cancelled once this returns."""
        # A kernel that gives up the root starts no call and does not answer: the peer, who saw no progress
        # when the connection ends, knows that the call did not start and sends it to the next kernel.
        if self._kernel.has_yielded:
            return
        wait_ms = wanted.inline_wait_ms
        wait_ms = self._kernel.inline_wait_ms if wait_ms is None else wait_ms
        request = CallRequest(
            call_id=self._kernel.new_call_id(),
            tool=wanted.tool,
            input=wanted.input,
            caller=caller,
            timeout_ms=wanted.timeout_ms,
            said=wanted.say[:MAX_REASON_CHARS],
            wait_approver_ms=wanted.wait_approver_ms,
            inline_wait_ms=max(0, wait_ms),
            observe=wanted.observe,
            samples=wanted.samples,
        )
        call = self._running[message.id] = _RunningCall(request.call_id)
        group.start_soon(self._run, message, request, call)
        await call.cancellable.wait()

    def cancel(self, wanted: m.ToolCancel) -> bool:
        """End a call of this connection. Return False where this connection has no such call."""
        # The kernel is only asked about calls in `_running`: a peer cannot cancel the calls of another.
        call = self._running.get(wanted.request_id) or next(
            (call for call in self._running.values() if call.call_id == wanted.call_id), None
        )
        return call is not None and self._kernel.cancel(call.call_id)

    async def wait_until_answered(self) -> None:
        """Wait until the result of every call has been sent."""
        while self._running:
            await self._idle.wait()

    async def _run(self, message: m.Envelope, request: CallRequest, call: _RunningCall) -> None:
        async def announce() -> None:
            """Send the first progress report. The kernel awaits this before the call has any effect."""
            # A client that loses the connection before this report calls again. After this report it treats
            # the outcome as unknown. So the report must have left before anything of the call happens.
            call.cancellable.set()
            try:
                await self._send(
                    "tool.progress", Progress(call_id=call.call_id, phase=Phase.CHECKING), message
                )
            except ConnectionClosed:
                self._kernel.cancel(call.call_id)
                await anyio.lowlevel.checkpoint()

        try:
            # The kernel may have given up the root since `start`, whose task ran before this one. Nothing is
            # awaited from here until the kernel has counted the call.
            if self._kernel.has_yielded:
                return
            result = await self._run_with_progress(message, request, announce)
            await self._send("tool.result", result, message)
        finally:
            call.cancellable.set()  # `start` waits for it, also where the call ended before it was announced
            del self._running[message.id]
            if not self._running:
                self._idle.set()
                self._idle = anyio.Event()

    async def _run_with_progress(
        self, message: m.Envelope, request: CallRequest, announce: Callable[[], Awaitable[None]]
    ) -> ToolResult:
        """Run the call and send its progress reports while it runs."""
        steps, to_send = anyio.create_memory_object_stream[Progress](MAX_PENDING_STEPS + MOST_ASKED)

        def on_progress(step: Progress) -> None:
            # The pipeline never waits for a slow peer: reports that do not fit are dropped. For what the
            # peer's model is asked there is always a place.
            if step.sampling or steps.statistics().current_buffer_used < MAX_PENDING_STEPS:
                steps.send_nowait(step)

        async def forward() -> None:
            async with to_send:
                async for step in to_send:
                    await self._send("tool.progress", step, message)

        async with anyio.create_task_group() as group:
            group.start_soon(forward)
            with steps:
                result = await self._kernel.call(request, on_progress, announce)
        return result
