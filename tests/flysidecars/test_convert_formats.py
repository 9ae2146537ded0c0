"""Formats among each other: what goes round comes back, what cannot is refused with its place."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flysidecars.sdk import ToolFailed
from flysidecars.utility.convert.tool import READERS, WRITERS
from flysidecars.utility.convert.values import LossLog
from kits.tables import each_row

EXAMPLES = 1_000 if os.environ.get("FLYTUI_SUITES") == "full" else 60
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
XML_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn", "Co")), max_size=20)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
NO_NULL = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
NAME = st.from_regex(r"\A[a-z][a-z0-9_]{0,8}\Z")
ROWS = st.lists(st.fixed_dictionaries({"a": TEXT, "b,": TEXT}), min_size=1, max_size=5)


def there_and_back(value: object, kind: str) -> tuple[object, list[str]]:
    lost = LossLog()
    return READERS[kind](WRITERS[kind](value, lost), lost), lost.words()


@settings(max_examples=EXAMPLES, deadline=None)
@given(JSON)
def test_json_holds_everything(value: object) -> None:
    assert there_and_back(value, "json") == (value, [])


@settings(max_examples=EXAMPLES, deadline=None)
@given(JSON)
def test_yaml_holds_everything(value: object) -> None:
    lost = LossLog()
    assert READERS["yaml"](WRITERS["yaml"](value, lost), LossLog()) == value
    assert lost.words() == []


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(JSON, max_size=4))
def test_jsonl_holds_lists(value: list[object]) -> None:
    assert there_and_back(value, "jsonl") == (value, [])


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.dictionaries(TEXT, NO_NULL, max_size=4))
def test_toml_holds_objects_without_null(value: dict[str, object]) -> None:
    lost = LossLog()
    assert READERS["toml"](WRITERS["toml"](value, lost), LossLog()) == value
    assert lost.words() == []


@settings(max_examples=EXAMPLES, deadline=None)
@given(ROWS)
def test_csv_holds_rows_of_text(value: list[dict[str, str]]) -> None:
    assert there_and_back(value, "csv") == (value, [])


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    NAME,
    st.recursive(
        XML_TEXT,
        lambda inner: st.dictionaries(
            NAME, inner | st.lists(inner, min_size=2, max_size=3), min_size=1, max_size=3
        ),
        max_leaves=8,
    ),
    st.dictionaries(NAME.map("@{}".format), XML_TEXT, max_size=2),
)
def test_xml_holds_elements_attributes_and_lists_of_several(
    root: str, content: object, attributes: dict[str, str]
) -> None:
    value = {root: attributes | content if isinstance(content, dict) else content}
    assert there_and_back(value, "xml")[0] == value


@each_row(
    ("value", "kind", "place"),
    [
        ([1], "toml", ""),
        ({"a": [None]}, "toml", "/a/0"),
        ({"a": 2**63}, "toml", "/a"),
        ({"a": 1}, "csv", ""),
        ([{"a": 1}, [2]], "csv", "/1"),
        ([{"a/b": {}}], "csv", "/0/a~1b"),
        ([1], "xml", ""),
        ({"a": 1, "b": 2}, "xml", ""),
        ({"a": [1, 2]}, "xml", "/a"),
        ({"a": {"1b": 1}}, "xml", "/a/1b"),
        ({"a": "\x00"}, "xml", "/a"),
        ({"a": {"b": [[1], 2]}}, "xml", "/a/b/0"),
        ({"a": 1}, "text", ""),
    ],
)
def test_what_has_no_form_is_refused_with_its_place(value: object, kind: str, place: str) -> None:
    with pytest.raises(ToolFailed) as refused:
        WRITERS[kind](value, LossLog())
    assert (refused.value.code, refused.value.fields["place"]) == ("unrepresentable", place)


@each_row(
    ("source", "text", "target", "words"),
    [
        ("yaml", "a: 2020-01-01 # day\n", "json", ["comments (#) are not kept", "a time becomes text at /a"]),
        ("yaml", "1: x\n", "json", ["a key that is no text becomes text at /1"]),
        ("toml", "a = 1979-05-27T07:32:00Z\n", "yaml", ["a time becomes text at /a"]),
        ("json", '{"a": null, "b": 1}', "toml", ["null has no toml form and is left out at /a"]),
        (
            "json",
            '[{"a": 1, "b": null}, {"a": true}]',
            "csv",
            [
                "numbers become text",
                "null becomes an empty field",
                "true and false become text",
                "members that are not there become empty fields",
            ],
        ),
        (
            "xml",
            "<a><!-- c --><b/><c/><b/></a>",
            "json",
            ["comments are not kept", "the order of elements of different names is not kept"],
        ),
        ("xml", "<a>x<b/>y</a>", "json", ["text between elements is joined at /a"]),
        ("json", '{"a": [1]}', "jsonl", ["a single value becomes a list of one"]),
        ("json", "0.12345678901234567890123", "yaml", ["numbers of many digits are rounded"]),
        (
            "json",
            '{"a": {"b": [1]}}',
            "xml",
            [
                "a list of one or none is not told from its item at /a/b",
                "numbers, true and false become text",
            ],
        ),
    ],
)
def test_what_gets_lost_is_named(source: str, text: str, target: str, words: list[str]) -> None:
    lost = LossLog()
    WRITERS[target](READERS[source](text, lost), lost)
    assert lost.words() == words


BILLION = "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"
ENTITIES = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'


@each_row(
    ("kind", "text"),
    [
        ("json", '{"a": 1, "a": 2}'),
        ("json", "[NaN]"),
        ("json", "[1e999]"),
        ("json", "[" * 100_000),
        ("json", '{"a": }'),
        ("jsonl", '{"a": 1}\n{"a": \n'),
        ("yaml", BILLION),
        ("yaml", "!!python/object/apply:os.system [id]"),
        ("yaml", "a: [1"),
        ("yaml", "a: 1\n---\nb: 2\n"),
        ("yaml", "[" * 5_000),
        ("yaml", "? [a]\n: 1\n"),
        ("toml", "a = \n"),
        ("csv", "a,a\n1,2\n"),
        ("csv", "a,b\n1\n"),
        ("csv", 'a\n"x'),
        ("xml", ENTITIES),
        ("xml", "<a>&nope;</a>"),
        ("xml", "<a>"),
        ("xml", "<a>" * 200 + "</a>" * 200),
    ],
)
def test_what_cannot_be_read_says_so(kind: str, text: str) -> None:
    with pytest.raises(ToolFailed) as refused:
        READERS[kind](text, LossLog())
    assert refused.value.code in ("unreadable", "unrepresentable")


def test_lines_are_counted() -> None:
    for kind, text, line in (("jsonl", '1\n\n{"a"\n', 3), ("json", "{\n\n!", 3), ("xml", "<a>\n<b></a>", 2)):
        with pytest.raises(ToolFailed) as refused:
            READERS[kind](text, LossLog())
        assert refused.value.fields["line"] == line


@each_row(
    "text",
    [
        "a." * 30_000 + "a = 1",
        "[" + "a." * 30_000 + "a]",
        '"a".' * 30_000 + "a = 1",
        "a . " * 30_000 + "a = 1",
        "[x]\ny = {" + "a." * 100 + "a = 1}",
    ],
)
def test_toml_keys_of_many_parts_are_refused_before_they_are_parsed(text: str) -> None:
    with pytest.raises(ToolFailed, match="64 parts"):
        READERS["toml"](text, LossLog())


@pytest.mark.parametrize("text", ['"' * 300_000, '"""' + "a." * 200_000, '"' + "\\" * 300_000])
def test_toml_without_end_is_refused(text: str) -> None:
    with pytest.raises(ToolFailed):
        READERS["toml"](text, LossLog())


def test_dots_in_toml_strings_and_comments_are_no_keys() -> None:
    dots = "a." * 100
    text = f'x = "{dots}"\ny = \'{dots}\'\nz = """\n{dots}"""\n# {dots}\n[a.b]\nc.d = 1\n'
    value = READERS["toml"](text, LossLog())
    assert isinstance(value, dict)
    assert value["a"] == {"b": {"c": {"d": 1}}}
