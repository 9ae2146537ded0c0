"""The published programs of agents, each connected by `flytui connect` and run with a scripted model.

Each runs in a home folder of its own, with the few variables that a terminal has, and with its own time
limits. flytui's server gets what the program gives it. Nothing but loopback is reached: every other address
is sent to a port that nobody listens on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from flycore.registry.paths import find_paths
from flysafe.procfs import (
    SHELLS,
    WRAPPERS,
    ancestors,
    command_line,
    descendants,
    executable_of,
    process_table,
)
from kits.model_endpoint import ModelEndpoint
from kits.programs import CLIENT_MODULES, client_program
from kits.terminals import BIN, Root

LONGEST = 240.0
"""Longest wait for a program that takes some ten seconds of a processor."""
NOBODY = "http://127.0.0.1:9"
"""A port that nobody listens on."""
NO_NETWORK = {"HTTP_PROXY": NOBODY, "HTTPS_PROXY": NOBODY, "NO_PROXY": "127.0.0.1,localhost"}
PROMPT = "Follow the script."

ASK = """#!/bin/sh
read -r request
printf '{"ok": true, "said": "done as approved"}\\n'
"""


@dataclass
class PlainRoot(Root):
    """An app root in a session without any variable of a desktop: only what every terminal has."""

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": f"{BIN}:{CLIENT_MODULES}/node/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            **self.extra,
        }

    def audit(self) -> list[dict[str, Any]]:
        """Every line of the log."""
        files = sorted(
            find_paths(str(self.folder), None, self.environ, self.folder).audit_dir.glob("*.jsonl")
        )
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def client_root(folder: Path) -> PlainRoot:
    """A root with `file.hash`, which a rule allows, and `ask.do`, which asks."""
    project, home = folder / "project", folder / "home"
    program = project / "tools" / "bin-ask" / "run"
    program.parent.mkdir(parents=True)
    program.write_text(ASK)
    program.chmod(0o755)
    utility = {
        "command": "flytui-sidecar",
        "args": ["utility.local"],
        "permissions": {"fs": {"read": ["."]}},
        "tools": ["file.hash", "data.convert"],
    }
    about = {"name": "ask.do", "description": "ask.do", "inputSchema": {"type": "object"}, "risk": "medium"}
    ask = {"command": "./tools/bin-ask/run", "cwd": "empty", "tools": [about]}
    registry = {"schemaVersion": 2, "sidecars": {"utility.local": utility, "ask": ask}}
    (project / "tools" / "external.tools.jsonc").write_text(json.dumps(registry))
    (project / "read.txt").write_text("what the clients hash\n")
    config = home / ".config" / "flytui"
    config.mkdir(parents=True)
    rule = {"tool": "file.hash", "decision": "allow", "because": "it only reads"}
    (config / "policy.jsonc").write_text(json.dumps({"schemaVersion": 1, "rules": [rule]}))
    root = PlainRoot(project, home)
    root.trust()
    return root


class AgentProgram(NamedTuple):
    """One program."""

    id: str
    """Its name for `flytui connect`."""
    title: str
    program: str
    """Its name in `node_modules/.bin`."""
    words: tuple[str, ...]
    """Its command line for one prompt without a person, after its name and before the prompt."""
    environ: Callable[[str], dict[str, str]]
    """The variables for an endpoint at that address."""
    prepare: Callable[[Path, Path, str], dict[str, Any]]
    """Files of the home folder, by their path there, of the folders of home and project and the address:
    what a person has set up before, the trust in the project among it."""
    is_script: bool = False
    prompt: tuple[str, ...] = ()
    """The option before the prompt."""
    shell: tuple[str, str] | None = None
    """Its own tool for commands, with the name of the member for the command; None where it has no hook."""
    shell_words: tuple[str, ...] = ()
    """The options with which its own settings would run every command of the model without asking."""

    leaves_out: frozenset[str] = frozenset()
    """Listed tools that the program does not offer to the model when nobody sits before it."""
    approval: tuple[str, ...] = ()
    """Its own command by which a person approves the server of a project, where it has one."""

    def command(self, *words: str) -> list[str]:
        """The command line that starts it with these words."""
        return [*client_program(self.program, is_script=self.is_script), *words]

    def one_prompt(self, *more: str) -> list[str]:
        """The command line that starts it with one prompt, and more options."""
        return self.command(*self.words, *more, *self.prompt, PROMPT)


class AgentRun:
    """A running program."""

    def __init__(
        self, program: AgentProgram, root: PlainRoot, endpoint: ModelEndpoint, more: tuple[str, ...]
    ) -> None:
        self.program, self.root = program, root
        self._killed = False
        for name, content in program.prepare(root.home, root.folder, endpoint.url).items():
            file = root.home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content if isinstance(content, str) else json.dumps(content))
        self._output = (root.home / "output.txt").open("w+b")
        self.process = subprocess.Popen(
            program.one_prompt(*more),
            env={**root.environ, **NO_NETWORK, **program.environ(endpoint.url)},
            cwd=root.folder,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def output(self) -> str:
        """What it has printed."""
        return (self.root.home / "output.txt").read_text(errors="replace")

    def wait(self) -> int:
        """Wait until it ends by itself, and return its exit code."""
        try:
            return self.process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.program.title} does not end: {self.output()[-3000:]}") from None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it and to all that it has started, as a terminal does for Ctrl-C."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """Kill the program alone, as the system does when memory is short: not the hooks and servers that it
        started, nor the shells that it started them through."""
        below = descendants([self.process.pid], process_table())
        doors = [pid for pid in below if Path((*command_line(pid)[1:], "")[0]).name == "flytui"]
        assert doors, "the program has started neither a hook nor a server"
        above = {pid for door in doors for pid in ancestors(door)} & {*below}
        shells = {pid for pid in above if Path(executable_of(pid)).name in SHELLS | WRAPPERS}
        self._killed = True
        for pid in above - shells:
            os.kill(pid, signal.SIGKILL)
        self.process.wait(LONGEST)

    def end(self) -> None:
        """End it with all that it has started."""
        if self._killed or self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(LONGEST)
        self._output.close()


@contextmanager
def running(
    program: AgentProgram, root: PlainRoot, endpoint: ModelEndpoint, *more: str
) -> Iterator[AgentRun]:
    """Run the program for the block, with more options."""
    run = AgentRun(program, root, endpoint, more)
    try:
        yield run
    except BaseException:
        print(run.output()[-6000:])
        print([(seen.request.calls_made, seen.refusal, seen.request.results) for seen in endpoint.seen])
        raise
    finally:
        run.end()
        assert not endpoint.faults, endpoint.faults


def connect(root: PlainRoot, program: AgentProgram, *options: str) -> None:
    """Connect the program with the root by the command, as a person does who says yes."""
    done = root.flytui("connect", program.id, *options, "--apply")
    assert done.returncode == 0, done.stdout + done.stderr
    if program.approval:
        subprocess.run(
            program.command(*program.approval),
            env={**root.environ, **NO_NETWORK},
            cwd=root.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST,
            check=True,
        )


def _claude_files(home: Path, folder: Path, url: str) -> dict[str, Any]:
    # What a person answers once in its dialogs: trust in the folder, and in the server of the project.
    project = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["flytui"]}
    return {".claude.json": {"hasCompletedOnboarding": True, "projects": {str(folder): project}}}


CODEX_CONFIG = """
model = "gpt-5.1-codex"
model_provider = "local"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.local]
name = "local"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"

