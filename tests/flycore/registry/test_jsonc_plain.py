"""The fast reader of plain JSONC against the parser of JSON5 and the full scan: it agrees or steps back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flycore.model.enums import Source
from flycore.model.json import pointer_join
from flycore.registry import parse_registry as module
from flycore.registry.entry import _AS_WRITTEN, _READ
from flycore.registry.jsonc.parse import MAX_DEPTH, parse_jsonc
from flycore.registry.jsonc.plain import read_plain
from flycore.registry.jsonc.spans import scan
from flycore.registry.parse_registry import parse_registry
from flycore.registry.schema import known_keys
from kits.suites import examples
from kits.tables import each_row

STRINGS = st.sampled_from(
    [
        "",
        "a",
        "//",
        "/*",
        "*/",
        ",]",
        ",}",
        '"',
        "\\",
        '\\"',
        "ü",
        "😀",
        "'",
        "{",
        " :",
        "https://x.example/*",
        "a\tb",
    ]
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | STRINGS
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=12,
)
GAPS = st.sampled_from(
    ["", "", " ", "\n", "\r\n", '/* } " */', "/* // */", "// ' { /* \"\n", "//,]\r\n", "\t"]
)
WILD = [
    "",
    *"{}[],:'\"\\/*\n\r \t",
    "//",
    "/*",
    "*/",
    ",]",
    ",,",
    "NaN",
    "1e999",
    "0x1",
    "\u2028",
    "\0",
    "\\u00e9",
    "\\ud800",
]
"""What a text is changed by. Most of these make it JSON5 or no JSON at all."""


def written(value: Any, draw: Any) -> str:
    """The value as JSONC with comments and trailing commas wherever they may be."""
    gap = draw(GAPS)
    if isinstance(value, dict):
        parts = [f"{draw(GAPS)}{json.dumps(key, ensure_ascii=draw(st.booleans()))}:{written(item, draw)}"
                 for key, item in value.items()]  # fmt: skip
    elif isinstance(value, list):
        parts = [written(item, draw) for item in value]
    else:
        return f"{gap}{json.dumps(value, ensure_ascii=draw(st.booleans()))}{draw(GAPS)}"
    tail = f",{draw(GAPS)}" if parts and draw(st.booleans()) else ""
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{gap}{opening}{','.join(parts)}{tail}{draw(GAPS)}{closing}{draw(GAPS)}"


SIDECARS = st.dictionaries(
    st.sampled_from(["a", "a.b", "c-d", "sidecars", "ü", "e"]),
    st.dictionaries(STRINGS, JSON, max_size=3),
    max_size=3,
)


def agrees(text: str) -> bool:
    """Whether the fast reader read the text. If so, all is as the parser and the scan have it."""
    plain = read_plain(text)
    if plain is None:
        return False
    value, problem = parse_jsonc(text, "f")
    assert problem is None
    assert repr(plain.value) == repr(value)
    index = scan(text)
    assert index.lints == []
    found = {
        name: (index.keys[pointer].start, index.values[pointer].end)
        for name in plain.places
        for pointer in (pointer_join("/sidecars", name),)
    }
    assert plain.places == found
    sidecars = plain.value.get("sidecars", {})
    assert list(plain.places) == list(sidecars)
    return True


@given(st.data(), SIDECARS)
@settings(max_examples=examples(100), deadline=None)
def test_plain_jsonc_is_read_as_by_the_parser_and_the_scan(
    data: st.DataObject, sidecars: dict[str, Any]
) -> None:
    agrees(written({"schemaVersion": 2, "x": 1.5, "sidecars": sidecars}, data.draw))


@given(st.data(), SIDECARS)
@settings(max_examples=examples(200), deadline=None)
def test_a_text_that_was_changed_anywhere_is_read_alike_or_not_at_all(
    data: st.DataObject, sidecars: dict[str, Any]
) -> None:
    text = written({"schemaVersion": 2, "sidecars": sidecars}, data.draw)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = start + data.draw(st.integers(0, 2))
        text = text[:start] + data.draw(st.sampled_from(WILD)) + text[end:]
    agrees(text)


ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "command": st.sampled_from(["true", "./tools/x", "", "flytui-sidecar"]),
        "args": st.just(["a", "//b"]) | st.just("a"),
        "cwd": st.sampled_from(["app", "config", "data", "empty", "nowhere"]),
        "kind": st.sampled_from(["process-json", "mcp", "executable", "other"]),
        "url": st.just("https://x.example/mcp"),
        "timeoutMs": st.sampled_from([0, 5, "x"]),
        "config": st.sampled_from([{}, {"endpoint": "https://x.example"}, {"mouseCommand": "x"}]),
        "permissions": st.sampled_from(
            [{}, {"network": True, "secrets": ["A_TOKEN"]}, {"fs": {"read": ["docs/*"]}}]
        ),
        "onCancel": st.just("restart"),
        "seal": st.just("in-place"),
        "typo": st.just(1),
        "tools": st.sampled_from(
            [
                [],
                ["x.y"],
                [{"name": "a.b", "description": "B.", "inputSchema": {"type": "object"}}, "a.b"],
                [{"name": "a.b", "inputSchema": {"type": "object", "properties": {"a": {"pattern": "("}}}}],
                [{"name": "a.b", "inputSchema": {"type": "object", "$ref": "#/nowhere"}}],
            ]
        ),
    },
)


@given(st.data(), st.dictionaries(st.sampled_from(["a", "a.b", "A!"]), ENTRIES, max_size=3))
@settings(max_examples=examples(60), deadline=None)
def test_a_registry_has_the_same_entries_positions_and_messages_either_way(
    data: st.DataObject, sidecars: dict[str, Any]
) -> None:
    text = written({"schemaVersion": 2, "sidecars": sidecars}, data.draw)
    if data.draw(st.booleans()):  # a key twice
        text = text.replace('"cwd"', '"command"', 1)
    for source in (Source.PROJECT, Source.USER, Source.BUNDLE):
        quick = parse_registry(text, "f", source, frozenset({"x.y"}))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_read_plain", lambda text: (None, {}))
            slow = parse_registry(text, "f", source, frozenset({"x.y"}))
        assert quick == slow


def test_every_key_of_the_schema_becomes_a_field() -> None:
    assert {*_AS_WRITTEN, *_READ, "exec", "delegates", "tools"} == known_keys()


def test_plain_jsonc_with_everything_that_it_may_have_is_read() -> None:
    text = '// c\n{"schemaVersion": 2, "x": 1.5, "sidecars": {"a": {"b": [{"c": "\\"},]//"},]}, /* d */},}\n'
    assert agrees(text)
    plain = read_plain(text)
    assert plain is not None
    assert plain.places == {"a": (text.index('"a"'), text.index(", /*"))}
    assert plain.keys == 6


@each_row(
    "body",
    [
        "'a': {}",
        '"a" : {}',
        '"a"/**/: {}',
        "a: {}",
        '"a": {"b": 0x1}',
        '"a": {"b": NaN}',
        '"a": {"b": 1e999}',
        '"a": {"b": "x\\\ny"}',
        '"a": {"b": [,]}',
        '"a": {"b": [1,,]}',
        '"a": {}, "a": {}',
        '"a": 5',
        '"a": {} /*',
    ],
)
def test_everything_else_is_left_to_the_parser(body: str) -> None:
    assert read_plain('{"schemaVersion": 2, "sidecars": {' + body + "}}") is None


def test_a_value_of_any_depth_is_read_up_to_the_limit_of_the_parser() -> None:
    for depth in (1, MAX_DEPTH - 4, MAX_DEPTH - 3, MAX_DEPTH - 2, 200, 100_000):
        deep = "[" * depth + "]" * depth
        text = '{"sidecars": {"a": {"config": ' + deep + '}, "b": {}}}'
        assert agrees(text) == (depth <= MAX_DEPTH - 3)
        assert agrees('{"x": ' + deep + "}") == (depth <= MAX_DEPTH - 1)


def test_many_comments_in_one_line_cost_what_the_line_costs() -> None:
    # Were each place counted from the start of its line, this would take minutes.
    text = '{"sidecars": {"a": {"b": [' + '"https://x.example/", ' * 20_000 + "]}}}"
    assert agrees(text)


def test_equal_schemas_of_all_entries_are_one_object_and_the_document_is_the_same() -> None:
    tool = '{"name": "%s", "description": "x y", "inputSchema": {"type": "object", "maximum": %s}}'
    entries = ", ".join(
        f'"s{at}": {{"command": "true", "tools": [{tool % (f"s{at}.a", 1)}, {tool % (f"s{at}.b", at)}]}}'
        for at in range(3)
    )
    text = f'{{"schemaVersion": 2, "sidecars": {{{entries}}}, "$schema": "x"}}'
    document = read_plain(text)
    assert document is not None
    assert document.value == json.loads(text)
    assert list(document.value) == ["schemaVersion", "sidecars", "$schema"]
    schemas = [
        tool["inputSchema"] for entry in document.value["sidecars"].values() for tool in entry["tools"]
    ]
    assert len({id(schema) for schema in schemas}) == 3
