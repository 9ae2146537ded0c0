"""The screen of one call, with the views that suit its output."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import anyio.to_thread
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from flycore.model.call import Activity, Picture, UndoResult
from flycore.model.enums import Status
from flycore.model.errors import FlyError
from flysafe.text import strict_text
from flytui.console.activity.call_lines import call_json, call_lines, input_text, state_line
from flytui.console.activity.output_views import (
    CallView,
    LazyLines,
    TableRow,
    TreeNode,
    first_view,
    images_of,
    parent_of,
    table_of,
    table_rows,
    text_paragraphs,
    texts_of,
    tree_of,
    views_of,
    with_toggled,
)
from flytui.console.approvals.request_list import ApprovalsView
from flytui.console.audit.log_lines import call_log_lines
from flytui.console.fix.terminal_programs import ViewFile
from flytui.console.screens.base import PageScreen, more_keys, run_latest
from flytui.console.screens.confirm_action import ConfirmActionScreen
from flytui.console.screens.header import alert_lines, header_lines
from flytui.console.state import ConsoleState, QueuedRequest, Topic
from flytui.console.terminal_graphics import GraphicsProtocol
from flytui.console.widgets.lines import LineBar
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.call_facts import decided_text
from flytui.text.half_blocks import picture_lines
from flytui.text.labels import json_text
from flytui.text.lines import StyledLine, StyledText, Tone, keys_fitting, line, span, truncated, wrap, wrapped

_UNDOABLE = ("workspace.write", "workspace.edit", "workspace.patch")
"""The tools whose changes the kernel keeps for an undo."""
_ROW_VIEWS = (CallView.TREE, CallView.TABLE)
"""Views that are lists of rows; the others are lines."""
_VIEWED = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""The endings of files that are opened. By the ending, a desktop chooses the program that opens a file, and
of some kinds it would run the file itself."""
_NO_PICTURE = "cannot be shown: it is gone, damaged, too large, or no image"


def viewing_obstacle(path: str) -> str:
    """Why the file of a tool may not be opened in a viewer; `""` where it may."""
    if not os.path.isabs(path) or not path.lower().endswith(_VIEWED):
        return f"only files that end with {', '.join(_VIEWED)} are opened"
    try:
        found = os.lstat(path)
    except (OSError, ValueError) as error:
        return f"it cannot be read: {getattr(error, 'strerror', None) or error}"
    return "" if stat.S_ISREG(found.st_mode) else "it is no regular file"


