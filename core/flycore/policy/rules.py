"""What is wrong with one rule as it is written: keys, values, conditions, and examples that do not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from flycore.model.approval import MatchedRule
from flycore.model.base import Value
from flycore.model.call import Caller
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Decision
from flycore.model.json import Json, JsonObject, pointer_join
from flycore.policy.conditions import (
    Match,
    PolicyCall,
    combine_matches,
    match_caller,
    match_input,
    match_time,
    optional_fields,
    read_expiry,
    schema_faults,
)
from flycore.policy.patterns import MAX_PATTERN, matches, nearest_patterns

KEYS = ("tool", "caller", "when", "decision", "because", "match", "not_match", "expires")
EXAMPLE_KEYS = ("tool", "input", "caller")
MAX_EXAMPLES = 100
_EXAMPLE = 'write {"input": {…}}, and "tool" or "caller" where they matter'


class Fault(NamedTuple):
    """One thing that is wrong, where, and what to write instead."""

    pointer: str
    message: str
    remedy: str


def rule_faults(item: JsonObject, pointer: str) -> list[Fault]:
    """Everything that is wrong with the rule. Examples are tried only on conditions that can be used."""
    faults = [
        *_key_faults(item, pointer),
        *_value_faults(item, pointer),
        *_condition_faults(item, pointer),
    ]
    return faults or list(_example_faults(item, pointer))


def is_pattern(value: Json) -> bool:
    """Whether it can be a pattern at all."""
    return isinstance(value, str) and 0 < len(value) <= MAX_PATTERN


def _key_faults(item: JsonObject, pointer: str) -> Iterator[Fault]:
    for key in item:
        if key not in KEYS:
            remedy = f"a rule may have {', '.join(KEYS)}"
            yield Fault(pointer_join(pointer, key), f"unknown key {key!r}", remedy)


def _value_faults(item: JsonObject, pointer: str) -> Iterator[Fault]:
    if not is_pattern(item.get("tool")):
        remedy = f'write a tool name or pattern of at most {MAX_PATTERN} characters, such as "web.*"'
        yield Fault(f"{pointer}/tool", "`tool` is missing or no pattern", remedy)
    if item.get("decision") not in tuple(Decision):
        words = ", ".join(Decision)
        yield Fault(f"{pointer}/decision", "`decision` is missing or unknown", f"write one of {words}")
    because = item.get("because")
    if not isinstance(because, str) or not because.strip():
        remedy = "say why in a few words: the card shows it"
        yield Fault(f"{pointer}/because", "`because` is missing or empty", remedy)


def _condition_faults(item: JsonObject, pointer: str) -> Iterator[Fault]:
    if "caller" in item and not is_pattern(item["caller"]):
        remedy = 'write a program\'s name such as "claude", or a path such as "/usr/bin/*"'
        yield Fault(f"{pointer}/caller", "`caller` is no pattern", remedy)
    if "expires" in item and read_expiry(item["expires"]) is None:
        remedy = 'write date, time and zone, such as "2030-01-31T18:00:00+01:00"'
        yield Fault(f"{pointer}/expires", "`expires` is no moment with a time zone", remedy)
    if "when" in item:
        remedy = 'write a JSON Schema such as {"properties": {"path": {"const": "README.md"}}}'
        for place, message in schema_faults(item["when"]):
            yield Fault(f"{pointer}/when{place}", message, remedy)


def _example_faults(item: JsonObject, pointer: str) -> Iterator[Fault]:
    """A rule that contradicts its own example is not what was meant."""
    for key, expected in (("match", True), ("not_match", False)):
        examples = item.get(key, [])
        place = f"{pointer}/{key}"
        if not isinstance(examples, list) or len(examples) > MAX_EXAMPLES:
            yield Fault(place, f"`{key}` is a list of at most {MAX_EXAMPLES} example calls", _EXAMPLE)
            continue
        for index, example in enumerate(examples):
            call = read_example(example)
            if call is None:
                yield Fault(f"{place}/{index}", "is no example call", _EXAMPLE)
            elif _fits_example(item, call) is not expected:
                word = "does not match" if expected else "matches"
                yield Fault(
                    f"{place}/{index}", f"the rule {word} this example", "mend the rule or the example"
                )


def read_example(example: Json) -> PolicyCall | None:
    """The call an example describes; `tool` is empty where it names none. A string is a tool's name."""
    if isinstance(example, str):
        return PolicyCall(tool=example) if example else None
    if not isinstance(example, dict) or not example or set(example) - set(EXAMPLE_KEYS):
        return None
    tool, given, caller = example.get("tool", ""), example.get("input"), example.get("caller", "")
    if not isinstance(tool, str) or not isinstance(caller, str):
        return None
    if "input" in example and not isinstance(given, dict):
        return None
    return PolicyCall(
        tool=tool, input=given if isinstance(given, dict) else None, caller=caller_named(caller)
    )


