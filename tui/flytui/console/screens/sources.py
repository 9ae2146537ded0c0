"""The screen of kits and sources: what other programs' files describe, which flytui reads and never runs. An
MCP server among them can be imported into the registry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from flycore.model.catalog import Catalog
from flycore.model.described import Binding as KitBinding
from flycore.model.described import Described, DescribedState, Import, SourceKind
from flycore.model.diagnostics import Severity
from flysafe.text import strict_text
from flytui.console.screens.base import PageScreen, ScreenTraits, more_keys
from flytui.console.screens.confirm_action import ConfirmActionScreen
from flytui.console.screens.header import alert_lines, header_lines
from flytui.console.state import ConsoleState, Topic
from flytui.console.widgets.lines import LineBar
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.lines import (
    StyledLine,
    StyledText,
    Tone,
    keys_fitting,
    line,
    padded,
    span,
    truncated,
    wrapped,
)

COLUMN_TITLES = ("STATE", "KIND", "NAME", "FROM", "WHAT IT IS / WHY")
HEADING = "Kits and sources"
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


class SourceRow(msgspec.Struct, frozen=True):
    """A kit, a skill, a plugin or a server, as a row of the list."""

    described: Described
    key: str

    def draw(self, width: int) -> StyledLine:
        """The row: state, kind, name, whose it is, and its summary in the rest of the width."""
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
    """The rows in the order of the catalog. Kind, id and file together identify a row."""
    found = catalog.described if catalog is not None else ()
    return [SourceRow(item, f"{item.key} {item.path}") for item in found]


def titles_line(width: int) -> StyledLine:
    """The line of column headings."""
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
    """The most important fact: the first problem, or else the summary."""
    wrong = next((reason for reason in item.reasons if reason.severity is not Severity.INFO), None)
    first = wrong or next(iter(item.reasons), None)
    if first is not None:
        return first.message
    return item.summary or "; ".join(item.lines) or ", ".join(_binding_words(one) for one in item.bindings)


def source_lines(item: Described, width: int) -> list[StyledLine]:
    """The lines of the details: everything that the file says, and the problems found in it."""
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
        text = f"   {place}{reason.message} [{reason.rule}]"
        rows += [(), *wrapped([line(span(text, _SEVERITIES[reason.severity]))], width, 3)]
        rows += [line(span(f"   {excerpt}", Tone.DIM)) for excerpt in reason.excerpt.splitlines()]
        if reason.remedy:
            rows += wrapped([line(span("   → ", Tone.ACCENT), span(reason.remedy))], width, 5)
    return rows


def import_texts(item: Described, offer: Import) -> list[str]:
    """What an import writes and what it leaves out, as the lines that a person decides by. They hold text
    from outside, so they have to be drawn through `strict_text`."""
    entry = f"{json.dumps(offer.id)}: {json.dumps(offer.entry, indent=2, ensure_ascii=False)}"
    return [
        f"writes into {REGISTRY}, and changes nothing else in it:",
        "",
        *(f"  {text}" for text in entry.split("\n")),
        "",
        *(f"· {note}" for note in offer.notes),
        f"· taken from {item.path} as it is now; that file is not changed",
        "· the entry is trusted, as you read it here; policy and approvals hold for its tools, too",
    ]


def import_lines(item: Described, offer: Import, width: int) -> list[StyledLine]:
    """The texts of `import_texts`, safe to draw and wrapped."""
    texts = import_texts(item, offer)
    rows = [
        line(StyledText(" "), StyledText(strict_text(text), _import_line_tone(text))) if text else ()
        for text in texts
    ]
    return wrapped(rows, width, 3)


def _binding_words(binding: KitBinding) -> str:
    if not binding.known:
        return f"{binding.name}: no such capability"
    if binding.known == 1:
        return f"{binding.name}: {'visible' if binding.usable else 'not available'}"
    return f"{binding.name}: {binding.usable} of {binding.known} visible"


def _import_line_tone(text: str) -> Tone:
    return Tone.DIM if text.startswith("·") else Tone.PLAIN


class SourcesScreen(ScreenTraits, Screen[None]):
    """The list of kits and sources, over the catalog. Enter shows the details of a row."""

    closes_for_view = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,backspace", "close", "Back", show=False, id="sources.close"),
        Binding("m", "import_server", "Import", show=False, id="sources.import"),
        Binding("y", "copy", "Copy", show=False, id="sources.copy"),
    ]
    KEYS: ClassVar[list[tuple[str, str]]] = [
        ("list.open", "details"),
        ("sources.import", "import the server"),
        ("sources.copy", "copy as JSON"),
        ("sources.close", "back"),
    ]

    def __init__(self, state: ConsoleState) -> None:
        super().__init__()
        self._state = state
        self._list = VirtualList(id="source-rows")

    def compose(self) -> ComposeResult:
        """Yield the header, the column headings, the list, the alerts and the key line."""
        yield LineBar(lambda width: header_lines(self._state, HEADING, width), id="header")
        yield LineBar(self._titles, id="source-titles")
        yield self._list
        yield LineBar(lambda width: alert_lines(self._state, width), id="alert")
        yield LineBar(self._keys, id="keys")

    def on_mount(self) -> None:
        """Fill the list and give it the focus."""
        self.changed(frozenset((Topic.CATALOG,)))
        self.set_focus(self._list)

    def changed(self, topics: frozenset[Topic]) -> None:
        """Draw again, with new rows where the catalog changed."""
        if Topic.CATALOG in topics:
            self._list.set_rows(source_rows(self._state.catalog))
        for bar in self.query(LineBar):
            bar.redraw()

    def action_close(self) -> None:
        """Close the screen."""
        self.dismiss()

    def action_copy(self) -> None:
        """Send the row under the cursor to the terminal's clipboard, as JSON."""
        item = self._item
        if item is not None:
            self.app.copy_to_clipboard(_json(item))
            self._show_notice("sent as JSON to the terminal's clipboard")

    def action_import_server(self) -> None:
        """Show exactly what an import would write. An armed key then writes it."""
        item = self._item
        if item is None or item.offer is None:
            self._show_notice(_import_refusal(item))
            return
        offer = item.offer

        def lines(width: int) -> Sequence[StyledLine]:
            return [(), *import_lines(item, offer, width)]

        async def write() -> str:
            outcome = await self._state.approver.import_server(item.path, item.id, offer.digest)
            return "" if outcome.accepted else outcome.why_not or "refused"

        def answered(yes: bool | None) -> None:
            if yes:
                self._show_notice(f"{offer.id} is in {REGISTRY} now, and is trusted as you read it")

        heading = f"Import the MCP server {item.id} of {item.path}"
        screen = ConfirmActionScreen(
            self._state, "Import", heading, lines, "write and trust it", write, copy=_entry(item)
        )
        self.app.push_screen(screen, answered)

    @property
    def _item(self) -> Described | None:
        row = self._list.row
        return row.described if isinstance(row, SourceRow) else None

    @on(VirtualList.Chosen)
    def _chosen(self, event: VirtualList.Chosen) -> None:
        event.stop()
        row = self._list.row
        if not isinstance(row, SourceRow):
            return

        def now() -> Described:
            rows = source_rows(self._state.catalog)
            return next((one.described for one in rows if one.key == row.key), row.described)

        page = PageScreen(
            self._state, HEADING, lambda width: source_lines(now(), width), copy=lambda: _json(now())
        )
        self.app.push_screen(page)

    def _titles(self, width: int) -> Sequence[StyledLine]:
        return [truncated((StyledText("  "), *titles_line(width - 4)), width)]

    def _keys(self, width: int) -> Sequence[StyledLine]:
        return [keys_fitting(self._state.keys.hints(self.KEYS), width, more_keys(self._state.keys))]

    def _show_notice(self, notice: str) -> None:
        self._state.shared.notice = notice
        self.changed(frozenset())


def _import_refusal(item: Described | None) -> str:
    if item is None or item.kind is not SourceKind.MCP_SERVER:
        return "only the MCP servers of other clients can be imported"
    why = next(iter(item.reasons), None)
    return why.message if why is not None else f"{item.id} cannot be imported"


def _json(item: Described) -> str:
    return json.dumps(msgspec.to_builtins(item), indent=2)


def _entry(item: Described) -> str:
    return json.dumps({item.offer.id: item.offer.entry}, indent=2) if item.offer is not None else ""
