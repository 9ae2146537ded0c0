"""YAML texts become values of JSON with places, and what could do harm is refused with a place."""

from __future__ import annotations

import pytest

from flycore.registry.yaml_text import MOST_VALUES, YamlFault, parse_yaml, read_yaml

TEXT = """name: one
version: 1
on: yes
quoted: "1"
list:
  - 0x10
  - 0o17
  - 1.5
  - ~
  - true
empty:
"""


def test_values_have_the_types_of_the_core_schema() -> None:
    read, problem = read_yaml(TEXT, "tool.yml")
    assert problem is None
    assert read.value == {
        "name": "one",
        "version": 1,
        "on": "yes",
        "quoted": "1",
        "list": [16, 15, 1.5, None, True],
        "empty": None,
    }
    assert (read.nearest_position("/version").line, read.nearest_position("/version").column) == (2, 1)
    assert str(read.nearest_position("/list/1")) == "tool.yml:7:5"
    assert str(read.nearest_position("/list/9/deeper")) == "tool.yml:5:1"


def test_a_text_without_types_keeps_every_scalar_as_it_is_written() -> None:
    read = parse_yaml("a: 1\nb: [yes, ~]\n", deepest=3, typed=False)
    assert not isinstance(read, YamlFault)
    assert read.value == {"a": "1", "b": ["yes", "~"]}


@pytest.mark.parametrize(
    ("text", "rule", "line", "said"),
    [
        ("a: 1\na: 2\n", "duplicate-key", 2, "has the key a twice"),
        ("a: &x [1]\nb: *x\n", "syntax", 2, "alias"),
        ("a: !!int '1'\n", "syntax", 1, "has a tag"),
        ("a: .inf\n", "syntax", 1, "JSON cannot hold"),
        ("a: 1e9999\n", "syntax", 1, "JSON cannot hold"),
        ("? [1]\n: 2\n", "syntax", 1, "not a text"),
        ("a: [1\n", "syntax", 2, "is not YAML"),
        ("a: \x07\n", "syntax", 1, "does not allow"),
        ("a: " + "[" * 60 + "]" * 60, "syntax", 1, "nested deeper"),
        ("a: [" + "1," * MOST_VALUES + "]", "syntax", 1, "values"),
    ],
)
def test_what_cannot_be_read_says_where_and_why(text: str, rule: str, line: int, said: str) -> None:
    read, problem = read_yaml(text, "x.yml")
    assert read.value is None
    assert problem is not None
    assert (problem.rule, problem.position.line if problem.position else 0) == (rule, line)
    assert said in problem.message
    assert problem.remedy


def test_a_tag_of_a_list_builds_nothing() -> None:
    assert read_yaml("a: !!python/object/apply:os.system [id]\n", "x")[0].value == {"a": ["id"]}


def test_an_empty_text_is_an_empty_mapping() -> None:
    assert read_yaml("", "x")[0].value == {}
    assert read_yaml("# only this\n", "x")[0].value == {}
