"""Clients that are not ours, over TCP: wscat on Node 22, and a program with the package `websockets`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from kits.kernel import ECHO, PATIENCE, Root, tool
from kits.programs import node_tool
from kits.tcp import listening

pytestmark = pytest.mark.anyio

CALL = json.dumps(
    {
        "protocol": "flyflor.ws.v1",
        "id": "call",
        "type": "tool.call",
        "at": 0,
        "payload": {"tool": "echo.free", "input": {}},
    }
)
PROGRAM = """
import json, sys
from websockets.sync.client import connect
headers = {"Authorization": "Bearer " + sys.argv[2]}
with connect(sys.argv[1], additional_headers=headers, proxy=None) as socket:
    print(socket.recv())
    socket.send(sys.argv[3])
    answer = {"type": ""}
    while answer["type"] != "tool.result":
        answer = json.loads(socket.recv())
    print(json.dumps(answer))
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.free"))
    root.policy({"tool": "echo.free", "decision": "allow", "because": "test"})
    return root


async def run(*command: str) -> tuple[int, str, str]:
    """Run to the end, standard input open and silent; exit code, standard output and standard error."""
    inner, outer = os.pipe()
    try:
        with anyio.fail_after(2 * PATIENCE):
            done = await anyio.run_process(command, check=False, stdin=inner, stderr=subprocess.PIPE)
    finally:
        os.close(inner)
        os.close(outer)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def answers(text: str) -> dict[str, dict[str, object]]:
    """The messages in that output, by type; wscat puts a mark before each."""
    lines = [line[line.index("{") :] for line in text.splitlines() if '"protocol"' in line]
    found = [json.loads(line) for line in lines]
    return {message["type"]: message["payload"] for message in found}


async def test_a_program_with_websockets_calls_a_tool(root: Root) -> None:
    async with listening(root) as at:
        code, out, err = await run(sys.executable, "-c", PROGRAM, at.address, at.token, CALL)
    assert (code, err) == (0, "")
    told = answers(out)
    assert told["tool.result"]["status"] == "success"
    assert "tool.call" in str(told["server.hello"]["capabilities"])


async def until_result(*command: str) -> str:
    """Start a client that stays while its standard input is open; what it prints until a result is there."""
    process = await anyio.open_process(command, stdin=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    shown = b""
    try:
        with anyio.fail_after(2 * PATIENCE):
            while b"tool.result" not in shown or not shown.endswith(b"\n"):
                shown += await process.stdout.receive()
    except anyio.EndOfStream:
        pytest.fail(f"left without a result: {shown.decode()}")
    finally:
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()
    return shown.decode()


async def test_wscat_calls_a_tool_and_is_refused_without_a_token(root: Root) -> None:
    wscat = node_tool("wscat")
    async with listening(root) as at:
        bearer = f"Authorization: Bearer {at.token}"
        out = await until_result(*wscat, "-c", at.address, "-H", bearer, "-x", CALL, "-w", "-1")
        assert answers(out)["tool.result"]["status"] == "success"
        _, out, err = await run(*wscat, "-c", at.address, "-x", CALL)
        assert "401" in out + err
        assert "server.hello" not in out
        evil = "http://evil.example"
        _, out, err = await run(*wscat, "-c", at.address, "-H", bearer, "-o", evil, "-x", CALL)
        assert "403" in out + err
