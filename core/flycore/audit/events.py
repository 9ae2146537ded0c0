"""What is recorded of each event: names, and the fields built from the kernel's own values.

Every event of one call carries its `callId`; from the moment it is known also `subject`, the digest of what
is approved, and `inputDigest`, that of the validated input: equal in asked, decided, started and executed.
Inputs are handed in already masked, and kept without what else looks secret (`redact`); outputs are kept as
digest and size, and redacted like inputs where a person has asked for them. Callers are text for people
(`caller`) and an identity (`callerKey`).
"""

from __future__ import annotations

import json

import msgspec

from flycore.audit.redact import names_secret, redact, redact_text
from flycore.catalog.diff import DIAGNOSTICS, SIDECAR_PREFIX, SOURCE_PREFIXES
from flycore.model.approval import Answer, ApprovalRequest, Lease, LeaseTerms
from flycore.model.call import Caller, CallError, CallRequest, ToolResult
from flycore.model.catalog import Catalog
from flycore.model.enums import Code, Level, RequestState, Status
from flycore.model.json import Json, JsonObject, canonical_json, digest, text_digest
from flycore.model.question import Question

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
TRUST_DECIDED = "TRUST_DECIDED"
LEASE_CHANGED = "LEASE_CHANGED"
RULE_CHANGED = "RULE_CHANGED"
BLOCK_CHANGED = "BLOCK_CHANGED"
REGISTRY_EDITED = "REGISTRY_EDITED"
TOKEN_CHANGED = "TOKEN_CHANGED"  # noqa: S105 - the name of an event
TAIL_TORN = "TAIL_TORN"
PANIC = "PANIC"
PANIC_RELEASED = "PANIC_RELEASED"
QUESTION_ASKED = "QUESTION_ASKED"
QUESTION_ANSWERED = "QUESTION_ANSWERED"
CONSOLE_OPENED = "CONSOLE_OPENED"
CONSOLE_ATTACHED = "CONSOLE_ATTACHED"
CONSOLE_LEFT = "CONSOLE_LEFT"
CONSOLE_REFUSED = "CONSOLE_REFUSED"

MOST_INPUT_BYTES = 65_536
"""A larger input is kept as digest and size alone."""
MOST_OUTPUT_BYTES = 65_536
"""Outputs are kept where a person wants them; a larger one stays digest and size."""
MOST_NAMES = 256
MOST_TEXT = 4_096
"""Characters kept of a text from outside, such as an error message."""

_compact = json.JSONEncoder(separators=(",", ":")).encode


def tool_called(request: CallRequest, masked_input: Json, *, input_digest: str = "") -> JsonObject:
    """A call has arrived. `input_digest` is known once the input was validated and its defaults filled in."""
    fields: JsonObject = {
        "callId": request.call_id,
        "tool": _bounded(request.tool),
        **_caller(request.caller),
        **_kept_input(masked_input),
    }
    return fields | _known(
        inputDigest=input_digest,
        said=redact_text(_bounded(request.said)),
        claims=_bounded(request.caller.claims),
        **_parent(request),
    )


def approval_asked(request: ApprovalRequest) -> JsonObject:
    """A card was put before a person."""
    fields: JsonObject = {
        **_asked(request),
        "risk": request.risk.value,
        "level": request.level.value,
        "seal": request.seal.digest,
        "rules": [rule.where for rule in request.why[:MOST_NAMES]],
    }
    return fields


def approval_decided(
    request: ApprovalRequest, state: RequestState, answer: Answer | None, *, by: str, took_ms: int
) -> JsonObject:
    """What became of the request. `by` names the console that answered; empty where nobody did."""
    fields: JsonObject = {**_asked(request), "decision": state.value, "tookMs": took_ms}
    fields |= _known(decidedBy=by)
    if request.edited:
        fields["editedInput"] = request.subject.input
    if answer is not None:
        fields |= {"choice": answer.choice.value, **_known(reason=_bounded(answer.reason))}
        if answer.lease is not None:
            fields |= _lease(answer.lease)
    return fields


