"""`flytui why TOOL`: prints the stability ladder of one tool."""

from __future__ import annotations

import time

import click

from flycore.model.catalog import Catalog
from flytui.cli.documents import WhyDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import read_catalog
from flytui.cli.output import (
    nearest_names,
    print_json,
    print_line,
    print_lines,
    print_not_found,
    terminal_width,
)
from flytui.cli.shell_completion import tool_names
from flytui.text.ladder import changed_lines, headline, ladder_lines, policy_line


@click.command()
@click.argument("tool", shell_complete=tool_names)
@common
def why(invocation: Invocation, tool: str) -> int:
    """Explain the state of TOOL, with evidence and what to do."""
    catalog = read_catalog(invocation.places(), probes=True)
    view = catalog.capability(tool)
    if view is None:
        return _unknown(invocation, catalog, tool)
    sidecar = catalog.sidecar(view.sidecar or "")
    if invocation.as_json:
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
    width = terminal_width()
    print_lines(invocation, [headline(tool, view.stability.effective), ()])
    print_lines(invocation, ladder_lines(view.stability, time.time(), width))
    if view.decision:
        print_line(policy_line(view.decision, view.because))
    if sidecar is not None:
        print_lines(invocation, changed_lines(sidecar.changed, width))
    return 0


def _unknown(invocation: Invocation, catalog: Catalog, tool: str) -> int:
    near = nearest_names(catalog, tool, sidecars=False)
    if invocation.as_json:
        print_json(WhyDocument(tool=tool, sidecar=None, decision="", stability=None, nearest=near))
    return print_not_found(tool, near, sidecars=False)
