"""`flytui inspect NAME`: prints everything that is known about a tool, a sidecar, or a kit, skill, plugin
or server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
import msgspec

from flycore.client.audit_log import tool_history
from flycore.model.catalog import Catalog
from flycore.model.described import Described
from flytui.cli.documents import InspectDocument
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
from flytui.cli.shell_completion import any_names

if TYPE_CHECKING:
    from flytui.console.catalog.details import ToolUsage


@click.command()
@click.argument("name", metavar="SIDECAR|TOOL", shell_complete=any_names)
@common
def inspect(invocation: Invocation, name: str) -> int:
    """Show everything about a tool or a sidecar.

    This is its state, schemas, permissions and evidence. You can also name a kit, a skill, a plugin or
    another client's MCP server, by its id or as KIND:ID.
    """
    catalog = read_catalog(invocation.places(), probes=True)
    tool = catalog.capability(name)
    sidecar = catalog.sidecar((tool.sidecar or "") if tool else name)
    described = () if tool or sidecar else described_as(catalog, name)
    if described:
        return _show_described(invocation, name, described)
    if tool is None and sidecar is None:
        near = nearest_names(catalog, name, sidecars=True)
        if invocation.as_json:
            print_json(InspectDocument(name=name, capabilities=(), sidecar=None, nearest=near))
        return print_not_found(name, near, sidecars=True)
    offered = (tool,) if tool else tuple(view for view in catalog.capabilities if view.sidecar == name)
    if invocation.as_json:
        metrics, recent = _tool_usage(invocation, name) if tool else (None, ())
        print_json(
            InspectDocument(
                name=name, capabilities=offered, sidecar=sidecar, metrics=metrics, recent=tuple(recent)
            )
        )
        return 0
    # Textual, for which every command would wait.
    from flytui.console.catalog.catalog_rows import rows_of
    from flytui.console.catalog.details import details_lines

    shown = msgspec.structs.replace(
        catalog, capabilities=(tool,) if tool else (), sidecars=(sidecar,) if sidecar else ()
    )
    row = rows_of(shown, frozenset(), {})[0]
    usage = _tool_usage(invocation, name) if tool else None
    print_lines(invocation, details_lines(row, time.time(), terminal_width(), usage))
    if tool is None and offered:
        print_line()
        print_line(f" tools: {', '.join(view.capability.name for view in offered)}")
    return 0


def described_as(catalog: Catalog, name: str) -> tuple[Described, ...]:
    """Returns the kits, skills, plugins and servers with that id, or with that `kind:id`; the one in use
    comes first."""
    return tuple(item for item in catalog.described if name in (item.id, item.key))


def _show_described(invocation: Invocation, name: str, described: tuple[Described, ...]) -> int:
    if invocation.as_json:
        print_json(InspectDocument(name=name, capabilities=(), sidecar=None, described=described))
        return 0
    # Textual, for which every command would wait.
    from flytui.console.screens.sources import source_lines

    for at, item in enumerate(described):
        if at:
            print_line()
        print_lines(invocation, source_lines(item, terminal_width()))
    return 0


def _tool_usage(invocation: Invocation, tool: str) -> ToolUsage:
    """Returns what the log says about the tool, with or without a kernel; of its calls, only those that
    ended."""
    # Textual, for which every command would wait.
    from flytui.console.catalog.details import MAX_RECENT_CALLS, usage_of

    metrics, calls = tool_history(invocation.places(), tool, MAX_RECENT_CALLS)
    return usage_of(tool, metrics, calls)
