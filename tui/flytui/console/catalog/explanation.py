"""Explains the state of a tool: the ladder of its nine dimensions, why it is so, and what changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from flycore.model.approval import Lease
from flycore.model.enums import Effective
from flycore.model.json import JsonObject
from flycore.model.stability import (
    PermissionReport,
    ProbeEvidence,
    Reason,
    Stability,
    ToolProbe,
    group_equal_reports,
)
from flytui.console.catalog.catalog_rows import CatalogRow
from flytui.text.filter_query import BLOCKED
from flytui.text.labels import STATE_LABELS, age, duration, milliseconds_text, plural
from flytui.text.lines import StyledLine, StyledText, Tone, difference_lines, line, padded, span, wrap

DIMENSIONS = (
    "discovery",
    "manifest",
    "path",
    "version",
    "probe",
    "runtime",
    "sandbox",
    "upgrade",
    "effective",
)
_GOOD_STATES = frozenset(
    ("configured", "valid", "resolved", "compatible", "healthy", "ready", "allowed", "idle", "available")
)
_LIMITED_STATES = frozenset(
    ("unknown", "degraded", "skipped", "approval-required", "quota-limited", "staged")
)
NAME_CELLS = 11
STDERR_LINES = 20
PROBE_AGAIN = "when that is done, R in the catalog asks it again"


def ladder_lines(stability: Stability, now: float, width: int) -> list[StyledLine]:
    """The ladder: every dimension with its state, its evidence and the remedies. `now` is in Unix seconds."""
    rows: list[StyledLine] = []
    for dimension in DIMENSIONS:
        rows += _dimension_lines(stability, dimension, now, width)
    return rows


def _dimension_lines(stability: Stability, dimension: str, now: float, width: int) -> Iterator[StyledLine]:
    value: StrEnum | None = getattr(stability, dimension)
    facts = [fact for fact in _facts(stability, dimension, now) if fact]
    name = padded((StyledText(" "), span(dimension, Tone.DIM)), NAME_CELLS)
    if value is None:
        yield (*name, StyledText(" "), span("· not checked", Tone.DIM))
        # A plan has the reasons of all its tools, of which one may have come further than another.
        yield from _reasons_at(stability, dimension, width)
        return
    first = facts[0] if facts else ""
    word = span(*STATE_LABELS[value]) if isinstance(value, Effective) else _state_word(value.value)
    head = (*name, StyledText(" "), word, span(f"  {first}" if first else "", Tone.DIM))
    yield from wrap(head, width, NAME_CELLS + 3)
    for fact in facts[1:]:
        yield from wrap((StyledText(" " * (NAME_CELLS + 3)), span(fact, Tone.DIM)), width, NAME_CELLS + 5)
    yield from _reasons_at(stability, dimension, width)


def _reasons_at(stability: Stability, dimension: str, width: int) -> Iterator[StyledLine]:
    for reason in stability.reasons:
        if reason.dimension == dimension:
            yield from _reason_lines(reason, width)


def _state_word(value: str) -> StyledText:
    if value == Effective.DISABLED.value:
        return span(*STATE_LABELS[Effective.DISABLED])
    if value in _GOOD_STATES:
        return span(f"✓ {value}", Tone.GOOD)
    return span(f"◐ {value}", Tone.WARN) if value in _LIMITED_STATES else span(f"✗ {value}", Tone.BAD)


def _reason_lines(reason: Reason, width: int) -> Iterator[StyledLine]:
    margin = StyledText(" " * (NAME_CELLS + 3))
    yield from wrap((margin, span(f"{reason.code.value}: {reason.message}")), width, NAME_CELLS + 5)
    if reason.remedy:
        yield from wrap(
            (margin, span("→ ", Tone.ACCENT), span(reason.remedy, Tone.ACCENT)), width, NAME_CELLS + 5
        )
    if reason.fix is not None:
        yield from wrap((margin, span("F ", Tone.KEY), span(reason.fix.words)), width, NAME_CELLS + 5)


def _facts(stability: Stability, dimension: str, now: float) -> Iterator[str]:
    evidence = stability.evidence
    match dimension:
        case "manifest":
            for problem in evidence.violations:
                where = f"{problem.position}  " if problem.position else ""
                yield f"{where}{problem.message}"
        case "path" if evidence.path:
            path = evidence.path
            yield path.resolved
            scope = ", portable" if path.portable else ", only on this machine"
            yield f"{path.command} from {path.base.value}{scope if path.resolved else ''}"
        case "version" if evidence.version:
            version = evidence.version
            yield f"core {version.core}" + (
                f", wants {version.compatible_core}" if version.compatible_core else ""
            )
            if version.package_version:
                yield f"package {version.package_version}, installed {version.installed_version or 'unknown'}"
            if version.protocol_version:
                yield f"protocol {version.protocol_version}"
        case "probe" if evidence.probe and evidence.probe.at:
            yield f"{age(now - evidence.probe.at)} ago in {milliseconds_text(evidence.probe.duration_ms)}"
            if evidence.probe.note:
                yield evidence.probe.note
            yield from _probed_tools(evidence.probe)
            yield from _stderr(evidence.probe.stderr_tail)
        case "runtime" if evidence.runtime and evidence.runtime.at:
            runtime = evidence.runtime
            yield f"{age(now - runtime.at)} ago" + (
                f": {runtime.code} {runtime.message}" if runtime.code else ""
            )
            yield from _stderr(runtime.stderr_tail)
        case "sandbox" if evidence.sandbox:
            report = evidence.sandbox
            yield f"level {report.level.value}{', ' + report.mechanism if report.mechanism else ''}"
            yield from _reports(report.permissions)
            yield from _reports(report.limits)
        case _:
            pass


def _probed_tools(probe: ProbeEvidence) -> Iterator[str]:
    """What a probe says of its tools, once for all of which it says the same."""
    groups: dict[ToolProbe, list[str]] = {}
    for name, tool in probe.tools.items():
        groups.setdefault(tool, []).append(name)
    for tool, names in groups.items():
        yield f"{', '.join(names)}: {tool.status.value}{' · ' + tool.reason if tool.reason else ''}"


def _reports(reports: tuple[PermissionReport, ...]) -> Iterator[str]:
    """Permissions or limits: those that are enforced in one line, then those that are not with the reason,
    once for all that share it. What enforces each one is said by `flytui sandbox explain`."""
    held = [f"{report.name}: {report.declared}" for report in reports if report.enforced]
    if held:
        yield " · ".join([*held, "✓ enforced"])
    for group in group_equal_reports(report for report in reports if not report.enforced):
        why = group[0].why
        parts = [f"{report.name}: {report.declared}" for report in group]
        if not why.startswith("not enforced"):
            parts.append("not enforced")
        yield " · ".join([*parts, *([why] if why else [])])


def _stderr(tail: str) -> Iterator[str]:
    if tail:  # not `splitlines`: another character that could end a line is to be shown as a token
        yield from (f"stderr │ {text}" for text in tail.rstrip("\n").split("\n")[-STDERR_LINES:])


def headline(tool: str, stability: Stability) -> StyledLine:
    """The line with the name and the effective state."""
    return line(
        StyledText(" "), span(tool, Tone.STRONG), StyledText("  "), span(*STATE_LABELS[stability.effective])
    )


# Why a tool is as it is, and what would happen if somebody called it now.


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
    rows: list[StyledLine] = [headline(row.name, row.stability), *_heading_line("Why it is so")]
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
    rows: list[StyledLine] = [headline(row.name, row.stability)]
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
