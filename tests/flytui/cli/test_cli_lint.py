"""`flytui lint`: every problem of every file, with its place and its line."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest

from flycore.offline.lint import kind_of
from flytui.cli.commands.schema import schema_of
from kits.command import COMMAND
from kits.command_line import REGISTRY as COMMON
from kits.command_line import Desk

REGISTRY = """{
  "schemaVersion": 2,
  "sidecars": {
    "one.bad": {"command": 7, "tools": ["web.fetch"]},
    "two.bad": {"command": "/bin/true", "tols": ["a.b"]}
  }
}
"""
POLICY = """{"schemaVersion": 1, "rules": [
  {"tool": "web.*", "decision": "perhaps", "because": "x"}
]}"""
SETTINGS = """{
  "quota": {"running": "many"},
  "quotta": {},
  "theme": "no-such",
  "keys": {"card.approve": "enter", "no.such": "f7"}
}"""


def configure(desk: Desk, name: str, text: str) -> Path:
    """Write a file of the person's own."""
    folder = desk.home / "config" / "flytui"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def test_all_files_are_looked_at_and_every_finding_has_its_line(desk: Desk) -> None:
    desk.write(REGISTRY)
    policy, settings = configure(desk, "policy.jsonc", POLICY), configure(desk, "config.jsonc", SETTINGS)
    done = desk.run("lint")
    assert done.returncode == 5
    lines = done.stdout.splitlines()
    for place, line in (
        ("tools/external.tools.jsonc:4:28: error: ", '"one.bad": {"command": 7,'),
        (f"{policy}:2:33: error: ", '"decision": "perhaps"'),
        (f"{settings}:2:24: error: ", '"quota": {"running": "many"}'),
        (f"{settings}:3:3: warning: ", '"quotta": {}'),
        (f"{settings}:4:12: warning: ", '"theme": "no-such"'),
        (f"{settings}:5:28: warning: ", '"card.approve": "enter"'),
        (f"{settings}:5:48: warning: ", '"no.such": "f7"'),
    ):
        (at,) = [number for number, text in enumerate(lines) if text.startswith(place)]
        assert line in lines[at + 1]
        column = int(place.split(":")[2])
        assert lines[at + 2] == " " * (4 + column - 1) + "^"
        assert lines[at + 3].startswith("    → ")
    document = desk.document("lint")
    jsonschema.validate(document, schema_of("lint"), jsonschema.Draft202012Validator)
    assert document["errors"] == 3
    assert {(file["kind"], file["present"]) for file in document["files"]} >= {
        ("registry", True),
        ("policy", True),
        ("settings", True),
    }


def test_a_well_written_root_has_nothing_to_say(desk: Desk) -> None:
    declared = {name: {"permissions": {}, **entry} for name, entry in COMMON["sidecars"].items()}
    desk.write({"schemaVersion": 2, "sidecars": declared})
    done = desk.run("lint")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("0 errors, 0 warnings in registry ")


@pytest.mark.parametrize(
    ("name", "text", "words", "said"),
    [
        ("draft.jsonc", REGISTRY, (), "draft.jsonc:4:28: error"),
        ("draft.jsonc", POLICY, (), "draft.jsonc:2:33: error"),
        ("draft.jsonc", SETTINGS, (), "draft.jsonc:2:24: error"),
        ("draft.jsonc", "{}", ("--as", "policy"), "schemaVersion 1"),
        ("policy.jsonc", "{", (), "policy.jsonc:1:1: error"),
        ("draft.jsonc", "\x00", (), "a NUL character"),
        ("draft.jsonc", "", (), "the file is empty"),
    ],
)
def test_a_file_is_known_by_its_name_or_its_content(
    settled: Desk, tmp_path: Path, name: str, text: str, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / name).write_text(text)
    done = settled.run("lint", str(tmp_path / name), *words)
    assert done.returncode == 5
    assert said in done.stdout
    assert "Traceback" not in done.stderr


def test_a_line_of_a_hostile_file_obeys_nobody(settled: Desk, tmp_path: Path) -> None:
    (tmp_path / "x.jsonc").write_text('{"quota": {"running": "\x9b2J\u202e[/nope]"}}')
    done = settled.run("lint", str(tmp_path / "x.jsonc"))
    assert done.returncode == 5
    assert "⟦U+202E⟧[/nope]" in done.stdout
    assert all(letter.isprintable() or letter == "\n" for letter in done.stdout)


def test_usage_is_refused_in_a_sentence(settled: Desk, tmp_path: Path) -> None:
    for words in (("lint", "--as", "policy"), ("lint", str(tmp_path / "absent")), ("lint", str(tmp_path))):
        done = settled.run(*words)
        assert (done.returncode, done.stdout) == (2, "")


def test_kinds() -> None:
    assert kind_of("policy.jsonc", "nonsense") == "policy"
    assert kind_of("x", '{"rules": []}') == "policy"
    assert kind_of("x", '{"sidecars": {}}') == "registry"
    assert kind_of("x", "[1") == "settings"