def caller_named(text: str) -> Caller | None:
    """A caller known by its program's name or its executable's path alone; None for no text."""
    if not text:
        return None
    return Caller(door="socket", program=text.rpartition("/")[2], executable=text if "/" in text else "")


def _fits_example(item: JsonObject, call: PolicyCall) -> bool:
    """Whether every part the example gives fits; a part it leaves out is taken as fitting."""
    tool, caller, when = str(item["tool"]), item.get("caller"), item.get("when")
    parts = [Match.YES]
    if call.tool and not matches(tool, call.tool):
        parts.append(Match.NO)
    if call.caller is not None and isinstance(caller, str):
        parts.append(match_caller(caller, call.caller))
    if call.input is not None and isinstance(when, dict):
        parts.append(match_input(when, call.input))
    return combine_matches(*parts) is Match.YES


# Policy rules as a file declares them: parsed one by one, every problem reported, never trusted more
# than they can be understood.
#
# A rule that cannot be understood is skipped if it was an allow and asks if it was anything else, so a
# mistake in the file never lets more through than the person wrote.


MAX_RULES = 10_000
FAULTY = "a rule of the policy file is faulty"


class RuleLayer(StrEnum):
    """Whose policy file a rule stands in."""

    SYSTEM = "system"
    USER = "user"
    PROJECT = "project"
    """Came with a clone: it may only tighten."""


class Rule(Value, frozen=True, kw_only=True):
    """One rule that is in force."""

    tool: str
    """Pattern over tool names; `*` spans anything."""
    decision: Decision
    because: str
    file: str
    line: int
    column: int = 1
    caller: str = ""
    """Pattern over the caller's program or, with a slash, its executable; empty for anyone."""
    when: JsonObject | None = None
    """JSON Schema that the input has to pass."""
    expires: float | None = None
    """Unix time from which on it no longer holds."""

    def match(self, call: PolicyCall) -> Match:
        """Whether the rule is about that call."""
        if not matches(self.tool, call.tool):
            return Match.NO
        return combine_matches(
            match_caller(self.caller, call.caller),
            match_input(self.when, call.input),
            match_time(self.expires, call.now),
        )

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"

    def digest_value(self) -> list[Json]:
        """Everything of it that decides."""
        return [self.tool, self.decision.value, self.because, self.caller, self.when, self.expires]

    def matched(self) -> MatchedRule:
        """The rule as a verdict and the card show it."""
        return MatchedRule(decision=self.decision, because=self.because, where=self.place, tool=self.tool)


class RuleSource(NamedTuple):
    """What the parser has to know of the file besides its value."""

    file: str
    layer: RuleLayer
    locate: Callable[[str], Position | None]
    """JSON pointer to the place of its value."""
    broken: frozenset[str] = frozenset()
    """Pointers inside which the text itself is faulty, such as a key given twice."""
    names: frozenset[str] = frozenset()
    """Names of the tools there are, for hints; empty where nobody knows them."""


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
        found.append(_diagnostic(origin, Fault("/rules", "too many rules", f"keep at most {MAX_RULES}")))
        rules.append(_ask("*", origin, "/rules", "the policy file has too many rules"))
    return tuple(rules), tuple(found)


