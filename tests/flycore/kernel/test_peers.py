"""Sidecars that call tools themselves, as real processes: by name, and never in the name of the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from flycore.approval.callers import identify_peer
from flycore.approval.leases import lease_fault
from flycore.client.client import connect_root
from flycore.kernel.peers import identify_local_peer
from flycore.model.approval import Answer, LeaseTerms
from flycore.model.caller import parse_caller_key
from flycore.model.enums import Choice, Level, RootPermission, Status
from flycore.model.errors import ProtocolError
from kits.kernel import (
    ECHO,
    PATIENCE,
    Root,
    approve_if_asked,
    approver_of,
    permitted_call,
    request,
    tool,
    waiting_ask,
)
from kits.sandbox_levels import hold_level
from kits.unix_socket import served

CALLER = """#!/bin/sh
read -r request
{environ} {command} >/dev/null 2>&1
printf '{{"ok": true, "exit": %d}}\\n' $?
"""
VIEWER = """#!{python}
import json, socket, sys
from websockets.sync.client import unix_connect
sys.stdin.readline()
with unix_connect({path!r}, "ws://localhost/ws", compression=None) as connection:
    connection.recv()
    answers = []
    token = {{"name": "a", "digest": "0" * 64}}
    for kind, payload in (("client.hello", {{"viewer": True}}), ("token.add", token)):
        connection.send(json.dumps(
            {{"protocol": "flyflor.ws.v1", "id": kind, "type": kind, "at": 0.0, "payload": payload}}))
        answers.append(json.loads(connection.recv())["payload"].get("code"))
print(json.dumps({{"ok": True, "answers": answers}}))
"""


OTHER_KERNEL = """
import os, subprocess, sys
from pathlib import Path
from flycore.kernel.lock import RootLock
from flycore.model.enums import KernelRole
from flycore.registry.paths import find_paths
folder = Path(sys.argv[1])
with RootLock.acquire(find_paths(str(folder), None, os.environ, folder), KernelRole.HEADLESS):
    kept = {"stdin": subprocess.PIPE, "env": {}}
    tool = subprocess.Popen(["/bin/cat"], start_new_session=True, **kept)
    own = subprocess.Popen(["/bin/cat"], **kept)
    print(tool.pid, own.pid, flush=True)
    sys.stdin.read()
    for child in (tool, own):
        child.communicate()
"""


def no_call(call_id: str) -> None:
    """No call is known."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    # In the sandbox a sidecar does not reach flytui's socket at all.
    hold_level(Level.NONE, monkeypatch)
    root = Root(tmp_path)
    root.settings(sandbox={"minimum": dict.fromkeys(("ask.run", "runner.do", "looks.do"), "none")})
    root.sidecar("ask", ECHO, tool("ask.run"), permissions={})
    return root


def add_caller(root: Root, name: str, command: str) -> None:
    """Add the sidecar that runs `command`."""
    environ = " ".join(f"{key}='{value}'" for key, value in root.environ.items())
    root.sidecar(name, CALLER.format(environ=environ, command=command))


@pytest.mark.anyio
async def test_a_shell_sidecar_does_not_call_with_the_lease_of_the_terminal(root: Root) -> None:
    call = f"'{sys.executable}' -m flytui --root '{root.folder}' call ask.run --json"
    add_caller(root, "runner", call)
    mine = identify_peer(os.getpid(), "socket")
    async with served(root) as kernel, anyio.create_task_group() as group:
        group.start_soon(kernel.call, request(kernel, "ask.run", caller=mine))
        first = (await waiting_ask(kernel)).request
        leased = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=50))
        assert (await approver_of(kernel).decide(first.id, first.subject_digest, leased)).accepted
        outer = request(kernel, "runner.do", caller=mine)
        group.start_soon(kernel.call, outer)
        await approve_if_asked(kernel, outer, lambda: False)
        asked = (await waiting_ask(kernel)).request
        assert asked.caller.program == "sidecar runner"
        assert asked.caller.within == f"call {outer.call_id} of {mine}"
        assert asked.caller.key != mine.key
        assert parse_caller_key(asked.caller.key).is_sidecar
        assert "no lease" in lease_fault(asked, leased.lease)
        refused = await approver_of(kernel).decide(asked.id, asked.subject_digest, leased)
        assert not refused.accepted
        denied = Answer(choice=Choice.DENY)
        assert (await approver_of(kernel).decide(asked.id, asked.subject_digest, denied)).accepted
    inner = [line for line in root.audit() if line.get("parentCallId") == outer.call_id]
    assert {line["event"] for line in inner} >= {"TOOL_CALLED", "TOOL_EXECUTED"}
    assert all(line["caller"].startswith("sidecar runner (pid ") for line in inner)


@pytest.mark.anyio
async def test_a_sidecar_is_no_viewer_and_adds_no_token(root: Root) -> None:
    script = VIEWER.format(python=sys.executable, path=str(root.places.socket))
    root.sidecar("looks", script)
    async with served(root) as kernel:
        result = await permitted_call(kernel, "looks.do")
    assert result.status is Status.SUCCESS, result.error
    assert result.output == {"answers": ["unauthorized", "unauthorized"]}


@pytest.mark.anyio
async def test_a_sidecar_makes_no_question_about_a_root_within_this_one(root: Root) -> None:
    inner = root.folder / "inner"
    (inner / "tools").mkdir(parents=True)
    (inner / "tools" / "external.tools.jsonc").write_text('{"schemaVersion": 2, "sidecars": {}}')
    command = f'sh -c \'cd "{inner}" && exec "{sys.executable}" -m flytui call no.such\''
    add_caller(root, "runner", f"env -u FLYTUI_ROOT {command}")
    async with served(root) as kernel:
        undecided = await permitted_call(kernel, "runner.do")
        assert kernel.questions() == ()
        async with connect_root(root.places) as client:
            assert await client.nested_root(str(inner)) is RootPermission.UNDECIDED
            with pytest.raises(ProtocolError):
                await client.nested_root(str(root.folder))
        [question] = kernel.questions()
        assert (await approver_of(kernel).answer(question.id, "refuse")).accepted
        refused = await permitted_call(kernel, "runner.do")
    assert [found.output["exit"] for found in (undecided, refused)] == [3, 4]


def test_a_sidecar_of_another_root_is_one_here_too(root: Root, tmp_path: Path) -> None:
    program = tmp_path / "flytui"
    program.write_text(OTHER_KERNEL)
    (tmp_path / "other" / "tools").mkdir(parents=True)
    argv = [sys.executable, str(program), str(tmp_path / "other")]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env=root.environ) as kernel:
        tool_pid, own_pid = map(int, kernel.stdout.readline().split())
        found = [identify_local_peer(pid, "socket", root.places, no_call) for pid in (tool_pid, own_pid)]
        kernel.communicate("", PATIENCE)
    assert [caller.program for caller in found] == ["sidecar of an unknown call", "cat"]
    assert not found[0].is_program


def test_a_program_in_the_session_of_the_kernel_is_the_person_s(root: Root) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert identify_local_peer(child.pid, "socket", root.places, no_call).program == "cat"
        child.communicate(b"", PATIENCE)