class CallScreen(PageScreen):
    """Shows one call and follows it while it runs. When the call ends, the view that suits its output is
    shown, unless the person chose one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(view.key, f"show('{view.name}')", view.title, show=False, id=f"call.{view.name.lower()}")
            for view in CallView
        ),
        Binding("o", "file", "Open the picture", show=False, id="call.file"),
        Binding("z", "undo", "Undo", show=False, id="call.undo"),
        Binding("d", "decision", "Decision", show=False, id="call.decision"),
        Binding("g", "log", "Log lines", show=False, id="call.log"),
        Binding("f", "files", "Files", show=False, id="call.files"),
        Binding("tab", "turn(1)", "Next view", show=False, id="call.next"),
        Binding("shift+tab", "turn(-1)", "Previous view", show=False, id="call.previous"),
        Binding("right,l", "inside(True)", "Open", show=False, id="call.open"),
        Binding("left,h", "inside(False)", "Close", show=False, id="call.close"),
    ]

    def __init__(self, state: ConsoleState, call: Activity) -> None:
        super().__init__(state, call.tool, self._lines, copy=lambda: call_json(self._call))
        self._call = call
        self._view = first_view(call)
        self._chosen = False
        self._image = 0
        self._pictures: dict[int, Picture | None] = {}
        self._rows = VirtualList(id="call-tree")
        self._undo_running = False
        self._outcome = ""
        """How an undo or the opening of a file ended, shown above the keys."""
        self._tree: list[TreeNode] = []
        self._table: list[TableRow] = []

    def compose(self) -> ComposeResult:
        """Place the header, the state, the views, and the lines or rows of the current view."""
        yield LineBar(lambda width: header_lines(self._state, self._heading, width), id="header")
        yield LineBar(
            lambda width: [truncated(state_line(self._call, self._state.now()), width)], id="call-state"
        )
        yield LineBar(self._view_lines, id="call-views")
        yield LineBar(self._column_lines, id="call-columns")
        yield self._rows
        yield self._page
        yield LineBar(lambda width: alert_lines(self._state, width), id="alert")
        yield LineBar(self._keys, id="keys")

    def on_mount(self) -> None:
        """Draw the elapsed time every second."""
        self.set_interval(1.0, self._tick)
        self._use_call(self._call)

    def changed(self, topics: frozenset[Topic]) -> None:
        """Show the call again after it changed."""
        calls = self._state.activity if Topic.ACTIVITY in topics else ()
        fresh = next((call for call in calls if call.call_id == self._call.call_id), self._call)
        if fresh is not self._call:
            ended = self._call.result is None and fresh.result is not None
            self._call = fresh
            if ended and not self._chosen:
                self._view = first_view(fresh)
            self._use_call(fresh)
        for bar in self.query(LineBar):
            bar.redraw()

    def on_resize(self) -> None:
        """Draw a picture again for its new size."""
        if self._view is CallView.PICTURE:
            self._page.rebuild()

    def action_show(self, name: str) -> None:
        """Show a view, if it has something to show."""
        view = CallView[name]
        if view in views_of(self._call):
            self._view, self._chosen = view, True
            self._page.scroll_to(y=0, animate=False)
            self._use_call(self._call)

    def action_turn(self, by: int) -> None:
        """Show the next view or the one before."""
        views = views_of(self._call)
        here = views.index(self._view) if self._view in views else 0
        self.action_show(views[(here + by) % len(views)].name)

    def action_inside(self, opens: bool) -> None:
        """Open or close a row of the tree, or show the next picture or the one before."""
        if self._view is CallView.PICTURE:
            self._image = (self._image + (1 if opens else -1)) % len(images_of(self._call))
            self._use_call(self._call)
        elif self._view is CallView.TREE and self._rows.row is not None:
            at = self._rows.cursor
            node = self._tree[at]
            if node.can_open and node.open is not opens:
                self._toggle(at)
            elif opens and node.can_open:
                self._rows.action_move(1)
            elif not opens:
                self._rows.action_move(parent_of(self._tree, at) - at)

    @on(VirtualList.Chosen)
    def _on_row_opened(self, event: VirtualList.Chosen) -> None:
        """Open or close a row of the tree; show any other row as a whole on a page."""
        event.stop()
        row = event.rows.row
        if isinstance(row, TreeNode) and row.can_open:
            self._toggle(event.rows.cursor)
        elif isinstance(row, TreeNode):
            self._show_whole(
                row.key or "Output", row.value if isinstance(row.value, str) else json_text(row.value)
            )
        elif isinstance(row, TableRow):
            self._show_whole(f"Row {row.at + 1}", json_text(row.item))

    def _show_whole(self, title: str, text: str) -> None:
        parts = text_paragraphs([("", text)])
        self.app.push_screen(PageScreen(self._state, title, lambda width: LazyLines(parts, width)))

    def _toggle(self, at: int) -> None:
        self._tree = with_toggled(self._tree, at)
        self._rows.set_rows(self._tree)

    def _use_call(self, call: Activity) -> None:
        """Show the call in the current view."""
        if self._view not in views_of(call):
            self._view = CallView.CALL
        output = call.result.output if call.result is not None else None
        by_rows = self._view in _ROW_VIEWS
        self._rows.display, self._page.display = by_rows, not by_rows
        if self._view is CallView.TREE:
            # The rows stay the same when the call is fetched again: what the person opened stays open.
            self._tree = self._tree or tree_of(output)
            self._rows.set_rows(self._tree)
        elif self._view is CallView.TABLE:
            self._table = self._table or table_rows(table_of(output))
            self._rows.set_rows(self._table)
        elif self._view is CallView.PICTURE:
            self._fetch()
        self.set_focus(self._rows if by_rows else self._page)
        self._page.rebuild()
        for bar in self.query(LineBar):
            bar.redraw()

    def _fetch(self) -> None:
        index, _ = images_of(self._call)[self._image]
        if index not in self._pictures:
            run_latest(self, partial(self._fetch_picture, index), "picture")

    async def _fetch_picture(self, index: int) -> None:
        try:
            self._pictures[index] = await self._state.client.picture(self._call.call_id, index)
        except FlyError:
            self._pictures[index] = None
        self._page.rebuild()

    def action_decision(self) -> None:
        """Open the card on which the call was decided; its lines in the log where that card is gone."""
        call = self._call
        ask = next((ask for ask in self._state.asks if ask.request.call_id == call.call_id), None)
        if ask is not None:
            self.post_message(ApprovalsView.OpenCard(QueuedRequest(self._state, ask)))
        elif call.decision is not None:
            self.action_log()
        else:
            self._say(f"nobody was asked: {decided_text(call) or 'it ended before'}")

    def action_log(self) -> None:
        """Show what the log has of the call."""
        run_latest(self, self._show_log, "log")

    async def _show_log(self) -> None:
        reader = self._state.audit_reader
        if reader is None:
            self._say("there is no log to read here")
            return
        try:
            records = await reader.lines_of(self._call.call_id)
        except OSError as error:
            self._say(f"the log cannot be read: {error.strerror}")
            return
        copied = json_text(list(records))
        page = PageScreen(
            self._state, "Log lines", lambda width: call_log_lines(records, width), copy=lambda: copied
        )
        self.app.push_screen(page)

    def action_files(self) -> None:
        """Show the files that the call made, each with its whole path."""
        result = self._call.result
        files = result.artifacts if result is not None else ()
        if not files:
            self._say("it made no file that is kept with it")
            return

        def lines(width: int) -> Sequence[StyledLine]:
            facts = [(item.path, f"{item.mime_type}, {item.bytes:,} bytes") for item in files]
            rows = [(line(span(f" {path}")), line(span(f"   {what}", Tone.DIM))) for path, what in facts]
            return wrapped([row for pair in rows for row in pair], width, 3)

        paths = json_text([item.path for item in files])
        self.app.push_screen(PageScreen(self._state, "Files", lines, copy=lambda: paths))

    def _say(self, notice: str) -> None:
        self._state.shared.notice = notice
        self.changed(frozenset())

    async def action_file(self) -> None:
        """Open the file of the picture in the system's viewer."""
        images = images_of(self._call)
        if self._view is not CallView.PICTURE or not images:
            return
        index, artifact = images[self._image]
        programs = self._state.terminal_programs
        if programs is None or programs.view is None:
            self._show_outcome(
                f"no viewer here: xdg-open and a desktop are needed; the file is {artifact.path}"
            )
        elif self._pictures.get(index) is None:
            self._show_outcome(f"not opened: the picture {_NO_PICTURE}")
        elif why_not := await anyio.to_thread.run_sync(viewing_obstacle, artifact.path):
            self._show_outcome(f"not opened: {why_not}")
        else:
            self._show_outcome(f"opening {artifact.path}")
            self.run_worker(self._view_file(programs.view, artifact.path), group="viewer")

    async def _view_file(self, view: ViewFile, path: str) -> None:
        try:
            status = await view(path)
        except OSError as error:
            self._show_outcome(f"not opened: {error.strerror or error}")
        else:
            if status:
                self._show_outcome(f"the viewer ended with exit status {status}")

    def _show_outcome(self, words: str) -> None:
        self._outcome = words
        self.query_one("#keys", LineBar).redraw()

    def action_undo(self) -> None:
        """Show which files would get back what they were, and undo the change once that was confirmed."""
        if not self._undo_running:
            self._undo_running = True
            self.run_worker(self._look_for_undo(), group="undo")

    async def _look_for_undo(self) -> None:
        try:
            found = await self._state.client.undo_call(self._call.call_id, True)
        except FlyError as error:
            self._outcome = f"not undone: {error}"
        else:
            if found.accepted:
                self.app.push_screen(self._undo_screen(found), self._on_undone)
            else:
                self._outcome = f"not undone: {found.why_not}"
        finally:
            self._undo_running = False
        self.query_one("#keys", LineBar).redraw()

    def _undo_screen(self, found: UndoResult) -> ConfirmActionScreen:
        def body(width: int) -> Sequence[StyledLine]:
            words = "these files get back what they were before the call:"
            if not found.files:
                words = "every file is what it was before the call already"
            return wrapped(
                [line(span(words, Tone.DIM)), *(line(StyledText(strict_text(file))) for file in found.files)],
                width,
                1,
            )

        async def act() -> str:
            done = await self._state.client.undo_call(self._call.call_id, False)
            return "" if done.accepted else done.why_not

        heading = f"Undo the change of {strict_text(self._call.tool)}"
        return ConfirmActionScreen(self._state, "Undo", heading, body, "undo it", act)

    def _on_undone(self, done: bool | None) -> None:
        self._outcome = "undone: the files are what they were before" if done else ""
        self.query_one("#keys", LineBar).redraw()

    def _tick(self) -> None:
        if self._call.result is None:
            self.query_one("#call-state", LineBar).redraw()
            if self._view is CallView.CALL:
                self._page.rebuild()

    def _lines(self, width: int) -> Sequence[StyledLine]:
        call = self._call
        match self._view:
            case CallView.PICTURE:
                return self._picture_lines(width)
            case CallView.TEXT:
                texts = list(texts_of(call.result.output if call.result is not None else None))
                return LazyLines(
                    text_paragraphs(texts if len(texts) > 1 else [("", text) for _, text in texts]), width
                )
            case CallView.INPUT:
                return LazyLines(text_paragraphs([("", input_text(call))]), width)
            case CallView.STDERR:
                tail = call.result.stderr_tail if call.result is not None else ""
                return LazyLines(text_paragraphs([("", tail.rstrip("\n"))]), width)
            case _:
                return call_lines(call, self._state.now(), width)

    def _picture_lines(self, width: int) -> Sequence[StyledLine]:
        images = images_of(self._call)
        index, artifact = images[self._image]
        of = f"{self._image + 1} of {len(images)}  " if len(images) > 1 else ""
        caption = f" {of}{artifact.path}  {artifact.mime_type}, {artifact.bytes:,} bytes"
        rows = wrap(line(span(caption, Tone.DIM)), width, 1)
        if index not in self._pictures:
            return [*rows, line(span(" reading…", Tone.ACCENT))]
        picture = self._pictures[index]
        if picture is None:
            return [*rows, line(span(f" {_NO_PICTURE}", Tone.WARN))]
        colours = self._state.shared.coloured_pictures
        if not colours and self._state.shared.graphics is GraphicsProtocol.BLOCKS:
            rows += wrap(
                line(span(" too few colours here: characters show how light it is", Tone.DIM)), width, 1
            )
        room = self._page.scrollable_content_region.height - len(rows)
        return [
            *rows,
            *((StyledText(" "), *row) for row in picture_lines(picture, width - 2, room, colours=colours)),
        ]

    def _column_lines(self, width: int) -> Sequence[StyledLine]:
        if self._view is not CallView.TABLE or not self._table:
            return []
        return [truncated((StyledText("  "), *self._table[0].columns.titles(width - 2)), width)]

    def _view_lines(self, width: int) -> Sequence[StyledLine]:
        parts: list[StyledText] = []
        for view in views_of(self._call):
            here = view is self._view
            key = self._state.keys.label(f"call.{view.name.lower()}")
            parts += [StyledText("  " if parts else " "), span(key, Tone.KEY), StyledText(" ")]
            parts.append(
                StyledText(f"[{view.title}]" if here else view.title, Tone.STRONG if here else Tone.DIM)
            )
        return wrap(tuple(parts), width, 1)

    def _keys(self, width: int) -> Sequence[StyledLine]:
        pairs = [("call.next", "next view"), ("call.decision", "decision"), ("call.log", "log lines")]
        if self._call.result is not None and self._call.result.artifacts:
            pairs.append(("call.files", "files"))
        pairs += [("page.copy", "copy as JSON"), ("page.close", "back")]
        if self._view is CallView.TREE:
            pairs[:0] = [("←→ Enter", "close, open")]
        elif self._view is CallView.TABLE:
            pairs[:0] = [("list.open", "the whole row")]
        elif self._view is CallView.PICTURE:
            more = [("←→", "other pictures")] if len(images_of(self._call)) > 1 else []
            pairs[:0] = [*more, ("call.file", "open in the viewer")]
        else:
            pairs[:0] = [("↑↓ PgUp PgDn", "scroll")]
        if self._may_be_undone():
            pairs[-1:-1] = [("call.undo", "undo")]
        rows = [keys_fitting(self._state.keys.hints(pairs), width, more_keys(self._state.keys))]
        if self._outcome:
            rows[:0] = wrap(line(span(f" {strict_text(self._outcome)}", Tone.WARN)), width, 1)
        return rows

    def _may_be_undone(self) -> bool:
        """Whether the call is one that changes files, and has ended well."""
        result = self._call.result
        return self._call.tool in _UNDOABLE and result is not None and result.status is Status.SUCCESS
