"""`flytui catalog`: lists every tool with its state, and what to do if it does not work."""

from __future__ import annotations

from typing import NamedTuple

import click
import msgspec

from flycore.catalog.document import catalog_document
from flycore.model.approval import Lease
from flycore.model.catalog import Catalog
from flycore.rpc.methods import Client
from flytui.cli.catalog_text import HEADINGS, catalog_rows, closing_texts, opening_line
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_kernel
from flytui.cli.output import print_error, print_json, print_line, print_table
from flytui.text.filter_query import Query, listed_described, listed_sidecar, listed_tool, parse_query


@click.command()
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also every further reason, and kits, skills, plugins and other clients' servers.",
)
@click.option(
    "--filter",
    "words",
    multiple=True,
    metavar="QUERY",
    help="The console's filter: words, state: risk: sidecar: policy: source:, and ! for the opposite.",
)
@common
def catalog(invocation: Invocation, everything: bool, words: tuple[str, ...]) -> int:
    """List every tool with its state, the reason, and what to do."""
    return show_catalog(invocation, words=words, everything=everything)


def show_catalog(invocation: Invocation, *, words: tuple[str, ...], everything: bool) -> int:
    """Prints the catalog; the exit code is always 0. Raises UsageError for a filter that cannot be used."""
    query = _read_query(words)
    places = invocation.places()
    read = ask_kernel(places, _read, probes=not invocation.as_json)
    found = read.catalog
    shown = matching(found, query, frozenset(lease.tool for lease in read.leases))
    if invocation.as_json:
        print_json(catalog_document(shown))
        return 0
    if first := opening_line(read.waiting_trust, bool(found.sidecars)):
        print_line(first)
    rows = list(catalog_rows(shown, everything=everything))
    if rows:
        print_table(invocation, HEADINGS, rows)
    else:
        print_error("nothing matches that filter")
    if everything:
        _print_described(invocation, shown)
    for text in closing_texts(shown, everything=everything):
        print_error(text)
    return 0


class _Read(NamedTuple):
    """What a kernel says of its tools."""

    catalog: Catalog
    leases: tuple[Lease, ...]
    waiting_trust: int


async def _read(client: Client) -> _Read:
    return _Read(await client.catalog(), await client.leases(), (await client.status()).waiting_trust)


def _print_described(invocation: Invocation, shown: Catalog) -> None:
    """Prints the kits, skills, plugins and servers that flytui reads and never runs."""
    # Textual, for which every command would wait.
    from flytui.console.screens.sources import COLUMN_TITLES, one_line_summary

    if not shown.described:
        return
    print_line()
    rows = [
        (item.state.value, item.kind.value, item.id, item.source.value, one_line_summary(item))
        for item in shown.described
    ]
    print_table(invocation, COLUMN_TITLES, rows)


def matching(catalog: Catalog, query: Query, leased: frozenset[str]) -> Catalog:
    """The catalog with only the tools that match, the sidecars that offer one of them, those that offer
    none and match themselves, and what is described and matches. `leased` are tools that a lease
    holds for."""
    if not query.terms:
        return catalog
    changed = {view.id for view in catalog.sidecars if view.changed}
    offering = {view.sidecar for view in catalog.capabilities}
    alone = [view for view in catalog.sidecars if view.id not in offering]
    items = [
        listed_tool(view, changed=view.sidecar in changed, leased=view.capability.name in leased)
        for view in catalog.capabilities
    ]
    items += [listed_sidecar(view, changed=view.id in changed) for view in alone]
    chosen = query.matching_indices(items)
    tools = tuple(catalog.capabilities[at] for at in chosen if at < len(catalog.capabilities))
    kept = {view.sidecar for view in tools}
    kept |= {alone[at - len(catalog.capabilities)].id for at in chosen if at >= len(catalog.capabilities)}
    sidecars = tuple(view for view in catalog.sidecars if view.id in kept)
    described = query.matching_indices([listed_described(item) for item in catalog.described])
    return msgspec.structs.replace(
        catalog,
        capabilities=tools,
        sidecars=sidecars,
        described=tuple(catalog.described[at] for at in described),
    )


def _read_query(words: tuple[str, ...]) -> Query:
    """Returns the filters as one query that needs all of them. Raises UsageError for an unknown key or
    value."""
    query = parse_query(" ".join(words))
    if query.problems:
        raise click.UsageError("--filter: " + "; ".join(query.problems))
    return query
