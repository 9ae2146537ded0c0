"""The card: one request, drawn from the kernel's lines, and the keys that decide it.

There is one card screen and one queue: it walks the waiting requests first in, first out. It holds no
input and nothing that can be clicked; keys are handled here alone, none bubble up. What approves goes
through `ArmingState`; Escape, closing and every accident leave the request waiting.
"""

from __future__ import annotations

from collections.abc import Callable

from flycore.approval.machine import choices
from flycore.model.approval import Answer, Ask, Outcome
from flycore.model.enums import Choice, RequestState
from flycore.model.errors import FlyError
from flycore.model.json import JsonObject
from flytui.console.approvals.drawing import why_lines
from flytui.console.approvals.edit import EditInputScreen
from flytui.console.approvals.keys import CONFIRM_FROM_S, KeyEffect
from flytui.console.approvals.lease import LeaseScreen
from flytui.console.approvals.reason import DenyReasonScreen
from flytui.console.approvals.rule import RuleScreen
from flytui.console.approvals.showing import RequestView
from flytui.console.approvals.standing import SendAnswer, SendEditedInput
from flytui.console.help import help_screen
from flytui.console.pages import PageScreen

DENY_MINUTES = 10
_CHOICE_LABELS = {
    Choice.APPROVE_ONCE: "approved once",
    Choice.LEASE: "leased",
    Choice.RULE: "rule written",
    Choice.DENY: "denied",
    Choice.BLOCK: "blocked for every caller",
}


class RequestScreen(RequestView):
    """Answers with exactly what was on screen."""

    def _handle_key(self, key: str, now: float) -> None:
        """All keys of the card; no click decides."""
        key = self._desk.keys.meant("card", key)
        self._notice = ""
        if self._outcome or self._ask.state is not RequestState.WAITING:
            self._card.note_key(now)
            self._key_after(key)
        elif self._desk.no_decision_reason:
            self._card.note_key(now)
            self._key_viewing(key)
        elif self._block_confirm_open(now):
            self._card.note_key(now)
            self._key_blocking(key, now)
        else:
            self._key_waiting(key, now)

    def _key_viewing(self, key: str) -> None:
        """A console that cannot decide only reads; the ways to deciding are open from a card, too."""
        self._block_press = None
        if self._key_other(key):
            return
        keys = self._desk.keys
        action = next((name for name in ("pair", "take") if key in keys.keys_for(f"app.{name}")), None)
        if action is None:
            self._notice = self._desk.no_decision_reason
        else:
            self.dismiss()
            self.app.call_later(self.app.run_action, action)

    def _key_waiting(self, key: str, now: float) -> None:
        belongs = self._arming.belongs_to_card(now)
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
        """Keys that only show; whether it was one."""
        if self._scroll(key):
            return True
        match key:
            case "escape":
                self.dismiss()
            case "n" | "p":
                self._step(1 if key == "n" else -1)
            case "v":
                self._show_masked()
            case "w":
                request = self._ask.request
                self.app.push_screen(PageScreen(self._desk, "Why", lambda width: why_lines(request, width)))
            case "question_mark" | "?":
                self.app.push_screen(help_screen(self._desk, ("card",)))
            case _:
                return False
        return True

    def _key_further(self, key: str, now: float) -> None:
        """Keys that open a form or hold the time; each only where the card offers it."""
        ask, offered = self._ask, choices(self._ask.request)
        match key:
            case "r":
                self.app.push_screen(DenyReasonScreen(ask.request.tool), self._deny_callback(ask))
            case "l" if Choice.LEASE in offered and self._card_read():
                self.app.push_screen(
                    LeaseScreen(self._desk, ask.request, self._sender(ask)), self._terms_callback(ask)
                )
            case "u" if Choice.RULE in offered and self._card_read():
                self.app.push_screen(
                    RuleScreen(self._desk, ask.request, self._sender(ask)), self._terms_callback(ask)
                )
            case "e" if not ask.request.masked:
                self.app.push_screen(EditInputScreen(ask.request, self._editor(ask)))
            case "b" if Choice.BLOCK in offered:
                self._block_press = (ask.request.subject_digest, now)
            case "h":
                self.run_worker(self._toggle_hold(ask), group="hold")
            case _:
                pass

    def _key_blocking(self, key: str, now: float) -> None:
        """The second `b`, not one of a key held down; every other key only takes the question away."""
        _, opened = self._block_press or ("", now)
        self._block_press = None
        if key == "b" and now - opened >= CONFIRM_FROM_S and self._arming.belongs_to_card(now):
            self._answer(Answer(choice=Choice.BLOCK))

    def _key_after(self, key: str) -> None:
        if key == "escape":
            self.dismiss()
        elif key == "n":
            self._next()
        else:
            self._scroll(key)

    def _card_read(self) -> bool:
        """Whether what a form would stand on has been read."""
        arming = self._arming
        unread = arming.strict and (not arming.end_seen or arming.masked)
        self._notice = arming.blocked_reason(self._desk.clock()) if unread else ""
        return not unread

    def _deny_callback(self, ask: Ask) -> Callable[[str | None], None]:
        def reasoned(reason: str | None) -> None:
            if reason is not None:
                self._answer(Answer(choice=Choice.DENY, reason=reason), ask)

        return reasoned

    def _sender(self, ask: Ask) -> SendAnswer:
        """Answers the request that was on screen when the form opened, and no other."""
        request = ask.request

        async def send(answer: Answer) -> Outcome:
            return await self._desk.approver.decide(request.id, request.subject_digest, answer)

        return send

    def _editor(self, ask: Ask) -> SendEditedInput:
        request = ask.request

        async def send(input: JsonObject) -> Outcome:
            return await self._desk.approver.edit(request.id, request.subject_digest, input)

        return send

    def _terms_callback(self, ask: Ask) -> Callable[[Answer | None], None]:
        """What the card says once a form's answer has been taken."""

        def stands(answer: Answer | None) -> None:
            if answer is not None:
                self._show_answer(answer, ask)

        return stands

    async def _toggle_hold(self, ask: Ask) -> None:
        try:
            held = await self._desk.approver.hold(ask.request.id, not ask.held)
        except FlyError as error:
            self._notice = f"not held: {error}"
        else:
            self._notice = "" if held else "the request no longer waits"
        self._redraw()

    def _answer(self, answer: Answer, ask: Ask | None = None) -> None:
        """Send it for the request that was on screen, never for whichever is by then."""
        if not self._sending:
            self._start_sending(self._send(answer, ask or self._ask))

    async def _send(self, answer: Answer, ask: Ask) -> None:
        try:
            outcome = await self._sender(ask)(answer)
        except FlyError as error:
            self._show_outcome(f"the answer did not count: {error}", good=False)
            return
        if outcome.accepted:
            self._show_answer(answer, ask)
        else:
            self._show_outcome(f"the answer did not count: {outcome.why_not or 'refused'}", good=False)

    def _show_answer(self, answer: Answer, ask: Ask) -> None:
        self._answered = True
        for_minutes = f" for {answer.deny_minutes} minutes" if answer.deny_minutes else ""
        self._show_outcome(f"{_CHOICE_LABELS[answer.choice]}{for_minutes}: {ask.request.tool}", good=True)
