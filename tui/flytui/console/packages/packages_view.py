"""The Packages view: what is installed and staged, with its state and what is to be done.

`s` stages a version, which changes nothing that runs. Every key that does change something opens a screen
that shows it exactly, and is armed like a card.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from flycore.model.approval import Outcome
from flycore.model.enums import PackageAction, PackageScope, UpgradeState
from flycore.model.errors import FlyError
from flycore.model.package import PackageView
from flytui.console.packages.package_rows import (
    COLUMN_TITLES,
    PackageRow,
    change_rows,
    check_rows,
    package_columns,
    package_lines,
)
from flytui.console.screens.base import PageScreen
from flytui.console.screens.confirm_action import ConfirmActionScreen
from flytui.console.screens.text_prompt import TextPromptScreen
from flytui.console.state import ConsoleState, Topic
from flytui.console.widgets.lines import LineBar, LineView
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.lines import StyledLine, StyledText, Tone, line, span, truncated, wrapped

HEADING = "Packages"
NO_PREVIOUS = "there is no version to go back to"
CHANGED = "the package has changed since it was shown: look at it again"
_BROKEN = (UpgradeState.ROLLBACK_REQUIRED, UpgradeState.FAILED)
_EMPTY_TEXT = (
    "No package is installed or staged.",
    "",
    (
        "A package is a folder or an archive (.zip, .tar, .tar.gz) with a sidecar.json. s stages one: it is"
        " checked and unpacked, and no program of it is started. Then you read what it would change, and a"
        " applies it. In a shell: flytui packages stage PATH."
    ),
    "",
    (
        "S stages one for you, in every project. A version that was applied and does not answer its probe is"
        " hidden from agents, and one key goes back to the version before."
    ),
)
_WORDS: dict[PackageAction, tuple[str, str, str]] = {
    PackageAction.APPLY: ("Apply", "apply and trust it", "applied"),
    PackageAction.ROLLBACK: ("Roll back", "go back", "rolled back"),
    PackageAction.REMOVE: ("Remove", "remove it", "removed"),
}


class PackagesView(Vertical):
    """The list of the packages of the project and of the user."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stage('project')", "Stage", show=False, id="packages.stage"),
        Binding("S", "stage('user')", "Stage for me", show=False, id="packages.stage-user"),
        Binding("a", "change('apply')", "Apply", show=False, id="packages.apply"),
        Binding("b", "change('rollback')", "Roll back", show=False, id="packages.rollback"),
        Binding("x", "change('remove')", "Remove", show=False, id="packages.remove"),
        Binding("d", "discard", "Discard", show=False, id="packages.discard"),
        Binding("v", "verify", "Verify", show=False, id="packages.verify"),
        Binding("y", "copy", "Copy", show=False, id="packages.copy"),
    ]
    KEYS: ClassVar[list[tuple[str, str]]] = [
        ("packages.stage", "stage"),
        ("packages.apply", "apply"),
        ("packages.rollback", "roll back"),
        ("packages.remove", "remove"),
        ("packages.verify", "verify"),
        ("list.open", "details"),
    ]

    def __init__(self, state: ConsoleState, *, id: str) -> None:
        super().__init__(id=id)
        self._state = state
        self._list = VirtualList(id="package-rows")
        self._empty = LineView(self._empty_lines, id="packages-empty")
        self._titles = LineBar(self._title_lines, id="package-titles")

    def compose(self) -> ComposeResult:
        """Yield the column headings, the list, and the text that is shown while the list is empty."""
        yield self._titles
        yield self._list
        yield self._empty

    def on_mount(self) -> None:
        """Show what is known already."""
        self.changed(frozenset((Topic.PACKAGES,)))

    def changed(self, topics: frozenset[Topic]) -> None:
        """Show the rows again where a package changed."""
        if Topic.PACKAGES not in topics:
            return
        rows, here = [PackageRow(view) for view in self._state.packages], self._shown.has_focus
        self._list.set_rows(rows)
        self._list.display, self._empty.display = bool(rows), not rows
        self._titles.redraw()
        self._empty.rebuild()
        if here:
            self.screen.set_focus(self._shown)

    def focus_here(self) -> None:
        """Give the keys to what is shown."""
        self.screen.set_focus(self._shown)

    def action_stage(self, scope: str) -> None:
        """Ask for the path of a version, and stage it."""
        if self._cannot_decide():
            return
        for_user = scope == PackageScope.USER
        root = self._state.status.app_root if self._state.status is not None else os.getcwd()
        whose = "for you, in every project" if for_user else "for this project"

        def answered(path: str | None) -> None:
            if path is not None:
                source = os.path.join(root, os.path.expanduser(path))
                self.run_worker(self._stage(source, PackageScope(scope)), group="packages")

        note = f"A folder or an archive, below {root} or with its whole path. What runs does not change."
        prompt = TextPromptScreen(
            f"Stage a package {whose}", note, "check and stage it", "back", wanted="a path", verbatim=True
        )
        self.app.push_screen(prompt, answered)

    async def _stage(self, source: str, scope: PackageScope) -> None:
        self._notice(f"checking {source}…")
        outcome = await self._outcome(lambda: self._state.approver.stage_package(source, scope))
        if outcome.accepted:
            self._notice(f"staged {outcome.why_not}: enter shows what it would change")
        else:
            self._notice(f"not staged: {outcome.why_not}")

    def action_change(self, word: str) -> None:
        """Show what a change of the package under the cursor does. An armed key then makes it."""
        action, view = PackageAction(word), self._view
        if self._cannot_decide() or view is None:
            return
        if why_not := _obstacle(action, view):
            self._notice(f"{view.id}: {why_not}")
        elif action is PackageAction.REMOVE and not view.version:
            self.action_discard()
        else:
            self._confirm_change(action, view)

    def _confirm_change(self, action: PackageAction, view: PackageView) -> None:
        title, does, done = _WORDS[action]
        digest = view.review.digest if action is PackageAction.APPLY and view.review is not None else ""
        noted = ""

        async def act() -> str:
            nonlocal noted
            if self._now(view) != view:
                return CHANGED
            outcome = await self._state.approver.change_package(action, view.id, view.scope, digest)
            noted = outcome.why_not
            return "" if outcome.accepted else outcome.why_not or "refused"

        def answered(yes: bool | None) -> None:
            if yes:
                self._notice(f"{view.id} is {done}{f': {noted}' if noted else ''}")

        def lines(width: int) -> Sequence[StyledLine]:
            return [(), *change_rows(action, view, width)]

        heading = f"{title} {_subject(action, view)}"
        screen = ConfirmActionScreen(self._state, title, heading, lines, does, act, copy=_json(view))
        self.app.push_screen(screen, answered)

    def action_discard(self) -> None:
        """Show the staged version, which an armed key then discards. What is installed stays."""
        view = self._view
        if self._cannot_decide() or view is None:
            return
        if not view.staged:
            self._notice(f"nothing of {view.id} is staged")
            return

        async def act() -> str:
            if self._now(view) != view:
                return CHANGED
            outcome = await self._state.approver.discard_package(view.id, view.scope)
            return "" if outcome.accepted else outcome.why_not or "refused"

        def lines(width: int) -> Sequence[StyledLine]:
            stays = f"{view.version} stays installed." if view.version else "Nothing of it is installed."
            words = f" The staged files of {view.staged} are removed. {stays} Nothing that runs changes."
            return [(), *wrapped([line(span(words))], width, 1)]

        def answered(yes: bool | None) -> None:
            if yes:
                self._notice(f"{view.id} {view.staged} is discarded")

        heading = f"Discard what is staged of {view.id}"
        screen = ConfirmActionScreen(self._state, "Discard", heading, lines, "discard it", act)
        self.app.push_screen(screen, answered)

    def action_verify(self) -> None:
        """Compare the files of every installed package with those that were installed."""
        self._notice("comparing the files…")
        self.run_worker(self._verify(), group="packages")

    async def _verify(self) -> None:
        try:
            checks = await self._state.client.verify_packages()
        except FlyError as error:
            self._notice(f"not verified: {error}")
            return
        self._notice("")
        self.app.push_screen(PageScreen(self._state, HEADING, lambda width: [(), *check_rows(checks, width)]))

    def action_copy(self) -> None:
        """Send the package under the cursor to the terminal's clipboard, as JSON."""
        view = self._view
        if view is not None:
            self.app.copy_to_clipboard(_json(view))
            self._notice("sent as JSON to the terminal's clipboard")

    @on(VirtualList.Chosen)
    def _chosen(self, event: VirtualList.Chosen) -> None:
        event.stop()
        first = self._view
        if first is None:
            return

        def lines(width: int) -> Sequence[StyledLine]:
            return package_lines(self._now(first) or first, width)

        page = PageScreen(self._state, HEADING, lines, copy=lambda: _json(self._now(first) or first))
        self.app.push_screen(page)

    async def _outcome(self, decide: Callable[[], Awaitable[Outcome]]) -> Outcome:
        try:
            return await decide()
        except FlyError as error:
            return Outcome(accepted=False, why_not=str(error))

    def _cannot_decide(self) -> bool:
        """Whether this console can decide nothing now; then it says so."""
        if self._state.no_decision_reason:
            self._notice(self._state.no_decision_reason)
        return bool(self._state.no_decision_reason)

    def _now(self, shown: PackageView) -> PackageView | None:
        """The same package as it is now; None where it is gone."""
        key = (shown.id, shown.scope)
        return next((view for view in self._state.packages if (view.id, view.scope) == key), None)

    @property
    def _shown(self) -> VirtualList | LineView:
        return self._list if self._list.display else self._empty

    @property
    def _view(self) -> PackageView | None:
        row = self._list.row
        return row.view if isinstance(row, PackageRow) else None

    def _notice(self, words: str) -> None:
        self._state.shared.notice = words
        self.post_message(LineBar.Stale())

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        if not self._state.packages:
            return []
        titles = [span(title, Tone.DIM) for title in COLUMN_TITLES]
        return [truncated((StyledText("  "), *package_columns(titles, width - 4)), width)]

    def _empty_lines(self, width: int) -> Sequence[StyledLine]:
        return [(), *wrapped([line(span(f" {text}")) for text in _EMPTY_TEXT], width, 1)]


def _obstacle(action: PackageAction, view: PackageView) -> str:
    """Why a change is not possible now; `""` where it is, or where only the kernel can tell."""
    if view.state is UpgradeState.APPLYING:
        return "a change is under way"
    if action is PackageAction.APPLY and view.review is None:
        return "nothing is staged"
    if action is PackageAction.ROLLBACK and not view.previous and view.state not in _BROKEN:
        return NO_PREVIOUS
    return ""


def _subject(action: PackageAction, view: PackageView) -> str:
    if action is PackageAction.APPLY:
        return f"{view.id} {view.staged}"
    if action is PackageAction.ROLLBACK:
        return f"{view.id} to {view.previous or 'what was there before'}"
    return f"{view.id} {view.version}"


def _json(view: PackageView) -> str:
    return json.dumps(msgspec.to_builtins(view), indent=2)
