"""The application at a kernel that is another console's, or that other consoles want to be at."""

from __future__ import annotations

from typing import ClassVar

import anyio
from textual.binding import Binding, BindingType

from flycore.client.protocol import Approver, Client
from flycore.model.events import Event
from flytui.console.desk import ALL_TOPICS
from flytui.console.joined import Asking, Gone, Joined
from flytui.console.main import MainScreen
from flytui.console.pages import PageScreen
from flytui.console.pairing import AskedScreen, PairScreen
from flytui.console.pump import Pump
from flytui.console.screens.traits import kernel_values_open
from flytui.console.telling import TellingApp

TICK_S = 0.5


class GuestApp(TellingApp):
    """The part of the application that comes to a kernel, loses it, and is paired."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("P", "pair", "Pair", show=False, id="app.pair"),
        Binding("O", "take", "Take the root", show=False, id="app.take"),
    ]
    _pump: Pump

    def __init__(self) -> None:
        super().__init__()
        self.left_alone = anyio.Event()
        """The kernel that this console is at has gone; another event at every kernel."""
        self.wants_root = anyio.Event()
        """The person wants the root that nobody holds; another event whenever a kernel has gone."""
        self._offered: Joined | None = None

    def arrive(self, client: Client, approver: Approver, joined: Joined | None = None) -> None:
        """Sit at that kernel, which is another's where it is `joined`. Whatever was on screen of one before
        is closed: its ids mean other requests now."""
        desk = self.desk
        again = desk.gone is not None
        desk.client, desk.approver, desk.joined = client, approver, joined
        desk.lost, desk.gone, desk.asking = "", None, ()
        if again:
            self.left_alone, self.wants_root = anyio.Event(), anyio.Event()
            self._close_what_was()
            self.run_worker(self._listen(), group="pump")
        self._redraw_bars()

    def leave_kernel(self) -> None:
        """The kernel is gone: what is known of it stays to be read, nothing of it can be decided."""
        desk = self.desk
        desk.gone = Gone(desk.clock())
        desk.hands_on = False
        self._offered = None
        if desk.joined is not None:
            desk.joined.paired = False
        self._refresh_screens()

    async def _listen(self) -> None:
        """Events to values, for as long as this kernel is there."""
        alone = self.left_alone
        await self._pump.run()
        alone.set()

    def heard(self, event: Event) -> None:
        """Who asks to decide here too, and a token that was made or revoked, are told by the event alone."""
        said = event.payload
        if event.type == "token.changed":
            self._token(event)
        elif event.type == "console.pairing":
            asking = asking_of(event)
            if asking is not None:
                others = tuple(it for it in self.desk.askers if it.pid != asking.pid)
                self.desk.asking = (*others, asking)
                self.bell()
        elif event.type in ("console.attached", "console.refused", "console.left"):
            self.desk.asking = tuple(it for it in self.desk.askers if it.pid != said.get("pid"))
        self._refresh_screens()

    def offer_pairing(self) -> None:
        """Ask for the code by itself, once at every kernel, when nobody is busy; `P` asks later."""
        joined = self.desk.joined
        if joined is None or joined.paired or joined is self._offered or self.desk.gone is not None:
            return
        self._offered = joined
        if self._idle() and isinstance(self.screen, (MainScreen, PageScreen)):
            self.push_screen(PairScreen(self.desk, joined), self._paired)

    def action_pair(self) -> None:
        """Type a code; or see who asks for one to be typed."""
        desk = self.desk
        if not isinstance(self.screen, (MainScreen, PageScreen)):
            return
        if desk.gone is not None:
            self._say("the kernel is gone")
        elif desk.joined is not None and not desk.joined.paired:
            self.push_screen(PairScreen(desk, desk.joined), self._paired)
        elif desk.askers:
            self.push_screen(AskedScreen(desk, desk.askers[0], self._refuse))
        else:
            self._say("no console asks to be paired")

    def action_take(self) -> None:
        """Open a kernel here, where the one that was is gone."""
        if self.desk.gone is None:
            self._say("the root is held; there is nothing to take")
        else:
            self.wants_root.set()

    def _paired(self, paired: bool | None) -> None:
        joined = self.desk.joined
        if paired and joined is not None:
            joined.paired = True
            self._say(f"paired with {joined.whom}: decisions made here count")
            self._pump.again(ALL_TOPICS)
        self._refresh_screens()

    async def _refuse(self, asking: Asking) -> str:
        """Refuse that console its code."""
        done = await self.desk.approver.refuse_pairing(asking.pid)
        if done:
            self.desk.asking = tuple(it for it in self.desk.askers if it != asking)
            self._refresh_screens()
        return "" if done else f"{asking.who} does not ask any more"

    def tick(self) -> None:
        """Draw what runs with the clock."""
        if self.desk.asking or self.desk.gone is not None:
            self.desk.asking = self.desk.askers
            self._redraw_bars()

    def _close_what_was(self) -> None:
        while kernel_values_open(self.screen_stack):
            self.pop_screen()

    def _refresh_screens(self) -> None:
        for screen in self.screen_stack:
            changed = getattr(screen, "changed", None)
            if callable(changed) and screen.is_mounted:
                changed(frozenset())


def asking_of(event: Event) -> Asking | None:
    """The console that asks, out of an event; None where that does not say it."""
    said = event.payload
    code, who, pid, until = (said.get(name) for name in ("code", "who", "pid", "expiresAt"))
    if not (isinstance(code, str) and isinstance(who, str)):
        return None
    if not (isinstance(pid, int) and isinstance(until, (int, float))):
        return None
    return Asking(code, who, pid, float(until))
