"""Lines of the log as rows: parsed when they are drawn, chosen by words without parsing. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import overload

from flycore.client.audit_reader import MAX_LINES, line_text, parse_record
from flycore.model.audit import ApprovalMetrics, ApprovalReport, Verification
from flycore.model.json import Json
from flytui.text.filter_query import parse_word_filter
from flytui.text.labels import json_text, milliseconds_text, plural
from flytui.text.lines import (
    StyledLine,
    StyledText,
    Tone,
    labelled,
    line,
    padded,
    span,
    table_row,
    text_lines,
    truncated,
    wrap,
    wrapped,
)

MAX_BUFFER_BYTES = 64 * 1024 * 1024
"""Of the lines kept for the screen; the oldest go first."""
COLUMN_TITLES = ("NUMBER", "TIME", "EVENT", "WHAT")
_SIZES = (8, 15, 17)
_LABEL = 14
_BAD_EVENTS = frozenset(("UNREADABLE", "TAIL_TORN", "PANIC"))


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One line."""

    raw: bytes
    at: int
    """Which line it is of those read, for as long as the log is the same."""

    @property
    def key(self) -> str:
        """The place."""
        return str(self.at + 1)

    def draw(self, width: int) -> StyledLine:
        """Number, time, event, and what it says."""
        found = parse_record(self.raw)
        event = str(found.get("event", ""))
        cells = (
            span(found.get("seq", "?"), Tone.DIM),
            span(wall_time(found.get("time")), Tone.DIM),
            span(event, Tone.BAD if event in _BAD_EVENTS else Tone.STRONG),
        )
        return truncated((*audit_columns(cells), span(line_text(found))), width)


def audit_columns(cells: Sequence[StyledText]) -> StyledLine:
    """Cells, each in its column."""
    return table_row(((cell,) for cell in cells), _SIZES)


def wall_time(time: Json) -> str:
    """A time of the log on the person's own clock, `06-15 12:00:01`; what is none as it stands."""
    try:
        return f"{datetime.fromisoformat(str(time)).astimezone():%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):
        return str(time)


def fields_lines(raw: bytes, width: int) -> list[StyledLine]:
    """Every member of the line, whole."""
    rows: list[StyledLine] = []
    for key, value in parse_record(raw).items():
        label = padded((StyledText(" "), span(key, Tone.DIM)), _LABEL)
        if isinstance(value, dict | list) and value:
            rows += [label, *wrapped(text_lines(json_text(value), margin=3), width, 5)]
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            rows += wrap((*label, StyledText(" "), span(text)), width, _LABEL + 1)
    return rows


