"""`flytui why TOOL`: prints the stability ladder of one tool."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import read_catalog
from flytui.cli.output import print_json, print_line, print_lines, terminal_width
from flytui.cli.shell_completion import tool_names

if TYPE_CHECKING:
    from flycore.model.catalog import Catalog


@click.command()
@click.argument("tool", shell_complete=tool_names)
@common
def why(invocation: Invocation, tool: str) -> int:
    """Explain the state of TOOL, with evidence and what to do."""
    catalog = read_catalog(invocation.places(), probe=True)
    view = catalog.capability(tool)
    if view is None:
        return _unknown(invocation, catalog, tool)
    sidecar = catalog.sidecar(view.sidecar or "")
    if invocation.as_json:
        from flytui.cli.documents import WhyDocument

        print_json(
            WhyDocument(
                tool=tool,
                sidecar=view.sidecar,
                decision=view.decision,
                because=view.because,
                stability=view.stability,
                changed=sidecar.changed if sidecar is not None else (),
            )
        )
        return 0
    from flytui.console.catalog.details import changed_lines
    from flytui.console.catalog.explanation import headline, ladder_lines

    print_lines(invocation, [headline(tool, view.stability), ()])
    print_lines(invocation, ladder_lines(view.stability, time.time(), terminal_width()))
    if view.decision:
        because = f", because {view.because}" if view.because else ""
        print_line(f"policy says {view.decision}{because}")
    if sidecar is not None:
        print_lines(invocation, changed_lines(sidecar, terminal_width()))
    return 0


def _unknown(invocation: Invocation, catalog: Catalog, tool: str) -> int:
    from flytui.cli.output import nearest_names, print_not_found

    near = nearest_names(catalog, tool, sidecars=False)
    if invocation.as_json:
        from flytui.cli.documents import WhyDocument

        print_json(WhyDocument(tool=tool, sidecar=None, decision="", stability=None, nearest=near))
    return print_not_found(tool, near, sidecars=False)
