"""Checks of the entry of an MCP server or an executable, whose tools the program describes itself: command or
address, headers, permissions, selected tools."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from flycore.model.diagnostics import nearest
from flycore.model.json import Json, pointer_join
from flycore.model.sidecar import SidecarEntry
from flycore.registry.names import looks_secret
from flycore.registry.schema import upstream_tool_keys
from flycore.registry.source_text import EntryFindings
from flysafe.addresses import parse_address

SECRET_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,127})\}")
"""A reference in the value of a header, which is replaced by that secret when a request is made."""
_OWN_HEADERS = frozenset(
    (
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "keep-alive",
        "last-event-id",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
_SECRET_HEADER = ("cookie", "proxy-")
_OF_A_PROCESS = ("command", "args", "cwd", "env", "passEnv", "limits", "seal", "onCancel")
_OF_OTHER_KINDS = ("config", "delegates", "instances", "idleMs", "probe", "protocolVersion")
_ITSELF = re.compile(r"(?:.*[\\/])?flytui(?:\.exe)?(?:[\[@=<>~!].*)?", re.DOTALL)
_OF_THE_INPUT = "${input."


def check_mcp_server(raw: dict[str, Any], findings: EntryFindings) -> None:
    """Add every problem that the schema cannot find. Values of a wrong type are left to the schema."""
    reached = [key for key in ("command", "url") if key in raw]
    if len(reached) != 1:
        problem = "needs either command or url, and this entry has " + ("both" if reached else "neither")
        remedy = 'write "command" (with "args") for a program, or "url" for a server on HTTP'
        findings.add("", "mcp-reached", problem, remedy)
    if names_flytui(raw.get("command"), raw.get("args")):
        remedy = "remove the entry: agents already have flytui's own tools, and flytui would call itself"
        findings.add("/command", "flytui-itself", "flytui cannot be its own MCP server", remedy)
    if "url" in raw:
        _check_url(raw, findings)
    elif "headers" in raw:
        findings.add("/headers", "headers", "are used with url only", 'write "url", or remove them')
    for key in _OF_OTHER_KINDS:
        if key in raw:
            findings.warn(f"/{key}", "not-used", "has no effect for the kind mcp", "remove it")
    _check_permissions(raw.get("permissions"), findings)
    check_selected_tools(raw.get("tools"), findings)
    _check_renamed(raw.get("rename"), raw.get("tools"), findings)


def check_executable(raw: dict[str, Any], findings: EntryFindings) -> None:
    """Add every problem of an executable that the schema cannot find."""
    for key in _OF_OTHER_KINDS:
        if key in raw:
            findings.warn(f"/{key}", "not-used", "has no effect for the kind executable", "remove it")
    check_selected_tools(raw.get("tools"), findings)


def names_flytui(command: Json, args: Json) -> bool:
    """Return whether a command line names `flytui`, as the program or as an argument of another one."""
    words = [command, *(args if isinstance(args, list) else ())]
    return any(isinstance(word, str) and _ITSELF.fullmatch(word) for word in words)


def _names(value: str) -> list[str]:
    return SECRET_REFERENCE.findall(value)


def _check_url(raw: dict[str, Any], findings: EntryFindings) -> None:
    permissions = raw.get("permissions")
    permissions = permissions if isinstance(permissions, dict) else {}
    if permissions.get("network") is not True:
        remedy = 'declare it: "permissions": {"network": true}'
        findings.add(
            "/url", "network-undeclared", "needs the network, which the entry does not declare", remedy
        )
    for key in _OF_A_PROCESS:
        if key in raw and key != "command":
            findings.warn(f"/{key}", "not-used", "has no effect where there is a url", "remove it")
    url = raw["url"]
    if isinstance(url, str):
        _check_address(url, findings)
    declared = permissions.get("secrets")
    listed = declared if isinstance(declared, list) else []
    names = frozenset(name for name in listed if isinstance(name, str))
    headers = raw.get("headers")
    for header, value in headers.items() if isinstance(headers, dict) else ():
        if isinstance(value, str):
            _check_header(header, value, names, findings)


def _check_address(url: str, findings: EntryFindings) -> None:
    example = 'write it as "https://mcp.example.com/mcp"'
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        findings.add("/url", "url", "is not an address", example)
        return
    if not host:
        findings.add("/url", "url", "names no host", example)
    elif parts.scheme == "http" and not is_loopback_host(host):
        remedy = "write https; http is for localhost and loopback addresses only"
        findings.add("/url", "in-the-clear", "sends everything unencrypted beyond this machine", remedy)
    if "@" in parts.netloc:
        findings.add("/url", "url", "contains a login", 'send it in "headers", from a declared secret')
    if parts.fragment or url.endswith("#"):
        findings.add("/url", "url", "has a part after #, which is never sent", example)
    if any(looks_secret(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        remedy = 'send it in "headers", from a declared secret'
        findings.add("/url", "secret-name", "contains something that looks like a secret", remedy)


def sends_credentials(entry: SidecarEntry) -> bool:
    """Return whether the entry authenticates itself by a header, so that no person logs in at its server."""
    return any(name.casefold() == "authorization" for name in entry.headers)


def is_loopback_host(host: str) -> bool:
    """Return whether the host of an address is this machine: `localhost`, or a loopback address."""
    address = parse_address(host)
    return host.casefold() == "localhost" or (address is not None and address.is_loopback)


def _check_header(header: str, value: str, declared: frozenset[str], findings: EntryFindings) -> None:
    below = pointer_join("/headers", header)
    name = header.casefold()
    if name in _OWN_HEADERS or name.startswith("mcp-"):
        findings.add(below, "own-header", "is set by flytui itself", "remove it")
    for secret in _names(value):
        if secret not in declared:
            remedy = f'declare it: "permissions": {{"network": true, "secrets": ["{secret}"]}}'
            findings.add(below, "secret-undeclared", f"{secret} is not a declared secret", remedy)
    if (looks_secret(header) or name.startswith(_SECRET_HEADER)) and not _names(value):
        remedy = 'write "${NAME}" in its place, and declare NAME in permissions.secrets'
        findings.add(below, "secret-name", "looks like a secret, and a file must not hold secrets", remedy)


def _check_permissions(permissions: Json, findings: EntryFindings) -> None:
    if not isinstance(permissions, dict):
        return
    if permissions.get("desktop") is True:
        remedy = "remove it: the process of a server stays, and could press the keys that approve a call"
        findings.add("/permissions/desktop", "desktop", "is not available to an MCP server", remedy)
    files = permissions.get("fs")
    for kind, paths in files.items() if isinstance(files, dict) else ():
        for number, path in enumerate(paths if isinstance(paths, list) else ()):
            if isinstance(path, str) and _OF_THE_INPUT in path:
                remedy = "name the folder itself: one process serves all calls"
                below = f"/permissions/fs/{kind}/{number}"
                findings.add(below, "of-the-input", "depends on the input of a call", remedy)


def _check_renamed(rename: Json, tools: Json, findings: EntryFindings) -> None:
    """Check the names that an entry gives to its server's tools."""
    given: dict[str, str] = {}
    picks = tools if isinstance(tools, list) else ()
    selected = [pick.get("name") if isinstance(pick, dict) else pick for pick in picks]
    for own, name in rename.items() if isinstance(rename, dict) else ():
        below = pointer_join("/rename", own)
        if isinstance(name, str) and name in given:
            remedy = "give each of the two a name of its own"
            findings.add(below, "renamed-twice", f"has the same name as {given[name]}", remedy)
        elif isinstance(name, str):
            given[name] = own
        if isinstance(tools, list) and own not in selected:
            remedy = "select the tool as well, or remove its name"
            findings.warn(below, "renamed-unselected", "is not one of the tools that are selected", remedy)


def check_selected_tools(tools: Json, findings: EntryFindings) -> None:
    """Check the tools that an entry picks of those that its program describes itself."""
    seen: set[str] = set()
    for number, tool in enumerate(tools if isinstance(tools, list) else ()):
        below = f"/tools/{number}"
        name = tool.get("name") if isinstance(tool, dict) else tool
        if isinstance(name, str) and name in seen:
            findings.warn(below, "tool-twice", f"{name} is named twice", "keep one of the two")
        elif isinstance(name, str):
            seen.add(name)
        for key in tool.keys() - upstream_tool_keys() if isinstance(tool, dict) else ():
            near = nearest(key, upstream_tool_keys(), count=1)
            remedy = f"did you mean {near[0]}?" if near else "remove it: the server describes its own tools"
            findings.warn(pointer_join(below, key), "unknown-key", "not a known key", remedy)
    if tools == []:
        findings.warn("/tools", "no-tools", "selects none of its tools", 'remove "tools" to select all')
