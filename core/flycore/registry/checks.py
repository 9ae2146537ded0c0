"""Checks of an entry that the JSON Schema cannot express: refused names, versions, schemas of new tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from flycore.model.diagnostics import nearest
from flycore.model.enums import EXEC_KINDS, Kind, Source
from flycore.model.json import Json, escape_key, pointer_join
from flycore.model.schema_cost import LARGEST_PATTERN, CostlySchemaError, SchemaCost
from flycore.model.sidecar import Permissions
from flycore.registry.loader_environment import loader_of, may_be_passed
from flycore.registry.mcp_checks import check_executable, check_mcp_server
from flycore.registry.names import PLANS, RESERVED_PREFIX, is_builtin, looks_secret
from flycore.registry.schema import entry_validator, known_keys, nested_keys, refuse_retrieval, tool_keys
from flycore.registry.source_text import EntryFindings
from flycore.registry.tool_exec import check_approval, check_exec, names_of, secret_fields
from flycore.registry.version_range import version_range


def check_entry(raw: dict[str, Any], findings: EntryFindings, known: frozenset[str]) -> None:
    """Add every problem that the schema cannot find. Values of a wrong type are left to the schema."""
    if not raw.keys() <= known_keys():
        _unknown_keys(raw, "", known_keys(), findings)
    for below, keys in nested_keys().items():
        value: Json = raw
        for step in below.split("/"):
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, dict) and not value.keys() <= keys:
            _unknown_keys(value, f"/{below}", keys, findings)
    for key, check in _KEY_CHECKS.items():
        if key in raw:
            check(raw[key], findings)
    if findings.file.source is Source.USER and raw.get("cwd") in ("app", "project"):
        _check_own_commands(raw, findings)
    if findings.file.source is Source.BUNDLE:
        _check_bundle_commands(raw, findings)
    if raw.get("kind") == Kind.MCP:
        check_mcp_server(raw, findings)
        return
    for key in ("url", "headers", "onCancel", "sampling", "rename"):
        if key in raw:
            remedy = 'write "kind": "mcp", or remove it'
            findings.add(f"/{key}", "not-an-mcp-server", "is for the kind mcp only", remedy)
    if raw.get("kind") == Kind.EXECUTABLE:
        check_executable(raw, findings)
        return
    _check_tools(raw, findings, known)
    if raw.get("kind") in EXEC_KINDS:
        _check_exec_entry(raw, findings)
    elif "exec" in raw:
        remedy = 'write "kind": "http", "command" or "python", or remove it'
        findings.add("/exec", "exec-kind", "is for the kinds http, command and python", remedy)


def _check_exec_entry(raw: dict[str, Any], findings: EntryFindings) -> None:
    """Add the problems of an entry that says under `exec` what is run."""
    tools, exec_ = raw.get("tools"), raw.get("exec")
    if not entry_validator().is_valid(raw) or not isinstance(exec_, dict):
        return  # the schema's violations are reported, and the values here cannot be relied on
    for key in ("command", "args", "delegates", "instances", "idleMs", "probe", "config"):
        if key in raw:
            findings.add(f"/{key}", "exec-kind", f"has no meaning for the kind {raw['kind']}", "remove it")
    if not isinstance(tools, list) or len(tools) != 1 or not isinstance(tools[0], dict):
        remedy = 'write one tool with its "name" and "inputSchema"; each further tool is an entry of its own'
        findings.add("/tools", "exec-tools", "must describe exactly one tool", remedy)
        return
    permissions = permissions_of(raw.get("permissions", {}))
    names = names_of(tools[0].get("inputSchema"), permissions)
    check_exec(exec_, raw["kind"], names, permissions, findings)


def permissions_of(value: dict[str, Any]) -> Permissions:
    """Return the permissions that an entry declares."""
    files = value.get("fs", {})
    secrets, optional, types = secret_fields(value["secrets"]) if "secrets" in value else ((), (), ())
    return Permissions(
        network=value.get("network", False),
        read=tuple(files.get("read", ())),
        write=tuple(files.get("write", ())),
        secrets=secrets,
        optional_secrets=optional,
        secret_types=types,
        desktop=value.get("desktop", False),
    )


def invisible_faults(raw: dict[str, Any], encoded: bytes | None = None) -> bool:
    """Return whether an entry that `strict_validator` accepts has a fault that no schema can express.

    `encoded` is its JSON, where that was made before.
    """
    core = raw.get("compatibleCore")
    if core is not None and version_range(core) is None:
        return True
    tools = raw["tools"]
    if _may_have_faults(encoded or msgspec.json.encode(tools)):
        described = [tool for tool in tools if isinstance(tool, dict)]
        if _may_have_faults(msgspec.json.encode(described)) and _has_faults(described):
            return True
    return len(tools) > 1 and len({_name_of(tool) for tool in tools}) < len(tools)


def _may_have_faults(encoded: bytes) -> bool:
    """Return whether a schema in that JSON may be unusable although the meta-schema accepts it."""
    # Only references and patterns can be such, and compiling a schema costs more than all other checks
    # together, so it is done only where the text has one of these keys.
    return b'"$' in encoded or b'"pattern' in encoded


def _has_faults(described: list[dict[str, Any]]) -> bool:
    schemas = (tool[key] for tool in described for key in ("inputSchema", "outputSchema") if key in tool)
    return any(schema_fault(schema) for schema in schemas)


def _name_of(tool: Json) -> Json:
    return tool["name"] if isinstance(tool, dict) else tool


def _unknown_keys(value: dict[str, Any], below: str, keys: frozenset[str], findings: EntryFindings) -> None:
    for key in value.keys() - keys:
        near = nearest(key, keys, count=1)
        remedy = f"did you mean {near[0]}?" if near else "remove it, or put it into config"
        findings.warn(pointer_join(below, key), "unknown-key", "not a known key", remedy)


def _check_cwd(cwd: Json, findings: EntryFindings) -> None:
    source = findings.file.source
    if source in (Source.PROJECT, Source.BUNDLE) and cwd in ("config", "data"):
        remedy = 'write "app" or "workspace"'
        what = "config is the folder of the user's own registry"
        what = what if cwd == "config" else "data is the user's own data folder"
        findings.add("/cwd", "anchor", what, remedy)


def _check_own_commands(raw: dict[str, Any], findings: EntryFindings) -> None:
    """Refuse programs below whichever project is open, in an entry of the user's own file that starts there.

    The user's own entries are trusted in every root, and so would be the programs of any folder that was just
    cloned.
    """
    for below in _paths_of_commands(raw):
        message = "is below the open project, whose programs your own entries would trust"
        remedy = 'write a bare name that is found on PATH, or "cwd": "config" and a path below this file'
        findings.add(below, "anchor", message, remedy)


def _check_bundle_commands(raw: dict[str, Any], findings: EntryFindings) -> None:
    """Refuse paths as programs in an entry of a team bundle, which has no folder of its own."""
    for below in _paths_of_commands(raw):
        message = "is a path, and a bundle is the same for every project"
        findings.add(below, "anchor", message, "write a bare name that is found on PATH")


def _paths_of_commands(raw: dict[str, Any]) -> Iterator[str]:
    """Yield the pointers of the commands that are paths."""
    delegates = raw.get("delegates")
    named = {f"/delegates/{escape_key(name)}/command": value for name, value in _commands_of(delegates)}
    for below, command in {"/command": raw.get("command"), **named}.items():
        if isinstance(command, str) and "/" in command:
            yield below


def _commands_of(delegates: Json) -> Iterator[tuple[str, Json]]:
    for name, value in delegates.items() if isinstance(delegates, dict) else ():
        if isinstance(value, dict):
            yield name, value.get("command")


def _check_env(env: Json, findings: EntryFindings) -> None:
    for name in env if isinstance(env, dict) else ():
        below = pointer_join("/env", name)
        if looks_secret(name):
            remedy = (
                f'declare it: "permissions": {{"secrets": ["{name}"]}}, and take the value out of the file'
            )
            findings.add(
                below, "secret-name", "looks like a secret, and a file must not hold secrets", remedy
            )
        elif name.startswith(RESERVED_PREFIX):
            findings.add(below, "reserved-name", "is set by the kernel itself", "choose another name")


def _check_pass_env(names: Json, findings: EntryFindings) -> None:
    for number, name in enumerate(names) if isinstance(names, list) else ():
        if not isinstance(name, str):
            continue
        if looks_secret(name):
            remedy = f'declare it instead: "permissions": {{"secrets": ["{name}"]}}'
            if name.upper() == "XAUTHORITY":
                remedy = 'remove it: "permissions": {"desktop": true} hands it on'
            findings.add(f"/passEnv/{number}", "secret-name", f"{name} looks like a secret", remedy)
        elif name.startswith(RESERVED_PREFIX):
            remedy = "remove it: every child is given it"
            findings.add(f"/passEnv/{number}", "reserved-name", f"{name} is set by the kernel itself", remedy)
        elif not may_be_passed(name):
            # What the kernel was started with is neither shown to the person who trusts the entry nor sealed.
            remedy = f'write its value into the entry, where it is shown: "env": {{"{name}": "…"}}'
            message = f"{name} decides which code is loaded ({loader_of(name)}), so it is not handed on"
            findings.add(f"/passEnv/{number}", "loader-name", message, remedy)


def _check_permissions(permissions: Json, findings: EntryFindings) -> None:
    names = permissions.get("secrets") if isinstance(permissions, dict) else None
    listed: list[tuple[int | str, Json]] = []
    if isinstance(names, list | dict):
        listed = [*enumerate(names)] if isinstance(names, list) else [(name, name) for name in names]
    for number, name in listed:
        # A secret comes from the kernel's environment like a name of passEnv.
        if isinstance(name, str) and not looks_secret(name) and not may_be_passed(name):
            remedy = "name a variable that only the tool reads, such as BRAVE_API_KEY"
            message = f"{name} decides which code is loaded ({loader_of(name)}), so it is no secret"
            findings.add(pointer_join("/permissions/secrets", number), "loader-name", message, remedy)


def _check_core(specifier: Json, findings: EntryFindings) -> None:
    if isinstance(specifier, str) and version_range(specifier) is None:
        remedy = 'write a range of versions, for example "compatibleCore": ">=0.1,<1" or "^0.1.0"'
        findings.add("/compatibleCore", "version", "not a version range", remedy)


def check_addresses(findings: EntryFindings) -> None:
    """Warn of an address in the config of one of flytui's own programs, whose entry declares no network."""
    findings.warn(
        "/config",
        "undeclared-network",
        "names an address, but the entry declares no network: the sidecar sends nothing there",
        'write "network": true in permissions, or take the address out of config',
    )


