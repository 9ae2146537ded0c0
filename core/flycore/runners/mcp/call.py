"""One call of a tool on a connected MCP server: sent, awaited, and cancelled where it takes too long."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from flycore.model.enums import Code, Level, Status
from flycore.model.json import JsonObject, canonical_json
from flycore.model.large_values import LARGE_BYTES, is_large, run_aside
from flycore.runners.mcp.input_requests import InputRequests, RunningCall
from flycore.runners.mcp.reads import outcome_of_read
from flycore.runners.mcp.requests import CALL_TOOL, send_request
from flycore.runners.mcp.results import LONGEST_ERROR, outcome_of_result
from flycore.runners.mcp.transport import McpTransport
from flycore.runners.one_shot import MEMORY_HINT, PROCESS_HINT, ProcessJsonJob, RunOutcome
from flycore.runners.output import OnEvent, SidecarEvent, exit_words

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult

RPC_ERROR = "mcp-error"
"""`details.code` where the server answered with an error of the protocol; `rpcCode` is the server's number,
`rpcData` what it added, and the message its words."""
CALL_NOT_CANCELLED = "did not end a cancelled call"
"""The `fault` of a transport whose server was ended for that reason."""
GOES_ON = (
    "the server goes on with it, and its late answer is dropped: R in the catalog restarts the server, and "
    '"onCancel": "restart" of its entry always does'
)
SOON_S = 1.0
"""How long the end of a broken connection may take to be noticed."""
CLOSING_S = 5.0
"""How long the end of a server that exited during a call may take."""


class McpCall(msgspec.Struct, frozen=True, kw_only=True):
    """The tool to call, by the server's own name for it, with the digests of what was approved and the
    level of the sandbox at which it was."""

    tool: str
    definition: str
    program: str
    level: Level


async def call_tool(
    client: Client,
    link: McpTransport,
    job: ProcessJsonJob,
    call: McpCall,
    request: str,
    on_event: OnEvent | None,
    asked: InputRequests,
) -> RunOutcome:
    """Send the call and wait for its answer; `request` is empty for a call of a tool. What the server asks
    meanwhile goes through `asked`, and does not count against the time limit.

    At the time limit, and when the awaiting task is cancelled, the cancellation is sent to the server. One
    that does not end the call within its grace is left alone, since other callers use it too, or ended with
    its tree where its entry says so.
    """
    from mcp import MCPError
    from pydantic import ValidationError

    slot = link.begin_call()
    begun = time.monotonic()
    outcome: RunOutcome | None = None
    running, goes_on = RunningCall(job, on_event), False
    try:
        with anyio.move_on_after(job.timeout_ms / 1000) as limit:
            try:
                running.limit = limit
                on_progress = _Progress(running)
                with asked.enter(running):
                    outcome = await _send(client, link, running, call, request, slot, on_progress)
                outcome = outcome.with_warnings(running.budget.warnings)
            except MCPError as error:
                outcome = await _error(link, error)
            except ValidationError:
                outcome = _invalid("the answer is not what the protocol has for a call")
            except RuntimeError as fault:
                outcome = _invalid(f"the answer cannot be used: {str(fault)[:LONGEST_ERROR]}")
    finally:
        # Both the time limit and a cancellation from outside leave `outcome` unset.
        if outcome is None:
            goes_on = not await _cancel(link, slot)
        link.end_call(slot)
    if outcome is None:
        hint = "raise timeoutMs of the entry (a caller can only shorten it)"
        outcome = RunOutcome(
            status=Status.FAILED,
            code=Code.TIMEOUT,
            message=f"no answer within {job.timeout_ms} ms",
            hint=f"{hint}; {GOES_ON}" if goes_on else hint,
            details={"timeoutMs": job.timeout_ms, "serverGoesOn": goes_on},
        )
    outcome = outcome.with_warnings(running.warnings)
    duration = round((time.monotonic() - begun - running.waited_s) * 1000)
    reported = replace(outcome, stderr_tail=link.stderr_tail, duration_ms=duration)
    return reported.with_survivors(link.survivors) if link.closed.is_set() else reported


class _Progress:
    """Hands the progress of a call on, and lets a call that makes progress run longer."""

    def __init__(self, call: RunningCall) -> None:
        self._call, self._job, self._on_event = call, call.job, call.on_event
        self._last = anyio.current_time() + self._job.progress_timeout_ms / 1000

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        last = self._last + self._call.waited_s
        self._call.extend(min(anyio.current_time() + self._job.timeout_ms / 1000, last))
        if self._on_event is not None and self._call.budget.admits():
            text = (message or "")[:LONGEST_ERROR]
            self._on_event(SidecarEvent(progress=progress, total=total, message=text))


async def _send(
    client: Client,
    link: McpTransport,
    running: RunningCall,
    call: McpCall,
    request: str,
    slot: int,
    on_progress: _Progress,
) -> RunOutcome:
    """Make the request and return the outcome of its answer. Raises MCPError, ValidationError, RuntimeError
    as the SDK does."""
    job = running.job
    meta: JsonObject = dict(link.request_meta(slot))
    params: JsonObject = job.input if request else {"name": call.tool, "arguments": job.input}
    answer = await send_request(
        client, request or CALL_TOOL, {**params, **({"_meta": meta} if meta else {})}, running, on_progress
    )
    if request:
        return await outcome_of_read(answer, request, job)
    return await run_aside(_takes_long(answer), outcome_of_result, answer, job)


async def _error(link: McpTransport, error: Any) -> RunOutcome:
    """The outcome of an error that the server sent, or of the server's end."""
    from mcp_types import CONNECTION_CLOSED

    # Some servers use the SDK's code for a lost connection for errors of their own: only a connection that
    # ends within a second was lost.
    if error.code == CONNECTION_CLOSED:
        with anyio.move_on_after(SOON_S):
            await link.ended.wait()
    if error.code == CONNECTION_CLOSED and link.ended.is_set():
        with anyio.move_on_after(CLOSING_S):
            await link.closed.wait()
        if link.process_limit:
            return _process_limited(link.process_limit)
        if link.memory_limit:
            return _memory_limited(link.memory_limit)
        how = link.fault if link.fault not in ("", "was left", "has left") else "has left"
        if link.exit_code is not None and how == "has left":
            how = exit_words(link.exit_code)
        return crash_outcome(how, link.exit_code)
    return RunOutcome(
        status=Status.FAILED,
        code=Code.FAILED,
        message=str(error.message)[:LONGEST_ERROR] or "the server answered with an error",
        hint="it may have acted in part" if error.code == CONNECTION_CLOSED else "",
        details={"code": RPC_ERROR, "rpcCode": error.code, **_error_data(error)},
    )


