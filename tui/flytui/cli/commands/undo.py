"""`flytui undo`: gives the files that a call changed back what they were before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import print_error, print_json, print_line

if TYPE_CHECKING:
    from flycore.client.remote import RemoteClient
    from flycore.model.call import UndoResult
    from flycore.registry.paths import RootPaths

EXIT_REFUSED = 4


@click.command()
@click.argument("call_id", metavar="CALL")
@click.option("--check", is_flag=True, help="Only say what would be undone; change nothing.")
@common
def undo(invocation: Invocation, call_id: str, check: bool) -> int:
    """Undo what CALL changed in the files of the project.

    Files get back their bytes, mode and time, and new files are removed. It is refused where a file is not
    what the call left. Changes are kept for seven days. The first or last six
    characters of the id are enough; flytui activity shows the ids of calls.
    """
    from flycore.model.errors import AuditUnwritable, RootBusy
    from flytui.cli.documents import UndoDocument

    places = invocation.places()
    try:
        result = _look(places, call_id) if check else _undo(places, call_id)
    except (AuditUnwritable, RootBusy) as error:
        print_error(f"nothing was undone: {error}")
        return EXIT_REFUSED
    done = "possible" if check else "undone"
    outcome = done if result.accepted else "refused"
    if invocation.as_json:
        print_json(UndoDocument(call_id=call_id, outcome=outcome, files=result.files, message=result.why_not))
    elif result.accepted:
        words = "can get back what it was" if check else "is what it was before"
        for file in result.files:
            print_line(f"{file} {words}")
        if not result.files:
            print_line("every file is what it was before already")
    else:
        print_error(f"not undone: {result.why_not}")
    return 0 if result.accepted else EXIT_REFUSED


def _undo(places: RootPaths, call_id: str) -> UndoResult:
    """Undo through the kernel that runs, or without one in the files. Raises AuditUnwritable, and RootBusy
    where a kernel holds the root and does not answer."""
    from flycore.model.enums import KernelRole
    from flycore.offline.undo import undo_change
    from flytui.cli.kernel_query import hold_root, query_kernel

    async def ask(client: RemoteClient) -> UndoResult:
        return await client.undo_call(call_id, False)

    result = query_kernel(places, ask)
    if result is not None:
        return result
    with hold_root(places, KernelRole.UNDO) as root:
        return undo_change(root, call_id)


def _look(places: RootPaths, call_id: str) -> UndoResult:
    from flycore.offline.undo import look_at_change

    return look_at_change(places, call_id)
