"""The events of the audit log: their names, and a function for each that builds its fields.

Every event of a call has its `callId`. Events after the validation also have `subject`, the digest of what is
approved, and `inputDigest`, that of the validated input; both are equal in all events of the call. Inputs
arrive with the injected secrets masked and are redacted further (`redact`). Outputs are logged as digest and
size, and redacted like inputs if the person's settings ask for outputs. A caller is logged as text
(`caller`) and as an identity (`callerKey`).
"""

from __future__ import annotations

import json

import msgspec

from flycore.audit.redact import names_secret, redact, redact_text
from flycore.catalog.diff import DIAGNOSTICS, SIDECAR_PREFIX, SOURCE_PREFIXES
from flycore.model.approval import Answer, ApprovalRequest, Lease, LeaseTerms, NamedPlaces
from flycore.model.call import Caller, CallError, CallRequest, ToolResult
from flycore.model.catalog import Catalog
from flycore.model.enums import Code, Level, RequestState, Status
from flycore.model.json import Json, JsonObject, canonical_json, digest, text_digest
from flycore.model.json_pieces import encode
from flycore.model.package import PackageOutcome
from flycore.model.question import Question
from flycore.model.sidecar import AppliedBundle, SidecarEntry

TOOL_CALLED = "TOOL_CALLED"
APPROVAL_ASKED = "APPROVAL_ASKED"
APPROVAL_DECIDED = "APPROVAL_DECIDED"
KERNEL_LOOKED = "KERNEL_LOOKED"
TOOL_STARTED = "TOOL_STARTED"
TOOL_EXECUTED = "TOOL_EXECUTED"
TOOL_OUTCOME_UNKNOWN = "TOOL_OUTCOME_UNKNOWN"
STRAYS_ENDED = "STRAYS_ENDED"
SNAPSHOT_CHANGED = "SNAPSHOT_CHANGED"
POLICY_CHANGED = "POLICY_CHANGED"
BUNDLES_CHANGED = "BUNDLES_CHANGED"
TRUST_DECIDED = "TRUST_DECIDED"
LEASE_CHANGED = "LEASE_CHANGED"
RULE_CHANGED = "RULE_CHANGED"
BLOCK_CHANGED = "BLOCK_CHANGED"
REGISTRY_EDITED = "REGISTRY_EDITED"
TOOL_CREATED = "TOOL_CREATED"
TOOL_REVIEWED = "TOOL_REVIEWED"
TOKEN_CHANGED = "TOKEN_CHANGED"  # noqa: S105 - the name of an event
LOGIN_CHANGED = "LOGIN_CHANGED"
TAIL_TORN = "TAIL_TORN"
PANIC = "PANIC"
PANIC_RELEASED = "PANIC_RELEASED"
QUESTION_ASKED = "QUESTION_ASKED"
QUESTION_ANSWERED = "QUESTION_ANSWERED"
QUESTION_WITHDRAWN = "QUESTION_WITHDRAWN"
SAMPLING_ENDED = "SAMPLING_ENDED"
CHANGE_UNDONE = "CHANGE_UNDONE"
PACKAGE_STAGED = "PACKAGE_STAGED"
PACKAGE_CHANGED = "PACKAGE_CHANGED"
PACKAGE_RECOVERED = "PACKAGE_RECOVERED"
PACKAGE_PROBED = "PACKAGE_PROBED"
CONSOLE_OPENED = "CONSOLE_OPENED"
CONSOLE_ATTACHED = "CONSOLE_ATTACHED"
CONSOLE_LEFT = "CONSOLE_LEFT"
CONSOLE_REFUSED = "CONSOLE_REFUSED"

MOST_INPUT_BYTES = 65_536
"""The largest input that is logged in full; of a larger one only digest and size are."""
MOST_OUTPUT_BYTES = 65_536
"""The largest output that is logged in full, if outputs are logged at all."""
MOST_NAMES = 256
"""Names in one event, such as changed tools or trusted entries."""
MOST_TEXT = 4_096
"""Characters that are logged of a text from outside, such as an error message."""

NO_PLACES = NamedPlaces()
_compact = json.JSONEncoder(separators=(",", ":"))


def tool_called(request: CallRequest, masked_input: Json, *, input_digest: str = "") -> JsonObject:
    """Fields for a call that arrived. `input_digest` is empty if the input was not valid."""
    fields: JsonObject = {
        "callId": request.call_id,
        "tool": _bounded(request.tool),
        **_caller_fields(request.caller),
        **_input_fields(masked_input),
    }
    return fields | _non_empty(
        inputDigest=input_digest,
        said=redact_text(_bounded(request.said)),
        claims=_bounded(request.caller.claims),
        **_parent_fields(request),
    )


