"""The rows of entries that wait for trust: what each would reach, in one line. Pure.

What is usual is dim; what is unusual has a `!` and the warning colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flycore.approval.trust_facts import riskiness
from flycore.model.enums import ProgramAuthor, ProgramComparison
from flycore.model.question import TrustFacts, TrustItem
from flycore.model.repository import TrustedElsewhere
from flysafe.text import strict_text
from flytui.text.caller import short_folder
from flytui.text.labels import day_words
from flytui.text.lines import (
    StyledLine,
    StyledText,
    Tone,
    difference_lines,
    padded,
    span,
    table_row,
    truncated,
    wrap,
)

AUTHOR_WORDS: dict[ProgramAuthor, str] = {
    ProgramAuthor.OWN: "flytui's own",
    ProgramAuthor.SYSTEM: "this system",
    ProgramAuthor.FOLDER: "this folder",
    ProgramAuthor.MISSING: "not there",
    ProgramAuthor.REMOTE: "elsewhere",
    ProgramAuthor.DOWNLOADED: "downloaded",
}
_USUAL_AUTHORS = (ProgramAuthor.OWN, ProgramAuthor.SYSTEM)
_WEB = ("web.", "browser.")
COLUMNS = ("PROGRAM", "NET", "WRITES", "DESKTOP", "SECRETS", "TOOLS")
_SIZES = (12, 5, 8, 7, 7)
_WIDE_SIZES = (13, 18, 9, 7, 8)
"""The widths of the columns, in cells, but for the last; the second ones from `_WIDE` cells on."""
_WIDE = 110
MARK_CELLS = 4
_NONE = span("–", Tone.DIM)
_PROGRAM_WORDS = {
    ProgramComparison.SAME: ", unchanged",
    ProgramComparison.CHANGED: ", but the files of its programs are not those that were trusted there",
    ProgramComparison.UNKNOWN: ", but its programs could not be compared with those there",
}


def in_order(items: Iterable[TrustItem]) -> list[TrustItem]:
    """The items with the changed entries first, and then the riskiest first."""
    return sorted(items, key=lambda item: (not item.changed, -_rank(item.facts), item.sidecar))


def title_row(width: int) -> StyledLine:
    """The titles of the columns, for rows of that width."""
    return _row(
        span(" " * MARK_CELLS), span("ENTRY", Tone.DIM), [(span(t, Tone.DIM),) for t in COLUMNS], width
    )


def trust_row(item: TrustItem, *, ticked: bool, width: int) -> StyledLine:
    """The row of an entry: tick, name, and the facts."""
    mark = span("[x] ", Tone.STRONG) if ticked else span("[ ] ")
    name = span(item.sidecar, Tone.STRONG if ticked else Tone.DIM)
    cells = [_change(item)] if item.facts is None else _cells(item, item.facts)
    return _row(mark, name, cells, width)


def elsewhere_text(elsewhere: TrustedElsewhere, now: float) -> str:
    """What is said of trust in another folder of the same repository. The folder's name is text from
    outside."""
    said = f"trusted in {short_folder(elsewhere.root)} since {day_words(elsewhere.at, now)}"
    if not elsewhere.same:
        return f"{said}, with another value" + (":" if elsewhere.difference else ", which is not kept")
    return said + _PROGRAM_WORDS[elsewhere.programs]


def elsewhere_lines(item: TrustItem, now: float, width: int, margin: int) -> list[StyledLine]:
    """The lines about trust in another folder, with what differs; none where there is no such trust."""
    elsewhere = item.elsewhere
    if elsewhere is None or (item.changed and not elsewhere.same):
        return []  # what differs from the value that is trusted here is shown instead
    tone = Tone.GOOD if elsewhere.unchanged else Tone.WARN
    # The name of a folder has no place for look-alike letters: it says whose trust this is.
    said = StyledText(strict_text(elsewhere_text(elsewhere, now)), tone)
    rows = wrap((StyledText(" " * margin), said), width, margin + 2)
    return [*rows, *difference_lines(elsewhere.difference, width, margin)]


def common_origin(items: Sequence[TrustItem]) -> TrustedElsewhere | None:
    """The trust elsewhere that one line can say for all entries: in one folder, on one day, unchanged."""
    found = [item.elsewhere for item in items]
    first = found[0] if found else None
    if first is None:
        return None
    alike = all(
        one is not None and one.unchanged and (one.root, day_words(one.at, first.at)) == (first.root, "today")
        for one in found
    )
    return first if alike else None


def _row(mark: StyledText, name: StyledText, cells: Sequence[StyledLine], width: int) -> StyledLine:
    sizes = _WIDE_SIZES if width >= _WIDE else _SIZES
    *columns, last = cells
    start = (mark, *padded((name,), 15 if width < _WIDE else 24), StyledText(" "))
    return truncated((*start, *table_row(columns, sizes), *last), width)


def _cells(item: TrustItem, facts: TrustFacts) -> list[StyledLine]:
    return [
        (_author(facts),),
        (_network(facts),),
        (_writes(facts),),
        (_unusual("yes") if facts.desktop else _NONE,),
        (_unusual(str(len(facts.secrets))) if facts.secrets else _NONE,),
        (*_change(item), *_notes(facts), *_tools(facts)),
    ]


def _change(item: TrustItem) -> StyledLine:
    if item.tools:
        return (span("±tools ", Tone.WARN),)
    return (span("±changed ", Tone.WARN),) if item.changed else ()


def _notes(facts: TrustFacts) -> StyledLine:
    words = ["!overrides "] * facts.overrides + ["!by agent "] * facts.made_by_agent
    return tuple(span(text, Tone.WARN) for text in words)


def _author(facts: TrustFacts) -> StyledText:
    words = AUTHOR_WORDS[facts.author]
    return span(words, Tone.DIM) if facts.author in _USUAL_AUTHORS else _unusual(words)


def _network(facts: TrustFacts) -> StyledText:
    if not facts.network:
        return _NONE
    words = "all" if facts.network == "*" else facts.network
    # A tool of the web or of a browser has the network; without it, it would be of no use.
    usual = bool(facts.tools) and all(name.startswith(_WEB) for name in facts.tools)
    return span(words, Tone.PLAIN) if usual else _unusual(words)


def _writes(facts: TrustFacts) -> StyledText:
    if facts.writes_outside:
        return _unusual("outside")
    if not facts.writes:
        return _NONE
    if any(path.startswith("${") for path in facts.writes):
        return span("by input", Tone.PLAIN)
    return span("folder" if "." in facts.writes else f"{len(facts.writes)} below", Tone.PLAIN)


def _tools(facts: TrustFacts) -> StyledLine:
    if facts.all_tools:
        return (span("all it names", Tone.PLAIN),)
    count = f"{len(facts.tools)} " if len(facts.tools) > 1 else ""
    return (span(f"{count}{', '.join(facts.tools) or 'none'}", Tone.DIM),)


def _unusual(words: str) -> StyledText:
    return span(f"!{words}", Tone.WARN)


def _rank(facts: TrustFacts | None) -> int:
    # What is not known is looked at before everything else.
    return 1_000 if facts is None else riskiness(facts)
