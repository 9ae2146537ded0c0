"""`flytui metrics`: prints what the log says about tools, and about how often a person is asked."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from flycore.client.audit_log import Projection, TimeRange, exposition, parse_time_range, read_metrics
from flycore.model.audit import ApprovalMetrics, ApprovalReport, ToolMetrics
from flycore.model.status import Status
from flycore.rpc.methods import Client
from flytui.cli.documents import MetricsDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_running_kernel
from flytui.cli.output import print_error, print_json, print_line, print_table
from flytui.text.kernels import clock_time

NO_CALL = "the log has no call in that time"
NO_PROMPT = "nobody was asked in that time"


@click.command()
@click.option(
    "--approvals", is_flag=True, help="Print how often a person is asked, for each caller and tool."
)
@click.option("--prometheus", is_flag=True, help="Print in the text format that Prometheus reads.")
@click.option(
    "--since",
    metavar="TIME",
    default="",
    help="The earliest time: 2026-06-01, 2026-06-01T12:00, or 7d for seven days ago.",
)
@click.option("--until", metavar="TIME", default="", help="The time at which to stop.")
@common
def metrics(invocation: Invocation, approvals: bool, prometheus: bool, since: str, until: str) -> int:
    """Print calls, outcomes and times for each tool, from the log."""
    if prometheus and invocation.as_json:
        raise click.UsageError("--prometheus and --json are two formats: choose one")
    projection = read_metrics(invocation.places(), span_of(since, until))
    if prometheus:
        running = ask_running_kernel(invocation.places(), _status)
        click.echo(exposition(projection.metrics(), projection.approvals(), running), nl=False)
    elif invocation.as_json:
        print_json(MetricsDocument(metrics=projection.metrics(), approvals=projection.approvals()))
    elif approvals:
        _show_approvals(invocation, projection.approvals())
    else:
        _show_tools(invocation, projection)
    return 0


async def _status(client: Client) -> Status:
    return await client.status()


def span_of(since: str, until: str) -> TimeRange:
    """Returns the time range of the two options. Raises UsageError if one of them is not a time."""
    try:
        return parse_time_range(since, until, datetime.now(UTC))
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None


def _show_tools(invocation: Invocation, projection: Projection) -> None:
    found = projection.metrics()
    if found.unreadable:
        print_error(f"{found.unreadable} lines of the log cannot be read: flytui audit verify says where")
    if not found.tools:
        print_error(NO_CALL)
        return
    headings = (
        *("TOOL", "CALLS", "SUCCESS", "FAILED", "DENIED", "UNAVAILABLE", "OPEN", "TOTAL", "AVERAGE", "P95"),
        *("LAST RUN", "LAST ERROR"),
    )
    print_table(invocation, headings, [_tool_row(tool) for tool in found.tools])


def _tool_row(tool: ToolMetrics) -> tuple[str, ...]:
    error = tool.last_error
    counts = (tool.calls, tool.success, tool.failed, tool.denied, tool.unavailable, tool.open)
    times = (tool.total_ms, tool.average_ms, tool.p95_ms) if tool.ran else ()
    return (
        tool.tool,
        *(str(count) for count in counts),
        *([duration(ms) for ms in times] or ["–"] * 3),
        when(tool.last_executed) if tool.last_executed else "–",
        f"{when(error.at)} {error.code}: {error.message}" if error else "–",
    )


def _show_approvals(invocation: Invocation, report: ApprovalReport) -> None:
    if not report.pairs:
        print_error(NO_PROMPT)
        return
    print_line("\n".join(_report_lines(report.total)))
    print_line()
    headings = (
        *("CALLER", "PROMPTS", "APPROVED", "DENIED", "TIMED OUT", "WITHDRAWN", "PER HOUR", "AT ONCE"),
        *("MEDIAN", "P95", "TOOL"),
    )
    print_table(invocation, headings, [_pair_row(pair) for pair in report.pairs])


def _report_lines(total: ApprovalMetrics) -> list[str]:
    lines = [
        f"prompts          {total.prompts}; hours that had any: {total.active_hours}",
        f"an hour          {total.prompts_per_hour:g} on average, {total.busiest_hour} in the busiest",
        f"approved         {total.approved}",
        f"  within 1 s     {total.approved_at_once}, {total.approved_at_once_share:.0%} of them",
        f"denied           {total.denied}, {total.denied_share:.0%} of what a person decided",
        f"timed out        {total.timed_out}",
        f"withdrawn        {total.withdrawn}",
        f"time to decide   {duration(total.median_ms)} median, {duration(total.p95_ms)} p95",
    ]
    if total.waiting:
        lines.append(f"undecided        {total.waiting}")
    if total.not_shown:
        lines.append(f"never shown      {total.not_shown}, refused because too many waited")
    return lines


def _pair_row(pair: ApprovalMetrics) -> tuple[str, ...]:
    return (
        pair.caller,
        *(str(count) for count in (pair.prompts, pair.approved, pair.denied, pair.timed_out, pair.withdrawn)),
        f"{pair.prompts_per_hour:g}",
        f"{pair.approved_at_once_share:.0%}",
        duration(pair.median_ms),
        duration(pair.p95_ms),
        pair.tool,
    )


def duration(ms: float) -> str:
    """Returns milliseconds as a readable text, such as `1.5 s`."""
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    minutes, seconds = divmod(round(ms / 1_000), 60)
    return f"{minutes} min {seconds} s"


def when(time: str) -> str:
    """Returns a time of the log in the person's own time zone; a text that is not a time stays unchanged."""
    try:
        return clock_time(datetime.fromisoformat(time).timestamp())
    except (ValueError, OverflowError):
        return time
