"""`flytui migrate`: what other systems left becomes files of flytui, after a person has seen it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from flycore.registry.jsonc.parse import parse_jsonc
from flytui.cli.commands.schema import schema_of
from kits.command_line import Desk

SECRET = "sk-live-0123456789abcdef"
SENTINEL = "ran.txt"
PROGRAM = f"#!/bin/sh\ntouch {SENTINEL}\n"
MANIFEST = """# Finds open work.
name: repo_scan
description: Scan repo for TODOs
kind: command
version: 1
inputs:
  schema: {type: object, properties: {path: {type: string, default: "."}}}
exec:
  command:
    entrypoint: ./scripts/scan_todos.sh   # beside the project
    args: ["${path}"]
permissions:
  network: false
  fs: {read: [".", /etc], write: []}
"""
WRITTEN = MANIFEST.replace('[".", /etc]', "[.]")
LIMIT = """security:
  max_permissions:
    network: false
    fs: {read: [.], write: [/etc]}
"""
COMPONENT = f"""kind: tool
name: nmap
version: 1.0.0
description: Scans ports.
build: {{command: make}}
runtime:
  type: go
  entrypoint: ./nmap
  timeout: 1m30s
  env: {{LANG: C.UTF-8, SHODAN_API_KEY: {SECRET}}}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A root with files of all three systems, and a registry with a comment."""
    made = Desk(tmp_path / "root", tmp_path / "home")
    made.root.mkdir()
    (made.home / "run").mkdir(parents=True, mode=0o700)
    (made.home / ".ybs" / "tools").mkdir(parents=True)
    made.write('{\n  // mine\n  "schemaVersion": 2,\n  "sidecars": {}\n}\n')
    ybs = {
        "llm": {"api_key": SECRET},
        "externalTools": {
            "searchPaths": ["~/.ybs/tools", str(made.root / "more"), "../out", "/opt/tools"],
            "defaultTimeout": 2.5,
            "enabled": True,
        },
        "tools": {"external": [{"name": "Web Search", "type": "executable", "path": "./scripts/search"}]},
    }
    for name, text in {
        ".ybs.json": json.dumps(ybs),
        ".glee/config.yml": LIMIT,
        ".glee/tools/repo_scan/tool.yml": MANIFEST,
        "tools/nmap/component.yaml": COMPONENT,
        "tools/nmap/nmap": PROGRAM,
        "scripts/search": PROGRAM,
        "scripts/scan_todos.sh": PROGRAM,
    }.items():
        file = made.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    return made


def contents(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_the_plan_is_shown_and_nothing_is_written_where_nobody_can_answer(desk: Desk) -> None:
    before = contents(desk.root)
    done = desk.run("migrate")
    assert done.returncode == 4
    assert "nothing was written" in done.stderr
    assert contents(desk.root) == before
    for line in (
        "as-is ybs: ~/.ybs/tools",
        "cannot ybs: ../out",
        "cannot ybs: llm",
        "rewritten glee: repo_scan → tools/manifests/repo_scan/tool.yml  (.glee/tools/repo_scan/",
        "rewritten gibson: nmap → tools/external.tools.jsonc",
        '+    "defaultTimeoutMs": 2500,',
        "+    entrypoint: ./scripts/scan_todos.sh   # beside the project",
    ):
        assert line in done.stdout
    assert SECRET not in done.stdout + done.stderr


def test_what_cannot_be_seen_is_shown_as_a_token(desk: Desk) -> None:
    file = desk.root / ".glee" / "tools" / "repo_scan" / "tool.yml"
    file.write_text(MANIFEST.replace("Scan repo", "Scan \u202erepo") + f"#{' ' * 60}hidden\n")
    shown = desk.run("migrate", "--from", "glee").stdout
    assert "+description: Scan ⟦U+202E⟧repo for TODOs" in shown
    assert "+#⟦U+0020×60⟧hidden" in shown
    assert all(letter.isprintable() or letter == "\n" for letter in shown)


def test_what_is_applied_is_what_was_shown_and_a_second_time_finds_it(desk: Desk) -> None:
    before = contents(desk.root)
    shown = desk.document("migrate")
    jsonschema.validate(shown, schema_of("migrate"), jsonschema.Draft202012Validator)
    done = desk.run("migrate", "--apply")
    assert done.returncode == 0, done.stderr
    after = contents(desk.root)
    assert {name: text for name, text in after.items() if name in before} | {
        "tools/external.tools.jsonc": before["tools/external.tools.jsonc"]
    } == before
    assert {file["path"]: file["after"] for file in shown["files"]} == {
        name: text for name, text in after.items() if before.get(name) != text
    }
    assert after["tools/manifests/repo_scan/tool.yml"] == WRITTEN
    assert "// mine" in after["tools/external.tools.jsonc"]
    config = parsed(after["tools/config.jsonc"])
    assert config == {
        "externalTools": {
            "searchPaths": ["./more", "/opt/tools"],
            "defaultTimeoutMs": 2500,
            "enabled": True,
        },
        "security": {
            "max_permissions": {"network": False, "fs": {"read": ["."], "write": []}, "secrets": []}
        },
    }
    entries = parsed(after["tools/external.tools.jsonc"])["sidecars"]
    assert entries["nmap"]["permissions"] == {"secrets": ["SHODAN_API_KEY"]}
    assert (entries["nmap"]["env"], entries["nmap"]["timeoutMs"]) == ({"LANG": "C.UTF-8"}, 90_000)
    assert (entries["web-search"]["command"], entries["web-search"]["permissions"]) == (
        "./scripts/search",
        {},
    )
    assert all(SECRET not in after[name] for name in after.keys() - before.keys())
    assert not list(desk.root.rglob(SENTINEL))
    again = desk.document("migrate")
    assert (again["outcome"], again["files"]) == ("nothing", [])
    assert {line["verdict"] for line in again["lines"]} == {"as-is", "cannot", "present"}
    assert contents(desk.root) == after
    assert desk.run("lint").returncode == 0


def parsed(text: str) -> Any:
    value, problem = parse_jsonc(text, "")
    assert problem is None
    return value


def test_what_flytui_reads_where_it_is_is_not_copied(desk: Desk) -> None:
    (desk.root / ".glee" / "tools" / "repo_scan" / "tool.yml").write_text(WRITTEN)
    (desk.root / ".glee" / "config.yml").write_text(LIMIT.replace("/etc", "out"))
    before = contents(desk.root)
    document = desk.document("migrate", "--from", "glee", "--apply")
    assert [(line["verdict"], line["subject"]) for line in document["lines"]] == [
        ("as-is", "security.max_permissions"),
        ("as-is", "repo_scan"),
    ]
    assert (document["files"], contents(desk.root)) == ([], before)
    assert "tool-conflict" not in desk.run("lint").stdout


def test_a_person_answers_on_the_terminal(desk: Desk) -> None:
    before = contents(desk.root)
    for answer, code in (("\n", 4), ("n\n", 4), ("yes\n", 0)):
        with desk.terminal("migrate", "--from", "glee") as terminal:
            terminal.until("Write 2 files? y/N")
            assert contents(desk.root) == before
            terminal.press(answer)
            assert terminal.end() == code
    added = contents(desk.root).keys() - before.keys()
    assert added == {"tools/config.jsonc", "tools/manifests/repo_scan/tool.yml"}


def test_what_is_there_already_is_never_changed(desk: Desk) -> None:
    config = '{\n  // mine\n  "externalTools": {"searchPaths": ["./more"], "defaultTimeoutMs": 7}\n}\n'
    (desk.root / "tools" / "config.jsonc").write_text(config)
    (desk.root / "tools" / "manifests" / "repo_scan").mkdir(parents=True)
    (desk.root / "tools" / "manifests" / "repo_scan" / "tool.yml").write_text("name: repo_scan\n")
    desk.write({"schemaVersion": 2, "sidecars": {"nmap": {"command": "./other", "tools": ["file.hash"]}}})
    document = desk.document("migrate", "--apply")
    verdicts = {line["subject"]: (line["verdict"], line["text"]) for line in document["lines"]}
    assert verdicts["externalTools.defaultTimeout"] == ("cannot", "tools/config.jsonc has another value")
    assert verdicts["nmap"] == ("cannot", "tools/external.tools.jsonc already has another entry nmap")
    assert verdicts["repo_scan"][0] == "cannot"
    assert verdicts[str(desk.root / "more")][0] == "present"
    text = (desk.root / "tools" / "config.jsonc").read_text()
    assert '// mine\n  "externalTools": {"searchPaths": ["./more"' in text
    assert parsed(text)["externalTools"]["searchPaths"] == ["./more", "/opt/tools"]


def test_a_broken_target_is_named_and_left(desk: Desk) -> None:
    (desk.root / "tools" / "config.jsonc").write_text("{")
    desk.write("{")
    document = desk.document("migrate", "--apply")
    refused = [line["text"] for line in document["lines"] if "correct" in line["text"]]
    assert any("tools/config.jsonc first" in text for text in refused)
    assert any("external.tools.jsonc:1:1" in text for text in refused)
    assert [file["path"] for file in document["files"]] == ["tools/manifests/repo_scan/tool.yml"]


def test_targets_that_lead_out_are_not_written(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (desk.root / "tools" / "manifests").symlink_to(outside)
    (desk.root / "tools" / "config.jsonc").symlink_to(outside / "config.jsonc")
    done = desk.run("migrate", "--apply", "--from", "glee")
    assert done.returncode == 0
    assert done.stdout.count("is a link that leads outside its folder") == 2
    assert "nothing to write" in done.stdout
    assert list(outside.iterdir()) == []


def test_doctor_names_the_files_and_the_command(desk: Desk) -> None:
    checks = [check for check in desk.document("doctor")["checks"] if check["name"] == "other-systems"]
    assert [(check["state"], check["message"]) for check in checks] == [
        ("ok", "YBS left .ybs.json"),
        ("ok", "Gibson left tools/nmap/component.yaml"),
        ("ok", "Glee left .glee/config.yml"),
    ]
    assert checks[1]["fix"].startswith("flytui migrate --from gibson ")


def test_usage_and_an_empty_root(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = desk.run("migrate", str(tmp_path / "empty"))
    assert done.returncode == 2  # --root names another folder
    (desk.home / ".ybs" / "tools").rmdir()
    empty = Desk(tmp_path / "empty", desk.home).document("migrate")
    assert (empty["outcome"], empty["lines"], empty["files"]) == ("nothing", [], [])
