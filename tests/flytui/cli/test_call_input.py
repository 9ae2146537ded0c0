"""The input of `flytui call`, in every form a person may write it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flycore.model.json import Json, JsonObject
from flytui.cli.call_input import MAX_STDIN_BYTES, CallInputError, read_input_words, typed_input
from kits.tables import each_row

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "count": {"type": "integer"}, "paths": {"type": "array"}},
}


def stdin_of(data: bytes) -> Callable[[int], bytes]:
    """A standard input that holds `data`."""
    return lambda limit: data[:limit]


def no_stdin(limit: int) -> bytes:
    """Standard input must not be read."""
    raise AssertionError("standard input was read")


@each_row(
    ("words", "option", "expected"),
    [
        (('{"a": 1}',), None, {"a": 1}),
        ((' {"a": {"b": [null]}}',), None, {"a": {"b": [None]}}),
        ((), '{"a": "ü"}', {"a": "ü"}),
        ((), None, ()),
        (("path=README.md",), None, (("path", "README.md"),)),
        (("a=1", "b=x=y", "c="), None, (("a", "1"), ("b", "x=y"), ("c", ""))),
    ],
)
def test_words_are_an_object_or_pairs(words: tuple[str, ...], option: str | None, expected: object) -> None:
    assert read_input_words(words, option, no_stdin) == expected


@pytest.mark.parametrize("form", [(("-",), None), ((), "-")])
def test_a_dash_reads_standard_input(form: tuple[tuple[str, ...], str | None]) -> None:
    assert read_input_words(*form, stdin_of(b'{"a": [1, 2]}\n')) == {"a": [1, 2]}


@each_row(
    ("words", "option", "data", "said"),
    [
        (("{",), None, b"", "line 1, column 2"),
        (('{"a": 1, "a": 2}',), None, b"", "twice"),
        (('{"a": NaN}',), None, b"", "NaN"),
        (("[1]",), None, b"", "no object"),
        ((), "7", b"", "no object"),
        (("a=1",), "{}", b"", "once"),
        (("path",), None, b"", "neither a JSON object nor key=value"),
        (("=1",), None, b"", "neither a JSON object nor key=value"),
        (("a=1", "a=2"), None, b"", "given twice"),
        (('{"a": 1}', "b=2"), None, b"", "neither"),
        (("-",), None, b"", "line 1, column 1"),
        (("-",), None, b"\xff{}", "UTF-8"),
        (("-",), None, b'\xef\xbb\xbf{"a": 1}', "byte order mark"),
        (("-",), None, b" " * (MAX_STDIN_BYTES + 1), "more than"),
        (("-",), None, b"[" * 100_000, "more than 20,000 objects and arrays"),
        (("-",), None, b"[" * 1_000, "deeper"),
        (('{"a": "\udcff"}',), None, b"", "UTF-8"),
    ],
)
def test_what_is_no_input_is_refused_with_a_sentence(
    words: tuple[str, ...], option: str | None, data: bytes, said: str
) -> None:
    with pytest.raises(CallInputError, match=said):
        read_input_words(words, option, stdin_of(data))


@each_row(
    ("key", "text", "expected"),
    [
        ("text", "7", "7"),
        ("text", "true", "true"),
        ("text", "", ""),
        ("count", "7", 7),
        ("count", "many", "many"),
        ("paths", '["a", "b"]', ["a", "b"]),
        ("other", "7", 7),
        ("other", "null", None),
        ("other", '"7"', "7"),
        ("other", "README.md", "README.md"),
        ("other", "NaN", "NaN"),
        ("other", '{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
    ],
)
def test_the_schema_says_what_a_value_is(key: str, text: str, expected: Json) -> None:
    assert typed_input(((key, text),), SCHEMA) == {key: expected}


@pytest.mark.parametrize("schema", [{}, {"properties": None}, {"properties": {"text": True}}])
def test_a_schema_that_says_nothing_leaves_json(schema: JsonObject) -> None:
    assert typed_input((("text", "7"),), schema) == {"text": 7}
