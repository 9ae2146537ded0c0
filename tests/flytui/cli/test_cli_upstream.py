"""A server of another client's file, taken over by a person: its tools can then be called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kits.command_line import Desk
from kits.mcp_servers import NOTES

SECRET = "correct-horse-battery"
TOOL = """

@server.tool()
def token() -> str:
    \"\"\"The token it was given.\"\"\"
    return os.environ["NOTES_TOKEN"]


if"""


@pytest.fixture
def beside(desk: Desk) -> Desk:
    """A root whose `.mcp.json` names a server of the official SDK, with a secret."""
    desk.write({"schemaVersion": 2, "sidecars": {}})
    (desk.root / "notes.py").write_text(NOTES.replace("\n\nif", TOOL))
    server = {"command": "python", "args": ["notes.py"], "env": {"NOTES_TOKEN": SECRET}}
    (desk.root / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": server}}))
    desk.allow({"schemaVersion": 1, "rules": [{"tool": "notes.*", "decision": "allow", "because": "test"}]})
    with desk.terminal("tools", "import", "notes") as terminal:
        terminal.until("y/N")
        terminal.press("y\r")
        assert terminal.end() == 0
    return desk


def test_an_imported_server_is_connected_to_and_called(beside: Desk) -> None:
    done = beside.run("call", "notes.add", "a=1", "b=2", "--json", NOTES_TOKEN=SECRET)
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["output"] == {"result": 3}
    told = beside.run("call", "notes.token", "--json", NOTES_TOKEN=SECRET)
    assert json.loads(told.stdout)["status"] == "success"
    assert SECRET not in told.stdout + told.stderr
    named = {item["name"] for item in beside.document("catalog")["capabilities"]}
    assert {"notes.add", "notes.token"} <= named
    state = [path for path in Path(beside.home).rglob("*") if path.is_file()]
    assert not [path for path in state if SECRET.encode() in path.read_bytes()]


def test_without_its_secret_it_is_not_started_and_says_so(beside: Desk) -> None:
    done = json.loads(beside.run("call", "notes.add", "a=1", "b=2", "--json").stdout)
    assert done["status"] != "success"
    assert "NOTES_TOKEN" in done["error"]["hint"] + done["error"]["message"]
