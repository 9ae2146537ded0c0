"""The arming of a card: the rules for when a key may approve, as a value. All times are handed in.

Each rule comes from a bug that a well-known product shipped:

- approve keys are armed `VISIBLE_S` after this card was painted and `QUIET_S` after the last key press,
  whatever that key was; a key pressed before the card was painted decides nothing;
- at high risk, `a` opens a window of time in which the letter on the card counts, from `CONFIRM_FROM_S` to
  `CONFIRM_UNTIL_S`, and every other key closes it; at critical risk there are four letters, and
  `CODE_UNTIL_S` for all of them;
- at every risk, the approve key is off until every field's name and beginning has been on screen; at high and
  critical risk, every line of every field, the last line of the card, and masked fields revealed;
- after the console or its terminal stood still the card is armed from the start, because nobody can say what
  was on screen when a key was pressed; a key that refuses still counts then;
- while a tool controls the desktop the approve key is off; afterwards the card is armed from the start;
- while the terminal says that its window does not have the keyboard, the approve key is off, because a person
  who sees *keys ready* presses a key that another window gets; afterwards the card is armed from the start;
- a console that only views another console's kernel decides nothing.

To refuse takes one key and works at once. Times are seconds on one monotonic clock.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from flycore.model.enums import Risk

VISIBLE_S = 0.8
"""How long a card has to be on screen before a key approves it: a card that appears under typing fingers is
not approved by them."""
QUIET_S = 0.5
"""How long no key may have been pressed: who is typing into something else is not answering this card."""
CONFIRM_FROM_S = 0.3
"""The earliest moment of the letter after `a`: a key held down, or two keys of one word, do not confirm."""
CONFIRM_UNTIL_S = 3.0
"""The latest moment of the letter after `a`."""
CODE_UNTIL_S = 10.0
"""The latest moment of the last of the four letters after `a`."""
APPROVE_KEY = "a"
NEVER = float("-inf")
NO_KEYBOARD = "this window does not have the keyboard: click into it"


class KeyEffect(Enum):
    """What a key press did."""

    NOTHING = auto()
    """The key does not approve, or was dropped."""
    OPENED = auto()
    """The key opened the window for the letter or the code."""
    TYPED = auto()
    """The key was the next letter of the code, and more letters follow."""
    CLOSED = auto()
    """The key closed the window without an approval."""
    APPROVED = auto()


def pages_before(pages: int, key: str) -> str:
    """What has to be read before the approve key works, in words."""
    return f"{'1 more page' if pages == 1 else f'{pages} more pages'} before {key}"


class ArmingState(msgspec.Struct, frozen=True):
    """What has happened to one card, and so whether its approve key counts."""

    risk: Risk
    letter: str = ""
    """The letter that confirms high risk, or the four letters that confirm critical risk."""
    shown_at: float | None = None
    """When this card was painted; None while it is not on screen."""
    refuses_from: float | None = None
    """Since when a key may refuse: since this card came on screen, whatever stood still in between."""
    last_key: float = NEVER
    pages_left: int = 0
    """How many more pages of the card hold what has to be read before an approval."""
    end_seen: bool = False
    """Whether the card's last line has been on screen at the present width."""
    masked: bool = False
    """Whether fields are still masked."""
    desktop_controlled: bool = False
    keyboard_elsewhere: bool = False
    """Whether the terminal has said that its window does not have the keyboard."""
    opened_at: float | None = None
    typed: str = ""
    viewer_reason: str = ""
    """Why this console may approve nothing; `""` where it may."""
    read_whole: bool = False
    """Whether the card has to be read to its end whatever its risk, as one that permits several calls has."""

    @property
    def strict(self) -> bool:
        """Whether a letter or a code confirms, and the whole card has to be read first."""
        return self.risk.at_least(Risk.HIGH)

    @property
    def window(self) -> float:
        """The time from `a` to the last letter, in seconds."""
        return CODE_UNTIL_S if self.risk is Risk.CRITICAL else CONFIRM_UNTIL_S

    def with_painted(self, now: float) -> ArmingState:
        """The arming of a card that was painted at `now`: every wait starts again."""
        since = now if self.refuses_from is None else self.refuses_from
        return msgspec.structs.replace(self, shown_at=now, refuses_from=since, opened_at=None, typed="")

    def with_covered(self) -> ArmingState:
        """The arming of a card that is not on screen."""
        return msgspec.structs.replace(self, shown_at=None, refuses_from=None, opened_at=None, typed="")

    def with_pause(self) -> ArmingState:
        """The arming of a card during which the console or its terminal stood still."""
        return msgspec.structs.replace(self, shown_at=None, opened_at=None, typed="")

    def with_read(
        self, *, end_seen: bool | None = None, masked: bool | None = None, pages_left: int | None = None
    ) -> ArmingState:
        """The arming with another record of what has been read. An argument that is None changes nothing."""
        return msgspec.structs.replace(
            self,
            end_seen=self.end_seen if end_seen is None else end_seen,
            masked=self.masked if masked is None else masked,
            pages_left=self.pages_left if pages_left is None else pages_left,
        )

    def with_desktop_control(self, on: bool, now: float) -> ArmingState:
        """The arming after a tool took or released control of the desktop at `now`."""
        if on == self.desktop_controlled:
            return self
        # Keys that the tool pressed may still arrive after its release, so the card is armed like a new one.
        return msgspec.structs.replace(self._rearmed(now), desktop_controlled=on)

    def with_keyboard_elsewhere(self, elsewhere: bool, now: float) -> ArmingState:
        """The arming after the terminal said at `now` that its window lost the keyboard, or got it back."""
        if elsewhere == self.keyboard_elsewhere:
            return self
        # The click that gave it back says nothing about the card.
        return msgspec.structs.replace(self._rearmed(now), keyboard_elsewhere=elsewhere)

    def with_viewer_reason(self, off: str, now: float) -> ArmingState:
        """The arming with another reason why this console may not decide. Where the reason changes, the card
        is armed like a new one."""
        if off == self.viewer_reason:
            return self
        return msgspec.structs.replace(self._rearmed(now), viewer_reason=off)

    def _rearmed(self, now: float) -> ArmingState:
        """The arming of a card that, if it is on screen, begins its waits again at `now`."""
        shown_at = now if self.shown_at is not None else None
        return msgspec.structs.replace(self, shown_at=shown_at, opened_at=None, typed="")

    def belongs_to_card(self, pressed_at: float) -> bool:
        """Whether a key pressed then was meant for this card: the card was on screen before it."""
        return self.shown_at is not None and pressed_at > self.shown_at

    def may_refuse(self, pressed_at: float) -> bool:
        """Whether a key pressed then may refuse this card, or open a form on it. What it does is no
        approval."""
        return self.refuses_from is not None and pressed_at > self.refuses_from

    def confirm_open(self, now: float) -> bool:
        """Whether the window for the letter or the code is open at `now`."""
        return self.opened_at is not None and now - self.opened_at <= self.window

    def blocked_reason(self, now: float) -> str:
        """Why the approve key is off at `now`, in words; `""` when it is armed."""
        if self.viewer_reason:
            return self.viewer_reason
        if self.desktop_controlled:
            return "hands on the machine: approve is off"
        if self.keyboard_elsewhere:
            return NO_KEYBOARD
        if self.strict and len(self.letter) != self._letters:
            return "this request has no confirmation letter and cannot be approved"
        if self.pages_left:
            return f"{pages_before(self.pages_left, APPROVE_KEY)} ↓"
        if (self.strict or self.read_whole) and not self.end_seen:
            return "read to the last line first ↓"
        if self.strict and self.masked:
            return "reveal the masked fields first"
        if self.shown_at is None or now - self.shown_at < VISIBLE_S or now - self.last_key < QUIET_S:
            return "keys not ready"
        return ""

    def with_key(self, now: float) -> ArmingState:
        """The arming after a key that does not approve: the quiet time starts again and the window closes."""
        # Keys can be handled out of order, and an older one must not shorten the quiet time of a newer one.
        return msgspec.structs.replace(self, last_key=max(self.last_key, now), opened_at=None, typed="")

    def press(self, key: str, now: float) -> tuple[ArmingState, KeyEffect]:
        """The arming after `key` was pressed at `now`, and what the key did."""
        after = self.with_key(now)
        off = self.desktop_controlled or self.keyboard_elsewhere or self.viewer_reason
        if off or not self.belongs_to_card(now):
            return after, KeyEffect.NOTHING
        if self.confirm_open(now):
            return self._confirm(key, now, after)
        if key != APPROVE_KEY or self.blocked_reason(now):
            return after, KeyEffect.NOTHING
        if not self.strict:
            return after, KeyEffect.APPROVED
        return msgspec.structs.replace(after, opened_at=now), KeyEffect.OPENED

    @property
    def _letters(self) -> int:
        return {Risk.HIGH: 1, Risk.CRITICAL: 4}.get(self.risk, 0)

    def _confirm(self, key: str, now: float, after: ArmingState) -> tuple[ArmingState, KeyEffect]:
        opened_at = self.opened_at if self.opened_at is not None else now
        typed = self.typed + key
        too_early = not self.typed and now - opened_at < CONFIRM_FROM_S
        # Both were true when the window opened, but a resize or masking again may have come in between.
        unread = not self.end_seen or self.masked or self.pages_left > 0
        if too_early or unread or len(key) != 1 or not self.letter.startswith(typed):
            return after, KeyEffect.CLOSED
        if typed == self.letter:
            return after, KeyEffect.APPROVED
        return msgspec.structs.replace(after, opened_at=opened_at, typed=typed), KeyEffect.TYPED
