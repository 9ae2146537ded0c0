"""Doctor's lines: one a check, worst first, and everything about one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flycore.model.check import Check, CheckState
from flysafe.text import strict_text
from flytui.console.paint import Line, Span, Tone, block, column, fit, line, span, wrapped
from flytui.console.words import plural

STATES: dict[CheckState, tuple[str, Tone]] = {
    CheckState.FAIL: ("✗ fail", Tone.BAD),
    CheckState.WARN: ("! warn", Tone.WARN),
    CheckState.OK: ("✓ ok", Tone.GOOD),
}
"""How each state is drawn, worst first."""
TITLES = ("STATE", "CHECK", "WHAT WAS FOUND")
STATE_CELLS = 8
ROOMY = 100
"""From this width, in cells, names have a longer column."""


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check in the list."""

    check: Check
    key: str

    def draw(self, width: int) -> Line:
        """State, name, and the first line of what was found."""
        word, tone = STATES[self.check.state]
        name = self.check.name if width >= ROOMY else self.check.sidecar or self.check.name
        return columns(span(word, tone), span(name), span(_first_line(self.check)), width)


def columns(state: Span, name: Span, message: Span, width: int) -> Line:
    """Three cells in the widths that fit."""
    name_cells = 28 if width >= ROOMY else max(12, width // 4)
    cells = (*column((state,), STATE_CELLS), *column((name,), name_cells), Span(" "), message)
    return fit(cells, width)


def check_rows(checks: Sequence[Check]) -> list[CheckRow]:
    """Worst first, else in their order. A check keeps its key as long as it says the same."""
    seen: dict[str, int] = {}
    rows = []
    for check in checks:
        at = seen[check.name] = seen.get(check.name, 0) + 1
        rows.append(CheckRow(check, f"{check.name} {at}"))
    worst = list(STATES)
    return sorted(rows, key=lambda row: worst.index(row.check.state))


def summary(checks: Sequence[Check]) -> str:
    """`17 checks: 1 failed, 3 to look at`."""
    failed, warned = (sum(check.state is state for check in checks) for state in list(STATES)[:2])
    if not failed and not warned:
        return f"{plural(len(checks), 'check')}: all is well"
    return f"{plural(len(checks), 'check')}: {failed} failed, {warned} to look at"


def fix_lines(check: Check, width: int) -> list[Line]:
    """What to do about it, or that nothing is to be done."""
    if check.fix:
        return wrapped([line(span(" → ", Tone.ACCENT), span(check.fix))], width, 3)
    return [line(span(" nothing to do", Tone.DIM))]


def check_lines(check: Check, width: int) -> list[Line]:
    """Everything that is known of a check."""
    word, tone = STATES[check.state]
    rows = wrapped([line(Span(" "), span(word, tone), span(f"  {check.name}", Tone.STRONG))], width, 1)
    rows += [(), *wrapped(block(check.message, margin=1), width, 1), ()]
    if check.difference:
        changes = [line(Span("   "), Span(strict_text(change))) for change in check.difference]
        rows += [line(span(" what differs", Tone.DIM)), *wrapped(changes, width, 3), ()]
    return [*rows, *fix_lines(check, width)]


def _first_line(check: Check) -> str:
    return check.message.split("\n", 1)[0]
