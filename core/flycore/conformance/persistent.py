"""Checks of a persistent process: request after request, a cancel, and its end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio

from flycore.conformance.bad_requests import wrong_input
from flycore.conformance.calls import TERM_AFTER_MS, UNKNOWN_TOOL
from flycore.conformance.harness import SidecarHarness, failed, passed, warned
from flycore.model.diagnostics import Check
from flycore.runners.child.run import RunLimits
from flycore.runners.child.spawn import SpawnError
from flycore.runners.one_shot import ProcessJsonJob, request_line
from flycore.runners.output import OnEvent, exit_words
from flycore.runners.persistent import End, PersistentProcess, Reply
from flycore.runners.protocol import cancel_line

_LINE = 'answer each line with one line that has its "requestId"'


async def check_persistent(harness: SidecarHarness) -> AsyncIterator[Check]:
    """Ask one process several times; a process that cannot go on is replaced by a new one."""
    process = _PersistentRun(harness)
    try:
        yield await _two_requests(process)
        for name, job in (
            ("an empty input", harness.job(input={})),
            ("an input of wrong types", harness.job(input=wrong_input({"input": harness.target.input}))),
            ("an unknown tool", harness.job(tool=UNKNOWN_TOOL)),
        ):
            yield await _answers_again(process, f"stays: {name}", job)
        yield await _cancelled(process)
        yield await _exits_on_request(process)
    except SpawnError as fault:
        yield failed("stays", fault.failure.message, fault.failure.hint)
    finally:
        await process.end(at_once=True)


class _PersistentRun:
    """The process that is asked, started again when needed. Raises SpawnError if it cannot be started."""

    def __init__(self, harness: SidecarHarness) -> None:
        self.harness = harness
        self._instance: PersistentProcess | None = None

    async def instance(self) -> PersistentProcess:
        """Return the running process; start one if there is none."""
        # Not ready after a wrong answer or a time-out: the next check needs a process of its own.
        if self._instance is not None and not self._instance.ready():
            await self.end(at_once=True)
        if self._instance is None:
            self._instance = PersistentProcess(self.harness.job().spawn_spec, lambda _: None)
        return self._instance

    async def ask(
        self, job: ProcessJsonJob, *, before: bytes = b"", on_event: OnEvent | None = None
    ) -> Reply:
        """Send the line `before`, then one request, and wait for the answer."""
        limits = RunLimits(timeout_ms=job.timeout_ms, max_output_bytes=job.max_output_bytes)
        line = before + request_line(job, persistent=True)
        return await (await self.instance()).ask(job.call_id, line, limits, on_event)

    async def end(self, *, at_once: bool) -> None:
        """End the running process, if there is one."""
        instance, self._instance = self._instance, None
        if instance is not None:
            await instance.end(at_once=at_once)


async def _two_requests(process: _PersistentRun) -> Check:
    name = "stays: two requests"
    first = await process.ask(process.harness.job())
    if first.end is not End.ANSWERED:
        return failed(name, f"the first: {_exit_text(first)}", _LINE)
    instance = await process.instance()
    second = await process.ask(process.harness.job(), before=cancel_line("of-nobody"))
    if second.end is not End.ANSWERED:
        fix = f"{_LINE}; ignore a cancel of a request that you do not have"
        return failed(name, f"the second: {_exit_text(second)}", fix)
    if await process.instance() is not instance:
        return failed(name, "it ended, or printed more, after its answer", "keep running until stdin ends")
    return passed(name, f"both answered, the second after {second.duration_ms} ms")


async def _answers_again(process: _PersistentRun, name: str, job: ProcessJsonJob) -> Check:
    reply = await process.ask(job)
    if reply.end is not End.ANSWERED or reply.document is None:
        fix = f"{_LINE}; answer a failure, too, and stay ready for the next request"
        return failed(name, _exit_text(reply), fix)
    return passed(name, "answered, ok" if reply.document["ok"] else f"answered: {_code(reply)}")


async def _cancelled(process: _PersistentRun) -> Check:
    """Cancel a request at its first event, or after a second without one."""
    name, job = "stays: cancel", process.harness.job()
    instance = await process.instance()
    # The cancellation makes the runner send {"cancel": …} and wait for an answer; `broken` says it got none.
    with anyio.CancelScope() as scope:
        scope.deadline = anyio.current_time() + TERM_AFTER_MS / 1000
        await process.ask(job, on_event=lambda _: scope.cancel())
    if not scope.cancelled_caught:
        fix = "pass an input that takes longer or reports progress, so that the cancel can be checked"
        return warned(name, "it had answered before it could be cancelled", fix)
    if instance.broken:
        fix = '{"cancel": "<requestId>"} arrives while you work: answer anything within 2 s'
        return failed(name, 'no answer within 2 s of {"cancel": …}', fix)
    again = await process.ask(process.harness.job())
    if again.end is not End.ANSWERED:
        return failed(name, f"the call after it: {_exit_text(again)}", _LINE)
    return passed(name, "answered within 2 s, and still answers")


async def _exits_on_request(process: _PersistentRun) -> Check:
    name = "stays: leaves"
    instance = await process.instance()
    await process.end(at_once=False)
    if not instance.left_unforced:
        return failed(name, "still ran 1 s after its stdin ended", "end when stdin ends")
    if instance.exit_code:
        return warned(name, f"{exit_words(instance.exit_code)} when its stdin ended", "exit with 0")
    return passed(name, "ended within 1 s of the end of its stdin")


def _code(reply: Reply) -> str:
    code = reply.document.get("code") if reply.document is not None else None
    return code if isinstance(code, str) else "failed"


def _exit_text(reply: Reply) -> str:
    match reply.end:
        case End.ANSWERED:
            return "answered"
        case End.TIMED_OUT:
            return f"no answer within {reply.duration_ms} ms"
        case End.TOO_LONG:
            return "an answer that is too long"
        case End.INVALID if reply.violation is not None:
            return f"the answer {reply.violation.fault}: {reply.violation.excerpt[:120]}"
        case _:
            left = "it ended" if reply.exit_code is None else f"it {exit_words(reply.exit_code)}"
            last = reply.stderr_tail.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
            return f"{left} without an answer{': ' + last if last else ''}"
