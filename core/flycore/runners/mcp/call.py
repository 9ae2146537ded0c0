"""One call to a server that is connected: sent, listened to, taken back where it is cancelled or too slow."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import anyio

from flycore.model.enums import Code, Status
from flycore.runners.mcp.results import LONGEST_ERROR, outcome_of_result
from flycore.runners.mcp.transport import McpTransport
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome
from flycore.runners.output import OnEvent, SidecarEvent, exit_words

if TYPE_CHECKING:
    from mcp import Client
    from pydantic import TypeAdapter

REFUSED = "input-required"
"""`details.code` where the server wants something answered that only a person could."""
CALL_NOT_CANCELLED = "did not come back from a cancelled call"
"""`fault` of a link whose server was ended for that."""
SOON_S = 1.0
"""Within which a connection that broke is known to have."""
CLOSING_S = 5.0
"""For the end of a server that went during a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpCall:
    """What is called: the server's own name of the tool, and the digests of what was approved."""

    tool: str
    definition: str
    program: str


async def call_tool(
    client: Client, link: McpTransport, job: ProcessJsonJob, asked: McpCall, tell: OnEvent | None
) -> RunOutcome:
    """Send it and wait. At the time limit, and when the awaiting task is cancelled, the server is told; one
    that does not come back from it is ended with its tree; a cancellation then goes on."""
    from mcp import MCPError
    from pydantic import ValidationError

    link.begin_call()
    begun = time.monotonic()
    outcome: RunOutcome | None = None
    try:
        with anyio.move_on_after(job.timeout_ms / 1000):
            try:
                outcome = await _send_call(client, job, asked, tell)
            except MCPError as error:
                outcome = await _error(link, error)
            except ValidationError:
                outcome = _invalid("the answer is not what the protocol has for a call")
            except RuntimeError as fault:
                outcome = _invalid(f"the answer cannot be used: {str(fault)[:LONGEST_ERROR]}")
    finally:
        if outcome is None:
            await _cancel(link)
    if outcome is None:
        outcome = RunOutcome(
            status=Status.FAILED,
            code=Code.TIMEOUT,
            message=f"no answer within {job.timeout_ms} ms",
            hint="raise timeoutMs of the entry (a caller can only shorten it)",
            details={"timeoutMs": job.timeout_ms},
        )
    duration = round((time.monotonic() - begun) * 1000)
    told = replace(outcome, stderr_tail=link.stderr_tail, duration_ms=duration)
    return told.with_survivors(link.survivors) if link.closed.is_set() else told


async def _send_call(client: Client, job: ProcessJsonJob, asked: McpCall, tell: OnEvent | None) -> RunOutcome:
    from mcp_types import CallToolRequest, CallToolRequestParams, InputRequiredResult

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        if tell is not None:
            tell(SidecarEvent(progress=progress, total=total, message=(message or "")[:LONGEST_ERROR]))

    request = CallToolRequest(params=CallToolRequestParams(name=asked.tool, arguments=job.input))
    result = await client.session.send_request(request, _answers(), progress_callback=progressed)
    if isinstance(result, InputRequiredResult):
        return RunOutcome(
            status=Status.FAILED,
            code=Code.FAILED,
            message="the server wants something answered during the call, which flytui does for nobody",
            hint="give it what it needs in the input, or in its own settings",
            details={"code": REFUSED},
        )
    return outcome_of_result(result, job)


@cache
def _answers() -> TypeAdapter[Any]:
    from mcp_types import CallToolResult, InputRequiredResult
    from pydantic import TypeAdapter

    return TypeAdapter(CallToolResult | InputRequiredResult)


async def _error(link: McpTransport, error: Any) -> RunOutcome:
    """The server's error, or its end; servers use the code by which the SDK tells of an end for errors of
    their own, too."""
    from mcp_types import CONNECTION_CLOSED

    if error.code == CONNECTION_CLOSED:
        with anyio.move_on_after(SOON_S):
            await link.ended.wait()
    if error.code == CONNECTION_CLOSED and link.ended.is_set():
        with anyio.move_on_after(CLOSING_S):
            await link.closed.wait()
        how = link.fault if link.fault not in ("", "was left", "has left") else "has left"
        if link.exit_code is not None and how == "has left":
            how = exit_words(link.exit_code)
        return crash_outcome(how, link.exit_code)
    return RunOutcome(
        status=Status.FAILED,
        code=Code.FAILED,
        message=str(error.message)[:LONGEST_ERROR] or "the server answered with an error",
        hint="it may have acted in part" if error.code == CONNECTION_CLOSED else "",
        details={"code": "mcp-error", "rpcCode": error.code},
    )


def crash_outcome(how: str, exit_code: int | None) -> RunOutcome:
    """The server went before it answered; a program has an exit code, and may have said more."""
    said = "its stderr may say why" if exit_code is not None else "its entry in the catalog says how it is"
    return RunOutcome(
        status=Status.FAILED,
        code=Code.CRASHED,
        message=f"the server {how} before it answered",
        hint=f"{said}; it may have acted in part",
        exit_code=exit_code,
    )


def _invalid(message: str) -> RunOutcome:
    return RunOutcome(status=Status.FAILED, code=Code.INVALID_OUTPUT, message=message)


async def _cancel(link: McpTransport) -> None:
    """The SDK has told the server. Where that call does not end there, the server does."""
    with anyio.CancelScope(shield=True):
        if not await link.wait_until_idle():
            link.abort(CALL_NOT_CANCELLED)
            await link.closed.wait()
