"""Kits and sources on the command line: listed, looked at, linted, and taken over by a person alone."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from flycore.catalog.document import catalog_schema
from flytui.cli.commands.schema import schema_of
from kits.command_line import Desk
from kits.tables import each_row

KITS = """{
  "schemaVersion": 1,
  "kits": [
    {"id": "own", "kind": "clii", "name": "Own", "version": "1", "permissions": []}
  ]
}"""
HOSTILE = "\u202etxt.evil\x1b[2J\u200b"


@pytest.fixture
def full(desk: Desk) -> Desk:
    """A root with a server, a skill and a faulty kit."""
    server = {"command": "notes-server", "env": {"NOTES_TOKEN": "hunter2"}}
    servers = {
        "notes": server,
        "flytui": {"command": "flytui", "args": ["mcp"]},
        HOSTILE: {"command": HOSTILE},
    }
    (desk.root / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    skill = desk.root / "skills" / "mend"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        f'---\nname: mend\ndescription: "Mends {json.dumps(HOSTILE)[1:-1]}"\n---\n'
    )
    (desk.root / "tools" / "kits").mkdir(parents=True)
    (desk.root / "tools" / "kits" / "kits.jsonc").write_text(KITS)
    return desk


def entries(desk: Desk) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((desk.root / "tools/external.tools.jsonc").read_text())["sidecars"]
    return found


def test_the_catalog_says_how_much_there_is_and_all_of_it_on_request(full: Desk) -> None:
    short, whole = full.run("catalog"), full.run("catalog", "--all", "--plain")
    assert "9 kits" not in short.stdout
    assert "10 kits, 1 skill, 3 mcp-servers" in short.stderr
    for name in ("flytui.console", "mend", "notes", "own"):
        assert name in whole.stdout
    for hidden in ("\x1b[2J", "\u202e", "\u200b", "hunter2"):
        assert hidden not in whole.stdout
    document = full.document("catalog")
    jsonschema.validate(document, catalog_schema())
    assert {item["kind"] for item in document["kits"]} == {"kit", "skill", "mcp-server"}
    filtered = full.document("catalog", "--filter", "mend")
    assert [item["id"] for item in filtered["kits"]] == ["mend"]


def test_one_is_looked_at_by_its_id_or_with_its_kind(full: Desk) -> None:
    assert "there is no kind clii" in full.run("inspect", "own").stdout
    shown = full.run("inspect", "mcp-server:notes").stdout
    assert "NOTES_TOKEN" in shown
    assert "hunter2" not in shown
    document = full.document("inspect", "kit:flytui.cli")
    jsonschema.validate(document, schema_of("inspect"))
    assert document["described"][0]["type"] == "cli"


def test_lint_tells_what_is_wrong_in_a_kit_with_its_place(full: Desk) -> None:
    done = full.run("lint")
    assert done.returncode == 5
    assert "tools/kits/kits.jsonc:4:27: error: " in done.stdout
    alone = full.run("lint", "tools/kits/kits.jsonc")
    assert alone.returncode == 5
    assert ":4:27: error: " in alone.stdout


def test_a_person_on_the_terminal_takes_a_server_over(full: Desk) -> None:
    before = full.run("tools", "import", "notes", given=b"y\n")
    assert before.returncode == 4
    assert "notes" not in entries(full)
    with full.terminal("tools", "import", "notes") as terminal:
        terminal.until("y/N")
        assert "hunter2" not in terminal.shown
        terminal.press("n\r")
        assert terminal.end() == 4
    assert "notes" not in entries(full)
    with full.terminal("tools", "import", "notes") as terminal:
        terminal.until("y/N")
        terminal.press("y\r")
        assert terminal.end() == 0
    assert entries(full)["notes"] == {
        "kind": "mcp",
        "command": "notes-server",
        "permissions": {"secrets": ["NOTES_TOKEN"]},
    }
    (view,) = [view for view in full.document("catalog")["sidecars"] if view["id"] == "notes"]
    assert view["trusted"]
    assert full.run("audit", "verify").returncode == 0


@each_row(("name", "code"), [("flytui", 5), ("nobody", 3), (HOSTILE, 5)])
def test_what_cannot_be_taken_over_says_why(full: Desk, name: str, code: int) -> None:
    before = entries(full)
    done = full.run("tools", "import", name)
    assert done.returncode == code
    assert done.stderr.strip()
    assert "\x1b[2J" not in done.stderr + done.stdout
    assert entries(full) == before


def test_what_would_be_written_is_a_document_for_scripts_and_nothing_is_written(full: Desk) -> None:
    before = entries(full)
    document = full.document("tools", "import", "notes", "--print")
    jsonschema.validate(document, schema_of("import"))
    assert document["outcome"] == "shown"
    assert document["offer"]["entry"]["command"] == "notes-server"
    assert entries(full) == before