def _parse_rule(item: Json, pointer: str, origin: RuleSource) -> tuple[Rule | None, list[Diagnostic]]:
    if not isinstance(item, dict):
        fault = Fault(pointer, "a rule is an object", 'write {"tool": …, "decision": …, "because": …}')
        return _ask("*", origin, pointer, "a rule could not be read"), [_diagnostic(origin, fault)]
    faults = rule_faults(item, pointer)
    if _ambiguous(pointer, origin):
        faults.append(Fault(pointer, "the rule's text is ambiguous", "write each key once"))
    if faults:
        return _weakened(item, pointer, origin), [_diagnostic(origin, fault) for fault in faults]
    rule = _without_faults(item, pointer, origin)
    warnings = [_diagnostic(origin, fault, Severity.WARNING) for fault in _doubts(rule, pointer, origin)]
    ignored = origin.layer is RuleLayer.PROJECT and rule.decision is Decision.ALLOW
    return (None if ignored else rule), warnings


def _without_faults(item: JsonObject, pointer: str, origin: RuleSource) -> Rule:
    position, when = origin.locate(pointer), item.get("when")
    return Rule(
        tool=str(item["tool"]),
        decision=Decision(str(item["decision"])),
        because=str(item["because"]),
        file=origin.file,
        line=position.line if position is not None else 1,
        column=position.column if position is not None else 1,
        caller=str(item.get("caller", "")),
        when=when if isinstance(when, dict) else None,
        expires=read_expiry(item.get("expires")),
    )


def _could_be_rule(pattern: str, name: str) -> bool:
    """Whether the pattern is about that tool, or about one of the tools that `name.*` stands for."""
    return matches(pattern, name) or (name.endswith(".*") and matches(name, pattern))


def _doubts(rule: Rule, pointer: str, origin: RuleSource) -> Iterator[Fault]:
    """What may not be meant in a rule that can be understood."""
    if origin.names and not any(_could_be_rule(rule.tool, name) for name in origin.names):
        near = nearest_patterns(rule.tool, origin.names)
        remedy = (
            f"did you mean {' or '.join(map(repr, near))}?" if near else "flytui catalog lists every tool"
        )
        yield Fault(f"{pointer}/tool", f"{rule.tool!r} matches no known tool", remedy)
    if rule.decision is not Decision.ALLOW:
        return
    if origin.layer is RuleLayer.PROJECT:
        sentence = "the project's policy may only tighten: this allow is ignored"
        yield Fault(f"{pointer}/decision", sentence, "move the rule to your own policy.jsonc")
    absent = optional_fields(rule.when or {})
    if absent:
        names = ", ".join(map(repr, absent))
        sentence = f"`when` also accepts an input without {names}"
        yield Fault(f"{pointer}/when", sentence, 'add the field to "required", if that is not meant')


def _weakened(item: JsonObject, pointer: str, origin: RuleSource) -> Rule | None:
    """What a faulty rule still does: nothing if it surely was an allow, else it asks, unconditionally."""
    twice = _ambiguous(pointer, origin)
    if item.get("decision") == Decision.ALLOW and not twice:
        return None
    pattern = item.get("tool")
    return _ask(str(pattern) if is_pattern(pattern) and not twice else "*", origin, pointer, FAULTY)


def _ambiguous(pointer: str, origin: RuleSource) -> bool:
    return any(place == pointer or place.startswith(f"{pointer}/") for place in origin.broken)


def _ask(tool: str, origin: RuleSource, pointer: str, because: str) -> Rule:
    position = origin.locate(pointer)
    line = position.line if position is not None else 1
    return Rule(tool=tool, decision=Decision.ASK, because=because, file=origin.file, line=line)


def _diagnostic(origin: RuleSource, fault: Fault, severity: Severity = Severity.ERROR) -> Diagnostic:
    parent = fault.pointer
    position = origin.locate(parent)
    while position is None and parent:
        parent = parent.rpartition("/")[0]
        position = origin.locate(parent)
    return Diagnostic(
        severity=severity,
        rule="policy-rule",
        message=fault.message,
        remedy=fault.remedy,
        pointer=fault.pointer,
        position=position,
    )
