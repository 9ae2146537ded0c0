"""The allowance that a card offers first to a person who has approved the same tool again and again.

It is the narrowest lease that would have covered those calls. Pure: nothing is allowed by an offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flycore.approval.leases import (
    MAX_CALLS,
    input_bytes,
    lease_durations,
    lease_fault,
    outgrows,
    scope_digest,
)
from flycore.approval.requests import choices
from flycore.model.approval import ApprovalRequest, Ask, LeaseTerms
from flycore.model.base import Value
from flycore.model.enums import Choice, LeaseScope, RequestState
from flycore.model.json import Json, JsonObject, canonical_json, pointer_keys
from flycore.model.program import surroundings_of

OFFERED_AFTER = 10
"""Approvals of the same tool for the same caller after which the allowance is offered."""
WINDOW_SECONDS = 3_600.0
"""The time within which they were given."""


class AllowanceOffer(Value, frozen=True, kw_only=True):
    """The terms of a lease, with the approved calls that it would have covered."""

    terms: LeaseTerms
    covered: tuple[Ask, ...]
    """Newest first."""


def allowance_offer(request: ApprovalRequest, asks: Iterable[Ask], now: float) -> AllowanceOffer | None:
    """The narrowest lease for the request that would have covered the calls which were approved one by one
    before; None where there are too few, or where none may be made. `now` is Unix time in seconds."""
    if Choice.LEASE not in choices(request):
        return None
    covered = sorted(
        (ask for ask in asks if _counts(ask, request, now)),
        key=lambda ask: ask.decided_at or 0.0,
        reverse=True,
    )[:MAX_CALLS]
    if len(covered) < OFFERED_AFTER:
        return None
    oldest = covered[-1].decided_at or now
    pinned = _common_keys(request, covered)
    terms = LeaseTerms(
        minutes=_minutes(request, now - oldest),
        calls=len(covered),
        scope=_scope(request, covered),
        condition=pinned_condition(request, pinned),
    )
    return None if lease_fault(request, terms) else AllowanceOffer(terms=terms, covered=tuple(covered))


def pinned_condition(request: ApprovalRequest, keys: Iterable[str]) -> JsonObject | None:
    """The JSON Schema that pins those keys to the request's values; None where there is no key."""
    given = request.subject.input
    properties: JsonObject = {key: {"const": given[key]} for key in keys}
    return {"properties": properties, "required": list(properties)} if properties else None


def pinnable_keys(request: ApprovalRequest) -> tuple[str, ...]:
    """The keys of the input whose value is not masked, sorted."""
    # A pinned secret would be shown, and a rule is written to a file as text.
    masked = {pointer_keys(pointer)[0] for pointer in request.masked if pointer.startswith("/")}
    return tuple(key for key in sorted(request.subject.input) if key not in masked)


def _counts(ask: Ask, request: ApprovalRequest, now: float) -> bool:
    """Whether a person approved that call once, and a lease for the request could have covered it."""
    other = ask.request
    return (
        ask.state is RequestState.APPROVED
        and ask.answer is not None
        and ask.answer.choice == Choice.APPROVE_ONCE
        and ask.decided_at is not None
        and 0 <= now - ask.decided_at <= WINDOW_SECONDS
        and other.tool == request.tool
        and other.caller.key == request.caller.key
        and request.risk.at_least(other.risk)
        and not outgrows(input_bytes(other.subject.input), input_bytes(request.subject.input))
        and _scope_of(other) == _scope_of(request)
    )


def _scope_of(request: ApprovalRequest) -> str:
    return scope_digest(request.subject, surroundings=surroundings_of(request.seals))


def _scope(request: ApprovalRequest, covered: Sequence[Ask]) -> LeaseScope:
    one_host = bool(request.host) and all(ask.request.host == request.host for ask in covered)
    return LeaseScope.HOST if one_host else LeaseScope.TOOL


def _common_keys(request: ApprovalRequest, covered: Sequence[Ask]) -> tuple[str, ...]:
    """The keys whose value is the same in the request and in every call."""
    given = request.subject.input
    inputs = [ask.request.subject.input for ask in covered]
    return tuple(
        key
        for key in pinnable_keys(request)
        if all(key in one and _same(one[key], given[key]) for one in inputs)
    )


def _same(one: Json, other: Json) -> bool:
    # In JSON Schema 1 and true are two values; in Python they are equal.
    return canonical_json({"": one}) == canonical_json({"": other})


def _minutes(request: ApprovalRequest, seconds: float) -> int:
    """The shortest lease as long as the calls took, or the longest one by the clock."""
    minutes = [number for number in lease_durations(request) if number > 0]
    return next((number for number in minutes if number * 60 >= seconds), minutes[-1])
