"""Explains the state of a tool: why it is so, what a call would do now, and what changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from flycore.model.approval import Lease
from flycore.model.enums import Effective
from flycore.model.json import JsonObject
from flycore.model.stability import Reason, Stability
from flytui.console.catalog.catalog_rows import CatalogRow
from flytui.text.filter_query import BLOCKED
from flytui.text.labels import duration, plural
from flytui.text.ladder import headline
from flytui.text.lines import StyledLine, StyledText, Tone, difference_lines, line, span, wrap

PROBE_AGAIN = "when that is done, R in the catalog asks it again"


_POLICY = {
    "allow": "it would run without asking",
    "ask": "you would be asked",
    "deny": "it would be refused",
    BLOCKED: "it would be refused, because it is blocked",
}
_INDENT = StyledText("   ")


def why_lines(row: CatalogRow, width: int) -> list[StyledLine]:
    """The page that explains a row: its state with all reasons, the policy with its rule, the leases, and who
    sees the tool."""
    rows: list[StyledLine] = [headline(row.name, row.stability.effective), *_heading_line("Why it is so")]
    reasons = row.stability.reasons
    if not reasons:
        rows += _text_lines("nothing is wrong: every dimension that was checked is well", width)
    for reason in reasons:
        rows += _first_reason_lines(reason, width)
    if answered_by_probe(row.stability):
        rows += _text_lines(PROBE_AGAIN, width)
    if row.changed:
        rows += _text_lines("± it changed since it was trusted or approved: D shows the difference", width)
    if row.view is None:
        return rows
    rows += _heading_line("If it were called now")
    for text in _call_lines(row):
        rows += _text_lines(text, width)
    rows += _heading_line("Who sees it")
    usable = row.stability.effective in (Effective.AVAILABLE, Effective.DEGRADED)
    seen = "agents are shown this tool" if usable else "agents are not shown this tool; people are, here"
    return [*rows, *_text_lines(seen, width)]


def answered_by_probe(stability: Stability) -> bool:
    """Whether a new probe shows that the remedy helped."""
    reasons = stability.reasons
    return bool(reasons) and reasons[0].dimension == "probe" and reasons[0].fix is None


def why_json(row: CatalogRow) -> str:
    """The explanation as JSON, in ASCII, so that no hidden character is copied."""
    facts: JsonObject = {
        "name": row.name,
        "effective": row.stability.effective.value,
        "changed": row.changed,
        "reasons": msgspec.to_builtins(row.stability.reasons),
        "decision": row.view.decision if row.view else "",
        "because": row.view.because if row.view else "",
        "leases": msgspec.to_builtins(row.annotations.leases.get(row.tool, ())),
    }
    return json.dumps(facts, indent=2)


def change_lines(row: CatalogRow, drift: Sequence[str], width: int) -> list[StyledLine]:
    """The page with the changes of the entry and of the program since they were approved."""
    entry = row.offered_by.changed if row.offered_by else ()
    rows: list[StyledLine] = [headline(row.name, row.stability.effective)]
    if entry:
        rows += _heading_line("The entry, from the value trusted last to what the registry says now")
        rows += difference_lines(entry, width, 1)
        rows += _text_lines("the trusted value stays in force until you trust the new one (T)", width)
    if drift:
        rows += _heading_line("A call, from what was approved before to what would run now")
        rows += difference_lines(tuple(drift), width, 1)
    if not entry and not drift:
        trusted = row.offered_by is None or row.offered_by.trusted
        rows += _heading_line("Difference since approval")
        rows += _text_lines(
            "nothing changed: entry and program are what was trusted and approved"
            if trusted
            else "it was never trusted, so there is nothing to compare with: T shows what it would run",
            width,
        )
    return rows


def _call_lines(row: CatalogRow) -> Iterator[str]:
    view = row.view
    if view is None or not view.decision:
        yield "nothing here offers it, so a call ends unavailable"
        return
    if row.stability.effective in (Effective.UNAVAILABLE, Effective.DISABLED):
        yield f"a call ends {row.stability.effective.value}, before anybody is asked; otherwise:"
    decision = BLOCKED if row.policy == BLOCKED else view.decision
    yield f"policy says {view.decision}: {_POLICY.get(decision, decision)}"
    if view.because:
        yield f"because {view.because}"
    for lease in row.annotations.leases.get(row.tool, ()):
        yield _lease(lease, row.annotations.now())


def _lease(lease: Lease, now: float) -> str:
    ends = f"for {duration(lease.expires_at - now)} more" if lease.expires_at else "until that process ends"
    calls = plural(lease.calls_left, "call")
    return f"a lease lets {lease.caller} call it without asking, {ends}, {calls} left"


def _first_reason_lines(reason: Reason, width: int) -> list[StyledLine]:
    where = span(f"{reason.dimension}  ", Tone.DIM)
    rows = wrap(line(_INDENT, where, span(reason.code.value, Tone.STRONG)), width, 5)
    rows += _text_lines(reason.message, width)
    return rows + (_text_lines(f"→ {reason.remedy}", width, Tone.ACCENT) if reason.remedy else [])


def _heading_line(title: str) -> list[StyledLine]:
    return [(), line(StyledText(" "), span(title, Tone.STRONG))]


def _text_lines(text: str, width: int, tone: Tone = Tone.PLAIN) -> list[StyledLine]:
    return wrap((_INDENT, span(text, tone)), width, 5)
