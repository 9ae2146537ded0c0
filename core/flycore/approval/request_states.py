"""The states of an approval request, the transitions between them, and the check of an answer.

    waiting ── approve, lease, rule ──▶ approved
       ├────── deny, block, panic ────▶ denied
       ├────── time ──────────────────▶ timed-out
       └────── caller or person left ─▶ withdrawn

All of it is functions of values. Only `waiting` has transitions, so exactly one answer counts.
"""

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


MAX_DENY_MINUTES = 24 * 60


class Transition(StrEnum):
    """What can happen to a waiting request."""

    APPROVE = "approve"
    DENY = "deny"
    EXPIRE = "expire"
    WITHDRAW = "withdraw"
    LEAVE = "leave"
    """The last console has left, so nobody is there to decide."""
    PANIC = "panic"
    """A person stopped everything."""


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


def next_state(state: RequestState, transition: Transition) -> tuple[RequestState, Code | None] | None:
    """Return the state that a transition leads to and the code for the caller; None for a settled request."""
    return _NEXT_STATES[transition] if state is RequestState.WAITING else None


class DecisionContext(NamedTuple):
    """What an answer is checked against besides the request itself."""

    overdue: bool
    desktop_controlled: bool


def check_answer(
    ask: Ask | None, subject_digest: str, answer: Answer, context: DecisionContext
) -> Transition | Outcome:
    """Return the transition that an answer makes, or why it makes none. `subject_digest` is that of the
    request the person saw. An answer that is not understood decides nothing."""
    if ask is None:
        return rejected_decision("there is no such request")
    if ask.state is not RequestState.WAITING:
        by = f" by {ask.decided_by}" if ask.decided_by else ""
        return rejected_decision(f"{_ENDED[ask.state]}{by}")
    # The deadline counts, not the task that ends overdue requests: it may run a moment later.
    if context.overdue:
        return rejected_decision(_ENDED[RequestState.TIMED_OUT])
    if subject_digest != ask.request.subject_digest:
        return rejected_decision("the request has changed since it was shown to you")
    transition = _transition_for(answer)
    if transition is None or answer.choice not in choices(ask.request):
        return rejected_decision("this choice is not offered for this request")
    fault = _terms_fault(ask.request, answer)
    if fault:
        return rejected_decision(fault)
    if not 0 <= answer.deny_minutes <= MAX_DENY_MINUTES:
        return rejected_decision(f"a denial lasts {MAX_DENY_MINUTES} minutes at most")
    # A tool that moves mouse and keyboard could press the approving keys itself. Denials always count.
    if transition is Transition.APPROVE and context.desktop_controlled:
        return rejected_decision("a tool has its hands on the machine: wait until it has ended")
    return transition


def choices(request: ApprovalRequest) -> tuple[Choice, ...]:
    """Return the choices that the card offers."""
    # A call of critical risk is decided each time: no lease and no rule may allow the next one.
    if request.risk is Risk.CRITICAL:
        return (Choice.APPROVE_ONCE, Choice.DENY, Choice.BLOCK)
    # A lease permits later runs of the same program, so it needs a seal that keeps the program the same.
    seals = (request.seal, *(delegate.seal for delegate in request.delegates))
    lease = (Choice.LEASE,) if all(seal.leasable for seal in seals) else ()
    return (Choice.APPROVE_ONCE, *lease, Choice.RULE, Choice.DENY, Choice.BLOCK)


def check_request(request: ApprovalRequest) -> None:
    """Check that a request shows what it approves. Raises ValueError where its digest, tool, caller or input
    differs from its subject's: such a card would show one thing and approve another."""
    if request.subject.digest() != request.subject_digest:
        raise ValueError("the request's digest is not its subject's")
    if request.tool != request.subject.tool or request.caller.key != request.subject.caller:
        raise ValueError("the request names another tool or caller than its subject")
    if not _has_masks(request) and request.input_json != canonical_json(request.subject.input):
        raise ValueError("the request shows another input than its subject's")


def new_confirmation_code(risk: Risk) -> str:
    """Return the letters that confirm an approval: one for high risk, four for critical, none below."""
    # They are drawn for each request, so that no sequence of keys approves one before it was seen.
    count = {Risk.HIGH: 1, Risk.CRITICAL: CODE_LENGTH}.get(risk, 0)
    return "".join(secrets.choice(LETTERS) for _ in range(count))


def rejected_decision(why_not: str) -> Outcome:
    """Return the outcome of an answer or edit that does not count, with the sentence that says why."""
    return Outcome(accepted=False, why_not=why_not)


def _has_masks(request: ApprovalRequest) -> bool:
    return bool(request.masked) or MASK in request.input_json or MASK_ESCAPED in request.input_json


def _transition_for(answer: Answer) -> Transition | None:
    """Return the transition of an answer, if it counts. A rule decides this call as it says; a rule that asks
    decides nothing."""
    if answer.choice == Choice.RULE:
        return None if answer.rule is None else _BY_RULE.get(answer.rule.decision)
    return _TRANSITION_OF.get(answer.choice)


def _terms_fault(request: ApprovalRequest, answer: Answer) -> str:
    """Return what is wrong with the terms of a lease or rule; empty where nothing is."""
    if answer.choice == Choice.LEASE:
        return lease_fault(request, answer.lease)
    if answer.choice == Choice.RULE and answer.rule is not None:
        return rule_fault(request, answer.rule)
    return ""