UNDECLARED = """{
  "schemaVersion": 2,
  "sidecars": {
    "one.open": {"command": "flytui-sidecar", "args": ["utility.local"], "tools": ["file.hash"]},
    "two.declared": {"command": "flytui-sidecar", "args": ["web.search"],
      "permissions": {"network": true}, "tools": ["web.fetch"]}
  }
}
"""


def test_an_entry_without_permissions_is_named_with_the_line_to_add(desk: Desk) -> None:
    desk.write(UNDECLARED)
    place, line = "tools/external.tools.jsonc:4:5", '"permissions": {"fs": {"read": ["."]}},'
    linted = desk.run("lint")
    assert linted.returncode == 0
    assert f"{place}: warning: one.open: has no" in linted.stdout
    assert "[no-permissions]" in linted.stdout
    assert f"add this line to the entry: {line}" in linted.stdout
    assert "two.declared" not in linted.stdout
    alone = desk.run("lint", str(desk.root / "tools" / "external.tools.jsonc"))
    assert alone.stdout.count("[no-permissions]") == 1
    checks = desk.document("doctor")["checks"]
    (found,) = [check for check in checks if check["name"] == "permissions"]
    assert found["message"].startswith(f"{place}: no-permissions: one.open: has no")
    assert line in found["fix"]
    assert (found["state"], found["sidecar"]) == ("warn", "one.open")


SECRET = "sk-live-0123456789abcdef"
FOREIGN = {
    ".ybs.json": f'{{"llm": {{"api_key": "{SECRET}"}}, "externalTools": {{"enabled": 1}}}}',
    "component.yaml": "name: a b\nversion: 1.0.0\nruntime: {type: go, entrypoint: ./x}\n",
    ".glee/config.yml": f"security: {{max_permissions: [{SECRET}]}}\n",
    ".mcp.json": f'{{"mcpServers": {{"notes": {{"command": 7, "env": {{"KEY": "{SECRET}"}}}}}}}}',
    ".claude-plugin/plugin.json": f'{{"name": 7, "token": "{SECRET}"}}',
    ".glee/tools/call/tool.yml": "name: call\ndescription: Calls.\nkind: http\n"
    f"exec: {{http: {{url: 'https://a.example/', headers: {{Host: {SECRET}}}}}}}\n",
    "skills/mend/SKILL.md": "---\nname: mend\n---\n",
}


def test_files_of_other_programs_are_checked_and_none_of_their_lines_is_shown(desk: Desk) -> None:
    for name, text in FOREIGN.items():
        (desk.root / name).parent.mkdir(parents=True, exist_ok=True)
        (desk.root / name).write_text(text)
    done = desk.run("lint")
    assert done.returncode == 5
    for name, rule in (
        (".ybs.json:1", "config-value"),
        ("component.yaml:1:1", "component"),
        (".glee/config.yml:1:12", "config-value"),
        (".glee/tools/call/tool.yml:4", "header"),
        (".mcp.json:1", "schema"),
        (".claude-plugin/plugin.json:1:10", "plugin-name"),
        ("skills/mend/SKILL.md:1:1", "skill"),
    ):
        assert re.search(rf"^{re.escape(name)}.*: error: .*\[{rule}\]$", done.stdout, re.MULTILINE), name
    assert SECRET not in done.stdout
    for name, text in FOREIGN.items():
        alone = desk.run("lint", str(desk.root / name))
        assert alone.returncode == 5, name
        assert SECRET not in alone.stdout, text


def test_a_folder_is_checked_as_a_root(settled: Desk, tmp_path: Path) -> None:
    (tmp_path / "shop" / "tools").mkdir(parents=True)
    (tmp_path / "shop" / "tools" / "external.tools.jsonc").write_text(REGISTRY)
    done = Desk(tmp_path, settled.home).run("lint", str(tmp_path / "shop"))
    assert (done.returncode, done.stdout) == (2, "")  # --root names another folder
    argv = ["flytui", "lint", "shop"]
    found = COMMAND.run(argv, settled.environ, tmp_path, b"", 60)
    assert found.returncode == 5
    assert b"tools/external.tools.jsonc:4:28: error" in found.stdout


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("fine", 0o755, ""),
        ("a b", 0o755, "has a name that no tool can have"),
        ("script.sh", 0o644, "is a script that is not executable"),
    ],
)
def test_an_executable_is_checked_and_not_started(desk: Desk, name: str, mode: int, said: str) -> None:
    file = desk.root / "tools" / "bin" / name
    file.parent.mkdir(parents=True)
    file.write_text(f"#!/bin/sh\ntouch {desk.root}/ran\n# \xe9\n", encoding="latin-1")
    file.chmod(mode)
    for words in (("lint",), ("lint", str(file), *(() if mode == 0o755 else ("--as", "executables")))):
        document = desk.document(*words)
        found = [item for item in document["diagnostics"] if item["rule"] == "executable"]
        assert [said in item["message"] for item in found] == ([True] if said else [])
        assert document["errors"] == 0
        assert not said or found[0]["excerpt"] == ""
    assert desk.document("lint", str(file), "--as", "executables")["files"][0]["kind"] == "executables"
    assert not (desk.root / "ran").exists()


