"""`flytui tools`: lists the tools that agents see, runs their examples, tests executables, asks them again,
and imports MCP servers into the registry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from flycore.catalog.document import tool_status, visible_catalog
from flycore.client.client import KernelClient
from flycore.model.catalog import CapabilityView, Catalog
from flycore.model.enums import Source
from flytui.cli.command_group import SummaryGroup
from flytui.cli.documents import OfferedTool, ToolsDocument, ToolsRefreshDocument
from flytui.cli.executable_trial import test_executable
from flytui.cli.import_server import import_server
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_kernel, read_catalog
from flytui.cli.output import count_of, print_json, print_line, print_table
from flytui.cli.shell_completion import tool_names
from flytui.cli.tool_examples import run_examples


@click.group(cls=SummaryGroup, invoke_without_command=True)
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
    return import_server(invocation, name, only_print=only_print)


@tools.command("test")
@click.argument("target", metavar="NAME|PATH", shell_complete=tool_names)
@click.option(
    "--tool", default="", metavar="NAME", help="The tool of PATH to call, where the file describes several."
)
@click.option(
    "--input", "input_text", default="", metavar="JSON", help="Also call PATH with this input: it acts."
)
@click.option(
    "--wait-approver",
    type=click.FloatRange(min=0, max=86_400),
    default=0.0,
    metavar="SECONDS",
    help="If a person has to be asked about an example and no console is open, wait this long for one.",
)
@common
def test_tool(invocation: Invocation, target: str, tool: str, input_text: str, wait_approver: float) -> int:
    """Run the examples of the tool NAME, or ask the executable PATH for its schema.

    PATH contains a / or is a file that exists. Each example is a call like any other: policy decides it, a
    person is asked, and the log has it. Exit 0 if all give what they expect, 1 if one does not, else the exit
    code of the first call that failed.

    An executable runs in the sandbox without any permission, and you are not asked. Nothing is trusted or
    logged. Exit 1 if its schema cannot be read, or if the call fails.
    """
    if "/" in target or Path(target).is_file():
        if wait_approver:
            raise click.UsageError("--wait-approver is for the examples of a tool NAME")
        return test_executable(invocation, Path(target), tool, input_text)
    if tool or input_text:
        raise click.UsageError("--tool and --input are for an executable: name its PATH")
    return run_examples(invocation, target, wait_approver)


@tools.command("refresh")
@common
def refresh_tools(invocation: Invocation) -> int:
    """Look for executables again, and ask each trusted one for its schema once more.

    A description or schema that differs from the one you approved waits for you. Metrics stay.
    """
    places = invocation.places()
    asked = ask_kernel(places, _ask_again)
    if invocation.as_json:
        print_json(ToolsRefreshDocument(sidecars=asked))
        return 0
    if not asked:
        print_line("no executable is trusted: flytui tools list shows those that wait")
    else:
        print_line(f"asked {count_of(len(asked), 'executable')}: flytui tools list shows what they say")
    return 0


async def _ask_again(client: KernelClient) -> tuple[str, ...]:
    sidecars = executables_of(await client.catalog())
    for sidecar in sidecars:
        await client.probe(sidecar)
    await client.refresh(True)
    return sidecars


def executables_of(catalog: Catalog) -> tuple[str, ...]:
    """The trusted executables of a catalog."""
    return tuple(
        view.id for view in catalog.sidecars if view.entry.kind.value == "executable" and view.trusted
    )


def list_visible(invocation: Invocation) -> int:
    """Prints the tools that agents see, and those of executables and manifests that are not usable yet; the
    exit code is always 0."""
    catalog = read_catalog(invocation.places(), probes=True)
    shown = {view.capability.name for view in visible_catalog(catalog)}
    views = [
        view
        for view in catalog.capabilities
        if view.capability.name in shown or view.source.startswith(("executable:", "manifest:"))
    ]
    manifests = {
        view.id: view.entry.file for view in catalog.sidecars if view.entry.source is Source.MANIFEST
    }
    rows = [_offered(view, tool_status(view), manifests) for view in views]
    if invocation.as_json:
        print_json(ToolsDocument(tools=tuple(rows)))
        return 0
    if not rows:
        print_line("no tool is available: flytui catalog says why, and what to do")
        return 0
    summaries = {view.capability.name: view.capability.summary for view in views}
    print_table(
        invocation,
        ("TOOL", "TYPE", "STATUS", "RISK", "POLICY", "WHAT IT DOES", "PATH"),
        [
            (
                row.name,
                row.type,
                row.status,
                row.risk,
                row.decision or "–",
                summaries[row.name] if not row.why else row.why,
                row.path,
            )
            for row in rows
        ],
    )
    return 0


_TYPES = {"registry": "sidecar"}


def _offered(view: CapabilityView, status: str, manifests: Mapping[str, str]) -> OfferedTool:
    kind = view.source.partition(":")[0]
    reasons, program = view.stability.reasons, view.stability.evidence.path
    path = manifests.get(view.sidecar or "") or (program.resolved if program is not None else "")
    return OfferedTool(
        name=view.capability.name,
        description=view.capability.description,
        risk=view.capability.risk.value,
        read_only=view.capability.read_only,
        effective=view.stability.effective,
        decision=view.decision,
        input_schema=view.capability.input_schema,
        output_schema=view.capability.output_schema,
        type=_TYPES.get(kind, kind),
        path=path,
        status=status,
        why=reasons[0].message if reasons and status != "ready" else "",
    )
