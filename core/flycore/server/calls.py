"""The tool calls of one connection: taken, told about, cancelled, and answered exactly once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from websockets.exceptions import ConnectionClosed

from flycore.kernel.kernel import Kernel
from flycore.model.call import Caller, CallRequest, Progress, ToolResult
from flycore.model.enums import Phase
from flycore.rpc import messages as m

MAX_CALLS = 128
"""Calls that one connection may have under way."""
MAX_PENDING_STEPS = 64
"""Steps of one call kept for a peer that is behind; then further ones are left out."""
MAX_REASON_CHARS = 2000

Send = Callable[[str, object, m.Envelope | None], Awaitable[None]]
"""Sends a message of that type and payload, as the answer to another."""


@dataclass(slots=True)
class _RunningCall:
    call_id: str
    cancellable: anyio.Event = field(default_factory=anyio.Event)
    """Set once it can be cancelled."""


class ConnectionCalls:
    """What one peer has asked to run. The caller is handed in by the session, never by a message."""

    def __init__(self, kernel: Kernel, send: Send) -> None:
        self._kernel = kernel
        self._send = send
        self._running: dict[str, _RunningCall] = {}
        self._idle = anyio.Event()

    def accepts(self, message_id: str) -> bool:
        """Whether a further call under that message's id can be taken."""
        return len(self._running) < MAX_CALLS and message_id not in self._running

    async def start(self, message: m.Envelope, wanted: m.ToolCall, caller: Caller, group: TaskGroup) -> None:
        """Start a call in `group`; when this returns it can be cancelled.

        A kernel that is leaving takes none and does not answer: when it has gone the peer knows that the
        call was not taken, and calling the next kernel is safe.
        """
        if self._kernel.yielding:
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
        )
        call = self._running[message.id] = _RunningCall(request.call_id)
        group.start_soon(self._run, message, request, call)
        await call.cancellable.wait()

    def cancel(self, wanted: m.ToolCancel) -> bool:
        """End a call of this connection; False where it has none such."""
        mine = self._running.get(wanted.request_id) or next(
            (call for call in self._running.values() if call.call_id == wanted.call_id), None
        )
        return mine is not None and self._kernel.cancel(mine.call_id)

    async def wait_until_answered(self) -> None:
        """Wait until the peer has been told how each of its calls ended."""
        while self._running:
            await self._idle.wait()

    async def _run(self, message: m.Envelope, request: CallRequest, call: _RunningCall) -> None:
        async def announce() -> None:
            """Say that the call was taken, before anything of it happens: from here on a lost connection
            means that nobody knows how it ended."""
            call.cancellable.set()
            try:
                await self._send(
                    "tool.progress", Progress(call_id=call.call_id, phase=Phase.CHECKING), message
                )
            except ConnectionClosed:
                self._kernel.cancel(call.call_id)
                await anyio.lowlevel.checkpoint()

        try:
            result = await self._run_with_progress(message, request, announce)
            await self._send("tool.result", result, message)
        finally:
            call.cancellable.set()
            del self._running[message.id]
            if not self._running:
                self._idle.set()
                self._idle = anyio.Event()

    async def _run_with_progress(
        self, message: m.Envelope, request: CallRequest, announce: Callable[[], Awaitable[None]]
    ) -> ToolResult:
        """Run the call while its steps are sent."""
        steps, to_send = anyio.create_memory_object_stream[Progress](MAX_PENDING_STEPS)

        def tell(step: Progress) -> None:
            if steps.statistics().current_buffer_used < MAX_PENDING_STEPS:
                steps.send_nowait(step)

        async def forward() -> None:
            async with to_send:
                async for step in to_send:
                    await self._send("tool.progress", step, message)

        async with anyio.create_task_group() as group:
            group.start_soon(forward)
            with steps:
                result = await self._kernel.call(request, tell, announce)
        return result
