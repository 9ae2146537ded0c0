"""Pure checks of what a program printed: events, probe answers and `--schema`. Faults are sentences."""

from __future__ import annotations

from flycore.catalog.schemas import check_schema
from flycore.model.enums import Code, ProbeState, ReasonCode, Status
from flycore.model.json import Json, JsonObject, StrictJsonError, read_strict
from flycore.runners.one_shot import RunOutcome
from flycore.runners.output import LEVELS, LONGEST_EVENT

STATES = (ProbeState.HEALTHY.value, ProbeState.DEGRADED.value, ProbeState.UNAVAILABLE.value)
_ANSWERS = (Code.FAILED, ReasonCode.TOOL_UNAVAILABLE)


def has_answer(outcome: RunOutcome) -> bool:
    """Whether the program gave an answer of the protocol, a success or not."""
    return outcome.status is Status.SUCCESS or outcome.code in _ANSWERS


def reported_code(outcome: RunOutcome) -> str:
    """Return `success`, the code that the program gave, or else the runner's own code."""
    if outcome.status is Status.SUCCESS:
        return "success"
    code = outcome.details.get("code")
    return code if has_answer(outcome) and isinstance(code, str) else outcome.code


def event_faults(stdout: bytes, *, persistent: bool) -> tuple[str, ...]:
    """List the faults of the leading lines that claim to be events."""
    faults: list[str] = []
    for line in stdout.splitlines():
        if line.strip() and not (line.startswith(b"{") and b'"event"' in line):
            break
        try:
            value = read_strict(line) if line.strip() else {}
        except StrictJsonError as reason:
            faults.append(f"an event line {reason}")
            break
        if isinstance(value, dict) and "event" in value and "ok" not in value:
            faults += _faults_of(value, len(line), persistent=persistent)
    return tuple(dict.fromkeys(faults))


def _faults_of(event: JsonObject, size: int, *, persistent: bool) -> list[str]:
    kind = event["event"]
    faults = [f"an event is longer than {LONGEST_EVENT} bytes"] if size > LONGEST_EVENT else []
    if not isinstance(event.get("message", ""), str):
        faults.append("message of an event is not a string")
    match kind:
        case "progress":
            return faults + _progress_faults(event)
        case "log":
            known = event.get("level", "info") in LEVELS
            return faults if known else [*faults, f"level of a log event is none of {', '.join(LEVELS)}"]
        case "busy" if persistent:
            valid = isinstance(event.get("busy"), bool)
            return faults if valid else [*faults, "busy of a busy event is not true or false"]
        case _:
            return [*faults, "an event is neither progress nor log"]


def _progress_faults(event: JsonObject) -> list[str]:
    done, total = event.get("progress"), event.get("total")
    if not _is_number(done):
        return ["progress of a progress event is not a number"]
    if total is not None and not _is_number(total):
        return ["total of a progress event is not a number"]
    if isinstance(done, int | float) and isinstance(total, int | float) and not 0 <= done <= total:
        return ["progress of an event is not between 0 and its total"]
    return []


def probe_faults(fields: JsonObject) -> tuple[str, ...]:
    """List the faults of a probe's answer that the catalog could not read."""
    faults: list[str] = []
    if "status" in fields and fields["status"] not in STATES:
        faults.append(f"status is none of {', '.join(STATES)}")
    tools = fields.get("tools", {})
    if not isinstance(tools, dict):
        return (*faults, "tools is not an object")
    for name, answer in tools.items():
        faults += _tool_faults(name, answer)
    return tuple(faults)


def _tool_faults(name: str, answer: Json) -> list[str]:
    if not isinstance(answer, dict):
        return [f"tools.{name} is not an object"]
    if answer.get("status") not in STATES:
        return [f"status of {name} is none of {', '.join(STATES)}"]
    if answer["status"] == ProbeState.HEALTHY.value:
        return []
    return [
        f"{name} is {answer['status']} without a {key}"
        for key in ("reason", "remedy")
        if not isinstance(answer.get(key), str) or not answer[key]
    ]


def read_schema(stdout: bytes) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the tools that a `--schema` document names, and its faults; None if it is not one."""
    try:
        document = read_strict(stdout)
    except StrictJsonError:
        return None
    if isinstance(document, list) and document and all(isinstance(tool, dict) for tool in document):
        several = [tool for tool in document if isinstance(tool, dict)]
        return (
            tuple(str(tool.get("name")) for tool in several),
            tuple(fault for tool in several for fault in _one_tool_faults(tool)),
        )
    if not isinstance(document, dict) or "ok" in document or "name" not in document:
        return None
    if "tools" not in document:
        return (str(document["name"]),), _one_tool_faults(document)
    tools = document["tools"]
    if not isinstance(tools, list):
        return (), ("tools is not a list",)
    described = [tool for tool in tools if isinstance(tool, dict)]
    faults = [fault for tool in described for fault in _described_faults(tool)]
    if len(described) < len(tools):
        faults.append("a tool is not an object")
    return tuple(str(tool.get("name")) for tool in described), tuple(faults)


def _described_faults(tool: JsonObject) -> list[str]:
    name, schema = tool.get("name"), tool.get("inputSchema")
    faults = [] if isinstance(name, str) and name else ["a tool has no name"]
    if not isinstance(tool.get("description"), str):
        faults.append(f"{name} has no description")
    if not isinstance(schema, dict):
        return [*faults, f"{name} has no inputSchema"]
    return faults + [f"inputSchema of {name}: {fault}" for fault in check_schema(schema)]


def _one_tool_faults(tool: JsonObject) -> tuple[str, ...]:
    """List the faults of a document about one tool, in one of the two forms that executables print."""
    if isinstance(tool.get("parameters"), dict):
        return ()
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        return ("it has neither tools, nor parameters, nor input_schema",)
    return tuple(f"input_schema: {fault}" for fault in check_schema(schema))


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
