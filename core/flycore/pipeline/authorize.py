"""Steps 5 and 8: whether calls are admitted at all, and on whose authority this call may run."""

from __future__ import annotations

import math
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from flycore.approval.attention import AttentionFacts, attention, named_places
from flycore.approval.lease_folder import input_folder
from flycore.approval.leases import page_host
from flycore.approval.quota import QuotaRefusal
from flycore.audit import events as audit_events
from flycore.audit.log import AuditLog
from flycore.catalog.risk import effect_sentence, ordered_fields, required_fields
from flycore.model.approval import ApprovalRequest, Ask, Attention, NamedPlaces, QueueFull
from flycore.model.base import Value
from flycore.model.enums import Code, Decision, Phase, RequestState, Status
from flycore.model.json import JsonObject, canonical_json
from flycore.model.large_values import is_large, run_aside
from flycore.model.program import surroundings_of
from flycore.model.upstream import COMPLETE
from flycore.pipeline.call import Call, Rejection, denied, failed
from flycore.pipeline.context import AdmissionContext, AskContext
from flycore.pipeline.prepare import Prepared
from flycore.pipeline.targets.window import with_screenshots
from flycore.sandbox.secret_masks import Masks


def admission_refusal(admission: AdmissionContext, call: Call) -> Rejection | None:
    """The rejection of a call while everything is stopped or its caller is paused; else None."""
    if admission.stopped():
        return panic_rejection(admission.app_root, began=False)
    if paused := admission.loops.refusal(call.request.caller.key):
        return denied(Code.PAUSED, paused, "do not repeat it unchanged: a person decides in the console")
    return None


def panic_rejection(app_root: Path, *, began: bool) -> Rejection:
    """The end of a call by panic: denied, or failed where the tool had begun to run."""
    hint = f"a person has to release it: flytui --root {app_root}, then ctrl+o"
    if began:
        return failed(Code.PANIC, "everything was stopped while this ran; it may have acted in part", hint)
    return denied(Code.PANIC, "everything is stopped", hint)


def quota_rejection(over: QuotaRefusal) -> Rejection:
    """The end of a call whose caller has used up its quota."""
    # Calls that run end after an unknown time; a session's limit ends with the session.
    if over.free_in is None:
        return denied(Code.QUOTA, over.message, freeInSeconds=None)
    retry = math.ceil(over.free_in * 1000)
    return denied(Code.QUOTA, over.message, freeInSeconds=over.free_in, retryAfterMs=retry)


PrepareAgain = Callable[[JsonObject], Awaitable[Prepared | Rejection]]
"""Validates and prepares the same call with another input."""

QUEUE_RETRY_SECONDS = 10.0
"""How long a caller that found the queue full should wait before it makes the call again, unless a request
ends by itself sooner. A person takes a few seconds for one card."""
NO_COMPLETION = "nobody is asked about a completion: it runs only where a rule or a lease allows it"
RETRY_AFTER_MS = 1_000
"""How long a caller with a ticket should wait before it makes the same call again."""


class Authorization(Value, frozen=True, kw_only=True):
    """The permission for a call to run, with its source."""

    authority: str
    """A policy rule's place, `lease ID` or `request ID`."""
    grant_id: str = ""
    """The grant that is redeemed right before the spawn; empty where policy allows the call."""
    edited: JsonObject | None = None
    """The input that was approved, where a person has changed it."""
    by_person: bool = False
    """Whether a person has just seen the card of this very call."""


def needs_person(context: AskContext, prepared: Prepared) -> bool:
    """Return whether a person would be asked about the call: policy does not allow it, and no lease does."""
    if prepared.verdict.decision is Decision.ALLOW:
        return False
    group, seals = prepared.target.capability.exclusive or "", prepared.sealed.seals
    if not all(seal.leasable for seal in seals):
        return True
    surroundings = surroundings_of(seals)
    return context.queue.leases.match(prepared.subject, prepared.risk, group, surroundings) is None


