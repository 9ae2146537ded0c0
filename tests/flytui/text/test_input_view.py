"""The input of a request as its card shows it."""

from __future__ import annotations

import json

from flytui.text.input_view import BEGINNING, field_beginnings
from kits.tables import each_row

LONG = "x" * 100


@each_row(
    ("value", "names"),
    [
        ({}, []),
        ({"to": "eve", "body": LONG}, ["to", "body"]),
        ({"headers": {"Authorization": LONG}, "n": 1}, ["headers", "Authorization", "n"]),
        ({"items": [{"a": 1}, {"b": [2]}]}, ["items", "a", "b"]),
        ({"text": 'no "field": here, {"nor": "here"}'}, ["text"]),
        ([1, "a:b"], []),
    ],
)
def test_every_field_at_any_depth_has_a_beginning(value: object, names: list[str]) -> None:
    text = json.dumps(value, separators=(",", ":"))
    parts = [text[start:end] for start, end in field_beginnings(text)]
    assert [json.loads(part.split(":")[0]) for part in parts] == names
    assert all(len(part) <= len(name) + 3 + BEGINNING for part, name in zip(parts, names, strict=True))


def test_text_that_is_no_json_is_no_reason_to_fail() -> None:
    assert field_beginnings('{"a":"never closed') == [(1, 18)]
