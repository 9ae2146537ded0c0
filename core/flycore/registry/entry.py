"""Turns the JSON of one sidecar's entry into a value, and reports all of its problems at once."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from flycore.model.diagnostics import Diagnostic, Position
from flycore.model.enums import Anchor, Kind, ProbeMode, Source, UpgradeState
from flycore.model.json import Json, JsonObject, canonical_json, digest
from flycore.model.sidecar import (
    DEFAULT_TIMEOUT_MS,
    Delegate,
    Limits,
    Probe,
    SidecarEntry,
    ToolClaim,
)
from flycore.registry.checks import (
    check_addresses,
    check_entry,
    invisible_faults,
    permissions_of,
)
from flycore.registry.names import is_builtin
from flycore.registry.schema import entry_validator, strict_validator, violations
from flycore.registry.source_text import EntryFindings, SourceText
from flycore.registry.tool_exec import parse_exec

OWN_PROGRAM = "flytui-sidecar"
"""Name of the program of the bundled sidecars. Older registries named their delegates in `config`, which is
read for this program only: the same keys may mean something else to a foreign one, whatever its id is."""

_COMMANDS = {
    "mouseCommand": ("mouse", "mouseArgs"),
    "keyboardCommand": ("keyboard", "keyboardArgs"),
    "lspCommand": ("lsp", "lspArgs"),
    "taskCommand": ("task", "taskArgs"),
    "delegateCommand": ("delegate", "delegateArgs"),
}


def legacy_delegates(command: str, config: Mapping[str, Json]) -> dict[str, tuple[str, Delegate]]:
    """Return the delegates in an older `config` by name, each with the key that it was read from.

    `localCommands` is an object of names, each with a command, an argument list, or `{command, args}`.
    """
    found: dict[str, tuple[str, Delegate]] = {}
    if posixpath.basename(command) != OWN_PROGRAM:
        return found
    for key, (name, arguments) in _COMMANDS.items():
        delegate = _delegate({"command": config.get(key), "args": config.get(arguments, [])})
        if delegate is not None:
            found[name] = key, delegate
    local = config.get("localCommands")
    for name, value in (local if isinstance(local, dict) else {}).items():
        delegate = _delegate(value)
        if delegate is not None:
            found.setdefault(name, ("localCommands", delegate))
    return found


def _delegate(value: Json) -> Delegate | None:
    if isinstance(value, str):
        value = {"command": value}
    elif isinstance(value, list) and value:
        value = {"command": value[0], "args": value[1:]}
    if not isinstance(value, dict):
        return None
    command, args = value.get("command"), value.get("args", [])
    if not isinstance(command, str) or not command or not isinstance(args, list):
        return None
    return Delegate(command=command, args=tuple(item for item in args if isinstance(item, str)))


_ANCHORS = {anchor.value: anchor for anchor in Anchor} | {"project": Anchor.APP}
_KINDS = {kind.value: kind for kind in Kind}
_PROBES = {mode.value: mode for mode in ProbeMode if mode is not ProbeMode.DEFAULT}
_UPGRADES = {state.value: state for state in UpgradeState}


class EntrySource(NamedTuple):
    """The place and the text of an entry in its file."""

    sidecar: str
    position: Position
    """Position of the key."""
    text: str
    """The text from the key to the end of the value."""
    encoded: bytes | None = None
    """The JSON of the value with sorted keys, where it was made before."""


def parse_entry(
    raw: object, findings: EntryFindings, known: frozenset[str], written: EntrySource
) -> SidecarEntry:
    """Return the value of the entry, and add every problem to `findings`.

    For an entry with an error, the value has only the id, the positions, the names of the tools that can be
    read, and the problems.
    """
    source = findings.file.source
    # Nearly every entry is good, and one strict validation costs much less than the checks that find and
    # describe each problem. So those run only where the strict validation fails.
    # A bundle's entries have rules of their own, which are checked one by one.
    quick = isinstance(raw, dict) and not findings.problems and source is not Source.BUNDLE
    clean = quick and strict_validator(known, source).is_valid(raw)
    if clean and isinstance(raw, dict) and not invisible_faults(raw, written.encoded):
        return _build_entry(raw, findings, written)
    if isinstance(raw, dict) and entry_validator().is_valid(raw):
        check_entry(raw, findings, known)
        if not any(problem.severity == "error" for problem in findings.problems):
            return _build_entry(raw, findings, written)
    else:
        for below, message, remedy in violations(raw):
            findings.add(below, "schema", message, remedy)
        if isinstance(raw, dict):
            check_entry(raw, findings, known)
    return _invalid_entry(raw, findings, source, written)


def entry_digest(sidecar: str, encoded: bytes) -> str:
    """Return the SHA-256 of the id and the sorted JSON of the entry. Comments and order have no effect."""
    return hashlib.sha256(sidecar.encode() + b"\0" + encoded).hexdigest()


def sorted_json(raw: Json) -> bytes:
    """Return an entry, or another part of the file, as JSON with sorted keys."""
    try:
        return msgspec.json.encode(raw, order="sorted")
    except OverflowError:  # msgspec cannot encode integers beyond 64 bits
        return digest(raw).encode("ascii")


def _build_entry(raw: dict[str, Any], findings: EntryFindings, written: EntrySource) -> SidecarEntry:
    source, command, config = findings.file.source, raw.get("command", ""), raw.get("config", {})
    # Most keys are absent from most entries, so that the defaults of the value count for them.
    fields: dict[str, Any] = {"cwd": Anchor.CONFIG if source is Source.USER else Anchor.APP}
    for key, value in raw.items():
        if key in _AS_WRITTEN:
            fields[_AS_WRITTEN[key]] = value
        elif key in _READ:
            name, read = _READ[key]
            fields[name] = read(value)
    if "exec" in raw:
        fields |= _run_fields(raw)
    if "delegates" in raw or (config and command.endswith(OWN_PROGRAM)):
        fields["delegates"] = _delegates(raw, config, findings)
    if raw.get("kind") not in (Kind.MCP, Kind.EXECUTABLE):
        fields["tools"] = _tool_claims(raw)
    elif "tools" in raw:
        fields["picked"] = _tool_claims(raw)
    entry = SidecarEntry(
        id=findings.sidecar,
        source=source,
        position=written.position,
        raw=raw,
        digest=entry_digest(findings.sidecar, written.encoded or sorted_json(raw)),
        problems=tuple(findings.problems),
        text=written.text,
        **fields,
    )
    if entry.kind is Kind.EXECUTABLE:
        return msgspec.structs.replace(entry, tools=_executable_claims(entry))
    if not config or not entry.config_address or entry.permissions.network:
        return entry
    check_addresses(findings)
    return msgspec.structs.replace(entry, problems=tuple(findings.problems))


def _run_fields(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry that says what is run in `exec`."""
    parts = parse_exec(raw["exec"])
    return {
        "command": parts.command,
        "args": parts.args,
        "url": parts.url,
        "headers": parts.headers,
        "exec": parts.exec,
        "working_dir": parts.working_dir,
        "timeout_ms": raw.get("timeoutMs") or parts.timeout_ms,
    }


