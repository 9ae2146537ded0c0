"""Pairing of consoles: this one with the kernel of another, and others with the kernel that is here."""

from __future__ import annotations

from functools import partial

from textual.app import App

from flycore.model.events import Event
from flytui.console.controllers.decision_screens import DecisionScreens
from flytui.console.controllers.notifications import Notifications
from flytui.console.kernel_connection import AttachedKernel, PairingRequest
from flytui.console.state import ALL_TOPICS, ConsoleState, SharedState, update_screens


class AttachController:
    """Asks for the pairing code of the kernel that this console is attached to, and shows the consoles that
    ask to pair with the kernel here."""

    def __init__(
        self, app: App[None], shared: SharedState, notifications: Notifications, screens: DecisionScreens
    ) -> None:
        self._app = app
        self._shared = shared
        self._notifications = notifications
        self._screens = screens

    def on_event(self, root: ConsoleState, event: Event) -> None:
        """Keep the list of consoles that ask to pair with the kernel of that root. Events are its only
        source: it cannot be fetched."""
        if event.type == "console.pairing":
            request = parse_pairing_request(event)
            if request is not None:
                others = tuple(it for it in root.open_pairing_requests if it.pid != request.pid)
                root.pairing_requests = (*others, request)
                self._app.bell()
        elif event.type in ("console.attached", "console.refused", "console.left"):
            pid = event.payload.get("pid")
            root.pairing_requests = tuple(it for it in root.open_pairing_requests if it.pid != pid)

    def offer_pairing(self) -> None:
        """Open the line for the code once at every kernel, where nobody is typing. Later a key opens it."""
        for root in self._shared.shown_first:
            attachment = root.attachment
            if attachment is None or not _wants_code(root) or attachment.pairing_offered:
                continue
            if self._shared.several and not (self._screens.idle and self._screens.on_main_or_page):
                return  # its turn comes when the line for the code of another root has been closed
            attachment.pairing_offered = True
            if self._screens.idle and self._screens.on_main_or_page:
                self._open_code(root, attachment)

    def pair(self) -> None:
        """Open the line for a code where this console is a viewer, or else show the console that asks to
        pair. The root that is shown comes before the others."""
        if not self._screens.on_main_or_page:
            return
        roots = self._shared.shown_first
        viewer = next((root for root in roots if _wants_code(root)), None)
        asked = next((root for root in roots if root.open_pairing_requests), None)
        if not self._shared.several and roots[0].lost is not None:
            self._notifications.show("the kernel is gone")
        elif viewer is not None and viewer.attachment is not None:
            self._open_code(viewer, viewer.attachment)
        elif asked is not None:
            from flytui.console.screens.pairing import PairingRequestScreen

            refuse = partial(self._refuse, asked)
            self._app.push_screen(PairingRequestScreen(asked, asked.open_pairing_requests[0], refuse))
        else:
            self._notifications.show("no console asks to be paired")

    def _open_code(self, root: ConsoleState, attachment: AttachedKernel) -> None:
        from flytui.console.screens.pairing import EnterCodeScreen

        self._app.push_screen(EnterCodeScreen(root, attachment), partial(self._on_paired, root))

    def _on_paired(self, root: ConsoleState, paired: bool | None) -> None:
        attachment = root.attachment
        if paired and attachment is not None:
            attachment.paired = True
            self._notifications.show(f"paired with {attachment.holder}: decisions made here count")
            root.refetch(ALL_TOPICS)
        update_screens(self._app, frozenset())

    async def _refuse(self, root: ConsoleState, request: PairingRequest) -> str:
        """Refuse the console its code. Return why it could not be refused; `""` where it was."""
        done = await root.approver.refuse_pairing(request.pid)
        if done:
            root.pairing_requests = tuple(it for it in root.open_pairing_requests if it != request)
            update_screens(self._app, frozenset())
        return "" if done else f"{request.who} does not ask any more"


def _wants_code(root: ConsoleState) -> bool:
    """Whether this console only looks at the kernel of that root, until somebody types its code."""
    return root.attachment is not None and not root.attachment.paired and root.lost is None


def parse_pairing_request(event: Event) -> PairingRequest | None:
    """The pairing request in an event; None where the event lacks a part of it."""
    code, who, pid, until = (event.payload.get(name) for name in ("code", "who", "pid", "expiresAt"))
    if not (isinstance(code, str) and isinstance(who, str)):
        return None
    if not (isinstance(pid, int) and isinstance(until, (int, float))):
        return None
    return PairingRequest(code, who, pid, float(until))
