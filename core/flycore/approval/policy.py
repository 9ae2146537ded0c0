"""Policy: rules from the user's and the project's `policy.jsonc`, and a verdict for each call.

Allow < ask < deny; the strictest rule that matches wins, and where none does, `default.py` decides.
A file that does not parse keeps its last good rules; where there never were any, everything asks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from flycore.approval.default import Standing, default_rule
from flycore.approval.patterns import matches
from flycore.approval.rules import Rule, RuleSource, parse_rules
from flycore.model.approval import MatchedRule, Verdict
from flycore.model.base import Value
from flycore.model.canonical import JsonObject, digest
from flycore.model.capability import Capability
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Decision, Level, Risk, Source
from flycore.model.sidecar import Permissions, SidecarEntry
from flycore.registry.jsonc import read_jsonc
from flycore.registry.places import POLICY_FILE, PROJECT_POLICY_FILE
from flysafe.beneath import read_beneath

if TYPE_CHECKING:
    from flycore.registry.places import Places

MAX_BYTES = 1_048_576
SCHEMA_VERSION = 1
NO_OBJECT = 'is not an object: write {"schemaVersion": 1, "rules": []}'
DEFAULTS_VERSION = 1
"""Grows when the built-in defaults change, so that a grant given under the old ones is void."""


class PolicyFile(Value, frozen=True, kw_only=True):
    """One layer. `ok` is False where the file does not parse: `rules` are then the last good ones."""

    source: Source
    file: str
    rules: tuple[Rule, ...] = ()
    ok: bool = True
    present: bool = True


class Policy(Value, frozen=True, kw_only=True, dict=True):
    """All that is in force at one moment."""

    layers: tuple[PolicyFile, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every file parsed; the console's header is red where not."""
        return all(layer.ok for layer in self.layers)

    @cached_property
    def version(self) -> str:
        """Digest over what the rules say and their order; comments and places do not count."""
        said = [
            [layer.source, [[r.tool, r.decision, r.because] for r in layer.rules]] for layer in self.layers
        ]
        return digest([DEFAULTS_VERSION, said])

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule in force, the user's first."""
        return tuple(rule for layer in self.layers for rule in layer.rules)


def load_policy(places: Places, last_good: Policy | None, *, names: frozenset[str] = frozenset()) -> Policy:
    """Read both files. Never raises for what is in them; `names` are the tools known, for hints."""
    found: list[Diagnostic] = []
    layers = []
    for source, anchor, relative in (
        (Source.USER, places.config_dir, POLICY_FILE),
        (Source.PROJECT, places.app_root, PROJECT_POLICY_FILE),
    ):
        layer, diagnostics = _load_layer(source, anchor, relative, names)
        found.extend(diagnostics)
        layers.append(layer if layer.ok else _kept(layer, last_good))
    return Policy(layers=tuple(layers), diagnostics=tuple(found))


def evaluate(
    policy: Policy,
    capability: Capability,
    entry: SidecarEntry,
    *,
    risk: Risk,
    input: JsonObject,
    level: Level,
    bundled_unmodified: bool,
    has_delegate: bool,
    permissions: Permissions,
    user_risk: Risk | None = None,
) -> Verdict:
    """The verdict on one call. `input` is for conditions of a later version; no rule reads it yet."""
    del input
    matched = tuple(rule.matched() for rule in policy.rules if matches(rule.tool, capability.name))
    if not matched:
        standing = Standing(
            risk=risk,
            user_risk=user_risk,
            level=level,
            bundled_unmodified=bundled_unmodified,
            has_delegate=has_delegate,
            permissions=permissions,
        )
        matched = (default_rule(capability, entry, standing),)
    return Verdict(decision=_strictest(matched), rules=matched)


