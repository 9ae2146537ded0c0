"""The screen of one request: `RequestView` draws it and follows the queue, `RequestScreen` adds the keys.

There is one such screen and one queue for all roots, which it walks first in, first out. The screen has no
text field and nothing to click. Everything that approves goes through `ArmingState`; Escape, closing and
every accident leave the request waiting. An answer goes through the `QueuedRequest` that was on screen, which
knows its root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import structs
from textual.app import App

from flycore.approval.allowance_offer import AllowanceOffer, allowance_offer
from flycore.approval.requests import choices
from flycore.model.approval import Answer, ApprovalRequest, Ask, Outcome
from flycore.model.enums import Choice, Decision, RequestState
from flycore.model.errors import FlyError
from flytui.console.approvals.card_lines import (
    CardBody,
    CardFrame,
    CardView,
    body_of,
    foot_lines,
    pinned_lines,
    title_lines,
    why_lines,
)
from flytui.console.approvals.terms_screen import LeaseScreen, RuleScreen, SendAnswer
from flytui.console.forms.json_editor import EditInputScreen
from flytui.console.screens.armed import ArmedScreen
from flytui.console.screens.arming import (
    CONFIRM_FROM_S,
    CONFIRM_UNTIL_S,
    NEVER,
    QUIET_S,
    ArmingState,
    KeyEffect,
)
from flytui.console.screens.base import PageScreen
from flytui.console.screens.header import decided_line, root_span
from flytui.console.screens.help import help_screen
from flytui.console.screens.text_prompt import DenyReasonScreen
from flytui.console.state import DECIDED_S, Decided, QueuedRequest, Topic
from flytui.console.widgets.lines import LineBar
from flytui.text.card import card_keys, effect_text
from flytui.text.lines import StyledLine

ADVANCE_S = 2.0
"""Seconds without a key after which a request that has ended gives way to the next; `n` does so at once."""
DENY_MINUTES = 10
_APPROVING = frozenset((Choice.APPROVE_ONCE, Choice.LEASE, Choice.RULE))
_CHOICE_LABELS = {
    Choice.APPROVE_ONCE: "sent to the program",
    Choice.LEASE: "sent to the program, and allowed for a while",
    Choice.RULE: "rule written",
    Choice.DENY: "denied",
    Choice.BLOCK: "blocked for every caller",
}


def _without_expiry(request: ApprovalRequest) -> ApprovalRequest:
    """The request without the time of its end, for comparing. A hold moves that time; where anything else
    differs it is another card."""
    return structs.replace(request, expires_at=0.0)


def _initial_arming(ask: Ask) -> ArmingState:
    request = ask.request
    return ArmingState(request.risk, request.letter, masked=bool(request.masked))


class RequestView(ArmedScreen[None]):
    """One request as it is drawn, then the next that waits. The screen closes when nothing waits."""

    def __init__(self, queued: QueuedRequest) -> None:
        super().__init__(queued.root, "Approvals", _initial_arming(queued.ask))
        self._queued = queued
        self._body = CardBody([], frozenset(), {})
        self._pinned: tuple[ApprovalRequest, int, Sequence[StyledLine]] | None = None
        """The lines of the card that do not scroll, with the request and the width that they are for."""
        self._view = CardView()
        self._outcome = ""
        self._succeeded = True
        self._notice = ""
        self._follows = NEVER
        """When this card took the place of one that was decided."""
        self._block_press: tuple[str, float] | None = None
        """Digest of the request on which `b` was pressed once, and when."""
        self._ended_at: float | None = None
        self._offered: tuple[tuple[Ask, ...], ApprovalRequest, AllowanceOffer | None] | None = None
        """The allowance that was worked out last, with what it was worked out from."""

    @property
    def _ask(self) -> Ask:
        return self._queued.ask

    def changed(self, topics: frozenset[Topic]) -> None:
        """Follow the queue. A request that changed under its id is shown and armed as another card."""
        if Topic.ASKS in topics:
            ask = self._state.ask(self._ask.request.id)
            if ask is None:
                self._show_outcome("no longer there", good=False)
            elif _without_expiry(ask.request) != _without_expiry(self._ask.request):
                self._show_request(QueuedRequest(self._state, ask))
            else:
                self._queued = QueuedRequest(self._state, ask)
        self._tick()
        self._redraw()

    def _look(self, view: CardView) -> None:
        """Show the card in another way. What has been on screen in the way before does not count."""
        self._view = view
        masked = bool(self._ask.request.masked) and not view.reveal
        self._card.arming = self._arming.with_read(end_seen=False, masked=masked)
        self._card.rebuild()
        self.call_after_refresh(self._tick)

    def _show_outcome(self, outcome: str, *, good: bool) -> None:
        self._outcome, self._succeeded, self._ended_at = outcome, good, self._state.clock()
        self._redraw()

    def _next(self) -> None:
        others = [queued for queued in self._state.shared.waiting if queued.key != self._queued.key]
        if others:
            self._show_request(others[0])
        else:
            self.dismiss()

    def _step(self, step: int) -> None:
        waiting = self._state.shared.waiting
        place = next((at for at, queued in enumerate(waiting) if queued.key == self._queued.key), 0)
        if len(waiting) > 1:
            self._show_request(waiting[(place + step) % len(waiting)])

    def _show_request(self, queued: QueuedRequest) -> None:
        self._queued, self._outcome, self._view = queued, "", CardView()
        self._ended_at, self._notice, self._block_press = None, "", None
        self._use_root(queued.root)
        self._show_question(_initial_arming(queued.ask))

    @property
    def _arming(self) -> ArmingState:
        return self._card.arming

    def _tick(self) -> None:
        if self._advance_due():
            self._next()
            return
        super()._tick()

    def _advance_due(self) -> bool:
        """Whether the outcome of this request has been on screen long enough. A request that ended without an
        answer from this person stays until another one waits."""
        now = self._state.clock()
        if not self._outcome and self._ask.state is RequestState.WAITING:
            return False
        self._ended_at = now if self._ended_at is None else self._ended_at
        quiet = now - max(self._ended_at, self._arming.last_key, self._state.shared.last_key)
        return self.is_current and quiet >= ADVANCE_S and bool(self._state.shared.waiting)

    def _passing(self) -> tuple[object, ...]:
        """Everything about the keys that changes by the passing of time alone, `b` among them."""
        return *super()._passing(), self._block_confirm_open(self._state.clock())

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        pinned, request = self._pinned, self._ask.request
        if pinned is None or pinned[0] is not request or pinned[1] != width:
            pinned = request, width, pinned_lines(request, width, root_span(self._state))
            self._pinned = pinned
        return title_lines(self._frame(), pinned[2], width)

    def _key_lines(self, width: int) -> Sequence[StyledLine]:
        return foot_lines(self._frame(), width)

    def _body_lines(self, width: int) -> Sequence[StyledLine]:
        self._body = body_of(
            self._ask.request,
            width,
            self._view,
            height=self._card.size.height,
            colours=not self.app.no_color,
        )
        return self._body.lines

    def _required_rows(self) -> frozenset[int]:
        return self._body.must_read

    def _frame(self) -> CardFrame:
        waiting = self._state.shared.waiting
        keys = [queued.key for queued in waiting]
        place = keys.index(self._queued.key) + 1 if self._queued.key in keys else 0
        return CardFrame(
            ask=self._ask,
            position=place,
            waiting=len(waiting),
            arming=self._arming,
            clock=self._state.clock(),
            now=self._state.now(),
            outcome=self._outcome,
            succeeded=self._succeeded,
            sending=self._sending,
            block_pressed=self._block_confirm_open(self._state.clock()),
            notice=self._notice or self._state.shared.notice,
            decided=decided_line(self._state),
            folded=self._body.folded,
            height=self.app.size.height,
            keys=self._state.keys,
            offer=self._offer(self._ask),
        )

    def _offer(self, ask: Ask) -> AllowanceOffer | None:
        """The allowance that the card offers first."""
        # Drawn each second, and worked out only if the queue or the request has changed.
        asks, known = self._state.asks, self._offered
        if known is None or known[0] is not asks or known[1] is not ask.request:
            known = (asks, ask.request, allowance_offer(ask.request, asks, self._state.now()))
            self._offered = known
        return known[2]

    def _block_confirm_open(self, now: float) -> bool:
        """Whether a second `b` would block the tool."""
        digest, at = self._block_press or ("", NEVER)
        return digest == self._ask.request.subject_digest and now - at <= CONFIRM_UNTIL_S


class RequestScreen(RequestView):
    """A request with the keys that decide it. Every answer names exactly the request that was on screen."""

    def _handle_key(self, key: str, now: float) -> None:
        """Handle a key of the card, by what can be done with the request now."""
        key = self._state.keys.meant("card", key)
        self._notice = ""
        if self._outcome or self._ask.state is not RequestState.WAITING:
            self._card.note_key(now)
            self._key_after(key)
        elif self._state.no_decision_reason:
            self._card.note_key(now)
            self._key_viewing(key)
        elif self._block_confirm_open(now):
            self._card.note_key(now)
            self._key_blocking(key, now)
        else:
            self._key_waiting(key, now)

    def _key_viewing(self, key: str) -> None:
        """Handle a key in a console that cannot decide: it reads, pairs, or takes the root."""
        self._block_press = None
        if self._key_other(key):
            return
        keys = self._state.keys
        action = next((name for name in ("pair", "take") if key in keys.keys_for(f"app.{name}")), None)
        if action is None:
            self._notice = self._state.no_decision_reason
        else:
            self.dismiss()
            self.app.call_later(self.app.run_action, action)

    def _key_waiting(self, key: str, now: float) -> None:
        # A refusal, or a form to write in, counts after a pause, too: no letter of a reason may be lost.
        # A key held down for the card before this one must not refuse this one, too.
        belongs = self._arming.may_refuse(now) and now - self._follows >= QUIET_S
        # Asked before the press, which closes the window: the key that closes it must not do its other work,
        # or a mistyped letter would open a form.
        was_open = self._arming.confirm_open(now)
        pressed = self._card.press(key, now)
        if pressed is KeyEffect.APPROVED:
            self._answer(Answer(choice=Choice.APPROVE_ONCE))
        elif key == "d" and belongs:
            self._answer(Answer(choice=Choice.DENY))
        elif key == "t" and belongs:
            self._answer(Answer(choice=Choice.DENY, deny_minutes=DENY_MINUTES))
        elif pressed is KeyEffect.NOTHING and not was_open and not self._key_other(key) and belongs:
            self._key_further(key, now)

    def _key_other(self, key: str) -> bool:
        """Handle a key that only shows something, and return whether it was one."""
        if self._scroll(key):
            return True
        match key:
            case "escape":
                self.dismiss()
            case "n" | "p":
                self._step(1 if key == "n" else -1)
            case "v" if self._ask.request.masked:
                self._look(msgspec.structs.replace(self._view, reveal=not self._view.reveal))
            case "x":
                self._look(msgspec.structs.replace(self._view, canonical=not self._view.canonical))
            case "f" if self._body.folded or self._view.unfolded:
                self._look(msgspec.structs.replace(self._view, unfolded=not self._view.unfolded))
            case "w":
                request = self._ask.request
                self.app.push_screen(PageScreen(self._state, "Why", lambda width: why_lines(request, width)))
            case "question_mark" | "?":
                self.app.push_screen(help_screen(self._state, ("card",)))
            case _:
                return False
        return True

    def _key_further(self, key: str, now: float) -> None:
        """Handle a key that opens a form or holds the request's time, where the card offers it."""
        queued, ask, offered = self._queued, self._ask, choices(self._ask.request)
        self._notice = next((hint.off for hint in card_keys(ask.request) if hint.key == key), "")
        match key:
            case _ if self._notice:
                pass
            case "r":
                self.app.push_screen(DenyReasonScreen(ask.request.tool), self._deny_callback(queued))
            case "l" if Choice.LEASE in offered and self._card_read():
                self.app.push_screen(
                    LeaseScreen(self._state, ask.request, self._sender(queued), self._offer(ask)),
                    self._terms_callback(queued),
                )
            case "u" if Choice.RULE in offered and self._card_read():
                self.app.push_screen(
                    RuleScreen(self._state, ask.request, self._sender(queued)), self._terms_callback(queued)
                )
            case "e" if not ask.request.masked:
                self.app.push_screen(EditInputScreen(ask.request, queued.edit))
            case "b" if Choice.BLOCK in offered:
                self._block_press = (ask.request.subject_digest, now)
            case "h":
                self.run_worker(self._toggle_hold(queued), group="hold")
            case _:
                pass

    def _key_blocking(self, key: str, now: float) -> None:
        """Block the tool on the second `b`. Every other key only takes the question away."""
        _, opened = self._block_press or ("", now)
        self._block_press = None
        # A key held down repeats sooner than CONFIRM_FROM_S, and must not confirm itself.
        if key == "b" and now - opened >= CONFIRM_FROM_S and self._arming.may_refuse(now):
            self._answer(Answer(choice=Choice.BLOCK))

    def _key_after(self, key: str) -> None:
        if key == "escape":
            self.dismiss()
        elif key == "n":
            self._next()
        else:
            self._scroll(key)

    def _card_read(self) -> bool:
        """Whether the card has been read as far as a form on it demands; a notice says why not."""
        arming = self._arming
        unread = arming.pages_left or (arming.strict and (not arming.end_seen or arming.masked))
        self._notice = arming.blocked_reason(self._state.clock()) if unread else ""
        return not unread

    def _deny_callback(self, queued: QueuedRequest) -> Callable[[str | None], None]:
        def reasoned(reason: str | None) -> None:
            if reason is not None:
                self._answer(Answer(choice=Choice.DENY, reason=reason), queued)

        return reasoned

    def _sender(self, queued: QueuedRequest) -> SendAnswer:
        """A function that answers the request that was on screen when the form opened, and no other."""
        # Bound now: the screen may show another request, of another root, by the time the form closes.
        not_shown = self._body.not_shown(self._card.read_rows)

        async def send(answer: Answer) -> Outcome:
            if answer.choice in _APPROVING:
                if obstacle := await queued.root.shared.approval_obstacle():
                    return Outcome(accepted=False, why_not=obstacle)
                answer = structs.replace(answer, not_shown=not_shown)
            return await queued.decide(answer)

        return send

    def _terms_callback(self, queued: QueuedRequest) -> Callable[[Answer | None], None]:
        """A function that shows on the card the answer of a form that the kernel has accepted."""

        def accepted(answer: Answer | None) -> None:
            if answer is not None:
                self._show_answer(answer, queued)

        return accepted

    async def _toggle_hold(self, queued: QueuedRequest) -> None:
        try:
            held = await queued.hold(not queued.ask.held)
        except FlyError as error:
            self._notice = f"not held: {error}"
        else:
            self._notice = "" if held else "the request no longer waits"
        self._redraw()

    def _answer(self, answer: Answer, queued: QueuedRequest | None = None) -> None:
        """Send the answer for the request that was on screen when the key was pressed."""
        if not self._sending:
            self._start_sending(self._send(answer, queued or self._queued))

    async def _send(self, answer: Answer, queued: QueuedRequest) -> None:
        try:
            outcome = await self._sender(queued)(answer)
        except FlyError as error:
            self._show_outcome(f"the answer did not count: {error}", good=False)
            return
        if outcome.accepted:
            self._show_answer(answer, queued)
        else:
            self._show_outcome(f"the answer did not count: {outcome.why_not or 'refused'}", good=False)

    def _show_answer(self, answer: Answer, queued: QueuedRequest) -> None:
        """Say in the bar what became of the request, and go on with the next one."""
        for_minutes = f" for {answer.deny_minutes} minutes" if answer.deny_minutes else ""
        allows = answer.choice in _APPROVING and (
            answer.rule is None or answer.rule.decision is Decision.ALLOW
        )
        words = f"{_CHOICE_LABELS[answer.choice]}{for_minutes}"
        self._state.shared.decided = Decided(
            words, effect_text(queued.ask.request), allows, self._state.clock()
        )
        redraw_later(self.app)
        self._next()
        if self.is_current:
            self._follows = self._state.clock()


def redraw_later(app: App[None]) -> None:
    """Draw the bars again once the line about a decision is no longer new."""

    def redraw() -> None:
        for bar in app.screen.query(LineBar):
            bar.redraw()

    app.set_timer(DECIDED_S + 0.1, redraw)