def approval_asked(request: ApprovalRequest) -> JsonObject:
    """Fields for a request that was shown to a person."""
    fields: JsonObject = {
        **_request_fields(request),
        "risk": request.risk.value,
        "level": request.level.value,
        "seal": request.seal.digest,
        "rules": [rule.where for rule in request.why[:MOST_NAMES]],
    }
    return fields


def approval_decided(
    request: ApprovalRequest,
    state: RequestState,
    answer: Answer | None,
    *,
    by: str,
    took_ms: int,
    masked_input: Json = None,
) -> JsonObject:
    """Fields for the end of a request. `by` names the console that answered; empty if nobody did.
    `masked_input` is logged where the person has edited the input."""
    fields: JsonObject = {**_request_fields(request), "decision": state.value, "tookMs": took_ms}
    fields |= _non_empty(decidedBy=by)
    if request.edited:
        fields |= {
            f"edited{name[0].upper()}{name[1:]}": value for name, value in _input_fields(masked_input).items()
        }
    if answer is not None:
        fields |= {"choice": answer.choice.value, **_non_empty(reason=_bounded(answer.reason))}
        if answer.not_shown:
            missing: JsonObject = {
                _bounded(field): count for field, count in [*answer.not_shown.items()][:MOST_NAMES]
            }
            fields["notShown"] = missing
        if answer.lease is not None:
            fields |= _lease_fields(answer.lease)
    return fields


def preview_read(request: CallRequest, *, look: str, sidecar: str, seal: str) -> JsonObject:
    """Fields for a read by the kernel itself, with the tool `look`, to show on a card what a call acts on."""
    return {
        "callId": request.call_id,
        "tool": _bounded(request.tool),
        "look": look,
        "sidecar": sidecar,
        "seal": seal,
    }


def tool_started(
    request: CallRequest,
    *,
    sidecar: str,
    subject: str,
    input_digest: str,
    level: Level,
    seal: str,
    authority: str,
    named: NamedPlaces = NO_PLACES,
    input_bytes: int = 0,
) -> JsonObject:
    """Fields for the start of a call, the last line before its effect.

    `authority` is what permitted the call: the id of a request or a lease, or a rule. `named` and
    `input_bytes` are what later cards compare their calls with.
    """
    places: dict[str, list[Json]] = {
        "hosts": [redact_text(_bounded(name)) for name in named.hosts],
        "folders": [redact_text(_bounded(name)) for name in named.folders],
    }
    return {
        "callId": request.call_id,
        "tool": _bounded(request.tool),
        **_caller_fields(request.caller),
        "sidecar": sidecar,
        "subject": subject,
        "inputDigest": input_digest,
        "level": level.value,
        "seal": seal,
        "authority": authority,
        **_non_empty(**_parent_fields(request)),
        **{name: value for name, value in places.items() if value},
        **({"inputBytes": input_bytes} if input_bytes else {}),
    }


def tool_executed(
    result: ToolResult,
    caller: Caller,
    *,
    subject: str = "",
    input_digest: str = "",
    outputs: bool = False,
    request: CallRequest | None = None,
) -> JsonObject:
    """Fields for the end of a call, also of one that never ran. The error's message must not have a secret.

    With `outputs` the output, in which secrets are masked already, is redacted and logged as well.
    `request` gives the plan that the call is a step of.
    """
    fields: JsonObject = {
        "callId": result.call_id,
        "tool": _bounded(result.tool),
        **_caller_fields(caller),
        **(_non_empty(**_parent_fields(request)) if request is not None else {}),
        "status": result.status.value,
        "durationMs": result.duration_ms,
        "waitedMs": result.waited_ms,
        **_non_empty(sidecar=result.sidecar or "", subject=subject, inputDigest=input_digest),
    }
    if result.sandbox is not None:
        fields["level"] = result.sandbox.value
    if result.exit_code is not None:
        fields["exitCode"] = result.exit_code
    if result.error is not None:
        fields |= {"code": _bounded(result.error.code), "message": _message(result.error)}
    if result.output is not None:
        text = canonical_json(result.output)
        fields |= {"outputDigest": text_digest(text), "outputBytes": len(text)}
        if outputs and len(text) <= MOST_OUTPUT_BYTES:
            fields["output"] = redact(result.output)
    if result.artifacts:
        fields["artifacts"] = len(result.artifacts)
    return fields


