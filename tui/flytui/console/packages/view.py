"""Packages: what the registry names, and what can be done about them in this version."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from flytui.console.desk import Desk, Topic
from flytui.console.packages.rows import FOLDER, TITLES, PackageRow, columns, package_rows
from flytui.console.pages import PageScreen
from flytui.console.paint import Line, Span, Tone, fit, line, span, wrapped
from flytui.console.rows import RowsView
from flytui.console.views import Bar, LinesView

_LATER = (
    "This version lists packages. Staging, review, applying and rolling back come with a later one; until"
    f" then a package is unpacked by hand into {FOLDER}/ID."
)
_EMPTY = (
    "No entry of the registry names a package.",
    "",
    (
        "A package is a folder with sidecar.json and a program, kept beside the project in"
        f" {FOLDER}/ID. An entry that is made of one says so, and flytui compares the versions:"
    ),
    "",
    '  "pdf.read": {',
    f'    "command": "./{FOLDER}/pdfkit/bin/read",',
    '    "packageId": "pdfkit", "packageVersion": "3.2.0",',
    '    "tools": ["pdf.read"]',
    "  }",
    "",
    _LATER,
)


class PackagesView(Vertical):
    """The packages that the registry names."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy", show=False, id="packages.copy"),
    ]
    KEYS: ClassVar[list[tuple[str, str]]] = [("list.open", "details"), ("packages.copy", "copy as JSON")]

    def __init__(self, desk: Desk, *, id: str) -> None:
        super().__init__(id=id)
        self._desk = desk
        self._list = RowsView(id="package-rows")
        self._empty = LinesView(self._empty_lines, id="packages-empty")
        self._titles = Bar(self._title_lines, id="package-titles")
        self._note = Bar(self._note_lines, id="package-note")

    def compose(self) -> ComposeResult:
        """The list, or what will appear in it."""
        yield self._titles
        yield self._list
        yield self._empty
        yield self._note

    def on_mount(self) -> None:
        """Show what is known already."""
        self.changed(frozenset((Topic.CATALOG,)))

    def changed(self, topics: frozenset[Topic]) -> None:
        """The registry or a version moved."""
        if Topic.CATALOG not in topics:
            return
        rows = package_rows(self._desk.catalog)
        self._list.show(rows)
        self._list.display, self._empty.display = bool(rows), not rows
        for bar in (self._titles, self._note):
            bar.redraw()
        self._empty.rebuild()

    def focus_here(self) -> None:
        """Where keys go when this screen is shown."""
        self.screen.set_focus(self._list if self._list.display else self._empty)

    def action_copy(self) -> None:
        """The sidecar of the package under the cursor on the terminal's clipboard, as JSON."""
        row = self._list.row
        if isinstance(row, PackageRow):
            self.app.copy_to_clipboard(_json(row))
        copied = isinstance(row, PackageRow)
        self._desk.notice = "copied as JSON" if copied else "there is no package to copy"
        self.post_message(Bar.Stale())

    @on(RowsView.Chosen)
    def _chosen(self, event: RowsView.Chosen) -> None:
        event.stop()
        row = self._list.row
        if isinstance(row, PackageRow):
            page = PageScreen(self._desk, "Packages", row.details, copy=lambda: _json(row))
            self.app.push_screen(page)

    def _title_lines(self, width: int) -> Sequence[Line]:
        if not self._list.display:
            return []
        return [fit((Span("  "), *columns([span(title, Tone.DIM) for title in TITLES], width - 4)), width)]

    def _note_lines(self, width: int) -> Sequence[Line]:
        return wrapped([line(span(f" {_LATER}", Tone.DIM))], width, 1) if self._list.display else []

    def _empty_lines(self, width: int) -> Sequence[Line]:
        return [(), *wrapped([line(span(f" {text}")) for text in _EMPTY], width, 1)]


def _json(row: PackageRow) -> str:
    return json.dumps(msgspec.to_builtins(row.view), indent=2)
