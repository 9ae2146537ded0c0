"""The short way of the commands that show what is known: `status`, `catalog` and `why`, and of completions of
the names that a kernel knows.

A running kernel is asked over a blocking connection. What it answers is printed by the functions that the
ordinary way uses. Output on a terminal and further options are left to the ordinary command line.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from flytui.cli.direct import OrdinaryWay, Words, open_root, print_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flycore.client.sync_client import SyncClient
    from flycore.model.json import JsonObject
    from flycore.registry.paths import RootPaths
    from flytui.cli.catalog_text import CatalogFields


def show(words: Words) -> int:
    """Run the command and return its exit code. Raises OrdinaryWay."""
    from flycore.client.sync_client import ConnectionEnded, NoDirectKernel

    as_json = "--json" in words.options
    if len(words.operands) != (words.command == "why") or (sys.stdout.isatty() and not as_json):
        raise OrdinaryWay
    places, client = open_root(words, viewer=True, notice=False)
    try:
        if words.command == "status":
            return _status(places, client, as_json)
        # As the ordinary way: the files may have changed a moment ago.
        client.ask("root.refresh", {"probes": words.command == "why" or not as_json})
        if words.command == "catalog":
            return _catalog(client, as_json)
        return _why(client, words.operands[0], as_json)
    except (ConnectionEnded, NoDirectKernel, OSError):
        raise OrdinaryWay from None
    finally:
        client.close()


def complete_names(environ: Mapping[str, str]) -> int:
    """Answer a shell that completes the name of a tool or of a sidecar. Raises OrdinaryWay."""
    from flycore.client.sync_client import ConnectionEnded, NoDirectKernel
    from flytui.cli.command_texts import completable, completion_line, kinds_of_names, read_completion

    wish = read_completion(environ)
    kinds = kinds_of_names(wish) if wish is not None else []
    if wish is None or not kinds:
        raise OrdinaryWay
    _, client = open_root(Words(wish.given[0], (), {}), viewer=True, notice=False)
    try:
        names = client.ask("capability.catalog.get", {"names": kinds})["text"].split("\n")
    except (ConnectionEnded, NoDirectKernel, OSError):
        raise OrdinaryWay from None
    finally:
        client.close()
    chosen = [name for name in names if name.startswith(wish.incomplete) and completable(name)]
    return print_all("\n".join(completion_line(wish.shell, name, "") for name in chosen))


def _status(places: RootPaths, client: SyncClient, as_json: bool) -> int:
    from flycore.client.sync_client import socket_path

    answer = client.ask("gateway.status.get", {})
    # The answer has Flyflor's names as well as the state.
    kernel = {name: value for name, value in answer.items() if name not in ("clientCount", "status")}
    document = {
        "schema": "flytui.status/1",
        "running": True,
        "appRoot": str(places.app_root),
        "socket": socket_path(places),
        "kernel": kernel,
        "waitingTrust": kernel["waitingTrust"],
        "panic": kernel["panic"],
        "heldBy": None,
    }
    return print_status(document, as_json)


def print_status(document: JsonObject, as_json: bool) -> int:
    """Print the document `flytui.status/1`, or its lines, and return the exit code. Raises OrdinaryWay."""
    if as_json:
        import json

        return print_all(json.dumps(document, indent=2))
    from flytui.cli.status_text import status_lines

    return _print_lines("\n".join(status_lines(document)).split("\n"))


def _catalog(client: SyncClient, as_json: bool) -> int:
    if as_json:
        return print_all(client.ask("capability.catalog.get", {"text": True})["text"])
    catalog = client.ask("capability.catalog.get", {"detail": True})["catalog"]
    # The greeting is from before the refresh.
    return print_catalog(catalog, client.ask("gateway.status.get", {})["waitingTrust"])


def print_catalog(catalog: CatalogFields, waiting: int) -> int:
    """Print the table of a catalog and return the exit code. `waiting` is how many entries wait for trust.
    Raises OrdinaryWay."""
    from flysafe.text import safe_text
    from flytui.cli.catalog_text import HEADINGS, catalog_rows, closing_texts, opening_line
    from flytui.cli.output import UNBOUNDED, plain_table, print_error

    first = opening_line(waiting, bool(catalog["sidecars"]))
    rows = [[safe_text(cell) for cell in row] for row in catalog_rows(catalog, everything=False)]
    if not rows:
        raise OrdinaryWay
    lines = [safe_text(first)] if first else []
    code = print_all("\n".join([*lines, *plain_table(HEADINGS, rows, UNBOUNDED)]))
    for text in closing_texts(catalog, everything=False) if code == 0 else ():
        print_error(text)
    return code


def _why(client: SyncClient, tool: str, as_json: bool) -> int:
    try:
        tool.encode("utf-8")
    except UnicodeEncodeError:
        raise OrdinaryWay from None
    catalog = client.ask("capability.catalog.get", {"detail": True, "tool": tool})["catalog"]
    if not catalog["capabilities"]:
        raise OrdinaryWay  # which names similar tools
    changed = [text for sidecar in catalog["sidecars"] for text in sidecar["changed"]]
    return print_why(tool, catalog["capabilities"][0], changed, as_json)


def print_why(tool: str, view: CatalogFields, changed: Sequence[str], as_json: bool) -> int:
    """Print the stability of a tool and return the exit code. `view` is its CapabilityView, and `changed` are
    the differences of its sidecar's entry that wait for trust. Raises OrdinaryWay."""
    stability = view["stability"]
    if as_json:
        import json

        document = {
            "schema": "flytui.why/1",
            "tool": tool,
            "sidecar": view["sidecar"],
            "decision": view["decision"],
            "because": view["because"],
            "stability": stability,
            "changed": list(changed),
            "nearest": [],
        }
        return print_all(json.dumps(document, indent=2))
    import time

    from flysafe.text import safe_text
    from flytui.cli.output import UNBOUNDED
    from flytui.text.ladder import changed_lines, headline, ladder_lines, policy_line
    from flytui.text.lines import text_of

    rows = [headline(tool, stability["effective"]), (), *ladder_lines(stability, time.time(), UNBOUNDED)]
    lines = [text_of(row).rstrip() for row in rows]
    if view["decision"]:
        lines += map(safe_text, policy_line(view["decision"], view["because"]).split("\n"))
    lines += [text_of(row).rstrip() for row in changed_lines(changed, UNBOUNDED)]
    return print_all("\n".join(lines))


def _print_lines(lines: list[str]) -> int:
    """Print lines that are not safe yet, and return the exit code."""
    from flysafe.text import safe_text

    return print_all("\n".join(map(safe_text, lines)))
