"""`flytui sandbox`: what this machine can keep a program from. `probe` tries it, `explain` says it of one
tool, `learn` finds out what a tool lacks."""

from __future__ import annotations

import json

import click
import msgspec

from flycore.model.call import ToolResult
from flycore.model.enums import Level
from flycore.model.stability import SandboxExplanation
from flycore.sandbox.detection import check_level
from flycore.sandbox.escape_trial import TrialFailed, newly_open, try_escapes
from flytui.cli.call_text import outcome_lines
from flytui.cli.command_group import SummaryGroup
from flytui.cli.commands.call import call_tool
from flytui.cli.documents import (
    SandboxExplainDocument,
    SandboxLearnDocument,
    SandboxProbeDocument,
    TriedLevel,
)
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import ask_yes_no, can_ask, print_error, print_json, print_line, print_table
from flytui.cli.shell_completion import tool_names

EXIT_OPEN = 1
EXIT_NOT_OFFERED = 3
EXIT_REFUSED = 5


@click.group(cls=SummaryGroup)
@common
def sandbox(invocation: Invocation) -> int:
    """Try what the operating system here can keep a program from."""
    return 0


@sandbox.command("probe")
@common
def probe(invocation: Invocation) -> int:
    """Run the escape probes at every level that this machine has.

    A small program tries to reach files, processes, sockets and calls of the kernel that it was not granted,
    first without a sandbox and then with each. Nothing of yours is touched: what it tries to reach was made
    for it. Exit 1 if a level lets through what it should not, or cannot be used.
    """
    document = _probe_levels()
    if invocation.as_json:
        print_json(document)
    else:
        _print_matrix(invocation, document)
    return EXIT_OPEN if any(tried.newly_open or tried.failed for tried in document.levels) else 0


@sandbox.command("explain")
@click.argument("tool", shell_complete=tool_names)
@common
def explain(invocation: Invocation, tool: str) -> int:
    """Say what a call of TOOL could reach, and at which level it would run here.

    The tool is not started. Exit 3 if nothing offers it.
    """
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.sandbox import explain_sandbox

    found = explain_sandbox(invocation.places(), tool)
    if found is None:
        print_error(f"no valid entry offers {tool}; flytui why {tool} says more")
        return EXIT_NOT_OFFERED
    if invocation.as_json:
        print_json(SandboxExplainDocument(explanation=found))
    else:
        _print_explanation(found)
    return 0


@sandbox.command("learn")
@click.argument("tool", shell_complete=tool_names)
@click.argument("words", metavar="[JSON | KEY=VALUE… | -]", nargs=-1)
@click.option("--input", "option", metavar="JSON", help="The input as a JSON object; - reads standard input.")
@click.option("--apply", "apply", is_flag=True, help="Show the change, and ask y/N on the terminal.")
@click.option(
    "--wait-approver",
    type=click.FloatRange(min=0, max=86_400),
    default=0.0,
    metavar="SECONDS",
    help="If a person has to be asked and no console is open, wait this long for one.",
)
@common
def learn(
    invocation: Invocation,
    tool: str,
    words: tuple[str, ...],
    option: str | None,
    apply: bool,
    wait_approver: float,
) -> int:
    """Call TOOL once, and say what the sandbox refused to it.

    The call is judged and approved like any other, and it acts. What it was refused is found out from its
    system calls, and the smallest permissions are proposed that would grant it. The program chose what it
    asked for: add only what it should have. Exit 0 if that could be found out, 5 if --apply changed nothing,
    else as flytui call.
    """
    result, interrupted = call_tool(
        invocation, tool, words, option, wait_approver=wait_approver, observe=True
    )
    document = _learned(invocation, tool, result)
    if not invocation.as_json:
        for row in outcome_lines(result):
            print_error(row.replace("\n", "\n    "))
        _print_learned(document)
    if apply and document.difference:
        document = msgspec.structs.replace(document, **_apply(invocation, document))
    if invocation.as_json:
        print_json(document)
    if interrupted or result.refusals is None:
        return interrupted or result.exit_status
    return EXIT_REFUSED if apply and document.difference and not document.applied else 0


def _learned(invocation: Invocation, tool: str, result: ToolResult) -> SandboxLearnDocument:
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.sandbox import propose_permissions

    found = propose_permissions(invocation.places(), result)
    if found is None:
        return SandboxLearnDocument(tool=tool, result=result)
    return SandboxLearnDocument(
        tool=tool,
        result=result,
        sidecar=found.entry.id,
        file=found.entry.position.file,
        permissions=found.permissions,
        difference=found.difference,
    )


