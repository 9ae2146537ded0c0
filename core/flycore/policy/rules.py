"""The rules of a policy file, parsed one by one, with every fault reported.

A rule that cannot be understood is skipped if it was an allow, and asks if it was anything else. So a mistake
in the file never lets more through than the person wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from flycore.catalog.schemas import needs_process
from flycore.model.approval import MatchedRule
from flycore.model.base import Value
from flycore.model.call import Caller
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Decision
from flycore.model.json import Json, JsonObject, pointer_join
from flycore.policy.conditions import (
    MAX_PATTERN,
    Match,
    PolicyCall,
    combine_matches,
    match_caller,
    match_input,
    match_time,
    matches,
    misspelt,
    nearest_patterns,
    optional_fields,
    read_expiry,
    schema_faults,
)

KEYS = ("tool", "caller", "entry", "when", "decision", "because", "match", "not_match", "expires")
EXAMPLE_KEYS = ("tool", "input", "caller")
MAX_EXAMPLES = 100
_ORIGIN = re.compile(r"[a-z0-9._-]{1,64}@[0-9a-f]{16}")
_EXAMPLE = 'write {"input": {…}}, and "tool" or "caller" where they matter'
MAX_RULES = 10_000
FAULTY = "a rule of the policy file is faulty"


class RuleLayer(StrEnum):
    """Whose policy file a rule comes from."""

    SYSTEM = "system"
    USER = "user"
    PROJECT = "project"
    """The project's own file. It came with a clone, so it may only make the policy stricter."""
    BUNDLE = "bundle"
    """A team bundle that the user applied. It may only make the policy stricter, too."""

    @property
    def only_tightens(self) -> bool:
        """Whether an allow of that layer has no effect."""
        return self in (RuleLayer.PROJECT, RuleLayer.BUNDLE)


class Rule(Value, frozen=True, kw_only=True):
    """One rule that is in force."""

    tool: str
    """Pattern over tool names, in which `*` stands for any characters."""
    decision: Decision
    because: str
    file: str
    line: int
    column: int = 1
    caller: str = ""
    """Pattern over the caller's program or, with a slash, its executable; empty for every caller."""
    entry: str = ""
    """For an allow: `SidecarEntry.origin` of the only entry for whose tools it counts; empty for any."""
    when: JsonObject | None = None
    """JSON Schema that the input has to meet; None for every input."""
    expires: float | None = None
    """Unix time in seconds from which on the rule has no effect; None for a rule that stays."""

    def match(self, call: PolicyCall) -> Match:
        """Return whether the rule applies to that call."""
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
        """Return everything of the rule that the policy's version depends on."""
        bound: list[Json] = [self.entry] if self.entry else []
        return [self.tool, self.decision.value, self.because, self.caller, self.when, self.expires, *bound]

    @property
    def entry_id(self) -> str:
        """The id of the entry that an allow is bound to; empty for one that is not."""
        return self.entry.partition("@")[0]

    def is_for(self, origin: str) -> bool:
        """Return whether the rule counts for the tools of the entry with that origin."""
        return self.decision is not Decision.ALLOW or self.entry in ("", origin)

    def matched(self) -> MatchedRule:
        """Return the rule as a verdict and the card show it."""
        return MatchedRule(decision=self.decision, because=self.because, where=self.place, tool=self.tool)


class RuleSource(NamedTuple):
    """What the parser needs to know of a policy file besides its value."""

    file: str
    layer: RuleLayer
    locate: Callable[[str], Position | None]
    """Returns the position of the value at a JSON pointer."""
    broken: frozenset[str] = frozenset()
    """Pointers of values whose text is faulty, for instance by a key that is written twice."""
    names: frozenset[str] = frozenset()
    """Names of the known tools, for hints; empty where they are not known."""


def parse_rules(items: list[Json], origin: RuleSource) -> tuple[tuple[Rule, ...], tuple[Diagnostic, ...]]:
    """Return the rules in force, and a diagnostic for every fault."""
    rules: list[Rule] = []
    found: list[Diagnostic] = []
    for index, item in enumerate(items[:MAX_RULES]):
        rule, diagnostics = _parse_rule(item, f"/rules/{index}", origin)
        found.extend(diagnostics)
        if rule is not None:
            rules.append(rule)
    if len(items) > MAX_RULES:
        found.append(_diagnostic(origin, Fault("/rules", "too many rules", f"keep at most {MAX_RULES}")))
        # A deny may be among the rules that are not read, so everything is asked.
        rules.append(_ask("*", origin, "/rules", "the policy file has too many rules"))
    return tuple(rules), tuple(found)


