"""The policy files: the system's, the user's and the project's, each read as one layer.

A file that does not parse keeps its last good rules; where there never were any, everything asks.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from flycore.model.base import Value
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Decision
from flycore.model.json import JsonObject
from flycore.policy.rules import Rule, RuleLayer, RuleSource, parse_rules
from flycore.registry.jsonc.parse import read_jsonc
from flycore.registry.paths import POLICY_FILE, PROJECT_POLICY_FILE, SYSTEM_CONFIG_DIR
from flysafe.beneath import open_anchor, open_beneath, read_beneath

if TYPE_CHECKING:
    from flycore.registry.paths import RootPaths

MAX_BYTES = 1_048_576
SCHEMA_VERSION = 1
SCHEMA_FILE = "policy.schema.json"
NO_OBJECT = 'is not an object: write {"schemaVersion": 1, "rules": []}'
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class SystemFile(NamedTuple):
    """The machine's own policy file, believed only where nobody but `owner` can write it."""

    path: Path = SYSTEM_CONFIG_DIR / POLICY_FILE
    owner: int = 0


class PolicyFile(Value, frozen=True, kw_only=True):
    """One layer. `ok` is False where the file does not parse: `rules` are then the last good ones."""

    source: RuleLayer
    file: str
    rules: tuple[Rule, ...] = ()
    ok: bool = True
    present: bool = True


Loaded = tuple[PolicyFile, tuple[Diagnostic, ...]]


def load_system(system: SystemFile, names: frozenset[str]) -> Loaded:
    """The machine's file. One that others could have written says nothing, and that is an error."""
    file = str(system.path)
    try:
        data = _read_system(system)
    except FileNotFoundError:
        return PolicyFile(source=RuleLayer.SYSTEM, file=file, present=False), ()
    except OSError as error:
        return ask_for_everything(RuleLayer.SYSTEM, file, f"cannot be read: {error.strerror or error}")
    if data is None:
        diagnostic = Diagnostic(
            severity=Severity.ERROR,
            rule="policy-file",
            message=f"the system's policy is ignored: others than user {system.owner} could have written it",
            remedy="give file and folder to root, and take group's and others' right to write",
            position=Position(file=file, line=1, column=1),
        )
        return PolicyFile(source=RuleLayer.SYSTEM, file=file, ok=False, present=False), (diagnostic,)
    return read_policy(data, RuleLayer.SYSTEM, file, names)


def load_files(places: RootPaths, names: frozenset[str]) -> tuple[Loaded, Loaded]:
    """The user's file and the project's."""
    return (
        _load(RuleLayer.USER, places.config_dir, POLICY_FILE, names),
        _load(RuleLayer.PROJECT, places.app_root, PROJECT_POLICY_FILE, names),
    )


def load_draft(path: Path, layer: RuleLayer, names: frozenset[str]) -> Loaded:
    """A file that is not in force, read as if it stood in that layer. FileNotFoundError."""
    loaded = _load(layer, path.parent, path.name, names)
    if not loaded[0].present:
        raise FileNotFoundError(2, os.strerror(2), str(path))
    return loaded


def with_last_good(layer: PolicyFile, before: PolicyFile | None) -> PolicyFile:
    """A broken layer with the rules it last had; asking everything where there was no file before,
    because nobody knows what the first one was meant to forbid."""
    if layer.ok or not layer.present:
        return layer
    if before is not None and before.present:
        return msgspec.structs.replace(layer, rules=before.rules)
    because = "the policy file cannot be read"
    rule = Rule(tool="*", decision=Decision.ASK, because=because, file=layer.file, line=1)
    return msgspec.structs.replace(layer, rules=(rule,))


