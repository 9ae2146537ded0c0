"""Describes the tools of a registry as capabilities, and compares permissions with the limit of tools that
agents make.

A registry may have come with a clone, so it can only raise the risk of a tool. For a name that the kernel
knows, the kernel's groups stay; risk, approval classes and limits can only become stricter. Its schemas and
texts stay, too, unless the entry describes the tool itself: a foreign program may read other fields, and an
input of ours could then end in a success without the act.

The limit in your settings, `security.max_permissions`, has the form of an entry's `permissions`. What it does
not name, it does not allow; an empty limit allows nothing, and a limit that cannot be read counts as empty.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from flycore.catalog.builtin import KNOWN, family_of
from flycore.catalog.risk import undescribed
from flycore.catalog.schemas import check_input
from flycore.model.catalog import Capability, RiskRule
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.enums import Layer, Risk
from flycore.model.json import Json, JsonObject, escape_key
from flycore.model.sidecar import Permissions, SidecarEntry, ToolClaim
from flycore.model.tool_exec import ExampleCall


def excess_permissions(permissions: Permissions, ceiling: JsonObject | None) -> tuple[str, ...]:
    """Return the declared permissions that the limit does not allow, in words; none where there is no
    limit."""
    if ceiling is None:
        return ()
    found = []
    if permissions.network and ceiling.get("network") is not True:
        found.append("network")
    for name, paths in (("read", permissions.read), ("write", permissions.write)):
        allowed = allowed_paths(ceiling, name)
        found += [f"files {name} {path}" for path in paths if not any(_below(path, top) for top in allowed)]
    secrets = _strings(ceiling.get("secrets"))
    found += [f"secret {name}" for name in permissions.secrets if name not in secrets]
    if permissions.desktop and ceiling.get("desktop") is not True:
        found.append("desktop")
    return tuple(found)


def allowed_paths(limit: JsonObject, name: str) -> tuple[str, ...]:
    """Return the paths that a limit of permissions allows under `read` or `write`, as they are written."""
    files = limit.get("fs")
    return _strings(files.get(name)) if isinstance(files, dict) else ()


def excess_of_created(permissions: Permissions, limits: Iterable[JsonObject]) -> tuple[str, ...]:
    """Return the permissions of a tool that an agent made beyond any of its limits."""
    found = (excess_permissions(permissions, limit) for limit in limits)
    return tuple(dict.fromkeys(item for excess in found for item in excess))


def _strings(value: Json) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _below(path: str, top: str) -> bool:
    """Return whether a declared path lies at or below a path of the limit, by their names alone."""
    if path == top or top == "/":
        return True
    # What a call's input fills in stays in the folder that is written before it, or in the project: each call
    # is refused otherwise. Any other `${…}` may lead anywhere, so only the same text or "/" allows it.
    if "${" in path.replace("${input.", ""):
        return False
    if "${" in path:
        path = posixpath.dirname(path.partition("${")[0]) or "."
    path, top = posixpath.normpath(path), posixpath.normpath(top)
    if top == ".":
        return not path.startswith(("/", "~")) and path.split("/")[0] != ".."
    return path == top or path.startswith(f"{top}/")


UNKNOWN_RISK = Risk.MEDIUM
"""The lowest risk of a tool that only a registry describes."""
UNKNOWN_CLASS = ("execute",)
_NOTHING: dict[str, Any] = {}
"""Stands for every object that an entry does not write. A new one for each tool would take its memory."""
HIGHEST_DECLARED = Risk.HIGH
"""The highest risk that a registry can declare. `critical` comes from policy only."""
DEFAULT_RESULT_LIMIT = 65_536


class _Approval(msgspec.Struct, frozen=True):
    required: bool = False
    reason: str = ""


class _Example(msgspec.Struct, frozen=True):
    params: JsonObject = {}
    description: str = ""
    expected_output: Json | msgspec.UnsetType = msgspec.UNSET


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """The keys of a tool object. The registry has checked them before."""

    name: str
    description: str = ""
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    approval_class: str | list[str] | None = None
    risk: Risk | None = None
    read_only: bool | None = None
    exclusive: str | None = None
    result_limit: int | None = None
    tags: list[str] = []
    version: str | int | float = ""
    approval: _Approval | None = None
    examples: list[_Example] = []

    @property
    def asks_because(self) -> str:
        """Why a person is asked about every call; empty where policy alone decides."""
        return self.approval.reason if self.approval is not None and self.approval.required else ""

    @property
    def example_calls(self) -> tuple[ExampleCall, ...]:
        """The example calls."""
        return tuple(
            ExampleCall(description=one.description, params=one.params, expected_output=one.expected_output)
            for one in self.examples
        )


def capability_from_spec(claim: ToolClaim, sidecar: str) -> Capability:
    """Return the capability of a claim: the kernel's own where only a known name is claimed.

    Raises KeyError for a bare name that is not known and msgspec.ValidationError for a tool object of
    another shape; the registry lets neither through.
    """
    if claim.spec is None:
        return KNOWN[claim.name]
    spec = _spec_of(claim.spec)
    if claim.name in KNOWN:
        own = replace(
            KNOWN[claim.name],
            asks_because=spec.asks_because,
            version=str(spec.version),
            example_calls=spec.example_calls,
        )
        return _stricter_risk(_self_described(own, spec), spec)
    return _new(claim.name, spec, sidecar)


def _spec_of(written: JsonObject) -> _Spec:
    """Return the keys of a tool object, with its own schemas instead of the copies that a conversion makes:
    tools of one entry share equal ones."""
    spec = msgspec.convert(written, _Spec)
    own = {
        name: written[key]
        for name, key in (("input_schema", "inputSchema"), ("output_schema", "outputSchema"))
        if isinstance(written.get(key), dict)
    }
    return replace(spec, **own)


def _new(name: str, spec: _Spec, sidecar: str) -> Capability:
    description = spec.description or undescribed(name, sidecar)
    return Capability(
        name=name,
        layer=Layer.ATOMIC,
        family=family_of(name),
        sidecar=sidecar,
        description=description,
        summary=description.split("\n", 1)[0][:200],
        effect="",
        risk=_raised_risk(UNKNOWN_RISK, spec.risk),
        approval_class=_classes(spec) or UNKNOWN_CLASS,
        input_schema=spec.input_schema or _NOTHING,
        output_schema=spec.output_schema or _NOTHING,
        effects=_NOTHING,
        hints=_NOTHING,
        read_only=bool(spec.read_only),
        exclusive=spec.exclusive,
        tags=tuple(spec.tags),
        result_limit=spec.result_limit or DEFAULT_RESULT_LIMIT,
        examples=tuple(one.params for one in spec.examples),
        version=str(spec.version),
        asks_because=spec.asks_because,
        example_calls=spec.example_calls,
        known=False,
    )


def describes_itself(claim: ToolClaim) -> bool:
    """Return whether the entry gives the input schema of a tool that the kernel knows."""
    return claim.name in KNOWN and claim.spec is not None and isinstance(claim.spec.get("inputSchema"), dict)


def _self_described(own: Capability, spec: _Spec) -> Capability:
    """Return a known capability with the schemas and the description of the entry, where it gives them."""
    if spec.input_schema is None:
        return own if spec.output_schema is None else replace(own, output_schema=spec.output_schema)
    # Templates, examples and risks by input speak of fields that this program may not have. So the effect is
    # told without them, and the risk is the highest that the kernel's table gives to any input.
    risks = (own.risk, *(rule.risk for rule in own.risk_when))
    return replace(
        own,
        description=spec.description or own.description,
        summary=f"{own.summary} (as its entry describes it)",
        effect="",
        effects={},
        examples=(),
        proofs=(),
        risk=max(risks, key=lambda risk: risk.rank),
        risk_when=(),
        input_schema=spec.input_schema,
        output_schema=spec.output_schema or {},
        known=False,
    )


def own_schema_findings(entry: SidecarEntry) -> tuple[Diagnostic, ...]:
    """Return a note for each known tool whose entry gives a schema of its own, with where the two differ."""
    found = []
    for number, claim in enumerate(entry.tools):
        if not describes_itself(claim) or claim.spec is None:
            continue
        differences = _differences(KNOWN[claim.name].input_schema, claim.spec["inputSchema"])
        found.append(
            Diagnostic(
                severity=Severity.INFO,
                rule="own-schema",
                message=f"{claim.name} is a known tool, and the entry's own inputSchema is in force for it: "
                + differences,
                remedy="nothing, if its program reads these fields; else remove inputSchema",
                pointer=f"/sidecars/{escape_key(entry.id)}/tools/{number}/inputSchema",
                position=entry.position,
            )
        )
    return tuple(found)


def example_findings(entry: SidecarEntry) -> tuple[Diagnostic, ...]:
    """Return a warning for each example of a tool whose input its own schema does not accept."""
    if not entry.valid:
        return ()
    return tuple(
        Diagnostic(
            severity=Severity.WARNING,
            rule="example-input",
            message=f"example {number + 1} of {claim.name}: {violations[0].pointer or 'its params'}: "
            + violations[0].message,
            remedy="correct its params, or the input schema",
            position=entry.position,
            sidecar=entry.id,
        )
        for claim in entry.tools
        if claim.spec is not None
        for number, example in enumerate(msgspec.convert(claim.spec, _Spec).examples)
        if (violations := check_input(_schema_of(claim), example.params)[1])
    )


def _schema_of(claim: ToolClaim) -> JsonObject:
    schema = (claim.spec or {}).get("inputSchema")
    return schema if isinstance(schema, dict) else {}


def _differences(known: JsonObject, own: Json) -> str:
    declared = own if isinstance(own, dict) else {}
    parts = []
    for key, word in (("properties", "fields"), ("required", "required fields")):
        ours, theirs = _strings_or_keys(known.get(key)), _strings_or_keys(declared.get(key))
        if added := [name for name in theirs if name not in ours]:
            parts.append(f"its {word} {', '.join(added)} are not those of the known tool")
        if missing := [name for name in ours if name not in theirs]:
            parts.append(f"the {word} {', '.join(missing)} of the known tool are missing")
    return "; ".join(parts) or "it has the same fields"


def _strings_or_keys(value: Json) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, dict) else _strings(value)


def _stricter_risk(own: Capability, spec: _Spec) -> Capability:
    """Return a known capability made stricter as the registry says."""
    return replace(
        own,
        risk=_raised_risk(own.risk, spec.risk),
        risk_when=tuple(
            RiskRule(when=rule.when, risk=_raised_risk(rule.risk, spec.risk)) for rule in own.risk_when
        ),
        approval_class=tuple(dict.fromkeys((*own.approval_class, *_classes(spec)))),
        read_only=own.read_only and spec.read_only is not False,
        exclusive=own.exclusive or spec.exclusive,
        concurrency_safe=own.concurrency_safe and spec.exclusive is None,
        result_limit=min(own.result_limit, spec.result_limit or own.result_limit),
    )


def _raised_risk(risk: Risk, declared: Risk | None) -> Risk:
    if declared is None or not declared.at_least(risk):
        return risk
    return HIGHEST_DECLARED if declared.at_least(HIGHEST_DECLARED) else declared


def greater_risk(capability: Capability, other: Capability) -> Capability:
    """Return the capability with the greater of both risks for every input. `other` describes the same
    tool."""
    floors = [rule.risk for rule in other.risk_when]
    rules, base = capability.risk_when, other.risk
    if [rule.when for rule in rules] != [rule.when for rule in other.risk_when]:
        # Which rule of the other one an input meets is not known here, so its greatest risk counts.
        base = max((base, *floors), key=lambda risk: risk.rank)
        floors = [base] * len(rules)
    return replace(
        capability,
        risk=max(capability.risk, base, key=lambda risk: risk.rank),
        risk_when=tuple(
            RiskRule(when=rule.when, risk=max(rule.risk, floor, key=lambda risk: risk.rank))
            for rule, floor in zip(rules, floors, strict=True)
        ),
    )


def _classes(spec: _Spec) -> tuple[str, ...]:
    if isinstance(spec.approval_class, str):
        return (spec.approval_class,)
    return tuple(spec.approval_class or ())
