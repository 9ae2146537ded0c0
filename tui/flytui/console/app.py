"""The application: it builds the controllers and connects keys and events with them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.color import ColorSystem
from rich.console import RenderableType
from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.filter import LineFilter, Monochrome
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.theme import Theme, ThemeProvider

from flycore.model.enums import Phase
from flycore.model.errors import FlyError
from flycore.model.events import Event
from flysafe.text import safe_text
from flytui.console.colour_depth import ColourDepth, colour_depth, usual_palettes
from flytui.console.command_palette import NamesProvider, Palette, palette_commands, show_main
from flytui.console.controllers.attach import AttachController
from flytui.console.controllers.connection import KernelConnection
from flytui.console.controllers.decision_screens import DecisionScreens
from flytui.console.controllers.emergency_stop import EmergencyStop
from flytui.console.controllers.notifications import Notifications
from flytui.console.job_control import NO_SHELL
from flytui.console.line_filters import ControlCharacterFilter, DepthFilter, FilterChain, MonochromeFilter
from flytui.console.picture_overlay import PictureOverlay
from flytui.console.screens.base import Alternative, PressAgainScreen, ScreenTraits
from flytui.console.screens.main import MainScreen
from flytui.console.state import ConsoleState, Topic, update_screens
from flytui.console.state_sync import StateSync
from flytui.console.style import CSS
from flytui.console.terminal import (
    ask_graphics,
    cell_size_of,
    non_blocking_driver,
    set_farewell,
    suspend_for,
    watch_terminal,
    write_to_terminal,
)
from flytui.console.terminal_graphics import Graphics, GraphicsProtocol, may_draw_pictures
from flytui.console.themes import DARK_NAME, theme_names, themes
from flytui.text.labels import plural
from flytui.text.pixel_graphics import KITTY_REMOVE_ALL

if TYPE_CHECKING:
    from flytui.console.approvals.request_list import ApprovalsView

TICK_S = 1.0
"""Seconds between two drawings of the times that pass. There is one timer for all of them, so that an idle
console wakes up once."""


def quit_question(roots: Sequence[ConsoleState]) -> list[str]:
    """The lines of the question before the console is left, most important line first; none where leaving
    ends nothing. From the kernel of another console it only detaches: there all but its own test calls goes
    on."""
    own = [root for root in roots if root.attachment is None]
    if not own:
        return _detach_question(roots)
    waiting = sum(len(root.waiting) for root in own)
    done = (Phase.WAITING_APPROVAL, Phase.FINISHED)
    running = sum(call.phase not in done for root in own for call in root.activity)
    agents = sum(root.status.agents for root in own if root.status is not None)
    leases = sum(
        not lease.expires_at or lease.expires_at > root.now() for root in own for lease in root.leases
    )
    if not waiting and not running and not agents and not leases:
        return []
    question = ["Quit flytui?"]
    if agents:
        question.append(f"{plural(agents, 'agent is connected', 'agents are connected')}: disconnected.")
    if waiting:
        what = plural(waiting, "request waits", "requests wait")
        question.append(f"{what}: refused, because nobody decided.")
    if running:
        question.append(f"{plural(running, 'call runs', 'calls run')}: ended, with all processes.")
    if leases:
        question.append(f"{plural(leases, 'lease runs', 'leases run')}: ended, so the next call asks again.")
    return [*question, "Without a console, whatever needs a person is refused."]


def _detach_question(roots: Sequence[ConsoleState]) -> list[str]:
    test_calls = sum(root.test_calls for root in roots)
    if not test_calls:
        return []
    what = plural(test_calls, "test call", "test calls")
    return ["Detach this console?", f"{what} made from here: ended. All else waits and runs on."]


def _mode_of(root: ConsoleState) -> str:
    """The name of the mode of Textual's in which the root is shown."""
    return f"root-{root.place}"


