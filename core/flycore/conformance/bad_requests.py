"""Checks with broken requests and senseless inputs: a program must refuse them, not hang and not act."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import msgspec

from flycore.conformance.harness import ProgramRun, SidecarHarness, failed, passed, warned
from flycore.conformance.output_checks import has_answer, reported_code
from flycore.model.diagnostics import Check
from flycore.model.enums import Code, Status
from flycore.model.json import Json, JsonObject
from flycore.runners.one_shot import request_line

CLOSED = ("/bin/sh", "-c", 'exec "$@" <&-', "sh")
"""A prefix that starts a command with a closed stdin."""
_REFUSE = 'answer {"ok": false, "code": "invalid-request", "error": "…"}'
_FIELD = 'answer {"ok": false, "code": "invalid-input", "error": "…", "field": "…"}'


class BadRequest(msgspec.Struct, frozen=True):
    """One broken request. `stdin` is what is sent, None for a closed stdin; `request` says whether it is a
    request of the protocol at all."""

    name: str
    stdin: bytes | None
    request: bool
    silence: bool = False
    """Whether ending without output is right as well, because nothing was asked."""


def bad_requests(request: JsonObject) -> Iterator[BadRequest]:
    """Make the broken forms of a valid request."""
    yield BadRequest("not JSON", b"this is not JSON {\n", False)
    yield BadRequest("not an object", b"[1, 2]\n", False)
    yield BadRequest("an empty stdin", b"", False, silence=True)
    yield BadRequest("a closed stdin", None, False, silence=True)
    yield BadRequest("no fields", b"{}\n", False)
    wrong = {key: _other(value) for key, value in request.items()}
    yield BadRequest("fields of wrong types", _line(wrong), False)
    yield BadRequest("an empty input", _line({**request, "input": {}}), True)
    yield BadRequest("an input of wrong types", _line({**request, "input": wrong_input(request)}), True)


def wrong_input(request: JsonObject) -> JsonObject:
    """Return the request's input with a wrong type for each value, or a senseless input if it is empty."""
    given = request.get("input")
    if not isinstance(given, dict) or not given:
        return {"unexpected": [None]}
    return {key: _other(value) for key, value in given.items()}


async def check_bad_requests(harness: SidecarHarness) -> AsyncIterator[Check]:
    """Check each broken request."""
    for bad_request in bad_requests(json.loads(request_line(harness.job()))):
        yield await try_bad_request(harness, bad_request)


async def try_bad_request(harness: SidecarHarness, bad_request: BadRequest) -> Check:
    """Send one broken request and judge the answer."""
    job = harness.job()
    if bad_request.stdin is None:
        job = replace(job, argv=(*CLOSED, *job.argv))
    return judge_bad_request(bad_request, await harness.run(job, bad_request.stdin or b""))


def judge_bad_request(bad_request: BadRequest, run: ProgramRun) -> Check:
    """Judge one run. A refusal passes, an exit without an answer is a warning, a signal or a hang fails."""
    outcome, name = run.outcome, f"bad input: {bad_request.name}"
    fix = _FIELD if bad_request.request else _REFUSE
    if outcome.status is Status.SUCCESS and not bad_request.request:
        return warned(name, "answers ok to something that is not a request", f"validate the request: {fix}")
    if has_answer(outcome):
        return passed(name, f"answered: {reported_code(outcome)}")
    silent = not run.ended.stdout.strip()
    if outcome.code == Code.INVALID_OUTPUT and silent:
        ended = "ended without output"
        return passed(name, ended) if bad_request.silence else warned(name, ended, fix)
    if outcome.code == Code.EXIT and (outcome.exit_code or 0) > 0 and silent:
        last = outcome.stderr_tail.strip().rpartition("\n")[2][:200]
        return warned(name, f"exits with {outcome.exit_code} and no answer: {last or 'stderr is empty'}", fix)
    return failed(name, f"{reported_code(outcome)}: {outcome.message}", fix)


def _other(value: Json) -> Json:
    return {"wrong": True} if isinstance(value, str | bool | int | float | list) else "wrong"


def _line(document: JsonObject) -> bytes:
    return json.dumps(document).encode() + b"\n"
