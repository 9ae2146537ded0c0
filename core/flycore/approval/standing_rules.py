"""The rules of a person's own policy file as a list, and taking one of them out: comments stay.

A rule is named by its place and its digest, as it was shown; where another stands there by now, or it was
changed, nothing is removed.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from flycore.approval.append import append_rule, read_present, replace
from flycore.model.diagnostics import Severity
from flycore.model.json import Json, JsonObject, digest
from flycore.model.standing import StandingRule
from flycore.policy.files import read_policy
from flycore.policy.rules import Rule, RuleLayer
from flycore.registry.jsonc.edit import edited, remove
from flycore.registry.jsonc.parse import read_jsonc

_RULE_NAMES: frozenset[str] = frozenset()


class RemoveResult(NamedTuple):
    """A rule that was taken out, with what putting it back needs; or why none was."""

    why_not: str = ""
    rule: JsonObject | None = None
    before: str = ""
    after: str = ""


class _RulePosition(NamedTuple):
    value: Json
    where: str
    line: int
    column: int


def read_rules(path: Path, *, names: frozenset[str] = _RULE_NAMES) -> tuple[StandingRule, ...]:
    """Every rule of the file, in its order; none where the file is not there or does not parse."""
    try:
        text, _ = read_present(path)
    except (OSError, UnicodeError):
        return ()
    file, _ = read_policy(text.encode("utf-8"), RuleLayer.USER, str(path), names)
    if not file.ok:
        return ()
    held = {(rule.line, rule.column): rule for rule in file.rules}
    return tuple(
        _user_rule(place, held.get((place.line, place.column))) for place in _rule_positions(path, text)
    )


def remove_rule(path: Path, where: str, shown: str) -> RemoveResult:
    """Take out the rule that stands at `where` (`file:line`), if its digest is `shown`. Everything else in
    the file stays as it is."""
    try:
        text, mode = read_present(path)
        places = _rule_positions(path, text)
        at = next(
            (
                index
                for index, place in enumerate(places)
                if place.where == where and digest(place.value) == shown
            ),
            None,
        )
        if at is None:
            return RemoveResult("the rule is not there any more as it was shown: look again")
        found = places[at].value
        new = _without(path, text, at)
        if new is None or not isinstance(found, dict):
            return RemoveResult("the rule cannot be taken out without changing something else: edit the file")
        replace(path, text, new, mode)
    except OSError as error:
        return RemoveResult(f"{path} cannot be written: {error.strerror or error}")
    except (ValueError, RecursionError) as error:
        return RemoveResult(f"the policy file cannot be read: {error}")
    return RemoveResult(rule=found, before=text, after=new)


def put_back(path: Path, removed: RemoveResult) -> str:
    """Undo a removal: the very text where the file is as the removal left it, else the rule as the last
    one. The sentence says why not; empty where it stands again."""
    try:
        text, mode = read_present(path)
        if text == removed.after:
            replace(path, text, removed.before, mode)
            return ""
    except (OSError, UnicodeError) as error:
        return f"{path} cannot be written: {error}"
    return append_rule(path, removed.rule or {}).why_not


def _user_rule(place: _RulePosition, rule: Rule | None) -> StandingRule:
    raw = place.value if isinstance(place.value, dict) else {}
    if rule is None:
        note = "faulty, so it does not hold: flytui policy check says why"
    elif rule.decision.value != raw.get("decision"):
        note = "faulty, so it asks: flytui policy check says why"
    else:
        note = ""
    when = raw.get("when")
    return StandingRule(
        where=place.where,
        digest=digest(place.value),
        tool=str(raw.get("tool", "")),
        decision=str(raw.get("decision", "")),
        because=str(raw.get("because", "")),
        caller=str(raw.get("caller", "")),
        when=when if isinstance(when, dict) else None,
        expires=rule.expires if rule is not None else None,
        note=note,
    )


def _rule_positions(path: Path, text: str) -> tuple[_RulePosition, ...]:
    value, index, _ = read_jsonc(text, str(path))
    rules = value.get("rules") if isinstance(value, dict) else None
    if index is None or not isinstance(rules, list):
        return ()
    found: list[_RulePosition] = []
    for number, item in enumerate(rules):
        span = index.value(f"/rules/{number}")
        if span is not None:
            line, column = index.position(span.start)
            found.append(_RulePosition(item, f"{path}:{line}", line, column))
    return tuple(found)


def _without(path: Path, text: str, at: int) -> str | None:
    """The text without that rule; None where no way to cut it gives exactly the others."""
    value, index, _ = read_jsonc(text, str(path))
    rules = value.get("rules") if isinstance(value, dict) else None
    if index is None or not isinstance(value, dict) or not isinstance(rules, list):
        return None
    wanted: JsonObject = {**value, "rules": [*rules[:at], *rules[at + 1 :]]}
    new = edited(text, remove(index, f"/rules/{at}"), wanted)
    problems = read_jsonc(new, str(path))[2] if new is not None else ()
    return None if any(item.severity is Severity.ERROR for item in problems) else new
