"""`flytui init`: writes a registry for this machine, and shows what works here and what is missing."""

from __future__ import annotations

import os
import shlex

import click
import msgspec

from flycore.model.diagnostics import nearest
from flycore.model.starter import StarterEntry, StarterOffer
from flycore.offline.starter import StarterEdit, plan_starter, starter_names, starter_registry, write_plan
from flycore.registry.paths import REGISTRY_FILE, RootPaths
from flycore.rpc.methods import Client
from flytui.cli.documents import InitDocument, InitSidecar, InitTool
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_kernel
from flytui.cli.output import (
    ask_yes_no,
    can_ask,
    count_of,
    print_difference,
    print_error,
    print_json,
    print_line,
    print_table,
)

EXIT_NOT_ASKED = 4
EXIT_REFUSED = 5
TRUST_NEXT = "flytui trust shows what it would run, and lets you trust it"
_MARKS = {"available": "●", "degraded": "◐", "unavailable": "○", "disabled": "⊘"}


@click.command()
@click.argument("sidecars", nargs=-1, metavar="[SIDECAR]...")
@click.option(
    "--target",
    type=click.Path(exists=True, file_okay=False),
    help="Folder whose registry is written, also inside another project.",
)
@click.option("--print", "only_print", is_flag=True, help="Print the registry, and write nothing.")
@click.option("--apply", is_flag=True, help="Add to an existing registry without asking.")
@common
def init(
    invocation: Invocation, sidecars: tuple[str, ...], target: str | None, only_print: bool, apply: bool
) -> int:
    """Write a registry for this machine, and show what works and what is missing.

    Asks every program that comes with flytui what it finds here. With SIDECAR, the registry gets those alone.
    An existing registry gets the entries that it lacks, once you have seen the difference and said yes.
    Nothing is trusted by it.
    """
    places = invocation.narrowed(
        (target,) if target is not None else (), None, as_json=False, plain=False
    ).places()
    wanted = _checked_names(sidecars, starter_names())
    if only_print:
        text = starter_registry(places, os.environ, wanted)
        if invocation.as_json:
            return _print_document(places, None, "printed", text=text)
        print_line(text.rstrip("\n"))
        return 0
    edit = plan_starter(places, os.environ, wanted)
    if edit.plan.why_not:
        return _print_outcome(invocation, places, edit, "refused", edit.plan.why_not, None)
    offer = _ask_sidecars(places, wanted)
    if not invocation.as_json:
        _print_offer(invocation, offer)
    if not edit.plan.sidecars:
        message = f"{edit.plan.file} has these entries already, and is not changed"
        return _print_outcome(invocation, places, edit, "unchanged", message, offer)
    if edit.data is not None:
        if not invocation.as_json:
            print_difference(edit.plan.difference)
            print_line()
        if not apply and (invocation.as_json or not can_ask()):
            message = "nothing was written: run flytui init on a terminal, or add --apply"
            return _print_outcome(invocation, places, edit, "shown", message, offer)
        if not apply and not ask_yes_no(f"Add {count_of(len(edit.plan.sidecars), 'entry', 'entries')}?"):
            return _print_outcome(invocation, places, edit, "shown", "nothing was written", offer)
    if why_not := write_plan(places, edit):
        return _print_outcome(invocation, places, edit, "refused", why_not, offer)
    outcome = "created" if edit.data is None else "added"
    return _print_outcome(invocation, places, edit, outcome, TRUST_NEXT, offer)


def _checked_names(names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The entries to write, all where none is named. Raises UsageError for a name that is none of them."""
    for name in names:
        if name not in known:
            near = nearest(name, known, count=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise click.UsageError(f"flytui brings no sidecar {name}: {hint}")
    return names or known


def _ask_sidecars(places: RootPaths, wanted: tuple[str, ...]) -> StarterOffer:
    """Ask the bundled sidecars what they find; the offer has the wanted entries alone."""

    async def question(client: Client) -> StarterOffer:
        return await client.starter()

    offer = ask_kernel(places, question)
    entries = tuple(entry for entry in offer.entries if entry.id in wanted)
    return msgspec.structs.replace(offer, entries=entries)


def _print_offer(invocation: Invocation, offer: StarterOffer) -> None:
    """Print each tool with its state here, then every missing thing once, with what to do about it."""
    rows = [
        (f"{_MARKS[tool.state.value]} {tool.state.value}", tool.name, _entry_label(entry), tool.reason)
        for entry in offer.entries
        for tool in entry.tools
    ]
    print_table(invocation, ("STATE", "TOOL", "ENTRY", "WHY"), rows)
    missing: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for entry in offer.entries:
        for tool in entry.tools:
            if tool.remedy:
                missing.setdefault((tool.remedy, tool.command), []).append(tool.name)
    if missing:
        print_line()
        print_line("What is missing, and what brings it:")
    for (remedy, command), tools in missing.items():
        print_line(f"  {', '.join(tools)}")
        print_line(f"    $ {shlex.join(command)}" if command else f"    {remedy}")
    print_line()


def _entry_label(entry: StarterEntry) -> str:
    return f"{entry.id} (there already)" if entry.present else entry.id


def _print_outcome(
    invocation: Invocation,
    places: RootPaths,
    edit: StarterEdit,
    outcome: str,
    message: str,
    offer: StarterOffer | None,
) -> int:
    """Print how the command ended, and return its exit code."""
    if invocation.as_json:
        return _print_document(places, edit, outcome, message=message, offer=offer)
    if outcome in ("created", "added"):
        number = count_of(len(edit.plan.sidecars), "entry", "entries")
        done = "is written with" if outcome == "created" else "has now"
        more = "" if outcome == "created" else " more"
        print_line(f"{edit.plan.file} below {places.app_root} {done} {number}{more}")
    print_error(message)
    return _exit_code(outcome)


def _exit_code(outcome: str) -> int:
    return {"refused": EXIT_REFUSED, "shown": EXIT_NOT_ASKED}.get(outcome, 0)


def _print_document(
    places: RootPaths,
    edit: StarterEdit | None,
    outcome: str,
    *,
    text: str = "",
    message: str = "",
    offer: StarterOffer | None = None,
) -> int:
    plan = edit.plan if edit is not None else None
    print_json(
        InitDocument(
            app_root=str(places.app_root),
            file=plan.file if plan is not None else REGISTRY_FILE,
            outcome=outcome,
            text=text,
            message=message,
            written=plan.sidecars if plan is not None else (),
            difference=plan.difference if plan is not None else (),
            sidecars=tuple(
                InitSidecar(
                    id=entry.id,
                    present=entry.present,
                    tools=tuple(
                        InitTool(
                            name=tool.name,
                            state=tool.state.value,
                            reason=tool.reason,
                            remedy=tool.remedy,
                            command=tool.command,
                        )
                        for tool in entry.tools
                    ),
                )
                for entry in (offer.entries if offer is not None else ())
            ),
        )
    )
    return _exit_code(outcome)
