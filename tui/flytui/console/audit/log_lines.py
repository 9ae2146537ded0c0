"""The lines of the log as rows, the result of checking the log, and the report on how much a person is asked.

A line is parsed when it is drawn. The filter searches the lines without parsing them.
"""

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
"""The most bytes of lines that are kept; beyond it the oldest lines are dropped."""
COLUMN_TITLES = ("NUMBER", "TIME", "EVENT", "WHAT")
_SIZES = (8, 15, 17)
_LABEL = 14
_BAD_EVENTS = frozenset(("UNREADABLE", "TAIL_TORN", "PANIC"))


@dataclass(frozen=True, slots=True)
class AuditRow:
    """The row of one line."""

    raw: bytes
    at: int
    """The index among all lines that were read, the dropped ones included."""

    @property
    def key(self) -> str:
        """The number of the line among those read, as text."""
        return str(self.at + 1)

    def draw(self, width: int) -> StyledLine:
        """Draw the number, the time, the event, and the text of the line."""
        record = parse_record(self.raw)
        event = str(record.get("event", ""))
        cells = (
            span(record.get("seq", "?"), Tone.DIM),
            span(wall_time(record.get("time")), Tone.DIM),
            span(event, Tone.BAD if event in _BAD_EVENTS else Tone.STRONG),
        )
        return truncated((*audit_columns(cells), span(line_text(record))), width)


def audit_columns(cells: Sequence[StyledText]) -> StyledLine:
    """The cells in their columns."""
    return table_row(((cell,) for cell in cells), _SIZES)


def wall_time(time: Json) -> str:
    """A time of the log in the person's time zone, as in `06-15 12:00:01`. A text that is no time stays as it
    is."""
    try:
        return f"{datetime.fromisoformat(str(time)).astimezone():%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):
        return str(time)


def fields_lines(raw: bytes, width: int) -> list[StyledLine]:
    """The page with every member of a line in full."""
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
    """The newest lines of the log, up to a number and a size."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.dropped = 0
        """The number of lines that were read and dropped."""
        self._bytes = 0

    def add(self, lines: Sequence[bytes]) -> None:
        """Add lines at the end, and drop the oldest lines beyond the limits."""
        self.lines += lines
        self._bytes += sum(map(len, lines))
        gone = 0
        # A single line larger than the limit is kept, so that the screen is never empty.
        while len(self.lines) - gone > MAX_LINES or (
            self._bytes > MAX_BUFFER_BYTES and len(self.lines) - gone > 1
        ):
            self._bytes -= len(self.lines[gone])
            gone += 1
        if gone:
            self.lines = self.lines[gone:]
            self.dropped += gone


class AuditRows(Sequence[AuditRow]):
    """The rows of all lines, or of the lines at the places `chosen`. A row is made when it is read."""

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
    word_filter = parse_word_filter(words, _escaped_word)
    places: list[int] = []
    for place, raw in enumerate(islice(lines, start, stop), start):
        # The hashes of the chain end every line. A short word would match their digits by chance.
        end = raw.rfind(b',"prev":')
        if word_filter.matches((raw if end < 0 else raw[:end]).lower()):
            places.append(place)
    return places


def _escaped_word(word: str) -> bytes:
    """The word as the log spells it: JSON in ASCII, in lower case."""
    return json.dumps(word)[1:-1].lower().encode("ascii")


def empty_lines(*, known: bool, filtered: bool) -> list[StyledLine]:
    """The lines that are shown instead of no rows. `known` says whether the log has been read."""
    if not known:
        return [(), line(span(" The log is being read…", Tone.DIM))]
    if filtered:
        return [(), line(span(" Nothing matches. Esc clears the filter.", Tone.DIM))]
    return [
        (),
        line(span(" The log has no line yet.")),
        line(span(" Every call, card, decision, start and end will get one.", Tone.DIM)),
    ]


# The state of the log, and the report on how much a person is asked.


QUICK_APPROVAL_SHARE = 0.2
"""From this share of approvals within a second, the page gives an advice."""


def verification_lines(
    verification: Verification | None, checking: bool, lines: int, older: str, width: int
) -> list[StyledLine]:
    """The lines above the log: how many lines are shown, and whether they are as they were written. `older`
    names the lines that are not shown."""
    head = span(f" {plural(lines, 'line')}, newest last{older} · ")
    if verification is None:
        words = "being checked…" if checking else "not checked: v checks"
        return [truncated(line(head, span(words, Tone.DIM)), width)]
    again = span(" · being checked again…" if checking else "", Tone.DIM)
    if verification.whole:
        words = f"● {verification.message}, checked up to {verification.lines}"
        return [truncated(line(head, span(words, Tone.GOOD), again), width)]
    word, tone, fix = _damage(verification)
    where = f" ({verification.file}:{verification.line})" if verification.file else ""
    first = line(head, span(f"{word} at number {verification.seq}", tone), again)
    rest = line(span(f" {verification.message}{where}"))
    return [
        truncated(first, width),
        *wrap(rest, width, 3),
        *wrap(line(span(f" → {fix}", Tone.ACCENT)), width, 3),
    ]


def _damage(verification: Verification) -> tuple[str, Tone, str]:
    if verification.torn:
        return "◐ torn tail", Tone.WARN, "nothing to do: the next start sets the torn end aside and notes it"
    keep = "keep a copy of it, and find out who wrote to it"
    if verification.cut:
        return "✗ CUT against the anchors", Tone.BAD, f"lines are missing at its end: {keep}"
    return "✗ BROKEN", Tone.BAD, f"it was changed: {keep}. A kernel that starts now writes nothing to it"


def prompt_load_lines(report: ApprovalReport, width: int) -> list[StyledLine]:
    """The page on how much the person is asked, how fast they approve, and which tools and callers ask."""
    total = report.total
    if not total.prompts:
        return [(), line(span(" Nobody was asked yet."))]
    rows: list[StyledLine] = [()]
    for label, words in _totals(total):
        rows += labelled(label, words, width, 20)
    if total.approved_at_once_share >= QUICK_APPROVAL_SHARE:
        advice = " → nobody can read a card in a second: give a lease or a rule to what you always approve"
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
    rows = [
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
        rows.append(("never shown", f"{total.not_shown}, refused because too many waited"))
    return rows
