"""When a key may decide: the arming of one card as a value, with all times handed in.

Rules, each from a bug that a well-known product shipped:

- approve keys are armed `VISIBLE_S` after this card was painted and `QUIET_S` after the last key press,
  whatever that key was; a key pressed before the card was painted decides nothing;
- high risk: `a` opens a window in which the letter on the card counts, from `CONFIRM_FROM_S` to
  `CONFIRM_UNTIL_S`; every other key closes it. Critical: four letters, `CODE_UNTIL_S` for all of them;
- for both, approve stays off until the last line has been on screen and masked fields are revealed;
- while a tool has its hands on the machine approve is off, and arms anew afterwards;
- a console that only views another one's kernel decides nothing.

Refusing is one key, at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from flycore.model.enums import Risk

VISIBLE_S = 0.8
QUIET_S = 0.5
CONFIRM_FROM_S = 0.3
CONFIRM_UNTIL_S = 3.0
CODE_UNTIL_S = 10.0
APPROVE_KEY = "a"
NEVER = float("-inf")


class KeyEffect(Enum):
    """What a key press did."""

    NOTHING = auto()
    """Not a key of approval, or dropped."""
    OPENED = auto()
    """The window for the letter or the code is open."""
    TYPED = auto()
    """One letter of the code was right; more follow."""
    CLOSED = auto()
    """The window closed without an approval."""
    APPROVED = auto()


@dataclass(frozen=True, slots=True)
class ArmingState:
    """How ready one card is."""

    risk: Risk
    letter: str = ""
    """The letter that confirms high risk, the four letters of critical."""
    shown_at: float | None = None
    """When this card was painted; None while it is not on screen."""
    last_key: float = NEVER
    end_seen: bool = False
    """Whether the card's last line has been on screen at the present width."""
    masked: bool = False
    """Whether fields are still masked."""
    desktop_controlled: bool = False
    opened_at: float | None = None
    typed: str = ""
    viewer_reason: str = ""
    """Why nothing at all may be approved from here; `""` where it may."""
    read_whole: bool = False
    """Whether it has to be read to its end whatever the risk: what permits more than one call is."""

    @property
    def strict(self) -> bool:
        """Whether a letter or a code confirms, and the whole card has to be read first."""
        return self.risk.at_least(Risk.HIGH)

    @property
    def window(self) -> float:
        """Seconds from `a` to the last letter."""
        return CODE_UNTIL_S if self.risk is Risk.CRITICAL else CONFIRM_UNTIL_S

    def with_painted(self, now: float) -> ArmingState:
        """The card has been painted: everything starts again."""
        return replace(self, shown_at=now, opened_at=None, typed="")

    def with_covered(self) -> ArmingState:
        """The card is not on screen."""
        return replace(self, shown_at=None, opened_at=None, typed="")

    def with_read(self, *, end_seen: bool | None = None, masked: bool | None = None) -> ArmingState:
        """What has been read changed; unread again means not approvable."""
        return replace(
            self,
            end_seen=self.end_seen if end_seen is None else end_seen,
            masked=self.masked if masked is None else masked,
        )

    def with_desktop_control(self, on: bool, now: float) -> ArmingState:
        """A tool took or released the machine; once released the card arms like a new one."""
        if on == self.desktop_controlled:
            return self
        shown_at = now if self.shown_at is not None else None
        return replace(self, desktop_controlled=on, shown_at=shown_at, opened_at=None, typed="")

    def with_viewer_reason(self, off: str, now: float) -> ArmingState:
        """What may be decided from here changed; once it may, the card arms like a new one."""
        if off == self.viewer_reason:
            return self
        shown_at = now if self.shown_at is not None else None
        return replace(self, viewer_reason=off, shown_at=shown_at, opened_at=None, typed="")

    def belongs_to_card(self, pressed_at: float) -> bool:
        """Whether a key pressed then belongs to this card at all."""
        return self.shown_at is not None and pressed_at > self.shown_at

    def confirm_open(self, now: float) -> bool:
        """Whether the confirming window is open."""
        return self.opened_at is not None and now - self.opened_at <= self.window

    def blocked_reason(self, now: float) -> str:
        """Why approve is off, in words; `""` when it is armed."""
        if self.viewer_reason:
            return self.viewer_reason
        if self.desktop_controlled:
            return "hands on the machine: approve is off"
        if self.strict and len(self.letter) != self._letters:
            return "this request has no confirmation letter and cannot be approved"
        if (self.strict or self.read_whole) and not self.end_seen:
            return "read to the last line first ↓"
        if self.strict and self.masked:
            return "reveal the masked fields first"
        if self.shown_at is None or now - self.shown_at < VISIBLE_S or now - self.last_key < QUIET_S:
            return "keys not ready"
        return ""

    def with_key(self, now: float) -> ArmingState:
        """A key that has nothing to do with approving was pressed: quiet starts again, the window closes."""
        return replace(self, last_key=max(self.last_key, now), opened_at=None, typed="")

    def press(self, key: str, now: float) -> tuple[ArmingState, KeyEffect]:
        """The key pressed at `now`; the arming after it and what it did."""
        after = self.with_key(now)
        if not self.belongs_to_card(now) or self.desktop_controlled or self.viewer_reason:
            return after, KeyEffect.NOTHING
        if self.confirm_open(now):
            return self._confirm(key, now, after)
        if key != APPROVE_KEY or self.blocked_reason(now):
            return after, KeyEffect.NOTHING
        if not self.strict:
            return after, KeyEffect.APPROVED
        return replace(after, opened_at=now), KeyEffect.OPENED

    @property
    def _letters(self) -> int:
        return {Risk.HIGH: 1, Risk.CRITICAL: 4}.get(self.risk, 0)

    def _confirm(self, key: str, now: float, after: ArmingState) -> tuple[ArmingState, KeyEffect]:
        opened_at = self.opened_at if self.opened_at is not None else now
        typed = self.typed + key
        too_early = not self.typed and now - opened_at < CONFIRM_FROM_S
        unread = not self.end_seen or self.masked
        if too_early or unread or len(key) != 1 or not self.letter.startswith(typed):
            return after, KeyEffect.CLOSED
        if typed == self.letter:
            return after, KeyEffect.APPROVED
        return replace(after, opened_at=opened_at, typed=typed), KeyEffect.TYPED
