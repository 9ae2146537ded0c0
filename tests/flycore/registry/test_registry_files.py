"""Files that cannot be read, do not parse, or stand in each other's way."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import jsonschema
import msgspec
import pytest

from flycore.model.enums import Source
from flycore.model.json import Json, JsonObject
from flycore.model.sidecar import Delegate
from flycore.registry.jsonc.parse import read_jsonc
from flycore.registry.parse_registry import parse_registry
from flycore.registry.paths import LEGACY_REGISTRY_FILE, REGISTRY_FILE
from flycore.registry.schema import registry_schema
from flycore.registry.source_text import key_positions

if TYPE_CHECKING:
    from conftest import Root

GOOD = '{"schemaVersion": 2, "sidecars": {"a": {"command": "true", "tools": ["file.hash"]}}}'
HEAD = '{"schemaVersion": 2, "sidecars": {'

UNREADABLE = [
    ("empty", b"", "syntax", 1, 1),
    ("blank", b"  \n\n", "syntax", 1, 1),
    ("only a comment", b"// nothing\n", "syntax", 1, 1),
    ("half written", HEAD.encode() + b'\n"a": {"comma', "syntax", 2, 7),
    ("missing comma", b'{"schemaVersion": 2\n  "sidecars": {}}', "syntax", 2, 3),
    ("missing colon", b'{\n\n"schemaVersion" 2}', "syntax", 3, 17),
    ("two documents", b"{}\n {}", "syntax", 2, 2),
    ("nul", b'{"schemaVersion": 2,\n "a": "\0"}', "syntax", 2, 8),
    ("latin 1", b'{"schemaVersion": 2,\n "\xe4": 1}', "syntax", 2, 3),
    ("cut utf-8", b'{"schemaVersion": 2} // \xe2\x82', "syntax", 1, 25),
    ("utf-16", GOOD.encode("utf-16"), "encoding", 1, 1),
    ("too deep", b'{"schemaVersion": 2, "x": ' + b"[" * 40 + b"]" * 40 + b"}", "syntax", 1, 58),
    ("very deep", b"[" * 100_000, "too-many", 1, 1),
    ("deep", b"[" * 1_000, "syntax", 1, 33),
    ("too large", b"{" + b" " * 5_000_000 + b"}", "unreadable", 1, 1),
    ("huge number", b'{"schemaVersion": ' + b"9" * 5_000 + b"}", "syntax", 1, 19),
    ("a list", b"[]", "schema", 1, 1),
    ("version null", b'{"schemaVersion": null}', "schema-version", 1, 19),
    ("version 3", b'{\n"schemaVersion": 3}', "schema-version", 2, 18),
    ("version true", b'{"schemaVersion": true}', "schema-version", 1, 19),
    ("sidecars a list", b'{"schemaVersion": 2, "sidecars": []}', "schema", 1, 34),
    ("sidecars twice", HEAD.encode() + b'},\n"sidecars": {}}', "duplicate-key", 2, 1),
]


@pytest.mark.parametrize(
    ("data", "rule", "line", "column"), [r[1:] for r in UNREADABLE], ids=[r[0] for r in UNREADABLE]
)
def test_one_loud_diagnostic_and_the_last_good_entries(
    root: Root, data: bytes, rule: str, line: int, column: int
) -> None:
    good = root.load(GOOD)
    for previous, kept in ((None, []), (good, ["a"])):
        registry = root.load(data, previous=previous)
        assert [entry.id for entry in registry.entries] == kept
        (problem,) = registry.diagnostics
        assert problem.rule == rule
        assert problem.remedy
        assert problem.position is not None
        assert problem.position.file == REGISTRY_FILE
        assert (problem.position.line, problem.position.column) == (line, column)
        assert registry.digest != good.digest


def test_a_caret_below_the_place(root: Root) -> None:
    (problem,) = root.load(b'{\n  "schemaVersion": 2,\n  "sidecars": {]\n}').diagnostics
    assert problem.excerpt == '  "sidecars": {]\n               ^'


def test_a_long_line_is_cut_around_the_caret(root: Root) -> None:
    (problem,) = root.load('{"a": "' + "x" * 10_000 + '", ]').diagnostics
    line, caret = problem.excerpt.split("\n")
    assert len(line) <= 120
    assert line[len(caret) - 1] == "]"


def test_byte_order_mark_is_no_fault(root: Root) -> None:
    registry = root.load(b"\xef\xbb\xbf" + GOOD.encode())
    assert registry.diagnostics == ()
    assert [entry.problems for entry in registry.entries] == [()]


def test_absent_files_are_no_error(root: Root) -> None:
    registry = root.load()
    assert (registry.entries, registry.diagnostics, registry.files) == ((), (), ())


def test_a_folder_in_its_place(root: Root) -> None:
    (root.app / REGISTRY_FILE).mkdir(parents=True)
    assert "is a folder" in root.load().diagnostics[0].message


def test_a_pipe_in_its_place_is_not_waited_for(root: Root) -> None:
    root.write("tools/x", "")
    os.mkfifo(root.app / REGISTRY_FILE)
    assert "not a regular file" in root.load().diagnostics[0].message


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_not_permitted(root: Root) -> None:
    root.write(REGISTRY_FILE, GOOD).chmod(0)
    assert root.load().diagnostics[0].rule == "unreadable"


def test_a_link_that_leaves_is_not_followed(root: Root) -> None:
    outside = root.write(root.folder / "outside.jsonc", GOOD)
    (root.app / "tools").mkdir()
    (root.app / REGISTRY_FILE).symlink_to(outside)
    registry = root.load()
    assert registry.entries == ()
    assert "leads out" in registry.diagnostics[0].message


def test_a_link_that_stays_is_followed(root: Root) -> None:
    root.write("etc/registry.jsonc", GOOD)
    (root.app / "tools").mkdir()
    (root.app / REGISTRY_FILE).symlink_to("../etc/registry.jsonc")
    assert [entry.id for entry in root.load().entries] == ["a"]


def test_legacy_file_only_where_the_new_one_is_absent(root: Root) -> None:
    root.write(LEGACY_REGISTRY_FILE, GOOD.replace('"a"', '"old"').replace("2", "1", 1))
    registry = root.load()
    assert [entry.id for entry in registry.entries] == ["old"]
    assert registry.entries[0].position.file == LEGACY_REGISTRY_FILE
    assert [entry.id for entry in root.load(GOOD).entries] == ["a"]


def test_project_wins_by_id_and_user_keeps_the_rest(root: Root) -> None:
    user = (
        HEAD
        + '"a": {"command": "false", "tools": ["vision.ocr"]}, '
        + '"u": {"command": "u", "tools": ["file.hash"]}}}'
    )
    registry = root.load(GOOD, user)
    assert [(entry.id, entry.source, entry.command) for entry in registry.entries] == [
        ("a", Source.PROJECT, "true"),
        ("u", Source.USER, "u"),
    ]
    (lost,) = registry.entries[1].problems
    assert lost.rule == "tool-conflict"
    assert "a (tools/external.tools.jsonc:1)" in lost.message
    assert registry.entries[1].valid


def test_a_broken_layer_keeps_its_own_entries_only(root: Root) -> None:
    user = HEAD + '"u": {"command": "u", "tools": ["file.hash"]}}}'
    good = root.load(GOOD, user)
    broken = root.load("{", user.replace('"u":', '"v":'), previous=good)
    assert [entry.id for entry in broken.entries] == ["a", "v"]
    assert [problem.rule for problem in broken.entries[1].problems] == ["tool-conflict"]
    mended = root.load(HEAD + "}}", None, previous=broken)
    assert [(entry.id, entry.problems) for entry in mended.entries] == [("v", ())]


def test_the_users_entry_that_the_project_replaces_is_kept(root: Root) -> None:
    tools = '"tools": ["vision.ocr"]'
    user = HEAD + f'"u": {{"command": "u", {tools}}},\n"a": {{"command": "v", {tools}}}}}}}'
    good = root.load(GOOD, user)
    assert [(entry.id, entry.command) for entry in good.replaced] == [("a", "v")]
    broken = root.load(None, "{", previous=good)
    assert [(entry.id, entry.command) for entry in broken.replaced] == [("a", "v")]
    alone = root.load(HEAD + "}}", "{", previous=broken)
    assert [(entry.id, entry.command) for entry in alone.entries] == [("u", "u"), ("a", "v")]
    assert alone.replaced == ()


def test_digest_is_over_meaning_not_comments(root: Root) -> None:
    first = root.load(HEAD + '"a": {"command": "x", "args": ["1"], "tools": ["file.hash"]}}}')
    second = root.load(HEAD + '// c\n"a": {"tools": ["file.hash"],\n "args": ["1",], "command": "x"}}}')
    third = root.load(HEAD + '"a": {"command": "x", "args": ["2"], "tools": ["file.hash"]}}}')
    assert first.entries[0].digest == second.entries[0].digest != third.entries[0].digest
    assert first.digest != second.digest


def test_places_are_the_same_by_the_quick_and_by_the_full_way(root: Root) -> None:
    entries = (
        '"a": {\n"command": "x", // "tools": [\n/* } */ "config": {"b": ["]", "\\"}:"]},\n'
        ' "tools": ["file.hash"]\n}, \n"b": {"command": "y", "tools": ["vision.ocr"]}'
    )
    quick = root.load(HEAD + entries + "}}")
    full = root.load(HEAD + entries + "}, '$schema': ''}")
    for one, other in zip(quick.entries, full.entries, strict=True):
        assert one == other
        assert key_positions(one).keys() == one.raw.keys()
    assert [finding.rule for finding in full.diagnostics] == ["json5-only", "json5-only"]


def test_delegates_of_older_registries(root: Root) -> None:
    config = (
        '{"mouseCommand": "flytui-sidecar", "mouseArgs": ["xdotool"], "lspCommand": "./lsp", '
        '"localCommands": {"vision.ocr": ["ocr", "-q"]}, "keyboardCommand": "other"}'
    )
    declared = '"delegates": {"keyboard": {"command": "flytui-sidecar", "args": ["xdotool"]}}'
    text = (
        HEAD
        + f'"SID": {{"command": "PROGRAM", "config": {config}, {declared}, "tools": ["computer.mouse"]}}}}}}'
    )
    own = text.replace("PROGRAM", "flytui-sidecar")
    (entry,) = root.load(own.replace("SID", "my.own")).entries
    xdotool = Delegate(command="flytui-sidecar", args=("xdotool",))
    assert entry.delegates == {
        "keyboard": xdotool,
        "mouse": xdotool,
        "lsp": Delegate(command="./lsp"),
        "vision.ocr": Delegate(command="ocr", args=("-q",)),
    }
    assert {problem.rule for problem in entry.problems} == {"legacy-delegate"}
    assert entry.valid
    # What the keys mean goes by the program: a foreign one keeps its own, though its id is one of ours.
    foreign = text.replace("PROGRAM", "./theirs/flytui-sidecar.sh").replace("SID", "computer.native")
    (other,) = root.load(foreign).entries
    assert (other.delegates, other.problems) == ({"keyboard": xdotool}, ())
    assert other.config["mouseCommand"] == "flytui-sidecar"


def test_following_the_note_about_a_delegate_changes_nothing_that_works(root: Root) -> None:
    commands = {"mouse": "xdotool", "keyboard": "wtype", "lsp": "pylsp", "task": "runner", "delegate": "any"}
    config: dict[str, Json] = {"localCommands": {"vision.ocr": ["ocr", "-q"]}}
    for name, command in commands.items():
        config |= {f"{name}Command": command, f"{name}Args": ["-x"]}
    entry: JsonObject = {"command": "flytui-sidecar", "tools": ["computer.mouse"], "config": config}
    (before,) = root.load(json.dumps({"schemaVersion": 2, "sidecars": {"mine": entry}})).entries
    notes = [problem for problem in before.problems if problem.rule == "legacy-delegate"]
    assert len(notes) == len(commands) + 1
    moved = {name: {"command": one.command, "args": list(one.args)} for name, one in before.delegates.items()}
    entry = {**entry, "config": {}, "delegates": moved}
    (after,) = root.load(json.dumps({"schemaVersion": 2, "sidecars": {"mine": entry}})).entries
    assert (after.delegates, after.valid, after.problems) == (before.delegates, True, ())


def test_the_state_of_an_upgrade_is_believed(root: Root) -> None:
    entry = '"{0}": {{"command": "x", "tools": ["file.hash"], "upgrade": "{0}"}}'
    states = ("idle", "staged", "applying", "rollback-required", "failed")
    registry = root.load(HEAD + ",".join(entry.format(state) for state in states) + "}}")
    assert [item.upgrade for item in registry.entries] == list(states)
    assert all(item.valid for item in registry.entries)


@pytest.mark.parametrize("state", ['"aplying"', '""', "null", "true", '{"state": "applying"}', '["failed"]'])
def test_an_unknown_state_of_an_upgrade_is_an_error_and_exposes_no_tool(root: Root, state: str) -> None:
    text = f'{HEAD}"mine": {{"command": "x", "tools": ["file.hash"], "upgrade": {state}}}}}}}'
    (entry,) = root.load(text).entries
    assert not entry.valid
    (problem,) = entry.problems
    assert problem.pointer == "/sidecars/mine/upgrade"
    assert problem.position is not None
    assert "rollback-required" in problem.message + problem.remedy


def test_all_keys_arrive(root: Root) -> None:
    text = """{"schemaVersion": 2, "sidecars": {"web.search": {
      "command": "./bin/x", "args": ["--quiet"], "cwd": "workspace", "env": {"LANG": "C.UTF-8"},
      "passEnv": ["LC_ALL"], "enabled": false, "disabledReason": "not now", "kind": "process-json-persistent",
      "instances": 2, "idleMs": 5, "config": {"providers": []}, "timeoutMs": 7, "maxOutputBytes": 8,
      "packageId": "p", "packageVersion": "1.4.0", "protocolVersion": "1", "compatibleCore": ">=0.1,<1",
      "probe": {"mode": "command", "timeoutMs": 9},
      "permissions": {"network": true, "fs": {"read": ["."], "write": ["d", "${input.outputDir}"]},
        "secrets": ["BRAVE_API_KEY"], "desktop": true},
      "limits": {"cpuSeconds": 60, "memoryBytes": 1073741824, "fileBytes": 1, "openFiles": 256,
        "processes": 64},
      "seal": "in-place", "tools": ["web.search"]}}}"""
    (entry,) = root.load(text).entries
    assert entry.problems == ()
    shown = json.loads(msgspec.json.encode(entry))
    raw = shown.pop("raw")
    same = set(raw) - {"permissions", "seal", "tools"}
    assert {key: shown[key] for key in same} == {key: raw[key] for key in same}
    assert shown["permissions"] == {
        "network": True,
        "read": ["."],
        "write": ["d", "${input.outputDir}"],
        "secrets": ["BRAVE_API_KEY"],
        "optionalSecrets": [],
        "secretTypes": [],
        "desktop": True,
    }
    assert entry.seal_in_place
    assert entry.tool_names == ("web.search",)


def test_the_schema_is_one_and_takes_the_examples_it_shows() -> None:
    schema = registry_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    checked = 0

    def walk(node: object) -> None:
        nonlocal checked
        if isinstance(node, dict):
            validator = jsonschema.Draft202012Validator({**node, "$defs": definitions})
            for example in node["examples"] if isinstance(node.get("examples"), list) else ():
                validator.validate(example)
                checked += 1
            for child in node.values():
                walk(child)
        elif isinstance(node, list):
            for child in node:
                walk(child)

    walk(schema)
    assert checked > 40


def test_read_jsonc_gives_places(root: Root) -> None:
    value, index, problems = read_jsonc('{"a": [1,\n  {"b~/c": 2}], // c\n}', "f")
    assert value == {"a": [1, {"b~/c": 2}]}
    assert problems == ()
    assert index is not None
    span = index.key("/a/1/b~0~1c")
    assert span is not None
    assert index.text[span.start : span.end] == '"b~/c"'
    assert index.position(span.start) == (2, 4)


@pytest.mark.parametrize(
    ("entries", "tools", "word"), [(1_001, 1, "1,001 entries"), (2, 5_001, "10,002 tools")]
)
def test_a_project_s_file_without_measure_is_refused_as_a_whole(entries: int, tools: int, word: str) -> None:
    text = json.dumps(
        {
            "schemaVersion": 2,
            "sidecars": {
                f"s{number}": {"command": "./x", "tools": [f"s{number}.t{each}" for each in range(tools)]}
                for number in range(entries)
            },
        }
    )
    read, found = parse_registry(text, "tools/external.tools.jsonc", Source.PROJECT, frozenset())
    assert read is None
    assert word in found[0].message
    read, _ = parse_registry(text, "~/external.tools.jsonc", Source.USER, frozenset())
    assert read is not None


def test_a_file_without_a_version_is_read_as_the_first_one(root: Root) -> None:
    registry = root.load('{"sidecars": {"mine": {"command": "x", "tools": ["file.hash"]}}}')
    assert [entry.id for entry in registry.entries if entry.valid] == ["mine"]
    (found,) = registry.diagnostics
    assert (found.rule, found.severity) == ("schema-version", "warning")
