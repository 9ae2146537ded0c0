"""Programs that serve several calls, in the sandbox: sidecars that stay, and MCP servers over stdio."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.call import ToolResult
from flycore.model.enums import Code, Effective, Level, ReasonCode, Status
from flycore.sandbox import bubblewrap, landlock
from flycore.sandbox.detection import INSTALL_BUBBLEWRAP, detection
from kits.kernel import Root, approved_call, approver_of, kernel_of, permitted_call, processes_of, tool, until
from kits.mcp_servers import capability, connected, server_of, sidecar
from kits.programs import needs_bubblewrap, needs_landlock

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("tried_anew")]

REACHES = """
import json, os, secrets, signal, socket, sys
project, born = PROJECT, secrets.token_hex(8)
def tried(what):
    try:
        what()
        return "open"
    except OSError:
        return "shut"
def write(path):
    with open(path, "w") as file:
        file.write("x")
def reaches(given):
    if "end" in given:
        print("about to end", file=sys.stderr, flush=True)
        os.kill(os.getpid(), given["end"])
    return {
        "born": born,
        "declared": tried(lambda: write(project + "/out/file")),
        "temporary": tried(lambda: write(os.environ.get("TMPDIR", "/tmp") + "/file")),
        "undeclared": tried(lambda: write(project + "/file")),
        "home": tried(lambda: open(os.environ["HOME"] + "/secret")),
        "kernel": tried(lambda: open(f"/proc/{given['kernel']}/environ", "rb").read(1)),
        "network": tried(lambda: socket.create_connection(("127.0.0.1", given["port"])).close()),
    }
"""
STAYS = """
for line in sys.stdin:
    asked = json.loads(line)
    if "cancel" in asked:
        continue
    path = asked["artifactDir"] + "/made.txt"
    artifact = tried(lambda: write(path))
    found = {**reaches(asked["input"]), "artifact": artifact, "artifacts": [{"path": path}]}
    print(json.dumps({"ok": True, "requestId": asked["requestId"], **found}), flush=True)
