"""The span index against the parser: every span, cut out and parsed alone, gives the value it names."""

from __future__ import annotations

import json
from typing import Any

import pyjson5
from hypothesis import given, settings
from hypothesis import strategies as st

from flycore.model.json import pointer_join
from flycore.registry.jsonc.spans import plain_keys, scan
from kits.suites import examples

SCALARS = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=6)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)
GAPS = st.sampled_from(["", " ", "\n", '/* } " */', "// ' {\n", "\t"])


def written(value: Any, draw: Any) -> str:
    """The value as JSONC with comments and trailing commas wherever they may be."""
    gap = draw(GAPS)
    if isinstance(value, dict):
        parts = [f"{draw(GAPS)}{json.dumps(key)}:{written(item, draw)}" for key, item in value.items()]
    elif isinstance(value, list):
        parts = [written(item, draw) for item in value]
    else:
        return f"{gap}{json.dumps(value)}{draw(GAPS)}"
    tail = "," if parts and draw(st.booleans()) else ""
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{gap}{opening}{','.join(parts)}{tail}{draw(GAPS)}{closing}{draw(GAPS)}"


def pointers(value: Any, pointer: str = "") -> list[tuple[str, Any]]:
    """Every value with its pointer."""
    found = [(pointer, value)]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += pointers(item, pointer_join(pointer, key))
    return found


@given(st.data(), JSON)
@settings(max_examples=examples(200), deadline=None)
def test_each_span_is_its_value(data: st.DataObject, value: Any) -> None:
    text = written(value, data.draw)
    index = scan(text)
    assert index.lints == []
    assert index.duplicates == []
    expected = pointers(value)
    assert set(index.values) == {pointer for pointer, _ in expected}
    for pointer, item in expected:
        span = index.values[pointer]
        assert pyjson5.decode(text[span.start : span.end]) == item


@given(st.data(), st.dictionaries(st.text(max_size=4), JSON, max_size=4))
@settings(max_examples=examples(200), deadline=None)
def test_the_keys_of_an_entry_stand_where_the_scan_finds_them(
    data: st.DataObject, entry: dict[str, Any]
) -> None:
    text = f'"an.id":{written(entry, data.draw)}'
    quick = plain_keys(text)
    if quick is None:
        return
    index = scan(f"{{{text}}}")
    assert quick == {key: index.keys[f"/an.id{pointer_join('', key)}"].start - 1 for key in entry}


def test_the_keys_of_an_entry_are_read_from_plain_jsonc_and_from_nothing_else() -> None:
    plain = '"a": {"command": "x", // "no": 1\n "tools": [{"name": "}"}], }'
    assert plain_keys(plain) == {"command": plain.index('"command"'), "tools": plain.index('"tools"')}
    for body in ("{'b': 1}", '{"b" : 1}', "{b: 1}", '{"b": 0x1}', "5", '{"b": 1'):
        assert plain_keys(f'"a": {body}') is None
