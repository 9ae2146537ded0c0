"""`flytui packages`: stages, reviews, applies, rolls back, removes and verifies packages of sidecars."""

from __future__ import annotations

from pathlib import Path

import anyio
import click
import msgspec

from flycore.client.client import connect_root
from flycore.model.enums import PackageAction, PackageResult, PackageScope, UpgradeState
from flycore.model.errors import ConnectionLost, KernelUnreachable
from flycore.model.package import PackageCheck, PackageOutcome, PackageView
from flycore.model.status import Status
from flycore.offline.packages import discard, review_lines
from flycore.offline.packages import stage as stage_now
from flycore.registry.paths import RootPaths
from flycore.rpc.methods import Client
from flytui.cli.command_group import SummaryGroup
from flytui.cli.documents import PackagesDocument
from flytui.cli.interrupts import run_async
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_kernel, decide, read_status
from flytui.cli.output import (
    EXIT_UNKNOWN,
    ask_yes_no,
    can_ask,
    print_error,
    print_json,
    print_line,
    print_strict,
    print_table,
)

EXIT_UNWELL = 1
EXIT_NOT_AGREED = 4
EXIT_FAILED = 5
PROBED_S = 30.0
"""Seconds that the command waits for the first probe of a version that a person applied in the console."""
_user = click.option(
    "--user", "of_user", is_flag=True, help="The packages of the user, which every project has."
)


@click.group(cls=SummaryGroup, invoke_without_command=True)
@common
def packages(invocation: Invocation) -> int:
    """Install, upgrade, roll back and remove packages of sidecars."""
    if click.get_current_context().invoked_subcommand is None:
        return _list(invocation)
    return 0


@packages.command("list")
@common
def list_command(invocation: Invocation) -> int:
    """List the packages of the project and of the user: version, state, and what to do next.

    A change that a kill or a loss of power cut off is finished or undone first.
    """
    return _list(invocation)


def _list(invocation: Invocation) -> int:
    places = invocation.places()
    found = _read_packages(places)
    if invocation.as_json:
        return _print_document(places, found)
    if not found:
        print_error("no package is installed or staged: flytui packages stage PATH stages one")
        return 0
    rows = [
        (
            view.id,
            view.scope.value,
            view.version or "-",
            view.state.value,
            view.staged or "-",
            view.previous or "-",
            _remark(view),
        )
        for view in found
    ]
    print_table(invocation, ("PACKAGE", "SCOPE", "VERSION", "STATE", "STAGED", "PREVIOUS", "REMARK"), rows)
    return 0


def _remark(view: PackageView) -> str:
    parts = [view.why] if view.why else []
    parts += ["not probed yet: flytui trust"] if not view.probed and view.version and not view.why else []
    parts += [f"next: {view.next_step}"] if view.next_step else []
    return "; ".join(parts)


@packages.command("stage")
@click.argument("source", metavar="PATH", type=click.Path(exists=True))
@_user
@common
def stage(invocation: Invocation, source: str, of_user: bool) -> int:
    """Check and unpack the package in PATH, a folder or an archive (.zip, .tar, .tar.gz).

    What runs does not change: flytui packages apply does that, after it has shown what changes. The checksum,
    the command, the versions and the tools are checked, and no program of the package is started.
    """
    places, scope = invocation.places(), _scope(of_user)
    outcome = stage_now(places, Path(source).absolute(), scope)
    if not outcome.changed:
        return _print_outcome(invocation, places, outcome, EXIT_FAILED)
    option = " --user" if of_user else ""
    outcome = msgspec.structs.replace(outcome, next_step=f"flytui packages apply {outcome.id}{option}")
    if not invocation.as_json:
        view = _view(places, outcome.id, scope)
        if view is not None:
            _print_review(view)
    return _print_outcome(invocation, places, outcome, 0)


@packages.command("review")
@click.argument("package", metavar="ID")
@_user
@common
def review(invocation: Invocation, package: str, of_user: bool) -> int:
    """Show what the staged version of the package ID would change."""
    places = invocation.places()
    view = _view(places, package, _scope(of_user))
    if view is None or view.review is None:
        return _print_unknown(invocation, places, package, "nothing of it is staged")
    if invocation.as_json:
        return _print_document(places, (view,))
    _print_review(view)
    if view.review.needs_person:
        print_error("permissions or risks change: a person has to agree before it is applied")
    return 0


