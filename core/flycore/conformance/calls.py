"""What is looked at in calls as the kernel makes them: the answer, and all that comes with it."""

from __future__ import annotations

from flycore.conformance.harness import ProgramRun, SidecarHarness, failed, passed, warned
from flycore.conformance.output_checks import event_faults, has_answer, reported_code
from flycore.model.diagnostics import Check
from flycore.model.enums import Code, ReasonCode, Status
from flycore.model.sidecar import DEFAULT_MAX_OUTPUT_BYTES
from flycore.runners.one_shot import RunOutcome

BIG = 2 * 1024 * 1024
"""Bytes of a request that nobody should hang on: twice what a pipe holds at most."""
TERM_AFTER_MS = 1_000
"""When a program that says nothing is told to leave; one that says something is told at its first byte."""
UNKNOWN_TOOL = "no.such.tool"
_ANSWER_FORM = '{"ok": true, …} or {"ok": false, "code": "…", "error": "…"}'
_ANSWER_FIX = f"print one JSON object on stdout, {_ANSWER_FORM}, and end with 0 for ok"


def judge_answer(heard: ProgramRun) -> Check:
    """Of the call itself: any answer of the protocol keeps the contract."""
    outcome, size = heard.outcome, len(heard.ended.stdout)
    said = f"{reported_code(outcome)} after {outcome.duration_ms} ms, {size} bytes on stdout"
    if outcome.status is Status.SUCCESS and size > DEFAULT_MAX_OUTPUT_BYTES:
        fix = '"maxOutputBytes" of the entry, or answer less and list a file as an artifact'
        return warned("answer", f"{said}: more than {DEFAULT_MAX_OUTPUT_BYTES}, the usual limit", fix)
    if outcome.status is Status.SUCCESS:
        return passed("answer", said)
    if outcome.code == ReasonCode.TOOL_UNAVAILABLE:
        fix = outcome.hint or 'say with "remedy" what to do about it'
        return warned("answer", f"{said}: {outcome.message}", fix)
    if has_answer(outcome):
        return warned("answer", f"{said}: {outcome.message}", "give an input that works, with --input")
    return failed("answer", f"{said}: {outcome.message}{_stderr(outcome)}", outcome.hint or _ANSWER_FIX)


def judge_rest(heard: ProgramRun, *, persistent: bool) -> tuple[Check, ...]:
    """Of what came with an answer."""
    faults = event_faults(heard.ended.stdout, persistent=persistent)
    left = heard.ended.left_behind
    return (
        _of(
            "stdout",
            heard.junk,
            "the answer, its events and nothing else",
            "print everything else on stderr; events come before the answer, one a line",
        ),
        _of(
            "events",
            faults,
            "none that cannot be read",
            '{"event": "progress", "progress": 4, "total": 10} or {"event": "log", "message": "…"}',
        ),
        _of(
            "artifacts",
            heard.dropped,
            "every one listed is a file below artifactDir or projectDir",
            "write below artifactDir, and list what is there when you answer",
        ),
        _of(
            "children",
            (f"{left} processes it started still ran when it had left",) if left else (),
            "nobody was left behind",
            "end whom you start, and wait for them",
        ),
    )


async def check_unknown_keys(bench: SidecarHarness, first: RunOutcome) -> Check:
    """With keys of the request that a later version may have."""
    job = bench.job(extra={"fromTomorrow": {"a": [1, None]}, "x": "y"})
    return compare("unknown keys", first, (await bench.run(job)).outcome, "ignore keys you do not know")


async def check_other_folder(bench: SidecarHarness, first: RunOutcome) -> Check:
    """In a folder it does not know, with little more than PATH."""
    fix = "take paths from projectDir and artifactDir, and names from passEnv of the entry"
    return compare("elsewhere", first, (await bench.run(bench.in_other_folder())).outcome, fix)


async def check_big_request(bench: SidecarHarness, first: RunOutcome) -> Check:
    """With more than any pipe holds."""
    outcome = (await bench.run(bench.job(extra={"filler": "x" * BIG}))).outcome
    fix = "read stdin to its end, or not at all: 2 MiB of it must not hold you up"
    return compare("big request", first, outcome, fix)


async def check_unknown_tool(bench: SidecarHarness, first: RunOutcome) -> Check:
    """For a tool that nobody offers."""
    return judge_unknown_tool((await bench.run(bench.job(tool=UNKNOWN_TOOL))).outcome)


async def check_termination(bench: SidecarHarness, first: RunOutcome) -> Check:
    """TERM at its first byte on stdout: a limit of no bytes at all brings it."""
    ended = (await bench.run(bench.job(timeout_ms=TERM_AFTER_MS, max_output_bytes=0))).ended
    if ended.killed:
        said = f"{ended.killed} of its processes were there 2 s after TERM, and were killed"
        return failed("term", said, "end on TERM, and end whom you started; do not ignore the signal")
    told = ended.timed_out or ended.output_limited
    return passed("term", "left within 2 s of TERM" if told else "had ended before it could be told to")


OTHER_CALLS = (
    check_unknown_keys,
    check_other_folder,
    check_big_request,
    check_unknown_tool,
    check_termination,
)
"""The same call under other circumstances; each knows how the plain one ended."""


def compare(name: str, first: RunOutcome, now: RunOutcome, fix: str) -> Check:
    """Whether it answers as it did the first time."""
    if not has_answer(now):
        return failed(name, f"{reported_code(now)}: {now.message}{_stderr(now)}", fix)
    if reported_code(now) == reported_code(first):
        return passed(name, f"{reported_code(now)}, as before")
    was = f"{reported_code(now)} ({now.message}), {reported_code(first)} before"
    return warned(name, was, f"{fix}; as well where the first call did something that can be done once")


def judge_unknown_tool(outcome: RunOutcome) -> Check:
    """Of a call of a tool that nobody offers."""
    name, fix = "unknown tool", 'answer {"ok": false, "code": "not-found", "error": "…"} for other tools'
    if outcome.status is Status.SUCCESS:
        return warned(name, f"answers as if {UNKNOWN_TOOL} were its own", f"look at `tool`: {fix}")
    if has_answer(outcome):
        return passed(name, f"refused: {reported_code(outcome)}")
    return failed(name, f"{reported_code(outcome)}: {outcome.message}{_stderr(outcome)}", fix)


def _of(name: str, faults: tuple[str, ...], well: str, fix: str) -> Check:
    return failed(name, "; ".join(faults), fix) if faults else passed(name, well)


def _stderr(outcome: RunOutcome) -> str:
    last = outcome.stderr_tail.strip().rpartition("\n")[2]
    return f"; the end of its stderr: {last[:200]}" if last and outcome.code != Code.SPAWN else ""
