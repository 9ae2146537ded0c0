"""Prints the results of `flytui policy explain` and `flytui policy replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flycore.catalog.builtin import AGENT_ACTIONS
from flycore.catalog.builtin_tools import builtin_names
from flycore.policy.conditions import Match
from flycore.policy.evaluate import RuleMatch
from flycore.policy.replay import Replayed
from flytui.cli.documents import ExplainedRule, PolicyExplainDocument
from flytui.cli.invocation import Invocation
from flytui.cli.output import print_line, print_table
from flytui.text.kernels import clock_time

if TYPE_CHECKING:
    from flycore.offline.policy import CallEvaluation

NO_TOOL = "nothing offers this tool, so a call would end unavailable"
BY_FLYTUI = "a tool of flytui itself"
BY_THE_AGENT = "the agent itself does what is allowed here"


def explain_document(
    tool: str, sidecar: str | None, evaluation: CallEvaluation, *, input_known: bool, caller: str
) -> PolicyExplainDocument:
    """The document of an evaluation."""
    return PolicyExplainDocument(
        tool=tool,
        sidecar=sidecar,
        risk=evaluation.risk,
        input_known=input_known,
        caller=caller,
        decision=evaluation.decision,
        rules=tuple(map(_explained_rule, evaluation.matches)),
        default=evaluation.default,
        default_used=not evaluation.rules and evaluation.default is not None,
    )


def unknown_document(tool: str, nearest: tuple[str, ...], *, caller: str) -> PolicyExplainDocument:
    """The document for an unknown tool."""
    return PolicyExplainDocument(
        tool=tool,
        sidecar=None,
        risk=None,
        input_known=False,
        caller=caller,
        decision=None,
        rules=(),
        default=None,
        default_used=False,
        nearest=nearest,
    )


def _explained_rule(item: RuleMatch) -> ExplainedRule:
    rule = item.rule
    return ExplainedRule(
        decision=rule.decision,
        because=rule.because,
        where=rule.place,
        tool=rule.tool,
        counts=item.match,
        caller=rule.caller,
        entry=rule.entry,
        when=rule.when,
        expires=rule.expires,
    )


def print_explanation(invocation: Invocation, document: PolicyExplainDocument) -> None:
    """Print the decision, the rules and the default."""
    decision = document.decision.value if document.decision is not None else "not decided"
    not_offered = BY_THE_AGENT if document.tool in AGENT_ACTIONS else NO_TOOL
    not_offered = BY_FLYTUI if document.tool in builtin_names() else not_offered
    offered = f"offered by {document.sidecar}" if document.sidecar else not_offered
    print_line(f"{document.tool}: {decision}")
    print_line(f"risk {document.risk.value if document.risk else 'unknown'}; {offered}")
    if any(rule.counts is Match.UNKNOWN for rule in document.rules):
        print_line(
            "perhaps: it depends on the input or the caller (--caller NAME); "
            "then an allow does not count, and a deny asks"
        )
    if document.rules:
        print_line()
        rows = [(_rule_verdict(rule), rule.where, _because(rule)) for rule in document.rules]
        print_table(invocation, ("RULE SAYS", "WHERE", "BECAUSE"), rows)
    if document.default is None:
        return
    print_line()
    used = "used: no rule decides this call" if document.default_used else "not used: a rule matches"
    print_line(f"default ({used})")
    print_line(f"{document.default.decision.value}: {document.default.because}")


def _rule_verdict(rule: ExplainedRule) -> str:
    match rule.counts:
        case Match.EXPIRED:
            return f"{rule.decision.value}, expired"
        case Match.UNKNOWN:
            return f"{rule.decision.value}, perhaps"
        case _:
            return rule.decision.value


def _because(rule: ExplainedRule) -> str:
    conditions = [f"tool {rule.tool}"]
    if rule.caller:
        conditions.append(f"caller {rule.caller}")
    if rule.entry:
        conditions.append(f"entry {rule.entry}")
    if rule.when is not None:
        conditions.append("input as in `when`")
    if rule.expires is not None:
        conditions.append(f"until {clock_time(rule.expires)}")
    return f"{rule.because} ({', '.join(conditions)})"


def print_replay(invocation: Invocation, found: tuple[Replayed, ...]) -> None:
    """Print the calls that a rule matches, then the counts."""
    matched = [item for item in found if item.matched]
    if matched:
        rows = [_row(item) for item in matched]
        print_table(invocation, ("TIME", "TOOL", "CALLER", "WAS", "WOULD BE", "RULES"), rows)
        print_line()
    differing = sum(item.differs for item in found)
    loosened = sum(_reverses_denial(item) for item in found)
    approximate = sum(bool(item.call.approximate) for item in matched)
    print_line(
        f"{len(found)} calls looked at; {len(matched)} matched by a rule; {differing} decided otherwise"
    )
    if loosened:
        print_line(f"{loosened} would be allowed that a person denied")
    if approximate:
        print_line(f"{approximate} approximate: the log does not have their whole input")


def _row(item: Replayed) -> tuple[str, ...]:
    call = item.call
    would = item.decision.value if item.decision is not None else "–"
    rules = ", ".join(f"{rule.where} {rule.because}" for rule in item.matched)
    remark = f"; approximate: {call.approximate}" if call.approximate else ""
    marked = f"{would} (otherwise)" if item.differs else would
    return call.at, call.tool, str(call.caller), call.was, marked, f"{rules}{remark}"


def _reverses_denial(item: Replayed) -> bool:
    return item.decision == "allow" and item.call.was.startswith("denied by a person")
