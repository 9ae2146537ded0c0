"""The page of a line of the log, the result of checking the log, and the report on how much a person is
asked."""

from __future__ import annotations

import json
from collections.abc import Sequence

from flycore.client.audit_reader import parse_record
from flycore.model.audit import ApprovalMetrics, ApprovalReport, Verification
from flycore.model.json import JsonObject
from flytui.text.labels import json_text, milliseconds_text, plural
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

_LABEL = 14


def fields_lines(record: JsonObject, width: int) -> list[StyledLine]:
    """Every member of a line in full."""
    rows: list[StyledLine] = []
    for key, value in record.items():
        label = padded((StyledText(" "), span(key, Tone.DIM)), _LABEL)
        if isinstance(value, dict | list) and value:
            rows += [label, *wrapped(text_lines(json_text(value), margin=3), width, 5)]
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            rows += wrap((*label, StyledText(" "), span(text)), width, _LABEL + 1)
    return rows


def row_lines(lines: Sequence[bytes], width: int) -> list[StyledLine]:
    """The page of a row: every member of its line, or of each of its lines, the newest first."""
    return _pages_of([parse_record(raw) for raw in reversed(lines)], width)


def call_log_lines(records: Sequence[JsonObject], width: int) -> list[StyledLine]:
    """The page with all lines of one call, oldest first."""
    if not records:
        return [(), line(span(" The log has no line of this call any more.", Tone.DIM))]
    return _pages_of(records, width)


def _pages_of(records: Sequence[JsonObject], width: int) -> list[StyledLine]:
    rows: list[StyledLine] = []
    for record in records:
        rows += [*([()] if rows else []), *fields_lines(record, width)]
    return rows


def empty_lines(*, known: bool, filtered: bool) -> list[StyledLine]:
    """The lines that are shown instead of no rows. `known` says whether the log has been read."""
    if not known:
        return [(), line(span(" The log is being read…", Tone.DIM))]
    if filtered:
        return [(), line(span(" Nothing matches. Esc clears the filter.", Tone.DIM))]
    return [
        (),
        line(span(" The log has no line yet.")),
        line(span(" Every call, card, decision, start and end will get one.", Tone.DIM)),
    ]


# The state of the log, and the report on how much a person is asked.


QUICK_APPROVAL_SHARE = 0.2
"""From this share of approvals within a second, the page gives an advice."""


def verification_lines(
    verification: Verification | None, checking: bool, lines: int, older: str, width: int
) -> list[StyledLine]:
    """The lines above the log: how many lines are shown, and whether they are as they were written. `older`
    names the lines that are not shown."""
    head = span(f" {plural(lines, 'line')}, newest last{older} · ")
    if verification is None:
        words = "being checked…" if checking else "not checked: v checks"
        return [truncated(line(head, span(words, Tone.DIM)), width)]
    again = span(" · being checked again…" if checking else "", Tone.DIM)
    if verification.whole:
        words = f"● {verification.message}, checked up to {verification.lines}"
        return [truncated(line(head, span(words, Tone.GOOD), again), width)]
    word, tone, fix = _damage(verification)
    where = f" ({verification.file}:{verification.line})" if verification.file else ""
    first = line(head, span(f"{word} at number {verification.seq}", tone), again)
    rest = line(span(f" {verification.message}{where}"))
    return [
        truncated(first, width),
        *wrap(rest, width, 3),
        *wrap(line(span(f" → {fix}", Tone.ACCENT)), width, 3),
    ]


def _damage(verification: Verification) -> tuple[str, Tone, str]:
    if verification.torn:
        return "◐ torn tail", Tone.WARN, "nothing to do: the next start sets the torn end aside and notes it"
    keep = "keep a copy of it, and find out who wrote to it"
    if verification.cut:
        return "✗ CUT against the anchors", Tone.BAD, f"lines are missing at its end: {keep}"
    return "✗ BROKEN", Tone.BAD, f"it was changed: {keep}. A kernel that starts now writes nothing to it"


def prompt_load_lines(report: ApprovalReport, width: int) -> list[StyledLine]:
    """The page on how much the person is asked, how fast they approve, and which tools and callers ask."""
    total = report.total
    if not total.prompts:
        return [(), line(span(" Nobody was asked yet."))]
    rows: list[StyledLine] = [()]
    for label, words in _totals(total):
        rows += labelled(label, words, width, 20)
    if total.approved_at_once_share >= QUICK_APPROVAL_SHARE:
        advice = " → nobody can read a card in a second: give a lease or a rule to what you always approve"
        rows += [(), *wrap(line(span(advice, Tone.WARN)), width, 3)]
    rows += [(), line(StyledText(" "), span("Who asks", Tone.STRONG))]
    for pair in report.pairs:
        words = f"{pair.prompts:>6}  {pair.prompts_per_hour:g} an hour, "
        words += f"{pair.approved_at_once_share:.0%} at once, {pair.timed_out} timed out  "
        rows += wrap(
            line(span(words, Tone.DIM), span(pair.tool, Tone.STRONG), span(f"  {pair.caller}")), width, 8
        )
    return rows


def _totals(total: ApprovalMetrics) -> list[tuple[str, str]]:
    hours = plural(total.active_hours, "hour")
    rows = [
        ("asked", f"{total.prompts}, in {hours} that had any"),
        ("an hour", f"{total.prompts_per_hour:g} on average, {total.busiest_hour} in the busiest"),
        ("approved", str(total.approved)),
        ("  within a second", f"{total.approved_at_once}, {total.approved_at_once_share:.0%} of them"),
        ("denied", f"{total.denied}, {total.denied_share:.0%} of what you decided"),
        ("timed out", f"{total.timed_out}: asked while nobody was there"),
        ("withdrawn", str(total.withdrawn)),
        (
            "time to decide",
            f"{milliseconds_text(total.median_ms)} median, {milliseconds_text(total.p95_ms)} p95",
        ),
    ]
    if total.not_shown:
        rows.append(("never shown", f"{total.not_shown}, refused because too many waited"))
    return rows