def evaluate_general(
    policy: Policy,
    capability: Capability,
    entry: SidecarEntry,
    *,
    level: Level = Level.NONE,
    bundled_unmodified: bool = False,
    user_risk: Risk | None = None,
) -> Verdict:
    """The verdict the catalog shows, before an input is known."""
    return evaluate(
        policy,
        capability,
        entry,
        risk=user_risk or capability.risk,
        input={},
        level=level,
        bundled_unmodified=bundled_unmodified,
        has_delegate=bool(entry.delegates),
        permissions=entry.permissions,
        user_risk=user_risk,
    )


def _strictest(rules: tuple[MatchedRule, ...]) -> Decision:
    return max((rule.decision for rule in rules), key=lambda decision: decision.rank)


def _load_layer(
    source: Source, anchor: Path, relative: str, names: frozenset[str]
) -> tuple[PolicyFile, tuple[Diagnostic, ...]]:
    file = str(anchor / relative)
    try:
        text = read_beneath(anchor, relative, MAX_BYTES, links=True).decode("utf-8")
    except FileNotFoundError:
        return PolicyFile(source=source, file=file, present=False), ()
    except (OSError, ValueError) as error:
        return _broken(source, file, f"cannot be read: {error}")
    value, index, problems = read_jsonc(text, file)
    if index is None or not isinstance(value, dict):
        return PolicyFile(source=source, file=file, ok=False), problems or _broken(source, file, NO_OBJECT)[1]

    def locate(pointer: str) -> Position | None:
        span = index.value(pointer)
        if span is None:
            return None
        line, column = index.position(span.start)
        return Position(file=file, line=line, column=column)

    broken = frozenset(item.pointer for item in problems if item.severity is Severity.ERROR)
    origin = RuleSource(file=file, source=source, locate=locate, broken=broken, names=names)
    layer, diagnostics = _read_document(value, origin)
    return layer, problems + diagnostics


def _read_document(value: JsonObject, origin: RuleSource) -> tuple[PolicyFile, tuple[Diagnostic, ...]]:
    """The layer of a file that is an object; anything unclear about the whole makes it not ok."""
    version, rules = value.get("schemaVersion"), value.get("rules")
    unknown = sorted(set(value) - {"schemaVersion", "rules", "$schema"})
    if type(version) is not int or version != SCHEMA_VERSION:
        return _broken(origin.source, origin.file, f"needs schemaVersion {SCHEMA_VERSION}", origin.locate)
    if not isinstance(rules, list):
        return _broken(origin.source, origin.file, "needs `rules`, a list", origin.locate)
    if unknown:
        return _broken(origin.source, origin.file, f"has an unknown key {unknown[0]!r}", origin.locate)
    if any(not pointer.startswith("/rules/") for pointer in origin.broken):
        return _broken(origin.source, origin.file, "is ambiguous: a key is given twice", origin.locate)
    parsed, diagnostics = parse_rules(rules, origin)
    return PolicyFile(source=origin.source, file=origin.file, rules=parsed), diagnostics


def _broken(
    source: Source, file: str, what: str, locate: Callable[[str], Position | None] | None = None
) -> tuple[PolicyFile, tuple[Diagnostic, ...]]:
    position = locate("") if locate is not None else None
    diagnostic = Diagnostic(
        severity=Severity.ERROR,
        rule="policy-file",
        message=f"the policy file {what}",
        remedy="mend the file; until then its last good rules hold, and without any everything asks",
        position=position or Position(file=file, line=1, column=1),
    )
    return PolicyFile(source=source, file=file, ok=False), (diagnostic,)


def _kept(layer: PolicyFile, last_good: Policy | None) -> PolicyFile:
    """The broken layer with the rules it last had; asking everything where there was no file before,
    because nobody knows what the first one was meant to forbid."""
    before = None if last_good is None else _layer_of(last_good, layer.source)
    if before is not None and before.present:
        return msgspec.structs.replace(layer, rules=before.rules)
    because = "the policy file cannot be read"
    rule = Rule(tool="*", decision=Decision.ASK, because=because, file=layer.file, line=1)
    return msgspec.structs.replace(layer, rules=(rule,))


def _layer_of(policy: Policy, source: Source) -> PolicyFile | None:
    return next((layer for layer in policy.layers if layer.source is source), None)
