"""The stability ladder: nine dimensions in order, each with its word, its evidence and the way out. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from flycore.model.enums import Effective
from flycore.model.stability import PermissionReport, Reason, Stability, group_equal_reports
from flytui.console.paint import StyledLine, StyledText, Tone, line, padded, span, wrap
from flytui.console.words import STATE_LABELS, age, milliseconds_text

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


def ladder_lines(stability: Stability, now: float, width: int) -> list[StyledLine]:
    """All rungs for that width; `now` in Unix seconds, for ages."""
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
        return
    first = facts[0] if facts else ""
    word = span(*STATE_LABELS[value]) if isinstance(value, Effective) else _state_word(value.value)
    head = (*name, StyledText(" "), word, span(f"  {first}" if first else "", Tone.DIM))
    yield from wrap(head, width, NAME_CELLS + 3)
    for fact in facts[1:]:
        yield from wrap((StyledText(" " * (NAME_CELLS + 3)), span(fact, Tone.DIM)), width, NAME_CELLS + 5)
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
            for name, tool in evidence.probe.tools.items():
                yield f"{name}: {tool.status.value}{' · ' + tool.reason if tool.reason else ''}"
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
            yield from (_permissions(group) for group in group_equal_reports(report.permissions))
        case _:
            pass


def _permissions(group: tuple[PermissionReport, ...]) -> str:
    """Permissions that share one reason, and the reason once."""
    enforced, why = group[0].enforced, group[0].why
    parts = [f"{report.name}: {report.declared}" for report in group]
    if enforced or not why.startswith("not enforced"):
        parts.append("✓ enforced" if enforced else "not enforced")
    return " · ".join([*parts, *([why] if why else [])])


def _stderr(tail: str) -> Iterator[str]:
    if tail:  # only a newline ends a line: what else could end one is to be seen
        yield from (f"stderr │ {text}" for text in tail.rstrip("\n").split("\n")[-STDERR_LINES:])


def headline(tool: str, stability: Stability) -> StyledLine:
    """Name and effective state."""
    return line(
        StyledText(" "), span(tool, Tone.STRONG), StyledText("  "), span(*STATE_LABELS[stability.effective])
    )
