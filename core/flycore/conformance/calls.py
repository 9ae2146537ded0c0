"""Checks of calls as the kernel makes them: the answer, and what comes with it."""

from __future__ import annotations

from flycore.conformance.harness import ProgramRun, SidecarHarness, failed, passed, warned
from flycore.conformance.output_checks import event_faults, has_answer, reported_code
from flycore.model.diagnostics import Check
from flycore.model.enums import Code, ReasonCode, Status
from flycore.model.sidecar import DEFAULT_MAX_OUTPUT_BYTES
from flycore.runners.one_shot import RunOutcome

BIG = 2 * 1024 * 1024
"""Bytes of the big request: more than a pipe holds (1 MiB at most on Linux), so it must be read or closed."""
TERM_AFTER_MS = 1_000
"""Milliseconds after which a silent program gets TERM; a program that prints gets it at its first byte."""
UNKNOWN_TOOL = "no.such.tool"
_ANSWER_FORM = '{"ok": true, …} or {"ok": false, "code": "…", "error": "…"}'
_ANSWER_FIX = f"print one JSON object on stdout, {_ANSWER_FORM}, and end with 0 for ok"


def judge_answer(run: ProgramRun) -> Check:
    """Judge the plain call. Any answer of the protocol keeps the contract, also a failure."""
    outcome, size = run.outcome, len(run.ended.stdout)
    summary = f"{reported_code(outcome)} after {outcome.duration_ms} ms, {size} bytes on stdout"
    if outcome.status is Status.SUCCESS and size > DEFAULT_MAX_OUTPUT_BYTES:
        fix = '"maxOutputBytes" of the entry, or answer less and list a file as an artifact'
        return warned("answer", f"{summary}: more than {DEFAULT_MAX_OUTPUT_BYTES}, the usual limit", fix)
    if outcome.status is Status.SUCCESS:
        return passed("answer", summary)
    if outcome.code == ReasonCode.TOOL_UNAVAILABLE:
        fix = outcome.hint or 'add a "remedy": what to do about it'
        return warned("answer", f"{summary}: {outcome.message}", fix)
    if has_answer(outcome):
        return warned("answer", f"{summary}: {outcome.message}", "pass an input that works with --input")
    return failed("answer", f"{summary}: {outcome.message}{_stderr(outcome)}", outcome.hint or _ANSWER_FIX)


def judge_rest(run: ProgramRun, *, persistent: bool) -> tuple[Check, ...]:
    """Judge what came with the answer: other output, events, artifacts, child processes."""
    faults = event_faults(run.ended.stdout, persistent=persistent)
    left = run.ended.left_behind
    return (
        _of(
            "stdout",
            run.junk,
            "only the answer and its events",
            "print everything else on stderr, and events before the answer, one per line",
        ),
        _of(
            "events",
            faults,
            "all can be read",
            '{"event": "progress", "progress": 4, "total": 10} or {"event": "log", "message": "…"}',
        ),
        _of(
            "artifacts",
            run.dropped,
            "each listed file exists below artifactDir or projectDir",
            "write files below artifactDir, and list only files that exist when you answer",
        ),
        _of(
            "children",
            (f"{left} processes that it started still ran after it had ended",) if left else (),
            "no process was left behind",
            "end the processes that you start, and wait for them",
        ),
    )


async def check_unknown_keys(harness: SidecarHarness, first: RunOutcome) -> Check:
    """Call with request keys that only a later version of the protocol may have."""
    job = harness.job(extra={"fromTomorrow": {"a": [1, None]}, "x": "y"})
    return compare(
        "unknown keys", first, (await harness.run(job)).outcome, "ignore keys that you do not know"
    )


async def check_other_folder(harness: SidecarHarness, first: RunOutcome) -> Check:
    """Call in an unrelated folder, with little more than PATH in the environment."""
    fix = "use projectDir and artifactDir for paths, and name the variables you need in passEnv of the entry"
    return compare("elsewhere", first, (await harness.run(harness.in_other_folder())).outcome, fix)


async def check_big_request(harness: SidecarHarness, first: RunOutcome) -> Check:
    """Call with a request that is larger than a pipe's buffer."""
    outcome = (await harness.run(harness.job(extra={"filler": "x" * BIG}))).outcome
    fix = "read stdin to its end, or not at all: do not wait while 2 MiB are unread"
    return compare("big request", first, outcome, fix)


async def check_unknown_tool(harness: SidecarHarness, first: RunOutcome) -> Check:
    """Call a tool that does not exist."""
    return judge_unknown_tool((await harness.run(harness.job(tool=UNKNOWN_TOOL))).outcome)


async def check_termination(harness: SidecarHarness, first: RunOutcome) -> Check:
    """Check that the program and its children end on TERM."""
    # A limit of 0 bytes makes the runner send TERM at the first byte on stdout, while the program is at work.
    ended = (await harness.run(harness.job(timeout_ms=TERM_AFTER_MS, max_output_bytes=0))).ended
    if ended.killed:
        message = f"{ended.killed} of its processes still ran 2 s after TERM and were killed"
        return failed("term", message, "end on TERM, and end the processes you started; do not ignore it")
    signalled = ended.timed_out or ended.output_limited
    return passed("term", "ended within 2 s of TERM" if signalled else "had ended before TERM was sent")


OTHER_CALLS = (
    check_unknown_keys,
    check_other_folder,
    check_big_request,
    check_unknown_tool,
    check_termination,
)
"""The call under other circumstances; each check gets the outcome of the plain call to compare with."""


def compare(name: str, first: RunOutcome, now: RunOutcome, fix: str) -> Check:
    """Compare an outcome with that of the plain call."""
    if not has_answer(now):
        return failed(name, f"{reported_code(now)}: {now.message}{_stderr(now)}", fix)
    if reported_code(now) == reported_code(first):
        return passed(name, f"{reported_code(now)}, as before")
    message = f"{reported_code(now)} ({now.message}), but {reported_code(first)} before"
    return warned(name, message, f"{fix}; ignore this if the call can succeed only once")


def judge_unknown_tool(outcome: RunOutcome) -> Check:
    """Judge the outcome of a call of a tool that does not exist."""
    name, fix = "unknown tool", 'answer {"ok": false, "code": "not-found", "error": "…"} for other tools'
    if outcome.status is Status.SUCCESS:
        return warned(name, f"answers as if it had the tool {UNKNOWN_TOOL}", f"read `tool`: {fix}")
    if has_answer(outcome):
        return passed(name, f"refused: {reported_code(outcome)}")
    return failed(name, f"{reported_code(outcome)}: {outcome.message}{_stderr(outcome)}", fix)


def _of(name: str, faults: tuple[str, ...], well: str, fix: str) -> Check:
    return failed(name, "; ".join(faults), fix) if faults else passed(name, well)


def _stderr(outcome: RunOutcome) -> str:
    last = outcome.stderr_tail.strip().rpartition("\n")[2]
    return f"; the end of its stderr: {last[:200]}" if last and outcome.code != Code.SPAWN else ""
