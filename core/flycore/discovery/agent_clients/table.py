"""The agents' programs that flytui can connect: one row each, with its files and what belongs in them.

The formats are those of each program's own documentation, whose address is in the row.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from flycore.model.json import Json, JsonObject

SERVER = "flytui"
"""The name of flytui's entry in every file."""
HOOK_SECONDS = 600
"""Seconds that an agent gives the hook. They have to suffice for a person to decide."""
SPARE_SECONDS = 30
"""The hook gives up this many seconds earlier: agents run the tool after they ended a slow hook."""
TOOL_SECONDS = 600
"""Seconds that a client gives a tool call."""
TOKEN_VARIABLE = "FLYTUI_TOKEN"  # noqa: S105 - the name of a variable
FOLDER_VARIABLES = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
"""Variables that decide where flytui keeps its files, for clients that pass on only those that are named."""


class Form(StrEnum):
    """The form of a file."""

    JSONC = "jsonc"
    TOML = "toml"
    YAML = "yaml"


class Part(StrEnum):
    """What a connection may consist of."""

    SERVER = "server"
    HOOK = "hook"
    PERMISSION = "permission"


class ClientFile(NamedTuple):
    """A file of a client, relative to the project's folder or to the person's home folder."""

    path: str
    form: Form
    in_home: bool = False

    @property
    def shown(self) -> str:
        """The path as a person writes it."""
        return f"~/{self.path}" if self.in_home else self.path


class Wanted(NamedTuple):
    """One value that a file has to have. Values of TOML and YAML are members of one table only."""

    part: Part
    file: ClientFile
    pointer: str
    """JSON pointer of the member; or, with `is_item`, of the list that the value belongs to."""
    value: Json
    is_item: bool = False


class Connection(NamedTuple):
    """How a client reaches flytui."""

    program: str
    """The command `flytui`, as the client can start it."""
    root: str
    """The app root."""
    address: str = ""
    """The address of streamable HTTP; empty for a program that the client starts."""
    is_anywhere: bool = False
    """Whether the entry has to work wherever it is put. Then it names this project and this program."""
    without_console: str = "deny"
    """What the hook answers if nobody decides."""


class AgentClient(NamedTuple):
    """One program of agents."""

    id: str
    title: str
    programs: tuple[str, ...]
    """Commands by which the program is found."""
    traces: tuple[str, ...]
    """Files and folders of the home folder by which it is found."""
    server: Callable[[Connection], Wanted]
    hook: Callable[[Connection], Wanted] | None = None
    permission: Wanted | None = None
    permission_text: str = ""
    documentation: str = ""
    is_tried: bool = False
    """Whether the entry was tried with the program itself."""
    note: str = ""

    def wanted(self, connection: Connection, parts: frozenset[Part]) -> tuple[Wanted, ...]:
        """Return the values of these parts. A part that the client does not have is left out."""
        found = [self.server(connection)]
        if Part.HOOK in parts and self.hook is not None:
            found.append(self.hook(connection))
        permission = self.permission if Part.PERMISSION in parts else None
        if permission is not None and permission.pointer.startswith(f"{found[0].pointer}/"):
            key = permission.pointer.rpartition("/")[2]
            found[0] = found[0]._replace(value={**_members(found[0].value), key: permission.value})
        elif permission is not None:
            found.append(permission)
        return tuple(found)


