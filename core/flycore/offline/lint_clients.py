"""The check of all tools that agents are shown against the rules of models' functions interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flycore.model.diagnostics import Diagnostic, Severity
from flycore.server.mcp.client_rules import RULES, ClientFault, client_faults
from flycore.server.mcp.names import ALIASES
from flycore.server.mcp.tool_list import tool_list_of

if TYPE_CHECKING:
    from flycore.model.catalog import Capability, Catalog
    from flycore.model.json import JsonObject

LISTED_RULE = "client-listing"
OWN_RULE = "client-schema"
MAX_PLACES = 3
"""Places that a finding names."""
_TEXTS = {rule.id: rule.text for rule in RULES}


def client_findings(catalog: Catalog) -> Iterator[Diagnostic]:
    """Yield an error for each tool whose listing breaks a rule, and a note where its own schema does.

    flytui lists the tool of a note without what breaks the rule, and checks calls against the whole schema.
    """
    tool_list = tool_list_of(catalog)
    listed = {tool.name: tool.input_schema for tool in (*tool_list.all_tools(), *ALIASES)}
    for name, schema in listed.items():
        yield from _findings(name, client_faults(name, schema), LISTED_RULE, Severity.ERROR)
    for view in catalog.capabilities:
        capability = view.capability
        if not capability.known:
            faults = client_faults(tool_list.names.name_of[capability.name], _without_dialect(capability))
            yield from _findings(capability.name, faults, OWN_RULE, Severity.INFO)


def _without_dialect(capability: Capability) -> JsonObject:
    return {"type": "object"} | {
        key: value for key, value in capability.input_schema.items() if key != "$schema"
    }


def _findings(
    name: str, faults: tuple[ClientFault, ...], rule: str, severity: Severity
) -> Iterator[Diagnostic]:
    places: dict[str, list[str]] = {}
    for fault in faults:
        places.setdefault(fault.rule, []).append(fault.pointer or "the root")
    for broken, found in places.items():
        more = f" and {len(found) - MAX_PLACES} more places" if len(found) > MAX_PLACES else ""
        yield Diagnostic(
            severity=severity,
            rule=rule,
            message=f"{name}: {_TEXTS[broken]}; not so at {', '.join(found[:MAX_PLACES])}{more}",
            remedy=""
            if severity is Severity.ERROR
            else "nothing has to be done: agents see the tool without it, and each call is checked in full",
        )
