"""Runs the kinds http, command and python, and turns how they end into outcomes.

A command and a function are processes like those of any sidecar, with the same confinement and limits. A
request is sent by the kernel.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

import anyio

from flycore.model.enums import Code, Status
from flycore.model.json import Json, JsonObject, StrictJsonError, read_strict
from flycore.model.json_path import at_path, project
from flycore.model.large_values import is_large, is_large_text, run_aside
from flycore.model.placeholders import Absence
from flycore.model.tool_exec import CommandExec, HttpExec, OutputFormat, PythonExec, ToolExec
from flycore.runners.child.run import ChildExit, RunLimits, run_child
from flycore.runners.exec_values import Filled, WebRequest
from flycore.runners.one_shot import NO_JSON, ProcessJsonJob, RunOutcome, cut_short_outcome
from flycore.runners.output import EXCERPT, excerpt, exit_facts, exit_words

if TYPE_CHECKING:
    from flycore.runners.web_exchange import ExchangeError, WebAccess, WebAnswer

_FIRST_ERROR = 400
"""The first status of an answer that is a failure."""


async def call_exec(
    job: ProcessJsonJob, exec_: ToolExec, filled: Filled, access: WebAccess | None = None
) -> RunOutcome:
    """Run the call with its filled-in values. Whatever happens is an outcome, never an exception."""
    if isinstance(exec_, HttpExec) and isinstance(filled, WebRequest):
        return await send_request(job, exec_, filled, access)
    if isinstance(exec_, CommandExec) and isinstance(filled, tuple):
        return await call_command(job, exec_, filled)
    if isinstance(exec_, PythonExec) and not isinstance(filled, tuple | WebRequest):
        return await call_function(job, exec_, filled)
    raise TypeError("what was filled in is not of the kind of the call")


# Commands.


async def call_command(job: ProcessJsonJob, command: CommandExec, args: tuple[str, ...]) -> RunOutcome:
    """Run a program with these arguments behind its own, and read its output as `command` says."""
    ended = await _run(replace(job, argv=(*job.argv, *args)), b"")
    stderr_tail = ended.stderr_tail.decode("utf-8", "replace")
    if (cut_short := cut_short_outcome(job, ended, stderr_tail)) is not None:
        return cut_short
    code = ended.exit_code or 0
    facts = _facts(ended, stderr_tail)
    if code not in command.exit_codes_ok:
        return replace(
            facts,
            status=Status.FAILED,
            code=Code.EXIT,
            message=f"the program {exit_words(code)}{_last_line(stderr_tail)}",
            hint="exec.command.exit_codes_ok of the tool says which exit codes are good",
            details={**exit_facts(code, stderr_tail), "stdout": excerpt(ended.stdout)},
        )
    aside = is_large_text(ended.stdout)
    output, warnings = await run_aside(aside, read_output, ended.stdout, command.format, "stdout")
    return replace(facts, output=output, warnings=(*facts.warnings, *warnings))


def read_output(data: bytes, form: OutputFormat, what: str) -> tuple[Json, tuple[str, ...]]:
    """Return an output, and a warning where it is not in its format; then it is the text as it came."""
    text = data.decode("utf-8", "replace").replace("\0", "\ufffd")
    if form is OutputFormat.TEXT:
        return text, ()
    if not data.strip():
        return None, ()
    try:
        return read_strict(data), ()
    except StrictJsonError as reason:
        return text, (f"{what} is declared as JSON, but it {reason}: it is given as text",)


# Python functions.


async def call_function(job: ProcessJsonJob, function: PythonExec, args: Json) -> RunOutcome:
    """Call a function in its interpreter, and return its result as the output."""
    request = {"args": args, "return": function.format.value}
    try:
        stdin = await run_aside(is_large(args), _encoded, request)
    except ValueError:
        return NO_JSON
    ended = await _run(job, stdin)
    stderr_tail = ended.stderr_tail.decode("utf-8", "replace")
    if (cut_short := cut_short_outcome(job, ended, stderr_tail)) is not None:
        return cut_short
    facts, code = _facts(ended, stderr_tail), ended.exit_code or 0
    try:
        answer = await run_aside(is_large_text(ended.stdout), read_strict, ended.stdout)
    except StrictJsonError as reason:
        return _no_answer(facts, code, stderr_tail, f"{reason}", ended.stdout)
    if not isinstance(answer, dict) or answer.get("ok") not in (True, False):
        return _no_answer(facts, code, stderr_tail, "is no answer of a function", ended.stdout)
    return replace(facts, output=answer.get("result")) if answer["ok"] else _raised(facts, answer)


def _encoded(request: JsonObject) -> bytes:
    # ASCII: half a surrogate pair, such as a file's name may hold, has no UTF-8.
    return json.dumps(request, allow_nan=False).encode("ascii")


def _no_answer(facts: RunOutcome, code: int, stderr_tail: str, why: str, stdout: bytes) -> RunOutcome:
    if code:
        return replace(
            facts,
            status=Status.FAILED,
            code=Code.EXIT,
            message=f"the process {exit_words(code)} before the function returned{_last_line(stderr_tail)}",
            details=exit_facts(code, stderr_tail),
        )
    return replace(
        facts,
        status=Status.FAILED,
        code=Code.INVALID_OUTPUT,
        message=f"the result {why}",
        hint="return what JSON can hold, or write return: text",
        details={"excerpt": excerpt(stdout), **exit_facts(code, stderr_tail)},
    )


def _raised(facts: RunOutcome, answer: JsonObject) -> RunOutcome:
    """The outcome of a function that raised an exception."""
    kind, message, trace = (_text(answer.get(key)) for key in ("type", "message", "traceback"))
    return replace(
        facts,
        status=Status.FAILED,
        code=Code.FAILED,
        message=f"{kind}: {message}" if message else kind,
        hint="details.traceback says where it was raised",
        details={"code": "exception", "type": kind, "message": message, "traceback": trace},
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


async def _run(job: ProcessJsonJob, stdin: bytes) -> ChildExit:
    limits = RunLimits(timeout_ms=job.timeout_ms, max_output_bytes=job.max_output_bytes)
    return await run_child(job.spawn_spec, stdin, limits)


def _facts(ended: ChildExit, stderr_tail: str) -> RunOutcome:
    """The outcome of a child that ended by itself, still without its output."""
    found = RunOutcome(
        status=Status.SUCCESS,
        exit_code=ended.exit_code,
        stderr_tail=stderr_tail,
        duration_ms=ended.duration_ms,
        notes=ended.notes,
    )
    return found.with_survivors(ended.survivors)


def _last_line(stderr_tail: str) -> str:
    lines = stderr_tail.strip().splitlines()
    return f": {lines[-1][:EXCERPT]}" if lines else ""


# Requests.


async def send_request(
    job: ProcessJsonJob, exec_: HttpExec, asked: WebRequest, access: WebAccess | None = None
) -> RunOutcome:
    """Send the request, and return what `exec_` takes of the answer as the output."""
    # The HTTP library takes a tenth of a second to import, and most kernels send no request.
    from flycore.runners.web_exchange import ExchangeError, exchange

    begun = time.monotonic()
    answer: WebAnswer | None = None
    outcome: RunOutcome | None = None
    with anyio.move_on_after(job.timeout_ms / 1000):
        try:
            answer = await exchange(asked, job.max_output_bytes, access)
        except ExchangeError as failed:
            outcome = _unanswered(failed, asked)
    if answer is not None:
        outcome = await run_aside(is_large_text(answer.body), outcome_of_answer, job, exec_, answer)
    outcome = outcome or _timed_out(job, asked)
    return replace(outcome, duration_ms=round((time.monotonic() - begun) * 1000))


def outcome_of_answer(job: ProcessJsonJob, exec_: HttpExec, answer: WebAnswer) -> RunOutcome:
    """The outcome of an answer that came whole or reached the limit."""
    if answer.status >= _FIRST_ERROR:
        return _http_error(answer)
    if answer.cut:
        return RunOutcome(
            status=Status.FAILED,
            code=Code.OUTPUT_LIMIT,
            message=f"the answer has more than {job.max_output_bytes} bytes",
            hint="ask for less",
            details={"maxOutputBytes": job.max_output_bytes, "status": answer.status},
        )
    output, warnings = read_output(answer.body, exec_.format, "the answer")
    if warnings or exec_.format is OutputFormat.TEXT:
        return RunOutcome(status=Status.SUCCESS, output=output, warnings=warnings)
    found = at_path(output, exec_.json_path)
    if isinstance(found, Absence):
        said = f"the answer has nothing at {exec_.json_path}, so all of it is given"
        return RunOutcome(status=Status.SUCCESS, output=output, warnings=(said,))
    return RunOutcome(status=Status.SUCCESS, output=project(found, exec_.fields))


def _http_error(answer: WebAnswer) -> RunOutcome:
    reason = answer.reason or _standard_reason(answer.status)
    details: JsonObject = {"code": "http-status", "status": answer.status, "reason": reason}
    if text := excerpt(answer.body):
        details["excerpt"] = text
    return RunOutcome(
        status=Status.FAILED,
        code=Code.FAILED,
        message=f"{answer.host} answered {answer.status} {reason}".rstrip(),
        hint="details.excerpt holds the beginning of its answer" if "excerpt" in details else "",
        details=details,
    )


def _standard_reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _unanswered(failed: ExchangeError, asked: WebRequest) -> RunOutcome:
    return RunOutcome(
        status=Status.FAILED,
        code=Code.FAILED,
        message=str(failed),
        hint=failed.hint,
        details={"code": failed.code, "host": asked.request.target.host},
    )


def _timed_out(job: ProcessJsonJob, asked: WebRequest) -> RunOutcome:
    host = asked.request.target.host
    return RunOutcome(
        status=Status.FAILED,
        code=Code.TIMEOUT,
        message=f"{host} gave no whole answer within {job.timeout_ms} ms",
        hint="raise timeout_ms of the tool (a caller can only shorten it)",
        details={"timeoutMs": job.timeout_ms, "host": host},
    )
