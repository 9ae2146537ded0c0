"""The difference of two JSON values: complete, bounded, and in lines of which none can pose as another."""

from __future__ import annotations

from flycore.model.json_diff import LINE_CHARACTERS, json_difference
from kits.tables import each_row

CASES = [
    ({}, {}, ()),
    ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, ()),
    ({"a": 1}, {"a": 2}, ("- /a: 1", "+ /a: 2")),
    ({"a": 1}, {"a": True}, ("- /a: 1", "+ /a: true")),
    ({"a": 1}, {"a": 1.0}, ("- /a: 1", "+ /a: 1.0")),
    ({"a": None}, {}, ("- /a: null",)),
    ({}, {"a": {"b": [1, []], "c": {}}}, ("+ /a/b/0: 1", "+ /a/b/1: []", "+ /a/c: {}")),
    ({"a": "x"}, {"a": {"b": 1}}, ('- /a: "x"', "+ /a/b: 1")),
    ({"a": []}, {"a": {}}, ("- /a: []", "+ /a: {}")),
    (["x", "y"], ["new", "x", "y"], ('+ /0: "new"',)),
    (["x", "gone", "y"], ["x", "y"], ('- /1: "gone"',)),
    (["a", "a"], ["a", "a", "a"], ('+ /2: "a"',)),
    (["a", "b"], ["b", "a"], ('- /0: "a"', '+ /0: "b"', '- /1: "b"', '+ /1: "a"')),
    ([{"n": 1}, {"n": 2}], [{"n": 1}, {"n": 3}], ("- /1/n: 2", "+ /1/n: 3")),
    ([1, 2, 3], [], ("- /0: 1", "- /1: 2", "- /2: 3")),
    ({"a/b~": 1}, {"a/b~": 2}, ("- /a~1b~0: 1", "+ /a~1b~0: 2")),
    ("x", "y", ('- "x"', '+ "y"')),
]


@each_row(("before", "after", "lines"), CASES, ids=repr)
def test_what_differs(before, after, lines) -> None:
    assert json_difference(before, after) == lines


def test_no_key_or_value_can_pose_as_another_line() -> None:
    hostile = {"a: true\n+ /network": "x\n+ /network: true", "b: 1": 2}
    lines = json_difference({}, hostile)
    assert len(lines) == 2
    assert all(line.startswith('+ "/') and "\n" not in line for line in lines)


def test_a_long_value_is_bounded_and_whole() -> None:
    text = "x" * 5_000 + "é" + "y" * 5_000
    lines = json_difference({"t": "old"}, {"t": text})
    assert lines[0] == '- /t: "old"'
    assert all(len(line) <= LINE_CHARACTERS + 3 for line in lines)
    assert "".join(line.removeprefix("+ ").removeprefix("…") for line in lines[1:]) == f'/t: "{text}"'


def test_the_deepest_places_are_compared_too() -> None:
    def nested(leaf: int) -> object:
        value: object = leaf
        for _ in range(400):
            value = [value]
        return value

    assert json_difference(nested(1), nested(1)) == ()
    lines = json_difference(nested(1), nested(2))
    removed = "".join(line[2:].removeprefix("…") for line in lines if line.startswith("- "))
    assert removed.endswith("[" * (400 - 32) + "1" + "]" * (400 - 32))
