"""Imports an MCP server from another client's file into the registry, from the command line.

The entry is shown in full, and a person has to answer yes on the terminal. No option and no variable answers.
"""

from __future__ import annotations

from flycore.model.described import Described, Import, SourceKind
from flycore.registry.paths import RootPaths
from flytui.cli.documents import ImportDocument
from flytui.cli.invocation import Invocation
from flytui.cli.kernel_query import console_has_root, decide, read_catalog, read_status
from flytui.cli.output import (
    EXIT_UNKNOWN,
    ask_yes_no,
    can_ask,
    print_error,
    print_json,
    print_line,
    print_strict,
)

EXIT_REFUSED = 5
EXIT_NOT_ASKED = 4


def import_server(invocation: Invocation, name: str, *, only_print: bool) -> int:
    """Import the server of that name, or only show it.

    The exit code is 0 when it was written or shown, 3 for an unknown server, 4 where nobody answered yes, and
    5 where it cannot be imported.
    """
    places = invocation.places()
    found = [item for item in read_catalog(places, probes=False).described if _matches_name(item, name)]
    item = next((one for one in found if one.offer is not None), found[0] if found else None)
    if item is None:
        message = f"no file names an MCP server {name}: flytui catalog --all lists them"
        return _print_outcome(invocation, places, name, None, "unknown", message, EXIT_UNKNOWN)
    if item.offer is None:
        why = "; ".join(f"{one.message} → {one.remedy}" for one in item.reasons) or "it cannot be imported"
        return _print_outcome(invocation, places, name, item, "refused", why, EXIT_REFUSED)
    if not invocation.as_json:
        # Textual, for which every command would wait.
        from flytui.console.screens.sources import import_texts

        for text in import_texts(item, item.offer):
            print_strict(text)
    if only_print:
        return _print_outcome(invocation, places, name, item, "shown", "", 0)
    if invocation.as_json or not can_ask():
        message = "not imported: run flytui tools import on a terminal, or press m in the console"
        return _print_outcome(invocation, places, name, item, "shown", message, EXIT_NOT_ASKED)
    if busy := console_has_root(read_status(places)):
        message = f"{busy}: press m there, or close it first"
        return _print_outcome(invocation, places, item.id, item, "refused", message, EXIT_NOT_ASKED)
    if not ask_yes_no("Write this, and trust it?"):
        print_error("not imported; nothing was written")
        return EXIT_NOT_ASKED
    return _write(invocation, places, item, item.offer)


def _matches_name(item: Described, name: str) -> bool:
    return item.kind is SourceKind.MCP_SERVER and name in (item.id, item.key)


def _write(invocation: Invocation, places: RootPaths, item: Described, shown: Import) -> int:
    """Write the entry that was shown. It is refused if the other client's file has changed meanwhile."""
    outcome = decide(places, lambda approver: approver.import_server(item.path, item.id, shown.digest))
    if not outcome.accepted:
        message = f"not imported: {outcome.why_not}"
        return _print_outcome(invocation, places, item.id, item, "refused", message, EXIT_REFUSED)
    message = f"{shown.id} is in the registry, and trusted as you read it"
    return _print_outcome(invocation, places, item.id, item, "imported", message, 0)


def _print_outcome(
    invocation: Invocation,
    places: RootPaths,
    name: str,
    item: Described | None,
    outcome: str,
    message: str,
    code: int,
) -> int:
    if invocation.as_json:
        print_json(
            ImportDocument(
                app_root=str(places.app_root),
                name=name,
                file=item.path if item else "",
                offer=item.offer if item else None,
                outcome=outcome,
                message=message,
            )
        )
    elif message:
        (print_line if code == 0 else print_error)(message)
    return code