class FlytuiApp(App[None]):
    """The console as a Textual application, for all roots of the `SharedState`. Each root's state holds its
    connection, the clocks and the last known values."""

    CSS = CSS
    TITLE = "flytui"
    ENABLE_COMMAND_PALETTE = True
    DEFAULT_MODE = "root-0"
    """The mode in which the application begins: that of the first root."""
    COMMANDS = App.COMMANDS | {NamesProvider}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+x", "stop", "Stop everything", show=False, priority=True, id="app.panic"),
        Binding("ctrl+o", "card", "Open request", show=False, priority=True, id="app.card"),
        Binding("ctrl+q", "leave", "Quit", show=False, priority=True, id="app.leave"),
        Binding("ctrl+z", "suspend_job", "Suspend", show=False, priority=True, id="app.suspend"),
        Binding("ctrl+c", "explain_quit", "Quit", show=False, priority=True, id="app.say-quit"),
        Binding("T", "trust", "Trust", show=False, id="app.trust"),
        Binding("P", "pair", "Pair", show=False, id="app.pair"),
        Binding("O", "take", "Take the root", show=False, id="app.take"),
        Binding("ctrl+r", "next_root", "Next root", show=False, id="app.root"),
        Binding("1", "view('catalog')", "Catalog", show=False, id="main.catalog"),
        Binding("2", "view('approvals')", "Approvals", show=False, id="main.approvals"),
        Binding("3", "view('activity')", "Activity", show=False, id="main.activity"),
        Binding("4", "view('grants')", "Grants", show=False, id="main.grants"),
        Binding("5", "view('audit')", "Audit", show=False, id="main.audit"),
        Binding("6", "view('packages')", "Packages", show=False, id="main.packages"),
        Binding("7", "view('doctor')", "Doctor", show=False, id="main.doctor"),
        Binding("slash", "filter", "Filter", show=False, id="catalog.filter"),
        Binding("colon", "jump", "Jump", show=False, id="catalog.jump"),
        Binding("question_mark", "help", "Help", show=False, id="app.help"),
    ]

    def __init__(self, state: ConsoleState) -> None:
        super().__init__()
        self.shared = state.shared
        self.depth = colour_depth(os.environ, state.settings.colours)
        """How many colours are drawn."""
        state.shared.coloured_pictures = not self.no_color and self.depth is not ColourDepth.ANSI
        self._monochrome = MonochromeFilter()
        self._depth_filter = DepthFilter(self.depth, usual_palettes(os.environ))
        # The filter has chosen the terminal's colours already, also where a setting asks for others than the
        # terminal promises.
        self.console._color_system = ColorSystem.TRUECOLOR
        self._has_values = False
        self.defect: Exception | None = None
        """What ended the application, where it was a defect."""
        self._pressed_at = 0.0
        """When the latest key was pressed, on the console's clock."""
        self._guard = ControlCharacterFilter()
        self._filter_chain = FilterChain(())
        self._overlay = PictureOverlay(
            self, lambda text: write_to_terminal(self, text), lambda: cell_size_of(self)
        )
        self._notices = Notifications(self, self.shared)
        self._emergency_stop = EmergencyStop(self, self.shared, self._notices)
        self._decisions = DecisionScreens(self, self.shared, self._notices)
        self._pairing = AttachController(self, self.shared, self._notices, self._decisions)
        self.connections = tuple(self._connection_of(root) for root in self.shared.roots)
        """The connection of each root, in the order of the roots."""
        self._mains: dict[int, MainScreen] = {}
        """The main screens that were made, by the place of their root."""

    def _connection_of(self, root: ConsoleState) -> KernelConnection:
        sync = StateSync(
            root, self._on_changed, partial(self._on_hands, root), partial(self._on_console_event, root)
        )
        root.refetch = sync.refetch
        return KernelConnection(self, root, self._notices, sync)

    @property
    def state(self) -> ConsoleState:
        """The state of the root that is shown."""
        return self.shared.shown

    @property
    def connection(self) -> KernelConnection:
        """The connection of the root that is shown."""
        return self.connections[self.shared.chosen]

    def get_line_filters(self) -> Sequence[LineFilter]:
        """The filters on every line that is drawn, as one. The last of them removes what a terminal would act
        upon."""
        found = super().get_line_filters()
        if self.no_color:
            found = [*(item for item in found if not isinstance(item, Monochrome)), self._monochrome]
        elif self.depth is not ColourDepth.TRUE:
            found = [*found, self._depth_filter]
        filters = (*found, self._guard)
        if filters != self._filter_chain.filters:
            self._filter_chain = FilterChain(filters)
        return (self._filter_chain,)

    def get_driver_class(self) -> type[Driver]:
        """Textual's choice of driver, replaced by one that a closed or stalled terminal does not block."""
        return non_blocking_driver(super().get_driver_class())

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The variables of our style sheet that Textual's own themes do not have."""
        return {"dim": f"{self.current_theme.to_color_system().generate()['foreground']} 62%"}

    def get_default_screen(self) -> Screen[None]:
        """The main screen of the root that is shown."""
        return self._main_of(self.state)

    def _main_of(self, root: ConsoleState) -> MainScreen:
        """The main screen of that root, which keeps its views while another root is shown."""
        if root.place not in self._mains:
            self._mains[root.place] = MainScreen(root)
        return self._mains[root.place]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The commands of the palette for this screen. No name from outside is among them."""
        return palette_commands(
            self,
            screen,
            self.state.keys,
            stop=self._emergency_stop.stop,
            probe_all=self._probe_all,
            show_notice=self._notices.show,
        )

    def on_mount(self) -> None:
        """Set theme and keys, and start to fetch once the first frame has been drawn."""
        watch_terminal(self, self.state)
        self._find_graphics()
        self.app_resume_signal.subscribe(self, lambda _: self._notices.write_title())
        for theme in themes(self.depth):
            self.register_theme(theme)
        self.theme = self._first_theme()
        self.theme_changed_signal.subscribe(self, self._on_theme_changed)
        self.set_keymap(self.state.keys.keymap())
        for root in self.shared.roots:
            self.add_mode(_mode_of(root), partial(self._main_of, root))
        self.call_after_refresh(self._start)

    def _first_theme(self) -> str:
        """The theme that the person chose last, or set; one that is no longer there is not used."""
        name = self.state.memory.theme(self.state.settings.theme)
        return name if name in theme_names() else DARK_NAME

    def _on_theme_changed(self, theme: Theme) -> None:
        """Keep a theme that the person chose for the next start."""
        memory, of_settings = self.state.memory, self.state.settings.theme
        if theme.name != (memory.theme(of_settings) or DARK_NAME):
            memory.choose_theme(theme.name, of_settings)
            self.run_worker(self._save_memory(), group="memory")

    async def _save_memory(self) -> None:
        if why_not := await self.state.memory.save():
            self._notices.show(why_not)

    async def _start(self) -> None:
        for connection in self.connections:
            connection.drawn.set()
        for screen in self.screen_stack:
            if isinstance(screen, MainScreen):
                await screen.first_drawn()
        self.set_interval(TICK_S, self._tick)
        for connection in self.connections:
            connection.start()

    def _tick(self) -> None:
        for connection in self.connections:
            connection.tick()
        for screen in self.screen_stack:
            if isinstance(screen, MainScreen):
                screen.tick()

    def _find_graphics(self) -> None:
        """Draw pictures as the setting says; without one, ask the terminal."""
        forced = self.state.settings.pictures
        if self.no_color or forced == GraphicsProtocol.BLOCKS:
            return
        if forced in tuple(GraphicsProtocol):
            self._use_graphics(Graphics(GraphicsProtocol(forced)))
        elif may_draw_pictures(os.environ.get("TERM", "")):
            ask_graphics(self, self._use_graphics)

    def _use_graphics(self, graphics: Graphics) -> None:
        set_farewell(self, KITTY_REMOVE_ALL if graphics.protocol is GraphicsProtocol.KITTY else "")
        self.shared.graphics = graphics.protocol
        self._overlay.use(graphics)

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        # Textual has no other place to learn which cells were just drawn again.
        super()._display(screen, renderable)
        if self.is_running and not self.shared.suspended and not self._batch_count:
            self._overlay.displayed(screen, renderable)

    async def on_event(self, event: events.Event) -> None:
        """Record the time of every key, whichever widget handles it."""
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            pressed = self.state.press_time(event)
            self._notices.clear()
            self._pressed_at = pressed
            await super().on_event(event)
            # After the handling: an arming that this key starts must not count the key as one before it.
            self.shared.last_key = max(self.shared.last_key, pressed)
        else:
            await super().on_event(event)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a toast. Its text is never read as markup, whatever `markup` says."""
        super().notify(
            safe_text(message), title=safe_text(title), severity=severity, timeout=timeout, markup=False
        )

    def _handle_exception(self, error: Exception) -> None:
        self.defect = self.defect or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual would print a traceback with the values of variables, which may be the input of a call. The
        # process writes a report without them.
        self._close_messages_no_wait()

    def panic(self, *renderables: RenderableType) -> None:
        """End the application, and print nothing for the same reason."""
        self._close_messages_no_wait()

    def copy_to_clipboard(self, text: str) -> None:
        """Send the text to the terminal's clipboard. A lone surrogate, which cannot be encoded, becomes
        `?`."""
        super().copy_to_clipboard(text.encode("utf-8", "replace").decode())

    def bell(self) -> None:
        """Ring the terminal's bell, unless another program has the terminal."""
        if not self.shared.suspended:
            super().bell()

    async def _on_changed(self, topics: frozenset[Topic]) -> None:
        """Draw fresh values, and call the person where something new waits."""
        if not self._has_values and any(root.catalog is not None for root in self.shared.roots):
            self._has_values = True
            self.state.on_first_values()
        update_screens(self, topics)
        self._notices.update()
        self._pairing.offer_pairing()
        self._decisions.open_new(topics)

    def _on_hands(self, root: ConsoleState, on: bool) -> None:
        """Disarm every screen that decides, before anything is fetched: a tool of any root could press its
        keys."""
        from flytui.console.screens.armed import ArmedScreen

        root.desktop_controlled = on
        for screen in self.screen_stack:
            if isinstance(screen, ArmedScreen):
                screen.set_desktop_controlled(self.shared.desktop_controlled)

    def on_app_blur(self) -> None:
        """Take note that the terminal's window has lost the keyboard."""
        self._note_keyboard(elsewhere=True)

    def on_app_focus(self) -> None:
        """Take note that the terminal's window has the keyboard."""
        self._note_keyboard(elsewhere=False)

    def _note_keyboard(self, *, elsewhere: bool) -> None:
        """Have every screen that decides disarm or arm its keys."""
        from flytui.console.screens.armed import ArmedScreen

        self.shared.keyboard_elsewhere = elsewhere
        for screen in self.screen_stack:
            if isinstance(screen, ArmedScreen):
                screen.note_keyboard()

    def _on_console_event(self, root: ConsoleState, event: Event) -> None:
        """Show what an event holds and no fetch returns."""
        if event.type == "token.changed":
            self._notices.show_token_change(event)
        elif event.type == "login.changed":
            self._notices.show_login_change(event)
        else:
            self._pairing.on_event(root, event)
        update_screens(self, frozenset())

    # By their names and not by `on`, which would need the class: the first frame does without that view.
    def on_approvals_view_open_card(self, event: ApprovalsView.OpenCard) -> None:
        """Open the request that was chosen in the list."""
        self._decisions.open_request(event.queued)

    def on_approvals_view_open_question(self, event: ApprovalsView.OpenQuestion) -> None:
        """Open the question that was chosen in the list."""
        self._decisions.open_question(event.queued)

    def action_stop(self) -> None:
        """Take one press of the emergency stop's key, wherever the focus is."""
        self._emergency_stop.press(self._pressed_at)

    def action_card(self) -> None:
        """Open the request that waits longest; where none does, the first question."""
        self._decisions.open_first()

    async def action_view(self, name: str) -> None:
        """Show that view of the main screen, from any screen but a form."""
        await self._main_screen(lambda main: main.action_view(name))

    async def action_filter(self) -> None:
        """Open the filter of the view, from any screen but a form."""
        await self._main_screen(MainScreen.open_filter)

    async def action_jump(self) -> None:
        """Ask for a tool to jump to, from any screen but a form."""
        await self._main_screen(MainScreen.open_jump)

    async def _main_screen(self, act: Callable[[MainScreen], Awaitable[None]]) -> None:
        """Do something on the main screen, after the screens over it are closed. Nothing is decided."""
        top = self.screen
        if isinstance(top, ScreenTraits) and top.has_fields:
            return
        await show_main(self, act, self._notices.show)

    async def open_found(self, kind: str, name: str) -> None:
        """Show the tool, the sidecar or the call that was chosen in the palette."""
        if kind == "root":
            await self.show_root(next(root.place for root in self.shared.roots if root.name == name))
            return
        call = next((call for call in self.state.activity if call.call_id == name), None)

        async def act(main: MainScreen) -> None:
            if kind != "call":
                await main.show_in_catalog(kind, name)
            elif call is not None:
                from flytui.console.activity.call_screen import CallScreen

                await main.action_view("activity")
                self.push_screen(CallScreen(self.state, call))

        await show_main(self, act, self._notices.show)

    def action_trust(self) -> None:
        """Open the screen of the entries that wait for trust."""
        self._decisions.open_trust()

    def action_pair(self) -> None:
        """Open the line for a pairing code, or show the console that asks to pair."""
        self._pairing.pair()

    def action_take(self) -> None:
        """Open a kernel here, where the previous one has gone. The root that is shown comes before the
        others."""
        shown_first = (self.connection, *self.connections)
        next((it for it in shown_first if it.can_be_taken), self.connection).take_root()

    async def action_next_root(self) -> None:
        """Show the next root, from any screen but a form."""
        top = self.screen
        if not (isinstance(top, ScreenTraits) and top.has_fields):
            await self.show_root((self.shared.chosen + 1) % len(self.shared.roots))

    async def show_root(self, place: int) -> None:
        """Show the catalog, activity, grants, log and checks of the root at that place. Nothing is decided,
        and what waits is in the same queue as before."""

        async def act(before: MainScreen) -> None:
            if place != self.shared.chosen:
                self.shared.chosen = place
                self.run_worker(self._show_main(before), group="root", exclusive=True)

        await show_main(self, act, self._notices.show)

    async def _show_main(self, before: MainScreen) -> None:
        root = self.state
        # Each root has a mode of Textual's, which keeps the main screen with its cursors while others show.
        await self.switch_mode(_mode_of(root))
        main = self._main_of(root)
        await main.show_view_of(before)
        self._notices.redraw_bars()

    def action_command_palette(self) -> None:
        """Open the list of all commands, where it is not open already."""
        # Without the id that Textual gives it: one that was just closed may not be removed yet, and a second
        # widget of the same id ends the application.
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())

    def search_themes(self) -> None:
        """Open the list of themes, in the palette of the console."""
        # Textual's own one ends the application by a second click that reaches it before it has gone.
        self.push_screen(Palette(providers=[ThemeProvider], placeholder="Search for themes…"))

    def action_help(self) -> None:
        """Open the help, the keys of the focused pane first; in the help, look for a key."""
        from flytui.console.screens.help import HelpScreen, active_sections, help_screen

        if isinstance(self.screen, HelpScreen):
            self.screen.action_search()
        else:
            self.push_screen(help_screen(self.state, active_sections(self.screen)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave ctrl+z to a text of several lines, where it takes back what was written. There is no next
        root where there is only one."""
        if action == "suspend_job":
            from textual.widgets import TextArea

            return not isinstance(self.focused, TextArea)
        if action == "next_root":
            return self.shared.several
        return super().check_action(action, parameters)

    def action_suspend_job(self) -> None:
        """Stop the console as a job of its shell, which `fg` takes up again."""
        stop = self.state.stop_job
        why_not = NO_SHELL if stop is None else stop()
        if why_not:
            self._notices.show(f"not suspended: {why_not}")

    def action_explain_quit(self) -> None:
        """Say how to quit. Many people press ctrl+c out of habit, so it ends nothing here."""
        keys = self.state.keys
        self.notify(f"{keys.label('app.leave')} quits. {keys.label('app.say-quit')} ends nothing here.")

    def action_leave(self) -> None:
        """Quit, but ask first where requests or calls would end with the console."""
        question = quit_question(self.shared.roots)
        if isinstance(self.screen, PressAgainScreen):
            return
        if not question:
            self.exit()
            return

        def answered(again: bool | None) -> None:
            if again:
                self.exit()

        keys = self.state.keys.keys_for("main.leave")
        self.push_screen(PressAgainScreen(keys, question, "quits", "stays", self._serving()), answered)

    def _serving(self) -> Alternative | None:
        """The offer to leave the kernels to the agents that are connected."""
        leave = [
            root.leave_kernel
            for root in self.shared.roots
            if root.leave_kernel is not None
            and root.attachment is None
            and root.status is not None
            and root.status.agents
        ]
        if not leave:
            return None

        def serve() -> None:
            for leave_kernel in leave:
                leave_kernel()
            self.exit()

        return Alternative("s", "quits and leaves the kernel serving them", serve)

    def action_demo(self) -> None:
        """Lend the terminal to the demo, which is another console on a folder of its own."""
        if self.state.play_demo is None:
            self._notices.show("run  flytui demo  in another terminal: an approval without any risk")
        elif not self.shared.suspended:
            self.run_worker(
                suspend_for(self, self.state, self.state.play_demo, self._on_changed), group="demo"
            )

    def _probe_all(self) -> None:
        root = self.state
        if root.catalog is not None:
            self._notices.show("asking every sidecar again")
            self.run_worker(self._probe(root, [view.id for view in root.catalog.sidecars]), group="probe")

    async def _probe(self, root: ConsoleState, sidecars: Sequence[str]) -> None:
        try:
            for sidecar in sidecars:
                await root.client.probe(sidecar)
        except FlyError as error:
            self._notices.show(f"not probed: {error}")