_KEY_CHECKS: dict[str, Callable[[Json, EntryFindings], None]] = {
    "cwd": _check_cwd,
    "env": _check_env,
    "passEnv": _check_pass_env,
    "permissions": _check_permissions,
    "compatibleCore": _check_core,
}


def _check_tools(raw: dict[str, Any], findings: EntryFindings, known: frozenset[str]) -> None:
    tools = raw.get("tools")
    if not tools:
        if tools is None or tools == []:
            remedy = 'name what it offers, for example "tools": ["web.search"]'
            findings.warn("", "no-tools", "offers no tool", remedy)
        return
    seen: set[str] = set()
    for number, tool in enumerate(tools) if isinstance(tools, list) else ():
        below = f"/tools/{number}"
        name = tool.get("name") if isinstance(tool, dict) else tool
        if isinstance(name, str):
            if name in seen:
                findings.warn(below, "tool-twice", f"{name} is named twice", "keep one of the two")
            seen.add(name)
            if is_builtin(name):
                remedy = "remove it: files, git, processes and shell are the kernel's own tools"
                findings.add(below, "builtin-tool", f"{name} is builtin and cannot be offered", remedy)
            elif name in PLANS:
                message = f"{name} is served by flytui itself, so the one of this entry is not used"
                remedy = "remove it: flytui carries its actions out by the tools of your entries"
                findings.warn(below, "served-by-flytui", message, remedy)
            elif isinstance(tool, str) and tool not in known:
                near = nearest(tool, known)
                hint = f"did you mean {', '.join(near)}? Else d" if near else "D"
                remedy = f'{hint}escribe it: {{"name": "{tool}", "description": …, "inputSchema": {{…}}}}'
                findings.add(below, "unknown-tool", f"{tool} is not a known tool", remedy)
        if isinstance(tool, dict):
            _check_tool_object(tool, below, findings)


