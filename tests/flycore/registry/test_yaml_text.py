"""YAML as JSON values with places: the types of YAML 1.2, and everything that is refused, all at once."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from flycore.registry.yaml_text import DEEPEST, read_yaml
from kits.tables import each_row


def rules(text: str) -> list[tuple[str, int, int]]:
    return [
        (one.rule, one.position.line, one.position.column)
        for one in read_yaml(text, "tool.yml").problems
        if one.position is not None
    ]


@each_row(
    ("text", "value"),
    [
        ("NO", "NO"),
        ("yes", "yes"),
        ("on", "on"),
        ("2024-01-01", "2024-01-01"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("012", 12),
        ("0o14", 12),
        ("0x1F", 31),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("~", None),
        ("'~'", "~"),
        ("True", True),
        ("tRue", "tRue"),
        ('"3"', "3"),
        ("=", "="),
    ],
)
def test_plain_scalars_have_the_types_of_yaml_1_2(text: str, value: object) -> None:
    read = read_yaml(f"key: {text}\n", "tool.yml")
    assert read.problems == []
    assert read.value == {"key": value}
    assert type(read.value["key"]) is type(value)  # True is 1 for Python


def test_every_problem_is_reported_with_its_place() -> None:
    text = "a: &x 1\nb: *x\nc: !!str 2\na: 3\n<<: {d: 1}\n? [k]\n: 4\ne: .inf\n---\nf: 1\n"
    assert rules(text) == [
        ("yaml-alias", 1, 4),
        ("yaml-alias", 2, 4),
        ("yaml-tag", 3, 4),
        ("duplicate-key", 4, 1),
        ("yaml-alias", 5, 1),
        ("yaml-key", 6, 3),
        ("yaml-number", 8, 4),
        ("yaml-documents", 9, 1),
    ]


@each_row(
    ("text", "rule"),
    [
        ("a: [1\nb: 2", "yaml-syntax"),
        ("a: \x01", "yaml-syntax"),
        ("\tb: 1", "yaml-syntax"),
        ("[" * (DEEPEST + 2), "yaml-size"),
        (f"a: [{'1, ' * 30_000}]", "yaml-size"),
        (f"a: {'9' * 5_000}", "yaml-number"),
    ],
)
def test_what_cannot_be_read_is_one_problem_and_no_exception(text: str, rule: str) -> None:
    assert [found[0] for found in rules(text)] == [rule]


def test_a_member_has_the_place_of_its_key() -> None:
    read = read_yaml("a:\n  b: [x,\n    y]\n", "tool.yml")
    assert [read.places[pointer] for pointer in ("/a", "/a/b", "/a/b/1")] == [(1, 1), (2, 3), (3, 5)]
    assert str(read.nearest_position("/a/b/9/c")) == "tool.yml:2:3"


# The writer breaks lines at the three others, which are line ends in YAML 1.1 only.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x85\u2028\u2029"))
KEYS = st.text("ab_ ", min_size=1)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(VALUES)
def test_what_a_yaml_writer_writes_is_read_back(value: object) -> None:
    writer, out = YAML(typ="safe", pure=True), io.StringIO()
    writer.default_flow_style = False
    writer.dump({"value": value}, out)
    text = out.getvalue()
    if "&id" in text:  # the writer shares equal parts, which is what is refused here
        return
    read = read_yaml(text, "tool.yml")
    assert read.problems == [], text
    assert read.value == {"value": value}


@settings(deadline=None)
@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    read = read_yaml(text, "tool.yml")
    assert read.parsed or read.problems


def test_a_text_without_types_keeps_every_scalar_as_it_is_written() -> None:
    read = read_yaml("a: 1\nb: [yes, ~, !x 2]\n", "x.yml", deepest=3, typed=False)
    assert (read.value, read.problems) == ({"a": "1", "b": ["yes", "~", "2"]}, [])
    assert read_yaml("a: [[[[1]]]]\n", "x.yml", deepest=3, typed=False).problems
