"""`flytui why TOOL`: the stability ladder of one tool."""

from __future__ import annotations

import time

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import emit, say_lines, width
from flytui.cli.reading import read_catalog


@click.command()
@click.argument("tool")
@common
def why(invocation: Invocation, tool: str) -> int:
    """Say how a tool is, dimension by dimension, with evidence and the way out."""
    catalog = read_catalog(invocation.places(), probe=True)
    view = catalog.capability(tool)
    if view is None:
        from flytui.cli.unknown import no_such

        return no_such(catalog, tool, sidecars=False)
    if invocation.as_json:
        from flytui.cli.documents import WhyDocument

        emit(WhyDocument(tool=tool, sidecar=view.sidecar, decision=view.decision, stability=view.stability))
        return 0
    from flytui.console.catalog.ladder import headline, ladder_lines

    say_lines(invocation, [headline(tool, view.stability), ()])
    say_lines(invocation, ladder_lines(view.stability, time.time(), width()))
    return 0