def _invalid_entry(
    raw: object, findings: EntryFindings, source: Source, written: EntrySource
) -> SidecarEntry:
    fields = raw if isinstance(raw, dict) else {}
    command, reason = fields.get("command"), fields.get("disabledReason")
    return SidecarEntry(
        id=findings.sidecar,
        source=source,
        position=written.position,
        command=command if isinstance(command, str) else "",
        enabled=fields.get("enabled") is not False,
        disabled_reason=reason if isinstance(reason, str) else "",
        tools=() if fields.get("kind") in (Kind.MCP, Kind.EXECUTABLE) else _tool_claims(fields),
        raw=fields,
        problems=tuple(findings.problems),
        text=written.text,
    )


def _tool_claims(raw: dict[str, Any]) -> tuple[ToolClaim, ...]:
    """Return the tools that can be read, in the order of the file."""
    tools = raw.get("tools", ())
    claims: dict[str, ToolClaim] = {}
    for tool in tools if isinstance(tools, list) else ():
        spec = tool if isinstance(tool, dict) else None
        name = tool if spec is None else spec.get("name")
        if isinstance(name, str) and name not in claims:
            claims[name] = ToolClaim(name=name, spec=spec)
    return tuple(claims.values())


def _executable_claims(entry: SidecarEntry) -> tuple[ToolClaim, ...]:
    """Return the tools of an executable until its schema is known: those that the entry picks, else one with
    the name of the file."""
    names = [entry.file_alias] if entry.picked is None else [claim.name for claim in entry.picked]
    return tuple(ToolClaim(name=name, spec={"name": name}) for name in names if not is_builtin(name))