def outcome_unknown(
    call_id: str, *, tool: str, caller: str, caller_key: str, sidecar: str, parent: str, message: str
) -> JsonObject:
    """Fields for a call that a killed kernel had started; the next kernel writes them, from the log."""
    fields: JsonObject = {
        "callId": call_id,
        "tool": _bounded(tool),
        "caller": _bounded(caller),
        "callerKey": _bounded(caller_key),
        "status": Status.UNKNOWN.value,
        "code": Code.OUTCOME_UNKNOWN.value,
        "message": message,
    }
    return fields | _non_empty(sidecar=sidecar, parentCallId=parent)


def strays_ended(processes: int, left: int) -> JsonObject:
    """Fields for ended processes of a killed kernel; `left` of them could not be ended."""
    return {"processes": processes, "left": left}


def snapshot_changed(catalog: Catalog, names: tuple[str, ...]) -> JsonObject:
    """Fields for a changed catalog: the changed `names` of `catalog.diff.difference` and their new states."""
    states: JsonObject = {}
    for name in names[:MOST_NAMES]:
        if name == DIAGNOSTICS:
            continue
        if name.startswith(SOURCE_PREFIXES):
            states[_bounded(name)] = _source_state(catalog, name)
            continue
        sidecar = name.startswith(SIDECAR_PREFIX)
        view = catalog.sidecar(name.removeprefix(SIDECAR_PREFIX)) if sidecar else catalog.capability(name)
        states[_bounded(name)] = "gone" if view is None else view.stability.effective.value
    return {"version": catalog.version, "changed": len(names), "states": states}


def _source_state(catalog: Catalog, key: str) -> str:
    """Return the state of a described source now, that of the one in force if there are several."""
    states = [item.state.value for item in catalog.described if item.key == key]
    return states[0] if states else "gone"


def policy_changed(policy: str, files: tuple[str, ...], *, problems: int) -> JsonObject:
    """Fields for a new policy. `policy` is its digest; `problems` counts the findings in its files."""
    return {"policy": policy, "files": [_bounded(file) for file in files[:MOST_NAMES]], "problems": problems}


def bundles_changed(bundles: tuple[AppliedBundle, ...]) -> JsonObject:
    """Fields for other bundles that apply: all that apply now, each with the key that signed it."""
    applied: list[Json] = [
        {"name": one.name, "number": one.number, "digest": one.digest, "key": one.key} for one in bundles
    ]
    return {"bundles": applied}


def trust_decided(accepted: tuple[tuple[str, str], ...], *, by: str, revoked: bool = False) -> JsonObject:
    """Fields for trust given or revoked: the entries' sidecar ids with the digests that were shown."""
    entries: JsonObject = {_bounded(sidecar): shown for sidecar, shown in accepted[:MOST_NAMES]}
    return {
        "decision": "revoked" if revoked else "trusted",
        "decidedBy": by,
        "count": len(accepted),
        "entries": entries,
    }


def tool_created(entry: SidecarEntry, *, changed: bool) -> JsonObject:
    """Fields for a tool that an agent made, or made anew. `content` is the digest that an approval is of."""
    return {"changed": changed, **_created_tool(entry)}


def tool_reviewed(entry: SidecarEntry, *, by: str) -> JsonObject:
    """Fields for a tool of an agent that a person has reviewed and approved."""
    return {"decision": "approved", "decidedBy": by, **_created_tool(entry)}


def _created_tool(entry: SidecarEntry) -> JsonObject:
    permissions: JsonObject = msgspec.to_builtins(entry.permissions)
    return {
        "tool": _bounded(entry.id),
        "creator": _bounded(entry.creator),
        "permissions": permissions,
        "content": entry.digest,
    }


def executed_creation(entry: SidecarEntry | None) -> JsonObject:
    """Further fields of `TOOL_EXECUTED` for a tool that an agent made; none for any other."""
    if entry is None or not entry.creator:
        return {}
    return {"created": _created_tool(entry)}


def token_changed(name: str, decision: str, *, by: str) -> JsonObject:
    """Fields for a client token that was `made` or `revoked`. The token itself is not logged."""
    return {"token": _bounded(name), "decision": decision, "decidedBy": _bounded(by)}


