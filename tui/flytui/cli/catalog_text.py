"""The rows of `flytui catalog`, from the values of a catalog as JSON. It imports no library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flytui.text.labels import position_text

CatalogFields = Mapping[str, Any]
"""A value of the catalog as a JSON object: the catalog itself, a tool, a sidecar, a snapshot or a reason."""

HEADINGS = ("STATE", "TOOL", "SIDECAR", "RISK", "POLICY", "WHY / FIX")
_GLYPHS = {"available": "●", "degraded": "◐", "unavailable": "○", "disabled": "⊘"}


def opening_line(waiting: int, sidecars: bool) -> str:
    """The line above the rows: how many entries wait for trust, or that there is no registry; else empty."""
    if waiting:
        entries = "1 entry waits" if waiting == 1 else f"{waiting} entries wait"
        return f"{entries} for trust: flytui trust shows what they would run"
    return "" if sidecars else "This folder has no registry: flytui init writes a first one"


def catalog_rows(catalog: CatalogFields, *, everything: bool) -> Iterator[tuple[str, ...]]:
    """Yields the rows of offered tools, then of sidecars without tools, then of tools that no sidecar
    offers."""
    offered = {view["sidecar"] for view in catalog["capabilities"]}
    for view in catalog["capabilities"]:
        if _offered_here(view):
            yield _tool_row(view, everything)
    for sidecar in catalog["sidecars"]:
        if sidecar["id"] not in offered:
            yield _sidecar_row(sidecar, everything)
    for view in catalog["capabilities"]:
        if not _offered_here(view):
            yield _tool_row(view, everything)


def closing_texts(catalog: CatalogFields, *, everything: bool) -> Iterator[str]:
    """Yields the messages below the rows: how much else was read, and what is wrong with the files."""
    if catalog["described"] and not everything:
        kinds = _counts_by_kind([item["kind"] for item in catalog["described"]])
        yield f"also read, never run: {kinds}; flytui catalog --all lists them"
    for finding in catalog["diagnostics"]:
        where = f"{position_text(finding['position'])}: " if finding["position"] else ""
        yield f"{finding['severity']}: {where}{finding['message']}"
        if finding["excerpt"]:
            yield finding["excerpt"]
        if finding["remedy"]:
            yield f"  → {finding['remedy']}"


def reason_sentence(reason: CatalogFields) -> str:
    """Returns one sentence with the code, what is wrong, and what to do."""
    return f"{reason['code']}: {reason['message']}" + (f" → {reason['remedy']}" if reason["remedy"] else "")


def _counts_by_kind(kinds: Sequence[str]) -> str:
    return ", ".join(
        f"{kinds.count(kind)} {kind}{'' if kinds.count(kind) == 1 else 's'}" for kind in dict.fromkeys(kinds)
    )


def _offered_here(view: CatalogFields) -> bool:
    """Whether a sidecar offers the tool, or the kernel itself does: its coding tools, and plans over tools
    that are there."""
    own = view["capability"]["layer"] != "atomic" and view["stability"]["discovery"] != "missing"
    return view["sidecar"] is not None or own


def _tool_row(view: CatalogFields, everything: bool) -> tuple[str, ...]:
    known = view["capability"]
    state, why = _state(view["stability"]), _why(view["stability"], everything)
    return (
        state,
        known["name"],
        view["sidecar"] or "–",
        known["risk"],
        view["decision"] or "–",
        why or known["summary"],
    )


def _sidecar_row(view: CatalogFields, everything: bool) -> tuple[str, ...]:
    return _state(view["stability"]), "–", view["id"], "–", "–", _why(view["stability"], everything)


def _state(stability: CatalogFields) -> str:
    effective = stability["effective"]
    return f"{_GLYPHS[effective]} {effective}"


def _why(stability: CatalogFields, everything: bool) -> str:
    reasons = stability["reasons"] if everything else stability["reasons"][:1]
    more = len(stability["reasons"]) - len(reasons)
    return "; ".join(map(reason_sentence, reasons)) + (f" (and {more} more: flytui why)" if more else "")
