"""Programs of one root that start with different environments find each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from flycore.kernel.lock import kernel_socket, lock_path, read_holder
from flycore.registry.paths import RootPaths, find_paths
from kits.command_line import ALLOW_ECHO, LONGEST, REGISTRY, Desk, until
from kits.console_processes import processes_of
from kits.kernel import in_project
from kits.kernels import kernel_of

WAIT_TOOL = """#!/bin/sh
read -r request
touch slow.started
while [ ! -e slow.go ]; do sleep 0.05; done
printf '{"ok": true}\\n'
"""


@dataclass(frozen=True)
class BareDesk(Desk):
    """A root whose commands start with HOME and PATH alone, as clients of MCP start their servers."""

    variables: tuple[tuple[str, str], ...] = ()
    """Further variables."""
    runtime: Path = Path()
    """What XDG_RUNTIME_DIR names in the session. The path of a socket below pytest's folder is too long."""

    @property
    def environ(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        return {"HOME": str(self.home), "PATH": path, **dict(self.variables)}

    @property
    def in_session(self) -> BareDesk:
        """The same root as a person's login session sees it."""
        session = (("XDG_RUNTIME_DIR", str(self.runtime)), ("LANG", "C.UTF-8"), ("TERM", "xterm-256color"))
        return replace(self, variables=session)

    @property
    def places(self) -> RootPaths:
        return find_paths(str(self.root), None, self.environ, self.root)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[BareDesk]:
    with tempfile.TemporaryDirectory(prefix="fly") as runtime:
        yield make_bare(
            BareDesk(tmp_path / "project", tmp_path / "home", forked=False, runtime=Path(runtime))
        )
    # A kernel without XDG_RUNTIME_DIR makes its socket in a folder that all roots of the user share.
    find_paths(str(tmp_path / "project"), None, {"HOME": "/"}, tmp_path).socket.unlink(missing_ok=True)


def make_bare(desk: BareDesk) -> BareDesk:
    """Write the root's files and return the desk."""
    for folder in (desk.root / "tools", desk.home / ".config" / "flytui"):
        folder.mkdir(parents=True)
    waits = {
        "command": "./tools/slow/run",
        "cwd": "empty",
        "permissions": {"fs": {"write": ["."]}},
        "tools": [{**REGISTRY["sidecars"]["try.local"]["tools"][0]}],
    }
    waits["tools"][0]["name"] = "slow.do"
    waits["tools"][0]["inputSchema"] = {"type": "object"}
    registry = {**REGISTRY, "sidecars": {**REGISTRY["sidecars"], "slow.local": waits}}
    program = desk.root / "tools" / "slow" / "run"
    program.parent.mkdir()
    program.write_text(in_project(WAIT_TOOL, desk.root))
    program.chmod(0o755)
    desk.write(registry)
    allow = {"tool": "slow.do", "decision": "allow", "because": "it only waits"}
    policy = {**ALLOW_ECHO, "rules": [*cast(list[Any], ALLOW_ECHO["rules"]), allow]}
    (desk.home / ".config" / "flytui" / "policy.jsonc").write_text(json.dumps(policy))
    return desk


class McpSession:
    """`flytui mcp` as a child process, driven line by line."""

    def __init__(self, desk: Desk) -> None:
        self._ids = 0
        self.process = subprocess.Popen(
            desk.argv("mcp"),
            env=desk.environ,
            cwd=desk.root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._ids += 1
        self._send({"id": self._ids, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            assert line, f"flytui mcp ended before it answered {method}"
            message = json.loads(line)
            if message.get("id") == self._ids:
                return cast(dict[str, Any], message["result"])

    def begin(self) -> None:
        """Open the session."""
        info = {"name": "test", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool."""
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()


@contextmanager
def mcp_session(desk: Desk) -> Iterator[McpSession]:
    session = McpSession(desk)
    try:
        session.begin()
        yield session
    finally:
        assert session.process.stdin is not None
        session.process.stdin.close()
        session.process.wait(LONGEST)
        assert session.process.stdout is not None
        session.process.stdout.close()


@pytest.mark.long
def test_everything_that_starts_with_home_and_path_finds_the_kernel(bare: BareDesk) -> None:
    bare.trust()
    with bare.in_session.serving() as serving:
        status = bare.document("status")
        assert status["running"]
        assert Path(status["socket"]) == kernel_socket(bare.places) == bare.in_session.places.socket
        assert status["kernel"]["pid"] == serving.pid
        called = bare.document("call", "try.echo", "message=hello")
        assert called["status"] == "success"
        event = {
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "true"},
            "cwd": str(bare.root),
            "session_id": "s",
        }
        asked = bare.run("hook", "claude-code", "--wait", "0", given=json.dumps(event).encode())
        assert (asked.returncode, "permissionDecision" in asked.stdout) == (0, True), asked.stderr
        with mcp_session(bare) as session:
            assert not session.call("try_echo", {"message": "hello"}).get("isError")
        with bare.terminal() as shown:
            shown.until("viewer only")
            assert f"pid {serving.pid}" in shown.shown


def test_a_console_takes_the_root_of_a_kernel_that_has_another_environment(bare: BareDesk) -> None:
    bare.trust()
    with mcp_session(bare) as session:
        holder = read_holder(bare.places)
        assert holder is not None
        assert (holder.pid, holder.on_demand) == (kernel_of(bare.home), True)
        assert kernel_socket(bare.in_session.places) == bare.places.socket != bare.in_session.places.socket
        with bare.in_session.terminal() as shown:
            shown.until("policy ok")
            now = bare.document("status")["kernel"]
            assert (now["role"], now["pid"]) == ("console", processes_of(shown.process.pid).kernel)
            assert not session.call("try_echo", {"message": "hello"}).get("isError")


def test_a_console_that_waits_names_the_process_that_has_the_root(bare: BareDesk) -> None:
    bare.trust()
    calling = bare.start("call", "slow.do")
    try:
        until("the call runs", (bare.root / "slow.started").exists)
        with bare.in_session.terminal() as shown:
            shown.until(f"the kernel that a command started, pid {kernel_of(bare.home)}")
            (bare.root / "slow.go").touch()
            shown.until("policy ok")
    finally:
        (bare.root / "slow.go").touch()
        calling.communicate(timeout=LONGEST)
    assert calling.returncode == 0


def write_record(places: RootPaths, **fields: Any) -> Path:
    """Write the lock's record, as a kernel does."""
    path = lock_path(places)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"pid": 1, "since": 1.0, "role": "headless", **fields}))
    path.chmod(0o600)
    return path


def test_the_word_of_a_lock_that_others_may_write_does_not_count(bare: BareDesk) -> None:
    path = write_record(bare.places, socket="/elsewhere/kernel.sock")
    assert kernel_socket(bare.places) == Path("/elsewhere/kernel.sock")
    for mode in (0o620, 0o602):
        path.chmod(mode)
        assert (read_holder(bare.places), kernel_socket(bare.places)) == (None, bare.places.socket)
    path.unlink()
    os.mkfifo(path, 0o600)
    assert read_holder(bare.places) is None
    path.unlink()
    path.symlink_to("elsewhere")
    assert read_holder(bare.places) is None


@pytest.mark.root
def test_the_word_of_a_lock_of_another_user_does_not_count(bare: BareDesk) -> None:
    os.chown(write_record(bare.places, socket="/elsewhere/kernel.sock"), 65534, -1)
    assert kernel_socket(bare.places) == bare.places.socket


@pytest.mark.parametrize("socket", ["", "relative.sock", "/" + "s" * 107, "/nul\0.sock"])
def test_a_record_without_a_usable_path_leads_to_the_usual_place(bare: BareDesk, socket: str) -> None:
    write_record(bare.places, socket=socket)
    assert kernel_socket(bare.places) == bare.places.socket
