"""A rule that a person makes of one request, written into their own policy file.

The rule carries this very call as its `match` example, so one that would not match it is refused; so is one
that would change nothing, because a stricter rule speaks of the same call.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from pathlib import Path

from flycore.approval.append import AppendResult, append_rule
from flycore.model.approval import ApprovalRequest, RuleTerms
from flycore.model.enums import Decision, Risk
from flycore.model.json import JsonObject, canonical_json
from flycore.policy.default_decision import DEFAULT
from flycore.policy.patterns import matches

MAX_EXAMPLE_BYTES = 65_536


def rule_fault(request: ApprovalRequest, terms: RuleTerms) -> str:
    """Why these terms make no rule for that request, as far as that is known before it is written."""
    if not matches(terms.tool, request.tool):
        return f"the rule is about {terms.tool!r}, and this call is of {request.tool!r}: it would not match"
    if terms.when is not None and request.input_json != canonical_json(request.subject.input):
        return "the input holds a secret, which a rule with a condition would have to quote"
    if terms.when is not None and len(request.input_json) > MAX_EXAMPLE_BYTES:
        return "the input is too large to be the example of a rule with a condition"
    if terms.decision is not Decision.ALLOW:
        return ""
    seals = (request.seal, *(delegate.seal for delegate in request.delegates))
    if request.risk is Risk.CRITICAL or not all(seal.leasable for seal in seals):
        return "this program cannot be held still, so each of its calls is asked"
    stricter = [rule for rule in request.why if rule.where != DEFAULT and rule.decision is not Decision.ALLOW]
    if stricter:
        named = ", ".join(f"{rule.where} ({rule.decision.value})" for rule in stricter)
        return f"it would change nothing, because the stricter rule wins: {named}"
    return ""


def write_rule(
    path: Path, request: ApprovalRequest, terms: RuleTerms, *, names: frozenset[str], now: float
) -> AppendResult:
    """Write the rule into the policy file at `path`. `now` is Unix time. What is refused says why, and
    leaves the file as it was."""
    try:
        expires = expiry_of(terms.expires)
    except (ValueError, OverflowError):
        return AppendResult(written=False, why_not="the rule's last day is no day: write YYYY-MM-DD")
    if expires is not None and expires.timestamp() <= now:
        return AppendResult(written=False, why_not="the rule's last day is over")
    rule: JsonObject = {"tool": terms.tool}
    example: JsonObject = {"tool": request.tool}
    if terms.caller:
        rule["caller"] = terms.caller
        example["caller"] = request.caller.executable or request.caller.program
    if terms.when is not None:
        rule["when"] = terms.when
        example["input"] = request.subject.input
    rule |= {"decision": terms.decision.value, "because": terms.because, "match": [example]}
    if expires is not None:
        rule["expires"] = expires.isoformat()
    return append_rule(path, rule, names=names)


def expiry_of(day: str) -> datetime | None:
    """The moment at which the day is over where this machine stands; None for no day. ValueError,
    OverflowError."""
    if not day:
        return None
    return datetime.combine(date.fromisoformat(day) + timedelta(days=1), time.min).astimezone()
