"""`flytui hook`: asks about a coding agent's own commands, with the same queue, cards, policy and log."""

from __future__ import annotations

import os
import sys
from functools import partial

import anyio
import click

from flycore.client.client import connect
from flycore.model.call import ToolResult
from flycore.model.enums import Status
from flycore.model.json import JsonObject, canonical_json, digest, read_strict
from flytui.cli.agent_tools import (
    AgentRequest,
    is_asked_by_other_hook,
    read_agent_request,
    with_program_folders,
)
from flytui.cli.caller_watch import end_with_caller
from flytui.cli.client_configs import print_hook_config
from flytui.cli.command_group import SummaryGroup
from flytui.cli.hook_event import (
    ALLOWED,
    DEFAULT_WAIT,
    HOOKED,
    MOST_WAIT,
    TO_THE_END_MS,
    begin,
    hook_answer,
    is_allowed,
    print_answer,
    read_event,
    seconds_left,
)
from flytui.cli.interrupts import SignalInterrupt, run_async
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import discard, print_error
from flytui.cli.root_notice import check_root

_EVENTS = ("PreToolUse", "PreToolUse", "BeforeTool", "PreToolUse", "preToolUse")
BLOCKED = 2
"""The exit code on which the agent does not run its tool, and reads standard error. Any other code lets
the tool run."""
NOBODY = ("no-approver", "approval-timeout", "approval-pending", "withdrawn")
"""Codes of calls that ended without a decision; only these may be left to the agent's own prompt."""


@click.group(cls=SummaryGroup)
def hook() -> None:
    """Ask you about a coding agent's own commands before they run."""


def _command(client: str, title: str, event: str) -> click.Command:
    """Return the command that answers the events of one agent."""

    @click.option("--print-config", is_flag=True, help="Print what belongs in its settings.")
    @click.option(
        "--without-console",
        type=click.Choice(["deny", "ask"]),
        default="deny",
        show_default=True,
        help="What to answer if nobody decides in the console: deny, or ask at the agent's own prompt.",
    )
    @click.option(
        "--wait",
        type=click.FloatRange(min=0, max=MOST_WAIT),
        default=DEFAULT_WAIT,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for a person; keep it below the hook's own timeout.",
    )
    @common
    def answer(invocation: Invocation, print_config: bool, without_console: str, wait: float) -> int:
        if print_config:
            return print_hook_config(invocation.places(), client, without_console)
        return _answer(invocation, client, without_console, wait)

    return click.command(
        client,
        help=f"Answer a {event} event of {title} on standard input.\n\n"
        "It answers `allow` only after a person's decision or by a rule of yours. Every error blocks the"
        " tool.",
    )(answer)


for _client, _title, _event in zip(
    HOOKED, ("Claude Code", "Codex", "Gemini CLI", "Qwen Code", "Copilot CLI"), _EVENTS, strict=True
):
    hook.add_command(_command(_client, _title, _event))


def _answer(invocation: Invocation, client: str, without_console: str, wait: float) -> int:
    begin()
    try:
        answer = _answer_event(invocation, client, without_console, wait)
        if answer is not None:
            print_answer(canonical_json(answer))
    except (SignalInterrupt, KeyboardInterrupt, SystemExit):
        return refuse("ended by a signal")
    except Exception as error:  # noqa: BLE001 - a process boundary: any exit code but 2 would let the tool run
        return refuse(f"{type(error).__name__}: {error}")
    return 0


def _answer_event(
    invocation: Invocation, client: str, without_console: str, wait: float
) -> JsonObject | None:
    """Returns the hook's answer; None leaves the tool to the agent's own rules."""
    event = read_strict(read_event())
    request = read_agent_request(event, client)
    places = invocation.places()
    if request is None or is_asked_by_other_hook(event, client, places):
        return None
    root = os.path.realpath(places.app_root)
    request = with_program_folders(request, os.environ.get("PATH", ""), root)
    end_with_caller()
    result = run_async(lambda: _ask_kernel(invocation, request, wait, keep=without_console == "deny"))
    return hook_answer(*decision(request, result, without_console), request.client)


async def _ask_kernel(
    invocation: Invocation, request: AgentRequest, wait: float, *, keep: bool
) -> tuple[ToolResult, ...]:
    """Returns the call's result, or an empty tuple if nobody decided within `wait` seconds. With `keep`
    the request goes on waiting for the agent to ask again; without it the request is withdrawn, because
    the agent then asks the person itself."""
    # The hook must end by itself: the agent runs its tool if it has to end the hook at its own time limit.
    with anyio.move_on_after(seconds_left(wait)):
        places = invocation.places()
        await check_root(invocation, places)
        async with connect(places) as kernel:
            call = partial(kernel.call, request.action, request.input, purpose=request.reason)
            if keep:
                return (await call(inline_wait_ms=int(wait * 1000)),)
            with anyio.move_on_after(wait):
                return (await call(inline_wait_ms=TO_THE_END_MS),)
    return ()


def decision(request: AgentRequest, results: tuple[ToolResult, ...], without_console: str) -> tuple[str, str]:
    """Returns the answer for the agent and its reason. It is `allow` only for exactly the input that was
    asked about."""
    if not results:
        return without_console, "flytui: nobody has decided in the console yet"
    (result,) = results
    error = result.error
    if is_allowed(result.status.value, error, result.output, digest(request.input)):
        return "allow", ALLOWED
    if result.status is Status.SUCCESS and error is None:
        changed = "; ".join(result.warnings) or "it was allowed with another input"
        return "deny", f"flytui: {changed}. Nothing has run; ask again with exactly that input"
    if error is None:
        return "deny", f"flytui: the request ended {result.status.value}"
    why = f"flytui: {error.message}" + (f" ({error.hint})" if error.hint else "")
    return (without_console if error.code in NOBODY else "deny"), why


def refuse(why: str) -> int:
    """Prints the reason on standard error and returns the exit code that blocks the tool."""
    # Python would try to write the rest of a failed answer when the process ends, and exit with another code.
    discard(sys.stdout)
    print_error(f"flytui hook: nothing is allowed: {why}")
    return BLOCKED
