"""What is wrong with one rule as it is written: keys, values, conditions, and examples that do not hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from flycore.model.call import Caller
from flycore.model.enums import Decision
from flycore.model.json import Json, JsonObject, pointer_join
from flycore.policy.conditions import (
    Match,
    PolicyCall,
    combine_matches,
    match_caller,
    match_input,
    read_expiry,
    schema_faults,
)
from flycore.policy.patterns import MAX_PATTERN, matches

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
