"""`flytui serve` as a process: it holds the root, says where it listens, and shows codes to its person."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect as sync_connect

from flycore.client.attach import open_attached_console
from flycore.client.client import connect
from flycore.model.errors import NotPaired
from flycore.registry.paths import RootPaths, find_paths
from kits.command_line import LONGEST, Desk, until

CODE = re.compile(r"type there: (\S{4}-\S{4})")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    root, home = tmp_path / "shop", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    (home / "run").mkdir(mode=0o700)
    return Desk(root, home)


def places(desk: Desk) -> RootPaths:
    return find_paths(str(desk.root), None, desk.environ, desk.root)


@pytest.mark.parametrize(("ending", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_it_serves_until_it_is_told_to_stop(desk: Desk, ending: signal.Signals, code: int) -> None:
    with desk.serving() as process:
        status = desk.document("status")
        assert (status["kernel"]["role"], status["kernel"]["pid"]) == ("headless", process.pid)
        assert (status["kernel"]["approver"], status["kernel"]["consoles"]) == (False, 0)
        process.send_signal(ending)
        out, err = process.communicate(timeout=LONGEST)
        assert process.returncode == code
    assert out.decode().splitlines() == [
        f"root    {desk.root}",
        f"pid     {process.pid}",
        f"socket  {places(desk).socket}",
    ]
    assert err == b""
    assert not places(desk).socket.exists()
    assert not desk.document("status")["running"]


def test_a_rule_that_another_program_writes_waits_and_the_commands_name_it(desk: Desk) -> None:
    with desk.serving():
        desk.allow({"schemaVersion": 1, "rules": [{"tool": "*", "decision": "allow", "because": "planted"}]})
        until("the rule waits", lambda: desk.document("status")["kernel"]["waitingRules"] == 1)
        assert "1 looser change of its file waits for you: flytui approvals" in desk.run("status").stdout
        for words in (("approvals",), ("policy", "check")):
            assert "new      allow * · “planted”" in desk.run(*words).stdout.replace("⟨space×6⟩", " " * 6)
        assert "1 looser change of the policy files" in desk.run("doctor").stdout


def test_it_says_what_waits_for_trust_and_where_it_is_decided(desk: Desk) -> None:
    (desk.root / "tools").mkdir()
    entry = {"command": "cat", "tools": ["file.hash"]}
    registry = {"schemaVersion": 2, "sidecars": {"one": entry}}
    (desk.root / "tools" / "external.tools.jsonc").write_text(json.dumps(registry))
    with desk.serving() as process:
        assert process.stderr is not None
        told = process.stderr.readline().decode()
    assert told.startswith("1 entry waits for trust and does not run: open flytui")


def test_the_second_one_says_who_holds_the_root(desk: Desk) -> None:
    with desk.serving() as process:
        second = desk.run("serve")
        assert second.returncode == 5
        assert f"held by pid {process.pid} (flytui serve), since 20" in second.stderr
        assert second.stdout == ""
    with desk.serving():
        pass


def test_its_document_is_one_and_comes_before_it_serves(desk: Desk) -> None:
    with desk.serving("--json") as process:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=LONGEST)
    assert json.loads(out) == {
        "schema": "flytui.serve/1",
        "appRoot": str(desk.root),
        "pid": process.pid,
        "socket": str(places(desk).socket),
        "listening": [],
    }


def test_a_kernel_that_was_killed_keeps_nobody_out(desk: Desk) -> None:
    with desk.serving() as process:
        process.send_signal(signal.SIGKILL)
        process.wait(LONGEST)
        assert places(desk).socket.is_socket()
        assert not desk.document("status")["running"]
    with desk.serving():
        assert desk.document("status")["kernel"]["role"] == "headless"


async def no_code() -> str:
    raise AssertionError("no code may be asked for")


@pytest.mark.anyio
async def test_without_a_terminal_no_code_is_made(desk: Desk) -> None:
    with desk.serving() as process:
        with pytest.raises(NotPaired, match="no terminal"):
            async with open_attached_console(places(desk), code=no_code):
                pass
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LONGEST)
    assert CODE.search((out + err).decode()) is None


@pytest.mark.anyio
async def test_on_a_terminal_its_person_reads_the_code_and_who_asks(desk: Desk) -> None:
    with desk.terminal("serve") as terminal:
        terminal.until("socket")

        async def code() -> str:
            terminal.until("type there:")
            terminal.until_so("the code", lambda: CODE.search(terminal.shown) is not None)
            found = CODE.search(terminal.shown)
            assert found is not None
            return found[1].lower()

        async with open_attached_console(places(desk), code=code) as (client, _):
            status = await client.status()
            assert (status.role, status.consoles) == ("headless", 1)
            terminal.until("a console has come in")
        terminal.until("a console has left")
        assert f"pid {os.getpid()}" in terminal.shown
        async with connect(places(desk), start=False) as agent:
            assert not (await agent.status()).approver
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.end() == 143


def test_it_listens_on_loopback_where_it_is_told_to(desk: Desk) -> None:
    with desk.serving("--tcp", "--http", "--port", "0", "--json") as process:
        until("both doors", lambda: len(desk.document("status")["kernel"]["listening"]) == 2)
        listening = desk.document("status")["kernel"]["listening"]
        assert [re.sub(r":[0-9]+/", ":N/", address) for address in listening] == [
            "ws://127.0.0.1:N/ws",
            "http://127.0.0.1:N/mcp",
        ]
        assert all(address in desk.run("status").stdout for address in listening)
        token = desk.document("token", "new", "claude")["token"]
        headers = {"Authorization": f"Bearer {token}"}
        with sync_connect(listening[0], additional_headers=headers, proxy=None) as connection:
            assert json.loads(connection.recv())["type"] == "server.hello"
            assert desk.run("token", "revoke", "claude").returncode == 0
            with pytest.raises(ConnectionClosed):
                connection.recv(timeout=LONGEST)
        with pytest.raises(InvalidStatus), sync_connect(listening[0], additional_headers=headers, proxy=None):
            pass
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LONGEST)
    assert json.loads(out)["listening"] == listening
    assert (process.returncode, err) == (143, b"")


def test_a_port_without_a_door_is_a_mistake(desk: Desk) -> None:
    assert desk.run("serve", "--port", "0").returncode == 2
