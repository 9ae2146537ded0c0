"""Finds the MCP servers of other clients: `.mcp.json` of Claude Code, `.cursor/mcp.json` of Cursor, and the
files of the person. No server is started. Values of variables and headers are not part of the result.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from flycore.discovery.diagnostics import MOST_NAME, DiagnosticList, described_file, parsed, shorten
from flycore.discovery.search_folder import FileText, SearchFolder
from flycore.discovery.secret_detection import masked_arguments, secret_url
from flycore.discovery.server_import import ImportRefused, import_proposal
from flycore.model.described import Described, DescribedState, Import, Origin, SourceKind
from flycore.model.diagnostics import Severity
from flycore.model.json import MASK, pointer_join
from flycore.registry.read_file import MAX_FILE_BYTES

PROJECT_FILES = (".mcp.json", ".cursor/mcp.json")
HOME_FILES = (".cursor/mcp.json", ".claude.json")
KEY = "mcpServers"
ITSELF = "flytui"
MOST_SERVERS = 128
MOST_LINE = 400
_TYPES = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamableHttp": "http", "sse": "sse"}


def read_servers(anchor: SearchFolder, files: tuple[str, ...], app_root: str) -> Iterator[Described]:
    """Yield the servers of these files, in their order."""
    for relative in files:
        read = anchor.whole(relative, MAX_FILE_BYTES)
        if not read.absent:
            yield from servers_of(read, anchor.shown(relative), anchor.origin, app_root)


def servers_of(read: FileText, shown: str, origin: Origin, app_root: str) -> list[Described]:
    """Return the servers of one file. For a file with an error, return one faulty item."""
    # The person's file of Claude Code, `.claude.json`, also has servers of one project, by its folder.
    if read.problem is not None:
        return [described_file(SourceKind.MCP_SERVER, shown, origin, [read.problem])]
    value, file, problems = parsed(read.text or "", shown, others=True)
    faults = DiagnosticList(file)
    faults.found.extend(problems)
    if not faults.found and not isinstance(value, dict):
        faults.add("", "schema", "must be an object", f'write {{"{KEY}": {{}}}}')
    if faults.found or not isinstance(value, dict):
        return [described_file(SourceKind.MCP_SERVER, shown, origin, faults.found)]
    projects = value.get("projects")
    own = projects.get(app_root) if isinstance(projects, dict) else None
    found: list[Described] = []
    for pointer, holder in ((pointer_join("/projects", app_root), own), ("", value)):
        servers = holder.get(KEY, {}) if isinstance(holder, dict) else {}
        below = pointer_join(pointer, KEY)
        if not isinstance(servers, dict):
            faults.add(below, "schema", f"{KEY} must be an object", f'write "{KEY}": {{}}')
            continue
        for name, raw in list(servers.items())[:MOST_SERVERS]:
            one = DiagnosticList(file, shorten(name, MOST_NAME))
            found.append(_server(name, raw, pointer_join(below, name), one, origin, app_root))
        if len(servers) > MOST_SERVERS:
            faults.warn(below, "too-many", f"only the first {MOST_SERVERS} servers are read", "list fewer")
    if faults.found:
        found.append(described_file(SourceKind.MCP_SERVER, shown, origin, faults.found))
    return found


def is_own_server(name: str, raw: dict[str, Any]) -> bool:
    """Return whether an entry starts flytui's own MCP server, in whatever way."""
    command, args = raw.get("command"), raw.get("args")
    words = [command] if isinstance(command, str) else []
    words += [arg for arg in args if isinstance(arg, str)] if isinstance(args, list) else []
    names = [os.path.basename(word).partition("@")[0] for word in words]
    return name == ITSELF or (ITSELF in names and "mcp" in names[names.index(ITSELF) + 1 :])


def _server(
    name: str, raw: object, pointer: str, faults: DiagnosticList, origin: Origin, app_root: str
) -> Described:
    fields: dict[str, Any] = raw if isinstance(raw, dict) else {}
    if not isinstance(raw, dict):
        faults.add(pointer, "schema", "must be an object", 'write {"command": "…"} or {"url": "…"}')
    else:
        _check(fields, pointer, faults)
    state, offer = DescribedState.LISTED, None
    if is_own_server(name, fields):
        state = DescribedState.ITSELF
        faults.add(
            pointer,
            "itself",
            "this is flytui's own entry, which cannot be imported",
            "leave it: that client reaches flytui through it",
            Severity.INFO,
        )
    elif not faults.broken:
        offer = _import_proposal(name, fields, pointer, faults, app_root)
    return Described(
        kind=SourceKind.MCP_SERVER,
        id=shorten(name, MOST_NAME),
        name=shorten(name, MOST_NAME),
        source=origin,
        path=faults.file.file,
        type=_type(fields),
        lines=tuple(_lines(fields)),
        state=DescribedState.FAULTY if faults.broken else state,
        reasons=tuple(faults.found),
        offer=offer,
    )


def _import_proposal(
    name: str, fields: dict[str, Any], pointer: str, faults: DiagnosticList, app_root: str
) -> Import | None:
    try:
        return import_proposal(name, fields, app_root, frozenset())
    except ImportRefused as refused:
        faults.warn(pointer, "not-importable", f"cannot be imported: {refused.why}", refused.remedy)
        return None


def _check(fields: dict[str, Any], pointer: str, faults: DiagnosticList) -> None:
    command, url = fields.get("command"), fields.get("url")
    if command is None and url is None:
        faults.add(pointer, "schema", "has neither command nor url", 'write "command" or "url"')
    for key in ("command", "url"):
        value = fields.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            faults.add(pointer_join(pointer, key), "schema", f"{key} must be a text", 'write "…"')
    args = fields.get("args", [])
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        faults.add(pointer_join(pointer, "args"), "schema", "args must be an array of texts", 'write ["…"]')
    for key in ("env", "headers"):
        value = fields.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            remedy = 'write {"NAME": "value"}'
            faults.add(pointer_join(pointer, key), "schema", f"{key} must name texts", remedy)
    transport = fields.get("type")
    if transport is not None and (not isinstance(transport, str) or transport not in _TYPES):
        remedy = f"write one of {', '.join(_TYPES)}"
        faults.add(pointer_join(pointer, "type"), "schema", "there is no such type", remedy)


def _type(fields: dict[str, Any]) -> str:
    transport = fields.get("type")
    if isinstance(transport, str) and transport in _TYPES:
        return _TYPES[transport]
    return "http" if isinstance(fields.get("url"), str) else "stdio"


def _lines(fields: dict[str, Any]) -> Iterator[str]:
    """Yield lines for people: what it starts or where it is. Of variables and headers only the names."""
    command, url, args = fields.get("command"), fields.get("url"), fields.get("args")
    if isinstance(command, str):
        texts = (arg for arg in args if isinstance(arg, str)) if isinstance(args, list) else ()
        yield shorten(" ".join(("runs", *masked_arguments((command, *texts)))), MOST_LINE)
    if isinstance(url, str):
        yield shorten(f"at {MASK if secret_url(url) else url}", MOST_LINE)
    for key, word in (("env", "variables"), ("headers", "headers")):
        value = fields.get(key)
        if isinstance(value, dict) and value:
            yield shorten(f"{word} {', '.join(sorted(value))}", MOST_LINE)
