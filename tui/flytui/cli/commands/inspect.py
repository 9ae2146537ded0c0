"""`flytui inspect SIDECAR|TOOL`: everything that is known about it."""

from __future__ import annotations

import time

import click
import msgspec

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import emit, say, say_lines, width
from flytui.cli.reading import read_catalog


@click.command()
@click.argument("name", metavar="SIDECAR|TOOL")
@common
def inspect(invocation: Invocation, name: str) -> int:
    """Show all of a tool or a sidecar: state, schemas, permissions, evidence."""
    catalog = read_catalog(invocation.places(), probe=True)
    tool = catalog.capability(name)
    sidecar = catalog.sidecar((tool.sidecar or "") if tool else name)
    if tool is None and sidecar is None:
        from flytui.cli.unknown import near_names, no_such

        near = near_names(catalog, name, sidecars=True)
        if invocation.as_json:
            from flytui.cli.documents import InspectDocument

            emit(InspectDocument(name=name, capabilities=(), sidecar=None, nearest=near))
        return no_such(name, near, sidecars=True)
    offered = (tool,) if tool else tuple(view for view in catalog.capabilities if view.sidecar == name)
    if invocation.as_json:
        from flytui.cli.documents import InspectDocument

        emit(InspectDocument(name=name, capabilities=offered, sidecar=sidecar))
        return 0
    from flytui.console.catalog.details import details_lines
    from flytui.console.catalog.model import rows_of

    shown = msgspec.structs.replace(
        catalog, capabilities=(tool,) if tool else (), sidecars=(sidecar,) if sidecar else ()
    )
    row = rows_of(shown, frozenset(), {})[0]
    say_lines(invocation, details_lines(row, time.time(), width()))
    if tool is None and offered:
        say()
        say(f" tools: {', '.join(view.capability.name for view in offered)}")
    return 0
