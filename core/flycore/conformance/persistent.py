"""What is looked at in a process that stays: line after line, a cancel, and how it leaves."""

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

_LINE = 'answer each line with one line that carries its "requestId"'


async def check_persistent(bench: SidecarHarness) -> AsyncIterator[Check]:
    """One process, asked several times; a new one wherever the last could not go on."""
    kept = _PersistentRun(bench)
    try:
        yield await _two_requests(kept)
        for name, job in (
            ("an empty input", bench.job(input={})),
            ("an input of wrong types", bench.job(input=wrong_input({"input": bench.trial.input}))),
            ("an unknown tool", bench.job(tool=UNKNOWN_TOOL)),
        ):
            yield await _answers_again(kept, f"stays: {name}", job)
        yield await _cancelled(kept)
        yield await _exits_on_request(kept)
    except SpawnError as fault:
        yield failed("stays", fault.failure.message, fault.failure.hint)
    finally:
        await kept.end(at_once=True)


class _PersistentRun:
    """The process that is asked. Raises SpawnError where it cannot be started."""

    def __init__(self, bench: SidecarHarness) -> None:
        self.bench = bench
        self._instance: PersistentProcess | None = None

    async def instance(self) -> PersistentProcess:
        """The one that runs, started where none does."""
        if self._instance is not None and not self._instance.ready():
            await self.end(at_once=True)
        if self._instance is None:
            self._instance = PersistentProcess(self.bench.job().spawn_spec, lambda _: None)
        return self._instance

    async def ask(
        self, job: ProcessJsonJob, *, before: bytes = b"", on_event: OnEvent | None = None
    ) -> Reply:
        """Send one request, with a line before it, and wait for its answer."""
        limits = RunLimits(timeout_ms=job.timeout_ms, max_output_bytes=job.max_output_bytes)
        line = before + request_line(job, stays=True)
        return await (await self.instance()).ask(job.call_id, line, limits, on_event)

    async def end(self, *, at_once: bool) -> None:
        """End the one that runs."""
        instance, self._instance = self._instance, None
        if instance is not None:
            await instance.end(at_once=at_once)


async def _two_requests(kept: _PersistentRun) -> Check:
    name = "stays: two requests"
    first = await kept.ask(kept.bench.job())
    if first.end is not End.ANSWERED:
        return failed(name, f"the first: {_exit_text(first)}", _LINE)
    instance = await kept.instance()
    second = await kept.ask(kept.bench.job(), before=cancel_line("of-nobody"))
    if second.end is not End.ANSWERED:
        fix = f"{_LINE}; a cancel of what you were not asked means nothing"
        return failed(name, f"the second: {_exit_text(second)}", fix)
    if await kept.instance() is not instance:
        return failed(name, "it left, or spoke unasked, after its answer", "stay until stdin ends")
    return passed(name, f"both answered, the second after {second.duration_ms} ms")


async def _answers_again(kept: _PersistentRun, name: str, job: ProcessJsonJob) -> Check:
    reply = await kept.ask(job)
    if reply.end is not End.ANSWERED or reply.document is None:
        fix = f"{_LINE}: a failure is an answer, and the next request is another's"
        return failed(name, _exit_text(reply), fix)
    return passed(name, "answered, ok" if reply.document["ok"] else f"answered: {_code(reply)}")


async def _cancelled(kept: _PersistentRun) -> Check:
    """At its first event, or after a second of silence."""
    name, job = "stays: cancel", kept.bench.job()
    instance = await kept.instance()
    with anyio.CancelScope() as scope:
        scope.deadline = anyio.current_time() + TERM_AFTER_MS / 1000
        await kept.ask(job, on_event=lambda _: scope.cancel())
    if not scope.cancelled_caught:
        fix = "give an input that takes longer or reports progress, to see more"
        return warned(name, "it had answered before it could be cancelled", fix)
    if instance.broken:
        fix = '{"cancel": "<requestId>"} comes while you work: answer within 2 s, whatever you answer'
        return failed(name, 'no answer within 2 s of {"cancel": …}', fix)
    again = await kept.ask(kept.bench.job())
    if again.end is not End.ANSWERED:
        return failed(name, f"the call after it: {_exit_text(again)}", _LINE)
    return passed(name, "answered within 2 s, and answers on")


async def _exits_on_request(kept: _PersistentRun) -> Check:
    name = "stays: leaves"
    instance = await kept.instance()
    await kept.end(at_once=False)
    if not instance.left_unforced:
        return failed(name, "was still there 1 s after the end of its stdin", "leave when stdin ends")
    if instance.exit_code:
        return warned(name, f"{exit_words(instance.exit_code)} when its stdin ended", "end with 0")
    return passed(name, "left within 1 s of the end of its stdin")


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
            return "an answer without end"
        case End.INVALID if reply.breach is not None:
            return f"the answer {reply.breach.fault}: {reply.breach.excerpt[:120]}"
        case _:
            left = "it left" if reply.exit_code is None else f"it {exit_words(reply.exit_code)}"
            last = reply.stderr_tail.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
            return f"{left} without an answer{': ' + last if last else ''}"