@packages.command("apply")
@click.argument("package", metavar="ID")
@_user
@common
def apply(invocation: Invocation, package: str, of_user: bool) -> int:
    """Install the staged version of the package ID in the place of the present one, which is kept.

    The review is shown first. If a console or flytui serve has the root, a person answers in a console. Else
    you are asked here, and your yes trusts the entry as well. Without a terminal only a version is applied
    that changes neither permissions nor risks, and its entry then waits for trust. A version that does not
    answer its probe has to be rolled back, and agents do not see it.
    """
    places, scope = invocation.places(), _scope(of_user)
    view = _view(places, package, scope)
    if view is None or view.review is None:
        return _print_unknown(invocation, places, package, "nothing of it is staged")
    if not invocation.as_json:
        _print_review(view)
    needs = view.review.needs_person
    question = f"Apply {package} {view.staged}, and trust its entry as shown?"
    return _decide(invocation, places, view, PackageAction.APPLY, question, needs_person=needs)


@packages.command("rollback")
@click.argument("package", metavar="ID")
@_user
@common
def rollback(invocation: Invocation, package: str, of_user: bool) -> int:
    """Go back to the previous version of the package ID, with its entry in the registry.

    The version that is left is removed. If a console or flytui serve has the root, a person answers in a
    console.
    """
    places, scope = invocation.places(), _scope(of_user)
    view = _view(places, package, scope)
    if view is None:
        return _print_unknown(invocation, places, package, "there is no such package")
    question = f"Roll back {package} {view.version} to {view.previous or 'what was there before'}?"
    return _decide(invocation, places, view, PackageAction.ROLLBACK, question)


@packages.command("remove")
@click.argument("package", metavar="ID")
@click.option("--staged", is_flag=True, help="Only discard the staged version.")
@_user
@common
def remove(invocation: Invocation, package: str, staged: bool, of_user: bool) -> int:
    """Remove the package ID with its entry, and everything that is staged and kept of it.

    If a console or flytui serve has the root, a person answers in a console.
    """
    places, scope = invocation.places(), _scope(of_user)
    view = _view(places, package, scope)
    if view is None:
        return _print_unknown(invocation, places, package, "there is no such package")
    if staged or not view.version:
        outcome = discard(places, package, scope)
        return _print_outcome(invocation, places, outcome, 0 if outcome.changed else EXIT_FAILED)
    return _decide(invocation, places, view, PackageAction.REMOVE, f"Remove {package} {view.version}?")


@packages.command("verify")
@common
def verify(invocation: Invocation) -> int:
    """Compare the files of each installed package with those that were installed."""

    async def question(client: Client) -> tuple[tuple[PackageView, ...], tuple[PackageCheck, ...]]:
        return await client.packages(), await client.verify_packages()

    places = invocation.places()
    views, checks = ask_kernel(places, question)
    wrong = any(check.problems for check in checks)
    if invocation.as_json:
        _print_document(places, views, checks=checks)
        return EXIT_UNWELL if wrong else 0
    for check in checks:
        print_line(f"{check.id} {check.version}: {'; '.join(check.problems) or 'whole'}")
    if not checks:
        print_error("no package is installed")
    return EXIT_UNWELL if wrong else 0


def _decide(
    invocation: Invocation,
    places: RootPaths,
    view: PackageView,
    action: PackageAction,
    question: str,
    *,
    needs_person: bool = False,
) -> int:
    """Have a change decided where that is possible, and carry it out. Return the exit code."""
    kernel = read_status(places)
    if not kernel.on_demand:
        return _ask_in_console(invocation, places, view, action, kernel)
    agreed = False
    if not invocation.as_json and can_ask():
        agreed = ask_yes_no(question)
        if not agreed:
            return _print_refusal(invocation, places, view, "not changed: you did not agree")
    elif needs_person:
        why = "permissions or risks change, and nobody is here to agree: run it on a terminal"
        return _print_refusal(invocation, places, view, f"not changed: {why}")
    return _carry_out(invocation, places, view, action, agreed=agreed)


def _carry_out(
    invocation: Invocation, places: RootPaths, view: PackageView, action: PackageAction, *, agreed: bool
) -> int:
    shown = view.review.digest if view.review is not None else ""
    done = decide(
        places, lambda approver: approver.change_package(action, view.id, view.scope, shown, agreed)
    )
    after = _view(places, view.id, view.scope)
    outcome = PackageOutcome(
        id=view.id,
        sidecar=view.sidecar,
        scope=view.scope,
        result=PackageResult.COMMITTED if done.accepted else PackageResult.FAILED,
        state=UpgradeState.IDLE if after is None else after.state,
        message=done.why_not,
    )
    if after is not None and after.next_step:
        outcome = msgspec.structs.replace(outcome, next_step=after.next_step)
    elif after is not None and outcome.changed and not after.probed and not agreed:
        outcome = msgspec.structs.replace(outcome, next_step="flytui trust")
    code = 0 if outcome.changed else EXIT_FAILED
    if outcome.state is UpgradeState.ROLLBACK_REQUIRED or (outcome.changed and outcome.message):
        code = EXIT_UNWELL
    return _print_outcome(invocation, places, outcome, code)


