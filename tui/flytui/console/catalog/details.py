"""Everything about one tool or sidecar, as a page, and as JSON for the clipboard. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from flycore.model.capability import Capability
from flycore.model.catalog import SidecarView
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.json import Json
from flycore.model.sidecar import Permissions, SidecarEntry
from flycore.model.stability import SandboxReport
from flytui.console.catalog.ladder import headline, ladder_lines
from flytui.console.catalog.model import CatalogRow
from flytui.console.catalog.schema import schema_lines
from flytui.console.catalog.usage import ToolUsage, usage_lines
from flytui.console.changes import difference_lines
from flytui.console.paint import (
    StyledLine,
    StyledText,
    Tone,
    labelled,
    line,
    padded,
    span,
    text_lines,
    wrap,
    wrapped,
)
from flytui.console.words import json_text

_MARGIN = 1
_LABEL_CELLS = 13
_SEVERITY_TONES = {
    Severity.ERROR: ("✗ error", Tone.BAD),
    Severity.WARNING: ("! warning", Tone.WARN),
    Severity.INFO: ("· note", Tone.DIM),
}


def details_lines(
    row: CatalogRow, now: float, width: int, usage: ToolUsage | None = None
) -> list[StyledLine]:
    """Ladder first, then what it is, how it was used, what it may touch, what it takes and gives."""
    rows: list[StyledLine] = [headline(row.tool or row.sidecar, row.stability), ()]
    rows += ladder_lines(row.stability, now, width)
    if row.view:
        rows += _capability(row.view.capability, row.policy, width)
        if usage is not None:
            rows += usage_lines(usage, now, width)
    if row.offered_by:
        rows += _permissions(row.offered_by.entry.permissions, row.stability.evidence.sandbox, width)
        rows += _entry(row.offered_by.entry, row.offered_by.trusted, width)
        rows += changed_lines(row.offered_by, width)
    if row.view:
        capability = row.view.capability
        rows += _schema("Input", capability.input_schema, width)
        rows += _schema("Output", capability.output_schema, width)
        for example in capability.examples:
            rows += _json("Example", example, width)
    return rows


def as_json(row: CatalogRow) -> str:
    """The tool's view, or the sidecar's where it offers no tool; ASCII, for nothing hidden is copied."""
    return json.dumps(msgspec.to_builtins(row.view or row.offered_by), indent=2)


def diagnostics_lines(diagnostics: Sequence[Diagnostic], width: int) -> list[StyledLine]:
    """Each finding with its place, and what to write instead."""
    rows: list[StyledLine] = []
    for finding in diagnostics:
        word, tone = _SEVERITY_TONES[finding.severity]
        where = str(finding.position) if finding.position else finding.pointer
        owner = f"  {finding.sidecar}" if finding.sidecar else ""
        rows += wrap(
            line(
                StyledText(" "), span(word, tone), span(f"  {where}", Tone.ACCENT), span(owner, Tone.STRONG)
            ),
            width,
            3,
        )
        rows += wrap(line(StyledText("   "), span(f"{finding.rule}: {finding.message}")), width, 5)
        for excerpt in text_lines(finding.excerpt, Tone.DIM, 5) if finding.excerpt else ():
            rows.append(excerpt)
        if finding.remedy:
            rows += wrap(line(StyledText("   "), span(f"→ {finding.remedy}", Tone.ACCENT)), width, 5)
        rows.append(())
    return rows or [line(span(" No problems found.", Tone.DIM))]


def _section(title: str) -> list[StyledLine]:
    return [(), line(StyledText(" "), span(title, Tone.STRONG))]


def _capability(capability: Capability, policy: str, width: int) -> list[StyledLine]:
    rows = _section("Tool")
    flags = [
        "read-only" if capability.read_only else "",
        f"one at a time in {capability.exclusive}" if capability.exclusive else "",
        "concurrency-safe" if capability.concurrency_safe else "",
    ]
    rows += wrap(line(StyledText(" "), span(capability.description or capability.summary)), width, 1)
    rows += labelled("layer", capability.layer.value, width, _LABEL_CELLS)
    rows += labelled("risk", capability.risk.value, width, _LABEL_CELLS)
    for rule in capability.risk_when:
        rows += labelled(
            "", f"{rule.risk.value} when {msgspec.json.encode(rule.when).decode()}", width, _LABEL_CELLS
        )
    rows += labelled("approval", ", ".join(capability.approval_class), width, _LABEL_CELLS)
    rows += labelled("policy", policy, width, _LABEL_CELLS)
    rows += labelled("flags", ", ".join(flag for flag in flags if flag), width, _LABEL_CELLS)
    rows += labelled("tags", ", ".join(capability.tags), width, _LABEL_CELLS)
    return rows


def _permissions(wants: Permissions, report: SandboxReport | None, width: int) -> list[StyledLine]:
    """What it may touch, one a line, and whether it is held to that here, where that was looked at."""
    rows = _section("Permissions")
    if report is None:
        return [*rows, *_declared(wants, width)]
    rows += labelled(
        "level", ", ".join(filter(None, (report.level.value, report.mechanism))), width, _LABEL_CELLS
    )
    for item in report.permissions:
        held = span("✓ enforced", Tone.GOOD) if item.enforced else span("○ not enforced", Tone.WARN)
        why = f" · {item.why}" if item.why and item.why != "not enforced" else ""
        label = padded((StyledText(" "), span(item.name, Tone.DIM)), _LABEL_CELLS)
        rows += wrap((*label, span(f"{item.declared}  "), held, span(why, Tone.DIM)), width, _LABEL_CELLS)
    return rows


def _declared(wants: Permissions, width: int) -> list[StyledLine]:
    rows = list(
        labelled(
            "network", "yes: this machine's whole network" if wants.network else "none", width, _LABEL_CELLS
        )
    )
    rows += labelled("reads", ", ".join(wants.read) or "nothing", width, _LABEL_CELLS)
    rows += labelled("writes", ", ".join(wants.write) or "nothing", width, _LABEL_CELLS)
    rows += labelled("secrets", ", ".join(wants.secrets) or "none", width, _LABEL_CELLS)
    rows += labelled(
        "desktop", "yes: keyboard, mouse and screen" if wants.desktop else "no", width, _LABEL_CELLS
    )
    return rows


def _entry(entry: SidecarEntry, trusted: bool, width: int) -> list[StyledLine]:
    rows = _section("Sidecar")
    rows += labelled("id", f"{entry.id}  ({entry.source.value}, {entry.position})", width, _LABEL_CELLS)
    rows += labelled(
        "trusted", "yes" if trusted else "no: T in the console, or flytui trust", width, _LABEL_CELLS
    )
    rows += labelled("kind", entry.kind.value, width, _LABEL_CELLS)
    rows += labelled("command", " ".join((entry.command, *entry.args)), width, _LABEL_CELLS)
    for name, delegate in entry.delegates.items():
        rows += labelled(
            "delegate", f"{name}: {' '.join((delegate.command, *delegate.args))}", width, _LABEL_CELLS
        )
    rows += labelled(
        "disabled", "" if entry.enabled else entry.disabled_reason or "no reason given", width, _LABEL_CELLS
    )
    rows += labelled("tools", ", ".join(entry.tool_names), width, _LABEL_CELLS)
    rows += labelled("environment", ", ".join((*entry.env, *entry.pass_env)), width, _LABEL_CELLS)
    rows += labelled("time limit", f"{entry.timeout_ms} ms", width, _LABEL_CELLS)
    for problem in entry.problems:
        rows += labelled(
            "problem", f"{problem.position or ''} {problem.message}".strip(), width, _LABEL_CELLS
        )
        rows += labelled("", f"→ {problem.remedy}" if problem.remedy else "", width, _LABEL_CELLS)
    return rows


def changed_lines(view: SidecarView, width: int) -> list[StyledLine]:
    """What the registry says now and nobody has trusted yet; nothing where nothing waits."""
    if not view.changed:
        return []
    words = "Changed, last trusted value in force; this waits for trust (T in the console, or flytui trust):"
    title = wrapped(_section(words), width, 1)
    return [*title, *difference_lines(view.changed, width, _MARGIN)]


def _schema(title: str, schema: Json, width: int) -> list[StyledLine]:
    return [*_section(title), *rows] if (rows := schema_lines(schema, width)) else []


def _json(title: str, value: Json, width: int) -> list[StyledLine]:
    return (
        [*_section(title), *wrapped(text_lines(json_text(value), margin=_MARGIN), width, 3)] if value else []
    )
