"""`flytui catalog`: what there is, how it is, and what to do about what is not well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import emit, note, say, table
from flytui.cli.reading import read_catalog

if TYPE_CHECKING:
    from flycore.model.catalog import CapabilityView, Catalog, SidecarView
    from flycore.model.stability import Reason, Stability

HEADINGS = ("STATE", "TOOL", "SIDECAR", "RISK", "POLICY", "WHY / FIX")


@click.command()
@click.option("--all", "everything", is_flag=True, help="Every reason of every tool, not only the first.")
@click.option("--filter", "words", multiple=True, help="Only what contains this word; may be repeated.")
@common
def catalog(invocation: Invocation, everything: bool, words: tuple[str, ...]) -> int:
    """List every tool with its state and, where it is not well, why and what to do."""
    return show_catalog(invocation, words=words, everything=everything)


def show_catalog(invocation: Invocation, *, words: tuple[str, ...], everything: bool) -> int:
    """Print the catalog; always exit code 0."""
    places = invocation.places()
    shown = matching(read_catalog(places, probe=not invocation.as_json), words)
    if invocation.as_json:
        from flycore.catalog.document import catalog_document

        emit(catalog_document(shown))
        return 0
    from flytui.cli.pending import read_pending

    waiting = len(read_pending(places).items)
    if waiting:
        entries = "1 entry waits" if waiting == 1 else f"{waiting} entries wait"
        say(f"{entries} for trust: flytui trust shows what they would run")
    table(invocation, HEADINGS, catalog_rows(shown, everything=everything))
    for finding in shown.diagnostics:
        where = f"{finding.position}: " if finding.position else ""
        note(f"{finding.severity.value}: {where}{finding.message}")
        if finding.excerpt:
            note(finding.excerpt)
        if finding.remedy:
            note(f"  → {finding.remedy}")
    return 0


def matching(catalog: Catalog, words: tuple[str, ...]) -> Catalog:
    """The catalog with only the tools and sidecars that contain every word, in whatever case."""
    import msgspec

    wanted = [part for word in words for part in word.casefold().split()]
    if not wanted:
        return catalog

    def fits(*facts: str | None, stability: Stability) -> bool:
        said = [f"{reason.code} {reason.message} {reason.remedy}" for reason in stability.reasons]
        text = " ".join([fact or "" for fact in facts] + [stability.effective, *said]).casefold()
        return all(word in text for word in wanted)

    return msgspec.structs.replace(
        catalog,
        capabilities=tuple(
            view
            for view in catalog.capabilities
            if fits(view.capability.name, view.sidecar, view.capability.summary, stability=view.stability)
        ),
        sidecars=tuple(view for view in catalog.sidecars if fits(view.id, stability=view.stability)),
    )


def catalog_rows(catalog: Catalog, *, everything: bool) -> Iterator[tuple[str, ...]]:
    """Offered tools, then sidecars that offer none, then what nothing offers."""
    offered = {view.sidecar for view in catalog.capabilities}
    for view in catalog.capabilities:
        if view.sidecar is not None:
            yield _tool_row(view, everything)
    for sidecar in catalog.sidecars:
        if sidecar.id not in offered:
            yield _sidecar_row(sidecar, everything)
    for view in catalog.capabilities:
        if view.sidecar is None:
            yield _tool_row(view, everything)


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
    """Code, what is wrong, and the way out."""
    return f"{reason.code.value}: {reason.message}" + (f" → {reason.remedy}" if reason.remedy else "")