def kernel_looked(request: CallRequest, *, look: str, sidecar: str, seal: str) -> JsonObject:
    """The kernel itself reads, by the tool `look`, what the call would act on, for its card."""
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
) -> JsonObject:
    """The last line before the effect. `authority` says what let it: a request's id, a lease's, a rule."""
    return {
        "callId": request.call_id,
        "tool": _bounded(request.tool),
        **_caller(request.caller),
        "sidecar": sidecar,
        "subject": subject,
        "inputDigest": input_digest,
        "level": level.value,
        "seal": seal,
        "authority": authority,
        **_known(**_parent(request)),
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
    """How the call ended, also where nothing ran. The error's message must hold no secret. With `outputs`
    the output is kept as well, already masked, redacted like an input. `request` tells of which plan it is
    a step."""
    fields: JsonObject = {
        "callId": result.call_id,
        "tool": _bounded(result.tool),
        **_caller(caller),
        **(_known(**_parent(request)) if request is not None else {}),
        "status": result.status.value,
        "durationMs": result.duration_ms,
        "waitedMs": result.waited_ms,
        **_known(sidecar=result.sidecar or "", subject=subject, inputDigest=input_digest),
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
    """A call that an earlier kernel had started and did not end: written by the next one, from the log."""
    fields: JsonObject = {
        "callId": call_id,
        "tool": _bounded(tool),
        "caller": _bounded(caller),
        "callerKey": _bounded(caller_key),
        "status": Status.UNKNOWN.value,
        "code": Code.OUTCOME_UNKNOWN.value,
        "message": message,
    }
    return fields | _known(sidecar=sidecar, parentCallId=parent)


def strays_ended(processes: int, left: int) -> JsonObject:
    """Processes that a killed kernel had left were ended; `left` of them could not be."""
    return {"processes": processes, "left": left}


def snapshot_changed(catalog: Catalog, names: tuple[str, ...]) -> JsonObject:
    """Of `names` (see `difference`), tools and sidecars are another way than before; `states` says how
    they are now."""
    states: JsonObject = {}
    for name in names[:MOST_NAMES]:
        if name == DIAGNOSTICS:
            continue
        if name.startswith(SOURCE_PREFIXES):
            states[_bounded(name)] = _described(catalog, name)
            continue
        sidecar = name.startswith(SIDECAR_PREFIX)
        view = catalog.sidecar(name.removeprefix(SIDECAR_PREFIX)) if sidecar else catalog.capability(name)
        states[_bounded(name)] = "gone" if view is None else view.stability.effective.value
    return {"version": catalog.version, "changed": len(names), "states": states}


def _described(catalog: Catalog, key: str) -> str:
    """How what is described is listed now, the winner first."""
    states = [item.state.value for item in catalog.described if item.key == key]
    return states[0] if states else "gone"


def policy_changed(policy: str, files: tuple[str, ...], *, problems: int) -> JsonObject:
    """Another policy holds. `policy` is its digest; `problems` counts the findings in its files."""
    return {"policy": policy, "files": [_bounded(file) for file in files[:MOST_NAMES]], "problems": problems}


def trust_decided(accepted: tuple[tuple[str, str], ...], *, by: str, revoked: bool = False) -> JsonObject:
    """Entries were trusted, or no longer are: sidecar ids with the digests that were shown."""
    entries: JsonObject = {_bounded(sidecar): shown for sidecar, shown in accepted[:MOST_NAMES]}
    return {
        "decision": "revoked" if revoked else "trusted",
        "decidedBy": by,
        "count": len(accepted),
        "entries": entries,
    }


def token_changed(name: str, decision: str, *, by: str) -> JsonObject:
    """A client may come in over TCP and HTTP (`made`), or no longer (`revoked`). The token is not in it."""
    return {"token": _bounded(name), "decision": decision, "decidedBy": _bounded(by)}


def lease_changed(lease: Lease, decision: str, *, by: str = "") -> JsonObject:
    """A lease was made, revoked, restored, or has ended by itself. `authority` is what the start lines of
    its calls say, `by` names the console that took it away or back."""
    fields: JsonObject = {
        "authority": f"lease {lease.id}",
        "decision": decision,
        "requestId": lease.from_request,
        "tool": _bounded(lease.tool),
        **_caller(lease.caller),
        "scope": lease.scope.value,
        "used": lease.used,
        "callsLeft": lease.calls_left,
    }
    return fields | _known(group=_bounded(lease.group), host=_bounded(lease.host), decidedBy=by)


def rule_changed(where: str, rule: JsonObject, decision: str, *, by: str, request: str = "") -> JsonObject:
    """A rule of the person's own policy was written, removed, or put back. Its examples quote inputs, and
    are left out."""
    kept = {key: value for key, value in rule.items() if key not in ("match", "not_match")}
    fields: JsonObject = {"decision": decision, "decidedBy": by, "where": _bounded(where)}
    return fields | {"rule": redact(kept), **_known(requestId=request)}


def block_changed(tool: str, decision: str, *, by: str, request: str = "") -> JsonObject:
    """A tool was blocked for every caller, unblocked, or blocked again."""
    return {"tool": _bounded(tool), "decision": decision, "decidedBy": by, **_known(requestId=request)}


def entry_switched(sidecar: str, file: str, *, enabled: bool, reason: str, by: str) -> JsonObject:
    """A person switched an entry of a registry on or off, and why."""
    decision = "enabled" if enabled else "disabled"
    fields: JsonObject = {"sidecar": _bounded(sidecar), "file": _bounded(file), "decision": decision}
    return fields | {"decidedBy": by} | _known(reason=_bounded(reason))


def starter_written(file: str, *, by: str) -> JsonObject:
    """A person had the starter registry written."""
    return {"file": _bounded(file), "decision": "created", "decidedBy": by}


def server_imported(sidecar: str, shown: str, *, by: str) -> JsonObject:
    """A person took a server of another client's file over into the registry; `shown` is the digest of what
    was shown."""
    return {"sidecar": _bounded(sidecar), "decision": "imported", "shown": shown, "decidedBy": by}


def panic(by: str, *, calls: int, requests: int, leases: int) -> JsonObject:
    """Everything was stopped: so many calls were under way, so many requests waited, so many leases held."""
    return {"by": _bounded(by), "calls": calls, "requests": requests, "leases": leases}


def panic_released(by: str) -> JsonObject:
    """A person lets calls run again."""
    return {"decidedBy": by}


def question_asked(question: Question) -> JsonObject:
    """A decision that is not about one call waits for a person. Its lines are for them alone."""
    return {
        "questionId": question.id,
        "kind": question.kind.value,
        "about": _bounded(question.about),
        "title": redact_text(_bounded(question.title)),
    }


def question_answered(question: Question, option: str, text: str, *, by: str) -> JsonObject:
    """What the person chose, and the words that go with it."""
    fields: JsonObject = {**question_asked(question), "choice": option, "decidedBy": by}
    return fields | _known(reason=_bounded(text))


def console(
    caller: Caller, pid: int, *, terminal: str = "", kin: tuple[str, ...] = (), reason: str = ""
) -> JsonObject:
    """A console was opened, came in from another process, left, or had no right code. Who it is said to be,
    on which terminal and beneath which processes (nearest first) are hints."""
    fields: JsonObject = {**_caller(caller), "pid": pid, "beneath": [_bounded(name) for name in kin]}
    return fields | _known(terminal=terminal, reason=reason)


def _asked(request: ApprovalRequest) -> JsonObject:
    return {
        "requestId": request.id,
        "callId": request.call_id,
        "tool": _bounded(request.tool),
        **_caller(request.caller),
        "sidecar": request.sidecar,
        "subject": request.subject_digest,
        "inputDigest": digest(request.subject.input),
    }


def _parent(request: CallRequest) -> dict[str, str]:
    """Of a step: the plan's call, and where in the plan it stands."""
    return {"parentCallId": request.parent_call_id or "", "step": str(request.step or "")}


def _caller(caller: Caller) -> dict[str, Json]:
    return {"caller": _bounded(str(caller)), "callerKey": _bounded(caller.key)}


def _kept_input(masked: Json) -> dict[str, Json]:
    size = len(_compact(masked))
    if size > MOST_INPUT_BYTES:
        return {"inputBytes": size}
    kept = redact(masked)
    fields: dict[str, Json] = {"input": kept, "inputBytes": size}
    return fields if kept == masked else {**fields, "redacted": True}


def _message(error: CallError) -> str:
    """The error's words; those about a field that is named as a secret would quote it, and are left out."""
    violations = error.details.get("violations")
    if error.code == Code.INVALID_INPUT and isinstance(violations, list):
        pointers = [str(item.get("pointer", "")) for item in violations if isinstance(item, dict)]
        if secret := [pointer for pointer in pointers if any(map(names_secret, pointer.split("/")))]:
            return _bounded(f"the input does not fit, also in {', '.join(secret)}")
    return redact_text(_bounded(error.message))


def _lease(terms: LeaseTerms) -> dict[str, Json]:
    kept: dict[str, Json] = {"lease": msgspec.to_builtins(terms)}
    return kept


def _known(**fields: str) -> JsonObject:
    """Those that say something."""
    return {name: value for name, value in fields.items() if value}


def _bounded(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}… ({len(text)} characters)"
