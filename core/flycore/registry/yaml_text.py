"""Reads a YAML text into a value of JSON, with the place of each part.

The text is read as events, so that no tag builds an object. Aliases are refused, because a few of them can
expand to gigabytes. Plain scalars have the types of the core schema of YAML 1.2: `yes` and `on` are texts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.json import Json, JsonObject, pointer_join

if TYPE_CHECKING:
    from ruamel.yaml.events import Event, ScalarEvent

DEEPEST = 32
MOST_VALUES = 20_000
"""Values of one text. The parser takes some 50 microseconds for each."""
MOST_SHOWN = 80
"""Most characters of a key in a message."""
_NULL = ("", "~", "null", "Null", "NULL")
_BOOLEANS = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INTEGER = re.compile(r"[-+]?[0-9]{1,20}")
_OTHER_BASE = re.compile(r"0o[0-7]{1,20}|0x[0-9a-fA-F]{1,16}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,4})?")
_TEXT_TAG = "tag:yaml.org,2002:str"


class YamlFault(NamedTuple):
    """Why a text cannot be read. `message` continues a sentence that begins with the name of the text."""

    message: str
    remedy: str
    line: int = 1
    column: int = 1


@dataclass(slots=True)
class YamlText:
    """The value of a YAML text, and the place of each of its parts."""

    file: str
    """Name of the file for people."""
    value: Json = None
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Line and column of each value, by JSON pointer, for a member that of its key; counted from 1."""

    def nearest_position(self, pointer: str) -> Position:
        """Return the position of the value, or of the nearest existing value around it."""
        while pointer and pointer not in self.places:
            pointer = pointer.rpartition("/")[0]
        line, column = self.places.get(pointer, (1, 1))
        return Position(file=self.file, line=line, column=column)


def read_yaml(text: str, file: str) -> tuple[YamlText, Diagnostic | None]:
    """Return the value of the text with its places, or an empty one and the error."""
    read = parse_yaml(text, deepest=DEEPEST)
    if not isinstance(read, YamlFault):
        return YamlText(file, read.value, dict(read.places)), None
    twice = read.message.endswith(" twice")
    return YamlText(file), Diagnostic(
        severity=Severity.ERROR,
        rule="duplicate-key" if twice else "syntax",
        message=f"{file} {read.message}",
        remedy=read.remedy,
        position=Position(file=file, line=read.line, column=read.column),
    )


class ParsedYaml(NamedTuple):
    """The value, and line and column of each part by JSON pointer."""

    value: Json
    places: Mapping[str, tuple[int, int]]


def parse_yaml(text: str, *, deepest: int, typed: bool = True) -> ParsedYaml | YamlFault:
    """Return the first document of the text, or why it cannot be read. An empty text is an empty mapping.

    Without `typed`, each scalar is a text as it is written.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        builder = _Builder(YAML(typ="safe", pure=True).parse(text), deepest, typed)
        return ParsedYaml(builder.document(), builder.places)
    except _Refused as refused:
        return refused.fault
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        problem = f"is not YAML: {error.problem or 'it cannot be read'}"
        return YamlFault(problem, "correct the line, or put the value in quotes", line, column)
    except YAMLError:
        return YamlFault("has a character that YAML does not allow", "remove it")


class _Refused(Exception):
    """The text uses a feature of YAML that is not allowed in it."""

    def __init__(self, message: str, remedy: str, event: Event | None = None) -> None:
        super().__init__(message)
        self.fault = YamlFault(message, remedy, *_place(event))


def _place(event: Event | None) -> tuple[int, int]:
    mark = getattr(event, "start_mark", None)
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)


class _Builder:
    """Builds the value from the events of a parser."""

    def __init__(self, events: Iterator[Event], deepest: int, typed: bool) -> None:
        self._events, self._deepest, self._typed = events, deepest, typed
        self._values = 0
        self.places: dict[str, tuple[int, int]] = {}

    def document(self) -> Json:
        """Return the first document. Raises _Refused, and the errors of the parser."""
        for event in self._events:
            if type(event).__name__ not in ("StreamStartEvent", "DocumentStartEvent"):
                if type(event).__name__ == "StreamEndEvent":
                    return {}
                return self._node(event, 0, "")
        return {}

    def _node(self, event: Event, depth: int, pointer: str) -> Json:
        from ruamel.yaml.events import AliasEvent, MappingStartEvent, ScalarEvent, SequenceStartEvent

        self.places.setdefault(pointer, _place(event))
        self._values += 1
        if isinstance(event, AliasEvent):
            raise _Refused("has an alias", "write the value itself", event)
        if depth > self._deepest:
            raise _Refused(f"is nested deeper than {self._deepest} levels", "nest less", event)
        if self._values > MOST_VALUES:
            raise _Refused(f"holds more than {MOST_VALUES:,} values", "shorten it", event)
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        if isinstance(event, SequenceStartEvent):
            return [
                self._node(item, depth + 1, pointer_join(pointer, number))
                for number, item in enumerate(self._until_end())
            ]
        if isinstance(event, MappingStartEvent):
            return self._mapping(depth, pointer)
        return ""

    def _mapping(self, depth: int, pointer: str) -> JsonObject:
        found: JsonObject = {}
        for event in self._until_end():
            key = getattr(event, "value", None)
            if type(event).__name__ == "AliasEvent":
                raise _Refused("has an alias", "write the value itself", event)
            if not isinstance(key, str):
                raise _Refused("has a key that is not a text", "write a text", event)
            if key in found:
                raise _Refused(f"has the key {key[:MOST_SHOWN]} twice", "keep one of the two", event)
            below = pointer_join(pointer, key)
            self.places[below] = _place(event)
            found[key] = self._node(next(self._events), depth + 1, below)
        return found

    def _scalar(self, event: ScalarEvent) -> Json:
        text = str(event.value)
        tag = str(event.tag or "")
        if not self._typed:
            return text
        if tag not in ("", "!", _TEXT_TAG):
            raise _Refused("has a tag", "write the value without it", event)
        return text if tag or event.style is not None else _plain_value(text, event)

    def _until_end(self) -> Iterator[Event]:
        for event in self._events:
            if type(event).__name__ in ("SequenceEndEvent", "MappingEndEvent", "DocumentEndEvent"):
                return
            yield event


def _plain_value(text: str, event: Event) -> Json:
    """Return the value of a scalar that is not in quotes, by the core schema of YAML 1.2."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if math.isfinite(number):
            return number
    if text.lower().lstrip("+-") in (".inf", ".nan") or _FLOAT.fullmatch(text):
        raise _Refused("has a number that JSON cannot hold", "write a finite number, or a text", event)
    return text