def _ask_in_console(
    invocation: Invocation, places: RootPaths, view: PackageView, action: PackageAction, kernel: Status
) -> int:
    """Put the change before a person in the kernel's console, and wait for the answer."""
    if not kernel.approver:
        message = f"no console is open that could decide this: open one (flytui) beside pid {kernel.pid}"
        return _print_refusal(invocation, places, view, f"not changed: {message}")

    kinds = ("staged",) if action is PackageAction.APPLY else ("broken", action.value)
    asks = tuple(f"package:{view.scope.value}:{view.id}:{kind}:" for kind in kinds)

    async def wait() -> str:
        # Subscribed before the question is put, so that an answer in between is not missed.
        async with connect_root(places, viewer=True) as client, client.events() as events:
            asked = await client.ask_package(action, view.id, view.scope)
            if not asked.accepted:
                return asked.why_not
            print_error(f"answer this in the console, pid {kernel.pid}. Waiting…")
            while await _under_way(client, view, asks):
                await anext(events, None)
            with anyio.move_on_after(PROBED_S):
                while await _unprobed(client, view):
                    await anext(events, None)
        return ""

    try:
        refused = run_async(wait)
    except (ConnectionLost, KernelUnreachable):
        refused = "the console was closed before it was answered"
    if refused:
        return _print_refusal(invocation, places, view, f"not changed: {refused}")
    after = _view(places, view.id, view.scope)
    changed = after is None or (after.version, after.staged) != (view.version, view.staged)
    if not changed:
        return _print_refusal(invocation, places, view, "not changed: answered in the console")
    state = "is removed" if after is None else f"{after.version or '-'}, {after.state.value}"
    message = f"{view.id}: {state}"
    if invocation.as_json:
        return _print_document(places, () if after is None else (after,), message=message)
    print_line(message)
    broken = after is not None and after.state is UpgradeState.ROLLBACK_REQUIRED
    return EXIT_UNWELL if broken else 0


async def _same(client: Client, view: PackageView) -> PackageView | None:
    """The package as the kernel has it now; None where there is none any more."""
    found = (other for other in await client.packages() if (other.id, other.scope) == (view.id, view.scope))
    return next(found, None)


async def _under_way(client: Client, view: PackageView, asks: tuple[str, ...]) -> bool:
    """Whether the change is still before a person, or is being made."""
    if any(question.id.startswith(asks) for question in await client.questions()):
        return True
    now = await _same(client, view)
    return now is not None and now.state is UpgradeState.APPLYING


async def _unprobed(client: Client, view: PackageView) -> bool:
    """Whether the version that was applied has not been asked yet."""
    now = await _same(client, view)
    return now is not None and bool(now.version) and not now.probed and not now.why


def _scope(of_user: bool) -> PackageScope:
    return PackageScope.USER if of_user else PackageScope.PROJECT


def _read_packages(places: RootPaths) -> tuple[PackageView, ...]:
    async def question(client: Client) -> tuple[PackageView, ...]:
        return await client.packages()

    return ask_kernel(places, question)


def _view(places: RootPaths, package: str, scope: PackageScope) -> PackageView | None:
    found = _read_packages(places)
    return next((view for view in found if (view.id, view.scope) == (package, scope)), None)


def _print_review(view: PackageView) -> None:
    """Print what a staged version would change; look-alike letters are shown as tokens."""
    if view.review is None:
        return
    print_strict(f"{view.id} ({view.scope.value})")
    for line in review_lines(view.review):
        print_strict(f"  {line}", indented=True)


def _print_outcome(invocation: Invocation, places: RootPaths, outcome: PackageOutcome, code: int) -> int:
    if invocation.as_json:
        _print_document(places, _read_packages(places), outcome=outcome)
        return code
    said = f"{outcome.id}: {outcome.result.value}, {outcome.state.value}"
    said = said if outcome.changed else f"{outcome.id}: {outcome.result.value}, nothing changed"
    said += f": {outcome.message}" if outcome.message else ""
    print_error(said) if code else print_line(said)
    if outcome.next_step:
        print_error(f"next: {outcome.next_step}")
    return code


def _print_refusal(invocation: Invocation, places: RootPaths, view: PackageView, message: str) -> int:
    if invocation.as_json:
        _print_document(places, (view,), message=message)
    print_error(message)
    return EXIT_NOT_AGREED


def _print_unknown(invocation: Invocation, places: RootPaths, package: str, why: str) -> int:
    message = f"{package}: {why}: flytui packages list shows what there is"
    if invocation.as_json:
        _print_document(places, (), message=message)
    print_error(message)
    return EXIT_UNKNOWN


def _print_document(
    places: RootPaths,
    found: tuple[PackageView, ...],
    *,
    outcome: PackageOutcome | None = None,
    checks: tuple[PackageCheck, ...] = (),
    message: str = "",
) -> int:
    document = PackagesDocument(
        app_root=str(places.app_root), packages=found, outcome=outcome, checks=checks, message=message
    )
    print_json(document)
    return 0
