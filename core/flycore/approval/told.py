"""What the queue tells whoever listens: ids and states, never an input."""

from __future__ import annotations

from flycore.model.approval import Ask
from flycore.model.enums import RequestState
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject

_TYPES = {
    RequestState.WAITING: "approval.asked",
    RequestState.APPROVED: "approval.decided",
    RequestState.DENIED: "approval.decided",
    RequestState.TIMED_OUT: "approval.timed-out",
    RequestState.WITHDRAWN: "approval.withdrawn",
}
CHANGED = "approval.changed"
"""A waiting request is held, shared by more or fewer calls, or has another input."""


def request_event(ask: Ask, at: float, kind: str = "") -> Event:
    """What became of a request; `kind` where its state does not say it."""
    request = ask.request
    payload: JsonObject = {
        "requestId": request.id,
        "callId": request.call_id,
        "tool": request.tool,
        "risk": str(request.risk),
        "state": str(ask.state),
        "by": ask.decided_by,
    }
    return Event(cls=EventClass.APPROVAL, type=kind or _TYPES[ask.state], at=at, payload=payload)