def login_changed(sidecar: str, decision: str, *, by: str) -> JsonObject:
    """Fields for a person who `logged-in` or `logged-out` at the server of an entry. No token is logged."""
    return {"sidecar": _bounded(sidecar), "decision": decision, "decidedBy": _bounded(by)}


def lease_changed(lease: Lease, decision: str, *, by: str = "") -> JsonObject:
    """Fields for a lease that was made, revoked, restored, or that ended by itself.

    `authority` is the same as in the start lines of its calls; `by` names the console of a person's act.
    """
    fields: JsonObject = {
        "authority": f"lease {lease.id}",
        "decision": decision,
        "requestId": lease.from_request,
        "tool": _bounded(lease.tool),
        **_caller_fields(lease.caller),
        "scope": lease.scope.value,
        "used": lease.used,
        "callsLeft": lease.calls_left,
    }
    return fields | _non_empty(
        group=_bounded(lease.group), host=_bounded(lease.host), folder=_bounded(lease.folder), decidedBy=by
    )


def rule_changed(where: str, rule: JsonObject, decision: str, *, by: str, request: str = "") -> JsonObject:
    """Fields for a rule of the person's policy that was written, removed or restored.

    Its examples quote inputs of calls, so they are left out.
    """
    without_examples = {key: value for key, value in rule.items() if key not in ("match", "not_match")}
    fields: JsonObject = {"decision": decision, "decidedBy": by, "where": _bounded(where)}
    return fields | {"rule": redact(without_examples), **_non_empty(requestId=request)}


def block_changed(tool: str, decision: str, *, by: str, request: str = "") -> JsonObject:
    """Fields for a tool that was blocked for every caller, unblocked, or blocked again."""
    return {"tool": _bounded(tool), "decision": decision, "decidedBy": by, **_non_empty(requestId=request)}


def entry_switched(sidecar: str, file: str, *, enabled: bool, reason: str, by: str) -> JsonObject:
    """Fields for a registry entry that a person switched on or off, with the reason."""
    decision = "enabled" if enabled else "disabled"
    fields: JsonObject = {"sidecar": _bounded(sidecar), "file": _bounded(file), "decision": decision}
    return fields | {"decidedBy": by} | _non_empty(reason=_bounded(reason))


def permissions_added(sidecar: str, file: str, shown: str, *, by: str) -> JsonObject:
    """Fields for permissions that a person added to a registry entry. `shown` is the digest of the change."""
    fields: JsonObject = {"sidecar": _bounded(sidecar), "file": _bounded(file)}
    return fields | {"decision": "permitted", "shown": shown, "decidedBy": by}


def starter_written(file: str, sidecars: tuple[str, ...], *, by: str) -> JsonObject:
    """Fields for entries of the starter registry, written for a person."""
    return {
        "file": _bounded(file),
        "sidecars": [_bounded(sidecar) for sidecar in sidecars],
        "decision": "created",
        "decidedBy": by,
    }


def server_imported(sidecar: str, shown: str, *, by: str) -> JsonObject:
    """Fields for a server of another client's file that a person imported into the registry.

    `shown` is the digest of what the person saw.
    """
    return {"sidecar": _bounded(sidecar), "decision": "imported", "shown": shown, "decidedBy": by}


def panic(by: str, *, calls: int, requests: int, leases: int) -> JsonObject:
    """Fields for the emergency stop, with the number of running calls, waiting requests and leases."""
    return {"by": _bounded(by), "calls": calls, "requests": requests, "leases": leases}


def panic_released(by: str) -> JsonObject:
    """Fields for the end of the emergency stop by a person."""
    return {"decidedBy": by}


def question_asked(question: Question) -> JsonObject:
    """Fields for a question that waits for a person, without its lines, which only that person may see."""
    return {
        "questionId": question.id,
        "kind": question.kind.value,
        "about": _bounded(question.about),
        "title": redact_text(_bounded(question.title)),
    }


def question_withdrawn(question: Question, why: str) -> JsonObject:
    """Fields for a question that nobody can answer any more, and that nobody has answered."""
    return {**question_asked(question), "reason": why}


def question_answered(question: Question, option: str, text: str, *, by: str) -> JsonObject:
    """Fields for a person's answer to a question. Of values for a form, the log has only the digest."""
    fields: JsonObject = {**question_asked(question), "choice": option, "decidedBy": by}
    if any(item.fills and item.id == option for item in question.options):
        return {**fields, "content": text_digest(text), "bytes": len(text)}
    return fields | _non_empty(reason=_bounded(text))


