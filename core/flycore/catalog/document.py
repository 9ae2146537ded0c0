"""The catalog as a JSON document, `flytui.catalog/1`, for `flytui catalog --json` and for clients."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import msgspec

from flycore.catalog.bindings import for_agents
from flycore.model.catalog import CapabilityView, Catalog, SidecarView
from flycore.model.described import Described
from flycore.model.json import Json, JsonObject
from flycore.model.sidecar import ToolClaim
from flycore.model.stability import Stability

SCHEMA = "flytui.catalog/1"


def catalog_document(catalog: Catalog) -> JsonObject:
    """Return the catalog as JSON. `discoveredAt` is the time at which it was built, ISO 8601 in UTC."""
    writer = _StabilityWriter()
    at = datetime.fromtimestamp(catalog.built_at, UTC).isoformat(timespec="seconds")
    return {
        "schema": SCHEMA,
        "version": catalog.version,
        "appRoot": catalog.app_root,
        "diagnostics": msgspec.to_builtins(catalog.diagnostics),
        "sidecars": [_sidecar(view, writer) for view in catalog.sidecars],
        "capabilities": [_capability(view, writer, at) for view in catalog.capabilities],
        "kits": kits_document(catalog.described),
    }


def kits_document(described: Iterable[Described]) -> list[Json]:
    """Return kits, skills, plugins and servers as JSON, each with its `kind`."""
    found: list[Json] = msgspec.to_builtins(tuple(described))
    return found


def without_rules(catalog: Catalog) -> Catalog:
    """Return the catalog for an agent: with policy's decisions but without its rules, and without the details
    of kits and servers that are the person's own."""
    views = tuple(msgspec.structs.replace(view, because="") for view in catalog.capabilities)
    described = tuple(map(for_agents, catalog.described))
    return msgspec.structs.replace(catalog, capabilities=views, described=described)


def outlined(catalog: Catalog) -> Catalog:
    """Return the catalog without the entries as they are written, where these offer tools: a reader of the
    tools needs none of it, and it says each of them twice more."""
    sidecars = tuple(_outlined_sidecar(view) if view.tool_count else view for view in catalog.sidecars)
    return msgspec.structs.replace(catalog, sidecars=sidecars)


def _outlined_sidecar(view: SidecarView) -> SidecarView:
    tools = tuple(ToolClaim(name=claim.name) for claim in view.entry.tools)
    entry = msgspec.structs.replace(view.entry, raw={}, text="", tools=tools)
    return msgspec.structs.replace(view, entry=entry)


def visible_catalog(catalog: Catalog) -> tuple[CapabilityView, ...]:
    """Return the tools that agents are shown: those that are available, or degraded and not hidden."""
    return tuple(view for view in catalog.capabilities if view.stability.effective.usable and not view.hidden)


@cache
def catalog_schema() -> JsonObject:
    """Return the JSON Schema of the document."""
    text = Path(__file__).with_name("catalog.schema.json").read_bytes()
    return msgspec.json.decode(text, type=JsonObject)


class _StabilityWriter:
    """Writes snapshots as JSON. Tools that share a snapshot share its JSON, too."""

    def __init__(self) -> None:
        # By identity: the catalog holds the snapshots for as long as this writer lives, so no id is reused.
        self._written: dict[int, JsonObject] = {}

    def of(self, stability: Stability) -> JsonObject:
        key = id(stability)
        if key not in self._written:
            self._written[key] = msgspec.to_builtins(stability)
        return self._written[key]


def _sidecar(view: SidecarView, writer: _StabilityWriter) -> JsonObject:
    return {
        "id": view.id,
        "kind": view.entry.kind.value,
        "source": view.entry.source.value,
        "trusted": view.trusted,
        "stability": writer.of(view.stability),
    }


def _capability(view: CapabilityView, writer: _StabilityWriter, at: str) -> JsonObject:
    capability, stability = view.capability, writer.of(view.stability)
    return {
        "name": capability.name,
        "layer": capability.layer.value,
        "family": capability.family,
        "sidecar": view.sidecar,
        "source": view.source,
        "description": capability.description,
        "risk": capability.risk.value,
        "approvalClass": list(capability.approval_class),
        "readOnly": capability.read_only,
        "exclusive": capability.exclusive,
        **_status(view),
        "discoveredAt": at,
        "decision": view.decision or None,
        "effective": view.stability.effective.value,
        "reasons": stability["reasons"],
        "stability": stability,
        "inputSchema": capability.input_schema,
        "outputSchema": capability.output_schema,
    }


def _status(view: CapabilityView) -> JsonObject:
    status = tool_status(view)
    if status != "error":
        return {"status": status}
    return {
        "status": status,
        "errorMessage": "; ".join(reason.message for reason in view.stability.reasons),
    }


def tool_status(view: CapabilityView) -> str:
    """Return the status in the three words that simple clients know: ready, schema-unknown, error."""
    if not view.stability.effective.usable:
        return "error"
    # An executable may describe a tool without saying what it takes: then its schema is known, and empty.
    known = view.capability.input_schema or view.capability.definition
    return "ready" if known else "schema-unknown"
