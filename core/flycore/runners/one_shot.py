"""The dialects `process-json` and `executable`: one process for each call, with one line in and one answer
out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from flycore.model.call import Artifact
from flycore.model.enums import Code, Envelope, ProbeMode, ReasonCode, Status
from flycore.model.json import Json, JsonObject
from flycore.model.json_pieces import encode
from flycore.model.large_values import is_large, is_large_text, run_aside
from flycore.model.refusals import Refusals
from flycore.model.sidecar import DEFAULT_MAX_OUTPUT_BYTES, DEFAULT_TIMEOUT_MS, Limits
from flycore.runners.artifacts import check_artifacts
from flycore.runners.child.confined_start import ConfinedStart
from flycore.runners.child.run import ChildExit, RunLimits, run_child
from flycore.runners.child.spawn import NOT_CONFINED, SpawnFailure, SpawnSpec, not_confined
from flycore.runners.executable_output import read_executable_answer
from flycore.runners.output import (
    Answer,
    EventFeed,
    OnEvent,
    SidecarEvent,
    exit_facts,
    exit_words,
    read_answer,
)

__all__ = ["ProcessJsonJob", "RunOutcome", "SidecarEvent", "call_sidecar", "outcome_of", "request_line"]


PROTOCOL = "process-json/1"
_UTF8 = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_ASCII = json.JSONEncoder(allow_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessJsonJob:
    """One call that is ready to run: its program is resolved, its input is checked, and it is approved."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(repr=False)
    cwd: str
    call_id: str
    tool: str
    input: JsonObject
    envelope: Envelope | None = None
    """For an executable: the form of its answer. Its stdin is the input alone, and it writes no events."""
    executable: str | None = None
    config: JsonObject = field(default_factory=dict)
    delegates: JsonObject = field(default_factory=dict)
    """Name of each delegate to `{"argv": […]}`, with its path resolved."""
    sidecar: str = ""
    """The id of the entry."""
    project_dir: str
    artifact_dir: str = ""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    progress_timeout_ms: int = 0
    """Longest time of a call to an MCP server that reports progress at least every `timeout_ms`; 0 where
    progress makes no difference."""
    max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES
    limits: Limits = field(default_factory=Limits)
    extra: JsonObject = field(default_factory=dict)
    """Further keys of the request, such as `refuse` and `target`; they replace no key of the protocol."""
    config_dir: str = ""
    """The folder of the person's own registry, which some programs look for as `configDir`."""
    read: Callable[[Answer], Answer] | None = field(default=None, repr=False, compare=False)
    """Reads a success of a program that answers in a dialect of its own; None where it does not. May write
    files of the answer into `artifact_dir`."""
    check: Callable[[], str] | None = field(default=None, repr=False, compare=False)
    """As in `SpawnSpec`."""
    confine: Callable[[SpawnSpec], ConfinedStart] | None = field(default=None, repr=False, compare=False)
    """As in `SpawnSpec`."""
    confine_again: Callable[[SpawnSpec], ConfinedStart] | None = field(
        default=None, repr=False, compare=False
    )
    """As in `SpawnSpec`."""

    @property
    def spawn_spec(self) -> SpawnSpec:
        """The process to start."""
        return SpawnSpec(
            argv=self.argv,
            executable=self.executable,
            cwd=self.cwd,
            env=self.env,
            call_id=self.call_id,
            limits=self.limits,
            sidecar=self.sidecar,
            check=self.check,
            confine=self.confine,
            confine_again=self.confine_again,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a run, with the fields of `ToolResult`. `output` is set for success only."""

    status: Status
    code: str = ""
    message: str = ""
    hint: str = ""
    details: JsonObject = field(default_factory=dict)
    output: Json = None
    text: str | None = None
    structured: bool = True
    content: tuple[JsonObject, ...] = ()
    meta: JsonObject = field(default_factory=dict)
    artifacts: tuple[Artifact, ...] = ()
    exit_code: int | None = None
    stderr_tail: str = ""
    duration_ms: int = 0
    survivors: int = 0
    """How many processes of the call could not be ended."""
    warnings: tuple[str, ...] = ()
    unconfined: bool = False
    """Whether the program did not run because it could not be confined as it was to be."""
    notes: bytes | None = field(default=None, repr=False)
    """What an observer noted of the program; None if it was not observed to its end."""
    refusals: Refusals | None = None
    """What the notes say was refused, where that was worked out."""

    def with_warnings(self, more: tuple[str, ...]) -> RunOutcome:
        """The same outcome with more warnings."""
        return replace(self, warnings=(*self.warnings, *more))

    def with_survivors(self, survivors: int) -> RunOutcome:
        """The same outcome, where `survivors` processes could not be ended."""
        if not survivors:
            return self
        return replace(self, survivors=survivors).with_warnings(_survivor_warnings(survivors))


NO_JSON = RunOutcome(
    status=Status.FAILED,
    code=Code.INVALID_INPUT,
    message="the request holds NaN or an infinity, which JSON cannot express",
    hint="look for it in the input, and in config of the entry",
)


PROCESS_HINT = (
    "raise limits.processes of the entry if the tool needs more; else look for what starts them without end;"
    " it may have acted in part"
)
MEMORY_HINT = "raise limits.memoryBytes of the entry, or ask the tool for less; it may have acted in part"


async def call_sidecar(job: ProcessJsonJob, on_event: OnEvent | None = None) -> RunOutcome:
    """Run the call. Whatever the child does is an outcome, never an exception.

    `on_event` is called with progress and log lines while the child runs; it must neither block nor raise. A
    cancellation ends the process tree first and then goes on.
    """
    try:
        write = request_line if job.envelope is None else input_line
        request = await run_aside(is_large(job.input), write, job)
    except ValueError:
        return NO_JSON
    if job.envelope is not None:
        return await _call_executable(job, request)
    feed = EventFeed(on_event)
    limits = RunLimits(timeout_ms=job.timeout_ms, max_output_bytes=job.max_output_bytes)
    ended = await run_child(job.spawn_spec, request, limits, feed.take)
    feed.finish()
    rest = ended.stdout[feed.length :]
    outcome = await run_aside(is_large_text(rest), outcome_of, job, ended, rest)
    return outcome.with_warnings(feed.budget.warnings)


async def _call_executable(job: ProcessJsonJob, request: bytes) -> RunOutcome:
    limits = RunLimits(timeout_ms=job.timeout_ms, max_output_bytes=job.max_output_bytes)
    ended = await run_child(job.spawn_spec, request, limits)
    return await run_aside(is_large_text(ended.stdout), outcome_of, job, ended, ended.stdout)


def input_line(job: ProcessJsonJob) -> bytes:
    """The input alone as one line of UTF-8. Raises ValueError for NaN and infinities."""
    return _line(job.input)


def request_line(job: ProcessJsonJob, *, persistent: bool = False) -> bytes:
    """The request as one line of UTF-8. `persistent` says that it goes to a persistent process. Raises
    ValueError for NaN and infinities."""
    request: JsonObject = {
        "tool": job.tool,
        "input": job.input,
        "config": job.config,
        "delegates": job.delegates,
        "projectDir": job.project_dir,
        "cwd": job.cwd,
        "configDir": job.config_dir,
        "artifactDir": job.artifact_dir,
        "requestId": job.call_id,
        "protocol": PROTOCOL,
    }
    if persistent:
        request["persistent"] = True
    request = {**request, **{key: value for key, value in job.extra.items() if key not in request}}
    return _line(request)


def _line(document: JsonObject) -> bytes:
    # Half a surrogate pair, such as a file's name may hold, has no UTF-8: that request is escaped to ASCII.
    try:
        return encode(_UTF8, document).encode() + b"\n"
    except UnicodeEncodeError:
        return encode(_ASCII, document).encode() + b"\n"


def outcome_of(job: ProcessJsonJob, ended: ChildExit, rest: bytes) -> RunOutcome:
    """The outcome of a child that ended. `rest` is its stdout without the leading event lines."""
    stderr_tail = ended.stderr_tail.decode("utf-8", "replace")
    exit_code = ended.exit_code or 0
    answer = cut_short(job, ended, stderr_tail) or (
        read_answer(rest, exit_code, stderr_tail)
        if job.envelope is None
        else read_executable_answer(job.envelope, rest, exit_code, stderr_tail)
    )
    return _outcome(job, answer, ended, stderr_tail)


def cut_short_outcome(job: ProcessJsonJob, ended: ChildExit, stderr_tail: str) -> RunOutcome | None:
    """The outcome of a child that did not end by itself, or did not start; None where it did."""
    answer = cut_short(job, ended, stderr_tail)
    return None if answer is None else _outcome(job, answer, ended, stderr_tail)


def _outcome(job: ProcessJsonJob, answer: Answer, ended: ChildExit, stderr_tail: str) -> RunOutcome:
    outcome = outcome_from_answer(
        job,
        answer,
        exit_code=ended.exit_code,
        stderr_tail=stderr_tail,
        duration_ms=ended.duration_ms,
        survivors=ended.survivors,
    )
    return replace(outcome, unconfined=unconfined_end(ended, stderr_tail), notes=ended.notes)


def unconfined_end(ended: ChildExit, stderr_tail: str) -> bool:
    """Whether the program did not run because it could not be confined as it was to be."""
    return _confinement_failure(ended, stderr_tail) is not None


def _confinement_failure(ended: ChildExit, stderr_tail: str) -> SpawnFailure | None:
    """Why the program has not run confined, and so not at all; None where it has, or was not to be."""
    if ended.spawn_error is not None:
        return ended.spawn_error if ended.spawn_error.fault == NOT_CONFINED else None
    report = ended.confinement
    if report is None or report.confined:
        return None
    # A program that was ended leaves no report of its end, and none ran outside what had been set up. Where a
    # signal ended the confining command itself, the program may have run, and has ended with it.
    killed = ended.exit_code is not None and ended.exit_code < 0
    if report.started and (ended.timed_out or ended.output_limited or ended.process_limited or killed):
        return None
    if ended.memory_limited and killed:
        return None
    return not_confined((stderr_tail.strip().splitlines() or ["it was ended before it ran"])[-1])


def outcome_from_answer(
    job: ProcessJsonJob,
    answer: Answer,
    *,
    exit_code: int | None,
    stderr_tail: str,
    duration_ms: int,
    survivors: int = 0,
) -> RunOutcome:
    """The outcome with the status and texts of `answer`, and with those of its artifacts that may be passed
    on."""
    if job.read is not None and answer.status is Status.SUCCESS:
        answer = job.read(answer)
    output = answer.output
    # The fields of an executable's output are its own: it knows nothing of the folder for artifacts.
    listed = output.get("artifacts") if job.envelope is None else None
    artifacts, dropped = check_artifacts(listed, job.artifact_dir, job.project_dir)
    if "artifacts" in output and job.envelope is None:
        output = {**output, "artifacts": [_listed(artifact) for artifact in artifacts]}
    return RunOutcome(
        status=answer.status,
        code=answer.code,
        message=answer.message,
        hint=answer.hint,
        details=answer.details,
        output=output if answer.status is Status.SUCCESS else None,
        artifacts=artifacts,
        exit_code=exit_code,
        stderr_tail=stderr_tail,
        duration_ms=duration_ms,
        survivors=survivors,
        warnings=(*answer.warnings, *dropped, *_survivor_warnings(survivors)),
    )


def not_started(job: ProcessJsonJob, error: SpawnFailure) -> Answer:
    """The answer for a program that could not be started."""
    if error.fault == NOT_CONFINED:
        return Answer(
            status=Status.UNAVAILABLE,
            code=ReasonCode.SANDBOX_UNAVAILABLE,
            message=error.message,
            hint=error.hint,
        )
    about: JsonObject = {"path": error.path} if error.path else {"program": job.executable or job.argv[0]}
    return Answer(
        status=Status.FAILED,
        code=Code.SPAWN,
        message=error.message,
        hint=error.hint,
        details={"fault": error.fault} if error.fault else about,
    )


def output_limited(job: ProcessJsonJob, facts: JsonObject) -> Answer:
    """The answer for a program that wrote more to stdout than its limit."""
    return Answer(
        status=Status.FAILED,
        code=Code.OUTPUT_LIMIT,
        message=f"more than {job.max_output_bytes} bytes on stdout",
        hint="raise maxOutputBytes of the entry, or ask the tool for less",
        details={"maxOutputBytes": job.max_output_bytes, **facts},
    )


def process_limited(limits: Limits, facts: JsonObject) -> Answer:
    """The answer for a program that had more processes than its limit."""
    return Answer(
        status=Status.FAILED,
        code=Code.PROCESS_LIMIT,
        message=f"more than {limits.most_processes} processes at once, so that all of them were ended",
        hint=PROCESS_HINT,
        details={"processes": limits.most_processes, **facts},
    )


def memory_limited(limits: Limits, facts: JsonObject) -> Answer:
    """The answer for a program whose processes together reached their limit of memory."""
    return Answer(
        status=Status.FAILED,
        code=Code.MEMORY_LIMIT,
        message=f"its processes together used more than {limits.most_memory} bytes, so that all were ended",
        hint=MEMORY_HINT,
        details={"memoryBytes": limits.most_memory, **facts},
    )


def observer_lost(facts: JsonObject) -> Answer:
    """The answer for a program whose observer was ended before it."""
    return Answer(
        status=Status.FAILED,
        code=Code.CRASHED,
        message="the observer of its system calls was ended, so that they failed and the program was ended",
        hint="find out what ended a process of flytui, then call again; the tool may have acted in part",
        details=facts,
    )


def timed_out(job: ProcessJsonJob, facts: JsonObject) -> Answer:
    """The answer for a program that reached its time limit."""
    return Answer(
        status=Status.FAILED,
        code=Code.TIMEOUT,
        message=f"no answer within {job.timeout_ms} ms",
        hint="raise timeoutMs of the entry (a caller can only shorten it)",
        details={"timeoutMs": job.timeout_ms, **facts},
    )


def cut_short(job: ProcessJsonJob, ended: ChildExit, stderr_tail: str) -> Answer | None:
    """The answer for a child that ended without one of its own; None where there is stdout to read."""
    failure = ended.spawn_error or _confinement_failure(ended, stderr_tail)
    # A machine that is so busy that the time is over before the program runs has no fault in its sandbox.
    if failure is not None and not ended.timed_out:
        return not_started(job, failure)
    facts = {} if ended.exit_code is None else exit_facts(ended.exit_code, stderr_tail)
    if ended.output_limited:
        return output_limited(job, facts)
    if ended.process_limited:
        return process_limited(job.limits, facts)
    if ended.memory_limited:
        return memory_limited(job.limits, facts)
    if ended.observer_lost:
        return observer_lost(facts)
    return timed_out(job, facts) if ended.timed_out else None


def _survivor_warnings(survivors: int) -> tuple[str, ...]:
    return (f"{survivors} processes could not be ended",) if survivors else ()


def _listed(artifact: Artifact) -> JsonObject:
    return {"path": artifact.path, "mimeType": artifact.mime_type, "bytes": artifact.bytes}


PROBE_ARGUMENT = "--probe"


async def probe_sidecar(job: ProcessJsonJob, mode: ProbeMode, timeout_ms: int) -> RunOutcome:
    """Ask a sidecar, without acting, whether what it needs is there; its answer as an outcome, with `tools`
    in `output`.

    The mode `command` runs the program with `--probe` and an empty stdin; exit 0 without output means
    success. Any other mode sends `job.tool` the input `{"probe": true}`. The caller decides whether to probe
    at all.
    """
    probing = replace(job, timeout_ms=timeout_ms, input={"probe": True})
    if mode is not ProbeMode.COMMAND:
        return await call_sidecar(probing)
    probing = replace(probing, argv=(*job.argv, PROBE_ARGUMENT))
    limits = RunLimits(timeout_ms=timeout_ms, max_output_bytes=job.max_output_bytes)
    ended = await run_child(probing.spawn_spec, b"", limits)
    if ended.exit_code == 0 and not ended.timed_out and not ended.stdout.strip():
        return RunOutcome(status=Status.SUCCESS, output={}, exit_code=0, duration_ms=ended.duration_ms)
    return outcome_of(probing, ended, ended.stdout)


# Asking an executable for its schema.

SCHEMA_ARGUMENT = "--schema"
SCHEMA_TIMEOUT_MS = 5_000
SCHEMA_OUTPUT_BYTES = 1_048_576


class SchemaOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What an executable wrote when it was asked for its schema. `why_not` says why that is no answer, in a
    sentence without its subject."""

    stdout: bytes = b""
    why_not: str = ""
    lasting: bool = True
    """Whether the same program would end in the same way again, as far as that can be known."""
    stderr_tail: str = ""
    duration_ms: int = 0
    unconfined: bool = False


async def ask_schema(job: ProcessJsonJob) -> SchemaOutput:
    """Run the program with `--schema` and an empty stdin. Whatever it does is an output, not an exception."""
    asking = replace(job, argv=(*job.argv, SCHEMA_ARGUMENT), timeout_ms=SCHEMA_TIMEOUT_MS)
    limits = RunLimits(timeout_ms=SCHEMA_TIMEOUT_MS, max_output_bytes=SCHEMA_OUTPUT_BYTES)
    ended = await run_child(asking.spawn_spec, b"", limits)
    stderr_tail = ended.stderr_tail.decode("utf-8", "replace")
    code, why, lasting = ended.exit_code or 0, "", True
    if ended.timed_out:
        why, lasting = f"did not answer within {SCHEMA_TIMEOUT_MS // 1_000} s", False
    elif ended.output_limited:
        why = f"printed more than {SCHEMA_OUTPUT_BYTES // 1_024} KiB"
    elif (cut := cut_short(asking, ended, stderr_tail)) is not None:
        why, lasting = f"could not be asked: {cut.message}", False
    elif code != 0:
        why = exit_words(code)
    return SchemaOutput(
        stdout=ended.stdout,
        why_not=why,
        lasting=lasting,
        stderr_tail=stderr_tail,
        duration_ms=ended.duration_ms,
        unconfined=_confinement_failure(ended, stderr_tail) is not None and not ended.timed_out,
    )
