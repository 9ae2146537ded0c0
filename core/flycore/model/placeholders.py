"""Placeholders: `${name}` in a template stands for an input of the call or for a declared secret.

Filling in is done once: nothing in a value is looked at again, so a value that holds `${…}` stays what it
is. No text that is made here is read by a shell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from flycore.model.json import Json, pointer_join

NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,127}"
_PLACEHOLDER = re.compile(r"\$\{(" + NAME + r")\}")
_OPENING = re.compile(r"\$\{")


class Absence(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absence.ABSENT
"""What a template without a value for one of its placeholders gives: its key or argument is left out."""

Values = Mapping[str, Json]
Encode = Callable[[str], str]
"""Writes a value's text so that it has no effect beyond its place, such as percent-encoding in a URL."""


class Piece(NamedTuple):
    """A part of a template: text as it is, or the name of a placeholder."""

    text: str = ""
    name: str = ""


def pieces_of(template: str) -> list[Piece]:
    """Return the parts of a template in their order."""
    found: list[Piece] = []
    end = 0
    for match in _PLACEHOLDER.finditer(template):
        if match.start() > end:
            found.append(Piece(text=template[end : match.start()]))
        found.append(Piece(name=match[1]))
        end = match.end()
    if end < len(template):
        found.append(Piece(text=template[end:]))
    return found


def whole_name(template: str) -> str:
    """Return the name where the template is one placeholder and nothing else; empty where it is not."""
    match = _PLACEHOLDER.fullmatch(template)
    return match[1] if match is not None else ""


def names_in(template: str) -> tuple[str, ...]:
    """Return the names of the placeholders in a text."""
    return tuple(match[1] for match in _PLACEHOLDER.finditer(template))


def malformed(template: str) -> bool:
    """Return whether the text has a `${` that begins no placeholder."""
    return len(_OPENING.findall(template)) != len(_PLACEHOLDER.findall(template))


def templates_in(value: Json, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Yield the pointer and the text of each string in a value, keys of objects left out."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from templates_in(item, pointer_join(pointer, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from templates_in(item, pointer_join(pointer, number))


def as_text(value: Json) -> str:
    """Return a value as it is written into a text: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def fill_text(template: str, values: Values, encode: Encode | None = None) -> str | Absence:
    """Return the text with every placeholder filled in; ABSENT where one of them has no value.

    `encode` is applied to each value, never to the template's own text.
    """
    filled: list[str] = []
    for piece in pieces_of(template):
        if not piece.name:
            filled.append(piece.text)
        elif piece.name not in values:
            return ABSENT
        else:
            text = as_text(values[piece.name])
            filled.append(text if encode is None else encode(text))
    return "".join(filled)


def fill(template: Json, values: Values) -> Json | Absence:
    """Return the value with every placeholder filled in.

    A string that is one placeholder becomes its value, with the value's type. A key or item whose template
    has a placeholder without a value is left out; ABSENT where that is the template itself.
    """
    if isinstance(template, str):
        if name := whole_name(template):
            return values.get(name, ABSENT)
        return fill_text(template, values)
    if isinstance(template, dict):
        made = {key: fill(item, values) for key, item in template.items()}
        return {key: item for key, item in made.items() if not isinstance(item, Absence)}
    if isinstance(template, list):
        items = [fill(item, values) for item in template]
        return [item for item in items if not isinstance(item, Absence)]
    return template