async def authorize(
    context: AskContext, call: Call, prepared: Prepared, again: PrepareAgain, difference: tuple[str, ...] = ()
) -> Authorization | Rejection:
    """Whether the prepared call may run: by policy, by a lease, or because a person approves it. `again`
    prepares the call with another input, for a person who changes it."""
    if prepared.verdict.decision is Decision.ALLOW:
        return Authorization(authority="policy " + ", ".join(rule.where for rule in prepared.verdict.rules))
    group = prepared.target.capability.exclusive or ""
    seals = prepared.sealed.seals
    # A seal that became unfit for leases since one was made is asked about like any other change.
    grant = (
        context.queue.use_lease(
            call.request.call_id, prepared.subject, prepared.risk, group, surroundings_of(seals)
        )
        if all(seal.leasable for seal in seals)
        else None
    )
    if grant is not None:
        return Authorization(authority=f"lease {grant.lease}", grant_id=grant.id)
    if prepared.target.capability.request == COMPLETE:
        # A client asks for one with each letter that is typed: no card is worth that.
        return denied(Code.NO_APPROVER, NO_COMPLETION, "a rule that allows it lets it run")
    # The card shows how a person answered the same call earlier today, which is known once the log has been
    # read.
    await context.past_calls.ready()
    card = await with_screenshots(context.desktop, await make_request(context, call, prepared, difference))
    # A call that comes back with a decided ticket needs no console: the decision is kept in the queue.
    there = await context.wait_for_approver(call.request.wait_approver_ms)
    if not there and not context.queue.has_answer_for(card):
        return no_approver(context.app_root, "this call needs a person's approval and no console is open")
    return await _ask_person(context, call, prepared, card, again)


async def _ask_person(
    context: AskContext, call: Call, prepared: Prepared, card: ApprovalRequest, again: PrepareAgain
) -> Authorization | Rejection:
    fields = audit_events.approval_asked(card)
    context.audit.append(audit_events.APPROVAL_ASKED, prepared.masks.json(fields))
    call.report(Phase.WAITING_APPROVAL, "waiting for approval in the console")

    async def revise(input: JsonObject) -> ApprovalRequest | str:
        fresh = await again(input)
        if isinstance(fresh, Rejection):
            return fresh.message
        return await with_screenshots(context.desktop, await make_request(context, call, fresh, ()))

    began = call.start_wait()
    ask: Ask | None = None
    wait_ms = call.request.inline_wait_ms
    try:
        patience = None if wait_ms is None else wait_ms / 1000
        ask = await context.queue.ask(card, patience=patience, revise=revise)
    finally:
        # A cancelled call leaves `ask` unset: its request is withdrawn, and the log says so.
        call.end_wait(began)
        took_ms = int((context.clock.monotonic() - began) * 1000)
        settled = ask or Ask(request=card, state=RequestState.WITHDRAWN, code=Code.WITHDRAWN)
        if settled.state is not RequestState.WAITING and not settled.ticket:
            record_decision(context.audit, settled, call.request.call_id, took_ms, prepared.masks)
    if ask.state is RequestState.APPROVED:
        edited = ask.request.subject.input if ask.request.edited else None
        return Authorization(
            authority=f"request {ask.request.id}", grant_id=card.id, edited=edited, by_person=True
        )
    if ask.code is Code.NO_APPROVER:
        closed = "the console was closed before a person decided; the call did not run"
        return no_approver(context.app_root, closed)
    return _pending(ask) if ask.state is RequestState.WAITING else _denial(context, ask)


def _pending(ask: Ask) -> Rejection:
    """The end of a call whose caller waits no longer. The request stays in the queue, and the same call, made
    again, takes it up."""
    return Rejection(
        status=Status.PENDING,
        code=Code.APPROVAL_PENDING,
        message="a person has not decided yet; nothing has run",
        hint="make the same call again: it waits in place of this one, or runs once a person has approved it",
        details={
            "ticket": ask.request.id,
            "expiresAt": ask.request.expires_at,
            "retryAfterMs": RETRY_AFTER_MS,
        },
    )


def no_approver(app_root: Path, message: str) -> Rejection:
    """The end of a call that nobody could be asked about. It did not run."""
    hint = f"open a console beside the agent: flytui --root {app_root}"
    return denied(Code.NO_APPROVER, message, hint)


def record_decision(audit: AuditLog, ask: Ask, call_id: str, took_ms: int, masks: Masks) -> None:
    """Write the end of a request to the log, for the call that waited for it, or for none. Raises
    AuditUnwritable."""
    request = msgspec.structs.replace(ask.request, call_id=call_id)
    # The secrets are masked before the rest is redacted: a person may have typed either into the input.
    fields = audit_events.approval_decided(
        request,
        ask.state,
        ask.answer,
        by=ask.decided_by,
        took_ms=took_ms,
        masked_input=masks.json(request.subject.input),
    )
    if ask.code is not None:
        fields["code"] = ask.code.value
    # A person's decision is synced to disk before anything follows from it. Nothing follows from the other
    # ends, and a sync for each of them would let one caller's flood of requests delay all others.
    audit.append(audit_events.APPROVAL_DECIDED, masks.json(fields), sync=ask.decided_by != "")


