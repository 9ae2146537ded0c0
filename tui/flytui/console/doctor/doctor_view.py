"""The Doctor view: one line for each check, the worst first, and the remedy of the one under the cursor."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
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
from flytui.console.terminal import input_counts
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
"""From this width, in cells, the column of names is longer."""


class CheckRow(msgspec.Struct, frozen=True):
    """The row of a check in the list."""

    check: Check
    key: str

    def draw(self, width: int) -> StyledLine:
        """Draw the state, the name, and the first line of what was found."""
        word, tone = STATES[self.check.state]
        name = self.check.name if width >= NAME_COLUMN_WIDTH else self.check.sidecar or self.check.name
        return check_columns(span(word, tone), span(name), span(_first_line(self.check)), width)


def check_columns(state: StyledText, name: StyledText, message: StyledText, width: int) -> StyledLine:
    """State, name and message in their columns."""
    name_cells = 28 if width >= NAME_COLUMN_WIDTH else max(12, width // 4)
    cells = (*padded((state,), STATE_CELLS), *padded((name,), name_cells), StyledText(" "), message)
    return truncated(cells, width)


def check_rows(checks: Sequence[Check]) -> list[CheckRow]:
    """The rows of the checks, the worst first, otherwise in their order."""
    # Several checks may have one name. The number in the key keeps the cursor on the same one.
    counts: Counter[str] = Counter()
    rows = []
    for check in checks:
        counts[check.name] += 1
        rows.append(CheckRow(check, f"{check.name} {counts[check.name]}"))
    worst = list(STATES)
    return sorted(rows, key=lambda row: worst.index(row.check.state))


def summary(checks: Sequence[Check]) -> str:
    """The counts of checks, as in `17 checks: 1 failed, 3 to look at`."""
    failed, warned = (sum(check.state is state for check in checks) for state in list(STATES)[:2])
    if not failed and not warned:
        return f"{plural(len(checks), 'check')}: all is well"
    return f"{plural(len(checks), 'check')}: {failed} failed, {warned} to look at"


def fix_lines(check: Check, width: int) -> list[StyledLine]:
    """The lines on what to do about a check."""
    if check.fix:
        return wrapped([line(span(" → ", Tone.ACCENT), span(check.fix))], width, 3)
    return [line(span(" nothing to do", Tone.DIM))]


def check_lines(check: Check, width: int) -> list[StyledLine]:
    """The page of a check with everything that is known about it."""
    word, tone = STATES[check.state]
    rows = wrapped([line(StyledText(" "), span(word, tone), span(f"  {check.name}", Tone.STRONG))], width, 1)
    rows += [(), *wrapped(text_lines(check.message, margin=1), width, 1), ()]
    if check.difference:
        changes = [line(StyledText("   "), StyledText(strict_text(change))) for change in check.difference]
        rows += [line(span(" what differs", Tone.DIM)), *wrapped(changes, width, 3), ()]
    return [*rows, *fix_lines(check, width)]


def _first_line(check: Check) -> str:
    return check.message.split("\n", 1)[0]


MAX_DETAIL_LINES = 4
"""Lines of the remedy that are shown below the list; Enter shows all of it."""
_EMPTY = (
    (
        "Doctor checks the registry, the policy and the settings, every sidecar, trust, the log, the socket,"
        " the display, and this terminal. For each problem it says what you can do."
    ),
    "",
    "It checks when this screen is first shown, and when you ask again. It changes nothing.",
)


class DoctorView(FixActions):
    """The results of the last checks. The first checks are made when the view is first shown."""

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
        """Place the summary, the checks, and the remedy of the check under the cursor."""
        yield self._top
        yield self._list
        yield self._empty
        yield self._details

    def on_mount(self) -> None:
        """Show what is known."""
        self._show()

    def changed(self, topics: frozenset[Topic]) -> None:
        """Show nothing new: checks cost time, so they are only made when the person asks."""

    def focus_here(self) -> None:
        """Give the keys to the list. The first time, make the checks."""
        self.screen.set_focus(self._details_shown)
        if self._checked_at is None:
            self.action_again()

    def action_again(self) -> None:
        """Make all checks again."""
        if not self._checking:
            self._checking = True
            self._top.redraw()
            self.run_worker(self._run_checks(), group="doctor")

    def action_copy(self) -> None:
        """Copy all results to the terminal's clipboard, as JSON."""
        if not self._checks:
            self._notice("nothing has been checked yet")
            return
        self.app.copy_to_clipboard(json.dumps(msgspec.to_builtins(self._checks), indent=2))
        self._notice("copied as JSON")

    def action_fix(self) -> None:
        """Show the fix of the check under the cursor, or say where it is done."""
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
            client = await self._state.first_client()
            found = [*await client.checks(), *await self._terminal_checks()]
        except FlyError as error:
            self._notice(f"not checked: {error}")
        else:
            self._checks, self._checked_at = tuple(found), self._state.now()
        finally:
            self._checking = False
            self._show()

    async def _terminal_checks(self) -> list[Check]:
        """The checks of this terminal; none where there is no terminal."""
        find_terminal, size = self._state.find_terminal, self.app.size
        if find_terminal is None:
            return []
        # In a thread, since it asks tmux, which may take some seconds to answer.
        facts = await anyio.to_thread.run_sync(find_terminal, (size.width, size.height))
        counts = input_counts(self.app)
        return list(
            terminal_checks(msgspec.structs.replace(facts, dropped=counts.dropped, faults=counts.faults))
        )

    @on(VirtualList.Moved)
    def _on_cursor_moved(self) -> None:
        self._details.redraw()

    @on(VirtualList.Chosen)
    def _on_row_opened(self, event: VirtualList.Chosen) -> None:
        event.stop()
        check = self._check
        if check is not None:

            def check_json() -> str:
                return json.dumps(msgspec.to_builtins(check), indent=2)

            page = PageScreen(self._state, "Doctor", lambda width: check_lines(check, width), copy=check_json)
            self.app.push_screen(page)

    @property
    def _details_shown(self) -> VirtualList | LineView:
        return self._list if self._list.display else self._empty

    @property
    def _check(self) -> Check | None:
        row = self._list.row
        return row.check if isinstance(row, CheckRow) else None

    def _show(self) -> None:
        # The widget with the focus may be hidden now. Then the focus moves to the one that is shown.
        rows, here = check_rows(self._checks), self.screen.focused in (self._list, self._empty)
        self._list.set_rows(rows)
        self._list.display, self._empty.display = bool(rows), not rows
        for bar in (self._top, self._details):
            bar.redraw()
        self._empty.rebuild()
        if here:
            self.screen.set_focus(self._details_shown)

    def tick(self) -> None:
        """Draw again how long ago the checks were made."""
        if self.display:
            self._top.redraw()

    def _top_lines(self, width: int) -> Sequence[StyledLine]:
        if self._checking:
            rows = [line(span(" checking everything…", Tone.ACCENT))]
        elif self._checked_at is None:
            return []
        else:
            ago = f"  checked {age(self._state.now() - self._checked_at)} ago"
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
