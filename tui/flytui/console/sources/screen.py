"""The screen of what is described, over the catalog; a server of it can be taken over into the registry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from flycore.model.source import Described, SourceKind
from flytui.console.desk import ConsoleState, Topic
from flytui.console.fix.screen import ConfirmActionScreen
from flytui.console.header import alert_lines, header_lines
from flytui.console.pages import PageScreen
from flytui.console.paint import StyledLine, StyledText, keys_fitting, truncated
from flytui.console.rows import VirtualList
from flytui.console.sources.rows import (
    REGISTRY,
    SourceRow,
    import_lines,
    source_lines,
    source_rows,
    titles_line,
)
from flytui.console.views import LineBar

HEADING = "Kits and sources"


class SourcesScreen(Screen[None]):
    """A list; Enter shows all of a row, and what can be imported is imported once it has been seen."""

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

    def __init__(self, desk: ConsoleState) -> None:
        super().__init__()
        self._desk = desk
        self._list = VirtualList(id="source-rows")

    def compose(self) -> ComposeResult:
        """Header, titles, list, bar, keys."""
        yield LineBar(lambda width: header_lines(self._desk, HEADING, width), id="header")
        yield LineBar(self._titles, id="source-titles")
        yield self._list
        yield LineBar(lambda width: alert_lines(self._desk, width), id="alert")
        yield LineBar(self._keys, id="keys")

    def on_mount(self) -> None:
        """Show what is known."""
        self.changed(frozenset((Topic.CATALOG,)))
        self.set_focus(self._list)

    def changed(self, topics: frozenset[Topic]) -> None:
        """Rows follow the catalog."""
        if Topic.CATALOG in topics:
            self._list.set_rows(source_rows(self._desk.catalog))
        for bar in self.query(LineBar):
            bar.redraw()

    def action_close(self) -> None:
        """Back to the catalog."""
        self.dismiss()

    def action_copy(self) -> None:
        """The row under the cursor as JSON, on the terminal's clipboard."""
        item = self._item
        if item is not None:
            self.app.copy_to_clipboard(_json(item))
            self._show_notice("sent as JSON to the terminal's clipboard")

    def action_import_server(self) -> None:
        """Show exactly what would be written; an armed key does it."""
        item = self._item
        if item is None or item.offer is None:
            self._show_notice(_import_refusal(item))
            return
        offer = item.offer

        def lines(width: int) -> Sequence[StyledLine]:
            return [(), *import_lines(item, offer, width)]

        async def write() -> str:
            outcome = await self._desk.approver.import_server(item.path, item.id, offer.digest)
            return "" if outcome.accepted else outcome.why_not or "refused"

        def answered(yes: bool | None) -> None:
            if yes:
                self._show_notice(f"{offer.id} stands in {REGISTRY}, and is trusted as you read it")

        heading = f"Import the MCP server {item.id} of {item.path}"
        screen = ConfirmActionScreen(
            self._desk, "Import", heading, lines, "write and trust it", write, copy=_entry(item)
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
            rows = source_rows(self._desk.catalog)
            return next((one.described for one in rows if one.key == row.key), row.described)

        page = PageScreen(
            self._desk, HEADING, lambda width: source_lines(now(), width), copy=lambda: _json(now())
        )
        self.app.push_screen(page)

    def _titles(self, width: int) -> Sequence[StyledLine]:
        return [truncated((StyledText("  "), *titles_line(width - 4)), width)]

    def _keys(self, width: int) -> Sequence[StyledLine]:
        return [keys_fitting(self._desk.keys.hints(self.KEYS), width)]

    def _show_notice(self, notice: str) -> None:
        self._desk.notice = notice
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
