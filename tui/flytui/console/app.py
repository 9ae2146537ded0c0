"""The console as an application: screens, keys that work everywhere, and the road from events to screens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import anyio
from textual import events, on
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.filter import LineFilter, Monochrome
from textual.screen import Screen

from flycore.model.errors import FlyError
from flytui.console.approvals.view import ApprovalsView
from flytui.console.colourless import Colourless
from flytui.console.desk import ALL_TOPICS, Armed, Desk, Topic, Watching
from flytui.console.guard import VisibleOnly
from flytui.console.guest import TICK_S, GuestApp
from flytui.console.help import help_screen, screens_of
from flytui.console.leaving import leaving_question
from flytui.console.lending import lend_terminal
from flytui.console.main import MainScreen
from flytui.console.pages import AgainScreen, PageScreen
from flytui.console.palette import palette_commands
from flytui.console.pump import Pump
from flytui.console.style import CSS, LIGHT, THEME
from flytui.console.terminal import lasting
from flytui.console.trust import TrustScreen


class FlytuiApp(GuestApp):
    """Composes; decides nothing. `desk` holds client, approver, clocks and the last known values."""

    CSS = CSS
    TITLE = "flytui"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+o", "card", "Open request", show=False, priority=True, id="app.card"),
        Binding("ctrl+q", "leave", "Quit", show=False, priority=True, id="app.leave"),
        Binding("ctrl+c", "say_quit", "Quit", show=False, priority=True, id="app.say-quit"),
        Binding("T", "trust", "Trust", show=False, id="app.trust"),
        Binding("question_mark", "help", "Help", show=False, id="app.help"),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self.drawn = anyio.Event()
        """The first frame is on the terminal."""
        self._guard = VisibleOnly()
        self._pump = Pump(desk, self._told, self._hands, self.heard)
        self._trust_shown: frozenset[str] = frozenset()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """The last filter on every line of every widget lets nothing through that a terminal obeys."""
        found = super().get_line_filters()
        if self.no_color:
            found = [*(item for item in found if not isinstance(item, Monochrome)), Colourless()]
        return [*found, self._guard]

    def get_driver_class(self) -> type[Driver]:
        """Textual's own choice, made to outlast a terminal that goes away."""
        return lasting(super().get_driver_class())

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return MainScreen(self.desk)

    def on_mount(self) -> None:
        """First paint, then the kernel is asked."""
        self.register_theme(THEME)
        self.register_theme(LIGHT)
        self.theme = self.desk.own.theme or THEME.name
        self.set_keymap(self.desk.keys.keymap())
        self.call_after_refresh(self._start)

    async def _start(self) -> None:
        self.drawn.set()
        for screen in self.screen_stack:
            if isinstance(screen, MainScreen):
                await screen.complete()
        self.set_interval(TICK_S, self.tick)
        self.run_worker(self._listen(), group="pump")

    def awaits(self, whom: str) -> None:
        """The kernel cannot be opened yet: say who is waited for."""
        self.desk.awaited = whom
        self._redraw_bars()

    async def on_event(self, event: events.Event) -> None:
        """Remember when the last key came, whoever gets it."""
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            pressed = self.desk.pressed_at(event)
            self._forget_notice()
            self.pressed_at = pressed
            await super().on_event(event)
            self.desk.last_key = max(self.desk.last_key, pressed)
        else:
            await super().on_event(event)

    async def _told(self, topics: frozenset[Topic]) -> None:
        """Fresh values are on the desk: draw them, and see whether someone new waits."""
        for screen in self.screen_stack:
            if isinstance(screen, Watching) and screen.is_mounted:
                screen.changed(topics)
        self._tell_title()
        self._tell_notify()
        self.offer_pairing()
        if Topic.ASKS in topics:
            self._greet()
        if Topic.TRUST in topics:
            self._ask_trust()
        if Topic.QUESTIONS in topics:
            self._greet_questions()

    def _ask_trust(self) -> None:
        """Open the trust question by itself once for every value that waits, when nobody is busy."""
        waiting = frozenset(item.digest for item in self.desk.trust)
        new = waiting - self._trust_shown
        self._trust_shown |= waiting
        if new and self._idle() and isinstance(self.screen, MainScreen):
            self.push_screen(TrustScreen(self.desk))

    def _hands(self, on: bool) -> None:
        """Approve keys die at once, before anything is fetched."""
        self.desk.hands_on = on
        for screen in self.screen_stack:
            if isinstance(screen, Armed):
                screen.hands(on)

    @on(ApprovalsView.OpenCard)
    def _wanted(self, event: ApprovalsView.OpenCard) -> None:
        self._open(event.ask)

    def action_card(self) -> None:
        """The request that waits longest; where none does, the first question."""
        if self.desk.waiting:
            self._open(self.desk.waiting[0])
        elif self.desk.questions:
            self._put(self.desk.questions[0])
        else:
            self._say("no request waits")

    def action_trust(self) -> None:
        """What waits for trust."""
        if not self.desk.trust:
            self._say("nothing waits for trust")
        elif isinstance(self.screen, (MainScreen, PageScreen)):
            self.push_screen(TrustScreen(self.desk))

    def action_help(self) -> None:
        """Keys and words."""
        self.push_screen(help_screen(self.desk, screens_of(self.screen)))

    def action_say_quit(self) -> None:
        """ctrl+c is pressed out of habit: it ends nothing."""
        keys = self.desk.keys
        self.notify(f"{keys.shown('app.leave')} quits. {keys.shown('app.say-quit')} ends nothing here.")

    def action_leave(self) -> None:
        """Quit; ask first while someone waits or runs that would be ended by it."""
        question = leaving_question(self.desk)
        if isinstance(self.screen, AgainScreen):
            return
        if not question:
            self.exit()
            return

        def answered(again: bool | None) -> None:
            if again:
                self.exit()

        self.push_screen(AgainScreen(self.desk.keys.of("main.leave"), question, "quits", "stays"), answered)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Everything that can be done here and now; names from outside never enter the palette."""
        return palette_commands(self, screen, self._probe_all)

    def action_demo(self) -> None:
        """Lend the terminal to the demo: a console of its own on a folder of its own."""
        if self.desk.demo is None:
            self._say("run  flytui demo  in another terminal: an approval without any risk")
        elif not self.desk.lent:
            self._title_told = ""
            self.run_worker(lend_terminal(self, self.desk, self.desk.demo, self._told), group="demo")

    def _probe_all(self) -> None:
        catalog = self.desk.catalog
        if catalog is not None:
            self._say("asking every sidecar again")
            self.run_worker(self._probe([view.id for view in catalog.sidecars]), group="probe")

    async def _probe(self, sidecars: Sequence[str]) -> None:
        try:
            for sidecar in sidecars:
                await self.desk.client.probe(sidecar)
        except FlyError as error:
            self._say(f"not probed: {error}")
        self._pump.again(ALL_TOPICS)
