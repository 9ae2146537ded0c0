"""What rooms tell upward: plain values on a bus."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from flycore.model.base import Value
from flycore.model.json import JsonObject


class EventClass(StrEnum):
    """What a subscriber may choose from."""

    TOOL = "tool"
    APPROVAL = "approval"
    QUOTA = "quota"
    AUDIT = "audit"
    CATALOG = "catalog"
    SNAPSHOT = "snapshot"
    PACKAGE = "package"


MISSED = "events.missed"
"""The type that tells a listener that it lost events: whatever it holds may be out of date."""

PAIRING = "console.pairing"
"""A console asks to come in: `code`, `program`, `pid`, and `expiresAt` in Unix seconds."""
FOR_PERSONS = frozenset((PAIRING,))
"""Types that reach consoles which decide already, and nobody else."""


class Event(Value, frozen=True, kw_only=True):
    """Something that happened. `payload` holds ids; whoever wants the whole asks for it."""

    cls: EventClass
    type: str
    """`call.progress`, `call.finished`, `approval.asked`, `approval.decided`, `catalog.changed`, …"""
    at: float
    """Unix time, seconds."""
    payload: JsonObject = {}


Publish = Callable[[Event], None]
"""Hands an event to whoever listens; never blocks, never raises."""