def _error_data(error: Any) -> JsonObject:
    """What the server added to its error, where that is small and JSON."""
    try:
        fits = error.data is not None and len(canonical_json(error.data)) <= LONGEST_ERROR
    except (ValueError, TypeError, RecursionError):
        fits = False
    return {"rpcData": error.data} if fits else {}


def crash_outcome(how: str, exit_code: int | None) -> RunOutcome:
    """The outcome where the server ended before it answered. A server over HTTP has no exit code and no
    stderr."""
    hint = "its stderr may say why" if exit_code is not None else "its entry in the catalog says how it is"
    return RunOutcome(
        status=Status.FAILED,
        code=Code.CRASHED,
        message=f"the server {how} before it answered",
        hint=f"{hint}; it may have acted in part",
        exit_code=exit_code,
    )


def _process_limited(most: int) -> RunOutcome:
    return RunOutcome(
        status=Status.FAILED,
        code=Code.PROCESS_LIMIT,
        message=f"the server had more than {most} processes at once, so that all of them were ended",
        hint=PROCESS_HINT,
        details={"processes": most},
    )


def _memory_limited(most: int) -> RunOutcome:
    return RunOutcome(
        status=Status.FAILED,
        code=Code.MEMORY_LIMIT,
        message=f"the server's processes together used more than {most} bytes, so that all were ended",
        hint=MEMORY_HINT,
        details={"memoryBytes": most},
    )


def _invalid(message: str) -> RunOutcome:
    return RunOutcome(status=Status.FAILED, code=Code.INVALID_OUTPUT, message=message)


async def _cancel(link: McpTransport, slot: int) -> bool:
    """Wait for the server to end a call whose cancellation the SDK has sent. Return whether it, or the server
    itself, has ended."""
    with anyio.CancelScope(shield=True):
        ended = await link.wait_until_cancelled(slot)
        if not ended and link.restarts_on_cancel:
            link.abort(CALL_NOT_CANCELLED)
            await link.closed.wait()
            ended = True
    return ended


def _takes_long(result: CallToolResult) -> bool:
    """Whether the answer has files, which are written to disk, or is large."""
    texts = [block.text for block in result.content if block.type == "text"]
    return (
        len(texts) < len(result.content)
        or sum(map(len, texts)) >= LARGE_BYTES
        or is_large(result.structured_content)
    )
