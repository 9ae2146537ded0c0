"""Reads a YAML file of a person as JSON values, with the place of every key and value.

The YAML is read as events, so that no tag builds an object. Scalars have the types of YAML 1.2's core schema
(YAML 1.2.2, 10.3.2): `NO`, `yes` and `2024-01-01` are texts. Refused are anchors, aliases, tags, merge keys,
duplicate keys, further documents, and numbers that JSON cannot hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.json import Json, pointer_join

if TYPE_CHECKING:
    from ruamel.yaml.error import StringMark

Event = Any
"""An event of ruamel's parser. Which attributes it has depends on its kind, which its class names."""

MAX_YAML_BYTES = 256 * 1024
"""Bytes of one file. ruamel reads about a megabyte a second, and a manifest has a few kilobytes."""
DEEPEST = 32
MOST_VALUES = 20_000
MOST_PROBLEMS = 50
"""Problems of one file that are listed."""
_LARGEST = 2**63
_WORDS = {
    **dict.fromkeys(("null", "Null", "NULL", "~", "")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL, _HEX = re.compile(r"0o([0-7]+)"), re.compile(r"0x([0-9a-fA-F]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class YamlText(msgspec.Struct):
    """The value of one YAML file, with places and problems. `value` is None where it does not parse."""

    file: str
    """Name of the file for people: relative to the app root, or as it was given."""
    value: Json = None
    parsed: bool = False
    places: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    """Line and column, from 1, of each value, by its pointer; of an object's member, that of its key."""
    problems: list[Diagnostic] = msgspec.field(default_factory=list)

    def nearest_position(self, pointer: str) -> Position:
        """Return the position of the value, or of the nearest existing one around it."""
        while pointer and pointer not in self.places:
            pointer = pointer.rpartition("/")[0]
        line, column = self.places.get(pointer, (1, 1))
        return Position(file=self.file, line=line, column=column)

    def add(self, place: tuple[int, int], pointer: str, rule: str, message: str, remedy: str) -> None:
        """Add an error at a line and column."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(
                Diagnostic(
                    severity=Severity.ERROR,
                    rule=rule,
                    message=message,
                    remedy=remedy,
                    pointer=pointer,
                    position=Position(file=self.file, line=place[0], column=place[1]),
                )
            )


def read_yaml(text: str, shown: str, *, deepest: int = DEEPEST, typed: bool = True) -> YamlText:
    """Return the value of the text, with every problem that could be found. Never raises.

    Without `typed`, each scalar is a text as it is written, and anchors and tags mean nothing.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    found = YamlText(shown)
    try:
        built = _Builder(found, YAML(typ="safe", pure=True).parse(text), deepest, typed)
        found.value = built.document()
        found.parsed = True
    except _TooMuchError as error:
        found.add(error.place, "", "yaml-size", str(error), "split or shorten the file")
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = f"not YAML: {error.problem or 'it cannot be read'}".replace("\n", " ")
        found.add(_place(mark), "", "yaml-syntax", said, "correct the line, or quote the value")
    except (YAMLError, ValueError, RecursionError):
        problem = "holds a character or a structure that YAML does not allow"
        found.add((1, 1), "", "yaml-syntax", problem, "remove it")
    if not found.parsed:
        found.value = None
    return found


class _TooMuchError(Exception):
    """The file holds more than is read."""

    def __init__(self, message: str, place: tuple[int, int]) -> None:
        super().__init__(message)
        self.place = place


def _place(mark: StringMark | None) -> tuple[int, int]:
    return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)


class _Builder:
    """Builds the value from a parser's events, and notes places and problems."""

    def __init__(self, found: YamlText, events: Iterator[Event], deepest: int, typed: bool) -> None:
        self._found, self._events = found, events
        self._deepest, self._typed = deepest, typed
        self._count = 0

    def document(self) -> Json:
        """Return the value of the only document; None for an empty file."""
        value: Json = None
        documents = 0
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                documents += 1
                if documents == 2:
                    self._problem(event, "", "yaml-documents", "a second document begins here", "remove it")
            elif kind not in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent"):
                built = self._node(event, "", 0, _place(event.start_mark))
                value = built if documents < 2 else value
        return value

    def _node(self, event: Event, pointer: str, depth: int, place: tuple[int, int]) -> Json:
        self._count += 1
        if depth > self._deepest:
            raise _TooMuchError(f"is nested deeper than {self._deepest} levels", _place(event.start_mark))
        if self._count > MOST_VALUES:
            raise _TooMuchError(f"holds more than {MOST_VALUES:,} values", _place(event.start_mark))
        self._found.places.setdefault(pointer, place)
        kind = type(event).__name__
        if kind == "AliasEvent":
            self._problem(event, pointer, "yaml-alias", "an alias is not read", "write the value itself")
            return None
        if event.anchor and self._typed:
            self._problem(event, pointer, "yaml-alias", "an anchor is not read", "remove it")
        if event.tag and self._typed:
            self._problem(event, pointer, "yaml-tag", "a tag is not read", "remove it")
        if kind == "ScalarEvent":
            return self._scalar(event, pointer)
        if kind == "SequenceStartEvent":
            return self._sequence(pointer, depth)
        return self._mapping(pointer, depth)

    def _sequence(self, pointer: str, depth: int) -> Json:
        items: list[Json] = []
        for event in self._until("SequenceEndEvent"):
            below = pointer_join(pointer, len(items))
            items.append(self._node(event, below, depth + 1, _place(event.start_mark)))
        return items

    def _mapping(self, pointer: str, depth: int) -> Json:
        members: dict[str, Json] = {}
        lines: dict[str, int] = {}
        for event in self._until("MappingEndEvent"):
            place = _place(event.start_mark)
            key = self._key(event, pointer)
            if key in lines:
                said = f"the key {key} is on line {lines[key]} already"
                self._problem(event, pointer, "duplicate-key", said, "keep one of the two")
            value = self._node(next(self._events), pointer_join(pointer, key), depth + 1, place)
            if key not in lines:
                lines[key], members[key] = place[0], value
        return members

    def _key(self, event: Event, pointer: str) -> str:
        if type(event).__name__ == "ScalarEvent" and not event.tag and not event.anchor:
            if event.value == "<<" and event.style is None:
                remedy = "write the keys themselves"
                self._problem(event, pointer, "yaml-alias", "a merge key is not read", remedy)
            return str(event.value)
        self._problem(event, pointer, "yaml-key", "a key must be a plain text", "write a text")
        # The rest of a key that is a list or mapping is read, so that what follows it is found.
        self._node(event, pointer_join(pointer, "?"), self._deepest - 1, _place(event.start_mark))
        return "?"

    def _scalar(self, event: Event, pointer: str) -> Json:
        text = str(event.value)
        if event.style is not None or not self._typed:  # quoted, or a block: always a text
            return text
        value = _plain(text)
        if isinstance(value, int | float) and not (math.isfinite(value) and abs(value) < _LARGEST):
            said = "a number that JSON programs do not read alike"
            self._problem(event, pointer, "yaml-number", said, "write a smaller number, or quote it")
            return None
        return value

    def _until(self, end: str) -> Iterator[Event]:
        for event in self._events:
            if type(event).__name__ == end:
                return
            yield event

    def _problem(self, event: Event, pointer: str, rule: str, message: str, remedy: str) -> None:
        self._found.add(_place(event.start_mark), pointer, rule, message, remedy)


def _plain(text: str) -> Json:
    """Return the value of a plain scalar in the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if _DECIMAL.fullmatch(text):
        # Python refuses to read thousands of digits at once; no JSON program reads that many.
        return int(text) if len(text) < 40 else math.inf
    if match := _OCTAL.fullmatch(text) or _HEX.fullmatch(text):
        return int(match[1], 8 if text[1] == "o" else 16) if len(text) < 40 else math.inf
    if _FLOAT.fullmatch(text):
        return float(text)
    return math.inf if _NOT_FINITE.fullmatch(text) else text