def _members(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _program(connection: Connection, *, in_home: bool) -> str:
    """Return the command: relative where the file is the project's and the program lies in its folder."""
    below = os.path.relpath(connection.program, connection.root)
    inside = os.path.isabs(connection.program) and not below.startswith("..")
    return below if inside and not in_home and not connection.is_anywhere else connection.program


def _arguments(connection: Connection, *, in_home: bool, root: str = "") -> list[Json]:
    """Return the arguments. A file of the project names no folder of one machine."""
    # Without --root, flytui takes the nearest folder upwards of its working folder that has a registry.
    named = connection.root if in_home or connection.is_anywhere else root
    return ["--root", named, "mcp"] if named else ["mcp"]


def _member(
    file: ClientFile,
    holder: str,
    kind: Callable[[Connection], JsonObject],
) -> Callable[[Connection], Wanted]:
    return lambda connection: Wanted(Part.SERVER, file, f"/{holder}/{SERVER}", kind(connection))


def _stdio(
    file: ClientFile, *, root: str = "", before: JsonObject | None = None, after: JsonObject | None = None
) -> Callable[[Connection], JsonObject]:
    def entry(connection: Connection) -> JsonObject:
        return {
            **(before or {}),
            "command": _program(connection, in_home=file.in_home),
            "args": _arguments(connection, in_home=file.in_home, root=root),
            **(after or {}),
        }

    return entry


def _http(key: str, token: str, more: JsonObject | None = None) -> Callable[[Connection], JsonObject]:
    def entry(connection: Connection) -> JsonObject:
        headers: JsonObject = {"Authorization": f"Bearer {token}"}
        return {**(more or {}), key: connection.address, "headers": headers}

    return entry


def _either(
    stdio: Callable[[Connection], JsonObject], http: Callable[[Connection], JsonObject]
) -> Callable[[Connection], JsonObject]:
    return lambda connection: (http if connection.address else stdio)(connection)


def _hook_words(connection: Connection, client: str, *, root: str = "") -> str:
    """Return the command line of the hook. `root` is a word for the shell that names the project's folder."""
    # Only exit code 2 blocks a tool. With `|| exit 2` the tool is blocked as well where the hook is not
    # found, cannot start, or is killed.
    words = ["hook", client, "--wait", str(HOOK_SECONDS - SPARE_SECONDS)]
    if connection.without_console != "deny":
        words += ["--without-console", connection.without_console]
    root = shlex.quote(connection.root) if connection.is_anywhere else root
    below = _program(connection, in_home=False)
    program = f"{root}/{shlex.quote(below)}" if root and below != connection.program else shlex.quote(below)
    at = f" --root {root}" if root else ""
    return f"{program}{at} {shlex.join(words)} || exit 2"


def _hook(
    client: str,
    file: ClientFile,
    event: str,
    *,
    root: str = "",
    unit: int = 1,
    more: JsonObject | None = None,
) -> Callable[[Connection], Wanted]:
    def wanted(connection: Connection) -> Wanted:
        command = _hook_words(connection, client, root=root)
        handler: JsonObject = {"type": "command", "command": command, "timeout": HOOK_SECONDS * unit}
        group: JsonObject = {"matcher": "*", "hooks": [{**(more or {}), **handler}]}
        return Wanted(Part.HOOK, file, f"/hooks/{event}", group, is_item=True)

    return wanted


_CLAUDE = ClientFile(".mcp.json", Form.JSONC)
_CLAUDE_SETTINGS = ClientFile(".claude/settings.json", Form.JSONC)
_CODEX = ClientFile(".codex/config.toml", Form.TOML)
_GEMINI = ClientFile(".gemini/settings.json", Form.JSONC)
_QWEN = ClientFile(".qwen/settings.json", Form.JSONC)
_COPILOT = ClientFile(".github/mcp.json", Form.JSONC)
_COPILOT_HOOKS = ClientFile(".github/hooks/flytui.json", Form.JSONC)
_OPENCODE = ClientFile("opencode.json", Form.JSONC)
_CURSOR = ClientFile(".cursor/mcp.json", Form.JSONC)
_VSCODE = ClientFile(".vscode/mcp.json", Form.JSONC)
_ZED = ClientFile(".config/zed/settings.json", Form.JSONC, in_home=True)
_WINDSURF = ClientFile(".codeium/windsurf/mcp_config.json", Form.JSONC, in_home=True)
_GOOSE = ClientFile(".config/goose/config.yaml", Form.YAML, in_home=True)
_BRACED = f"${{{TOKEN_VARIABLE}}}"
_OF_ENVIRONMENT = f"${{env:{TOKEN_VARIABLE}}}"
_SPARES = "so that it does not ask you a second time about calls that flytui asks about"


def _codex_server(connection: Connection) -> JsonObject:
    if connection.address:
        reached: JsonObject = {"url": connection.address, "bearer_token_env_var": TOKEN_VARIABLE}
    else:
        reached = {**_stdio(_CODEX)(connection), "env_vars": list[Json](FOLDER_VARIABLES)}
    return {**reached, "required": True, "tool_timeout_sec": TOOL_SECONDS}


def _copilot_hook(connection: Connection) -> Wanted:
    command = _hook_words(connection, "copilot", root='"$COPILOT_PROJECT_DIR"')
    handler: JsonObject = {"type": "command", "command": command, "timeoutSec": HOOK_SECONDS}
    return Wanted(Part.HOOK, _COPILOT_HOOKS, "/hooks/preToolUse", handler, is_item=True)


def _opencode_server(connection: Connection) -> JsonObject:
    if connection.address:
        token = f"{{env:{TOKEN_VARIABLE}}}"
        return _http("url", token, {"type": "remote"})(connection) | {"enabled": True}
    command = [_program(connection, in_home=False), *_arguments(connection, in_home=False)]
    return {"type": "local", "command": command, "enabled": True, "timeout": TOOL_SECONDS * 1000}


def _goose_server(connection: Connection) -> JsonObject:
    common: JsonObject = {"enabled": True, "name": SERVER, "timeout": TOOL_SECONDS}
    if connection.address:
        headers: JsonObject = {"Authorization": f"Bearer {_BRACED}"}
        reached: JsonObject = {"type": "streamable_http", "uri": connection.address, "headers": headers}
        return {**common, **reached, "env_keys": [TOKEN_VARIABLE]}
    stdio = _stdio(_GOOSE)(connection)
    return {**common, "type": "stdio", "cmd": stdio["command"], "args": stdio["args"]}


CLIENTS: tuple[AgentClient, ...] = (
    AgentClient(
        "claude-code",
        "Claude Code",
        ("claude",),
        (".claude", ".claude.json"),
        _member(
            _CLAUDE,
            "mcpServers",
            _either(
                _stdio(_CLAUDE, before={"type": "stdio"}, after={"alwaysLoad": True}),
                _http("url", _BRACED, {"type": "http", "alwaysLoad": True}),
            ),
        ),
        _hook("claude-code", _CLAUDE_SETTINGS, "PreToolUse", root='"$CLAUDE_PROJECT_DIR"'),
        Wanted(Part.PERMISSION, _CLAUDE_SETTINGS, "/permissions/allow", f"mcp__{SERVER}", is_item=True),
        f'"mcp__{SERVER}" lets Claude Code call every tool of flytui without its own prompt, {_SPARES}.',
        documentation="https://code.claude.com/docs/en/mcp",
        is_tried=True,
    ),
    AgentClient(
        "codex",
        "Codex",
        ("codex",),
        (".codex",),
        _member(_CODEX, "mcp_servers", _codex_server),
        _hook("codex", _CODEX, "PreToolUse"),
        Wanted(Part.PERMISSION, _CODEX, f"/mcp_servers/{SERVER}/default_tools_approval_mode", "approve"),
        'default_tools_approval_mode = "approve" lets Codex call every tool of flytui without its own prompt,'
        f" {_SPARES}. `codex exec` has no prompt, and refuses without it every tool that does not only read.",
        documentation="https://developers.openai.com/codex/mcp",
        is_tried=True,
        note="Codex reads this file once you trust the project in it, and runs a hook once you have looked at"
        " it there with /hooks.",
    ),
    AgentClient(
        "gemini",
        "Gemini CLI",
        ("gemini",),
        (".gemini",),
        _member(
            _GEMINI,
            "mcpServers",
            _either(
                _stdio(_GEMINI, after={"timeout": TOOL_SECONDS * 1000}),
                _http("httpUrl", f"${TOKEN_VARIABLE}"),
            ),
        ),
        # It starts in the project's folder. Gemini CLI replaces its variables in the text of a command.
        _hook("gemini", _GEMINI, "BeforeTool", unit=1000, more={"name": SERVER}),
        Wanted(Part.PERMISSION, _GEMINI, f"/mcpServers/{SERVER}/trust", True),
        f'"trust": true lets Gemini CLI call every tool of flytui without its own prompt, {_SPARES}.',
        documentation="https://geminicli.com/docs/tools/mcp-server",
        is_tried=True,
    ),
    AgentClient(
        "qwen",
        "Qwen Code",
        ("qwen",),
        (".qwen",),
        _member(
            _QWEN,
            "mcpServers",
            _either(
                # Qwen Code hides the tools of a server behind a search unless its entry says so.
                _stdio(_QWEN, after={"timeout": TOOL_SECONDS * 1000, "alwaysLoadTools": True}),
                _http("httpUrl", f"${TOKEN_VARIABLE}", {"alwaysLoadTools": True}),
            ),
        ),
        _hook("qwen", _QWEN, "PreToolUse", unit=1000, more={"name": SERVER}),
        Wanted(Part.PERMISSION, _QWEN, f"/mcpServers/{SERVER}/trust", True),
        f'"trust": true lets Qwen Code call every tool of flytui without its own prompt, {_SPARES}.',
        documentation="https://qwenlm.github.io/qwen-code-docs/en/users/features/mcp",
        is_tried=True,
        note="Qwen Code starts a server of the project once you have approved this entry in it, or with"
        " qwen mcp approve flytui.",
    ),
    AgentClient(
        "copilot",
        "Copilot CLI",
        ("copilot",),
        (".copilot",),
        _member(
            _COPILOT,
            "mcpServers",
            _either(
                _stdio(
                    _COPILOT,
                    before={"type": "stdio"},
                    after={"tools": ["*"], "timeout": TOOL_SECONDS * 1000},
                ),
                _http("url", _BRACED, {"type": "http", "tools": ["*"], "timeout": TOOL_SECONDS * 1000}),
            ),
        ),
        _copilot_hook,
        documentation="https://docs.github.com/en/copilot/reference/copilot-cli-reference",
        is_tried=True,
        note="Copilot CLI reads this file once you trust the folder in it. It asks by itself about flytui's"
        " tools unless you start it with --allow-tool=flytui, or let it remember your answer. It reads"
        " .mcp.json and runs the hook in .claude/settings.json as well.",
    ),
    AgentClient(
        "opencode",
        "opencode",
        ("opencode",),
        (".config/opencode", ".local/share/opencode"),
        _member(_OPENCODE, "mcp", _opencode_server),
        documentation="https://opencode.ai/docs/mcp-servers",
        is_tried=True,
    ),
    AgentClient(
        "cursor",
        "Cursor",
        ("cursor", "cursor-agent"),
        (".cursor",),
        _member(
            _CURSOR,
            "mcpServers",
            _either(
                _stdio(_CURSOR, root="${workspaceFolder}", before={"type": "stdio"}),
                _http("url", _OF_ENVIRONMENT),
            ),
        ),
        documentation="https://cursor.com/docs/context/mcp",
    ),
    AgentClient(
        "vscode",
        "VS Code",
        ("code",),
        (".vscode", ".config/Code"),
        _member(
            _VSCODE,
            "servers",
            _either(
                _stdio(_VSCODE, root="${workspaceFolder}", before={"type": "stdio"}),
                _http("url", _OF_ENVIRONMENT, {"type": "http"}),
            ),
        ),
        documentation="https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
    ),
    AgentClient(
        "zed",
        "Zed",
        ("zed", "zeditor"),
        (".config/zed",),
        _member(
            _ZED,
            "context_servers",
            _either(_stdio(_ZED, after={"env": {}}), _http("url", f"<{TOKEN_VARIABLE}>")),
        ),
        documentation="https://zed.dev/docs/ai/mcp",
        note="Zed reads no variable here: over HTTP, put the token in the place of its name.",
    ),
    AgentClient(
        "windsurf",
        "Windsurf",
        ("windsurf",),
        (".codeium/windsurf",),
        _member(_WINDSURF, "mcpServers", _either(_stdio(_WINDSURF), _http("serverUrl", _OF_ENVIRONMENT))),
        documentation="https://docs.windsurf.com/windsurf/cascade/mcp",
    ),
    AgentClient(
        "goose",
        "goose",
        ("goose",),
        (".config/goose",),
        _member(_GOOSE, "extensions", _goose_server),
        documentation="https://block.github.io/goose/docs/guides/config-files",
    ),
)
BY_ID: Mapping[str, AgentClient] = {client.id: client for client in CLIENTS}
HOOKS: Mapping[str, Callable[[Connection], Wanted]] = {
    client.id: client.hook for client in CLIENTS if client.hook is not None
}
"""The hooks of the clients that have one, by the client's id."""


def toml_text(value: str) -> str:
    """Return the text as a TOML string in ASCII, so that no character of it acts on a terminal."""
    # JSON's escapes are valid in TOML, with two exceptions: DEL must be escaped, and a character outside the
    # basic plane is one escape and not a pair of surrogates.
    quoted = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return "".join(char if char.isascii() else f"\\U{ord(char):08X}" for char in quoted)
