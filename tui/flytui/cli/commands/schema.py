"""`flytui schema NAME`: prints the JSON Schema of a file, of the socket's messages, or of a command's
output."""

from __future__ import annotations

import click
import msgspec

from flycore.catalog.document import catalog_schema
from flycore.model.json import JsonObject
from flycore.rpc.schema import protocol_schema
from flytui.cli.documents import DOCUMENTS, SchemaDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import print_error, print_json, print_line

EXIT_REFUSED = 5
NAMES = (
    "registry",
    "policy",
    "settings",
    "tools-config",
    "manifest",
    "kits",
    "request",
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
    "upstream",
    "packages",
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
    "migrate",
    "schema",
    "sidecar-check",
    "sandbox-probe",
)


@click.command()
@click.argument("name", metavar="[NAME]", type=click.Choice(NAMES), required=False)
@click.option("--write", is_flag=True, help="Write the schemas of files into tools/schemas, for an editor.")
@common
def schema(invocation: Invocation, name: str | None, write: bool) -> int:
    """Print the JSON Schema of a file, of messages or of --json output.

    NAME is registry, policy, settings, tools-config, manifest or kits (files), request or result (of a call),
    protocol (the messages of the socket), or a command that has --json.
    """
    if (name is None) is not write:
        raise click.UsageError("name one schema, or write those of files with --write")
    if name is not None:
        print_json(schema_of(name))
        return 0
    return _write_copies(invocation)


def _write_copies(invocation: Invocation) -> int:
    """Write the copies for an editor, and print what was written and how a file names its schema."""
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.files import write_schemas

    places = invocation.places()
    written, why_not = write_schemas(places.app_root)
    if invocation.as_json:
        print_json(SchemaDocument(app_root=str(places.app_root), written=written, message=why_not))
    elif why_not:
        print_error(why_not)
    else:
        for file in written:
            print_line(f"{file} is written")
        print_line('name it in the first line of a JSONC file: "$schema": "./schemas/registry.schema.json",')
        print_line("in a tool.yml: # yaml-language-server: $schema=../../schemas/manifest.schema.json")
    return EXIT_REFUSED if why_not else 0


def schema_of(name: str) -> JsonObject:
    """Returns the schema of that name, which is one of NAMES."""
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.files import published_schema

    if name == "protocol":
        return protocol_schema()
    if name == "catalog":
        return catalog_schema()
    if name in DOCUMENTS:
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **msgspec.json.schema(DOCUMENTS[name]),
        }
    return published_schema(name)
