"""`flytui approvals`: lists requests that wait for a person, and earlier ones. It cannot decide them."""

from __future__ import annotations

import click

from flycore.model.approval import Ask
from flycore.model.question import Question
from flycore.rpc.methods import Client
from flytui.cli.command_group import SummaryGroup
from flytui.cli.documents import ApprovalsDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_running_kernel
from flytui.cli.output import (
    EXIT_UNKNOWN,
    print_error,
    print_json,
    print_line,
    print_strict,
    print_table,
    terminal_width,
)
from flytui.text.caller import caller_name
from flytui.text.card import card_text, effect_text, render_card
from flytui.text.kernels import clock_time

WIDEST_CARD = 110
HEADINGS = ("ID", "RISK", "STATE", "ASKED", "CALLER", "TOOL", "EFFECT")
NO_KERNEL = "no kernel runs on this root, so no request waits: flytui opens a console"


@click.group(cls=SummaryGroup, invoke_without_command=True)
@common
def approvals(invocation: Invocation) -> int:
    """List requests for approval; you decide them in the console."""
    if click.get_current_context().invoked_subcommand is None:
        return list_requests(invocation)
    return 0


@approvals.command("list")
@common
def list_command(invocation: Invocation) -> int:
    """List waiting requests first, then recent ones."""
    return list_requests(invocation)


@approvals.command("show")
@click.argument("request_id", metavar="ID")
@common
def show(invocation: Invocation, request_id: str) -> int:
    """Show the whole card of one request."""
    asks = _read_requests(invocation)
    found = [ask for ask in asks or () if request_id in (ask.request.id, ask.request.call_id)]
    if invocation.as_json:
        print_json(ApprovalsDocument(running=asks is not None, asks=tuple(found)))
        return 0 if found else EXIT_UNKNOWN
    if not found:
        print_error(
            NO_KERNEL if asks is None else f"no request is named {request_id}: flytui approvals lists them"
        )
        return EXIT_UNKNOWN
    for ask in found:
        print_line(f"{ask.request.id}  {ask.request.risk.value}  {_outcome_text(ask)}")
        for line in render_card(ask.request, min(terminal_width(), WIDEST_CARD), unfolded=True):
            print_line(card_text(line))
    return 0


def list_requests(invocation: Invocation) -> int:
    """Prints the questions and the requests; the exit code is always 0."""
    waiting = _read_waiting(invocation)
    asks, questions = waiting if waiting is not None else (None, ())
    if invocation.as_json:
        print_json(ApprovalsDocument(running=asks is not None, asks=asks or (), questions=questions))
        return 0
    for question in questions:
        print_strict(f"question  {question.title}")
        for line in question.lines:
            print_strict(f"  {line}")
    if asks is None:
        print_line(NO_KERNEL)
    elif not asks:
        print_line("no request for approval")
    else:
        print_table(invocation, HEADINGS, [_row(ask) for ask in asks])
    return 0


def _read_requests(invocation: Invocation) -> tuple[Ask, ...] | None:
    async def question(client: Client) -> tuple[Ask, ...]:
        return await client.asks()

    return ask_running_kernel(invocation.places(), question)


def _read_waiting(invocation: Invocation) -> tuple[tuple[Ask, ...], tuple[Question, ...]] | None:
    async def both(client: Client) -> tuple[tuple[Ask, ...], tuple[Question, ...]]:
        return await client.asks(), await client.questions()

    return ask_running_kernel(invocation.places(), both)


def _row(ask: Ask) -> tuple[str, ...]:
    """A request in the list, its effect as the card says it."""
    request = ask.request
    return (
        request.id,
        request.risk.value,
        ask.state.value,
        clock_time(request.asked_at),
        caller_name(request.caller),
        request.tool,
        effect_text(request),
    )


def _outcome_text(ask: Ask) -> str:
    reason = f": {ask.answer.reason}" if ask.answer and ask.answer.reason else ""
    by = f" by {ask.decided_by}" if ask.decided_by else ""
    return f"{ask.state.value}{by}{reason}"
