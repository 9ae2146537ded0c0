"""Dialects: inputs of either form become the canonical one, and answers of programs those of known tools."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import jsonschema_rs
import pytest
from msgspec.structs import replace

from flycore.catalog.builtin import KNOWN
from flycore.catalog.dialect import (
    NotCanonicalError,
    arguments_problem,
    canonical_input,
    canonical_output,
    dialect_names,
    in_dialect,
    program_input,
    read_dialect,
)
from flycore.model.catalog import Capability
from flycore.model.json import JsonObject
from flycore.model.sidecar import SidecarEntry
from flycore.registry.schema import registry_schema
from kits.tables import each_row

XDOTOOL: JsonObject = {"mouseCommand": "/usr/bin/xdotool", "keyboardCommand": "xdotool"}


def theirs(tool: str) -> Capability:
    return in_dialect(KNOWN[tool], "flyflor")


def test_the_registry_accepts_exactly_the_dialects_that_there_are() -> None:
    definitions = json.loads(json.dumps(registry_schema()))["$defs"]
    assert set(definitions["sidecar"]["properties"]["dialect"]["enum"]) == dialect_names()


@each_row("tool", sorted(read_dialect("flyflor")))
def test_each_tool_of_a_dialect_is_known_and_its_schemas_are_sound(tool: str) -> None:
    found = theirs(tool)
    jsonschema_rs.meta.validate(found.input_schema)
    jsonschema_rs.meta.validate(found.output_schema)
    assert found.dialect == "flyflor"
    assert (found.risk, found.approval_class) == (KNOWN[tool].risk, KNOWN[tool].approval_class)
    properties = found.input_schema["properties"]
    assert isinstance(properties, dict)
    for field in read_dialect("flyflor")[tool].unread:
        assert field not in properties


CASES: tuple[tuple[str, JsonObject, JsonObject], ...] = (
    ("web.search", {"query": "a", "count": 3}, {"query": "a", "limit": 3}),
    ("vision.ocr", {"path": "a.png", "language": "eng"}, {"imagePath": "a.png", "language": "eng"}),
    ("audio.transcribe", {"path": "a.wav"}, {"audioPath": "a.wav"}),
    ("computer.keyboard", {"action": "type", "text": "-5 a"}, {"args": ["type", "--", "-5 a"]}),
    ("computer.keyboard", {"action": "key", "keys": "ctrl+s"}, {"args": ["key", "--", "ctrl+s"]}),
    ("computer.mouse", {"action": "move", "x": 1, "y": 2}, {"args": ["mousemove", "1", "2"]}),
    (
        "computer.mouse",
        {"action": "scroll", "x": 1, "y": 2, "dy": -3},
        {"args": ["mousemove", "1", "2", "click", "--repeat", "3", "4"]},
    ),
    (
        "computer.mouse",
        {"action": "drag", "x": 1, "y": 2, "toX": 3, "toY": 4},
        {"args": ["mousemove", "1", "2", "mousedown", "1", "mousemove", "3", "4", "mouseup", "1"]},
    ),
)


@each_row(("tool", "ours", "sent"), CASES)
def test_both_forms_of_an_input_are_one(tool: str, ours: JsonObject, sent: JsonObject) -> None:
    found = theirs(tool)
    assert program_input(found, ours, XDOTOOL) == sent
    assert canonical_input(found, sent, XDOTOOL) == ours
    assert canonical_input(found, ours, XDOTOOL) == ours


def test_a_task_is_words_of_either_kind() -> None:
    found = theirs("task.background")
    ours: JsonObject = {"action": "start", "command": ["make", "the docs"]}
    assert canonical_input(found, {"task": "make 'the docs'"}, {}) == ours
    assert program_input(found, ours, {}) == {**ours, "task": "make 'the docs'"}
    with pytest.raises(NotCanonicalError, match="task"):
        canonical_input(found, {"task": "make 'the"}, {})


REFUSED: tuple[tuple[str, JsonObject, str], ...] = (
    ("vision.ocr", {"path": "a", "imagePath": "b"}, "same field"),
    ("data.convert", {"from": "json", "to": "text", "path": "a.json"}, "do not read it"),
    ("browser.screenshot", {"fullPage": True}, "do not read it"),
    ("computer.keyboard", {"action": "type", "text": "a", "window": "xterm"}, "do not read it"),
    ("computer.keyboard", {"args": ["exec", "sh"]}, "no action"),
    ("computer.keyboard", {"args": ["type", "--file", "/etc/passwd"]}, "no action"),
    ("computer.keyboard", {"args": ["type", "--file=/etc/passwd"]}, "no action"),
    ("computer.mouse", {"args": ["mousemove", "1", "x"]}, "no action"),
    ("computer.mouse", {"args": ["mousemove", "1", "2"], "x": 5}, "one form"),
)


@each_row(("tool", "given", "why"), REFUSED)
def test_what_the_program_would_ignore_or_no_card_can_tell_is_refused(
    tool: str, given: JsonObject, why: str
) -> None:
    with pytest.raises(NotCanonicalError, match=why):
        canonical_input(theirs(tool), given, XDOTOOL)


def test_a_default_that_the_program_would_ignore_says_nothing() -> None:
    assert canonical_input(theirs("browser.screenshot"), {"fullPage": False}, {}) == {}


def test_an_action_without_words_is_not_sent() -> None:
    given: JsonObject = {"action": "scroll", "x": 1, "y": 2, "dx": 1, "dy": 1}
    with pytest.raises(NotCanonicalError):
        program_input(theirs("computer.mouse"), given, XDOTOOL)


def test_a_program_that_acts_must_be_one_whose_words_are_known(
    make_entry: Callable[..., SidecarEntry],
) -> None:
    entry = replace(make_entry(), config=XDOTOOL)
    assert arguments_problem("flyflor", "computer.mouse", entry) == ("", "")
    for command in ("", "cliclick", 5):
        other = replace(entry, config={"mouseCommand": command})
        why, key = arguments_problem("flyflor", "computer.mouse", other)
        assert (bool(why), key) == (True, "mouseCommand")


ANSWERS: tuple[tuple[str, JsonObject, JsonObject], ...] = (
    ("file.hash", {"hash": "ab", "path": "/p/a"}, {"digest": "ab", "path": "/p/a"}),
    (
        "vision.ocr",
        {"provider": "local", "response": {"ok": True, "text": "a"}},
        {"engine": "local", "text": "a"},
    ),
    ("browser.open", {"targetId": "T", "url": "u"}, {"tab": "T", "url": "u"}),
    (
        "browser.evaluate",
        {"result": {"result": {"type": "number", "value": 4}}},
        {"value": 4, "type": "number"},
    ),
    ("browser.evaluate", {"result": {"result": {"type": "undefined"}}}, {"value": None, "type": "undefined"}),
    (
        "data.convert",
        {"from": "json", "to": "text", "path": "/p/b"},
        {"from": "json", "to": "text", "outputPath": "/p/b"},
    ),
    (
        "browser.snapshot",
        {"snapshot": {"nodes": [{"role": {"value": "link"}, "name": {"value": "More"}}]}},
        {"nodes": [{"role": "link", "name": "More"}]},
    ),
)


@each_row(("tool", "answer", "ours"), ANSWERS)
def test_answers_become_outputs_of_the_known_tool(tool: str, answer: JsonObject, ours: JsonObject) -> None:
    found = canonical_output(theirs(tool), {}, answer)
    assert (found.fields, found.failure) == (ours, "")


FAILED: tuple[tuple[str, JsonObject], ...] = (
    ("browser.navigate", {"result": {"frameId": "F", "errorText": "net::ERR_NAME_NOT_RESOLVED"}}),
    (
        "browser.evaluate",
        {"result": {"result": {"type": "object"}, "exceptionDetails": {"text": "Uncaught"}}},
    ),
    ("audio.speak", {"provider": "http-json", "response": {"ok": False, "error": "no voice"}}),
)


@pytest.mark.parametrize(("tool", "answer"), FAILED)
def test_a_success_whose_answer_says_otherwise_is_a_failure(tool: str, answer: JsonObject) -> None:
    assert canonical_output(theirs(tool), {}, answer).failure


def test_a_picture_in_the_answer_is_a_file_of_the_call() -> None:
    text = base64.b64encode(b"picture").decode()
    found = canonical_output(theirs("browser.screenshot"), {}, {"data": text, "format": "png"})
    assert (found.file, found.file_name) == (b"picture", "screenshot.png")
    assert found.fields["path"] == "screenshot.png"
    strange = canonical_output(theirs("browser.screenshot"), {}, {"data": text, "format": "../x"})
    assert strange.file_name == "screenshot.bin"
    assert canonical_output(theirs("browser.screenshot"), {}, {"data": "%%"}).file == b""
