"""The main screen: the header, one of seven views, the alerts and the key line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, runtime_checkable

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import AwaitMount
from textual.widgets import ContentSwitcher

from flytui.console.catalog.catalog_view import CatalogView
from flytui.console.screens.base import more_keys
from flytui.console.screens.header import alert_lines, header_lines, tab_at
from flytui.console.state import ALL_TOPICS, ConsoleState, Topic
from flytui.console.widgets.filter_line import FilterLineView
from flytui.console.widgets.lines import LineBar
from flytui.text.lines import StyledLine, Tone, keys_fitting, line, span, truncated

if TYPE_CHECKING:
    from flytui.console.activity.activity_view import ActivityView
    from flytui.console.approvals.request_list import ApprovalsView
    from flytui.console.audit.audit_view import AuditView
    from flytui.console.doctor.doctor_view import DoctorView
    from flytui.console.grants.grants_view import GrantsView
    from flytui.console.packages.packages_view import PackagesView

_VIEW_TITLES = {
    "catalog": "Catalog",
    "approvals": "Approvals",
    "activity": "Activity",
    "grants": "Grants",
    "audit": "Audit",
    "packages": "Packages",
    "doctor": "Doctor",
}
MainView: TypeAlias = (
    "CatalogView | ApprovalsView | ActivityView | GrantsView | AuditView | PackagesView | DoctorView"
)


def _new_view(name: str, state: ConsoleState) -> MainView:
    """A view that the first frame does not need, imported when it is shown first."""
    if name == "approvals":
        from flytui.console.approvals.request_list import ApprovalsView

        return ApprovalsView(state, id=name)
    if name == "activity":
        from flytui.console.activity.activity_view import ActivityView

        return ActivityView(state, id=name)
    if name == "grants":
        from flytui.console.grants.grants_view import GrantsView

        return GrantsView(state, id=name)
    if name == "audit":
        from flytui.console.audit.audit_view import AuditView

        return AuditView(state, id=name)
    if name == "packages":
        from flytui.console.packages.packages_view import PackagesView

        return PackagesView(state, id=name)
    from flytui.console.doctor.doctor_view import DoctorView

    return DoctorView(state, id=name)


@runtime_checkable
class PassingTimes(Protocol):
    """A view in which times pass."""

    def tick(self) -> None:
        """Draw them again where they would look different now."""
        ...


class MainScreen(Screen[None]):
    """Shows one view at a time. Digits, which the application binds, change the view, and its list has the
    focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "app.leave", "Quit", show=False, id="main.leave"),
        Binding("n", "dismiss_note", "Dismiss the note", show=False, id="main.note"),
    ]
    AUTO_FOCUS: ClassVar[str | None] = "#catalog-rows"

    def __init__(self, state: ConsoleState) -> None:
        super().__init__()
        self._state = state
        self._view = "catalog"
        self._drawn = False
        """Whether the first frame was drawn. Before, no view but the catalog is mounted."""
        self._catalog = CatalogView(state, id="catalog")
        self._views: dict[str, MainView] = {"catalog": self._catalog}
        """The views that were shown once, by name."""
        self._mounts: dict[str, AwaitMount] = {}
        """The mounting of each of them, but for the catalog."""

    @property
    def root(self) -> ConsoleState:
        """The state of the root whose views these are."""
        return self._state

    async def show_view_of(self, other: MainScreen) -> None:
        """Show the same view as another root's main screen, with fresh values."""
        self._drawn = True
        self._view = other._view
        await self._show()
        self.changed(ALL_TOPICS)

    def compose(self) -> ComposeResult:
        """Yield the header, the catalog, the alerts and the key line."""
        yield LineBar(lambda width: header_lines(self._state, _VIEW_TITLES[self._view], width), id="header")
        with ContentSwitcher(initial="catalog"):
            yield self._catalog
        yield LineBar(self._alerts, id="alert")
        yield LineBar(self._keys, id="keys")

    async def first_drawn(self) -> None:
        """Show the view that was chosen before the first frame was drawn."""
        self._drawn = True
        if self._view != "catalog":
            await self._show()

    def changed(self, topics: frozenset[Topic]) -> None:
        """Have every view that was shown once follow fresh values. Hidden ones do too, so that they keep
        their cursor."""
        for view in self._views.values():
            if view is self._catalog or view.is_mounted:
                view.changed(topics)
        self._redraw()

    def tick(self) -> None:
        """Draw the times again that pass in the view that is shown."""
        view = self._views.get(self._view)
        if isinstance(view, PassingTimes) and view.is_mounted:
            view.tick()

    async def action_view(self, name: str) -> None:
        """Show that view, which keeps its cursor and filter."""
        self._view = name
        self._state.shared.notice = ""
        if self._drawn:
            await self._show()
        else:
            self._redraw()

    async def open_filter(self) -> None:
        """Open the filter line of the present view; that of the catalog where the view has none."""
        view = self._views.get(self._view)
        target = view.tool_list if isinstance(view, CatalogView) else view
        if not isinstance(target, FilterLineView):
            await self.action_view("catalog")
            target = self.query_one(CatalogView).tool_list
        target.action_filter()

    async def open_jump(self) -> None:
        """Show the catalog, and ask for the name of a tool to jump to."""
        await self.action_view("catalog")
        self.query_one(CatalogView).action_jump()

    async def show_in_catalog(self, kind: str, name: str) -> None:
        """Show a tool in the catalog, or what a sidecar offers."""
        await self.action_view("catalog")
        tools = self.query_one(CatalogView).tool_list
        if kind == "tool" or all(row.sidecar != name or not row.tool for row in tools.shown):
            tools.go_to(f"{kind} {name}")
        else:
            tools.set_filter(f"sidecar:{name}")

    async def _show(self) -> None:
        # A view is imported and mounted when it is shown first. All seven take longer than the first frame
        # may take, and Textual looks through every mounted widget at each change of the focus.
        name, switcher = self._view, self.query_one(ContentSwitcher)
        if name not in self._views:
            view = self._views[name] = _new_view(name, self._state)
            view.display = False
            self._mounts[name] = switcher.mount(view)
        if name in self._mounts:
            await self._mounts[name]
        if name != self._view:
            return  # another one was chosen meanwhile
        switcher.current = name
        self._views[name].focus_here()
        self.changed(frozenset())

    async def on_click(self, event: events.Click) -> None:
        """Show the view whose name in the header was clicked."""
        name = (
            tab_at(self._state, _VIEW_TITLES[self._view], event.screen_x, self.size.width)
            if event.screen_y == 1
            else None
        )
        if name is not None:
            await self.action_view(name.lower())

    @on(LineBar.Stale)
    def _redraw(self) -> None:
        for bar in self.query(LineBar):
            bar.redraw()

    def _alerts(self, width: int) -> Sequence[StyledLine]:
        """The alerts; where nothing needs the person, a note of the first start."""
        note = self._state.memory.note
        alerts = alert_lines(self._state, width)
        if alerts or not note:
            return alerts
        key = span(self._state.keys.label("main.note"), Tone.KEY)
        left = line(span(" ✎ ", Tone.ACCENT), key, span(" dismisses  ", Tone.DIM), span(note))
        return [truncated(left, width)]

    def action_dismiss_note(self) -> None:
        """Go to the next note of the first start, and keep that for the next one."""
        memory = self._state.memory
        if memory.note:
            memory.dismiss_note()
            self._redraw()
            self.run_worker(self._save_memory(), group="memory")

    async def _save_memory(self) -> None:
        self._state.shared.notice = await self._state.memory.save() or self._state.shared.notice
        self._redraw()

    def _keys(self, width: int) -> Sequence[StyledLine]:
        view = self._views.get(self._view)
        if isinstance(view, CatalogView | FilterLineView) and view.typing:
            return [keys_fitting(self._state.keys.hints(view.TYPING_KEYS), width)]
        own = view.key_hints if isinstance(view, CatalogView) else view.KEYS if view is not None else ()
        pairs = [*own[:1], ("main.leave", "quit"), *own[1:], ("ctrl+p", "palette")]
        keys = self._state.keys
        return [keys_fitting(keys.hints(pairs), width, more_keys(keys))]
