"""The effect of a call in one sentence, and its risk: functions of the input.

A template is plain text with `{field}`, `{field|words for when it is absent}` and `[parts that are left
out when none of their fields is given]`. It is filled in one pass, so nothing inside a value is expanded.
Values are quoted as JSON strings, so that none can pass for the sentence around it.
"""

from __future__ import annotations

import json
import re

from flycore.catalog.schemas import fits
from flycore.model.catalog import Capability
from flycore.model.enums import Risk
from flycore.model.json import Json, JsonObject

SHOWN = 200
"""A value of at most this many characters is shown whole."""
SHORT = 48
"""An argument of a tool without a template is shown in the sentence up to so many characters."""
MOST_SAID = 120
"""Characters of a server's own sentence that are repeated."""
MOST_ARGUMENTS = 8
"""Arguments that the sentence of a tool without a template shows."""
SERVER_SAYS = "server says: "
"""What a sentence begins with that is not flytui's own."""

_FIELD = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)(?:\|([^{}\[\]]*))?\}")
_PART = re.compile(r"\[([^\[\]]*)\]")
_FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,40}")
_SENTENCE = re.compile(r"[^\n]*?(?=[.!?](?:\s+[^a-z\s]|\s*$)|\n|$)")
ABSENT = "(not given)"


def effect_sentence(capability: Capability, input: JsonObject) -> str:
    """Return the card's effect sentence, without a full stop. For a tool without a template, it repeats the
    first sentence of the tool's own description, marked as such, and the values of its short arguments."""
    action = input.get("action")
    template = capability.effects.get(action, "") if isinstance(action, str) else ""
    template = template or capability.effect
    if not template:
        return _without_template(capability, input)
    pieces: list[str] = []
    end = 0
    for part in _PART.finditer(template):
        pieces.append(_fill_template(template[end : part.start()], input))
        if any(name in input for name in template_fields(part[1])):
            pieces.append(_fill_template(part[1], input))
        end = part.end()
    pieces.append(_fill_template(template[end:], input))
    return "".join(pieces)


def template_fields(template: str) -> tuple[str, ...]:
    """Return the names of the input fields in a template."""
    return tuple(field[1] for field in _FIELD.finditer(template))


def risk_of(capability: Capability, input: JsonObject) -> Risk:
    """Return the risk of a call: that of the first rule whose schema accepts the input, else the
    capability's. A rule that cannot be checked may apply, but only raises the risk."""
    possible: list[Risk] = []
    for rule in capability.risk_when:
        found = fits(rule.when, input)
        if found is not False:
            possible.append(rule.risk)
        if found:
            break
    else:
        possible.append(capability.risk)
    return max(possible, key=lambda risk: risk.rank)


def quoted_value(value: Json) -> str:
    """Return a value as the sentence shows it: whole up to `SHOWN` characters, else its beginning and
    length."""
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        text = " ".join(json.dumps(item, ensure_ascii=False) for item in value)
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(value):,} items in all)"
    if isinstance(value, str):
        if len(value) <= SHOWN:
            return json.dumps(value, ensure_ascii=False)
        return f"{json.dumps(value[:SHOWN], ensure_ascii=False)}… ({len(value):,} characters in all)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters in all)"


def _fill_template(text: str, input: JsonObject) -> str:
    def put(field: re.Match[str]) -> str:
        name, otherwise = field[1], field[2]
        if name in input:
            return quoted_value(input[name])
        return ABSENT if otherwise is None else otherwise

    return _FIELD.sub(put, text)


def ordered_fields(schema: JsonObject, input: JsonObject) -> tuple[str, ...]:
    """Return the names of the input's fields as a person reads them: those that the schema requires, then
    its other properties, each in the schema's order, then what the schema does not name."""
    properties = schema.get("properties")
    named = (*required_fields(schema), *(properties if isinstance(properties, dict) else ()))
    return tuple(dict.fromkeys((*(name for name in named if name in input), *sorted(input))))


def required_fields(schema: JsonObject) -> tuple[str, ...]:
    """Return the names of the fields that the schema requires."""
    required = schema.get("required")
    return tuple(name for name in required if isinstance(name, str)) if isinstance(required, list) else ()


def undescribed(name: str, sidecar: str) -> str:
    """Return the description of a tool for which its entry gives none."""
    return f"{name}, offered by the sidecar {sidecar}."


def _without_template(capability: Capability, input: JsonObject) -> str:
    names = ordered_fields(capability.input_schema, input)
    parts = [_argument(name, input[name]) for name in names[:MOST_ARGUMENTS]]
    left = len(names) - len(parts)
    listed = ", ".join((*parts, *((f"and {left:,} more fields",) if left else ())))
    said = _first_sentence(capability)
    what = f"{SERVER_SAYS}{json.dumps(said, ensure_ascii=False)}" if said else f"run {capability.name}"
    return f"{what} with {listed}" if listed else f"{what} without input"


def _argument(name: str, value: Json) -> str:
    # A name that could pass for the words around it is quoted, like every value.
    label = name if _FIELD_NAME.fullmatch(name) else quoted_value(name)
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= SHORT:
        return f"{label} {text}"
    if isinstance(value, dict | list):
        return f"{label} of {len(value):,} {'fields' if isinstance(value, dict) else 'items'}"
    return f"{label} {json.dumps(str(value)[:SHORT], ensure_ascii=False)}… ({len(str(value)):,} characters)"


def _first_sentence(capability: Capability) -> str:
    """Return the first sentence of the description that the tool gives itself; empty where it gives none."""
    text = capability.description
    if text == undescribed(capability.name, capability.sidecar or ""):
        return ""
    found = _SENTENCE.match(text.lstrip())
    said = (found[0] if found else "").strip()
    return said if len(said) <= MOST_SAID else f"{said[:MOST_SAID]}…"
