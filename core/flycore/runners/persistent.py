"""The dialect `persistent`: the same request and answer lines, over a process that stays."""

from __future__ import annotations

from dataclasses import replace

from flycore.model.enums import Code, Status
from flycore.runners.answer import Answer, OnEvent, answer_of, exit_facts, exit_words
from flycore.runners.instance import End, PersistentProcess, Reply
from flycore.runners.process_json import (
    NO_JSON,
    ProcessJsonJob,
    RunOutcome,
    call_sidecar,
    outcome_from_answer,
    output_limited,
    request_line,
    timed_out,
)
from flycore.runners.run import RunLimits


async def ask_process(
    instance: PersistentProcess, job: ProcessJsonJob, on_event: OnEvent | None
) -> RunOutcome:
    """One call to a process that runs. Whatever it does is an outcome; cancelling is `Instance.ask`'s."""
    try:
        request = request_line(job, stays=True)
    except ValueError:
        return NO_JSON
    limits = RunLimits(timeout_ms=job.timeout_ms, max_output_bytes=job.max_output_bytes)
    reply = await instance.ask(job.call_id, request, limits, on_event)
    stderr_tail = reply.stderr_tail.decode("utf-8", "replace")
    meaning = _answer(job, reply, stderr_tail)
    return outcome_from_answer(
        job, meaning, exit_code=reply.exit_code, stderr_tail=stderr_tail, duration_ms=reply.duration_ms
    )


async def call_alone(job: ProcessJsonJob, on_event: OnEvent | None = None) -> RunOutcome:
    """One call to a program that could stay, in a process of its own: its stdin ends after the request."""
    outcome = await call_sidecar(job, on_event)
    if not isinstance(outcome.output, dict) or "requestId" not in outcome.output:
        return outcome
    return replace(outcome, output={k: v for k, v in outcome.output.items() if k != "requestId"})


def _answer(job: ProcessJsonJob, reply: Reply, stderr_tail: str) -> Answer:
    facts = exit_facts(reply.exit_code, stderr_tail)
    if reply.document is not None and reply.end is End.ANSWERED:
        return answer_of(reply.document, None, stderr_tail)
    if reply.end is End.TIMED_OUT:
        return timed_out(job, facts)
    if reply.end is End.TOO_LONG:
        return output_limited(job, facts)
    if reply.breach is not None:
        return Answer(
            status=Status.FAILED,
            code=Code.INVALID_OUTPUT,
            message=f"the answer {reply.breach.fault}",
            hint="a process that stays answers each line with one line: an object with ok and the requestId",
            details={**facts, "excerpt": reply.breach.excerpt},
        )
    left = "was ended" if reply.exit_code is None else exit_words(reply.exit_code)
    return Answer(
        status=Status.FAILED,
        code=Code.CRASHED,
        message=f"the sidecar {left} before it answered",
        hint="its stderr may say why; it may have acted in part",
        details=facts,
    )
