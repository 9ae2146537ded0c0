"""Pairing of consoles: this one with the kernel of another, and others with the kernel that is here."""

from __future__ import annotations

from textual.app import App

from flycore.model.events import Event
from flytui.console.controllers.decision_screens import DecisionScreens
from flytui.console.controllers.notifications import Notifications
from flytui.console.kernel_connection import PairingRequest
from flytui.console.screens.pairing import EnterCodeScreen, PairingRequestScreen
from flytui.console.state import ALL_TOPICS, ConsoleState, update_screens
from flytui.console.state_sync import StateSync


class AttachController:
    """Asks for the pairing code of the kernel that this console is attached to, and shows the consoles that
    ask to pair with the kernel here."""

    def __init__(
        self,
        app: App[None],
        state: ConsoleState,
        notifications: Notifications,
        screens: DecisionScreens,
        sync: StateSync,
    ) -> None:
        self._app = app
        self._state = state
        self._notifications = notifications
        self._screens = screens
        self._sync = sync

    def on_event(self, event: Event) -> None:
        """Keep the list of consoles that ask to pair. Events are its only source: it cannot be fetched."""
        if event.type == "console.pairing":
            request = parse_pairing_request(event)
            if request is not None:
                others = tuple(it for it in self._state.open_pairing_requests if it.pid != request.pid)
                self._state.pairing_requests = (*others, request)
                self._app.bell()
        elif event.type in ("console.attached", "console.refused", "console.left"):
            pid = event.payload.get("pid")
            self._state.pairing_requests = tuple(
                it for it in self._state.open_pairing_requests if it.pid != pid
            )

    def offer_pairing(self) -> None:
        """Open the line for the code once at every kernel, where nobody is typing. Later a key opens it."""
        attachment = self._state.attachment
        if (
            attachment is None
            or attachment.paired
            or attachment.pairing_offered
            or self._state.lost is not None
        ):
            return
        attachment.pairing_offered = True
        if self._screens.idle and self._screens.on_main_or_page:
            self._app.push_screen(EnterCodeScreen(self._state, attachment), self._on_paired)

    def pair(self) -> None:
        """Open the line for a code where this console is a viewer, or else show the console that asks to
        pair."""
        state = self._state
        if not self._screens.on_main_or_page:
            return
        if state.lost is not None:
            self._notifications.show("the kernel is gone")
        elif state.attachment is not None and not state.attachment.paired:
            self._app.push_screen(EnterCodeScreen(state, state.attachment), self._on_paired)
        elif state.open_pairing_requests:
            self._app.push_screen(PairingRequestScreen(state, state.open_pairing_requests[0], self._refuse))
        else:
            self._notifications.show("no console asks to be paired")

    def _on_paired(self, paired: bool | None) -> None:
        attachment = self._state.attachment
        if paired and attachment is not None:
            attachment.paired = True
            self._notifications.show(f"paired with {attachment.holder}: decisions made here count")
            self._sync.refetch(ALL_TOPICS)
        update_screens(self._app, frozenset())

    async def _refuse(self, request: PairingRequest) -> str:
        """Refuse the console its code. Return why it could not be refused; `""` where it was."""
        done = await self._state.approver.refuse_pairing(request.pid)
        if done:
            self._state.pairing_requests = tuple(
                it for it in self._state.open_pairing_requests if it != request
            )
            update_screens(self._app, frozenset())
        return "" if done else f"{request.who} does not ask any more"


def parse_pairing_request(event: Event) -> PairingRequest | None:
    """The pairing request in an event; None where the event lacks a part of it."""
    code, who, pid, until = (event.payload.get(name) for name in ("code", "who", "pid", "expiresAt"))
    if not (isinstance(code, str) and isinstance(who, str)):
        return None
    if not (isinstance(pid, int) and isinstance(until, (int, float))):
        return None
    return PairingRequest(code, who, pid, float(until))