def sampling_ended(sidecar: str, call_id: str, request: str, answer: str, problem: str) -> JsonObject:
    """Fields for a request of an MCP server that was handed on to a client's model, and its answer, both as
    canonical JSON: the log has only digests and sizes of them. `answer` is empty where there is none, and
    `problem` says why."""
    fields: JsonObject = {
        "sidecar": _bounded(sidecar),
        "callId": call_id,
        "content": text_digest(request),
        "bytes": len(request),
    }
    if answer:
        fields |= {"answer": text_digest(answer), "answerBytes": len(answer)}
    return fields | _non_empty(reason=_bounded(problem))


def package_event(outcome: PackageOutcome, decision: str, *, by: str = "", version: str = "") -> JsonObject:
    """Fields for a package that was staged, changed, recovered or probed, with how that ended."""
    fields: JsonObject = {
        "package": _bounded(outcome.id),
        "sidecar": _bounded(outcome.sidecar),
        "scope": outcome.scope.value,
        "decision": decision,
        "result": outcome.result.value,
        "state": outcome.state.value,
    }
    more = _non_empty(version=_bounded(version), decidedBy=_bounded(by), message=_bounded(outcome.message))
    return fields | more


def change_undone(
    call_id: str, tool: str, files: tuple[str, ...], *, by: str, failure: str = ""
) -> JsonObject:
    """Fields for a change of a call that a person undid; it is written before the files are touched. With
    `failure` a second line says why they were not restored."""
    fields: JsonObject = {
        "callId": call_id,
        "tool": _bounded(tool),
        "decision": "failed" if failure else "undone",
        "files": [_bounded(file) for file in files[:MOST_NAMES]],
        "decidedBy": _bounded(by),
    }
    return fields | _non_empty(message=_bounded(failure))


def console(
    caller: Caller, pid: int, *, terminal: str = "", kin: tuple[str, ...] = (), reason: str = ""
) -> JsonObject:
    """Fields for a console that was opened, attached from another process, left, or was refused.

    Its terminal and its ancestors `kin`, nearest first, come from that process: they are hints, no proof.
    """
    fields: JsonObject = {**_caller_fields(caller), "pid": pid, "beneath": [_bounded(name) for name in kin]}
    return fields | _non_empty(terminal=terminal, reason=reason)


def _request_fields(request: ApprovalRequest) -> JsonObject:
    return {
        "requestId": request.id,
        "callId": request.call_id,
        "tool": _bounded(request.tool),
        **_caller_fields(request.caller),
        "sidecar": request.sidecar,
        "subject": request.subject_digest,
        "inputDigest": digest(request.subject.input),
    }


def _parent_fields(request: CallRequest) -> dict[str, str]:
    """The plan's call id and the number of the step, for a call that is a step; for a call of a sidecar, the
    id of the call that the sidecar runs in."""
    parent = request.parent_call_id or request.caller.parent_call_id
    return {"parentCallId": parent, "step": str(request.step or "")}


def _caller_fields(caller: Caller) -> dict[str, Json]:
    return {
        "caller": _bounded(str(caller)),
        "callerKey": _bounded(caller.key),
        **_non_empty(callerName=_bounded(caller.name)),
    }


def _input_fields(masked: Json) -> dict[str, Json]:
    size = len(encode(_compact, masked))
    if size > MOST_INPUT_BYTES:
        return {"inputBytes": size}
    redacted = redact(masked)
    fields: dict[str, Json] = {"input": redacted, "inputBytes": size}
    return fields if redacted == masked else {**fields, "redacted": True}


def _message(error: CallError) -> str:
    """The error's message, redacted."""
    # A violation quotes the invalid value. For a member that is named like a secret only its name is logged.
    violations = error.details.get("violations")
    if error.code == Code.INVALID_INPUT and isinstance(violations, list):
        pointers = [str(item.get("pointer", "")) for item in violations if isinstance(item, dict)]
        if secret := [pointer for pointer in pointers if any(map(names_secret, pointer.split("/")))]:
            return _bounded(f"the input does not fit, also in {', '.join(secret)}")
    return redact_text(_bounded(error.message))


def _lease_fields(terms: LeaseTerms) -> dict[str, Json]:
    fields: dict[str, Json] = {"lease": msgspec.to_builtins(terms)}
    return fields


def _non_empty(**fields: str) -> JsonObject:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value}


def _bounded(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}… ({len(text)} characters)"
