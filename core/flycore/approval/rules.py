"""Policy rules as a file declares them: parsed one by one, every problem reported, never trusted more
than they can be understood.

A rule that cannot be understood is skipped if it was an allow and asks if it was anything else, so a
mistake in the file never lets more through than the person wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flycore.approval.patterns import MAX_PATTERN, matches, near_miss
from flycore.model.approval import MatchedRule
from flycore.model.base import Value
from flycore.model.canonical import Json, JsonObject
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Decision, Source

LATER_KEYS = ("when", "caller", "expires")
"""Conditions that a later version reads. A rule that has one says less than it seems to."""
KEYS = ("tool", "decision", "because", "match", "not_match", *LATER_KEYS)
MAX_RULES = 10_000


class Rule(Value, frozen=True, kw_only=True):
    """One rule that is in force."""

    tool: str
    """Pattern over tool names; `*` spans anything."""
    decision: Decision
    because: str
    file: str
    line: int

    def matched(self) -> MatchedRule:
        """The rule as a verdict and the card show it."""
        return MatchedRule(
            decision=self.decision, because=self.because, where=f"{self.file}:{self.line}", tool=self.tool
        )


class RuleSource(NamedTuple):
    """What the parser has to know of the file besides its value."""

    file: str
    source: Source
    locate: Callable[[str], Position | None]
    """JSON pointer to the place of its value."""
    broken: frozenset[str] = frozenset()
    """Pointers inside which the text itself is faulty, such as a key given twice."""
    names: frozenset[str] = frozenset()
    """Names of the tools the kernel knows, for the hint about a pattern that misses one by case."""


class _Fault(NamedTuple):
    pointer: str
    message: str
    remedy: str


def parse_rules(items: list[Json], origin: RuleSource) -> tuple[tuple[Rule, ...], tuple[Diagnostic, ...]]:
    """The rules in force, and everything that is wrong with the others."""
    rules: list[Rule] = []
    found: list[Diagnostic] = []
    for index, item in enumerate(items[:MAX_RULES]):
        rule, diagnostics = _parse_rule(item, f"/rules/{index}", origin)
        found.extend(diagnostics)
        if rule is not None:
            rules.append(rule)
    if len(items) > MAX_RULES:
        found.append(_diagnostic(origin, _Fault("/rules", "too many rules", f"keep at most {MAX_RULES}")))
        rules.append(_ask_everything(origin, "/rules", "the policy file has too many rules"))
    return tuple(rules), tuple(found)


def _parse_rule(item: Json, pointer: str, origin: RuleSource) -> tuple[Rule | None, list[Diagnostic]]:
    if not isinstance(item, dict):
        fault = _Fault(pointer, "a rule is an object", 'write {"tool": …, "decision": …, "because": …}')
        return _ask_everything(origin, pointer, "a rule could not be read"), [_diagnostic(origin, fault)]
    faults = [*_key_faults(item, pointer), *_value_faults(item, pointer), *_example_faults(item, pointer)]
    if any(place == pointer or place.startswith(f"{pointer}/") for place in origin.broken):
        faults.append(_Fault(pointer, "the rule's text is ambiguous", "write each key once"))
    if faults:
        return _weakened(item, pointer, origin), [_diagnostic(origin, fault) for fault in faults]
    rule = Rule(
        tool=str(item["tool"]),
        decision=Decision(str(item["decision"])),
        because=str(item["because"]),
        file=origin.file,
        line=_line(origin, pointer),
    )
    return _admitted(rule, pointer, origin)


def _admitted(rule: Rule, pointer: str, origin: RuleSource) -> tuple[Rule | None, list[Diagnostic]]:
    """A sound rule, unless it is an allow of the project's file, which may only tighten."""
    warnings = []
    near = near_miss(rule.tool, origin.names)
    if near is not None:
        fault = _Fault(f"{pointer}/tool", f"{rule.tool!r} matches no known tool", f"did you mean {near!r}?")
        warnings.append(_diagnostic(origin, fault, Severity.WARNING))
    if origin.source is Source.PROJECT and rule.decision is Decision.ALLOW:
        fault = _Fault(
            f"{pointer}/decision",
            "the project's policy may only tighten: this allow is ignored",
            "move the rule to your own policy.jsonc (flytui config path shows where)",
        )
        return None, [*warnings, _diagnostic(origin, fault, Severity.WARNING)]
    return rule, warnings


