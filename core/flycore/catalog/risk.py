"""The effect of a call in one sentence, and its risk: functions of the input.

A template is plain text with `{field}`, `{field|words for when it is absent}` and `[parts that are left
out when none of their fields is given]`. It is filled in one pass, so nothing inside a value is expanded.
Values are quoted as JSON strings, so that none can pass for the sentence around it.
"""

from __future__ import annotations

import json
import re

from flycore.catalog.schemas import accepts
from flycore.model.catalog import Capability
from flycore.model.enums import Risk
from flycore.model.json import Json, JsonObject

SHOWN = 200
"""A value of at most this many characters is shown whole."""

_FIELD = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)(?:\|([^{}\[\]]*))?\}")
_PART = re.compile(r"\[([^\[\]]*)\]")
ABSENT = "(not given)"


def effect_sentence(capability: Capability, input: JsonObject) -> str:
    """Return the card's effect sentence, without a full stop. For a tool without a template, it names the
    tool and its fields."""
    action = input.get("action")
    template = capability.effects.get(action, "") if isinstance(action, str) else ""
    template = template or capability.effect
    if not template:
        return _plain(capability.name, input)
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
    capability's."""
    for rule in capability.risk_when:
        if accepts(rule.when, input):
            return rule.risk
    return capability.risk


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


def _plain(name: str, input: JsonObject) -> str:
    fields = ", ".join(json.dumps(key, ensure_ascii=False) for key in input)
    listed = fields if len(fields) <= SHOWN else f"{fields[:SHOWN]}… ({len(input):,} fields in all)"
    return f"run {name} with {listed}" if input else f"run {name} without input"
