"""`flytui tools`: lists the tools that agents see, and imports MCP servers into the registry."""

from __future__ import annotations

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import read_catalog
from flytui.cli.output import print_json, print_line, print_table


@click.group(invoke_without_command=True)
@common
def tools(invocation: Invocation) -> int:
    """List the tools that agents see: available and degraded ones."""
    if click.get_current_context().invoked_subcommand is None:
        return list_visible(invocation)
    return 0


@tools.command("list")
@common
def list_tools(invocation: Invocation) -> int:
    """List the tools that agents see: available and degraded ones."""
    return list_visible(invocation)


@tools.command("import")
@click.argument("name")
@click.option("--print", "only_print", is_flag=True, help="Show what would be written, and write nothing.")
@common
def import_tool(invocation: Invocation, name: str, only_print: bool) -> int:
    """Copy an MCP server from another client's file into the registry.

    NAME is a server of .mcp.json, .cursor/mcp.json or your own settings of Claude Code or Cursor. The
    command shows every line first and asks y/N on the terminal; there is no other way to say yes.
    """
    from flytui.cli.import_server import import_server

    return import_server(invocation, name, only_print=only_print)


def list_visible(invocation: Invocation) -> int:
    """Prints the tools that agents see; the exit code is always 0."""
    from flycore.catalog.document import visible_catalog

    views = visible_catalog(read_catalog(invocation.places(), probe=True))
    if invocation.as_json:
        from flytui.cli.documents import OfferedTool, ToolsDocument

        offered = tuple(
            OfferedTool(
                name=view.capability.name,
                description=view.capability.description,
                risk=view.capability.risk.value,
                read_only=view.capability.read_only,
                effective=view.stability.effective,
                decision=view.decision,
                input_schema=view.capability.input_schema,
                output_schema=view.capability.output_schema,
            )
            for view in views
        )
        print_json(ToolsDocument(tools=offered))
        return 0
    if not views:
        print_line("no tool is available: flytui catalog says why, and what to do")
        return 0
    rows = [
        (view.capability.name, view.capability.risk.value, view.decision or "–", view.capability.summary)
        for view in views
    ]
    print_table(invocation, ("TOOL", "RISK", "POLICY", "WHAT IT DOES"), rows)
    return 0
