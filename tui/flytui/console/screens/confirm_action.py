"""A screen that shows an action before it is done. It is armed like a card; the approve key does the action,
and Escape leaves everything as it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from flycore.model.enums import Risk
from flycore.model.errors import FlyError
from flytui.console.screens.armed import ArmedScreen, key_lines_with_state
from flytui.console.screens.arming import ArmingState
from flytui.console.state import ConsoleState
from flytui.console.widgets.lines import LineBuilder
from flytui.text.lines import StyledLine, StyledText, Tone, line, span, wrap

Action = Callable[[], Awaitable[str]]
"""Does the action. It returns `""` where it was done, and otherwise a sentence that says why not."""
COPY_KEY = "y"


class ConfirmActionScreen(ArmedScreen[bool]):
    """An action with its confirmation. The screen gives True once the action was done. Enter, a click and
    pasted text do nothing."""

    def __init__(
        self,
        state: ConsoleState,
        title: str,
        heading: str,
        body: LineBuilder,
        does: str,
        act: Action | None,
        *,
        copy: str = "",
    ) -> None:
        """Build the screen. `does` says what the approve key does. Where `act` is None nothing can be done
        here; the copy key sends `copy` to the clipboard."""
        super().__init__(state, title, ArmingState(Risk.MEDIUM, read_whole=True))
        self._subject = heading
        self._build_body = body
        self._approve_label = does
        self._action = act
        self._copy = copy
        self._outcome = ""

    def _handle_key(self, key: str, now: float) -> None:
        if self._is_copy_key(key):
            self._card.note_key(now)
            self.app.copy_to_clipboard(self._copy)
            self._outcome = "copied"
        else:
            super()._handle_key(key, now)

    def _is_copy_key(self, key: str) -> bool:
        """Whether the key copies. It does not where the person has made it the approve key."""
        free = COPY_KEY not in self._state.keys.keys_for("card.approve")
        return bool(self._copy) and free and key == COPY_KEY

    def _approval(self) -> Coroutine[Any, Any, None] | None:
        return None if self._action is None else self._run_action(self._action)

    async def _run_action(self, act: Action) -> None:
        try:
            why_not = await self._state.shared.approval_obstacle() or await act()
        except FlyError as error:
            why_not = str(error)
        if why_not:
            self._outcome = f"not done: {why_not}"
        else:
            self.dismiss(True)

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        return wrap(line(span(f" {self._subject}", Tone.STRONG)), width, 1)

    def _body_lines(self, width: int) -> Sequence[StyledLine]:
        return self._build_body(width)

    def _key_lines(self, width: int) -> Sequence[StyledLine]:
        if self._outcome:
            state = span(f" {self._outcome}", Tone.WARN)
        elif self._sending:
            state = span(" sending the answer…", Tone.ACCENT)
        else:
            state = StyledText("") if self._action is None else self._readiness()
        pairs = [
            *(
                [(self._state.keys.label("card.approve"), self._approve_label)]
                if self._action is not None
                else []
            ),
            *([(COPY_KEY, "copy it")] if self._is_copy_key(COPY_KEY) else []),
            ("↑↓ PgUp PgDn", "read"),
            ("Esc", "leave it as it is"),
        ]
        return key_lines_with_state(state, pairs, width)