[projects.{folder}]
trust_level = "trusted"
"""


def _codex_files(home: Path, folder: Path, url: str) -> dict[str, Any]:
    return {".codex/config.toml": CODEX_CONFIG.format(url=url, folder=json.dumps(str(folder)))}


def _gemini_files(home: Path, folder: Path, url: str) -> dict[str, Any]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    trusted = {str(folder): "TRUST_FOLDER"}
    return {".gemini/settings.json": settings, ".gemini/trustedFolders.json": trusted}


def _qwen_files(home: Path, folder: Path, url: str) -> dict[str, Any]:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    trusted = {str(folder): "TRUST_FOLDER"}
    return {".qwen/settings.json": settings, ".qwen/trustedFolders.json": trusted}


def _copilot_files(home: Path, folder: Path, url: str) -> dict[str, Any]:
    return {".copilot/config.json": {"trustedFolders": [str(folder)]}}


def _opencode_files(home: Path, folder: Path, url: str) -> dict[str, Any]:
    local = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
        "models": {"m": {"name": "m"}},
    }
    settings = {
        "model": "local/m",
        "small_model": "local/m",
        "autoupdate": False,
        "share": "disabled",
        "provider": {"local": local},
    }
    return {".config/opencode/opencode.json": settings}


AGENT_PROGRAMS = (
    AgentProgram(
        "claude-code",
        "Claude Code",
        "claude",
        ("--output-format", "stream-json", "--verbose"),
        lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "x",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        _claude_files,
        prompt=("-p",),
        shell=("Bash", "command"),
        shell_words=("--allowedTools", "Bash"),
    ),
    AgentProgram(
        "codex",
        "Codex",
        "codex",
        ("exec", "--json", "--skip-git-repo-check"),
        lambda url: {"OPENAI_API_KEY": "x"},
        _codex_files,
        is_script=True,
        shell=("exec_command", "cmd"),
        # The last stands for the look at the hook that Codex asks a person for, in its own screen.
        shell_words=("--sandbox", "danger-full-access", "--dangerously-bypass-hook-trust"),
    ),
    AgentProgram(
        "gemini",
        "Gemini CLI",
        "gemini",
        ("-m", "gemini-2.5-pro", "--output-format", "stream-json"),
        lambda url: {
            "GEMINI_API_KEY": "x",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_NO_RELAUNCH": "true",
        },
        _gemini_files,
        is_script=True,
        # Its rule about its own tool of this name, which would ask, is applied to a server's as well.
        leaves_out=frozenset({"write_file"}),
        prompt=("-p",),
        shell_words=("--approval-mode", "yolo"),
        shell=("run_shell_command", "command"),
    ),
    AgentProgram(
        "qwen",
        "Qwen Code",
        "qwen",
        ("--auth-type", "openai", "--output-format", "stream-json"),
        lambda url: {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "qwen3-coder"},
        _qwen_files,
        is_script=True,
        approval=("mcp", "approve", "flytui"),
        prompt=("-p",),
        shell_words=("--approval-mode", "yolo"),
        shell=("run_shell_command", "command"),
    ),
    AgentProgram(
        "copilot",
        "Copilot CLI",
        "copilot",
        # Its own prompt for the tools of a server has no line in a file of the project.
        ("--allow-tool=flytui",),
        lambda url: {
            "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "x",
            "COPILOT_MODEL": "scripted",
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
        },
        _copilot_files,
        is_script=True,
        prompt=("-p",),
        shell=("bash", "command"),
        shell_words=("--allow-all-tools",),
    ),
    AgentProgram(
        "opencode",
        "opencode",
        "opencode",
        ("run", "--format", "json"),
        lambda url: {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        },
        _opencode_files,
    ),
)
