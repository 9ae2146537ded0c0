"""One request on screen: drawn from the kernel's lines, read, armed, and given way to the next.

What is shown here decides nothing; `card` adds the keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from flycore.model.approval import ApprovalRequest, Ask
from flycore.model.enums import RequestState
from flytui.console.approvals.drawing import CardFrame, body_lines, foot_lines, title_lines
from flytui.console.approvals.keys import CONFIRM_UNTIL_S, NEVER, ArmingState
from flytui.console.desk import ConsoleState, Topic
from flytui.console.paint import StyledLine
from flytui.console.screens.armed import ArmedScreen

ADVANCE_S = 2.0
"""After so long, and without a key, a card that is over gives way to the next; `n` does so at once."""


def _without_expiry(request: ApprovalRequest) -> ApprovalRequest:
    """All of it but its time, which a hold moves: what is another, even by what a console may see of it, is
    another card."""
    return structs.replace(request, expires_at=0.0)


def _initial_arming(ask: Ask) -> ArmingState:
    request = ask.request
    return ArmingState(request.risk, request.letter, masked=bool(request.masked))


class RequestView(ArmedScreen[None]):
    """Shows one request, then whatever waits; ends when nothing does."""

    def __init__(self, desk: ConsoleState, ask: Ask) -> None:
        super().__init__(desk, "Approvals", _initial_arming(ask))
        self._ask = ask
        self._reveal = False
        self._outcome = ""
        self._succeeded = True
        self._answered_here = False
        self._notice = ""
        self._block_press: tuple[str, float] | None = None
        """Digest of the request on which `b` was pressed once, and when."""
        self._ended_at: float | None = None

    def changed(self, topics: frozenset[Topic]) -> None:
        """The queue moved: a request that changed under its id is another card."""
        if Topic.ASKS in topics:
            ask = self._desk.ask(self._ask.request.id)
            if ask is None:
                self._show_outcome("no longer there", good=False)
            elif _without_expiry(ask.request) != _without_expiry(self._ask.request):
                self._show_request(ask)
            else:
                self._ask = ask
        self._tick()

    def _show_masked(self) -> None:
        self._reveal = not self._reveal
        masked = bool(self._ask.request.masked) and not self._reveal
        self._card.arming = self._arming.with_read(end_seen=False, masked=masked)
        self._card.rebuild()

    def _show_outcome(self, outcome: str, *, good: bool) -> None:
        self._outcome, self._succeeded, self._ended_at = outcome, good, self._desk.clock()
        self._redraw()

    def _next(self) -> None:
        others = [ask for ask in self._desk.waiting if ask.request.id != self._ask.request.id]
        if others:
            self._show_request(others[0])
        else:
            self.dismiss()

    def _step(self, step: int) -> None:
        waiting = self._desk.waiting
        place = next((at for at, ask in enumerate(waiting) if ask.request.id == self._ask.request.id), 0)
        if len(waiting) > 1:
            self._show_request(waiting[(place + step) % len(waiting)])

    def _show_request(self, ask: Ask) -> None:
        self._ask, self._outcome, self._reveal, self._answered_here = ask, "", False, False
        self._ended_at, self._notice, self._block_press = None, "", None
        self._show_question(_initial_arming(ask))

    @property
    def _arming(self) -> ArmingState:
        return self._card.arming

    def _tick(self) -> None:
        if self._advance_due():
            self._next()
            return
        super()._tick()

    def _advance_due(self) -> bool:
        """Whether what became of this request has been on screen long enough. One that the person did
        not answer stays until another waits."""
        now = self._desk.clock()
        if not self._outcome and self._ask.state is RequestState.WAITING:
            return False
        self._ended_at = now if self._ended_at is None else self._ended_at
        quiet = now - max(self._ended_at, self._arming.last_key, self._desk.last_key)
        return self.is_current and quiet >= ADVANCE_S and (self._answered_here or bool(self._desk.waiting))

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        return title_lines(self._frame(), width)

    def _key_lines(self, width: int) -> Sequence[StyledLine]:
        return foot_lines(self._frame(), width)

    def _body_lines(self, width: int) -> Sequence[StyledLine]:
        return body_lines(
            self._ask.request,
            width,
            reveal=self._reveal,
            height=self._card.size.height,
            colours=not self.app.no_color,
        )

    def _frame(self) -> CardFrame:
        waiting = self._desk.waiting
        ids = [ask.request.id for ask in waiting]
        place = ids.index(self._ask.request.id) + 1 if self._ask.request.id in ids else 0
        return CardFrame(
            ask=self._ask,
            position=place,
            waiting=len(waiting),
            arming=self._arming,
            clock=self._desk.clock(),
            now=self._desk.now(),
            outcome=self._outcome,
            succeeded=self._succeeded,
            sending=self._sending,
            block_pressed=self._block_confirm_open(self._desk.clock()),
            notice=self._notice or self._desk.notice,
            keys=self._desk.keys,
        )

    def _block_confirm_open(self, now: float) -> bool:
        """Whether a second `b` would block the tool."""
        digest, at = self._block_press or ("", NEVER)
        return digest == self._ask.request.subject_digest and now - at <= CONFIRM_UNTIL_S