def _delegates(raw: dict[str, Any], config: JsonObject, findings: EntryFindings) -> dict[str, Delegate]:
    """Return the declared delegates, and those of an older `config` that are not declared."""
    found = {
        name: Delegate(command=value["command"], args=tuple(value.get("args", ())))
        for name, value in raw.get("delegates", {}).items()
    }
    for name, (key, delegate) in legacy_delegates(raw.get("command", ""), config).items():
        if name not in found:
            found[name] = delegate
            findings.inform(
                f"/config/{key}",
                "legacy-delegate",
                f"read as delegates.{name}",
                f"move it to delegates.{name}: older registries named delegates in config",
            )
    return found


def _probe(value: dict[str, Any]) -> Probe:
    mode = _PROBES.get(value.get("mode", ""), ProbeMode.DEFAULT)
    return Probe(mode=mode, timeout_ms=value.get("timeoutMs", 2_000))


def _limits(value: dict[str, Any]) -> Limits:
    return Limits(
        cpu_seconds=value.get("cpuSeconds"),
        memory_bytes=value.get("memoryBytes"),
        file_bytes=value.get("fileBytes"),
        open_files=value.get("openFiles"),
        processes=value.get("processes"),
    )


_AS_WRITTEN = {
    "command": "command",
    "url": "url",
    "headers": "headers",
    "env": "env",
    "enabled": "enabled",
    "disabledReason": "disabled_reason",
    "instances": "instances",
    "idleMs": "idle_ms",
    "config": "config",
    "maxOutputBytes": "max_output_bytes",
    "maxInputBytes": "max_input_bytes",
    "packageId": "package_id",
    "packageVersion": "package_version",
    "protocolVersion": "protocol_version",
    "compatibleCore": "compatible_core",
    "dialect": "dialect",
    "sampling": "samples",
    "rename": "rename",
}
"""Fields that hold what the file has, by their keys."""
_READ: dict[str, tuple[str, Callable[[Any], object]]] = {
    "args": ("args", tuple),
    "passEnv": ("pass_env", tuple),
    "cwd": ("cwd", _ANCHORS.__getitem__),
    "kind": ("kind", _KINDS.__getitem__),
    "timeoutMs": ("timeout_ms", lambda value: value or DEFAULT_TIMEOUT_MS),
    "probe": ("probe", _probe),
    "permissions": ("permissions", permissions_of),
    "limits": ("limits", _limits),
    "seal": ("seal_in_place", "in-place".__eq__),
    "onCancel": ("restarts_on_cancel", "restart".__eq__),
    # Any other value is a fault of the entry: an unknown state may mean that the program is half replaced.
    "upgrade": ("upgrade", _UPGRADES.__getitem__),
}
"""Fields that are made from what the file has, by their keys."""


def restore_entry(now: SidecarEntry, raw: JsonObject, known: frozenset[str]) -> SidecarEntry:
    """Return the entry of `raw`, the JSON that a person trusted last, in the place of `now` from the file.

    It is checked like an entry that was read, and gets a new digest. Its problems have the position of `now`,
    because `raw` is not in a file any more. `known` holds the names of the known capabilities.
    """
    text = canonical_json({"sidecars": {now.id: raw}})
    findings = EntryFindings(SourceText(text, now.position.file, now.source), now.id)
    entry = parse_entry(raw, findings, known, EntrySource(now.id, now.position, ""))
    problems = tuple(_with_position(problem, now) for problem in entry.problems)
    return msgspec.structs.replace(entry, problems=problems)


def _with_position(problem: Diagnostic, now: SidecarEntry) -> Diagnostic:
    return msgspec.structs.replace(problem, position=now.position)
