"""What is described, as rows and as details; what importing a server writes, line by line. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Severity
from flycore.model.source import Binding as KitBinding
from flycore.model.source import Described, DescribedState, Import
from flysafe.text import strict_text
from flytui.console.paint import StyledLine, StyledText, Tone, line, padded, span, truncated, wrapped

COLUMN_TITLES = ("STATE", "KIND", "NAME", "FROM", "WHAT IT IS / WHY")
REGISTRY = "tools/external.tools.jsonc"
_STATE_LABELS = {
    DescribedState.LISTED: ("● listed", Tone.GOOD),
    DescribedState.SHADOWED: ("– shadowed", Tone.DIM),
    DescribedState.REGISTERED: ("● registered", Tone.GOOD),
    DescribedState.ITSELF: ("⊘ itself", Tone.DIM),
    DescribedState.FAULTY: ("○ faulty", Tone.BAD),
}
_SEVERITIES = {Severity.ERROR: Tone.BAD, Severity.WARNING: Tone.WARN, Severity.INFO: Tone.DIM}
_SIZES = (13, 11, 26, 9)


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One of them."""

    described: Described
    key: str

    def draw(self, width: int) -> StyledLine:
        """State, kind, name, whose it is, and the first thing to know; the last where there is room."""
        item = self.described
        state, tone = _STATE_LABELS[item.state]
        cells = [
            span(state, tone),
            span(item.kind.value, Tone.DIM),
            span(item.id, Tone.STRONG),
            span(item.source.value, Tone.DIM),
        ]
        return _columns([*cells, span(one_line_summary(item))], width)


def source_rows(catalog: Catalog | None) -> list[SourceRow]:
    """In the order of the catalog; a row is told from others by its kind, id and file."""
    found = catalog.described if catalog is not None else ()
    return [SourceRow(item, f"{item.key} {item.path}") for item in found]


def titles_line(width: int) -> StyledLine:
    """The headings of the columns."""
    return _columns([span(title, Tone.DIM) for title in COLUMN_TITLES], width)


def _columns(cells: Sequence[StyledText], width: int) -> StyledLine:
    """The cells side by side; the last one has the rest of the width."""
    *sized, last = cells
    row = [
        part
        for cell, size in zip(sized, _SIZES, strict=True)
        for part in (*padded((cell,), size - 1), StyledText(" "))
    ]
    return truncated((*row, last), width)


def one_line_summary(item: Described) -> str:
    """The one thing to know: what is wrong, else what it is."""
    wrong = next((reason for reason in item.reasons if reason.severity is not Severity.INFO), None)
    first = wrong or next(iter(item.reasons), None)
    if first is not None:
        return first.message
    return item.summary or "; ".join(item.lines) or ", ".join(_binding_words(one) for one in item.bindings)


def source_lines(item: Described, width: int) -> list[StyledLine]:
    """Everything that its file says, and what is made of it."""
    state, tone = _STATE_LABELS[item.state]
    facts: list[tuple[str, str]] = [
        ("is", " ".join(part for part in (item.type, item.kind.value, item.version) if part)),
        ("from", f"{item.source.value} {item.path}".strip()),
        ("name", item.name if item.name != item.id else ""),
        ("about", item.summary),
        *(("", text) for text in item.lines),
        ("asks for", ", ".join(item.permissions)),
        *(("binds" if at == 0 else "", _binding_words(one)) for at, one in enumerate(item.bindings)),
        ("listens to", ", ".join(item.subscriptions)),
    ]
    rows: list[StyledLine] = [
        line(StyledText(" "), span(item.id, Tone.STRONG), StyledText("  "), span(state, tone)),
        (),
    ]
    for name, value in facts:
        if value:
            rows += wrapped(
                [(*padded((StyledText("   "), span(name, Tone.DIM)), 14), span(value))], width, 14
            )
    rows += [(), *wrapped([line(span(" Described, not run: nothing is granted by it.", Tone.DIM))], width, 1)]
    for reason in item.reasons:
        place = f"{reason.position}: " if reason.position is not None else ""
        said = f"   {place}{reason.message} [{reason.rule}]"
        rows += [(), *wrapped([line(span(said, _SEVERITIES[reason.severity]))], width, 3)]
        rows += [line(span(f"   {text}", Tone.DIM)) for text in reason.excerpt.splitlines()]
        if reason.remedy:
            rows += wrapped([line(span("   → ", Tone.ACCENT), span(reason.remedy))], width, 5)
    return rows


def import_texts(item: Described, offer: Import) -> list[str]:
    """What importing it writes, and what it leaves out: each a line to decide by, drawn
    through `strict_text`."""
    entry = f"{json.dumps(offer.id)}: {json.dumps(offer.entry, indent=2, ensure_ascii=False)}"
    return [
        f"writes into {REGISTRY}, and changes nothing else in it:",
        "",
        *(f"  {text}" for text in entry.split("\n")),
        "",
        *(f"· {note}" for note in offer.notes),
        f"· as {item.path} says it now; that file stays as it is",
        "· the entry is trusted, as you read it here; its tools are judged and asked for like all others",
    ]


def import_lines(item: Described, offer: Import, width: int) -> list[StyledLine]:
    """The same for the screen."""
    texts = import_texts(item, offer)
    rows = [
        line(StyledText(" "), StyledText(strict_text(text), _import_line_tone(text))) if text else ()
        for text in texts
    ]
    return wrapped(rows, width, 3)


def counts_by_kind(items: Iterable[Described]) -> str:
    """How many of each kind there are, in words."""
    numbers: dict[str, int] = {}
    for item in items:
        numbers[item.kind.value] = numbers.get(item.kind.value, 0) + 1
    return ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in numbers.items())


def _binding_words(binding: KitBinding) -> str:
    if not binding.known:
        return f"{binding.name}: no such capability"
    if binding.known == 1:
        return f"{binding.name}: {'visible' if binding.usable else 'not available'}"
    return f"{binding.name}: {binding.usable} of {binding.known} visible"


def _import_line_tone(text: str) -> Tone:
    return Tone.DIM if text.startswith("·") else Tone.PLAIN