class LineBuffer:
    """The lines that are kept, and those of them that the filter chose."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.dropped = 0
        """Lines that were read and are not kept any more."""
        self._bytes = 0

    def add(self, lines: Sequence[bytes]) -> None:
        """Take lines at the end; what is too much goes from the beginning."""
        self.lines += lines
        self._bytes += sum(map(len, lines))
        gone = 0
        while len(self.lines) - gone > MAX_LINES or (
            self._bytes > MAX_BUFFER_BYTES and len(self.lines) - gone > 1
        ):
            self._bytes -= len(self.lines[gone])
            gone += 1
        if gone:
            self.lines = self.lines[gone:]
            self.dropped += gone


class AuditRows(Sequence[AuditRow]):
    """Rows made when they are looked at: all lines, or those at the places `chosen`."""

    def __init__(self, lines: Sequence[bytes], first: int, chosen: Sequence[int] | None) -> None:
        self._lines, self._first, self._chosen = lines, first, chosen

    def __len__(self) -> int:
        return len(self._lines) if self._chosen is None else len(self._chosen)

    @overload
    def __getitem__(self, at: int) -> AuditRow: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[AuditRow]: ...
    def __getitem__(self, at: int | slice) -> AuditRow | Sequence[AuditRow]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        place = at if self._chosen is None else self._chosen[at]
        return AuditRow(self._lines[place], self._first + place)


def matching_places(lines: Sequence[bytes], words: str, start: int, stop: int) -> list[int]:
    """The places from `start` to before `stop` of the lines that contain every word and no `!word`. Upper and
    lower case are the same. The hashes of the chain are not searched."""
    wanted = parse_word_filter(words, _escaped_word)
    places: list[int] = []
    for place, raw in enumerate(islice(lines, start, stop), start):
        # The hashes of the chain end every line. A short word would match their digits by chance.
        end = raw.rfind(b',"prev":')
        if wanted.matches((raw if end < 0 else raw[:end]).lower()):
            places.append(place)
    return places


def _escaped_word(word: str) -> bytes:
    """The word as the log spells it: JSON in ASCII, in lower case."""
    return json.dumps(word)[1:-1].lower().encode("ascii")


def empty_lines(*, known: bool, filtered: bool) -> list[StyledLine]:
    """Where there is nothing to show; `known` says whether the log has been read."""
    if not known:
        return [(), line(span(" The log is being read…", Tone.DIM))]
    if filtered:
        return [(), line(span(" Nothing matches. Esc clears the filter.", Tone.DIM))]
    return [
        (),
        line(span(" The log has no line yet.")),
        line(span(" Every call, card, decision, start and end will be one.", Tone.DIM)),
    ]


# Whether the log is whole, and what to do where it is not; and how much a person was asked. Pure.


QUICK_APPROVAL_SHARE = 0.2
"""Share approved within a second from which the page says something."""


def verification_lines(
    found: Verification | None, checking: bool, lines: int, kept: str, width: int
) -> list[StyledLine]:
    """The head of the screen: how many lines, in which order, and whether they are as they were written."""
    head = span(f" {plural(lines, 'line')}, newest last{kept} · ")
    if found is None:
        words = "being checked…" if checking else "not checked: v checks"
        return [truncated(line(head, span(words, Tone.DIM)), width)]
    again = span(" · being checked again…" if checking else "", Tone.DIM)
    if found.whole:
        words = f"● {found.message}, checked up to {found.lines}"
        return [truncated(line(head, span(words, Tone.GOOD), again), width)]
    word, tone, fix = _damage(found)
    where = f" ({found.file}:{found.line})" if found.file else ""
    first = line(head, span(f"{word} at number {found.seq}", tone), again)
    rest = line(span(f" {found.message}{where}"))
    return [
        truncated(first, width),
        *wrap(rest, width, 3),
        *wrap(line(span(f" → {fix}", Tone.ACCENT)), width, 3),
    ]


def _damage(found: Verification) -> tuple[str, Tone, str]:
    if found.torn:
        return "◐ torn tail", Tone.WARN, "nothing to do: the next start sets the torn end aside and notes it"
    keep = "keep a copy of it, and find out who wrote to it"
    if found.cut:
        return "✗ CUT against the anchors", Tone.BAD, f"lines are missing at its end: {keep}"
    return "✗ BROKEN", Tone.BAD, f"it was changed: {keep}. A kernel that starts now writes nothing to it"


def prompt_load_lines(report: ApprovalReport, width: int) -> list[StyledLine]:
    """How much a person is asked, whether they still read, and who asks most."""
    total = report.total
    if not total.prompts:
        return [(), line(span(" Nobody was asked yet."))]
    rows: list[StyledLine] = [()]
    for label, words in _totals(total):
        rows += labelled(label, words, width, 20)
    if total.approved_at_once_share >= QUICK_APPROVAL_SHARE:
        advice = " → nobody reads a card in a second: lease or allow what you always approve"
        rows += [(), *wrap(line(span(advice, Tone.WARN)), width, 3)]
    rows += [(), line(StyledText(" "), span("Who asks", Tone.STRONG))]
    for pair in report.pairs:
        words = f"{pair.prompts:>6}  {pair.prompts_per_hour:g} an hour, "
        words += f"{pair.approved_at_once_share:.0%} at once, {pair.timed_out} timed out  "
        rows += wrap(
            line(span(words, Tone.DIM), span(pair.tool, Tone.STRONG), span(f"  {pair.caller}")), width, 8
        )
    return rows


def _totals(total: ApprovalMetrics) -> list[tuple[str, str]]:
    hours = plural(total.active_hours, "hour")
    found = [
        ("asked", f"{total.prompts}, in {hours} that had any"),
        ("an hour", f"{total.prompts_per_hour:g} on average, {total.busiest_hour} in the busiest"),
        ("approved", str(total.approved)),
        ("  within a second", f"{total.approved_at_once}, {total.approved_at_once_share:.0%} of them"),
        ("denied", f"{total.denied}, {total.denied_share:.0%} of what you decided"),
        ("timed out", f"{total.timed_out}: asked while nobody was there"),
        ("withdrawn", str(total.withdrawn)),
        (
            "time to decide",
            f"{milliseconds_text(total.median_ms)} median, {milliseconds_text(total.p95_ms)} p95",
        ),
    ]
    if total.not_shown:
        found.append(("never shown", f"{total.not_shown}, refused because too many waited"))
    return found
