"""The rows of `flytui catalog`, and its messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flycore.model.catalog import CapabilityView, Catalog, SidecarView
from flycore.model.enums import Discovery, Layer
from flycore.model.stability import Reason, Stability
from flytui.text.labels import STATE_LABELS

HEADINGS = ("STATE", "TOOL", "SIDECAR", "RISK", "POLICY", "WHY / FIX")


def opening_line(waiting: int, sidecars: bool) -> str:
    """The line above the rows: how many entries wait for trust, or that there is no registry; else empty."""
    if waiting:
        entries = "1 entry waits" if waiting == 1 else f"{waiting} entries wait"
        return f"{entries} for trust: flytui trust shows what they would run"
    return "" if sidecars else "This folder has no registry: flytui init writes a first one"


def catalog_rows(catalog: Catalog, *, everything: bool) -> Iterator[tuple[str, ...]]:
    """Yields the rows of offered tools, then of sidecars without tools, then of tools that no sidecar
    offers."""
    offered = {view.sidecar for view in catalog.capabilities}
    for view in catalog.capabilities:
        if _offered_here(view):
            yield _tool_row(view, everything)
    for sidecar in catalog.sidecars:
        if sidecar.id not in offered:
            yield _sidecar_row(sidecar, everything)
    for view in catalog.capabilities:
        if not _offered_here(view):
            yield _tool_row(view, everything)


def closing_texts(catalog: Catalog, *, everything: bool) -> Iterator[str]:
    """Yields the messages below the rows: how much else was read, and what is wrong with the files."""
    if catalog.described and not everything:
        kinds = _counts_by_kind([item.kind.value for item in catalog.described])
        yield f"also read, never run: {kinds}; flytui catalog --all lists them"
    for finding in catalog.diagnostics:
        where = f"{finding.position}: " if finding.position else ""
        yield f"{finding.severity.value}: {where}{finding.message}"
        if finding.excerpt:
            yield finding.excerpt
        if finding.remedy:
            yield f"  → {finding.remedy}"


def reason_sentence(reason: Reason) -> str:
    """Returns one sentence with the code, what is wrong, and what to do."""
    return f"{reason.code.value}: {reason.message}" + (f" → {reason.remedy}" if reason.remedy else "")


def _counts_by_kind(kinds: Sequence[str]) -> str:
    return ", ".join(
        f"{kinds.count(kind)} {kind}{'' if kinds.count(kind) == 1 else 's'}" for kind in dict.fromkeys(kinds)
    )


def _offered_here(view: CapabilityView) -> bool:
    """Whether a sidecar offers the tool, or the kernel itself does: its coding tools, and plans over tools
    that are there."""
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
    return STATE_LABELS[stability.effective][0]


def _why(stability: Stability, everything: bool) -> str:
    reasons = stability.reasons if everything else stability.reasons[:1]
    more = len(stability.reasons) - len(reasons)
    return "; ".join(map(reason_sentence, reasons)) + (f" (and {more} more: flytui why)" if more else "")
