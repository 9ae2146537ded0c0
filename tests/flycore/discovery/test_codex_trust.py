"""What Codex keeps of the hooks that a person trusts, compared with Codex itself."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flycore.discovery.agent_clients.codex_trust import why_codex_runs_no_hook
from kits.programs import client_program

HOOK = """
[[hooks.PreToolUse]]
matcher = "*"

[[hooks.PreToolUse.hooks]]
type = "command"
command = "flytui hook codex --wait 570 || exit 2"
timeout = 600
"""
OTHER = """
[[hooks.PreToolUse]]
matcher = "Bash"

[[hooks.PreToolUse.hooks]]
type = "command"
command = "./lint.sh"
"""
NOT_TRUSTED = "you have not trusted it there"
CHANGED = "it has changed since you trusted it there"


class Folders:
    """A project and a home folder with Codex's files."""

    def __init__(self, folder: Path) -> None:
        self.project, self.home = folder / "shop", folder / "home"
        for place in (self.project, self.home):
            (place / ".codex").mkdir(parents=True)
        self.keep("")

    def hook(self, text: str) -> None:
        (self.project / ".codex" / "config.toml").write_text(text)

    def keep(self, text: str) -> None:
        trusted = f'[projects.{json.dumps(str(self.project))}]\ntrust_level = "trusted"\n'
        (self.home / ".codex" / "config.toml").write_text(trusted + text)

    def why(self, **environ: str) -> str:
        return why_codex_runs_no_hook(self.project, self.home, environ)

    def trust(self, key: str, digest: str, more: str = "") -> None:
        self.keep(f"[hooks.state.{json.dumps(key)}]\ntrusted_hash = {json.dumps(digest)}\n{more}")


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def test_where_no_file_has_the_hook_there_is_nothing_to_say(folders: Folders) -> None:
    assert folders.why() == ""
    folders.hook(OTHER)
    assert folders.why() == ""
    folders.hook("[")
    assert folders.why() == ""


def test_a_hook_that_was_not_trusted_or_is_switched_off_does_not_run(folders: Folders) -> None:
    folders.hook(HOOK)
    assert folders.why() == NOT_TRUSTED
    key = f"{folders.project}/.codex/config.toml:pre_tool_use:0:0"
    folders.trust(key, "sha256:0")
    assert folders.why() == CHANGED
    folders.trust(key, "sha256:0", "enabled = false\n")
    assert folders.why() == "you have switched it off there"
    folders.keep("hooks = 1\n")
    assert folders.why() == NOT_TRUSTED


def test_the_hook_may_be_in_the_settings_of_the_person(folders: Folders) -> None:
    folders.keep(HOOK)
    assert folders.why() == NOT_TRUSTED
    elsewhere = folders.home / "elsewhere"
    elsewhere.mkdir()
    assert folders.why(CODEX_HOME=str(elsewhere)) == ""


def listed(folders: Folders) -> list[dict[str, Any]]:
    """The hooks that Codex itself finds, with their keys, digests and trust."""
    server = subprocess.Popen(
        [*client_program("codex", is_script=True), "app-server"],
        env={"HOME": str(folders.home), "PATH": os.environ["PATH"], "HTTPS_PROXY": "http://127.0.0.1:9"},
        cwd=folders.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        for number, (method, params) in enumerate(
            [
                ("initialize", {"clientInfo": {"name": "test", "version": "1"}}),
                ("hooks/list", {"cwds": [str(folders.project)]}),
            ]
        ):
            print(
                json.dumps({"id": number, "method": method, "params": params}), file=server.stdin, flush=True
            )
            answer: dict[str, Any] = next(
                one for one in map(json.loads, server.stdout) if one.get("id") == number
            )
    finally:
        server.kill()
        server.wait()
        server.stdin.close()
        server.stdout.close()
    (found,) = answer["result"]["data"]
    hooks: list[dict[str, Any]] = found["hooks"]
    return hooks


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "text",
    [
        HOOK,
        OTHER + HOOK,
        HOOK.replace("flytui hook", "'/opt/é x/flytui' hook"),
        HOOK.replace("timeout = 600", ""),
    ],
    ids=["as_written", "second", "unicode", "no_limit"],
)
def test_codex_itself_says_the_same(folders: Folders, text: str) -> None:
    folders.hook(text)
    hook = next(one for one in listed(folders) if "hook codex" in one["command"])
    assert (hook["trustStatus"], folders.why()) == ("untrusted", NOT_TRUSTED)
    folders.trust(hook["key"], hook["currentHash"])
    hook = next(one for one in listed(folders) if "hook codex" in one["command"])
    assert (hook["trustStatus"], folders.why()) == ("trusted", "")
    folders.hook(text.replace("--wait 570", "--wait 60"))
    hook = next(one for one in listed(folders) if "hook codex" in one["command"])
    assert (hook["trustStatus"], folders.why()) == ("modified", CHANGED)