def _denial(context: AskContext, ask: Ask) -> Rejection:
    reason = ask.answer.reason if ask.answer else ""
    match ask.code:
        case Code.QUEUE_FULL if ask.full is not None:
            return _turned_away(ask.full)
        case Code.PAUSED:
            return denied(Code.PAUSED, "paused after three denials in a row", "try again in a minute")
        case Code.PANIC:
            return panic_rejection(context.app_root, began=False)
        case Code.APPROVAL_TIMEOUT:
            return failed(
                Code.APPROVAL_TIMEOUT,
                "nobody answered in time: this is not a refusal",
                "call again when a person is there",
            )
        case Code.WITHDRAWN:
            return denied(Code.WITHDRAWN, "the request was withdrawn")
        case _:
            minutes = ask.answer.deny_minutes if ask.answer else 0
            lasting = f" for {minutes} minutes, this tool with any input" if minutes else ""
            message = f"denied by a person{lasting}" + (f": {reason}" if reason else "")
            return denied(Code.DENIED, message, reason=reason)


def _turned_away(full: QueueFull) -> Rejection:
    """The end of a call whose request found no place in the queue. It is not a person's refusal."""
    one = full.waiting == 1
    whose = "of yours " if full.of_caller else ""
    verb = "waits" if one else "wait"
    message = (
        f"{full.waiting} {'request' if one else 'requests'} {whose}already {verb} for a person, which is the "
        "limit: nobody has decided about this call, and nothing has run"
    )
    retry = QUEUE_RETRY_SECONDS if full.frees_in is None else min(QUEUE_RETRY_SECONDS, full.frees_in)
    latest = "" if full.frees_in is None else f", or by itself within {_minutes_text(full.frees_in)}"
    details: JsonObject = {"waiting": full.waiting, "retryAfterMs": int(retry * 1000)}
    if full.frees_in is not None:
        details["freeInSeconds"] = math.ceil(full.frees_in)
    return denied(
        Code.QUEUE_FULL,
        message,
        f"a place is free once a person has decided about one of them{latest}: make the call again then, in "
        f"{math.ceil(retry)} seconds at the earliest",
        **details,
    )


def _minutes_text(seconds: float) -> str:
    """The time in whole minutes, rounded up; in seconds where it is less than one minute."""
    if seconds < 60:
        return f"{math.ceil(seconds)} seconds"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} {'minute' if minutes == 1 else 'minutes'}"


async def make_request(
    context: AskContext, call: Call, prepared: Prepared, difference: tuple[str, ...]
) -> ApprovalRequest:
    """The content of the card, with secrets masked. The queue sets its times and its confirmation letters."""
    request, entry = call.request, prepared.target.entry
    effect, text, named = await run_aside(is_large(prepared.input), _shown_input, prepared, context.app_root)
    schema = prepared.target.capability.input_schema
    checks = context.past_calls.checks(prepared.subject, request.caller)
    facts = AttentionFacts(
        tool=request.tool,
        input=prepared.input,
        app_root=str(context.app_root),
        read_only=prepared.target.capability.read_only,
        seal=prepared.seal.digest,
        denied_today=checks.denied,
        past=context.past_calls.past_use(request.tool, named),
    )
    found = await run_aside(is_large(prepared.input), attention, facts)
    return ApprovalRequest(
        id=secrets.token_hex(8),
        call_id=request.call_id,
        caller=request.caller,
        tool=request.tool,
        sidecar=entry.id,
        app_root=str(context.app_root),
        origin=entry.origin,
        risk=prepared.risk,
        effect=effect,
        input_json=text,
        fields=ordered_fields(schema, prepared.input),
        required=required_fields(schema),
        attention=tuple(Attention(code=one.code, text=prepared.masks.text(one.text)) for one in found),
        subject=prepared.subject,
        subject_digest=prepared.subject_digest,
        reach=prepared.sandbox.permissions,
        limits=prepared.sandbox.limits,
        level=prepared.sandbox.level,
        mechanism=prepared.sandbox.mechanism,
        seal=prepared.seal,
        delegates=prepared.delegates,
        why=prepared.verdict.rules,
        checks=checks,
        said=prepared.masks.text(request.said),
        asked_at=0.0,
        expires_at=0.0,
        difference=difference,
        notices=prepared.target.notices,
        group=prepared.target.capability.exclusive or "",
        host=page_host(request.tool, prepared.input),
        folder="" if is_large(prepared.input) else input_folder(prepared.input, str(context.app_root)),
        edited=call.edited,
        step=request.step,
        page_title=prepared.page_title,
        diff=prepared.diff,
    )


def _shown_input(prepared: Prepared, app_root: Path) -> tuple[str, str, NamedPlaces]:
    """The sentence about the call's effect and the input's canonical JSON, both with secrets masked, and the
    places that the input names."""
    shown = prepared.masks.json(prepared.input)
    named = named_places(prepared.input, str(app_root))
    seen, meant = prepared.preview, shown
    if seen is not None and seen.window_id and "window" not in shown:
        meant = {**shown, "window": prepared.masks.text(seen.title) or seen.window_id}
    return effect_sentence(prepared.target.capability, meant), canonical_json(shown), named
