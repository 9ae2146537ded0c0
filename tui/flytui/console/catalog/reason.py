"""Why a row is not simply well, and the key or the words that lead out of it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from flycore.model.enums import ReasonCode
from flycore.model.fix import FixKind
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import Reason
from flytui.console.paint import StyledLine, StyledText, Tone, span, width_of

_CHANGED = "changed since it was approved"
_FIX_KEYS = {
    FixKind.COMMAND: "F",
    FixKind.EDIT: "F",
    FixKind.ENABLE: "E",
    FixKind.TRUST: "T",
    FixKind.PROBE: "R",
    FixKind.INIT: "i",
}
"""The shortest way to each kind of fix from the Catalog."""
_FIX_WORDS = {FixKind.ENABLE: "enable", FixKind.TRUST: "trust", FixKind.PROBE: "probe again"}
"""Short words for what needs no details; the others have their own."""


class ReasonSummary(NamedTuple):
    """Why, and what to press or do."""

    why: str
    key: str = ""
    words: str = ""
    more: int = 0
    """Further reasons."""
    brief: str = ""
    """`why` where there is little room."""

    def fitting(self, room: int) -> StyledLine:
        """All of it; else in brief; else the key without its words, which still tells of a way out."""
        key = (span(self.key, Tone.KEY), StyledText(" ")) if self.key else ()
        out: StyledLine = (
            (StyledText(" · ", Tone.DIM), *key, span(self.words, Tone.DIM)) if self.words else ()
        )
        more = (StyledText(f"  (+{self.more})", Tone.DIM),) if self.more else ()
        for why in (self.why, self.brief or self.why):
            row: StyledLine = (span(why, Tone.DIM), *out)
            if width_of(row) <= room:
                return (*row, *more)
        if not self.key or width_of(row[:3]) > room:
            return row if room >= _BRIEF else row[:1]
        return row if room - width_of(row[:3]) >= _WORTH else row[:3]


_WORTH = 6
"""Cells below which cut words say nothing."""
_BRIEF = 30
"""Cells below which the reason stands alone: of the way out only a word or two would be left."""


def summarise_reason(
    reasons: tuple[Reason, ...], entry: SidecarEntry | None, summary: str, *, changed: bool
) -> ReasonSummary:
    """The first reason; what the tool does where there is none."""
    if changed:
        return ReasonSummary(_CHANGED, "D", "difference", len(reasons), "changed")
    if not reasons:
        return ReasonSummary(summary)
    first, more = reasons[0], len(reasons) - 1
    why, brief = first.code.value, ""
    if first.code is ReasonCode.DISABLED and entry is not None:
        brief = f"{entry.position.file.rpartition('/')[2]}:{entry.position.line}"
        why = f"disabled in {brief}"
    fix = first.fix
    if fix is None:
        return ReasonSummary(why, "", first.remedy or first.message, more, brief)
    return ReasonSummary(why, _FIX_KEYS[fix.kind], _FIX_WORDS.get(fix.kind, fix.words), more, brief)
