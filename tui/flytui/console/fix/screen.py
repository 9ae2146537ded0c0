"""An action that is shown first: armed like a card, done by the approve key, left by Escape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from flycore.model.enums import Risk
from flycore.model.errors import FlyError
from flytui.console.approvals.keys import ArmingState
from flytui.console.desk import Desk
from flytui.console.paint import Line, Span, Tone, line, span, wrap
from flytui.console.screens.armed import ArmedScreen, foot
from flytui.console.views import LineBuilder

Action = Callable[[], Awaitable[str]]
"""Does it; a sentence says why it was not done, nothing that it was."""
COPY_KEY = "y"


class ConfirmActionScreen(ArmedScreen[bool]):
    """True once it was done. Enter, a click and pasted text do nothing."""

    def __init__(
        self,
        desk: Desk,
        title: str,
        heading: str,
        body: LineBuilder,
        does: str,
        act: Action | None,
        *,
        copy: str = "",
    ) -> None:
        """`does` says what the approve key does; without `act` nothing can be done here but `copy` what is
        shown."""
        super().__init__(desk, title, ArmingState(Risk.MEDIUM, whole=True))
        self._subject = heading
        self._shown = body
        self._does = does
        self._act = act
        self._copy = copy
        self._outcome = ""

    def _press(self, key: str, now: float) -> None:
        if self._is_copy_key(key):
            self._card.note(now)
            self.app.copy_to_clipboard(self._copy)
            self._outcome = "copied"
        else:
            super()._press(key, now)

    def _is_copy_key(self, key: str) -> bool:
        """Whether the key copies: not where it is the person's own approve key."""
        free = COPY_KEY not in self._desk.keys.of("card.approve")
        return bool(self._copy) and free and key == COPY_KEY

    def _approve(self) -> Coroutine[Any, Any, None] | None:
        return None if self._act is None else self._send(self._act)

    async def _send(self, act: Action) -> None:
        try:
            why_not = await act()
        except FlyError as error:
            why_not = str(error)
        if why_not:
            self._outcome = f"not done: {why_not}"
        else:
            self.dismiss(True)

    def _top(self, width: int) -> Sequence[Line]:
        return wrap(line(span(f" {self._subject}", Tone.STRONG)), width, 1)

    def _body(self, width: int) -> Sequence[Line]:
        return self._shown(width)

    def _keys(self, width: int) -> Sequence[Line]:
        if self._outcome:
            state = span(f" {self._outcome}", Tone.WARN)
        else:
            state = Span("") if self._act is None else self._readiness()
        pairs = [
            *([(self._desk.keys.shown("card.approve"), self._does)] if self._act is not None else []),
            *([(COPY_KEY, "copy it")] if self._is_copy_key(COPY_KEY) else []),
            ("↑↓ PgUp PgDn", "read"),
            ("Esc", "leave it as it is"),
        ]
        return foot(state, pairs, width)
