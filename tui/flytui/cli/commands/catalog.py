"""`flytui catalog`: lists every tool with its state, and what to do if it does not work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import query_kernel, read_catalog
from flytui.cli.output import print_error, print_json, print_line, print_table

if TYPE_CHECKING:
    from flycore.model.approval import Lease
    from flycore.model.catalog import CapabilityView, Catalog, SidecarView
    from flycore.model.stability import Reason, Stability
    from flycore.registry.paths import RootPaths
    from flycore.rpc.methods import Client
    from flytui.text.filter_query import Query

HEADINGS = ("STATE", "TOOL", "SIDECAR", "RISK", "POLICY", "WHY / FIX")


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
    found = read_catalog(places, probe=not invocation.as_json)
    shown = matching(found, query, _leased_tools(places, query)) if query.terms else found
    if invocation.as_json:
        from flycore.catalog.document import catalog_document

        print_json(catalog_document(shown))
        return 0
    from flycore.offline.trust import read_pending_trust

    waiting = len(read_pending_trust(places).items)
    if waiting:
        entries = "1 entry waits" if waiting == 1 else f"{waiting} entries wait"
        print_line(f"{entries} for trust: flytui trust shows what they would run")
    elif not found.sidecars:
        print_line("This folder has no registry: flytui init writes a first one")
    rows = list(catalog_rows(shown, everything=everything))
    if rows:
        print_table(invocation, HEADINGS, rows)
    else:
        print_error("nothing matches that filter")
    _print_described(invocation, shown, everything=everything)
    for finding in shown.diagnostics:
        where = f"{finding.position}: " if finding.position else ""
        print_error(f"{finding.severity.value}: {where}{finding.message}")
        if finding.excerpt:
            print_error(finding.excerpt)
        if finding.remedy:
            print_error(f"  → {finding.remedy}")
    return 0


def _print_described(invocation: Invocation, shown: Catalog, *, everything: bool) -> None:
    """Prints the kits, skills, plugins and servers that flytui reads and never runs, or only how many
    there are."""
    from flytui.console.screens.sources import COLUMN_TITLES, counts_by_kind, one_line_summary

    if not shown.described:
        return
    if not everything:
        print_error(
            f"also read, never run: {counts_by_kind(shown.described)}; flytui catalog --all lists them"
        )
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
    import msgspec

    from flytui.text.filter_query import listed_described, listed_sidecar, listed_tool

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
    from flytui.text.filter_query import parse_query

    query = parse_query(" ".join(words))
    if query.problems:
        raise click.UsageError("--filter: " + "; ".join(query.problems))
    return query


def _leased_tools(places: RootPaths, query: Query) -> frozenset[str]:
    """Returns the tools that have a lease, if the query asks for that. Only a running kernel has leases."""
    if not any(term.key == "policy" for term in query.terms):
        return frozenset()

    async def question(client: Client) -> tuple[Lease, ...]:
        return await client.leases()

    return frozenset(lease.tool for lease in query_kernel(places, question) or ())


def catalog_rows(catalog: Catalog, *, everything: bool) -> Iterator[tuple[str, ...]]:
    """Yields the rows of offered tools, then of sidecars without tools, then of tools that no sidecar
    offers."""
    offered = {view.sidecar for view in catalog.capabilities}
    for view in catalog.capabilities:
        if offered_here(view):
            yield _tool_row(view, everything)
    for sidecar in catalog.sidecars:
        if sidecar.id not in offered:
            yield _sidecar_row(sidecar, everything)
    for view in catalog.capabilities:
        if not offered_here(view):
            yield _tool_row(view, everything)


def offered_here(view: CapabilityView) -> bool:
    """Whether a sidecar offers the tool, or the kernel itself does: its coding tools, and plans over tools
    that are there."""
    from flycore.model.enums import Discovery, Layer

    own = view.capability.layer is not Layer.ATOMIC and view.stability.discovery is not Discovery.MISSING
    return view.sidecar is not None or own


def _tool_row(view: CapabilityView, everything: bool) -> tuple[str, ...]:
    known = view.capability
    state, why = _state(view.stability), _why(view.stability, everything)
    return (
        state,
        known.name,
        view.sidecar or "–",
        known.risk.value,
        view.decision or "–",
        why or known.summary,
    )


def _sidecar_row(view: SidecarView, everything: bool) -> tuple[str, ...]:
    return _state(view.stability), "–", view.id, "–", "–", _why(view.stability, everything)


def _state(stability: Stability) -> str:
    from flycore.model.enums import Effective

    glyph = {
        Effective.AVAILABLE: "●",
        Effective.DEGRADED: "◐",
        Effective.UNAVAILABLE: "○",
        Effective.DISABLED: "⊘",
    }[stability.effective]
    return f"{glyph} {stability.effective.value}"


def _why(stability: Stability, everything: bool) -> str:
    reasons = stability.reasons if everything else stability.reasons[:1]
    more = len(stability.reasons) - len(reasons)
    return "; ".join(map(reason_sentence, reasons)) + (f" (and {more} more: flytui why)" if more else "")


def reason_sentence(reason: Reason) -> str:
    """Returns one sentence with the code, what is wrong, and what to do."""
    return f"{reason.code.value}: {reason.message}" + (f" → {reason.remedy}" if reason.remedy else "")