def read_policy(data: bytes, layer: RuleLayer, file: str, names: frozenset[str]) -> Loaded:
    """The layer that these bytes are. Never raises for what is in them."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return ask_for_everything(layer, file, f"cannot be read: byte {error.start} is not UTF-8")
    value, index, problems = read_jsonc(text, file)
    if index is None or not isinstance(value, dict):
        return PolicyFile(source=layer, file=file, ok=False), problems or ask_for_everything(
            layer, file, NO_OBJECT
        )[1]

    def locate(pointer: str) -> Position | None:
        span = index.value(pointer)
        if span is None:
            return None
        line, column = index.position(span.start)
        return Position(file=file, line=line, column=column)

    faulty = frozenset(item.pointer for item in problems if item.severity is Severity.ERROR)
    origin = RuleSource(file=file, layer=layer, locate=locate, broken=faulty, names=names)
    read, diagnostics = _read_document(value, origin)
    return read, problems + diagnostics


def ask_for_everything(
    layer: RuleLayer, file: str, what: str, locate: Callable[[str], Position | None] | None = None
) -> Loaded:
    """A layer whose file cannot be used as a whole."""
    position = locate("") if locate is not None else None
    diagnostic = Diagnostic(
        severity=Severity.ERROR,
        rule="policy-file",
        message=f"the policy file {what}",
        remedy="mend the file; until then its last good rules hold, and without any everything asks",
        position=position or Position(file=file, line=1, column=1),
    )
    return PolicyFile(source=layer, file=file, ok=False), (diagnostic,)


def _load(layer: RuleLayer, anchor: Path, relative: str, names: frozenset[str]) -> Loaded:
    file = str(anchor / relative)
    try:
        data = read_beneath(anchor, relative, MAX_BYTES, links=True)
    except FileNotFoundError:
        return PolicyFile(source=layer, file=file, present=False), ()
    except OSError as error:
        return ask_for_everything(layer, file, f"cannot be read: {error.strerror or error}")
    return read_policy(data, layer, file, names)


def _read_document(value: JsonObject, origin: RuleSource) -> Loaded:
    """The layer of a file that is an object; anything unclear about the whole makes it not ok."""
    version, rules = value.get("schemaVersion"), value.get("rules")
    unknown = sorted(set(value) - {"schemaVersion", "rules", "$schema"})
    if type(version) is not int or version != SCHEMA_VERSION:
        return ask_for_everything(
            origin.layer, origin.file, f"needs schemaVersion {SCHEMA_VERSION}", origin.locate
        )
    if not isinstance(rules, list):
        return ask_for_everything(origin.layer, origin.file, "needs `rules`, a list", origin.locate)
    if unknown:
        return ask_for_everything(
            origin.layer, origin.file, f"has an unknown key {unknown[0]!r}", origin.locate
        )
    if any(not pointer.startswith("/rules/") for pointer in origin.broken):
        return ask_for_everything(
            origin.layer, origin.file, "is ambiguous: a key is given twice", origin.locate
        )
    parsed, diagnostics = parse_rules(rules, origin)
    return PolicyFile(source=origin.layer, file=origin.file, rules=parsed), diagnostics


def _read_system(system: SystemFile) -> bytes | None:
    """The file's bytes; None where somebody else could have written them. Links are not followed."""
    folder = open_anchor(system.path.parent)
    try:
        if not _only_owners(os.fstat(folder), system.owner):
            os.stat(system.path.name, dir_fd=folder, follow_symlinks=False)  # absent is no fault
            return None
        descriptor = open_beneath(folder, system.path.name, os.O_RDONLY | os.O_NONBLOCK)
    finally:
        os.close(folder)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not _only_owners(status, system.owner):
            return None
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(f"it is larger than {MAX_BYTES} bytes")
    return data


def _only_owners(status: os.stat_result, owner: int) -> bool:
    return status.st_uid == owner and not status.st_mode & _OTHERS_WRITE


def policy_schema() -> JsonObject:
    """The JSON Schema (2020-12) of a policy file; a new copy each time. What it accepts may still be refused:
    a schema cannot say that an example holds or that a pattern names a tool."""
    text = resources.files("flycore.policy").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    schema: JsonObject = json.loads(text)
    return schema
