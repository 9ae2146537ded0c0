"""Edits of JSONC texts: the new text says the edited value, and every byte outside the edit is the same.

The documents are random, with comments, trailing commas and white space wherever they may stand.
"""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pyjson5
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flycore.model.json import pointer_join, pointer_keys
from flycore.registry.jsonc.edit import Change, edited, insert_last, remove, set_members, spelled, verify
from flycore.registry.jsonc.spans import Span, scan
from kits.suites import examples
from kits.tables import each_row

KEYS = st.sampled_from(["a", "b/c", "~", "enabled", "", "naïve", 'q"'])
SCALARS = (
    st.none() | st.booleans() | st.integers(-99, 99) | st.sampled_from([1.5, "x, } // ]", "\u202e", "é"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
CONTAINERS = st.lists(VALUES, max_size=3) | st.dictionaries(KEYS, VALUES, max_size=3)
GAPS = st.lists(
    st.sampled_from(
        [" ", "\n", "\r\n  ", "\t", "// c, } ] {\n", '/* , } ] " */', "/**/", "\n    // why\n  "]
    ),
    max_size=3,
).map("".join)
COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|(//[^\n]*|/\*.*?\*/)', re.DOTALL)


def written(value: Any, draw: Any) -> str:
    """The value as a person might write it."""
    if isinstance(value, dict):
        parts = [
            f"{draw(GAPS)}{json.dumps(key)}{draw(GAPS)}:{draw(GAPS)}{written(item, draw)}{draw(GAPS)}"
            for key, item in value.items()
        ]
    elif isinstance(value, list):
        parts = [f"{draw(GAPS)}{written(item, draw)}{draw(GAPS)}" for item in value]
    else:
        return json.dumps(value, ensure_ascii=False)
    tail = "," if parts and draw(st.booleans()) else ""
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}{','.join(parts)}{tail}{draw(GAPS)}{closing}"


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, Any]:
    """A text, and the value it says."""
    value = draw(CONTAINERS)
    return f"{draw(GAPS)}{written(value, draw)}{draw(GAPS)}", value


def pointers(value: Any, pointer: str = "") -> list[str]:
    """The pointer of everything in the value, of itself first."""
    found = [pointer]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += pointers(item, pointer_join(pointer, key))
    return found


def at(value: Any, pointer: str) -> Any:
    """What the pointer names."""
    for key in pointer_keys(pointer):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def outside(text: str, changes: list[Change]) -> list[str]:
    """The pieces of the text that the changes do not touch."""
    edges = [0, *(edge for change in sorted(changes) for edge in change.span), len(text)]
    return [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]


def check(text: str, changes: list[Change], wanted: Any) -> str:
    """The edited text, which says what is wanted and keeps every byte outside the changes in its place."""
    after = edited(text, changes, wanted)
    assert after is not None
    assert json.dumps(pyjson5.decode(after), sort_keys=True) == json.dumps(wanted, sort_keys=True)
    position = 0
    for piece in outside(text, changes):
        position = after.index(piece, position) + len(piece)
    assert after.endswith(outside(text, changes)[-1])
    assert scan(after).duplicates == []
    return after


@given(st.data(), documents(), VALUES)
@settings(max_examples=examples(300), deadline=None)
def test_members_are_set_and_nothing_else_changes(
    data: st.DataObject, document: tuple[str, Any], value: Any
) -> None:
    text, before = document
    objects = [pointer for pointer in pointers(before) if isinstance(at(before, pointer), dict)]
    if not objects:
        return
    pointer = data.draw(st.sampled_from(objects))
    members = data.draw(st.dictionaries(KEYS, st.just(value) | SCALARS, min_size=1, max_size=3))
    behind = data.draw(KEYS)
    wanted = copy.deepcopy(before)
    at(wanted, pointer).update(members)
    changes = set_members(scan(text), pointer, members, behind=behind)
    after = check(text, changes, wanted)
    inserted = [change.text for change in changes if change.span.start == change.span.end]
    assert len(inserted) <= 1
    if not any(isinstance(at(before, pointer).get(key), dict | list) for key in members):
        assert [found for found in COMMENT.findall(after) if found] == [
            found for found in COMMENT.findall(text) if found
        ]


@given(st.data(), documents(), VALUES, st.sampled_from([0, 40]))
@settings(max_examples=examples(300), deadline=None)
def test_one_more_is_inserted_as_the_last_one(
    data: st.DataObject, document: tuple[str, Any], value: Any, one_line: int
) -> None:
    text, before = document
    places = [pointer for pointer in pointers(before) if isinstance(at(before, pointer), dict | list)]
    pointer = data.draw(st.sampled_from(places))
    wanted = copy.deepcopy(before)
    whole = at(wanted, pointer)
    key = "new" if isinstance(whole, dict) else None
    whole.update({"new": value}) if isinstance(whole, dict) else whole.append(value)
    changes = insert_last(scan(text), pointer, value, key=key, one_line=one_line)
    after = check(text, changes, wanted)
    assert all(change.span.start == change.span.end for change in changes), "nothing is taken out"
    last = f"new/{pointer}" if key is None else pointer_join(pointer, "new")
    if key is not None:
        ends = [span.start for place, span in scan(after).keys.items() if place.rpartition("/")[0] == pointer]
        assert scan(after).keys[last].start == max(ends)


@given(st.data(), documents())
@settings(max_examples=examples(300), deadline=None)
def test_one_is_removed_and_comments_beside_it_stay(data: st.DataObject, document: tuple[str, Any]) -> None:
    text, before = document
    inner = pointers(before)[1:]
    if not inner:
        return
    pointer = data.draw(st.sampled_from(inner))
    wanted = copy.deepcopy(before)
    whole, key = at(wanted, pointer.rpartition("/")[0]), pointer_keys(pointer)[-1]
    whole.pop(int(key) if isinstance(whole, list) else key)
    index = scan(text)
    changes = remove(index, pointer)
    after = check(text, changes, wanted)
    start = index.keys[pointer].start if pointer in index.keys else index.values[pointer].start
    end = index.values[pointer].end
    beside = [found for part in (text[:start], text[end:]) for found in COMMENT.findall(part) if found]
    assert [found for found in COMMENT.findall(after) if found] == beside
    gone = "".join(text[span.start : span.end] for span, _ in changes)
    kept = text[start:end]
    assert not gone.replace(kept, "", 1).replace(",", "", 1).strip()


@each_row(
    ("text", "pointer", "after"),
    [
        ("[1, 2]", "/0", "[ 2]"),
        ("[1, 2]", "/1", "[1 ]"),
        ("[1 /* c */, 2,]", "/1", "[1 /* c */, ]"),
        ("[\n  1,\n  2\n]", "/1", "[\n  1\n]"),
        ("[\n  1 // one\n  , 2 // two\n]", "/0", "[\n   // one\n   2 // two\n]"),
        ('{\n  "a": {\n    "b": 1\n  },\n}', "/a", "{\n}"),
    ],
)
def test_a_removal_as_it_is_written(text: str, pointer: str, after: str) -> None:
    value = pyjson5.decode(text)
    value.pop(int(pointer[1:]) if isinstance(value, list) else pointer[1:])
    assert edited(text, remove(scan(text), pointer), value) == after


def test_an_inserted_value_is_indented_as_those_before_it() -> None:
    text = '{\n    "rules": [\n        {"a": 1} // c\n    ]\n}\n'
    changes = insert_last(scan(text), "/rules", {"b": 2}, one_line=40)
    after = edited(text, changes, {"rules": [{"a": 1}, {"b": 2}]})
    assert after == '{\n    "rules": [\n        {"a": 1}, // c\n        {"b": 2}\n    ]\n}\n'


@each_row(
    ("after", "wanted"),
    [
        ('{"a": 2} // c', {"a": 3}),
        ('{"a": 2} // d', {"a": 2}),
        ('{"a": 2}  // c', {"a": 2}),
        ('{"a": 2} // c\n', {"a": 2}),
        ('/**/{"a": 2} // c', {"a": 2}),
        ('{"a": 2', {"a": 2}),
        ('{"a": 2} // c', {"a": 2.0}),
        ('{"a": 2} // c', {"a": float("nan")}),
    ],
)
def test_what_changes_more_or_says_something_else_is_not_verified(after: str, wanted: Any) -> None:
    before, changes = '{"a": 1} // c', [Change(Span(6, 7), "2")]
    assert verify(before, '{"a": 2} // c', changes, {"a": 2})
    assert not verify(before, after, changes, wanted)


def test_changes_that_overlap_are_no_edit() -> None:
    changes = [Change(Span(6, 7), "2"), Change(Span(5, 7), " 2")]
    assert edited('{"a": 1}', changes, {"a": 2}) is None


def test_true_is_not_one() -> None:
    assert edited('{"a": 0}', [Change(Span(6, 7), "true")], {"a": 1}) is None


def test_what_cannot_be_seen_is_spelt_in_ascii() -> None:
    assert spelled("naïve\n") == '"naïve\\n"'
    assert spelled({"a": "é\u202e"}) == '{"a": "\\u00e9\\u202e"}'
    assert spelled({"a": ["é"]}, "  ") == '{\n    "a": [\n      "é"\n    ]\n  }'
    with pytest.raises(ValueError, match="JSON"):
        spelled(float("inf"))