def _key_faults(item: JsonObject, pointer: str) -> list[_Fault]:
    faults = []
    for key in item:
        if key in LATER_KEYS:
            sentence = f"{key!r} is not supported in this version"
            faults.append(_Fault(f"{pointer}/{key}", sentence, "remove it, or narrow `tool` instead"))
        elif key not in KEYS:
            known = "tool, decision, because, match, not_match"
            faults.append(_Fault(pointer, f"unknown key {key!r}", f"a rule may have {known}"))
    return faults


def _value_faults(item: JsonObject, pointer: str) -> list[_Fault]:
    faults = []
    if not _is_pattern(item.get("tool")):
        remedy = f'write a tool name or pattern of at most {MAX_PATTERN} characters, such as "web.*"'
        faults.append(_Fault(f"{pointer}/tool", "`tool` is missing or no pattern", remedy))
    if item.get("decision") not in tuple(Decision):
        words = ", ".join(Decision)
        faults.append(
            _Fault(f"{pointer}/decision", "`decision` is missing or unknown", f"write one of {words}")
        )
    because = item.get("because")
    if not isinstance(because, str) or not because.strip():
        remedy = "say why in a few words: the card shows it"
        faults.append(_Fault(f"{pointer}/because", "`because` is missing or empty", remedy))
    return faults


def _example_faults(item: JsonObject, pointer: str) -> list[_Fault]:
    """Examples are tool names in this version; a rule that contradicts one is not what was meant."""
    pattern = item.get("tool")
    faults = []
    for key, expected in (("match", True), ("not_match", False)):
        examples = item.get(key, [])
        place = f"{pointer}/{key}"
        if not isinstance(examples, list) or not all(isinstance(name, str) for name in examples):
            faults.append(_Fault(place, f"`{key}` is a list of tool names", 'write ["web.fetch"]'))
            continue
        for index, name in enumerate(examples):
            if isinstance(pattern, str) and matches(pattern, str(name)) is not expected:
                word = "does not match" if expected else "matches"
                sentence = f"the rule {word} its example {name!r}"
                faults.append(_Fault(f"{place}/{index}", sentence, "mend `tool` or the example"))
    return faults


def _weakened(item: JsonObject, pointer: str, origin: RuleSource) -> Rule | None:
    """What a faulty rule still does: nothing if it surely was an allow, else it asks."""
    twice = any(place.startswith(f"{pointer}/") or place == pointer for place in origin.broken)
    if item.get("decision") == Decision.ALLOW and not twice:
        return None
    pattern = item.get("tool")
    if not _is_pattern(pattern) or twice:
        return _ask_everything(origin, pointer, "a rule of the policy file is faulty")
    return _ask(str(pattern), origin, pointer, "a rule of the policy file is faulty")


def _is_pattern(value: Json) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_PATTERN


def _ask_everything(origin: RuleSource, pointer: str, because: str) -> Rule:
    return _ask("*", origin, pointer, because)


def _ask(tool: str, origin: RuleSource, pointer: str, because: str) -> Rule:
    return Rule(
        tool=tool, decision=Decision.ASK, because=because, file=origin.file, line=_line(origin, pointer)
    )


def _line(origin: RuleSource, pointer: str) -> int:
    position = origin.locate(pointer)
    return position.line if position is not None else 1


def _diagnostic(origin: RuleSource, fault: _Fault, severity: Severity = Severity.ERROR) -> Diagnostic:
    position = origin.locate(fault.pointer) or origin.locate(fault.pointer.rpartition("/")[0])
    return Diagnostic(
        severity=severity,
        rule="policy-rule",
        message=fault.message,
        remedy=fault.remedy,
        pointer=fault.pointer,
        position=position,
    )
