"""Doctor's lines: one a check, worst first, and everything about one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flycore.model.check import Check, CheckState
from flysafe.text import strict_text
from flytui.console.paint import (
    StyledLine,
    StyledText,
    Tone,
    line,
    padded,
    span,
    text_lines,
    truncated,
    wrapped,
)
from flytui.console.words import plural

STATES: dict[CheckState, tuple[str, Tone]] = {
    CheckState.FAIL: ("✗ fail", Tone.BAD),
    CheckState.WARN: ("! warn", Tone.WARN),
    CheckState.OK: ("✓ ok", Tone.GOOD),
}
"""How each state is drawn, worst first."""
COLUMN_TITLES = ("STATE", "CHECK", "WHAT WAS FOUND")
STATE_CELLS = 8
NAME_COLUMN_WIDTH = 100
"""From this width, in cells, names have a longer column."""


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check in the list."""

    check: Check
    key: str

    def draw(self, width: int) -> StyledLine:
        """State, name, and the first line of what was found."""
        word, tone = STATES[self.check.state]
        name = self.check.name if width >= NAME_COLUMN_WIDTH else self.check.sidecar or self.check.name
        return check_columns(span(word, tone), span(name), span(_first_line(self.check)), width)


def check_columns(state: StyledText, name: StyledText, message: StyledText, width: int) -> StyledLine:
    """Three cells in the widths that fit."""
    name_cells = 28 if width >= NAME_COLUMN_WIDTH else max(12, width // 4)
    cells = (*padded((state,), STATE_CELLS), *padded((name,), name_cells), StyledText(" "), message)
    return truncated(cells, width)


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


def fix_lines(check: Check, width: int) -> list[StyledLine]:
    """What to do about it, or that nothing is to be done."""
    if check.fix:
        return wrapped([line(span(" → ", Tone.ACCENT), span(check.fix))], width, 3)
    return [line(span(" nothing to do", Tone.DIM))]


def check_lines(check: Check, width: int) -> list[StyledLine]:
    """Everything that is known of a check."""
    word, tone = STATES[check.state]
    rows = wrapped([line(StyledText(" "), span(word, tone), span(f"  {check.name}", Tone.STRONG))], width, 1)
    rows += [(), *wrapped(text_lines(check.message, margin=1), width, 1), ()]
    if check.difference:
        changes = [line(StyledText("   "), StyledText(strict_text(change))) for change in check.difference]
        rows += [line(span(" what differs", Tone.DIM)), *wrapped(changes, width, 3), ()]
    return [*rows, *fix_lines(check, width)]


def _first_line(check: Check) -> str:
    return check.message.split("\n", 1)[0]
