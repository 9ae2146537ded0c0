"""The card's effect line: plain substitution that no value can escape from."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flycore.catalog.builtin import KNOWN
from flycore.catalog.risk import effect_sentence, quoted_value, risk_of
from flycore.model.catalog import Capability, RiskRule
from flycore.model.diagnostics import nearest
from flycore.model.enums import Risk
from flycore.model.json import Json, JsonObject
from kits.recursive_schemas import without_end
from kits.tables import each_row

BLANK = msgspec.structs.replace(KNOWN["file.hash"], effects={})


@each_row(
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


MAIL: JsonObject = {
    "type": "object",
    "required": ["to", "subject"],
    "properties": {"body": {}, "cc": {}, "to": {}, "subject": {}},
}


def described(description: str) -> Capability:
    return msgspec.structs.replace(
        BLANK, effect="", name="notes.send", sidecar="notes", description=description, input_schema=MAIL
    )


def test_a_tool_without_template_is_told_in_its_server_s_words_with_its_values() -> None:
    given: JsonObject = {"body": "x" * 5000, "aux": [1] * 90, "cc": None, "subject": "hi", "to": "eve@x.y"}
    assert effect_sentence(described("Sends a mail to e.g. a friend. Use it."), given) == (
        'server says: "Sends a mail to e.g. a friend" with to "eve@x.y", subject "hi", body '
        f'"{"x" * 48}"… (5,000 characters), cc null, aux of 90 items'
    )
    assert effect_sentence(described("\n Sends\nmore"), {}) == 'server says: "Sends" without input'


@pytest.mark.parametrize("description", ["", "notes.send, offered by the sidecar notes."])
def test_a_tool_that_says_nothing_is_named(description: str) -> None:
    given: JsonObject = {"a": 1, 'b"': 2}
    assert effect_sentence(described(description), given) == 'run notes.send with a 1, "b\\"" 2'
    assert effect_sentence(described(description), {}) == "run notes.send without input"
    many: JsonObject = {f"field{i}": i for i in range(1000)}
    assert effect_sentence(described(description), many).endswith("field104 104, and 992 more fields")


def test_a_server_s_sentence_cannot_end_its_own_quotes() -> None:
    said = effect_sentence(described('Reads" with to "you@x'), {"to": "eve@x.y", 'x", to': 1})
    assert said == 'server says: "Reads\\" with to \\"you@x" with to "eve@x.y", "x\\", to" 1'
    assert len(effect_sentence(described("y" * 9000), {})) < 200


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


@each_row(
    ("method", "risk"),
    [("GET", Risk.MEDIUM), ("HEAD", Risk.MEDIUM), ("POST", Risk.HIGH), ("get", Risk.HIGH), (None, Risk.HIGH)],
)
def test_risk_follows_the_input(method: str | None, risk: Risk) -> None:
    asked: JsonObject = {"url": "https://example.org"} | ({"method": method} if method else {})
    assert risk_of(KNOWN["web.request"], asked) is risk


@pytest.mark.parametrize(("stated", "risk"), [(Risk.LOW, Risk.MEDIUM), (Risk.CRITICAL, Risk.CRITICAL)])
def test_a_rule_that_cannot_be_checked_only_raises_the_risk(stated: Risk, risk: Risk) -> None:
    unknown = RiskRule(when=without_end(), risk=stated)
    further = RiskRule(when={"required": ["a"]}, risk=Risk.MEDIUM)
    capability = msgspec.structs.replace(KNOWN["web.request"], risk=Risk.HIGH, risk_when=(unknown, further))
    assert risk_of(capability, {"a": "x"}) is risk


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
