"""The screen that asks for trust: what the new registry entries would run. It is armed like a card, and `a`
trusts them."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from flycore.model.enums import Risk
from flycore.model.errors import FlyError
from flycore.model.question import TrustItem
from flysafe.text import strict_text
from flytui.console.screens.armed import ArmedScreen, key_lines_with_state
from flytui.console.screens.arming import ArmingState
from flytui.console.state import ConsoleState, Topic
from flytui.text.labels import plural
from flytui.text.lines import StyledLine, StyledText, Tone, difference_lines, line, span, wrap, wrapped

_ARMING = ArmingState(Risk.MEDIUM, read_whole=True)


def _change_label(item: TrustItem) -> str:
    if item.tools:
        return "± tools that changed, or are new: they wait; the server's other tools run on"
    if not item.difference:
        return "± changed since it was trusted"
    return "± changed since it was trusted; the trusted value runs on meanwhile"


class TrustScreen(ArmedScreen[bool]):
    """The entries that wait for trust. A change meanwhile makes it a new question. Escape trusts nothing."""

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(state, "Trust", _ARMING)
        self._items: tuple[TrustItem, ...] = state.trust
        self._outcome = ""

    def changed(self, topics: frozenset[Topic]) -> None:
        """Show entries that changed as a new question, which has to be read and is armed from the start."""
        if Topic.TRUST in topics and self._state.trust != self._items and not self._sending:
            self._items = self._state.trust
            if not self._items:
                self.dismiss(True)
                return
            self._show_question(_ARMING)
        self._redraw()

    def _approval(self) -> Coroutine[Any, Any, None]:
        return self._send_trust()

    async def _send_trust(self) -> None:
        """Send trust for exactly the digests that were shown."""
        # Taken before the request: entries that change while it is sent are not trusted with it.
        shown = tuple((item.sidecar, item.digest) for item in self._items)
        try:
            obstacle = await self._state.approval_obstacle()
            if obstacle:
                self._outcome = f"nothing was trusted: {obstacle}"
                return
            outcome = await self._state.approver.trust(shown)
        except FlyError as error:
            self._outcome = f"nothing was trusted: {error}"
            return
        if outcome.accepted:
            self._state.notice = f"{plural(len(shown), 'entry', 'entries')} trusted"
            self.dismiss(True)
        else:
            self._outcome = f"nothing was trusted: {outcome.why_not or 'refused'}"

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        count = plural(len(self._items), "entry", "entries")
        rows = [
            line(
                span(f" {count} of this project's registry would run programs on this machine", Tone.STRONG)
            ),
            line(span(" None of these programs runs, not even for a probe, before you trust it.", Tone.DIM)),
        ]
        return wrapped(rows, width, 1)

    def _body_lines(self, width: int) -> Sequence[StyledLine]:
        rows: list[StyledLine] = []
        for item in self._items:
            mark = span(_change_label(item), Tone.WARN) if item.changed else span("new", Tone.DIM)
            name = StyledText(strict_text(item.sidecar), Tone.STRONG)
            rows += [(), *wrap(line(StyledText(" "), name, StyledText("  "), mark), width, 3)]
            rows += difference_lines(item.difference, width, 3)
            for text in item.lines:
                rows += wrap(line(StyledText("   "), StyledText(strict_text(text))), width, 5)
            rows += wrap(line(StyledText("   "), span(f"sha256 {item.digest}", Tone.DIM)), width, 5)
        return rows[1:]

    def _key_lines(self, width: int) -> Sequence[StyledLine]:
        state = span(f" {self._outcome}", Tone.WARN) if self._outcome else self._readiness()
        pairs = [
            (self._state.keys.label("card.approve"), f"trust all {len(self._items)}"),
            ("↑↓ PgUp PgDn", "read"),
            ("Esc", "trust nothing now"),
        ]
        return key_lines_with_state(state, pairs, width)