def _parse_rule(item: Json, pointer: str, origin: RuleSource) -> tuple[Rule | None, list[Diagnostic]]:
    if not isinstance(item, dict):
        fault = Fault(pointer, "a rule is an object", 'write {"tool": …, "decision": …, "because": …}')
        return _ask("*", origin, pointer, "a rule could not be read"), [_diagnostic(origin, fault)]
    faults = rule_faults(item, pointer)
    if _ambiguous(pointer, origin):
        faults.append(Fault(pointer, "the rule is ambiguous: a key is written twice", "write each key once"))
    if faults:
        return _weakened(item, pointer, origin), [_diagnostic(origin, fault) for fault in faults]
    rule = _without_faults(item, pointer, origin)
    warnings = [
        _diagnostic(origin, fault, Severity.WARNING) for fault in _rule_warnings(rule, pointer, origin)
    ]
    # The project's file came with a clone: an allow in it would let the clone permit its own programs.
    ignored = origin.layer.only_tightens and rule.decision is Decision.ALLOW
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
        entry=str(item.get("entry", "")),
        when=when if isinstance(when, dict) else None,
        expires=read_expiry(item.get("expires")),
    )


def _could_be_rule(pattern: str, name: str) -> bool:
    """Return whether the pattern may match that tool, or one of the tools that a name such as `web.*` stands
    for."""
    return matches(pattern, name) or (name.endswith(".*") and matches(name, pattern))


def _rule_warnings(rule: Rule, pointer: str, origin: RuleSource) -> Iterator[Fault]:
    """Yield what is probably not meant in a rule that can be understood."""
    if origin.names and not any(_could_be_rule(rule.tool, name) for name in origin.names):
        near = nearest_patterns(rule.tool, origin.names)
        remedy = (
            f"did you mean {' or '.join(map(repr, near))}?" if near else "flytui catalog lists every tool"
        )
        # Every other file counts in all roots, and the tool may be one of another root.
        if origin.layer is RuleLayer.PROJECT or misspelt(rule.tool, origin.names) is not None:
            yield Fault(f"{pointer}/tool", f"{rule.tool!r} matches no known tool", remedy)
    if rule.decision is not Decision.ALLOW:
        return
    if origin.layer.only_tightens:
        sentence = f"a {origin.layer.value}'s policy may only make things stricter, so this allow is ignored"
        yield Fault(f"{pointer}/decision", sentence, "move the rule to your own policy.jsonc")
    absent = optional_fields(rule.when or {})
    if absent:
        names = ", ".join(map(repr, absent))
        sentence = f"`when` also accepts an input without {names}"
        yield Fault(f"{pointer}/when", sentence, 'if you do not mean that, add the field to "required"')


def _weakened(item: JsonObject, pointer: str, origin: RuleSource) -> Rule | None:
    """Return what a faulty rule still does: nothing if it was certainly an allow, else it asks."""
    # The rule asks without its conditions: a condition that cannot be understood may not narrow a deny. Where
    # a key is written twice, neither the decision nor the tool is certain.
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


# The faults of one rule as it is written.


class Fault(NamedTuple):
    """One fault of a rule: its JSON pointer, what is wrong, and what to write instead."""

    pointer: str
    message: str
    remedy: str


def rule_faults(item: JsonObject, pointer: str) -> list[Fault]:
    """Return the faults of a rule. Its examples are tried only where its conditions can be used."""
    faults = [
        *_key_faults(item, pointer),
        *_value_faults(item, pointer),
        *_condition_faults(item, pointer),
    ]
    return faults or list(_example_faults(item, pointer))


def is_pattern(value: Json) -> bool:
    """Return whether the value can be a name pattern."""
    return isinstance(value, str) and 0 < len(value) <= MAX_PATTERN


def _key_faults(item: JsonObject, pointer: str) -> Iterator[Fault]:
    for key in item:
        if key not in KEYS:
            remedy = f"the keys of a rule are {', '.join(KEYS)}"
            yield Fault(pointer_join(pointer, key), f"unknown key {key!r}", remedy)


def _value_faults(item: JsonObject, pointer: str) -> Iterator[Fault]:
    if not is_pattern(item.get("tool")):
        remedy = f'write a tool name or pattern of at most {MAX_PATTERN} characters, such as "web.*"'
        yield Fault(f"{pointer}/tool", "`tool` is missing or is not a pattern", remedy)
    if item.get("decision") not in tuple(Decision):
        words = ", ".join(Decision)
        yield Fault(f"{pointer}/decision", "`decision` is missing or unknown", f"write one of {words}")
    because = item.get("because")
    if not isinstance(because, str) or not because.strip():
        remedy = "say in a few words why the rule exists: the approval card shows it"
        yield Fault(f"{pointer}/because", "`because` is missing or empty", remedy)


