"""Requests that are none, and inputs that make no sense: a program says so, and neither hangs nor acts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace

from flycore.conformance.harness import ProgramRun, SidecarHarness, failed, passed, warned
from flycore.conformance.output_checks import has_answer, reported_code
from flycore.model.diagnostics import Check
from flycore.model.enums import Code, Status
from flycore.model.json import Json, JsonObject
from flycore.runners.one_shot import request_line

CLOSED = ("/bin/sh", "-c", 'exec "$@" <&-', "sh")
"""Before a command: starts it without a stdin."""
_REFUSE = 'answer {"ok": false, "code": "invalid-request", "error": "…"}'
_FIELD = 'answer {"ok": false, "code": "invalid-input", "error": "…", "field": "…"}'


@dataclass(frozen=True, slots=True)
class BadRequest:
    """One thing that is sent; None: stdin is closed. `request`: whether it is a request at all."""

    name: str
    stdin: bytes | None
    request: bool
    silence: bool = False
    """Whether leaving without a word is an answer, too: nothing was asked."""


def bad_requests(request: JsonObject) -> Iterator[BadRequest]:
    """What can be wrong with a good request."""
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
    """Its input with each value of another type; one that makes no sense where there is none."""
    given = request.get("input")
    if not isinstance(given, dict) or not given:
        return {"unexpected": [None]}
    return {key: _other(value) for key, value in given.items()}


async def check_bad_requests(bench: SidecarHarness) -> AsyncIterator[Check]:
    """One check for each."""
    for misuse in bad_requests(json.loads(request_line(bench.job()))):
        yield await try_bad_request(bench, misuse)


async def try_bad_request(bench: SidecarHarness, misuse: BadRequest) -> Check:
    """What comes of one."""
    job = bench.job()
    if misuse.stdin is None:
        job = replace(job, argv=(*CLOSED, *job.argv))
    return judge_bad_request(misuse, await bench.run(job, misuse.stdin or b""))


def judge_bad_request(misuse: BadRequest, heard: ProgramRun) -> Check:
    """A refusal is right; a crash is a message nobody can read; a signal or a hang holds up a call."""
    outcome, name = heard.outcome, f"bad input: {misuse.name}"
    fix = _FIELD if misuse.request else _REFUSE
    if outcome.status is Status.SUCCESS and not misuse.request:
        return warned(name, "answers ok to what is no request", f"read the request: {fix}")
    if has_answer(outcome):
        return passed(name, f"answered: {reported_code(outcome)}")
    silent = not heard.ended.stdout.strip()
    if outcome.code == Code.INVALID_OUTPUT and silent:
        ended = "left without a word"
        return passed(name, ended) if misuse.silence else warned(name, ended, fix)
    if outcome.code == Code.EXIT and (outcome.exit_code or 0) > 0 and silent:
        last = outcome.stderr_tail.strip().rpartition("\n")[2][:200]
        return warned(name, f"ends with {outcome.exit_code} and no answer: {last or 'no word'}", fix)
    return failed(name, f"{reported_code(outcome)}: {outcome.message}", fix)


def _other(value: Json) -> Json:
    return {"wrong": True} if isinstance(value, str | bool | int | float | list) else "wrong"


def _line(document: JsonObject) -> bytes:
    return json.dumps(document).encode() + b"\n"
