"""The ladder of a tool's state: its nine dimensions, each with its evidence, its reasons and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from flycore.model.stability import PermissionReport, Reason, Stability, ToolProbe, VersionEvidence
from flytui.text.labels import STATE_LABELS, age, milliseconds_text
from flytui.text.lines import (
    StyledLine,
    StyledText,
    Tone,
    difference_lines,
    line,
    name_span,
    padded,
    span,
    wrap,
    wrapped,
)

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
    """The ladder: every dimension with its state, its evidence and the remedies. `now` is in Unix seconds."""
    rows: list[StyledLine] = []
    for dimension in DIMENSIONS:
        rows += _dimension_lines(stability, dimension, now, width)
    return rows


def _dimension_lines(stability: Stability, dimension: str, now: float, width: int) -> Iterator[StyledLine]:
    value: str | None = getattr(stability, dimension)
    facts = [fact for fact in _facts(stability, dimension, now) if fact]
    name = padded((StyledText(" "), span(dimension, Tone.DIM)), NAME_CELLS)
    if value is None:
        yield (*name, StyledText(" "), span("· not checked", Tone.DIM))
        # A plan has the reasons of all its tools, of which one may have come further than another.
        yield from _reasons_at(stability, dimension, width)
        return
    first = facts[0] if facts else ""
    word = span(*STATE_LABELS[value]) if dimension == "effective" else _state_word(value)
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
    if value == "disabled":
        return span(*STATE_LABELS[value])
    if value in _GOOD_STATES:
        return span(f"✓ {value}", Tone.GOOD)
    return span(f"◐ {value}", Tone.WARN) if value in _LIMITED_STATES else span(f"✗ {value}", Tone.BAD)


def _reason_lines(reason: Reason, width: int) -> Iterator[StyledLine]:
    margin = StyledText(" " * (NAME_CELLS + 3))
    yield from wrap((margin, span(f"{reason.code}: {reason.message}")), width, NAME_CELLS + 5)
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
        case "path" if path := evidence.path:
            yield path.resolved
            scope = ", portable" if path.portable else ", only on this machine"
            yield f"{path.command} from {path.base}{scope if path.resolved else ''}"
        case "version" if version := evidence.version:
            yield from _version_facts(version)
        case "probe" if (probe := evidence.probe) and probe.at:
            yield f"{age(now - probe.at)} ago in {milliseconds_text(probe.duration_ms)}"
            if probe.note:
                yield probe.note
            yield from _probed_tools(probe.tools)
            yield from _stderr(probe.stderr_tail)
        case "runtime" if (call := evidence.runtime) and call.at:
            failure = f": {call.code} {call.message}" if call.code else ""
            yield f"{age(now - call.at)} ago{failure}"
            yield from _stderr(call.stderr_tail)
        case "sandbox" if report := evidence.sandbox:
            yield f"level {report.level.value}{', ' + report.mechanism if report.mechanism else ''}"
            yield from _reports(report.permissions)
            yield from _reports(report.limits)
        case _:
            pass


def _version_facts(version: VersionEvidence) -> Iterator[str]:
    wanted = f", wants {version.compatible_core}" if version.compatible_core else ""
    yield f"core {version.core}{wanted}"
    if version.package_version:
        yield f"package {version.package_version}, installed {version.installed_version or 'unknown'}"
    if version.protocol_version:
        yield f"protocol {version.protocol_version}"


def _probed_tools(tools: Mapping[str, ToolProbe]) -> Iterator[str]:
    """What a probe says of its tools, once for all of which it says the same."""
    groups: dict[tuple[str | None, ...], list[str]] = {}
    for name, tool in tools.items():
        groups.setdefault((tool.status, tool.code, tool.reason, tool.remedy), []).append(name)
    for (status, _, reason, _), names in groups.items():
        yield f"{', '.join(names)}: {status}{' · ' + reason if reason else ''}"


def _reports(reports: Sequence[PermissionReport]) -> Iterator[str]:
    """Permissions or limits: those that are enforced in one line, then those that are not with the reason,
    once for all that share it. What enforces each one is said by `flytui sandbox explain`."""
    held = [f"{report.name}: {report.declared}" for report in reports if report.enforced]
    if held:
        yield " · ".join([*held, "✓ enforced"])
    for why, group in groupby(
        (report for report in reports if not report.enforced), lambda report: report.why
    ):
        parts = [f"{report.name}: {report.declared}" for report in group]
        if not why.startswith("not enforced"):
            parts.append("not enforced")
        yield " · ".join([*parts, *([why] if why else [])])


def _stderr(tail: str) -> Iterator[str]:
    if tail:  # not `splitlines`: another character that could end a line is to be shown as a token
        yield from (f"stderr │ {text}" for text in tail.rstrip("\n").split("\n")[-STDERR_LINES:])


def headline(tool: str, effective: str) -> StyledLine:
    """The line with the name and the effective state."""
    return line(
        StyledText(" "), name_span(tool, Tone.STRONG), StyledText("  "), span(*STATE_LABELS[effective])
    )


def changed_lines(changed: Sequence[str], width: int) -> list[StyledLine]:
    """The change of an entry that waits for trust, as lines `- …` and `+ …`; nothing where nothing waits."""
    if not changed:
        return []
    words = "Changed, last trusted value in force; this waits for trust (T in the console, or flytui trust):"
    title = wrapped([(), line(StyledText(" "), span(words, Tone.STRONG))], width, 1)
    return [*title, *difference_lines(changed, width, 1)]


def policy_line(decision: str, because: str) -> str:
    """What the policy says before an input is known, with its rule."""
    return f"policy says {decision}{f', because {because}' if because else ''}"
