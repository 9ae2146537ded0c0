"""`flytui tools test` and `flytui lint` on tool manifests, as processes."""

from __future__ import annotations

from collections.abc import Iterator

import jsonschema
import pytest

from flytui.cli.commands.schema import schema_of
from flytui.cli.tool_examples import is_expected
from kits.command_line import Desk
from kits.tables import each_row
from kits.web_servers import serving

ALLOW = {"schemaVersion": 1, "rules": [{"tool": "shout", "decision": "allow", "because": "it only shouts"}]}
MANIFEST = """\
name: shout
description: Says a word loudly.
kind: http
inputs:
  schema: {type: object, required: [word], properties: {word: {type: string}}}
exec:
  http: {url: "URL/${word}"}
permissions: {network: true}
examples:
  - description: a word
    params: {word: hey}
    expected_output: {"said": "/hey"}
  - params: {word: hey}
    expected_output: '{"said": "/ho"}'
  - params: {word: hey}
"""


@pytest.fixture
def shouting(desk: Desk) -> Iterator[Desk]:
    """A trusted root with one manifest, whose tool policy allows."""
    folder = desk.root / "tools" / "manifests" / "shout"
    folder.mkdir(parents=True)
    with serving(lambda talk: talk.json({"said": talk.path})) as web:
        (folder / "tool.yml").write_text(MANIFEST.replace("URL", web.url))
        desk.allow(ALLOW)
        desk.trust()
        yield desk


def test_examples_run_and_show_what_is_expected_and_what_came(shouting: Desk) -> None:
    document = shouting.document("tools", "test", "shout")
    jsonschema.validate(document, schema_of("tool-examples"))
    states = [example["state"] for example in document["examples"]]
    done = shouting.run("tools", "test", "shout")
    assert states == ["same", "differs", "ran"]
    assert done.returncode == 1
    assert '   expected  "{\\"said\\": \\"/ho\\"}"\n   actual    {"said": "/hey"}' in done.stdout
    assert "2 of 3 examples of shout are as expected" in done.stdout


def test_tools_are_listed_with_the_file_of_their_manifest(shouting: Desk) -> None:
    file = shouting.root / "tools" / "manifests" / "shout" / "tool.yml"
    waiting = shouting.root / "tools" / "manifests" / "wait" / "tool.yml"
    waiting.parent.mkdir()
    waiting.write_text(file.read_text().replace("name: shout", "name: wait"))
    document = shouting.document("tools", "list")
    jsonschema.validate(document, schema_of("tools"))
    found = {tool["name"]: (tool["type"], tool["status"], tool["path"]) for tool in document["tools"]}
    assert found["shout"] == ("manifest", "ready", str(file))
    assert found["wait"] == ("manifest", "error", str(waiting))
    plain = shouting.run("tools", "list", "--plain").stdout
    assert all(word in plain for word in ("manifest", "ready", str(file), "nobody has trusted it"))


@each_row(
    ("words", "said"),
    [
        (("shout", "--input", "{}"), "name its PATH"),
        (("shout", "--tool", "x"), "name its PATH"),
        (("./shout", "--wait-approver", "1"), "--wait-approver is for the examples"),
        (("./shout",), "No such file"),
    ],
)
def test_options_of_the_other_meaning_are_refused(shouting: Desk, words: tuple[str, ...], said: str) -> None:
    done = shouting.run("tools", "test", *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_an_unknown_tool_is_named_with_the_nearest(shouting: Desk) -> None:
    done = shouting.run("tools", "test", "shoot")
    assert done.returncode == 3
    assert "did you mean shout?" in done.stderr


def test_lint_checks_manifests_of_the_root_and_one_file(shouting: Desk) -> None:
    file = shouting.root / "tools" / "manifests" / "shout" / "tool.yml"
    assert shouting.document("lint")["errors"] == 0
    good = file.read_text()
    file.write_text(good.replace("${word}", "${wrod}").replace("params: {word: hey}", "params: {}", 1))
    for words in (("lint",), ("lint", str(file)), ("lint", str(file), "--as", "manifest")):
        done = shouting.document(*words)
        assert "manifest" in [one["kind"] for one in done["files"]]
        found = {item["rule"]: item for item in done["diagnostics"] if "tool.yml" in item["position"]["file"]}
        assert found["placeholder-unknown"]["position"]["line"] == 7
        assert found["placeholder-unknown"]["excerpt"].startswith("  http:")
    file.write_text(good.replace("params: {word: hey}", "params: {}", 1))
    rules = [item["rule"] for item in shouting.document("lint", str(file))["diagnostics"]]
    assert rules == ["example-input"]


def test_the_schema_of_a_manifest_is_printed_and_accepts_one(shouting: Desk) -> None:
    schema = shouting.document("schema", "manifest")
    jsonschema.Draft202012Validator.check_schema(schema)
    good = {
        "name": "a",
        "description": "A.",
        "kind": "http",
        "exec": {"http": {"url": "https://a.example/"}},
        "permissions": {"network": True},
    }
    jsonschema.validate(good, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**good, "kind": "shell"}, schema)


@each_row(
    ("expected", "output", "same"),
    [
        ("a\n", "a", True),
        ('{"b": 1, "a": [2]}\n', {"a": [2], "b": 1}, True),
        ("[1, ...]", [1], False),
        ([1], [1], True),
        (1, "1", False),
        ("1", 1, True),
        (None, None, True),
    ],
)
def test_a_text_may_hold_the_expected_output_as_json(expected: object, output: object, same: bool) -> None:
    assert is_expected(expected, output) is same
