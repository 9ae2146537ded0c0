"""Reads a tool manifest, one tool in one YAML file, as an entry like those of the registry.

All problems are reported at once, each with file, line, column and rule. A manifest with an error gives an
invalid entry, which is shown and never runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from flycore.model.diagnostics import Diagnostic, Position, Severity, nearest
from flycore.model.enums import Anchor, Kind, Source
from flycore.model.json import Json, JsonObject, canonical_json, pointer_join
from flycore.model.sidecar import Permissions, SidecarEntry, ToolClaim
from flycore.model.tool_exec import HttpExec, OutputFormat
from flycore.registry.checks import schema_fault
from flycore.registry.entry import entry_digest, sorted_json
from flycore.registry.loader_environment import loader_of, may_be_passed
from flycore.registry.names import RESERVED_PREFIX, looks_secret
from flycore.registry.schema import bounded_errors, known_keys_at, manifest_validator, manifest_violations
from flycore.registry.tool_exec import (
    ExecParts,
    check_approval,
    check_exec,
    check_files,
    names_of,
    parse_exec,
    secret_fields,
)
from flycore.registry.yaml_text import YamlText, read_yaml

IsReserved = Callable[[str], bool]
_SAFE_METHODS = ("GET", "HEAD")
_MOST_PROBLEMS = 100
_MOST_ROUNDS = 16
"""Rounds in which the faulty parts of a manifest are removed."""


class ManifestFindings(msgspec.Struct):
    """Collects the problems of one manifest."""

    file: YamlText
    sidecar: str
    problems: list[Diagnostic] = msgspec.field(default_factory=list)

    def add(
        self, below: str, rule: str, message: str, remedy: str, severity: Severity = Severity.ERROR
    ) -> None:
        """Add a finding about the value at `below`, a pointer into the file."""
        if len(self.problems) >= _MOST_PROBLEMS:
            return
        subject = below.lstrip("/").replace("/", ".") or self.file.file
        self.problems.append(
            Diagnostic(
                severity=severity,
                rule=rule,
                message=f"{subject}: {message}",
                remedy=remedy,
                pointer=below,
                position=self.file.nearest_position(below),
                sidecar=self.sidecar,
            )
        )

    def warn(self, below: str, rule: str, message: str, remedy: str) -> None:
        """Add a finding that does not make the manifest invalid."""
        self.add(below, rule, message, remedy, Severity.WARNING)

    @property
    def broken(self) -> bool:
        """Whether one of the findings is an error."""
        return any(problem.severity is Severity.ERROR for problem in self.problems)


def parse_manifest(
    text: str, shown: str, *, folder: str, file: str = "", is_reserved: IsReserved = lambda name: False
) -> SidecarEntry:
    """Return the entry of a manifest. `shown` is the file's name for people, `folder` the name of the folder
    that it lies in, and `file` its absolute path. Never raises for the content of the text."""
    read = read_yaml(text, shown)
    findings = ManifestFindings(read, folder)
    findings.problems += read.problems
    if not read.parsed:
        return unreadable_manifest(shown, folder, file, tuple(findings.problems))
    value = read.value
    for below, message, remedy in manifest_violations(value):
        findings.add(below, "schema", message, remedy)
    sound = _sound_parts(value)
    permissions = _permissions(sound.get("permissions") or {})
    _check(sound, permissions, folder, is_reserved, findings)
    position = read.nearest_position("/name")
    problems = tuple(findings.problems)
    if findings.broken:
        return unreadable_manifest(shown, folder, file, problems, value, position)
    return _entry(sound, permissions, file, problems, position)


def _sound_parts(value: Json) -> dict[str, Any]:
    """Return the value without the parts that do not fit the schema, so that the further checks can report
    what is wrong with the others. A whole manifest stays as it is; one with too many faults has no sound
    part."""
    left: Any = value
    for _ in range(_MOST_ROUNDS):
        if not isinstance(left, dict):
            break
        faults = [error for error in bounded_errors(manifest_validator(), left) if error.instance_path]
        if not faults:
            return left
        left = json.loads(canonical_json(left))
        for error in faults:
            _remove(left, [*error.instance_path])
    return {}


def _remove(value: Any, path: list[str | int]) -> None:
    for step in path[:-1]:
        known = step in value if isinstance(value, dict) else isinstance(step, int) and step < len(value)
        if not known:
            return  # it went with a part around it
        value = value[step]
    if isinstance(value, dict):
        value.pop(path[-1], None)
    elif isinstance(path[-1], int) and path[-1] < len(value):
        # Its place stays, so that the pointers of the items behind it do.
        value.clear() if value[path[-1]] is None else value.__setitem__(path[-1], None)


def unreadable_manifest(
    shown: str,
    folder: str,
    file: str,
    problems: tuple[Diagnostic, ...],
    value: Json = None,
    position: Position | None = None,
) -> SidecarEntry:
    """Return the invalid entry of a manifest that cannot be used."""
    raw = value if isinstance(value, dict) else {}
    # The tool keeps its name in the catalog, so that a person who looks for it finds why it is not there.
    name = raw.get("name")
    claim = ToolClaim(name=name if isinstance(name, str) and name else folder)
    return SidecarEntry(
        id=folder,
        source=Source.MANIFEST,
        position=position or Position(file=shown, line=1, column=1),
        file=file,
        tools=(claim,),
        raw=raw,
        problems=problems,
    )


def _entry(
    value: dict[str, Any],
    permissions: Permissions,
    file: str,
    problems: tuple[Diagnostic, ...],
    position: Position,
) -> SidecarEntry:
    stated = (value.get("outputs") or {}).get("format")
    parts = parse_exec(value["exec"], OutputFormat(stated) if stated else None)
    name = value["name"]
    return SidecarEntry(
        id=name,
        source=Source.MANIFEST,
        position=position,
        command=parts.command,
        args=parts.args,
        url=parts.url,
        headers=parts.headers,
        exec=parts.exec,
        working_dir=parts.working_dir,
        cwd=Anchor.APP,
        kind=Kind(value["kind"]),
        timeout_ms=parts.timeout_ms,
        permissions=permissions,
        tools=(ToolClaim(name=name, spec=_tool_spec(value, permissions, parts)),),
        raw=value,
        digest=entry_digest(name, sorted_json(value)),
        problems=problems,
        file=file,
    )


def _tool_spec(value: dict[str, Any], permissions: Permissions, parts: ExecParts) -> JsonObject:
    """Return the tool as the registry describes one."""
    spec: JsonObject = {
        "name": value["name"],
        "description": value["description"],
        "inputSchema": _input_schema(value),
        "approvalClass": [*_classes(permissions, parts)],
    }
    if isinstance(parts.exec, HttpExec) and parts.exec.method not in _SAFE_METHODS:
        spec["risk"] = "high"
    if output := (value.get("outputs") or {}).get("schema"):
        spec["outputSchema"] = output
    return spec | {key: value[key] for key in ("tags", "version", "approval", "examples") if key in value}


def _classes(permissions: Permissions, parts: ExecParts) -> tuple[str, ...]:
    if isinstance(parts.exec, HttpExec):
        return ("network",)
    more = (("network", permissions.network), ("write", bool(permissions.write)))
    return ("execute", *(name for name, holds in more if holds))


def _input_schema(value: dict[str, Any]) -> JsonObject:
    schema: JsonObject = (value.get("inputs") or {}).get("schema") or {"type": "object"}
    return schema


def _permissions(value: dict[str, Any]) -> Permissions:
    files = value.get("fs") or {}
    secrets, optional, types = secret_fields(value.get("secrets") or {})
    return Permissions(
        network=value.get("network", False),
        read=tuple(files.get("read") or ()),
        write=tuple(files.get("write") or ()),
        secrets=secrets,
        optional_secrets=optional,
        secret_types=types,
    )


# Checks that no schema can express.


_PLACES = {
    "": ("manifest",),
    "/inputs": ("manifest", "properties", "inputs"),
    "/outputs": ("manifest", "properties", "outputs"),
    "/permissions": ("manifest", "properties", "permissions"),
    "/permissions/fs": ("manifest", "properties", "permissions", "properties", "fs"),
    "/approval": ("approval",),
    "/exec": ("exec",),
    "/exec/http": ("httpExec",),
    "/exec/http/response": ("httpExec", "properties", "response"),
    "/exec/command": ("commandExec",),
    "/exec/command/stdout": ("commandExec", "properties", "stdout"),
    "/exec/python": ("pythonExec",),
}
"""The objects of a manifest whose keys are all known, and where the schema has them."""


def _check(
    value: dict[str, Any],
    permissions: Permissions,
    folder: str,
    is_reserved: IsReserved,
    findings: ManifestFindings,
) -> None:
    _check_unknown_keys(value, findings)
    name = value.get("name", folder)
    if folder and name != folder:
        remedy = f"rename the folder to {name}, or write name: {folder}"
        findings.add("/name", "name-folder", f"is not the name of its folder, {folder}", remedy)
    if is_reserved(name):
        remedy = "choose another name; a registry may offer a known tool"
        findings.add("/name", "reserved-name", f"{name} is the name of a tool that flytui knows", remedy)
    for key in ("inputs", "outputs"):
        _check_schema(value, key, findings)
    names = names_of(_input_schema(value), permissions)
    if "exec" in value and "kind" in value:
        check_exec(value["exec"], value["kind"], names, permissions, findings)
    check_files(permissions.read, "/permissions/fs/read", findings)
    check_files(permissions.write, "/permissions/fs/write", findings)
    _check_secrets(permissions, findings)
    check_approval(value.get("approval") or {}, "/approval", findings)


def _check_unknown_keys(value: dict[str, Any], findings: ManifestFindings) -> None:
    for pointer, place in _PLACES.items():
        node: Any = value
        for step in pointer.split("/")[1:]:
            node = node.get(step) if isinstance(node, dict) else None
        known = known_keys_at(place)
        for key in node.keys() - known if isinstance(node, dict) else ():
            near = nearest(key, known, count=1)
            remedy = f"did you mean {near[0]}?" if near else "remove it"
            findings.warn(pointer_join(pointer, key), "unknown-key", "not a known key", remedy)


def _check_schema(value: dict[str, Any], key: str, findings: ManifestFindings) -> None:
    schema = (value.get(key) or {}).get("schema")
    if not isinstance(schema, dict):
        return
    pointer = f"/{key}/schema"
    if fault := schema_fault(schema):
        findings.add(pointer, "tool-schema", fault, "write a JSON Schema (2020-12), such as {type: object}")
    elif key == "inputs" and schema.get("type", "object") != "object":
        findings.add(pointer, "tool-schema", "does not accept objects", "write type: object")


def _check_secrets(permissions: Permissions, findings: ManifestFindings) -> None:
    for name in permissions.secrets:
        pointer = pointer_join("/permissions/secrets", name)
        if name.startswith(RESERVED_PREFIX):
            findings.add(pointer, "reserved-name", "is set by the kernel itself", "choose another name")
        elif not looks_secret(name) and not may_be_passed(name):
            remedy = "name a variable that only the tool reads, such as BRAVE_API_KEY"
            said = f"{name} decides which code is loaded ({loader_of(name)}), so it is no secret"
            findings.add(pointer, "loader-name", said, remedy)
