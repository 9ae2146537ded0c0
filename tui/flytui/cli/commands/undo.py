"""`flytui undo`: gives the files that a call changed back what they were before it."""

from __future__ import annotations

import click

from flycore.model.call import UndoResult
from flycore.model.errors import FlyError
from flycore.registry.paths import RootPaths
from flycore.rpc.methods import Client
from flytui.cli.documents import UndoDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_kernel
from flytui.cli.output import print_error, print_json, print_line

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
    places = invocation.places()
    try:
        result = _undo(places, call_id, look=check)
    except FlyError as error:
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


def _undo(places: RootPaths, call_id: str, *, look: bool) -> UndoResult:
    async def ask(client: Client) -> UndoResult:
        return await client.undo_call(call_id, look)

    return ask_kernel(places, ask)
