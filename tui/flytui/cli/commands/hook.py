"""`flytui hook`: a coding agent's own commands, put into the same queue, card, policy and log."""

from __future__ import annotations

import os
import stat
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from flytui.cli.interrupts import Interrupted, run_async
from flytui.cli.invocation import Invocation, common

if TYPE_CHECKING:
    from flycore.model.call import ToolResult
    from flycore.model.json import JsonObject
    from flytui.cli.agent_tools import AgentRequest

BLOCKED = 2
"""The exit code on which the agent does not run its tool, and reads standard error. Any other code would let
it go on."""
MAX_EVENT_BYTES = 2 * 1024 * 1024
"""More than this nobody judges on a card."""
DEFAULT_WAIT = 50.0
"""Below the 60 seconds after which agents gave up on a hook that named no time of its own."""
TO_THE_END_MS = 7 * 24 * 3_600_000
"""Longer than any request waits for a person."""
SETTLE_SECONDS = 8.0
"""How long beyond `--wait` finding a kernel and a console may take in all."""
NOBODY = ("no-approver", "approval-timeout", "approval-pending", "withdrawn")
"""Ends for which nobody said no."""


@click.group()
def hook() -> None:
    """Ask for a coding agent's own commands before it runs them."""


@hook.command("claude-code")
@click.option("--print-config", is_flag=True, help="Print what belongs in settings.json.")
@click.option(
    "--without-console",
    type=click.Choice(["deny", "ask"]),
    default="deny",
    show_default=True,
    help="Where nobody decides in the console: refuse, or leave it to the agent's own prompt.",
)
@click.option(
    "--wait",
    type=click.FloatRange(min=0, max=86_400),
    default=DEFAULT_WAIT,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for a person; keep it below the hook's own timeout.",
)
@common
def claude_code(invocation: Invocation, print_config: bool, without_console: str, wait: float) -> int:
    """Answer a PreToolUse event of Claude Code on standard input.

    Never `allow` but on a person's decision or a rule of yours; whatever goes wrong blocks the tool.
    """
    if print_config:
        from flytui.cli.client_configs import hook_settings
        from flytui.cli.output import print_error

        print_error("for .claude/settings.json:")
        click.echo(hook_settings(invocation.places(), without_console))
        return 0
    try:
        answer = _answer_event(invocation, without_console, wait)
        if answer is not None:
            from flycore.model.json import canonical_json

            _print_answer(canonical_json(answer))
    except (Interrupted, KeyboardInterrupt, SystemExit):
        return _refuse("ended by a signal")
    except Exception as error:  # noqa: BLE001 - a process boundary: any exit code but 2 would let the tool run
        return _refuse(f"{type(error).__name__}: {error}")
    return 0


def _print_answer(answer: str) -> None:
    """Print it. Raises OSError where nobody gets it: no answer would leave the tool to the agent's rules."""
    sink, null = os.fstat(sys.stdout.fileno()), os.stat(os.devnull)
    if stat.S_ISCHR(sink.st_mode) and sink.st_rdev == null.st_rdev:
        raise OSError("standard output is closed or the null device, and the answer would be lost")
    click.echo(answer)


def _answer_event(invocation: Invocation, without_console: str, wait: float) -> JsonObject | None:
    """The hook's answer; None leaves the tool to the agent's own rules."""
    from flycore.model.json import read_strict
    from flytui.cli.agent_tools import read_agent_request

    data = _read_event()
    asked = read_agent_request(read_strict(data))
    if asked is None:
        return None
    result = run_async(lambda: _ask_kernel(invocation, asked, wait, keep=without_console == "deny"))
    return _hook_answer(*decision(asked, result, without_console))


def _read_event() -> bytes:
    parts, left = [], MAX_EVENT_BYTES + 1
    while left > 0 and (part := os.read(sys.stdin.fileno(), min(left, 65_536))):
        parts.append(part)
        left -= len(part)
    data = b"".join(parts)
    if len(data) > MAX_EVENT_BYTES:
        raise ValueError(f"the event is larger than {MAX_EVENT_BYTES // 1024 // 1024} MiB")
    return data


async def _ask_kernel(
    invocation: Invocation, asked: AgentRequest, wait: float, *, keep: bool
) -> tuple[ToolResult, ...]:
    """The call's result; none where nobody decided in time. With `keep` the request waits on then, for the
    agent to come back to; else it is withdrawn, because the agent asks the person itself. Bounded whatever
    happens to the kernel: a hook that is ended by the agent holds nothing back."""
    import anyio

    from flycore.client.connect import connect

    with anyio.move_on_after(wait + SETTLE_SECONDS):
        async with connect(invocation.places()) as kernel:
            call = partial(kernel.call, asked.action, asked.input, said=asked.reason)
            if keep:
                return (await call(inline_wait_ms=int(wait * 1000)),)
            with anyio.move_on_after(wait):
                return (await call(inline_wait_ms=TO_THE_END_MS),)
    return ()


def decision(asked: AgentRequest, results: tuple[ToolResult, ...], without_console: str) -> tuple[str, str]:
    """What the agent is told, and why. `allow` only for the very input that was asked for."""
    from flycore.model.enums import Status
    from flycore.model.json import digest

    if not results:
        return without_console, "flytui: nobody has decided in the console yet"
    (result,) = results
    error = result.error
    if result.status is Status.SUCCESS and error is None:
        if result.output == {"decision": "allow", "input": digest(asked.input)}:
            return "allow", "allowed in flytui"
        changed = "; ".join(result.warnings) or "it was allowed with another input"
        return "deny", f"flytui: {changed}. Nothing has run; ask again with exactly that input"
    if error is None:
        return "deny", f"flytui: it ended {result.status.value}"
    why = f"flytui: {error.message}" + (f" ({error.hint})" if error.hint else "")
    return (without_console if error.code in NOBODY else "deny"), why


def _hook_answer(decided: str, why: str) -> JsonObject:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": decided,
            "permissionDecisionReason": why,
        }
    }


def _refuse(why: str) -> int:
    """Say why on standard error. What of an answer could not be written is dropped: it would fail once more
    at the end of the process, which would leave with another code then."""
    from flytui.cli.output import discard, print_error

    discard(sys.stdout)
    print_error(f"flytui hook: nothing is allowed: {why}")
    return BLOCKED
