"""Says in one sentence why a tool of the Catalog is not well, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple

from flycore.model.diagnostics import FixKind
from flycore.model.enums import ReasonCode
from flycore.model.stability import Reason
from flytui.text.lines import StyledLine, StyledText, Tone, span, truncated, width_of

_CHANGED = "changed since it was approved"
_FIX_KEYS = {
    FixKind.COMMAND: "F",
    FixKind.EDIT: "F",
    FixKind.ENABLE: "E",
    FixKind.TRUST: "T",
    FixKind.PROBE: "R",
    FixKind.INIT: "i",
    FixKind.PERMIT: "F",
}
"""The key of the Catalog for each kind of fix."""
_FIX_WORDS = {
    FixKind.ENABLE: "switches it on",
    FixKind.TRUST: "shows what it would run",
    FixKind.PROBE: "asks again",
}
"""Short words for fixes without details; the others bring their own words."""
_ARROW = StyledText(" → ", Tone.ACCENT)


class ReasonSummary(NamedTuple):
    """The reason of a row in words, and what to do about it."""

    why: str
    remedy: str = ""
    """What a person can do, as a sentence."""
    key: str = ""
    """The key that does it; empty where none does."""
    words: str = ""
    """What the key does, in a few words."""
    more: int = 0
    """The number of further reasons."""
    brief: str = ""
    """A shorter `why` for narrow windows; empty where there is none."""
    well: bool = False
    """Whether `why` is what the tool does, as nothing is wrong with it."""

    @property
    def cells(self) -> int:
        """The cells that the whole sentence needs, with its key but without the count of further reasons."""
        return width_of(self._long)

    def fitting(self, room: int) -> StyledLine:
        """The sentence in at most `room` cells: whole, or with the few words of its key in place of the
        remedy, or cut with `…`. The key stays in sight, because it shows that there is a way out."""
        more = (StyledText(f"  (+{self.more})", Tone.DIM),) if self.more else ()
        for row in (self._long, *self._short):
            if width_of(row) <= room:
                return (*row, *more) if width_of((*row, *more)) <= room else row
        if not self.key:
            return truncated(self._long, room)
        way = (_ARROW, span(self.key, Tone.KEY))
        return (*truncated(self._reason(self.brief or self.why), max(0, room - width_of(way))), *way)

    @property
    def _long(self) -> StyledLine:
        row = self._reason(self.why)
        if self.remedy:
            key = (StyledText(" · ", Tone.DIM), span(self.key, Tone.KEY)) if self.key else ()
            return (*row, _ARROW, span(self.remedy), *key)
        return (*row, *self._way) if self.key else row

    @property
    def _short(self) -> list[StyledLine]:
        if not self.key:
            return []
        return [(*self._reason(why), *self._way) for why in (self.why, self.brief or self.why)]

    @property
    def _way(self) -> StyledLine:
        return (_ARROW, span(self.key, Tone.KEY), span(f" {self.words}"))

    def _reason(self, why: str) -> StyledLine:
        return (span(why, Tone.DIM if self.well else Tone.PLAIN),)


def summarise_reason(
    reasons: tuple[Reason, ...], place: str, summary: str, *, changed: bool, name: str = ""
) -> ReasonSummary:
    """The summary of the first reason; what the tool does where there is no reason. The reason's code is in
    the details of the tool. A reason that begins with `name`, which the row shows, is told without it.
    `place` is where the sidecar is declared, as `file:line`; empty where none is."""
    if changed:
        return ReasonSummary(_CHANGED, "", "D", "shows the difference", len(reasons), "changed")
    if not reasons:
        return ReasonSummary(summary, well=True)
    first, more = reasons[0], len(reasons) - 1
    why, brief = first.message.removeprefix(f"{name} ") or first.code.value, ""
    if first.code is ReasonCode.DISABLED and place:
        brief = place.rpartition("/")[2]
        why = f"disabled in {brief}"
    fix = first.fix
    if fix is None:
        return ReasonSummary(why, first.remedy, more=more, brief=brief)
    key, words = _FIX_KEYS[fix.kind], _FIX_WORDS.get(fix.kind, fix.words)
    # The remedy of a switch, of trust and of another probe is to press the key, which its words say shorter.
    remedy = "" if fix.kind in _FIX_WORDS else first.remedy
    return ReasonSummary(why, remedy, key, words, more, brief)
