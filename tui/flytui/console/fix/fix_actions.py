"""The actions that repair something from a view: a program on the terminal, trust, a probe, a switch, a first
registry. Each is shown exactly before it is done.

The screens that show it are imported where they are opened, because the first frame of the console does
without them.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import ClassVar

from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from flycore.model.approval import Outcome
from flycore.model.diagnostics import Fix, FixKind
from flycore.model.errors import FlyError
from flycore.model.stability import Reason
from flysafe.text import strict_text
from flytui.console.catalog.catalog_rows import CatalogRow
from flytui.console.state import ConsoleState, StateView, Topic
from flytui.console.terminal import suspend_for
from flytui.console.widgets.lines import LineBar, LineBuilder
from flytui.text.lines import StyledLine, StyledText, Tone, line, span, wrap

NO_EDITOR = "No editor was found. Set VISUAL or EDITOR, start flytui again, or open the file yourself."
NO_TERMINAL = (
    "This console cannot run a program on its terminal. Copy the command with y and run it yourself."
)
REGISTRY = "tools/external.tools.jsonc"


def quoted_command(argv: Sequence[str]) -> str:
    """The arguments as one line that a shell would read as exactly these arguments, with nothing hidden."""
    return strict_text(shlex.join(argv))


def fix_reason_lines(reason: Reason, width: int) -> list[StyledLine]:
    """The lines that name the problem and its remedy."""
    rows = wrap(line(StyledText(" "), span(f"{reason.code.value}: {reason.message}")), width, 3)
    return [*rows, *wrap(line(StyledText(" "), span(f"→ {reason.remedy}", Tone.DIM)), width, 3), ()]


def program_lines(fix: Fix, argv: tuple[str, ...], lent: bool, width: int) -> list[StyledLine]:
    """The lines that show the program that would run, or say what to do where none can. `lent` says whether
    there is a terminal to run it on."""
    rows: list[StyledLine] = wrap(line(StyledText(" "), span(f"To {fix.words}", Tone.STRONG)), width, 1)
    if fix.kind is FixKind.EDIT:
        place = f"{fix.file}:{fix.line}" if fix.line else fix.file
        rows += [
            (),
            *wrap(line(StyledText(" "), span("opens  ", Tone.DIM), StyledText(strict_text(place))), width, 3),
        ]
    if argv:
        rows += [
            (),
            *wrap(
                line(StyledText(" "), span("runs, without a shell, on this terminal:", Tone.DIM)), width, 1
            ),
        ]
        rows += wrap(line(StyledText("   "), StyledText(quoted_command(argv), Tone.ACCENT)), width, 5)
    missing = NO_TERMINAL if not lent else "" if argv else NO_EDITOR
    return [
        *rows,
        *([(), *wrap(line(StyledText(" "), span(missing, Tone.WARN)), width, 1)] if missing else []),
    ]


def switch_lines(sidecar: str, file: str, width: int) -> list[StyledLine]:
    """The lines that say what switching a sidecar on changes."""
    change = (
        f'sets "enabled" of {strict_text(sidecar)} to true in {strict_text(file)}; '
        "nothing else in the file changes"
    )
    unchanged = "Policy and approvals stay as they are: its calls are still judged, and you are still asked."
    return [
        *wrap(line(StyledText(" "), StyledText(change)), width, 1),
        (),
        *wrap(line(StyledText(" "), span(unchanged, Tone.DIM)), width, 1),
    ]


def permit_lines(sidecar: str, fix: Fix, width: int) -> list[StyledLine]:
    """The lines that show the change of an entry's permissions."""
    head = f"changes {strict_text(sidecar)} in {strict_text(fix.file)}; nothing else in the file changes"
    rows = [*wrap(line(StyledText(" "), StyledText(head)), width, 1), ()]
    for change in fix.difference:
        tone = Tone.WARN if change.startswith("+") else Tone.DIM
        rows += wrap(line(StyledText("   "), StyledText(strict_text(change), tone)), width, 5)
    after = (
        "The program chose what it asked for: add it only if the tool should have it. The changed entry asks"
        " for trust again, and until then the tool runs as before."
    )
    return [*rows, (), *wrap(line(StyledText(" "), span(after, Tone.DIM)), width, 1)]