"""
SERVES = """
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
print("the server begins", file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, params, number = message.get("method"), message.get("params") or {}, message.get("id")
    if method == "initialize":
        version = params["protocolVersion"]
        about = {"name": "reach", "version": "1"}
        found = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        say(id=number, result=found)
    elif method == "tools/list":
        say(id=number, result={"tools": [{"name": "do", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        text = json.dumps(reaches(params["arguments"]))
        say(id=number, result={"content": [{"type": "text", "text": text}]})
    elif number is not None:
        say(id=number, error={"code": -32601, "message": "no such method"})
"""
REFUSED = dict.fromkeys(("undeclared", "home", "kernel", "network"), "shut")
GRANTED = dict.fromkeys(("declared", "temporary"), "open")
WRITES = {"fs": {"write": ["out"]}}
ALLOW = {"tool": "*", "decision": "allow", "because": "test"}
KINDS = ["sidecar", "server"]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    (made.base / "secret").write_text("x")
    made.policy(ALLOW)
    return made


@pytest.fixture
def port() -> Iterator[int]:
    """Where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def declare(root: Root, kind: str, name: str = "it", **entry: Any) -> None:
    """Write a program of that kind, with one tool `NAME.do`."""
    common = REACHES.replace("PROJECT", repr(str(root.folder)))
    if kind == "server":
        server_of(root, name, common + SERVES, **entry)
        return
    script = "#!/usr/bin/env python3\n" + common + STAYS
    root.sidecar(name, script, tool(f"{name}.do"), kind="process-json-persistent", **entry)


async def ready(kernel: Kernel, name: str = "it") -> None:
    """Wait until its tool can be called."""
    await until(lambda: (found := capability(kernel, f"{name}.do")) and found.stability.effective.usable)


async def call(kernel: Kernel, name: str = "it", **given: Any) -> ToolResult:
    await ready(kernel, name)
    return await permitted_call(kernel, f"{name}.do", {"kernel": os.getpid(), "port": 9, **given})


def found_in(result: ToolResult) -> dict[str, Any]:
    """What the program reached."""
    assert result.status is Status.SUCCESS, (result.error, result.stderr_tail)
    if isinstance(result.output, dict) and "born" in result.output:
        return dict(result.output)
    assert result.text is not None
    found: dict[str, Any] = json.loads(result.text)
    return found


async def test_it_reaches_what_its_entry_declares_and_nothing_else(
    root: Root, level: Level, kind: str, port: int
) -> None:
    declare(root, kind, "shut", permissions=WRITES)
    declare(root, kind, "open", permissions={**WRITES, "network": True})
    async with kernel_of(root) as kernel:
        shut, again = [await call(kernel, "shut", port=port) for _ in range(2)]
        opened = found_in(await call(kernel, "open", port=port))
    for found in map(found_in, (shut, again)):
        assert {name: found[name] for name in (*GRANTED, *REFUSED)} == {**GRANTED, **REFUSED}
        assert found.get("artifact", "open") == "open"
    assert opened["network"] == "open"
    assert found_in(shut)["born"] == found_in(again)["born"]  # one process served both
    assert {shut.sandbox, again.sandbox} == {level}
    assert not (root.folder / "file").exists()


async def test_the_files_of_each_call_are_in_its_own_folder(root: Root, level: Level) -> None:
    declare(root, "sidecar", permissions=WRITES)
    async with kernel_of(root) as kernel:
        results = [await call(kernel) for _ in range(2)]
    paths = [Path(result.artifacts[0].path) for result in results]
    assert [path.parent.name for path in paths] == [result.call_id for result in results]
    assert paths[0].parent.parent == paths[1].parent.parent
    assert [path.read_text() for path in paths] == ["x", "x"]


async def test_how_the_program_ended_is_told_and_the_next_call_has_a_new_one(
    root: Root, level: Level, kind: str
) -> None:
    declare(root, kind, permissions=WRITES)
    async with kernel_of(root) as kernel:
        first = found_in(await call(kernel))
        died = await call(kernel, end=9)
        assert died.error is not None
        assert (died.error.code, died.exit_code) == (Code.CRASHED, -9)
        assert "about to end" in died.stderr_tail
        assert (died.sandbox, found_in(await call(kernel))["born"] == first["born"]) == (level, False)
    await until(lambda: not processes_of(root))


async def test_changed_permissions_end_the_process(root: Root, level: Level, kind: str, port: int) -> None:
    declare(root, kind, permissions={**WRITES, "network": True})
    async with kernel_of(root) as kernel:
        assert found_in(await call(kernel, port=port))["network"] == "open"
        before = set(processes_of(root))
        assert before
        declare(root, kind, permissions=WRITES)
        (waiting,) = await until(kernel.pending_trust)
        await approver_of(kernel).trust(((waiting.sidecar, waiting.digest),))
        await until(lambda: not before.intersection(processes_of(root)))
        assert found_in(await call(kernel, port=port))["network"] == "shut"


async def test_nothing_is_left_when_the_kernel_closes(
    root: Root, level: Level, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = root.base / "private"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))  # where Landlock's private folders lie
    declare(root, kind, permissions=WRITES)
    async with kernel_of(root) as kernel:
        await call(kernel)
        assert processes_of(root)
    assert not processes_of(root)
    assert os.listdir(private) == []


async def test_where_bwrap_breaks_it_is_never_started_unconfined(
    root: Root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needs_landlock()
    needs_bubblewrap()
    script = tmp_path / "bwrap"
    script.symlink_to(bubblewrap.PROGRAM)
    monkeypatch.setattr(bubblewrap, "PROGRAM", str(script))
    declare(root, "sidecar", permissions=WRITES)
    async with kernel_of(root) as kernel:
        assert (await call(kernel)).sandbox is Level.ENFORCED
        script.unlink()
        script.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
        script.chmod(0o755)
        await call(kernel, end=9)
        refused = await call(kernel)
        assert refused.error is not None
        assert (refused.status, refused.error.code) == (Status.UNAVAILABLE, ReasonCode.SANDBOX_UNAVAILABLE)
        assert refused.sandbox is Level.DENIED
        await until(lambda: level_of(kernel) is Level.DEGRADED)
        assert (await call(kernel)).sandbox is Level.DEGRADED


def level_of(kernel: Kernel) -> Level | None:
    report = sidecar(kernel, "it").stability.evidence.sandbox
    return report.level if report is not None else None


async def test_a_server_below_its_minimum_is_not_started(
    root: Root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bubblewrap, "PROGRAM", str(tmp_path / "no-bwrap"))
    monkeypatch.setattr(landlock, "version", lambda: 0)
    declare(root, "server", permissions=WRITES)
    async with kernel_of(root) as kernel:
        stability = sidecar(kernel, "it").stability
        assert stability.effective is Effective.UNAVAILABLE
        (reason,) = [one for one in stability.reasons if one.code is ReasonCode.SANDBOX_UNAVAILABLE]
        assert INSTALL_BUBBLEWRAP in reason.remedy
        assert not processes_of(root)
        settings = root.places.config_dir / "config.jsonc"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(json.dumps({"sandbox": {"minimum": {"it.do": "none"}}}))
        assert (await call(kernel)).sandbox is Level.NONE


async def test_a_server_without_an_approval_for_its_level_is_started_anew(
    root: Root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needs_landlock()
    needs_bubblewrap()
    root.policy()
    declare(root, "server", permissions=WRITES)
    async with kernel_of(root) as kernel:
        await connected(kernel, "it")
        result = await approved_call(kernel, "it.do", {"kernel": 1, "port": 9})
        before = processes_of(root)
        assert result.sandbox is Level.ENFORCED
        monkeypatch.setattr(bubblewrap, "PROGRAM", str(tmp_path / "no-bwrap"))
        detection.expire()
        await kernel._refresher.refresh()
        await until(lambda: not set(before).intersection(processes_of(root)))
        await ready(kernel)
        again = await approved_call(kernel, "it.do", {"kernel": 1, "port": 9})
    assert again.sandbox is Level.DEGRADED
    assert found_in(again)["declared"] == "open"
