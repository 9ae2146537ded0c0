"""The policy files of the system, the user, the project and team bundles, each read as one layer of rules.

A file that does not parse keeps its last good rules. Where there never were any, every call is asked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from flycore.model.base import Value
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Decision
from flycore.model.json import JsonObject, indented_json, may_hold_more
from flycore.policy.rules import Rule, RuleLayer, RuleSource, parse_rules
from flycore.registry.bundles import read_applied
from flycore.registry.jsonc.parse import read_jsonc
from flycore.registry.paths import BUNDLES_FILE, POLICY_FILE, PROJECT_POLICY_FILE, SYSTEM_CONFIG_DIR
from flysafe.beneath import open_anchor, open_beneath, read_beneath

if TYPE_CHECKING:
    from flycore.registry.paths import RootPaths

MAX_BYTES = 1_048_576
SCHEMA_VERSION = 1
NOT_AN_OBJECT = 'is not an object: write {"schemaVersion": 1, "rules": []}'
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class SystemFile(NamedTuple):
    """The machine's own policy file. It counts only where nobody but `owner` (a user id) can write it."""

    path: Path = SYSTEM_CONFIG_DIR / POLICY_FILE
    owner: int = 0


class PolicyFile(Value, frozen=True, kw_only=True):
    """The rules of one file.

    `ok` is False where the file cannot be used as a whole; `rules` are then the last good ones. `present` is
    False where there is no file.
    """

    source: RuleLayer
    file: str
    rules: tuple[Rule, ...] = ()
    ok: bool = True
    present: bool = True


Loaded = tuple[PolicyFile, tuple[Diagnostic, ...]]


MOST_VALUES = 100_000
"""Values of a project's file. The place of each is looked for, which takes some 20 microseconds."""
MOST_PARSED = 16
"""Files that are kept parsed: those of the layers of one root, and of some bundles."""
MOST_RULES = 1_000
"""Rules of a project's file. A folder that was just cloned must not hold up the commands that look at it."""


def load_system(system: SystemFile, names: frozenset[str]) -> Loaded:
    """Read the machine's file. A file that others could have written has no effect and is an error."""
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
            remedy="make root the owner of the file and its folder, and let nobody else write to either",
            position=Position(file=file, line=1, column=1),
        )
        return PolicyFile(source=RuleLayer.SYSTEM, file=file, ok=False, present=False), (diagnostic,)
    return read_policy(data, RuleLayer.SYSTEM, file, names)


def load_files(paths: RootPaths, names: frozenset[str]) -> tuple[Loaded, Loaded]:
    """Read the user's file and the project's."""
    return (
        _load(RuleLayer.USER, paths.config_dir, POLICY_FILE, names),
        _load(RuleLayer.PROJECT, paths.app_root, PROJECT_POLICY_FILE, names),
    )


def load_bundles(
    config_dir: Path, names: frozenset[str], before: tuple[PolicyFile, ...]
) -> tuple[Loaded, ...]:
    """Read the policies of the applied bundles. If their file cannot be used, those of `before` stay."""
    applied = read_applied(config_dir)
    if applied.problem is not None:
        file = str(config_dir / BUNDLES_FILE)
        failed = PolicyFile(source=RuleLayer.BUNDLE, file=file, ok=False), (applied.problem,)
        kept = tuple(
            (layer, ()) for layer in before if layer.source is RuleLayer.BUNDLE and layer.file != file
        )
        # With the last rules in force, the file itself is only a fault; without, it asks for everything.
        return (*kept, (msgspec.structs.replace(failed[0], present=not kept), failed[1]))
    parts = ((bundle, bundle.part("policy")) for bundle in applied.bundles)
    return tuple(
        read_policy(indented_json(part).encode("ascii"), RuleLayer.BUNDLE, bundle.shown, names)
        for bundle, part in parts
        if part is not None
    )