def _condition_faults(item: JsonObject, pointer: str) -> Iterator[Fault]:
    if "caller" in item and not is_pattern(item["caller"]):
        remedy = 'write a program\'s name such as "claude", or a path such as "/usr/bin/*"'
        yield Fault(f"{pointer}/caller", "`caller` is not a pattern", remedy)
    bound = item.get("entry", "")
    if bound and item.get("decision") != Decision.ALLOW:
        yield Fault(f"{pointer}/entry", "only an allow is bound to an entry", "leave `entry` out")
    elif "entry" in item and not (isinstance(bound, str) and _ORIGIN.fullmatch(bound)):
        remedy = 'copy it from a rule that a card wrote, such as "notes@0123456789abcdef", or leave it out'
        yield Fault(f"{pointer}/entry", "`entry` is not the origin of an entry", remedy)
    if "expires" in item and read_expiry(item["expires"]) is None:
        remedy = 'write date, time and zone, such as "2030-01-31T18:00:00+01:00"'
        yield Fault(f"{pointer}/expires", "`expires` is not a date and time with a time zone", remedy)
    if "when" in item:
        remedy = 'write a JSON Schema such as {"properties": {"path": {"const": "README.md"}}}'
        for place, message in schema_faults(item["when"]):
            yield Fault(f"{pointer}/when{place}", message, remedy)


def _example_faults(item: JsonObject, pointer: str) -> Iterator[Fault]:
    """Yield the examples that a rule contradicts: such a rule is not what the person meant."""
    for key, expected in (("match", True), ("not_match", False)):
        examples = item.get(key, [])
        place = f"{pointer}/{key}"
        if not isinstance(examples, list) or len(examples) > MAX_EXAMPLES:
            yield Fault(place, f"`{key}` is a list of at most {MAX_EXAMPLES} example calls", _EXAMPLE)
            continue
        for index, example in enumerate(examples):
            call = read_example(example)
            if call is None:
                yield Fault(f"{place}/{index}", "is not an example call", _EXAMPLE)
            elif _is_costly_example(item, call):
                yield Fault(
                    f"{place}/{index}", "the example is too large to be tried", "write a smaller example"
                )
            elif _matches_example(item, call) is not expected:
                word = "does not match" if expected else "matches"
                yield Fault(
                    f"{place}/{index}", f"the rule {word} this example", "correct the rule or the example"
                )


def read_example(example: Json) -> PolicyCall | None:
    """Return the call that an example describes; None where it is not an example. A string is a tool's name;
    `tool` is empty where the example names none."""
    if isinstance(example, str):
        return PolicyCall(tool=example) if example else None
    if not isinstance(example, dict) or not example or set(example) - set(EXAMPLE_KEYS):
        return None
    tool, value, caller = example.get("tool", ""), example.get("input"), example.get("caller", "")
    if not isinstance(tool, str) or not isinstance(caller, str):
        return None
    if "input" in example and not isinstance(value, dict):
        return None
    return PolicyCall(
        tool=tool, input=value if isinstance(value, dict) else None, caller=caller_named(caller)
    )


def caller_named(text: str) -> Caller | None:
    """Return a caller that is known only by its program's name or its executable's path; None for an empty
    text."""
    if not text:
        return None
    return Caller(door="socket", program=text.rpartition("/")[2], executable=text if "/" in text else "")


def _is_costly_example(item: JsonObject, call: PolicyCall) -> bool:
    # A file may have a million examples, and each of these would take a process of its own.
    when = item.get("when")
    return call.input is not None and isinstance(when, dict) and needs_process(when, call.input)


def _matches_example(item: JsonObject, call: PolicyCall) -> bool:
    """Return whether the rule matches every part that the example names. A part it leaves out counts as
    matching."""
    tool, caller, when = str(item["tool"]), item.get("caller"), item.get("when")
    parts = [Match.YES]
    if call.tool and not matches(tool, call.tool):
        parts.append(Match.NO)
    if call.caller is not None and isinstance(caller, str):
        parts.append(match_caller(caller, call.caller))
    if call.input is not None and isinstance(when, dict):
        parts.append(match_input(when, call.input))
    return combine_matches(*parts) is Match.YES
