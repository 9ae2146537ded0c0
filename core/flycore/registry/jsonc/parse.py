"""Parses JSONC into a value, the places of its parts, and its problems with line and caret."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.json import Json, pointer_join
from flycore.registry.jsonc.spans import SpanIndex, scan

MAX_DEPTH = 32
MAX_EXCERPT = 120
_NEAR = re.compile(r"near (\d+)")
_QUOTED = re.compile(r"b'(\w+)'")


def read_jsonc(text: str, file: str) -> tuple[Json | None, SpanIndex | None, tuple[Diagnostic, ...]]:
    """Parse `text` and return the value, the index of its parts, and the problems.

    Where the text does not parse, the first two are None and the only problem is an error. Duplicate keys
    and numbers that JSON cannot hold are errors, and syntax of JSON5 is a warning; the value is returned all
    the same, with the last of two equal keys. `file` is the name of the file in positions.
    """
    value, problem = parse_jsonc(text, file)
    if problem is not None:
        return None, None, (problem,)
    index = scan(text)
    return value, index, tuple(index_findings(value, index, file))


def parse_jsonc(text: str, file: str) -> tuple[Json | None, Diagnostic | None]:
    """Return the value, or the error where the text does not parse."""
    import pyjson5

    if "\0" in text:
        return None, syntax_error(text, text.index("\0"), file, "a NUL character", "remove it")
    if not text.strip("\ufeff \t\r\n"):
        return None, syntax_error(text, 0, file, "the file is empty", 'write at least {"schemaVersion": 2}')
    try:
        return pyjson5.decode(text, MAX_DEPTH), None
    except pyjson5.Json5NestingTooDeep as error:
        problem = f"nested deeper than {MAX_DEPTH} levels"
        return None, syntax_error(text, _offset(error, text), file, problem, "nest less")
    except pyjson5.Json5DecoderException as error:
        problem = _sentence(str(error.args[0]) if error.args else "not JSON")
        remedy = "check for a missing comma, quote or closing bracket at or just before this place"
        return None, syntax_error(text, _offset(error, text), file, problem, remedy)


def syntax_error(text: str, offset: int, file: str, message: str, remedy: str) -> Diagnostic:
    """Return the error for a file that does not parse, with the line and a caret below the place."""
    offset = min(offset, len(text))
    column = offset - (text.rfind("\n", 0, offset) + 1)
    return Diagnostic(
        severity=Severity.ERROR,
        rule="syntax",
        message=f"does not parse: {message}",
        remedy=remedy,
        position=Position(file=file, line=text.count("\n", 0, offset) + 1, column=column + 1),
        excerpt=excerpt_at(text, offset),
    )


def excerpt_at(text: str, offset: int) -> str:
    """Return the line of that character, or the part around it of a long line, and a caret below it."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    line = text[start : len(text) if end < 0 else end].rstrip("\r")
    column = offset - start
    cut = max(0, column - MAX_EXCERPT // 2)
    shown = line[cut : cut + MAX_EXCERPT].replace("\t", " ")
    return f"{shown}\n{' ' * (column - cut)}^"


def index_findings(value: Json, index: SpanIndex, file: str) -> Iterator[Diagnostic]:
    """Yield the duplicate keys, the syntax that only JSON5 has, and numbers that JSON cannot hold."""
    for pointer, first, second in index.duplicates:
        lines = index.position(first.start)[0], index.position(second.start)[0]
        yield finding(
            index,
            file,
            pointer,
            second.start,
            "duplicate-key",
            f"the key is written twice, in line {lines[0]} and in line {lines[1]}",
            "keep one of the two",
        )
    for offset, message, remedy in index.lints:
        yield finding(index, file, "", offset, "json5-only", message, remedy, Severity.WARNING)
    for pointer in non_finite(value):
        span = index.value(pointer)
        yield finding(
            index,
            file,
            pointer,
            span.start if span else 0,
            "not-json",
            "not a number that JSON can hold",
            "write a finite number, or a string",
        )


def finding(
    index: SpanIndex,
    file: str,
    pointer: str,
    offset: int,
    rule: str,
    message: str,
    remedy: str,
    severity: Severity = Severity.ERROR,
) -> Diagnostic:
    """Return a diagnostic at a character offset."""
    line, column = index.position(offset)
    return Diagnostic(
        severity=severity,
        rule=rule,
        message=message,
        remedy=remedy,
        pointer=pointer,
        position=Position(file=file, line=line, column=column),
    )


def non_finite(value: Json, pointer: str = "") -> Iterator[str]:
    """Yield the pointers of NaN and infinite numbers, which JSON5 has and JSON does not have."""
    if isinstance(value, float):
        if not math.isfinite(value):
            yield pointer
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from non_finite(item, pointer_join(pointer, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from non_finite(item, pointer_join(pointer, number))


def _offset(error: Exception, text: str) -> int:
    """Return the offset of the error in the text."""
    import pyjson5

    # The parser counts from 1. For extra data after the value it names the last character of the value.
    found = _NEAR.search(str(error.args[0])) if error.args else None
    if found is None:
        return 0
    if not isinstance(error, pyjson5.Json5ExtraData):
        return max(0, int(found[1]) - 1)
    rest = text[int(found[1]) :]
    return int(found[1]) + len(rest) - len(rest.lstrip())


def _sentence(message: str) -> str:
    """Return the message of the parser without its offset, and with characters in place of code points."""
    message = re.sub(r"\s*(?:starting )?near \d+", "", _QUOTED.sub(r"\1", message))
    message = re.sub(r"U\+([0-9a-fA-F]{4,6})", _printable, message)
    return message[:1].lower() + message[1:]


def _printable(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return f"«{chr(code)}»" if 0x20 < code < 0x7F else match[0].upper()
