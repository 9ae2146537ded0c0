"""The events that every part of the kernel publishes on the bus, as plain values."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from flycore.model.base import Value
from flycore.model.json import JsonObject


class EventClass(StrEnum):
    """The classes of events, from which a subscriber chooses."""

    TOOL = "tool"
    APPROVAL = "approval"
    QUOTA = "quota"
    AUDIT = "audit"
    CATALOG = "catalog"
    SNAPSHOT = "snapshot"
    PACKAGE = "package"


MISSED = "events.missed"
"""Type of the event for a subscriber that lost events: what it knows may be out of date."""

PAIRING = "console.pairing"
"""A console asks to come in: `code`, `program`, `pid`, and `expiresAt` in Unix seconds."""
FOR_PERSONS = frozenset((PAIRING,))
"""Types that reach consoles which decide already, and nobody else."""


class Event(Value, frozen=True, kw_only=True):
    """Something that happened. `payload` holds ids, with which a subscriber can read the whole value."""

    cls: EventClass
    type: str
    """The type, such as `call.progress`, `call.finished`, `approval.asked` or `catalog.changed`."""
    at: float
    """Unix time, seconds."""
    payload: JsonObject = {}


Publish = Callable[[Event], None]
"""Hands an event to every subscriber. Never blocks and never raises."""
