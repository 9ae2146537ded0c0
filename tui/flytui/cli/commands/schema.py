"""`flytui schema NAME`: prints the JSON Schema of a file, of the socket's messages, or of a command's
output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import print_json

if TYPE_CHECKING:
    from flycore.model.json import JsonObject

NAMES = (
    "registry",
    "policy",
    "result",
    "catalog",
    "protocol",
    "inspect",
    "why",
    "doctor",
    "preflight",
    "tools",
    "trust",
    "approvals",
    "activity",
    "grants",
    "panic",
    "token",
    "secrets",
    "policy-check",
    "policy-explain",
    "policy-replay",
    "status",
    "demo",
    "audit",
    "metrics",
    "lint",
    "enable",
    "disable",
    "init",
    "config",
    "config-path",
    "import",
    "sidecar-check",
    "sandbox-probe",
)


@click.command()
@click.argument("name", metavar="NAME", type=click.Choice(NAMES))
@common
def schema(invocation: Invocation, name: str) -> int:
    """Print the JSON Schema of a file, of messages or of --json output.

    NAME is registry, policy, result (of a call), protocol (the messages of the socket), or a command that
    has --json.
    """
    print_json(schema_of(name))
    return 0


def schema_of(name: str) -> JsonObject:
    """Returns the schema of that name, which is one of NAMES."""
    if name == "registry":
        from flycore.registry.schema import registry_schema

        return registry_schema()
    if name == "policy":
        from flycore.policy.files import policy_schema

        return policy_schema()
    if name == "protocol":
        from flycore.rpc.schema import protocol_schema

        return protocol_schema()
    if name == "catalog":
        from flycore.catalog.document import catalog_schema

        return catalog_schema()
    import msgspec

    from flycore.model.call import ToolResult
    from flytui.cli.documents import DOCUMENTS

    shape: type[msgspec.Struct] = ToolResult if name == "result" else DOCUMENTS[name]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(shape)}