class FixActions(Vertical):
    """A view from which a person can run a program on the terminal, open the trust screen, probe a sidecar,
    or write a first registry. A subclass sets `_state`."""

    _state: ConsoleState

    def _open_trust(self) -> None:
        from flytui.console.screens.trust import TrustScreen

        if self._state.trust:
            self.app.push_screen(TrustScreen(self._state))
        else:
            self._notice("nothing waits for trust")

    def _confirm_program(self, sidecar: str, heading: str, why: LineBuilder, fix: Fix) -> None:
        """Show a program, and run it on the terminal once the person has confirmed it."""
        programs = self._state.terminal_programs
        argv = programs.argv(fix) if programs is not None else fix.argv

        def lines(width: int) -> Sequence[StyledLine]:
            return [(), *why(width), *program_lines(fix, argv, programs is not None, width)]

        async def nothing() -> str:
            return ""

        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(
                    self._run_on_terminal(sidecar, argv, fix.kind is FixKind.COMMAND), group="lend"
                )

        act = nothing if argv and programs is not None else None
        does = "run it" if fix.kind is FixKind.COMMAND else "open it"
        from flytui.console.screens.confirm_action import ConfirmActionScreen

        screen = ConfirmActionScreen(self._state, "Fix", heading, lines, does, act, copy=shlex.join(argv))
        self.app.push_screen(screen, answered)

    async def _run_on_terminal(self, sidecar: str, argv: tuple[str, ...], read: bool) -> None:
        """Lend the terminal to the program, show its exit status, and probe the sidecar again."""
        state, programs = self._state, self._state.terminal_programs
        if programs is None or state.shared.suspended:
            return
        ended = 0

        async def play() -> None:
            nonlocal ended
            ended = await programs.run(argv, read)

        try:
            await suspend_for(self.app, state, play, self._refresh_screens)
        except SuspendNotSupported:
            self._notice(f"this terminal cannot run another program; run it yourself: {quoted_command(argv)}")
            return
        self._notice(f"{os.path.basename(argv[0])} ended with exit status {ended}")
        if sidecar:
            await self._probe(sidecar)

    async def _refresh_screens(self, topics: frozenset[Topic]) -> None:
        for screen in self.app.screen_stack:
            if isinstance(screen, StateView) and screen.is_mounted:
                screen.changed(topics)

    async def _probe(self, sidecar: str) -> None:
        try:
            await self._state.client.probe(sidecar)
        except FlyError as error:
            self._notice(f"not probed: {error}")

    def action_start(self) -> None:
        """Show what the bundled sidecars find on this machine. What a person ticks there is shown as a change
        of the registry, and written once they have confirmed it."""
        from flytui.console.screens.starter import StarterScreen

        if self._state.no_decision_reason:
            self._notice(self._state.no_decision_reason)
            return

        def written(file: str) -> None:
            self._notice(f"{file} is written, and trusted as you read it")

        self.app.push_screen(StarterScreen(self._state, written))

    def _notice(self, words: str) -> None:
        self._state.shared.notice = words
        self.post_message(LineBar.Stale())


