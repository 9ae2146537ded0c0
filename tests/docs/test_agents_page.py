"""What docs/agents.md shows is done as it stands there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

import flycore
from flycore.catalog.builtin import AGENT_ACTIONS
from flycore.model.enums import Decision
from flycore.policy.conditions import PolicyCall
from flycore.policy.evaluate import effective_rules, load_policy, matching_rules, strictest
from flytui.cli.agent_tools import CLIENTS_FILE
from kits.command import COMMAND, PYTHON, forked_bin
from kits.kernel import Root, kernel_of
from kits.mcp_clients import about
from kits.programs import needs

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


def block(info: str) -> list[str]:
    """The page's blocks of that info."""
    found = re.findall(rf"^```{info}\n(.*?)^```$", TEXT, re.M | re.S)
    assert found
    return found


@pytest.fixture
async def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    shutil.copy(ROOT / "tools" / "external.tools.jsonc", root.folder / "tools")
    (root.folder / "README.md").write_text("# shop\n")
    root.policy({"tool": "file.hash", "decision": "allow", "because": "test"})
    async with kernel_of(root):
        pass
    return root


def ended(root: Root, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The command in the root's folder, with more in its environment, run to its end."""
    if argv[0] == str(BIN / "flytui"):
        done = COMMAND.run(argv, {**root.environ, **more}, root.folder, b"", 60)
        return subprocess.CompletedProcess(argv, done.returncode, done.stdout.decode(), done.stderr.decode())
    return subprocess.run(
        argv,
        cwd=root.folder,
        env={**root.environ, **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def ran(root: Root, *argv: str) -> str:
    """What the command prints."""
    done = ended(root, *argv)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.anyio
async def test_its_commands_work_as_they_stand(root: Root) -> None:
    for text in block("sh run"):
        for line in text.splitlines():
            program, *words = shlex.split(line)
            assert program == "flytui"
            assert ran(root, str(BIN / "flytui"), *words)


@pytest.mark.anyio
async def test_its_program_gets_the_digest(root: Root) -> None:
    [text] = block("python file=own.py")
    (root.folder / "own.py").write_text(text)
    assert re.fullmatch(r"[0-9a-f]{64}\n", ran(root, sys.executable, "own.py"))


@pytest.mark.anyio
async def test_its_program_in_another_language_gets_the_digest(root: Root) -> None:
    needs("node")
    [text] = block("js file=call.mjs")
    (root.folder / "call.mjs").write_text(text)
    done = ended(root, "node", "call.mjs", PATH=f"{BIN}:{os.environ['PATH']}")
    assert re.fullmatch(r"[0-9a-f]{64}\n", done.stdout), done.stderr


@contextmanager
def listening(root: Root) -> Iterator[str]:
    """The address at which `flytui serve --http` listens."""
    with subprocess.Popen(
        COMMAND.launcher("flytui", "serve", "--http", "--port", "0"),
        cwd=root.folder,
        env=root.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as serving:
        try:
            assert serving.stdout is not None
            yield next(line.split()[-1] for line in serving.stdout if line.startswith("listens"))
        finally:
            serving.terminate()


@pytest.mark.anyio
async def test_its_program_over_http_gets_the_digest_with_its_token_and_nothing_without(root: Root) -> None:
    [text] = block("python file=over_http.py")
    (root.folder / "over_http.py").write_text(text)
    token = ran(root, str(BIN / "flytui"), "token", "new", "notes").strip()
    with listening(root) as address:
        done = ended(root, sys.executable, "over_http.py", address, TOKEN=token)
        assert re.fullmatch(r"[0-9a-f]{64}\n", done.stdout), done.stderr
        done = ended(root, *PYTHON.launcher("over_http.py", text, address), TOKEN=f"{token}x")
        assert (done.returncode, done.stdout) == (1, "")


def configured(client: str, text: str) -> dict[str, Any]:
    """Command and arguments, as that client reads its settings."""
    if client == "codex":
        server: dict[str, Any] = tomllib.loads(text)["mcp_servers"]["flytui"]
    else:
        server = json.loads(text)["mcpServers"]["flytui"]
    return server


@pytest.mark.anyio
@pytest.mark.parametrize("client", ["claude-code", "codex", "cursor"])
async def test_what_is_printed_for_a_client_starts_a_server(root: Root, tmp_path: Path, client: str) -> None:
    odd = root.folder.parent / 'a "shop" \\ of ours \u202e\x7f\U0001f6d2'
    shutil.copytree(root.folder, odd)
    for folder in (root.folder, odd):
        printed = ran(root, str(BIN / "flytui"), "--root", str(folder), "mcp", "--print-config", client)
        server = configured(client, printed)
        assert printed.isascii()
        assert "\x7f" not in printed
        assert server["args"] == ["--root", str(folder), "mcp"]
    server = configured(client, ran(root, str(BIN / "flytui"), "mcp", "--print-config", client))
    environ = {**root.environ, "PATH": f"{forked_bin()}:{root.environ['PATH']}"}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    parameters = StdioServerParameters(
        command=shutil.which(server["command"], path=environ["PATH"]) or "",
        args=server["args"],
        env=environ,
        cwd=elsewhere,
    )
    async with Client(parameters) as connected:
        result = await connected.call_tool("file_hash", {"path": "README.md"})
    assert about(result)["status"] == "success", result


@pytest.mark.parametrize(
    ("command", "decision"),
    [("git status", Decision.ALLOW), ("git status; rm -rf .", None), ("sudo git status", Decision.DENY)],
)
def test_its_policy_decides_as_it_says(tmp_path: Path, command: str, decision: Decision | None) -> None:
    root = Root(tmp_path)
    [text] = block("jsonc hook-policy")
    folder = root.places.config_dir
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.jsonc").write_text(text)
    policy = load_policy(root.places, None, names=AGENT_ACTIONS)
    assert policy.diagnostics == ()
    rules = effective_rules(
        matching_rules(policy, PolicyCall(tool="agent.shell", input={"command": command}))
    )
    assert (strictest(rules) if rules else None) is decision


def test_it_names_every_action_every_public_name_and_real_tools() -> None:
    for name in (*AGENT_ACTIONS, *flycore._HOMES):
        assert f"`{name}`" in TEXT
    for tool in ("TodoWrite", "AskUserQuestion"):
        assert tool in json.loads(CLIENTS_FILE.read_text())["claude-code"]["bookkeeping"]
