"""The short way of `status`, `catalog` and `why` where no kernel runs: the files of the root are read.

It spares the imports of the ordinary command line, which take a fifth of the time of these commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from flycore.model.errors import FlyError
from flysafe.process_memory import gc_paused
from flytui.cli.direct import OrdinaryWay, Words, print_all
from flytui.cli.direct_reads import print_catalog, print_status, print_why

if TYPE_CHECKING:
    from flycore.model.json import JsonObject
    from flycore.registry.paths import RootPaths


def show_alone(words: Words, places: RootPaths) -> int:
    """Run the command and return its exit code. Raises OrdinaryWay before anything is printed, also for what
    cannot be read: the ordinary way reads it again and says what is wrong."""
    as_json = "--json" in words.options
    try:
        with gc_paused():  # for a twelfth of the time, since nearly all of it is imports
            return (
                _status(places, as_json) if words.command == "status" else _show_tools(words, places, as_json)
            )
    except (FlyError, OSError):
        raise OrdinaryWay from None


def _status(places: RootPaths, as_json: bool) -> int:
    from flycore.offline.status import read_status

    alone = read_status(places)
    document: JsonObject = {
        "schema": "flytui.status/1",
        "running": False,
        "appRoot": str(places.app_root),
        "socket": str(places.socket),
        "kernel": None,
        "waitingTrust": alone.waiting_trust,
        "panic": alone.panic,
        "heldBy": alone.held_by,
    }
    return print_status(document, as_json)


def _show_tools(words: Words, places: RootPaths, as_json: bool) -> int:
    from flycore.offline.catalog import known_catalog, read_root

    root = read_root(places)
    if words.command == "catalog" and as_json:
        from flycore.catalog.document import catalog_document
        from flycore.model.json import indented_json

        return print_all(indented_json(msgspec.to_builtins(catalog_document(known_catalog(root)))))
    if not root.asks_nobody():
        raise OrdinaryWay
    catalog = known_catalog(root)
    if words.command == "catalog":
        return print_catalog(msgspec.to_builtins(catalog), root.waiting_trust)
    view = catalog.capability(words.operands[0])
    if view is None:
        raise OrdinaryWay  # which names similar tools
    sidecar = catalog.sidecar(view.sidecar or "")
    changed = sidecar.changed if sidecar is not None else ()
    return print_why(view.capability.name, msgspec.to_builtins(view), changed, as_json)