TOOLS_CONFIG = """{
  "externalTools": {"searchPaths": "~/x", "defaultTimeoutMs": 0},
  "security": {"max_permissions": {"network": "yes", "fs": {"read": [7]}, "secrets": "KEY"}}
}
"""


def test_the_configuration_of_tools_is_checked_in_a_root_and_alone(desk: Desk) -> None:
    file = desk.root / "tools" / "config.jsonc"
    file.parent.mkdir(exist_ok=True)
    file.write_text(TOOLS_CONFIG)
    for words in (("lint",), ("lint", str(file)), ("lint", str(file), "--as", "tools-config")):
        document = desk.document(*words)
        assert ("tools-config", True) in [(one["kind"], one["present"]) for one in document["files"]]
        found = [
            item for item in document["diagnostics"] if item["position"]["file"].endswith("config.jsonc")
        ]
        places = [(item["rule"], item["pointer"], item["position"]["line"]) for item in found]
        assert places == [
            ("external-tools", "/externalTools/searchPaths", 2),
            ("external-tools", "/externalTools/defaultTimeoutMs", 2),
            ("config-value", "/security/max_permissions/network", 3),
            ("config-value", "/security/max_permissions/fs/read", 3),
            ("config-value", "/security/max_permissions/secrets", 3),
        ]
        assert all('"externalTools"' in item["excerpt"] for item in found[:2])
    (desk.root / "draft.jsonc").write_text('{"externalTools": 7}')
    assert desk.document("lint", str(desk.root / "draft.jsonc"))["files"][0]["kind"] == "tools-config"


ANNOTATION = re.compile(r"::(error|warning|notice) ((?:[a-z]+=[^,:]*,?)+)::(.*)")


def test_annotations_of_github_are_lines_that_no_text_of_a_file_can_leave(desk: Desk) -> None:
    hostile = "a,b:%\n::error::x\r::set-output name=x::y\u2028\x1b[31m"
    entries = {hostile: {"command": 7}, "two.bad": {"command": "./x", "tools": [hostile], "permissions": {}}}
    desk.write({"schemaVersion": 2, "sidecars": entries})
    done = desk.run("lint", "--format", "github", GITHUB_WORKSPACE=str(desk.root.parent))
    assert done.returncode == 5
    assert done.stdout.isprintable() or set(filter(lambda char: not char.isprintable(), done.stdout)) == {
        "\n"
    }
    found = [ANNOTATION.fullmatch(line) for line in done.stdout.splitlines()]
    assert found
    assert all(found)
    matches = [match for match in found if match is not None]
    facts = [dict(part.split("=") for part in match[2].split(",")) for match in matches]
    assert {fact["file"] for fact in facts} == {f"{desk.root.name}/tools/external.tools.jsonc"}
    assert all(fact["line"].isdecimal() and fact["col"].isdecimal() for fact in facts)
    assert {fact["title"] for fact in facts} >= {"sidecar-id", "schema", "unknown-tool"}
    assert any("a,b:%25%0A::error::x%0D::set-output" in match[3] for match in matches)
    assert "errors" in done.stderr


def test_annotations_name_files_from_the_working_directory(desk: Desk) -> None:
    desk.write(REGISTRY)
    done = desk.run("lint", "--format", "github")
    assert "file=tools/external.tools.jsonc,line=4,col=28,title=schema::command: must be" in done.stdout
    for words in (("--json", "--format", "github"), (str(desk.root), "--as", "policy")):
        assert desk.run("lint", *words).returncode == 2


def test_the_tools_are_checked_against_the_rules_of_clients(desk: Desk) -> None:
    schema = '{"type": "object", "properties": {"to": {"type": "string", "format": "email"}}}'
    tool = f'{{"name": "demo.send", "description": "Sends.", "inputSchema": {schema}}}'
    desk.write(
        f'{{"schemaVersion": 2, "sidecars": {{"one.sends": {{"command": "/bin/true", "tools": [{tool}]}}}}}}'
    )
    done = desk.run("lint", "--clients")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "info: demo.send: the format of a text is one that all interfaces know" in done.stdout
    assert "not so at /properties/to [client-schema]" in done.stdout
    assert "client-listing" not in done.stdout
    assert f"0 errors, 0 warnings in the tools of {desk.root}" in done.stdout
    assert [item["rule"] for item in desk.document("lint", "--clients")["diagnostics"]] == ["client-schema"]
    assert desk.run("lint", "--clients", str(desk.root / "tools" / "external.tools.jsonc")).returncode == 2