class CatalogFixActions(FixActions):
    """A view with a row of the catalog under its cursor, and the actions that repair or switch its
    sidecar."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("F", "fix", "Fix", show=False, id="catalog.fix"),
        Binding("E", "enable", "Enable", show=False, id="catalog.enable"),
        Binding("X", "disable", "Disable", show=False, id="catalog.disable"),
        Binding("i", "start", "First registry", show=False, id="catalog.init"),
        Binding("K", "sources", "Kits and sources", show=False, id="catalog.sources"),
    ]
    HINTS = (("catalog.fix", "fix"), ("catalog.enable", "enable"), ("catalog.disable", "disable"))

    @property
    def row(self) -> CatalogRow | None:
        """The row under the cursor."""
        raise NotImplementedError

    def refused(self) -> bool:
        """Whether nothing can be done about the row under the cursor yet; then a notice says why."""
        raise NotImplementedError

    def action_sources(self) -> None:
        """Open the screen of kits and sources, from which MCP servers of other clients can be imported."""
        from flytui.console.screens.sources import SourcesScreen

        self.app.push_screen(SourcesScreen(self._state))

    def action_fix(self) -> None:
        """Show the first fix that a reason of this row offers, or do what that kind of fix needs."""
        if self.refused():
            return
        row = self.row
        reason = first_fixable(row.stability.reasons) if row is not None else None
        if row is None or reason is None or reason.fix is None:
            reasons = row.stability.reasons if row is not None else ()
            todo = f"flytui has no key for this: {strict_text(reasons[0].remedy)}" if reasons else ""
            self._notice(todo or "nothing to fix here")
            return
        match reason.fix.kind:
            case FixKind.COMMAND | FixKind.EDIT:
                heading = f"{reason.code.value} · {reason.fix.words}"
                self._confirm_program(
                    row.sidecar, heading, lambda width: fix_reason_lines(reason, width), reason.fix
                )
            case FixKind.ENABLE:
                self._switch_on(row, reason)
            case FixKind.PERMIT:
                self._permit(row, reason, reason.fix)
            case FixKind.TRUST:
                self._open_trust()
            case FixKind.PROBE:
                self._notice(f"asking {row.sidecar} again; its answer shows on the ladder")
                self.run_worker(self._probe(row.sidecar), group="probe")
            case FixKind.INIT:
                self.action_start()

    def _switch_on(self, row: CatalogRow, reason: Reason) -> None:
        file = row.offered_by.entry.position.file if row.offered_by else REGISTRY

        def lines(width: int) -> Sequence[StyledLine]:
            return [(), *fix_reason_lines(reason, width), *switch_lines(row.sidecar, file, width)]

        async def switch() -> str:
            return _refusal(await self._state.approver.enable(row.sidecar, True, ""))

        def answered(yes: bool | None) -> None:
            if yes:
                self._notice(f"{row.sidecar} is on")

        from flytui.console.screens.confirm_action import ConfirmActionScreen

        heading = f"{row.sidecar} is switched off"
        self.app.push_screen(
            ConfirmActionScreen(self._state, "Fix", heading, lines, "switch it on", switch), answered
        )

    def _permit(self, row: CatalogRow, reason: Reason, fix: Fix) -> None:
        """Show what is added to the permissions of the entry, and add it once the person has confirmed it."""

        def lines(width: int) -> Sequence[StyledLine]:
            return [(), *fix_reason_lines(reason, width), *permit_lines(row.sidecar, fix, width)]

        async def permit() -> str:
            return _refusal(await self._state.approver.permit(row.sidecar, fix.digest))

        def answered(yes: bool | None) -> None:
            if yes:
                self._notice(f"{row.sidecar} has changed: T shows it, and asks whether you trust it")

        from flytui.console.screens.confirm_action import ConfirmActionScreen

        heading = f"{row.sidecar} lacks a permission"
        screen = ConfirmActionScreen(self._state, "Fix", heading, lines, "add it", permit)
        self.app.push_screen(screen, answered)

    def action_enable(self) -> None:
        """Ask for a reason, which may be empty, and switch this row's sidecar on. The log keeps the
        reason."""
        row = self._row_with_entry()
        if row is not None and row.offered_by is not None:
            if row.offered_by.entry.enabled:
                self._notice(f"{row.sidecar} is on already")
            else:
                note = "Why, for the log; you may leave it empty. Its calls are judged as before."
                self._switch(row.sidecar, True, note)

    def action_disable(self) -> None:
        """Ask for a reason, and switch this row's sidecar off. No new call of it starts; calls that run go on
        to their end."""
        row = self._row_with_entry()
        if row is not None:
            note = "Why it is off, for everyone who sees it. Calls that run now go on to their end."
            self._switch(row.sidecar, False, note)

    def _row_with_entry(self) -> CatalogRow | None:
        """The row, where a registry entry offers it and this console may decide; else None, and a notice."""
        row = self.row
        if self._state.no_decision_reason:
            self._notice(self._state.no_decision_reason)
            return None
        if self.refused():
            return None
        if row is None or row.offered_by is None:
            self._notice("no entry of a registry offers this")
            return None
        return row

    def _switch(self, sidecar: str, enabled: bool, note: str) -> None:
        def answered(reason: str | None) -> None:
            if reason is not None:
                self.run_worker(self._send_switch(sidecar, enabled, reason), group="switch")

        from flytui.console.screens.text_prompt import TextPromptScreen

        word = "on" if enabled else "off"
        screen = TextPromptScreen(
            f"Switch {sidecar} {word}", note, f"switch {word}", "leave it as it is", may_be_empty=enabled
        )
        self.app.push_screen(screen, answered)

    async def _send_switch(self, sidecar: str, enabled: bool, reason: str) -> None:
        try:
            why_not = _refusal(await self._state.approver.enable(sidecar, enabled, reason))
        except FlyError as error:
            why_not = str(error)
        done = f"{sidecar} is {'on' if enabled else 'off'}"
        self._notice(f"nothing was changed: {why_not}" if why_not else done)


def first_fixable(reasons: Sequence[Reason]) -> Reason | None:
    """The first reason that offers a fix; None where none does."""
    return next((reason for reason in reasons if reason.fix is not None), None)


def _refusal(outcome: Outcome) -> str:
    return "" if outcome.accepted else outcome.why_not or "refused"
