"""`flytui sandbox`: what this machine can keep a program from. `probe` tries it, `explain` says it of one
tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import print_error, print_json, print_line, print_table
from flytui.cli.shell_completion import tool_names

if TYPE_CHECKING:
    from flycore.model.enums import Level
    from flycore.model.stability import SandboxExplanation
    from flytui.cli.documents import SandboxProbeDocument, TriedLevel

EXIT_OPEN = 1
EXIT_NOT_OFFERED = 3


@click.group()
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
    from flycore.offline.sandbox import explain_sandbox
    from flytui.cli.documents import SandboxExplainDocument

    found = explain_sandbox(invocation.places(), tool)
    if found is None:
        print_error(f"no valid entry offers {tool}; flytui why {tool} says more")
        return EXIT_NOT_OFFERED
    if invocation.as_json:
        print_json(SandboxExplainDocument(explanation=found))
    else:
        _print_explanation(found)
    return 0


def _print_explanation(found: SandboxExplanation) -> None:
    print_line(f"{found.tool} of {found.sidecar} runs at level {found.report.level.value} here")
    print_line(f"  by          {found.report.mechanism}")
    print_line(f"  at least    {found.least.value}")
    if found.remedy:
        print_line(f"  for more    {found.remedy}")
    for row in found.report.permissions:
        state = "enforced" if row.enforced else row.why
        print_line(f"  {row.name:11} {row.declared} · {state}")
    if found.problem:
        print_error(f"its limits cannot be worked out: {found.problem}")
    for granted in found.paths:
        note = "the sealed copy is seen there" if granted.sealed else ""
        kind = "writes" if granted.writable else "reads"
        print_line(f"  {kind:11} {granted.path}{f' · {note}' if note else ''}")
    for path in found.by_input:
        print_line(f"  by input    {path}")


def _probe_levels() -> SandboxProbeDocument:
    from flycore.model.enums import Level
    from flycore.sandbox.detection import check_level
    from flytui.cli.documents import SandboxProbeDocument

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
    from flycore.sandbox.escape_trial import TrialFailed, newly_open, try_escapes
    from flytui.cli.documents import TriedLevel

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
