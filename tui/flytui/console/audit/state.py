"""Whether the log is whole, and what to do where it is not; and how much a person was asked. Pure."""

from __future__ import annotations

from flycore.model.audit import ApprovalMetrics, ApprovalReport, Verification
from flytui.console.paint import StyledLine, StyledText, Tone, labelled, line, span, truncated, wrap
from flytui.console.words import milliseconds_text, plural

QUICK_APPROVAL_SHARE = 0.2
"""Share approved within a second from which the page says something."""


def verification_lines(
    found: Verification | None, checking: bool, lines: int, kept: str, width: int
) -> list[StyledLine]:
    """The head of the screen: how many lines, in which order, and whether they are as they were written."""
    head = span(f" {plural(lines, 'line')}, newest last{kept} · ")
    if found is None:
        words = "being checked…" if checking else "not checked: v checks"
        return [truncated(line(head, span(words, Tone.DIM)), width)]
    again = span(" · being checked again…" if checking else "", Tone.DIM)
    if found.whole:
        words = f"● {found.message}, checked up to {found.lines}"
        return [truncated(line(head, span(words, Tone.GOOD), again), width)]
    word, tone, fix = _damage(found)
    where = f" ({found.file}:{found.line})" if found.file else ""
    first = line(head, span(f"{word} at number {found.seq}", tone), again)
    rest = line(span(f" {found.message}{where}"))
    return [
        truncated(first, width),
        *wrap(rest, width, 3),
        *wrap(line(span(f" → {fix}", Tone.ACCENT)), width, 3),
    ]


def _damage(found: Verification) -> tuple[str, Tone, str]:
    if found.torn:
        return "◐ torn tail", Tone.WARN, "nothing to do: the next start sets the torn end aside and notes it"
    keep = "keep a copy of it, and find out who wrote to it"
    if found.cut:
        return "✗ CUT against the anchors", Tone.BAD, f"lines are missing at its end: {keep}"
    return "✗ BROKEN", Tone.BAD, f"it was changed: {keep}. A kernel that starts now writes nothing to it"


def prompt_load_lines(report: ApprovalReport, width: int) -> list[StyledLine]:
    """How much a person is asked, whether they still read, and who asks most."""
    total = report.total
    if not total.prompts:
        return [(), line(span(" Nobody was asked yet."))]
    rows: list[StyledLine] = [()]
    for label, words in _totals(total):
        rows += labelled(label, words, width, 20)
    if total.approved_at_once_share >= QUICK_APPROVAL_SHARE:
        advice = " → nobody reads a card in a second: lease or allow what you always approve"
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
    found = [
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
        found.append(("never shown", f"{total.not_shown}, refused because too many waited"))
    return found
