"""Turns the JSON of one sidecar's entry into a value, and reports all of its problems at once."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from flycore.model.diagnostics import Diagnostic, Position
from flycore.model.enums import Anchor, Kind, ProbeMode, Source, UpgradeState
from flycore.model.json import Json, JsonObject, canonical_json, digest
from flycore.model.sidecar import (
    DEFAULT_MAX_INPUT_BYTES,
    DEFAULT_MAX_OUTPUT_BYTES,
    DEFAULT_TIMEOUT_MS,
    Delegate,
    Limits,
    Permissions,
    Probe,
    SidecarEntry,
    ToolClaim,
)
from flycore.registry.checks import (
    check_addresses,
    check_entry,
    invisible_character_faults,
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
_NO_PERMISSIONS, _NO_LIMITS, _DEFAULT_PROBE = Permissions(), Limits(), Probe()


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
    if clean and isinstance(raw, dict) and not invisible_character_faults(raw):
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
    get = raw.get
    source = findings.file.source
    default = Anchor.CONFIG if source is Source.USER else Anchor.APP
    config = get("config", {})
    upstream = get("kind") in (Kind.MCP, Kind.EXECUTABLE)
    parts = parse_exec(raw["exec"]) if "exec" in raw else None
    entry = SidecarEntry(
        id=findings.sidecar,
        source=source,
        position=written.position,
        command=get("command", "") if parts is None else parts.command,
        args=tuple(get("args", ())) if parts is None else parts.args,
        url=get("url", "") if parts is None else parts.url,
        headers=get("headers", {}) if parts is None else parts.headers,
        exec=None if parts is None else parts.exec,
        working_dir="" if parts is None else parts.working_dir,
        cwd=_ANCHORS[raw["cwd"]] if "cwd" in raw else default,
        env=get("env", {}),
        pass_env=tuple(get("passEnv", ())),
        enabled=get("enabled", True),
        disabled_reason=get("disabledReason", ""),
        kind=_KINDS[raw["kind"]] if "kind" in raw else Kind.PROCESS_JSON,
        instances=get("instances", 1),
        idle_ms=get("idleMs", 60_000),
        config=config,
        delegates=_delegates(raw, config, findings) if config or "delegates" in raw else {},
        timeout_ms=get("timeoutMs") or (DEFAULT_TIMEOUT_MS if parts is None else parts.timeout_ms),
        max_output_bytes=get("maxOutputBytes", DEFAULT_MAX_OUTPUT_BYTES),
        max_input_bytes=get("maxInputBytes", DEFAULT_MAX_INPUT_BYTES),
        package_id=get("packageId"),
        package_version=get("packageVersion"),
        protocol_version=get("protocolVersion"),
        compatible_core=get("compatibleCore"),
        probe=_probe(raw["probe"]) if "probe" in raw else _DEFAULT_PROBE,
        permissions=permissions_of(raw["permissions"]) if "permissions" in raw else _NO_PERMISSIONS,
        limits=_limits(raw["limits"]) if "limits" in raw else _NO_LIMITS,
        dialect=get("dialect", ""),
        seal_in_place=get("seal") == "in-place",
        restarts_on_cancel=get("onCancel") == "restart",
        samples=get("sampling", False),
        tools=() if upstream else _tool_claims(raw),
        rename=get("rename", {}),
        picked=_tool_claims(raw) if upstream and "tools" in raw else None,
        upgrade=_upgrade(raw),
        raw=raw,
        digest=entry_digest(findings.sidecar, written.encoded or sorted_json(raw)),
        problems=tuple(findings.problems),
        text=written.text,
    )
    if entry.kind is Kind.EXECUTABLE:
        return msgspec.structs.replace(entry, tools=_executable_claims(entry))
    if not config or not entry.config_address or entry.permissions.network:
        return entry
    check_addresses(findings)
    return msgspec.structs.replace(entry, problems=tuple(findings.problems))


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


def _upgrade(raw: dict[str, Any]) -> UpgradeState:
    # Any other value is a fault of the entry: an unknown state may mean that the program is half replaced.
    return _UPGRADES[raw["upgrade"]] if "upgrade" in raw else UpgradeState.IDLE


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
