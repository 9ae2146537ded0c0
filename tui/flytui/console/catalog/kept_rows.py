"""The rows of the catalog as it was last, which the Catalog shows until the kernel has answered.

They hold texts and no values of the kernel, so that no action can be done on one of them: it has neither a
tool to call nor an entry to change. Another glyph and one colour tell them from confirmed rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest

import msgspec

from flycore.model.diagnostics import Fix
from flycore.model.enums import Effective
from flycore.model.kept_catalog import KeptCatalog, KeptReason, KeptRow
from flycore.model.stability import Reason
from flytui.console.catalog.catalog_rows import RowCells, TextNeeds, row_line, text_needs
from flytui.console.catalog.reason_summary import ReasonSummary, summarise_reason
from flytui.text.filter_query import CHANGED, FilterItem, listed_texts
from flytui.text.labels import age
from flytui.text.lines import StyledLine, StyledText, Tone, line, name_span, span, wrapped

UNCONFIRMED_GLYPH = "◌"
"""Stands before the state of a row that no kernel has confirmed since the console was opened."""
_MEASURED = 40
"""The rows with the longest texts, whose cells are counted. Counting those of ten thousand rows takes longer
than the first frame may take."""


class KeptAge(msgspec.Struct):
    """What the rows of one kept catalog have in common."""

    at: float
    now: Callable[[], float]
    needs: TextNeeds = msgspec.field(default_factory=TextNeeds)

    @property
    def text(self) -> str:
        """How long ago the catalog was so, such as `as of 2m ago`."""
        return f"as of {age(self.now() - self.at)} ago"


class KeptToolRow(msgspec.Struct, eq=False):
    """A tool, or a sidecar that offers no tool, as it was."""

    kept: KeptRow
    key: str
    age: KeptAge
    part: int
    """As in `CatalogRow`."""
    _listed: FilterItem | None = None

    @property
    def tool(self) -> str:
        """The name of the tool; empty for a sidecar that offers none."""
        return self.kept.tool

    @property
    def sidecar(self) -> str:
        """The id of the sidecar."""
        return self.kept.sidecar

    @property
    def name(self) -> str:
        """The name of the tool, or the id of the sidecar."""
        return self.kept.tool or self.kept.sidecar

    @property
    def state(self) -> tuple[str, Tone]:
        """The state as it was, with the glyph that says that it is not confirmed."""
        word = CHANGED if self.kept.changed else self.kept.effective.value
        return f"{UNCONFIRMED_GLYPH} {word}", Tone.DIM

    @property
    def heading(self) -> str:
        """The heading of the group of its sidecar."""
        return self.kept.sidecar

    @property
    def filter_item(self) -> FilterItem:
        """The row as the filter searches it."""
        kept = self.kept
        self._listed = self._listed or listed_texts(
            (kept.tool, kept.sidecar, kept.summary),
            kept.effective.value,
            [_reason_of(kept.reason)] if kept.reason is not None else (),
            changed=kept.changed,
            risk=kept.risk.value if kept.risk is not None else "",
            policy=(kept.decision or "none",),
            source=kept.source,
        )
        return self._listed

    @property
    def why(self) -> ReasonSummary:
        """The sentence about its state."""
        kept = self.kept
        reasons = (_reason_of(kept.reason),) if kept.reason is not None else ()
        told = summarise_reason(reasons, kept.place, kept.summary, changed=kept.changed, name=self.name)
        return told if kept.reason is None or kept.changed else told._replace(more=kept.reason.further)

    def draw(self, width: int) -> StyledLine:
        """Draw the columns that fit, in the colour of what is not confirmed."""
        kept = self.kept
        cells = RowCells(
            state=self.state,
            tool=kept.tool,
            sidecar=kept.sidecar,
            version=kept.version,
            risk=kept.risk,
            policy="" if kept.effective is Effective.DISABLED else kept.decision,
            probe=None,
            metrics=None,
            why=self.why,
        )
        drawn = row_line(cells, self.age.now(), width, self.age.needs)
        return tuple(StyledText(part.text, Tone.DIM) for part in drawn)

    @property
    def refusal(self) -> str:
        """Why nothing can be done about the row."""
        return f"{self.name} is {self.age.text}, not confirmed yet: nothing can be done about it before"


KeptRows = tuple[KeptToolRow, ...]


def kept_rows(kept: KeptCatalog, now: Callable[[], float]) -> KeptRows:
    """The rows in the order of the Catalog. `now` gives Unix seconds."""
    shared = KeptAge(kept.at, now)
    rows = [_row(item, shared) for item in kept.rows]
    rows.sort(key=lambda row: (row.part, row.kept.tool or row.kept.sidecar))
    shared.needs = _needs(rows)
    return tuple(rows)


def kept_summary(rows: Sequence[KeptToolRow]) -> str:
    """The number of rows in each state, as in `12 available · 5 unavailable`."""
    counts = Counter(CHANGED if row.kept.changed else row.kept.effective.value for row in rows)
    order = (*(state.value for state in Effective), CHANGED)
    return " · ".join(f"{counts[state]} {state}" for state in order if state in counts)


def kept_note(rows: Sequence[KeptToolRow], summary: str) -> StyledLine:
    """The line above the rows that says that they are not confirmed."""
    since = rows[0].age.text if rows else ""
    return line(
        span(f" {UNCONFIRMED_GLYPH} {since}, not confirmed yet", Tone.WARN), span(f" · {summary}", Tone.DIM)
    )


def kept_lines(row: KeptToolRow, width: int) -> list[StyledLine]:
    """The page about a row: what is kept of it, and that it is not confirmed."""
    kept = row.kept
    rows: list[StyledLine] = [
        line(StyledText(" "), name_span(row.name, Tone.STRONG), StyledText("  "), span(*row.state)),
        line(span(f" {row.age.text}, not confirmed yet", Tone.WARN)),
        (),
    ]
    if kept.summary:
        rows += wrapped([line(StyledText(" "), span(kept.summary))], width, 1)
    if kept.reason is not None:
        words = f" {kept.reason.code.value}: {kept.reason.message}", f" → {kept.reason.remedy}"
        rows += wrapped([line(span(text, Tone.DIM)) for text in words], width, 3)
    return rows


def _row(kept: KeptRow, shared: KeptAge) -> KeptToolRow:
    if kept.tool:
        return KeptToolRow(kept, f"tool {kept.tool}", shared, 0 if kept.offered else 2)
    return KeptToolRow(kept, f"sidecar {kept.sidecar}", shared, 1)


def _needs(rows: Iterable[KeptToolRow]) -> TextNeeds:
    rows = list(rows)
    longest = nlargest(_MEASURED, rows, key=lambda row: len(row.kept.tool) or len(row.kept.sidecar))
    return text_needs((*longest, *nlargest(_MEASURED, rows, key=_text_length)))


def _text_length(row: KeptToolRow) -> int:
    kept = row.kept
    if kept.reason is None:
        return len(kept.summary)
    return len(kept.reason.message) + len(kept.reason.remedy) + len(kept.reason.words)


def _reason_of(kept: KeptReason) -> Reason:
    fix = Fix(kind=kept.fix, words=kept.words) if kept.fix is not None else None
    return Reason(code=kept.code, dimension="", message=kept.message, remedy=kept.remedy, fix=fix)
