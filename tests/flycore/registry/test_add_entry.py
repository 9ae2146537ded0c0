"""Adding an entry to a registry's text: everything else stays, byte for byte, or nothing is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flycore.registry.edits import add_entry, add_to_text, starter_text
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.paths import LEGACY_REGISTRY_FILE, REGISTRY_FILE, RootPaths, find_paths
from kits.kernel import folders
from kits.suites import examples
from kits.tables import each_row

ENTRY: dict[str, Any] = {
    "kind": "mcp",
    "command": "npx",
    "args": ["-y", "a\u202eb", 'q"\\'],
    "env": {"A": "1"},
}
SHOWN = "tools/external.tools.jsonc"

TEXTS = [
    '{"schemaVersion": 2}',
    '{"schemaVersion": 2, "sidecars": {}}',
    '{"schemaVersion": 2, "sidecars": {"a": {"command": "x"}}}',
    '{"schemaVersion": 2, "sidecars": {"a": {"command": "x"},}}',
    '{\n  "schemaVersion": 2,\n  "sidecars": {\n    // none yet\n  }\n}\n',
    '{\n\t"schemaVersion": 2,\n\t"sidecars": {\n\t\t"a": {"command": "x"} // "}" {\n\t\t/* , */\n\t}\n}',
    '{\r\n  "schemaVersion": 2,\r\n  "sidecars": {\r\n    "a": {"command": "x"}, // c\r\n  },\r\n}\r\n',
    '{"sidecars": {"a": {"command": "x" /* } */ } /* , */ , // end\n}, "schemaVersion": 2} // after',
    "{schemaVersion: 2, sidecars: {'a': {command: 'x'}}}",
    starter_text(),
]


@each_row("text", TEXTS)
def test_the_entry_is_added_and_all_that_was_there_stays(text: str) -> None:
    made = add_to_text(text, "new.one", ENTRY, SHOWN)
    assert not made.why_not
    before, after = parse_jsonc(text, SHOWN)[0], parse_jsonc(made.text, SHOWN)[0]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert after["sidecars"]["new.one"] == ENTRY  # type: ignore[call-overload, index]  # JSON, known here
    kept = iter(made.text)
    assert all(character in kept for character in text), "what was written stays, in its order"
    assert "\u202e" not in made.text
    if "\r\n" in text:
        assert "\n" not in made.text.replace("\r\n", "")
    again = add_to_text(made.text, "new.two", ENTRY, SHOWN)
    assert not again.why_not


GAP = st.lists(
    st.sampled_from([" ", "\n", "\t", "\r\n", "// c, } {\n", "/* , } */", "/**/"]), max_size=4
).map("".join)
VALUE = st.recursive(
    st.sampled_from(["1", "true", '"x, } /* // "', "null", "{}", "[]"]),
    lambda inner: st.tuples(GAP, inner, GAP).map(lambda parts: f'{{"k":{parts[0]}{parts[1]}{parts[2]}}}'),
    max_leaves=4,
)


@st.composite
def registries(draw: st.DrawFn) -> str:
    """A registry with comments wherever they may stand."""
    ids = draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4))
    members = [f'{draw(GAP)}"{name}"{draw(GAP)}:{draw(GAP)}{draw(VALUE)}{draw(GAP)}' for name in ids]
    comma = draw(st.sampled_from(["", ","])) if members else ""
    inner = ",".join(members) + comma + draw(GAP)
    head = f'{draw(GAP)}{{{draw(GAP)}"schemaVersion": 2,{draw(GAP)}"sidecars":{draw(GAP)}'
    return f"{head}{{{inner}}}{draw(GAP)}}}"


@settings(max_examples=examples(150), deadline=None)
@given(registries())
def test_whatever_a_person_wrote_stays_in_its_order(text: str) -> None:
    value, problem = parse_jsonc(text, SHOWN)
    assert problem is None, text
    made = add_to_text(text, "new", ENTRY, SHOWN)
    assert not made.why_not, text
    after, _ = parse_jsonc(made.text, SHOWN)
    assert isinstance(value, dict)
    assert after == {**value, "sidecars": {**value["sidecars"], "new": ENTRY}}  # type: ignore[dict-item]
    kept = iter(made.text)
    assert all(character in kept for character in text)


@each_row(
    "text",
    [
        "{",
        "[]",
        '{"sidecars": []}',
        '{"sidecars": {"new": {}}}',
        '{"sidecars": {}, "sidecars": {}}',
    ],
)
def test_what_is_in_doubt_is_refused(text: str) -> None:
    made = add_to_text(text, "new", ENTRY, SHOWN)
    assert made.why_not
    assert not made.text


@pytest.fixture
def places(tmp_path: Path) -> RootPaths:
    (tmp_path / "project").mkdir()
    return find_paths(str(tmp_path / "project"), None, folders(tmp_path), tmp_path)


def test_a_registry_is_made_where_there_is_none_and_the_older_one_is_used_where_it_is(
    places: RootPaths,
) -> None:
    assert not add_entry(places, "one", ENTRY).why_not
    made = places.app_root / REGISTRY_FILE
    assert json.loads(made.read_text()) == {"schemaVersion": 2, "sidecars": {"one": ENTRY}}
    made.unlink()
    old = places.app_root / LEGACY_REGISTRY_FILE
    old.parent.mkdir(parents=True)
    old.write_bytes(b'\xef\xbb\xbf{"schemaVersion": 2, "sidecars": {}}')
    assert not add_entry(places, "one", ENTRY).why_not
    assert not made.exists()
    assert old.read_bytes().startswith(b"\xef\xbb\xbf{")


def test_a_link_that_leads_out_is_not_written_through(places: RootPaths, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonc"
    outside.write_text('{"schemaVersion": 2}')
    (places.app_root / "tools").mkdir()
    (places.app_root / REGISTRY_FILE).symlink_to(outside)
    assert add_entry(places, "one", ENTRY).why_not
    assert outside.read_text() == '{"schemaVersion": 2}'
