"""`flytui preflight TOOL…`: checks whether these tools could be called now, without running them."""

from __future__ import annotations

import click

from flycore.model.catalog import Catalog
from flycore.model.diagnostics import nearest
from flycore.model.enums import Effective
from flytui.cli.catalog_text import reason_sentence
from flytui.cli.documents import PreflightDocument, PreflightTool
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import read_catalog
from flytui.cli.output import print_json, print_table
from flytui.cli.shell_completion import tool_names

EXIT_NOT_READY = 3


@click.command()
@click.argument("tools", metavar="TOOL…", nargs=-1, required=True, shell_complete=tool_names)
@common
def preflight(invocation: Invocation, tools: tuple[str, ...]) -> int:
    """Check whether each TOOL could be called now; runs none.

    Exit 0 if every tool is available, else 3.
    """
    catalog = read_catalog(invocation.places(), probes=True)
    found = tuple(_check_tool(catalog, tool) for tool in tools)
    ready = all(tool.effective is Effective.AVAILABLE for tool in found)
    if invocation.as_json:
        print_json(PreflightDocument(ready=ready, tools=found))
    else:
        rows = [(tool.tool, tool.effective.value, tool.decision or "–", _why(tool)) for tool in found]
        print_table(invocation, ("TOOL", "STATE", "POLICY", "WHY / FIX"), rows)
    return 0 if ready else EXIT_NOT_READY


def _check_tool(catalog: Catalog, tool: str) -> PreflightTool:
    view = catalog.capability(tool)
    if view is None:
        near = nearest(tool, [known.capability.name for known in catalog.capabilities])
        return PreflightTool(tool=tool, known=False, effective=Effective.UNAVAILABLE, nearest=near)
    return PreflightTool(
        tool=tool,
        known=True,
        effective=view.stability.effective,
        decision=view.decision,
        reasons=view.stability.reasons,
    )


def _why(tool: PreflightTool) -> str:
    if tool.known:
        return "; ".join(map(reason_sentence, tool.reasons))
    hint = f"did you mean {' or '.join(tool.nearest)}?" if tool.nearest else "flytui catalog lists every tool"
    return f"no such tool: {hint}"
