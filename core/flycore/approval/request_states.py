"""What confirms a risky approval: drawn for each request, so that no key sequence is known before."""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import NamedTuple

from flycore.approval.leases import lease_fault
from flycore.model.approval import LETTERS, Answer, ApprovalRequest, Ask, Outcome
from flycore.model.enums import Choice, Code, Decision, RequestState, Risk
from flycore.model.json import MASK, MASK_ESCAPED, canonical_json
from flycore.policy.rule_file import rule_fault

CODE_LENGTH = 4


def new_confirmation_code(risk: Risk) -> str:
    """One letter for high risk, four for critical, none below."""
    count = {Risk.HIGH: 1, Risk.CRITICAL: CODE_LENGTH}.get(risk, 0)
    return "".join(secrets.choice(LETTERS) for _ in range(count))


# What may become of a request: states, transitions and the judgement of an answer, as functions.
#
# waiting ── approve / lease ──▶ approved
# ├────── deny, panic ──────▶ denied
# ├────── time ─────────────▶ timed-out
# └─ caller or person gone ─▶ withdrawn
#
# Only `waiting` has ways out, so exactly one answer counts.


MAX_DENY_MINUTES = 24 * 60


class Transition(StrEnum):
    """What can happen to a request."""

    APPROVE = "approve"
    DENY = "deny"
    EXPIRE = "expire"
    WITHDRAW = "withdraw"
    LEAVE = "leave"
    """The person has left: nobody is there to decide."""
    PANIC = "panic"
    """Everything is stopped."""


_NEXT_STATES = {
    Transition.APPROVE: (RequestState.APPROVED, None),
    Transition.DENY: (RequestState.DENIED, Code.DENIED),
    Transition.EXPIRE: (RequestState.TIMED_OUT, Code.APPROVAL_TIMEOUT),
    Transition.WITHDRAW: (RequestState.WITHDRAWN, Code.WITHDRAWN),
    Transition.LEAVE: (RequestState.WITHDRAWN, Code.NO_APPROVER),
    Transition.PANIC: (RequestState.DENIED, Code.PANIC),
}
_TRANSITION_OF = {
    Choice.APPROVE_ONCE: Transition.APPROVE,
    Choice.LEASE: Transition.APPROVE,
    Choice.DENY: Transition.DENY,
    Choice.BLOCK: Transition.DENY,
}
_BY_RULE = {Decision.ALLOW: Transition.APPROVE, Decision.DENY: Transition.DENY}
_ENDED = {
    RequestState.APPROVED: "already approved",
    RequestState.DENIED: "already denied",
    RequestState.TIMED_OUT: "the request has timed out",
    RequestState.WITHDRAWN: "the caller has withdrawn the request",
}


def next_state(state: RequestState, move: Transition) -> tuple[RequestState, Code | None] | None:
    """The state a move leads to, with what the caller is told; None where the move does not exist."""
    return _NEXT_STATES[move] if state is RequestState.WAITING else None


class DecisionContext(NamedTuple):
    """What an answer is judged against besides the request itself."""

    overdue: bool
    hands_on: bool


def check_answer(
    ask: Ask | None, subject_digest: str, answer: Answer, moment: DecisionContext
) -> Transition | Outcome:
    """The move an answer makes, or why it makes none. Whatever is not understood decides nothing."""
    if ask is None:
        return rejected_decision("there is no such request")
    if ask.state is not RequestState.WAITING:
        by = f" by {ask.decided_by}" if ask.decided_by else ""
        return rejected_decision(f"{_ENDED[ask.state]}{by}")
    if moment.overdue:
        return rejected_decision(_ENDED[RequestState.TIMED_OUT])
    if subject_digest != ask.request.subject_digest:
        return rejected_decision("the request is not the one that was shown")
    move = _transition_for(answer)
    if move is None or answer.choice not in choices(ask.request):
        return rejected_decision("this choice is not offered")
    fault = _fault(ask.request, answer)
    if fault:
        return rejected_decision(fault)
    if not 0 <= answer.deny_minutes <= MAX_DENY_MINUTES:
        return rejected_decision(f"a refusal lasts {MAX_DENY_MINUTES} minutes at most")
    if move is Transition.APPROVE and moment.hands_on:
        return rejected_decision("hands on the machine: wait until the tool has left mouse and keyboard")
    return move


def choices(request: ApprovalRequest) -> tuple[Choice, ...]:
    """What the card offers. Critical risk is decided each time; a lease also needs programs that can be
    held still."""
    if request.risk is Risk.CRITICAL:
        return (Choice.APPROVE_ONCE, Choice.DENY, Choice.BLOCK)
    seals = (request.seal, *(delegate.seal for delegate in request.delegates))
    lease = (Choice.LEASE,) if all(seal.leasable for seal in seals) else ()
    return (Choice.APPROVE_ONCE, *lease, Choice.RULE, Choice.DENY, Choice.BLOCK)


def check_request(request: ApprovalRequest) -> None:
    """Hold a request to its own digest and input. Raises ValueError: such a card would show one thing
    and approve another."""
    if request.subject.digest() != request.subject_digest:
        raise ValueError("the request's digest is not its subject's")
    if request.tool != request.subject.tool or request.caller.key != request.subject.caller:
        raise ValueError("the request names another tool or caller than its subject")
    if not _has_masks(request) and request.input_json != canonical_json(request.subject.input):
        raise ValueError("the request shows another input than its subject's")


def _has_masks(request: ApprovalRequest) -> bool:
    return bool(request.masked) or MASK in request.input_json or MASK_ESCAPED in request.input_json


def _transition_for(answer: Answer) -> Transition | None:
    """Where the answer leads, were it to count; a rule leads where it says, one that asks nowhere."""
    if answer.choice == Choice.RULE:
        return None if answer.rule is None else _BY_RULE.get(answer.rule.decision)
    return _TRANSITION_OF.get(answer.choice)


def _fault(request: ApprovalRequest, answer: Answer) -> str:
    """What is wrong with the terms that a choice comes with."""
    if answer.choice == Choice.LEASE:
        return lease_fault(request, answer.lease)
    if answer.choice == Choice.RULE and answer.rule is not None:
        return rule_fault(request, answer.rule)
    return ""


def rejected_decision(why_not: str) -> Outcome:
    return Outcome(accepted=False, why_not=why_not)
