"""The card's effect line: plain substitution that no value can escape from."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flycore.catalog.builtin import KNOWN
from flycore.catalog.risk import effect_sentence, quoted_value, risk_of
from flycore.model.diagnostics import nearest
from flycore.model.enums import Risk
from flycore.model.json import Json, JsonObject

BLANK = msgspec.structs.replace(KNOWN["file.hash"], effects={})


@pytest.mark.parametrize(
    ("template", "input", "sentence"),
    [
        ("read {path}", {"path": "a.txt"}, 'read "a.txt"'),
        ("read {path}", {}, "read (not given)"),
        ("read {path|everything}", {}, "read everything"),
        ("read {path|everything}", {"path": ""}, 'read ""'),
        ("read[ {path}]", {}, "read"),
        ("read[ {path} in {dir|here}]", {"path": "a"}, 'read "a" in here'),
        ("go to {x}, {y}", {"x": 3, "y": -1.5}, "go to 3, -1.5"),
        ("set {on}", {"on": False}, "set false"),
        ("run {argv}", {"argv": ["rm", "a b"]}, 'run "rm" "a b"'),
        ("read {path}", {"path": "{dir} [x] {path|y}", "dir": "z"}, 'read "{dir} [x] {path|y}"'),
        ("read {path}", {"path": 'a" and "b'}, 'read "a\\" and \\"b"'),
        ("read {path}", {"path": "a\nb\x1b[2J"}, 'read "a\\nb\\u001b[2J"'),
    ],
)
def test_template(template: str, input: JsonObject, sentence: str) -> None:
    assert effect_sentence(msgspec.structs.replace(BLANK, effect=template), input) == sentence


def test_action_chooses_the_template() -> None:
    keyboard = KNOWN["computer.keyboard"]
    typed = effect_sentence(keyboard, {"action": "type", "text": "hi", "window": "xterm"})
    assert typed == 'type "hi" into "xterm"'
    pressed = effect_sentence(keyboard, {"action": "key", "keys": "ctrl+s"})
    assert pressed == 'press "ctrl+s" in the window that has the focus'


def test_tool_without_template_names_its_fields() -> None:
    plain = msgspec.structs.replace(BLANK, effect="", name="notes.add")
    assert effect_sentence(plain, {"a": 1, 'b"': 2}) == 'run notes.add with "a", "b\\""'
    assert effect_sentence(plain, {}) == "run notes.add without input"
    assert "1,000 fields in all" in effect_sentence(plain, {f"field{i}": i for i in range(1000)})


@pytest.mark.parametrize(
    ("value", "ending"),
    [
        ("x" * 200, '"'),
        ("x" * 12_345, "… (12,345 characters in all)"),
        (["a" * 50] * 10, "… (10 items in all)"),
        ({"a": "b" * 300}, "characters in all)"),
    ],
)
def test_long_values_say_how_long(value: Json, ending: str) -> None:
    text = quoted_value(value)
    assert text.endswith(ending)
    assert len(text) < 260


@given(st.text(max_size=200))
def test_short_text_is_shown_whole(text: str) -> None:
    assert json.loads(quoted_value(text)) == text


@pytest.mark.parametrize(
    ("method", "risk"),
    [("GET", Risk.MEDIUM), ("HEAD", Risk.MEDIUM), ("POST", Risk.HIGH), ("get", Risk.HIGH), (None, Risk.HIGH)],
)
def test_risk_follows_the_input(method: str | None, risk: Risk) -> None:
    asked: JsonObject = {"url": "https://example.org"} | ({"method": method} if method else {})
    assert risk_of(KNOWN["web.request"], asked) is risk


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("file.hsah", "file.hash"),
        ("FILE.HASH", "file.hash"),
        ("computer.keybord", "computer.keyboard"),
        ("web.serch", "web.search"),
    ],
)
def test_nearest_name(name: str, first: str) -> None:
    assert nearest(name, KNOWN)[0] == first


def test_nothing_is_near() -> None:
    assert nearest("zzzzzzzz", KNOWN) == ()
    assert nearest("x" * 1_000_000, KNOWN) == ()
