"""A server of another client's file, taken over by a person: its tools can then be called."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kits.command_line import LONGEST, Desk, Terminal
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


@dataclass(frozen=True)
class TokenDesk(Desk):
    """The same root, with the server's secret in the environment."""

    @property
    def environ(self) -> dict[str, str]:
        """The environment with the secret."""
        return {**super().environ, "NOTES_TOKEN": SECRET}


def asks(desk: Desk) -> list[dict[str, Any]]:
    """The requests of this session."""
    found: list[dict[str, Any]] = desk.document("approvals")["asks"]
    return found


def approved(desk: Desk, console: Terminal, *words: str) -> tuple[dict[str, Any], str]:
    """The result of a call that a person approves in the console, and all that the command printed."""
    calling = desk.start("call", *words, "--json")
    # Its card opens by itself only where no key was pressed for a while.
    console.until_so("it waits", lambda: any(ask["state"] == "waiting" for ask in asks(desk)))
    console.press("\x0f")
    console.decide("a", lambda: calling.poll() is not None)
    out, err = calling.communicate(timeout=LONGEST)
    return json.loads(out), (out + err).decode()


def test_an_imported_server_is_connected_to_and_called(beside: Desk) -> None:
    # A person is asked although a rule allows it: nothing pins what `python notes.py` imports.
    desk = TokenDesk(beside.root, beside.home, beside.forked)
    with desk.terminal() as console:
        console.until("policy ok")
        done, _ = approved(desk, console, "notes.add", "a=1", "b=2")
        assert done["output"] == {"result": 3}
        told, printed = approved(desk, console, "notes.token")
        assert told["status"] == "success"
        assert SECRET not in printed
    named = {item["name"] for item in beside.document("catalog")["capabilities"]}
    assert {"notes.add", "notes.token"} <= named
    state = [path for path in Path(beside.home).rglob("*") if path.is_file()]
    assert not [path for path in state if SECRET.encode() in path.read_bytes()]


def test_without_its_secret_it_is_not_started_and_says_so(beside: Desk) -> None:
    done = json.loads(beside.run("call", "notes.add", "a=1", "b=2", "--json").stdout)
    assert done["status"] != "success"
    assert "NOTES_TOKEN" in done["error"]["hint"] + done["error"]["message"]