def _check_tool_object(tool: dict[str, Any], below: str, findings: EntryFindings) -> None:
    if not tool.keys() <= tool_keys():
        _unknown_keys(tool, below, tool_keys(), findings)
    approval = tool.get("approval")
    if isinstance(approval, dict) and isinstance(approval.get("reason", ""), str):
        check_approval(approval, f"{below}/approval", findings)
    for key in ("inputSchema", "outputSchema"):
        schema = tool.get(key)
        if not isinstance(schema, dict):
            continue
        fault = schema_fault(schema)
        if fault:
            remedy = 'write a JSON Schema (2020-12), for example {"type": "object"}'
            findings.add(f"{below}/{key}", "tool-schema", fault, remedy)
        elif key == "inputSchema" and schema.get("type", "object") != "object":
            remedy = 'write "type": "object": a tool is given an object'
            findings.add(f"{below}/{key}", "tool-schema", "does not accept objects", remedy)


def schema_fault(schema: dict[str, Any]) -> str:
    """Return why it is not a JSON Schema that is complete in itself; empty where it is one."""
    import jsonschema_rs

    try:
        SchemaCost(schema)
        options = jsonschema_rs.RegexOptions(size_limit=LARGEST_PATTERN)
        jsonschema_rs.Draft202012Validator(schema, retriever=refuse_retrieval, pattern_options=options)
    except CostlySchemaError as problem:
        return f"cannot be used: {problem}"
    except jsonschema_rs.ValidationError as error:
        if error.kind.name == "$ref":
            return "refers to a schema that is not inside it; nothing is ever fetched"
        where = "".join(f"/{step}" for step in error.instance_path)
        return f"not a JSON Schema: {where or 'it'} has a value that is not allowed there"
    return ""
