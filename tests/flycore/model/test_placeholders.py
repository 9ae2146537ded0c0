"""Placeholders: types are kept, what is absent is left out, and a value is never looked at again."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from flycore.model.placeholders import (
    ABSENT,
    as_text,
    fill,
    fill_text,
    malformed,
    names_in,
    pieces_of,
    whole_name,
)
from kits.tables import each_row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
HOSTILE = st.text("${}abc;|&\n\r\"'`\\/?#%..<>-= \0", max_size=30) | st.text(max_size=30)


@each_row("value", [1, 1.5, True, None, "x", [1], {"a": 1}, ""])
def test_a_whole_value_keeps_its_type(value: object) -> None:
    filled = fill({"key": "${name}"}, {"name": value})
    assert filled == {"key": value}
    assert type(filled["key"]) is type(value)


def test_what_is_absent_is_left_out_at_every_depth() -> None:
    template = {"a": "${x}", "b": "-${x}-", "c": ["${x}", "k", {"d": "${x}"}], "e": "${y}"}
    assert fill(template, {"y": 0}) == {"c": ["k", {}], "e": 0}
    assert fill("${x}", {}) is ABSENT
    assert fill_text("a${x}", {}) is ABSENT


@each_row(
    ("text", "names", "whole", "bad"),
    [
        ("${a}", ("a",), "a", False),
        ("${a}${b-c.d}", ("a", "b-c.d"), "", False),
        ("$a {a} $ {a}", (), "", False),
        ("${", (), "", True),
        ("${a", (), "", True),
        ("${}", (), "", True),
        ("${1}", (), "", True),
        ("${a b}", (), "", True),
        ("${${a}}", ("a",), "", True),
        ("$${a}", ("a",), "", False),
    ],
)
def test_placeholders_are_found(text: str, names: tuple[str, ...], whole: str, bad: bool) -> None:
    assert (names_in(text), whole_name(text), malformed(text)) == (names, whole, bad)
    assert "".join(piece.text or f"${{{piece.name}}}" for piece in pieces_of(text)) == text


@given(HOSTILE, HOSTILE)
def test_a_value_stays_what_it_is_whatever_it_holds(first: str, second: str) -> None:
    values = {"a": first, "b": second}
    assert fill("${a}", values) == first
    assert fill_text("[${a}|${b}]", values) == f"[{first}|{second}]"


@given(JSON, HOSTILE)
def test_a_value_that_looks_like_a_placeholder_is_not_filled_in(value: object, text: str) -> None:
    filled = fill({"x": "${a}", "y": ["${b}"]}, {"a": value, "b": text})
    assert filled == {"x": value, "y": [text]}


@given(JSON)
def test_a_value_that_is_no_text_is_written_as_json(value: object) -> None:
    if not isinstance(value, str):
        assert json.loads(as_text(value)) == value