def load_draft(path: Path, layer: RuleLayer, names: frozenset[str]) -> Loaded:
    """Read a draft as if it were the file of that layer. Raises FileNotFoundError where there is none."""
    loaded = _load(layer, path.parent, path.name, names)
    if not loaded[0].present:
        raise FileNotFoundError(2, os.strerror(2), str(path))
    return loaded


def with_last_good(layer: PolicyFile, before: PolicyFile | None) -> PolicyFile:
    """Return a layer that cannot be used with the rules it had before, or with one rule that asks for every
    call where it had none."""
    if layer.ok or not layer.present:
        return layer
    if before is not None and before.present:
        return msgspec.structs.replace(layer, rules=before.rules)
    # Nobody knows what the first version of the file was meant to forbid, so every call is asked.
    because = "the policy file cannot be read"
    rule = Rule(tool="*", decision=Decision.ASK, because=because, file=layer.file, line=1)
    return msgspec.structs.replace(layer, rules=(rule,))


@lru_cache(maxsize=MOST_PARSED)
def read_policy(data: bytes, layer: RuleLayer, file: str, names: frozenset[str]) -> Loaded:
    """Read the bytes of a policy file as one layer. Never raises for their content. Bytes that are as they
    were are not parsed again."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return ask_for_everything(layer, file, f"cannot be read: byte {error.start} is not UTF-8")
    if layer.only_tightens and may_hold_more(text, MOST_VALUES):
        what = f"holds more than {MOST_VALUES:,} values, which a project's file may not"
        return ask_for_everything(layer, file, what)
    value, index, problems = read_jsonc(text, file)
    if index is None or not isinstance(value, dict):
        return PolicyFile(source=layer, file=file, ok=False), problems or ask_for_everything(
            layer, file, NOT_AN_OBJECT
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
    """Return a layer whose file cannot be used as a whole, with the diagnostic that says why."""
    position = locate("") if locate is not None else None
    diagnostic = Diagnostic(
        severity=Severity.ERROR,
        rule="policy-file",
        message=f"the policy file {what}",
        remedy="correct the file; until then its last good rules hold, or every call is asked if it had none",
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
    """Read a file that is a JSON object. Anything unclear about the file as a whole makes it unusable."""
    version, rules = value.get("schemaVersion"), value.get("rules")
    unknown = sorted(set(value) - {"schemaVersion", "rules", "$schema"})
    if type(version) is not int or version != SCHEMA_VERSION:
        return ask_for_everything(
            origin.layer, origin.file, f"needs schemaVersion {SCHEMA_VERSION}", origin.locate
        )
    if not isinstance(rules, list):
        return ask_for_everything(origin.layer, origin.file, "needs `rules`, a list", origin.locate)
    if origin.layer.only_tightens and len(rules) > MOST_RULES:
        what = f"has {len(rules):,} rules, and a project's file may have {MOST_RULES:,}"
        return ask_for_everything(origin.layer, origin.file, what, origin.locate)
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
    """Return the file's bytes; None where somebody else could have written them. Links are not followed."""
    # Folder and file are checked through their open descriptors: a path could lead elsewhere by the time it
    # is opened. Whoever may write the folder could replace the file, so the folder counts, too.
    folder = open_anchor(system.path.parent)
    try:
        if not _only_owners(os.fstat(folder), system.owner):
            # Raises FileNotFoundError where there is no file: then an unsafe folder is no fault.
            os.stat(system.path.name, dir_fd=folder, follow_symlinks=False)
            return None
        descriptor = open_beneath(folder, system.path.name, os.O_RDONLY | os.O_NONBLOCK)
    finally:
        os.close(folder)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not _only_owners(status, system.owner):
            return None
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is not a regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(f"it is larger than {MAX_BYTES} bytes")
    return data


def _only_owners(status: os.stat_result, owner: int) -> bool:
    return status.st_uid == owner and not status.st_mode & _OTHERS_WRITE
