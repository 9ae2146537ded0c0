"""Doctor's lines: one a check, worst first, and everything about one. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import anyio.to_thread
import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from flycore.model.diagnostics import Check, CheckState, FixKind
from flycore.model.errors import FlyError
from flysafe.text import strict_text
from flytui.console.doctor.terminal_checks import terminal_checks
from flytui.console.fix.fix_actions import FixActions
from flytui.console.screens.base import PageScreen
from flytui.console.state import ConsoleState, Topic
from flytui.console.widgets.lines import LineBar, LineView
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.labels import age, plural
from flytui.text.lines import StyledLine, StyledText, Tone, line, padded, span, text_lines, truncated, wrapped

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


# Doctor: everything the root stands on, one line a check, and what to do about it.


MAX_DETAIL_LINES = 4
"""Lines the fix under the list may take; Enter shows all of it."""
_EMPTY = (
    (
        "Doctor looks at registry, policy and settings, at every sidecar, trust, the log, the socket, the"
        " display, and this terminal. What is not well says what to do."
    ),
    "",
    "It looks when this screen is first shown, and when you ask again. It changes nothing.",
)


class DoctorView(FixActions):
    """The checks as they were found last; the first look is made when the screen is first shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "again", "Look again", show=False, id="doctor.again"),
        Binding("F", "fix", "Fix", show=False, id="doctor.fix"),
        Binding("y", "copy", "Copy", show=False, id="doctor.copy"),
    ]
    KEYS: ClassVar[list[tuple[str, str]]] = [
        ("doctor.again", "look again"),
        ("doctor.fix", "fix"),
        ("list.open", "details"),
        ("doctor.copy", "copy as JSON"),
    ]

    def __init__(self, state: ConsoleState, *, id: str) -> None:
        super().__init__(id=id)
        self._state = state
        self._checks: tuple[Check, ...] = ()
        self._checked_at: float | None = None
        self._checking = False
        self._list = VirtualList(id="check-rows")
        self._empty = LineView(self._empty_lines, id="doctor-empty")
        self._top = LineBar(self._top_lines, id="check-titles")
        self._details = LineBar(self._detail_lines, id="check-fix")

    def compose(self) -> ComposeResult:
        """How it stands, the checks, and the fix of the one under the cursor."""
        yield self._top
        yield self._list
        yield self._empty
        yield self._details

    def on_mount(self) -> None:
        """Ages are drawn as they grow."""
        self.set_interval(1.0, self._tick)
        self._show()

    def changed(self, topics: frozenset[Topic]) -> None:
        """Nothing moves by itself: a look costs, so a person asks for it."""

    def focus_here(self) -> None:
        """Where keys go when this screen is shown; the first time it looks by itself."""
        self.screen.set_focus(self._details_shown)
        if self._checked_at is None:
            self.action_again()

    def action_again(self) -> None:
        """Look at everything again."""
        if not self._checking:
            self._checking = True
            self._top.redraw()
            self.run_worker(self._run_checks(), group="doctor")

    def action_copy(self) -> None:
        """All checks on the terminal's clipboard, as JSON."""
        if not self._checks:
            self._notice("nothing has been looked at yet")
            return
        self.app.copy_to_clipboard(json.dumps(msgspec.to_builtins(self._checks), indent=2))
        self._notice("copied as JSON")

    def action_fix(self) -> None:
        """Show what would be done about the check under the cursor; some is done elsewhere."""
        check = self._check
        fix = check.remedy_fix if check is not None else None
        if check is None or fix is None:
            self._notice(
                "no fix is known for this; Enter shows what to do" if check else "nothing to fix here"
            )
            return
        match fix.kind:
            case FixKind.COMMAND | FixKind.EDIT:
                heading = f"{check.name} · {fix.words}"
                self._confirm_program(
                    check.sidecar, heading, lambda width: [*check_lines(check, width), ()], fix
                )
            case FixKind.TRUST:
                self._open_trust()
            case FixKind.INIT:
                self.action_start()
            case FixKind.PROBE:
                self._notice(f"asking {check.sidecar} again; R shows what it answered")
                self.run_worker(self._probe(check.sidecar), group="probe")
            case FixKind.ENABLE:
                self._notice(f"E in the Catalog switches {check.sidecar} on")

    async def _run_checks(self) -> None:
        try:
            found = [*await self._state.client.checks(), *await self._terminal_checks()]
        except FlyError as error:
            self._notice(f"not looked at: {error}")
        else:
            self._checks, self._checked_at = tuple(found), self._state.now()
        finally:
            self._checking = False
            self._show()

    async def _terminal_checks(self) -> list[Check]:
        """What is to be said of this terminal."""
        look, size = self._state.find_terminal, self.app.size
        if look is None:
            return []
        return list(terminal_checks(await anyio.to_thread.run_sync(look, (size.width, size.height))))

    @on(VirtualList.Moved)
    def _on_cursor_moved(self) -> None:
        self._details.redraw()

    @on(VirtualList.Chosen)
    def _on_row_opened(self, event: VirtualList.Chosen) -> None:
        event.stop()
        check = self._check
        if check is not None:

            def copied() -> str:
                return json.dumps(msgspec.to_builtins(check), indent=2)

            page = PageScreen(self._state, "Doctor", lambda width: check_lines(check, width), copy=copied)
            self.app.push_screen(page)

    @property
    def _details_shown(self) -> VirtualList | LineView:
        return self._list if self._list.display else self._empty

    @property
    def _check(self) -> Check | None:
        row = self._list.row
        return row.check if isinstance(row, CheckRow) else None

    def _show(self) -> None:
        rows, here = check_rows(self._checks), self.screen.focused in (self._list, self._empty)
        self._list.set_rows(rows)
        self._list.display, self._empty.display = bool(rows), not rows
        for bar in (self._top, self._details):
            bar.redraw()
        self._empty.rebuild()
        if here:
            self.screen.set_focus(self._details_shown)

    def _tick(self) -> None:
        if self.display:
            self._top.redraw()

    def _top_lines(self, width: int) -> Sequence[StyledLine]:
        if self._checking:
            rows = [line(span(" looking at everything…", Tone.ACCENT))]
        elif self._checked_at is None:
            return []
        else:
            ago = f"  looked {age(self._state.now() - self._checked_at)} ago"
            rows = [line(span(f" {summary(self._checks)}", Tone.STRONG), span(ago, Tone.DIM))]
        if self._checks:
            state, name, found = (span(title, Tone.DIM) for title in COLUMN_TITLES)
            rows.append((StyledText("  "), *check_columns(state, name, found, width - 4)))
        return [truncated(row, width) for row in rows]

    def _detail_lines(self, width: int) -> Sequence[StyledLine]:
        check = self._check
        if check is None:
            return []
        rows = fix_lines(check, width)
        return (
            rows
            if len(rows) <= MAX_DETAIL_LINES
            else [*rows[: MAX_DETAIL_LINES - 1], line(span("   … Enter", Tone.DIM))]
        )

    def _empty_lines(self, width: int) -> Sequence[StyledLine]:
        return [(), *wrapped([line(span(f" {text}")) for text in _EMPTY], width, 1)]
