"""`flytui panic`: stops everything on a root, also if its kernel does not answer. A person releases it."""

from __future__ import annotations

import click

from flycore.model.enums import RequestState
from flycore.model.errors import FlyError, KernelFailed, RootBusy, StateUnwritable
from flycore.model.question import PANIC_QUESTION, Question
from flycore.model.status import Status
from flycore.registry.paths import RootPaths
from flycore.rpc.methods import Client
from flytui.cli.documents import EndedCall, PanicDocument
from flytui.cli.interrupts import run_async
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_kernel, console_has_root, decide
from flytui.cli.output import ask_yes_no, can_ask, count_of, print_error, print_json, print_line
from flytui.text.kernels import kernel_name

EXIT_NOT_RELEASED = 4
EXIT_NOT_SURE = 7
IN_THE_CONSOLE = "release it in the console: ctrl+o"
IN_A_CONSOLE = "release it in a console attached to flytui serve: flytui, then ctrl+o"
AT_A_TERMINAL = "release it in a console (flytui, then ctrl+o), or on a terminal with flytui panic --release"


@click.command()
@click.option(
    "--release", is_flag=True, help="Accept calls again; asks on the terminal if no console is open."
)
@common
def panic(invocation: Invocation, release: bool) -> int:
    """Stop everything until a person releases it.

    Running calls and leases end, waiting requests are denied, and no new call is accepted.
    """
    places = invocation.places()
    return _release(invocation, places) if release else _print_stop(invocation, places)


def _print_stop(invocation: Invocation, places: RootPaths) -> int:
    document, code = _stop_root(places)
    if invocation.as_json:
        print_json(document)
        return code
    if not document.stopped:
        print_error(document.message)
        return code
    if document.already:
        print_line("everything was stopped already")
    elif document.ended_pid is not None:
        print_line(f"everything is stopped: the kernel, pid {document.ended_pid}, was ended")
    else:
        calls, requests = count_of(len(document.calls), "call"), count_of(document.requests, "request")
        ended = f"{calls} ended, {requests} refused, {count_of(document.leases, 'lease')} ended"
        print_line(
            f"everything is stopped: {ended}" if document.kernel else "everything is stopped: no kernel ran"
        )
    for call in document.calls:
        print_line(f"  ended  {call.tool}  {call.call_id}  by {call.caller}")
    print_error(document.message)
    return code


def _stop_root(places: RootPaths) -> tuple[PanicDocument, int]:
    """Stops through the kernel; if none can answer, in the file that the next kernel reads. Returns the exit
    code."""
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.client.unanswering_kernel import living_holder

    try:
        return ask_kernel(places, _stop_running_kernel), 0
    except StateUnwritable:
        raise
    except KernelFailed as failed:
        return _stop_next_kernel(places, str(failed)), 0
    except FlyError as error:
        holder = living_holder(places)
        if holder is None:
            return _stop_next_kernel(places, str(error)), 0
        return _end_unanswering(places, RootBusy(holder.pid, holder.since, holder.role, holder.on_demand))


async def _stop_running_kernel(client: Client) -> PanicDocument:
    """Stops everything through the running kernel, and returns what there was to stop."""
    calls = [call for call in await client.activity() if call.result is None]
    requests = sum(ask.state is RequestState.WAITING for ask in await client.asks())
    leases, status = len(await client.leases()), await client.status()
    first = await client.panic()
    return PanicDocument(
        app_root=status.app_root,
        kernel=True,
        already=not first,
        calls=tuple(EndedCall(call_id=it.call_id, tool=it.tool, caller=str(it.caller)) for it in calls),
        requests=requests,
        leases=leases,
        message=_release_place(status),
    )


def _release_place(kernel: Status) -> str:
    """Returns where a person can release a stop of this kernel."""
    if kernel.on_demand:
        return AT_A_TERMINAL
    return IN_THE_CONSOLE if kernel.role == "console" else IN_A_CONSOLE


def _stop_next_kernel(places: RootPaths, why: str) -> PanicDocument:
    """Stops every kernel that starts later, because none can run now."""
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.client.unanswering_kernel import stop_next_kernel

    stop_next_kernel(places)
    print_error(f"everything is stopped, but no kernel could log it: {why}")
    return PanicDocument(app_root=str(places.app_root), kernel=False, already=False, message=AT_A_TERMINAL)


def _end_unanswering(places: RootPaths, busy: RootBusy) -> tuple[PanicDocument, int]:
    """Ends a process that holds the root and does not answer. Returns the exit code as well."""
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.client.unanswering_kernel import end_kernel

    ended = run_async(lambda: end_kernel(places))
    holder = f"pid {busy.pid} ({kernel_name(busy.role, busy.on_demand)}) held this root and did not answer"
    if ended:
        message = f"{holder}: it was ended with what it ran. {AT_A_TERMINAL}"
        document = PanicDocument(
            app_root=str(places.app_root), kernel=False, already=False, ended_pid=busy.pid, message=message
        )
        return document, 0
    message = (
        f"{holder}, and could not be ended: what it runs was not stopped. "
        f"End it: kill -9 {busy.pid}. The next kernel starts stopped."
    )
    document = PanicDocument(
        app_root=str(places.app_root), kernel=False, already=False, stopped=False, message=message
    )
    return document, EXIT_NOT_SURE


def _release(invocation: Invocation, places: RootPaths) -> int:
    async def read(client: Client) -> tuple[Question | None, Status]:
        found = (question for question in await client.questions() if question.id == PANIC_QUESTION)
        return next(found, None), await client.status()

    question, kernel = ask_kernel(places, read)
    if question is None:
        return _not_released("nothing is stopped here", 0)
    if console_has_root(kernel):
        return _not_released(_release_place(kernel))
    if invocation.as_json or not can_ask():
        return _not_released("not released: this has to be confirmed on a terminal, or in the console")
    for line in (question.title, *question.lines):
        print_line(line)
    if not ask_yes_no("Release it, so that calls run again?"):
        return _not_released("not released; everything stays stopped")
    release = next(option.id for option in question.options if option.recommended)
    outcome = decide(places, lambda approver: approver.answer(question.id, release))
    if not outcome.accepted:
        return _not_released(f"not released: {outcome.why_not}")
    print_error("released: calls run again")
    return 0


def _not_released(why: str, code: int = EXIT_NOT_RELEASED) -> int:
    print_error(why)
    return code
