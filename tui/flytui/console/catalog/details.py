"""The page with everything about a tool or a sidecar: its schemas, its usage, its entry and its problems."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from flycore.model.audit import ToolMetrics
from flycore.model.call import Activity
from flycore.model.catalog import Capability
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.json import Json
from flycore.model.sidecar import Permissions, SidecarEntry
from flycore.model.stability import SandboxReport
from flytui.console.catalog.catalog_rows import CatalogRow
from flytui.text.labels import (
    PHASE_LABELS,
    age,
    json_text,
    label_span,
    milliseconds_text,
    plural,
    result_span,
)
from flytui.text.ladder import changed_lines, headline, ladder_lines
from flytui.text.lines import (
    StyledLine,
    StyledText,
    Tone,
    labelled,
    line,
    padded,
    span,
    text_lines,
    truncated,
    wrap,
    wrapped,
)

MAX_SCHEMA_DEPTH = 6
"""Levels of fields within fields that are drawn; deeper ones are shown as JSON."""
_STEP = 2
_LIMITS = (
    ("minimum", "≥ {}"),
    ("exclusiveMinimum", "> {}"),
    ("maximum", "≤ {}"),
    ("exclusiveMaximum", "< {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("pattern", "like {}"),
    ("format", "{}"),
)
_DRAWN = frozenset(
    (
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "default",
        "description",
        "title",
        "examples",
        "$schema",
        *(key for key, _ in _LIMITS),
    )
)
"""Keywords that are drawn in words. Other keywords are shown as JSON."""


def schema_lines(schema: Json, width: int) -> list[StyledLine]:
    """The fields of an object schema, indented by depth; any other schema as JSON. Nothing is left out."""
    if not isinstance(schema, dict) or not schema:
        return []
    if not isinstance(schema.get("properties"), dict) or not schema["properties"]:
        return _json_block(schema, width, 1)
    rows = list(_field_lines(schema, width, 1))
    if others := {key: value for key, value in schema.items() if key not in _DRAWN}:
        rows += _json_block(others, width, 1)
    if schema.get("additionalProperties") is False:
        rows += wrap((StyledText("   "), span("no other fields", Tone.DIM)), width, 3)
    return rows


def _field_lines(schema: Mapping[str, Json], width: int, depth: int) -> Iterator[StyledLine]:
    properties, required = schema.get("properties"), schema.get("required")
    required_names = required if isinstance(required, list) else []
    for name, field in properties.items() if isinstance(properties, dict) else ():
        yield from _one_field_lines(name, field, name in required_names, width, depth)


def _one_field_lines(name: str, field: Json, required: bool, width: int, depth: int) -> Iterator[StyledLine]:
    margin = 1 + _STEP * depth
    if not isinstance(field, dict):
        yield from wrap(
            (StyledText(" " * margin), span(name, Tone.STRONG), span(f"  {field}")), width, margin + 2
        )
        return
    marks = (StyledText("  required", Tone.ACCENT),) if required else ()
    facts = " · ".join(_limit_words(field))
    head = (StyledText(" " * margin), span(name, Tone.STRONG), span(f"  {_type(field)}"), *marks)
    yield from wrap((*head, span(f"  {facts}" if facts else "", Tone.DIM)), width, margin + 2)
    if isinstance(text := field.get("description"), str) and text:
        yield from wrap((StyledText(" " * (margin + 2)), span(text, Tone.DIM)), width, margin + 2)
    inner = field.get("items") if isinstance(field.get("items"), dict) else field
    if isinstance(inner, dict) and inner.get("properties"):
        if depth < MAX_SCHEMA_DEPTH:
            yield from _field_lines(inner, width, depth + 1)
        else:
            yield from _json_block(inner, width, margin + 2)
    if others := {key: value for key, value in field.items() if key not in _DRAWN}:
        yield from _json_block(others, width, margin + 2)


def _type(field: Mapping[str, Json]) -> str:
    kind = field.get("type", "any")
    words = " or ".join(str(item) for item in kind) if isinstance(kind, list) else str(kind)
    items = field.get("items")
    if words == "array" and isinstance(items, dict):
        return f"array of {_type(items)}"
    return words


def _limit_words(field: Mapping[str, Json]) -> Iterator[str]:
    if isinstance(choices := field.get("enum"), list):
        yield f"one of {', '.join(_plain(choice) for choice in choices)}"
    if "const" in field:
        yield f"always {_plain(field['const'])}"
    for key, words in _LIMITS:
        if key in field:
            yield words.format(_plain(field[key]))
    if "default" in field:
        yield f"default {_plain(field['default'])}"
    if isinstance(items := field.get("items"), dict):
        yield from _limit_words({key: value for key, value in items.items() if key != "default"})


def _plain(value: Json) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _json_block(value: Json, width: int, margin: int) -> list[StyledLine]:
    return wrapped(text_lines(json_text(value), margin=margin), width, margin + 2)


# How a tool was used: the sums of the log, and its latest calls.


MAX_RECENT_CALLS = 10
_USAGE_LABEL_CELLS = 13


class ToolUsage(NamedTuple):
    """What is known about the calls of one tool."""

    metrics: ToolMetrics | None
    """None where the log has no call of the tool."""
    recent: Sequence[Activity]
    """The latest calls, newest first."""


def usage_of(tool: str, metrics: Iterable[ToolMetrics], calls: Iterable[Activity]) -> ToolUsage:
    """The usage of one tool, from the metrics and calls of all tools."""
    own = next((item for item in metrics if item.tool == tool), None)
    return ToolUsage(own, [call for call in calls if call.tool == tool][:MAX_RECENT_CALLS])


def usage_lines(usage: ToolUsage, now: float, width: int) -> list[StyledLine]:
    """The section on calls: counts, durations, the last error and the latest calls. `now` is in Unix
    seconds."""
    rows: list[StyledLine] = [(), line(StyledText(" "), span("Calls", Tone.STRONG))]
    metrics = usage.metrics
    if metrics is None and not usage.recent:
        return [*rows, line(span(" none yet", Tone.DIM))]
    if metrics is not None:
        rows += labelled("counted", _count_words(metrics), width, _USAGE_LABEL_CELLS)
        if metrics.ran:
            average = milliseconds_text(round(metrics.average_ms))
            times = f"{average} average, {milliseconds_text(metrics.p95_ms)} p95"
            rows += labelled(
                "took", f"{times}, {milliseconds_text(metrics.total_ms)} in all", width, _USAGE_LABEL_CELLS
            )
            rows += labelled(
                "last ran", f"{_age_of(metrics.last_executed, now)} ago", width, _USAGE_LABEL_CELLS
            )
        if metrics.last_error is not None:
            error = metrics.last_error
            rows += labelled(
                "last error",
                f"{error.code}: {error.message} ({_age_of(error.at, now)} ago)",
                width,
                _USAGE_LABEL_CELLS,
            )
    for call in usage.recent:
        rows.append(truncated(_recent_line(call, now), width))
    return rows


def _count_words(metrics: ToolMetrics) -> str:
    ends = (
        (metrics.success, "success"),
        (metrics.failed, "failed"),
        (metrics.denied, "denied"),
        (metrics.unavailable, "unavailable"),
        (metrics.other + metrics.open, "other or open"),
    )
    return f"{plural(metrics.calls, 'call')}: " + ", ".join(
        f"{count} {word}" for count, word in ends if count
    )


def _recent_line(call: Activity, now: float) -> StyledLine:
    result = call.result
    state = result_span(result) if result is not None else label_span(PHASE_LABELS[call.phase])
    ran = milliseconds_text(result.duration_ms) if result is not None else ""
    error = f"  {result.error.code}" if result is not None and result.error is not None else ""
    return (
        *padded((StyledText(" "), span(f"{age(now - call.started_at)} ago", Tone.DIM)), _USAGE_LABEL_CELLS),
        *padded((state,), 14),
        *padded((span(ran, Tone.DIM),), 9),
        span(f"{call.caller}{error}", Tone.DIM),
    )


def _age_of(time: str, now: float) -> str:
    try:
        return age(now - datetime.fromisoformat(time).timestamp())
    except (ValueError, OverflowError):
        return time


# The page, and the same as JSON for the clipboard.


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
    """The page about a row: ladder, description, usage, permissions, entry, schemas and examples, in this
    order."""
    rows: list[StyledLine] = [headline(row.tool or row.sidecar, row.stability.effective), ()]
    rows += ladder_lines(row.stability, now, width)
    if row.view:
        rows += _capability(row.view.capability, row.policy, width)
        if usage is not None:
            rows += usage_lines(usage, now, width)
    if row.offered_by:
        rows += _permissions(row.offered_by.entry.permissions, row.stability.evidence.sandbox, width)
        rows += _entry(row.offered_by.entry, row.offered_by.trusted, width)
        rows += changed_lines(row.offered_by.changed, width)
    if row.view:
        capability = row.view.capability
        rows += _schema("Input", capability.input_schema, width)
        rows += _schema("Output", capability.output_schema, width)
        for example in capability.examples:
            rows += _json("Example", example, width)
    return rows


def as_json(row: CatalogRow) -> str:
    """The tool as JSON, or the sidecar where it offers no tool; in ASCII, so that no hidden character is
    copied."""
    return json.dumps(msgspec.to_builtins(row.view or row.offered_by), indent=2)


def diagnostics_lines(diagnostics: Sequence[Diagnostic], width: int) -> list[StyledLine]:
    """The page of problems: each one with its place and its remedy."""
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
    if capability.upstream and not capability.name.endswith(f".{capability.upstream}"):
        rows += labelled("upstream", f"the server calls it {capability.upstream}", width, _LABEL_CELLS)
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


def _permissions(declared: Permissions, report: SandboxReport | None, width: int) -> list[StyledLine]:
    """The permissions, one a line, and where the sandbox was checked, whether each one is enforced."""
    rows = _section("Permissions")
    if report is None:
        return [*rows, *_declared_lines(declared, width)]
    rows += labelled(
        "level", ", ".join(filter(None, (report.level.value, report.mechanism))), width, _LABEL_CELLS
    )
    for item in report.permissions:
        enforced = span("✓ enforced", Tone.GOOD) if item.enforced else span("○ not enforced", Tone.WARN)
        why = f" · {item.why}" if item.why and item.why != "not enforced" else ""
        label = padded((StyledText(" "), span(item.name, Tone.DIM)), _LABEL_CELLS)
        rows += wrap((*label, span(f"{item.declared}  "), enforced, span(why, Tone.DIM)), width, _LABEL_CELLS)
    return rows


def _declared_lines(declared: Permissions, width: int) -> list[StyledLine]:
    rows = list(
        labelled(
            "network",
            "yes: this machine's whole network" if declared.network else "none",
            width,
            _LABEL_CELLS,
        )
    )
    rows += labelled("reads", ", ".join(declared.read) or "nothing", width, _LABEL_CELLS)
    rows += labelled("writes", ", ".join(declared.write) or "nothing", width, _LABEL_CELLS)
    rows += labelled("secrets", ", ".join(declared.secrets) or "none", width, _LABEL_CELLS)
    rows += labelled(
        "desktop", "yes: keyboard, mouse and screen" if declared.desktop else "no", width, _LABEL_CELLS
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


def _schema(title: str, schema: Json, width: int) -> list[StyledLine]:
    return [*_section(title), *rows] if (rows := schema_lines(schema, width)) else []


def _json(title: str, value: Json, width: int) -> list[StyledLine]:
    return (
        [*_section(title), *wrapped(text_lines(json_text(value), margin=_MARGIN), width, 3)] if value else []
    )