def _apply(invocation: Invocation, document: SandboxLearnDocument) -> dict[str, object]:
    """Writes the permissions if a person at this terminal says yes. Returns what changes in the document."""
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.sandbox import add_permissions

    asks_on_error = invocation.as_json
    if not can_ask(err=asks_on_error):
        message = "--apply asks a person: run it on a terminal, or press F in the console"
        print_error(message)
        return {"message": message}
    if asks_on_error:
        for row in document.difference:
            print_error(f"  {row}")
    if not ask_yes_no(f"change {document.sidecar} in {document.file}?", err=asks_on_error):
        return {"message": "nothing was changed"}
    why_not = add_permissions(invocation.places(), document.result)
    message = (
        why_not or f"{document.sidecar} has changed: trust it again with flytui trust, or T in the console"
    )
    (print_error if why_not or asks_on_error else print_line)(message)
    return {"applied": not why_not, "message": message}


def _print_learned(document: SandboxLearnDocument) -> None:
    refusals = document.result.refusals
    if refusals is None:
        print_error("what it was refused is not known")
        return
    rows = [
        (f"{'writes' if item.write else 'reads':8}{item.path}{f' · {item.why_not}' if item.why_not else ''}")
        for item in refusals.paths
    ]
    rows += ["network"] if refusals.network else []
    rows += ["a Unix socket, which no permission grants"] if refusals.unix_sockets else []
    rows += [f"lists   {path}, which looks empty to it" for path in refusals.listed]
    rows += ["more than can be noted"] if refusals.left_out else []
    rows += ["paths that could not be read"] if refusals.unreadable else []
    print_line(f"{document.tool} was refused {'this:' if rows else 'nothing'}")
    for row in rows:
        print_line(f"  {row}")
    if document.difference:
        print_line(f"\nthe smallest permissions of {document.sidecar} in {document.file}:")
        print_line(f'  "permissions": {json.dumps(document.permissions, ensure_ascii=False)}')
        for change in document.difference:
            print_line(f"  {change}")


def _print_explanation(found: SandboxExplanation) -> None:
    print_line(f"{found.tool} of {found.sidecar} runs at level {found.report.level.value} here")
    print_line(f"  by          {found.report.mechanism}")
    print_line(f"  at least    {found.least.value}")
    if found.remedy:
        print_line(f"  for more    {found.remedy}")
    for row in found.report.permissions:
        state = "enforced" if row.enforced else row.why
        print_line(f"  {row.name:11} {row.declared} · {state}")
    for row in found.report.limits:
        print_line(f"  {row.name:11} {row.declared} · {'enforced: ' if row.enforced else ''}{row.why}")
    if found.problem:
        print_error(f"its limits cannot be worked out: {found.problem}")
    for granted in found.paths:
        note = "the sealed copy is seen there" if granted.sealed else ""
        kind = "writes" if granted.writable else "reads"
        print_line(f"  {kind:11} {granted.path}{f' · {note}' if note else ''}")
    for path in found.by_input:
        print_line(f"  by input    {path}")


def _probe_levels() -> SandboxProbeDocument:
    checks = [check_level(level) for level in (Level.NONE, Level.DEGRADED, Level.ENFORCED)]
    fails = [check for check in checks if not check.works]
    return SandboxProbeDocument(
        levels=tuple(
            _try_level(check.level, network)
            for check in checks
            if check.works
            for network in ((True,) if check.level is Level.NONE else (False, True))
        ),
        unavailable={check.level.value: f"{check.reason}; {check.remedy}" for check in fails},
    )


def _try_level(level: Level, network: bool) -> TriedLevel:
    try:
        results = try_escapes(level, network=network)
    except (TrialFailed, OSError) as reason:
        return TriedLevel(level=level, network=network, results={}, failed=str(reason))
    return TriedLevel(
        level=level,
        network=network,
        results={result.name: result.state for result in results},
        newly_open=newly_open(level, results, network=network),
    )


def _print_matrix(invocation: Invocation, document: SandboxProbeDocument) -> None:
    ran = [tried for tried in document.levels if not tried.failed]
    names = list(dict.fromkeys(name for tried in ran for name in tried.results))
    headings = ("PROBE", *(_heading(tried) for tried in ran))
    print_table(
        invocation, headings, [(name, *(tried.results.get(name, "") for tried in ran)) for name in names]
    )
    print_line()
    for tried in ran:
        states = list(tried.results.values())
        print_line(f"{_heading(tried)}: {states.count('open')} open, {states.count('shut')} shut")
    for tried in document.levels:
        if tried.failed:
            print_error(f"{_heading(tried)} cannot be used here: {tried.failed}")
        if tried.newly_open:
            print_error(f"{_heading(tried)} is not what flytui says of it: {', '.join(tried.newly_open)}")
    for level, remedy in document.unavailable.items():
        print_error(f"{level} is not available here: {remedy}")


def _heading(tried: TriedLevel) -> str:
    return f"{tried.level.value}{', network' if tried.network and tried.level.value != 'none' else ''}"
